package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/report"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// newRun is a run that has uploaded nothing yet.
func newRun(t *testing.T, recordings ...ingest.Recording) (*uploadRun, *console) {
	t.Helper()
	env, shown := newEnv(nil)
	o := &uploadOptions{Env: env, record: report.Begin(t.TempDir(), "devel")}
	t.Cleanup(func() { assert.NoError(t, o.record.Close()) })
	return newUploadRun(o, recordings), shown
}

// The exit code is that of the recording with the worst outcome.
func TestOutcome_SeveralResults_IsTheWorst(t *testing.T) {
	t.Parallel()
	refused := fmt.Errorf("synthetic: %w", clinicaldoc.ErrValidation)
	for name, c := range map[string]struct {
		set  func(*uploadRun)
		want int
	}{
		"all done":             {func(r *uploadRun) { r.last.Created = 2 }, 0},
		"unresolved":           {func(r *uploadRun) { r.last = ingest.Progress{InDoubt: 1, Failed: 1, Created: 1} }, codeUnresolved},
		"failed":               {func(r *uploadRun) { r.last = ingest.Progress{Failed: 1, Processing: 1, Created: 2} }, codeSome},
		"failed earlier":       {func(r *uploadRun) { r.last.Created, r.earlier[ingest.Failed] = 2, 1 }, codeSome},
		"processing":           {func(r *uploadRun) { r.last = ingest.Progress{Created: 2, Processing: 1} }, codePending},
		"processing earlier":   {func(r *uploadRun) { r.last.Created, r.earlier[ingest.Processing] = 2, 1 }, codePending},
		"some refused":         {func(r *uploadRun) { r.last.Created, r.worst = 1, refused }, codeSome},
		"all refused":          {func(r *uploadRun) { r.worst = refused }, codeRefused},
		"all unreachable":      {func(r *uploadRun) { r.worst = clinicaldoc.ErrServer }, codeUnreachable},
		"refused before pends": {func(r *uploadRun) { r.last.Processing, r.worst = 1, refused }, codeRefused},
		"left out":             {func(r *uploadRun) { r.last.Created, r.left = 2, []leftOut{{Reason: "x"}} }, codeSome},
		"left out before pends": {
			func(r *uploadRun) { r.last.Processing, r.left = 1, []leftOut{{Reason: "x"}} }, codeSome,
		},
		"refused, new and old": {
			func(r *uploadRun) { r.last.Created, r.last.AlreadyThere, r.worst = 1, 1, refused }, codeSome,
		},
		"not printed": {func(r *uploadRun) { r.last.Created, r.broken = 2, syscall.ENOSPC }, codeOther},
	} {
		r, _ := newRun(t, ingest.Recording{File: "a.wav"}, ingest.Recording{File: "b.wav"})
		c.set(r)
		err := r.outcome(t.Context(), nil)
		got := 0
		if err != nil {
			got = exitCode(t.Context(), err)
		}
		assert.Equal(t, c.want, got, "%s: %v", name, err)
	}
}

// The exit code of a run that ended early shows the cause, unless something is unresolved, which counts more.
func TestOutcome_RunEndedEarly_CodeIsItsCause(t *testing.T) {
	t.Parallel()
	gone := fmt.Errorf("%w: %w", clinicaldoc.ErrInvalidArgument, fs.ErrNotExist)
	for name, c := range map[string]struct {
		ended   error
		inDoubt int
		want    int
	}{
		"unauthorized":         {clinicaldoc.ErrUnauthorized, 0, codeUnauthorized},
		"share is not mounted": {gone, 0, codeUnreachable},
		"outcome unknown":      {clinicaldoc.ErrOutcomeUnknown, 0, codeUnreachable},
		"unresolved":           {clinicaldoc.ErrUnauthorized, 1, codeUnresolved},
	} {
		r, _ := newRun(t)
		r.last.InDoubt = c.inDoubt
		assert.Equal(t, c.want, exitCode(t.Context(), r.outcome(t.Context(), c.ended)), name)
	}
	assert.Equal(t, codeRefused, uploadKind(clinicaldoc.ErrInvalidArgument).code,
		"in an upload it is a file that is invalid, not the command line")
}

func TestOutcome_FailedAndRefused_NamesBoth(t *testing.T) {
	t.Parallel()
	r, _ := newRun(t, ingest.Recording{File: "a.wav"}, ingest.Recording{File: "b.wav"})
	r.last = ingest.Progress{Created: 1, Failed: 1, Refused: 1}
	r.worst = clinicaldoc.ErrValidation
	require.ErrorContains(t, r.outcome(t.Context(), nil),
		"1 recording could not be processed by the service; 1 of 2 recordings was refused, such as: ")
}

func TestSum_RecordingsWithoutResult_AreCounted(t *testing.T) {
	t.Parallel()
	for done, want := range map[int]string{1: "2 not sent or not finished", 2: "1 not sent or not finished", 3: ""} {
		r, shown := newRun(t, make([]ingest.Recording, 3)...)
		r.last.Created = done
		r.sum(t.Context())
		line, _, _ := strings.Cut(shown.err.String(), "; notes: ")
		_, left, _ := strings.Cut(line, "0 unresolved")
		assert.Equal(t, want, strings.TrimPrefix(left, ", "))
	}
}

// The report names the cause in words that somebody can act on in the morning.
func TestReasonOf_EachCause_IsInWords(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"the journal is damaged":                         ingest.ErrJournalDamaged,
		"the recordings could no longer be read":         errors.Join(clinicaldoc.ErrInvalidArgument, fs.ErrNotExist),
		"the disk is full: no space left on device":      syscall.ENOSPC,
		"another upload was using the journal":           clinicaldoc.ErrInUse,
		"the service could not be reached":               &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
		"the service, or a proxy before it, was failing": clinicaldoc.ErrServer,
	} {
		assert.Equal(t, want, reasonOf(t.Context(), fmt.Errorf("%w", err)))
	}
}

// If several recordings are refused, a refusal that stays decides the exit code, and not one that may pass.
func TestResult_SeveralRefusals_WorstDecides(t *testing.T) {
	t.Parallel()
	passes, stays := clinicaldoc.ErrServer, clinicaldoc.ErrValidation
	for _, order := range [][]error{{passes, stays}, {stays, passes}, {stays, clinicaldoc.ErrTooLarge}, {passes, stays, passes}} {
		r, _ := newRun(t)
		for _, err := range order {
			r.result(t.Context(), &ingest.Result{Recording: ingest.Recording{File: "a.wav"}, Status: ingest.Refused, Err: err})
		}
		assert.Equal(t, stays, r.worst, order)
	}
}

func TestResult_WithoutReveal_NamesNoFile(t *testing.T) {
	t.Parallel()
	for _, reveal := range []bool{false, true} {
		for _, form := range []string{"", allMembers} {
			r, shown := newRun(t, ingest.Recording{File: "/canary/visit.wav"})
			r.reveal = reveal
			r.json = form
			r.result(t.Context(), &ingest.Result{Recording: r.recordings[0], Status: ingest.Created, NoteID: 5})
			assert.Equal(t, reveal, strings.Contains(shown.out.String()+r.label(1), "canary"))
		}
	}
}

func TestPause_NextTry_IsNamedWithItsTime(t *testing.T) {
	t.Parallel()
	r, shown := newRun(t)
	next := time.Date(2026, 3, 1, 22, 10, 0, 0, time.FixedZone("", 3600))
	r.pause(&ingest.Pause{Why: clinicaldoc.ErrServer, Next: next})
	assert.Contains(t, shown.err.String(), "; trying again at 2026-03-01T21:10:00Z\n")
}

// Recordings end in any order. Their keys are printed in the same order each time.
func TestNoteKeys_AnyOrder_AreSorted(t *testing.T) {
	t.Parallel()
	r, shown := newRun(t)
	r.failed = []string{"0c", "0a", "0b"}
	r.doubts = []string{"1b", "1c", "1a"}
	r.noteKeys()
	assert.Equal(t, "failed: 0a 0b 0c\nunresolved: 1a 1b 1c\n", shown.err.String())
}

func TestSummary_EachCount_HasItsMember(t *testing.T) {
	t.Parallel()
	r, _ := newRun(t, make([]ingest.Recording, 12)...)
	r.record.Run.ID = "run"
	r.last = ingest.Progress{
		Created: 1, AlreadyThere: 2, Refused: 3, InDoubt: 4, Complete: 5, Processing: 6, Failed: 7, SentAgain: 8,
	}
	r.left = make([]leftOut, 9)
	r.earlier = map[ingest.Status]int{ingest.Complete: 10, ingest.Processing: 11, ingest.Failed: 13}
	text, err := json.Marshal(r.summary(14))
	require.NoError(t, err)
	assert.JSONEq(t, `{"report":"run","recordings":12,"created":1,"already_there":2,"refused":3,"unresolved":4,
		"complete":5,"processing":6,"failed":7,"sent_again":8,"left_out":9,"earlier_complete":10,
		"earlier_processing":11,"earlier_failed":13,"not_finished":14}`, string(text))
}

func TestResult_OfAnEarlierUpload_IsNotThisOnes(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	env, _ := newEnv(nil)
	o := &uploadOptions{Env: env, record: report.Begin(folder, "devel")}
	r := newUploadRun(o, nil)
	r.result(t.Context(), &ingest.Result{Status: ingest.Failed, Earlier: true, NoteID: 5})
	r.result(t.Context(), &ingest.Result{Recording: ingest.Recording{File: "a.wav"}, Status: ingest.Created, NoteID: 6})
	require.NoError(t, o.record.Close())
	runs, err := report.List(folder, "")
	require.NoError(t, err)
	require.Len(t, runs, 1)
	run := runs[0]
	require.Len(t, run.Recordings, 1)
	assert.Equal(t, int64(6), run.Recordings[0].NoteID)
	require.Len(t, run.Followed, 1)
	assert.Equal(t, int64(5), run.Followed[0].NoteID)
}

// The report names what to compare an unresolved recording with.
func TestResult_Unresolved_NamesWhatToCompareWith(t *testing.T) {
	t.Parallel()
	for want, candidates := range map[string][]int64{"the patient's notes": nil, "the notes that are named": {5}} {
		folder := t.TempDir()
		env, _ := newEnv(nil)
		o := &uploadOptions{Env: env, record: report.Begin(folder, "devel")}
		r := newUploadRun(o, []ingest.Recording{{File: "a.wav"}})
		result := &ingest.Result{Recording: r.recordings[0], Status: ingest.InDoubt, Candidates: candidates}
		r.result(t.Context(), result)
		require.NoError(t, o.record.Close())
		runs, err := report.List(folder, "")
		require.NoError(t, err)
		require.Len(t, runs, 1)
		assert.Contains(t, runs[0].Recordings[0].Do, "compare the recording with "+want+", then run ")
	}
}

// A created note ends the row of its upload, also if the note was found and nothing was uploaded.
func TestEvent_NoteIsCreated_EndsTheRow(t *testing.T) {
	t.Parallel()
	r, _ := newRun(t, ingest.Recording{File: "a.wav"})
	created := ingest.Event{Recording: r.recordings[0], State: ingest.StateCreated}
	r.event(created)
	r.move(1, 5, 10)
	require.Len(t, r.rows, 1)
	r.event(created)
	assert.Empty(t, r.rows)
}

func TestPlace_PasswordOrTwoPlaces_IsRejected(t *testing.T) {
	t.Parallel()
	for _, nats := range []string{"nats://user:password@queue.example", "nats://token@queue.example", "nats://a,user:password@b"} {
		require.Error(t, (&journalPlace{nats: nats}).checkPlace(), nats)
	}
	require.NoError(t, (&journalPlace{nats: "nats://queue.example:4222"}).checkPlace())
	both := journalPlace{nats: "nats://queue.example", journal: "x"}
	require.Error(t, both.checkPlace(), "a journal is in one place")
}

func TestResolve_TwoDecisions_AreRejected(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o     resolveOptions
		fails bool
	}{
		{resolveOptions{}, false}, {resolveOptions{note: 5}, false}, {resolveOptions{none: true, force: true}, false},
		{resolveOptions{note: 5, none: true}, true}, {resolveOptions{none: true, sendAgain: true}, true},
		{resolveOptions{note: -1}, true}, {resolveOptions{note: 5, force: true}, true},
	} {
		assert.Equal(t, c.fails, c.o.checkDecision() != nil, "%+v", c.o)
	}
}

func TestDryRun_RefusedRecordings_EndsAsTheUpload(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ total, refused, want int }{{2, 0, 0}, {2, 1, codeSome}, {2, 2, codeRefused}, {1, 1, codeRefused}} {
		err := (&uploadOptions{}).checkedOutcome(c.total, c.refused, ingest.ErrCutShort)
		got := 0
		if err != nil {
			got = exitCode(t.Context(), err)
		}
		assert.Equal(t, c.want, got, "%+v", c)
	}
}

func TestDryRun_Signal_EndsIt(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "visit.wav")
	require.NoError(t, os.WriteFile(file, []byte("%PDF-1.7 synthetic"), 0o600))
	env, shown := newEnv(nil)
	o := &uploadOptions{Env: env, paths: []string{file}, patient: 7, prompt: 1, workers: 1}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&signalError{os.Interrupt})
	assert.Equal(t, 130, exitCode(ctx, o.dryRun(ctx)))
	assert.Empty(t, shown.out.String(), "no further recording is read")
}

func TestCandidates_ManyNotes_AreBounded(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	var ids []int64
	for range 6 {
		ids = append(ids, srv.AddNote(clinicaldoctest.Note{}))
	}
	r, _ := newRun(t)
	r.compare = srv.Client()
	for range 30 {
		assert.Len(t, r.candidates(t.Context(), ids), maxReported)
	}
	assert.LessOrEqual(t, requestsTo(srv, clinicaldoctest.RouteGetNote), maxReportedReads)

	r.compared = 0
	require.Len(t, r.candidates(t.Context(), []int64{99, ids[0]}), 2)
	found := r.candidates(t.Context(), []int64{99, ids[0]})
	assert.True(t, found[0].CreatedAt.IsZero(), "it was deleted")
	assert.False(t, found[1].CreatedAt.IsZero(), "which hides no other")

	srv.Inject(clinicaldoctest.RouteGetNote, clinicaldoctest.Answer(http.StatusForbidden, "{}").Always())
	assert.Len(t, r.candidates(t.Context(), ids[:2]), 2)
	assert.Nil(t, r.compare, "a service that does not answer is not asked again")
}

// deadlines are those of the requests that a client makes.
type deadlines struct {
	http.RoundTripper
	left []time.Duration
}

func (d *deadlines) RoundTrip(r *http.Request) (*http.Response, error) {
	if end, ok := r.Context().Deadline(); ok {
		d.left = append(d.left, time.Until(end))
	}
	return d.RoundTripper.RoundTrip(r)
}

// What somebody has to compare is read for a while also after Ctrl-C, but a silent service does not hold up the end.
func TestCandidates_AfterCtrlC_AreReadForAWhile(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	id := srv.AddNote(clinicaldoctest.Note{})
	seen := &deadlines{RoundTripper: srv.Transport()}
	r, _ := newRun(t)
	r.compare = srv.Client(clinicaldoc.WithHTTPClient(&http.Client{Transport: seen}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.False(t, r.candidates(ctx, []int64{id})[0].CreatedAt.IsZero())
	require.Len(t, seen.left, 1)
	assert.LessOrEqual(t, seen.left[0], candidateTime)
}

// uploading is an upload of one recording to a server, with a journal that it begins.
func uploading(t *testing.T, srv *clinicaldoctest.Server, recording []byte) (*uploadOptions, listing, *console) {
	t.Helper()
	env, shown := newEnv(srv)
	folder := t.TempDir()
	file := filepath.Join(folder, "visit.mp3")
	require.NoError(t, os.WriteFile(file, recording, 0o600))
	o := &uploadOptions{
		Env: env, workers: 1, until: "complete", maxWait: time.Minute, maxPause: time.Minute, unchecked: true,
		record: report.Begin(t.TempDir(), "devel"),
	}
	o.journal = filepath.Join(folder, "uploads.journal")
	o.begin = true
	t.Cleanup(func() { assert.NoError(t, o.record.Close()) })
	return o, func(context.Context) ([]ingest.Recording, error) {
		return []ingest.Recording{{File: file, Params: clinicaldoc.CreateNoteParams{Name: "Visit", PatientID: 7, PromptID: 1}}}, nil
	}, shown
}

// within bounds a call that must not wait.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// together lets uploads begin only when there are as many, or the context ends.
func together(ctx context.Context, uploads int32) func(http.Handler) http.Handler {
	var begun atomic.Int32
	all := make(chan struct{})
	return func(api http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				if begun.Add(1) == uploads {
					close(all)
				}
				select {
				case <-all:
				case <-ctx.Done():
				}
			}
			api.ServeHTTP(w, r)
		})
	}
}

func TestUpload_EachOption_ReachesTheUploader(t *testing.T) {
	t.Parallel()
	slow := clinicaldoctest.WithDelays(clinicaldoctest.Delays{Transcribing: time.Hour})
	t.Run("max-wait 0 looks once", func(t *testing.T) {
		t.Parallel()
		o, list, _ := uploading(t, newServer(t, slow), []byte("synthetic"))
		o.maxWait = 0
		ctx := within(t)
		assert.Equal(t, codePending, exitCode(ctx, o.run(ctx, list)))
		require.NoError(t, ctx.Err())
	})
	t.Run("until uploaded does not wait", func(t *testing.T) {
		t.Parallel()
		o, list, _ := uploading(t, newServer(t, slow), []byte("synthetic"))
		o.until = "uploaded"
		require.NoError(t, o.run(within(t), list))
	})
	t.Run("max-pause 0 ends at once", func(t *testing.T) {
		t.Parallel()
		srv := newServer(t)
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(http.StatusForbidden, "{}"))
		srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Answer(http.StatusServiceUnavailable, "{}").Always())
		o, list, _ := uploading(t, srv, []byte("synthetic"))
		o.maxPause = 0
		o.retries = 0
		ctx := within(t)
		require.Error(t, o.run(ctx, list))
		require.NoError(t, ctx.Err())
	})
	t.Run("as many workers as are wanted upload at the same time", func(t *testing.T) {
		t.Parallel()
		const workers = 6
		ctx := within(t)
		o, _, _ := uploading(t, newServer(t, clinicaldoctest.WithMiddleware(together(ctx, workers))), nil)
		o.until = "uploaded"
		o.workers = workers
		folder := t.TempDir()
		o.paths = []string{folder}
		o.patient = 7
		o.prompt = 1
		for i := range workers {
			file := filepath.Join(folder, fmt.Sprintf("visit-%d.wav", i))
			require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "synthetic %d", i), 0o600))
		}
		require.NoError(t, o.run(ctx, o.recordings))
	})
	t.Run("settle is the uploader's, which rejects a negative one", func(t *testing.T) {
		t.Parallel()
		o, list, _ := uploading(t, newServer(t), []byte("synthetic"))
		o.settle = -time.Second
		require.ErrorContains(t, o.run(within(t), list), "Settle must not be negative")
	})
	t.Run("trust-patient-filter accepts rows without a patient", func(t *testing.T) {
		t.Parallel()
		srv := newServer(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{Patient: clinicaldoctest.PatientUnnamed}))
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		o, list, _ := uploading(t, srv, []byte("synthetic"))
		o.until = "uploaded"
		o.unique = true
		o.trust = true
		o.maxPause = 0
		require.NoError(t, o.run(within(t), list))
		assert.Len(t, srv.Notes(), 1)
	})
	t.Run("recordings are checked", func(t *testing.T) {
		t.Parallel()
		srv := newServer(t)
		o, list, _ := uploading(t, srv, []byte("%PDF-1.4 synthetic"))
		o.unchecked = false
		ctx := within(t)
		assert.Equal(t, codeRefused, exitCode(ctx, o.run(ctx, list)))
		assert.Empty(t, srv.Notes())
	})
	t.Run("a journal is begun by a word alone", func(t *testing.T) {
		t.Parallel()
		srv := newServer(t)
		o, list, _ := uploading(t, srv, []byte("synthetic"))
		o.begin = false
		ctx := within(t)
		require.ErrorContains(t, o.run(ctx, list), "there is no journal")
		assert.NoFileExists(t, o.journal)
		assert.Empty(t, srv.Notes())
	})
}

// journalLines writes a journal of these lines.
func journalLines(t *testing.T, path string, lines ...string) {
	t.Helper()
	var content strings.Builder
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := uint32(0)
	for _, line := range lines {
		sum = crc32.Update(sum, table, []byte(line))
		fmt.Fprintf(&content, "%08x %s\n", sum, line)
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content.String()), 0o600))
}

const journalValues = " patient=9a8b7c6d name=01234567 size=48044 sent=2026-01-02T03:04:04.5Z"

func journalHeader(service string, user int) string {
	return fmt.Sprintf("clinicaldoc-ingest 3 %s user=%d headers=none", service, user)
}

func TestStatus_Journal_ListsWhatNeedsADecision(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "uploads.journal")
	later := strings.Replace(journalValues, "sent=2026-01-02T03:04:04.5Z", "sent=2026-01-02T03:04:04.9Z", 1)
	journalLines(t, path, journalHeader("https://service.example", 1),
		"2026-01-02T03:04:05Z committing 01230000000000000000000000000000"+later,
		"2026-01-02T03:04:05Z in-doubt 01240000000000000000000000000000"+journalValues+" until=2026-01-02T03:14:05Z",
		"2026-01-02T03:04:05Z created 01250000000000000000000000000000"+journalValues+" note=7 stage=failed",
		"2026-01-02T03:04:05Z created 01260000000000000000000000000000"+journalValues+" note=8 stage=complete")
	s, err := readStatus(t.Context(), path)
	require.NoError(t, err)
	assert.Equal(t, [4]int{2, 1, 1, 1}, [4]int{s.Created, s.Complete, s.Failed, s.Unresolved})
	require.Len(t, s.ToResolve, 2, "what a killed upload left is one")
	assert.Equal(t, "012400000000", s.ToResolve[0].Key, "it was sent first")
	assert.Equal(t, []string{"unresolved", "committing"}, []string{s.ToResolve[0].State, s.ToResolve[1].State})
	until := time.Date(2026, 1, 2, 3, 14, 5, 0, time.UTC)
	assert.True(t, until.Equal(s.ToResolve[0].Until), "from then on it can be decided")
	require.Len(t, s.Failures, 1)
	assert.Equal(t, int64(7), s.Failures[0].NoteID)
}

func TestJournal_SeveralOwners_FindsOwn(t *testing.T) {
	state := t.TempDir()
	t.Setenv("CLINICALDOC_STATE_DIR", state)
	journals := filepath.Join(state, "journals")
	find := func() (string, error) {
		place := &journalPlace{}
		err := place.findJournal(t.Context(), "https://service.example", 1)
		return place.journal, err
	}
	journalLines(t, filepath.Join(journals, "another.journal"), journalHeader("https://service.example", 2))
	path, err := find()
	require.NoError(t, err)
	assert.NotEqual(t, filepath.Join(journals, "another.journal"), path, "another user's")

	journalLines(t, filepath.Join(journals, "old.journal"), journalHeader("https://service.example", 1))
	path, err = find()
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(journals, "old.journal"), path)

	journalLines(t, filepath.Join(journals, "older.journal"), journalHeader("https://service.example", 1))
	_, err = find()
	require.ErrorContains(t, err, "several journals")
}

// The name of the folder for state is not a pattern.
func TestJournal_FolderWithBrackets_IsFound(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state [1]")
	t.Setenv("CLINICALDOC_STATE_DIR", state)
	path := filepath.Join(state, "journals", "old.journal")
	journalLines(t, path, journalHeader("https://service.example", 1))
	place := &journalPlace{}
	require.NoError(t, place.findJournal(t.Context(), "https://service.example", 1))
	assert.Equal(t, path, place.journal)
	env, shown := newEnv(nil)
	require.NoError(t, env.journalStatus(t.Context(), "", &format{}))
	assert.Contains(t, shown.out.String(), path)
}

func TestRename_OtherJournal_IsNotReplaced(t *testing.T) {
	state := t.TempDir()
	t.Setenv("CLINICALDOC_STATE_DIR", state)
	srv := newServer(t)
	env, _ := newEnv(srv)
	own := filepath.Join(state, "journals", journalName(srv.URL, 1)+".journal")
	from := filepath.Join(state, "journals", "from.journal")
	journalLines(t, own, journalHeader(ingest.ServiceName(srv.URL), 1), "2026-02-03T04:05:07Z gap")
	journalLines(t, from, journalHeader("https://old.example", 1))
	before, err := os.ReadFile(own)
	require.NoError(t, err)
	require.ErrorContains(t, (&uploadOptions{Env: env}).rename(t.Context(), from), "have a journal already")
	after, err := os.ReadFile(own)
	require.NoError(t, err)
	assert.Equal(t, before, after)
}

func TestResolve_AmbiguousKey_IsRefused(t *testing.T) {
	state := t.TempDir()
	t.Setenv("CLINICALDOC_STATE_DIR", state)
	srv := newServer(t)
	own := filepath.Join(state, "journals", journalName(srv.URL, 1)+".journal")
	journalLines(t, own, journalHeader(ingest.ServiceName(srv.URL), 1),
		"2026-01-02T03:04:05Z in-doubt 01230000000000000000000000000000"+journalValues+" until=2026-01-02T03:14:05Z",
		"2026-01-02T03:04:05Z in-doubt 01231000000000000000000000000000"+journalValues+" until=2026-01-02T03:14:05Z",
		"2026-01-02T03:04:05Z in-doubt 77770000000000000000000000000000"+journalValues+" until=2026-01-02T03:14:05Z")
	decide := func(key string) error {
		env, _ := newEnv(srv)
		return (&resolveOptions{uploadOptions: uploadOptions{Env: env}, key: key, none: true}).run(t.Context())
	}
	for key, want := range map[string]string{"0123": "2 unresolved", "7": "1 unresolved", "": "3 unresolved"} {
		require.ErrorContains(t, decide(key), want, key)
	}
	require.NoError(t, decide("01230"))
}

// What a killed upload left can be decided too. A key may be typed in capitals.
func TestResolve_KilledUpload_IsFoundByItsKey(t *testing.T) {
	state := t.TempDir()
	t.Setenv("CLINICALDOC_STATE_DIR", state)
	srv := newServer(t)
	own := filepath.Join(state, "journals", journalName(srv.URL, 1)+".journal")
	journalLines(t, own, journalHeader(ingest.ServiceName(srv.URL), 1),
		"2026-01-02T03:04:05Z committing abcd0000000000000000000000000000"+journalValues)
	env, shown := newEnv(srv)
	root := New(env)
	root.SetArgs([]string{"upload", "resolve", "ABCD"})
	require.NoError(t, root.ExecuteContext(t.Context()))
	assert.Contains(t, shown.err.String(), "clinicaldoc upload resolve abcd00000000 --note ID")
}

func TestNotResolved_OtherRecordingOrPatient_IsNamed(t *testing.T) {
	t.Parallel()
	o := &resolveOptions{note: 5}
	for err, want := range map[error]string{
		ingest.ErrKeyReused: "another recording", clinicaldoc.ErrPatientMismatch: "another patient",
	} {
		refused := o.notResolved(err)
		require.EqualError(t, refused, "note 5 belongs to "+want)
		assert.Equal(t, codeRefused, exitCode(t.Context(), refused))
	}
}

// In cron, only one of the variables may be set.
func TestWhoSays_EachVariable_NamesTheUser(t *testing.T) { //nolint:paralleltest // it sets variables
	names := []string{"USER", "LOGNAME", "USERNAME"}
	for _, set := range names {
		for _, name := range names {
			t.Setenv(name, "")
		}
		t.Setenv(set, "tester")
		assert.Equal(t, "tester", whoSays(), set)
	}
}

// A recording that was moved is sent from where the newest report has it.
func TestRecordingsByKey_SeveralReports_NewestCounts(t *testing.T) {
	t.Parallel()
	known := recordingsByKey([]report.Run{
		{Recordings: []report.Recording{{Key: "a", File: "/old/a.wav"}, {Key: "b", File: "/b.wav"}}},
		{Recordings: []report.Recording{{Key: "a", File: "/new/a.wav"}}},
	})
	assert.Equal(t, "/new/a.wav", known["a"].File)
	assert.Equal(t, "/b.wav", known["b"].File)
}

func TestRetry_EarlierUploads_SendsOnlyWhatIsLeft(t *testing.T) {
	state := t.TempDir()
	t.Setenv("CLINICALDOC_STATE_DIR", state)
	srv := newServer(t)
	service := ingest.ServiceName(srv.URL)
	folder := filepath.Join(state, "reports")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	write := func(id, service string, recordings ...report.Recording) {
		lines := []map[string]any{{"run": report.Run{ID: id, Began: time.Now(), Ended: time.Now(), Service: service, Code: codeSome}}}
		for _, r := range recordings {
			member := "recording"
			if r.File == "" { // one of an earlier upload
				member = "followed"
			}
			lines = append(lines, map[string]any{member: r})
		}
		var text []byte
		for _, line := range lines {
			encoded, err := json.Marshal(line)
			require.NoError(t, err)
			text = append(append(text, encoded...), '\n')
		}
		require.NoError(t, os.WriteFile(filepath.Join(folder, id+".jsonl"), text, 0o600))
	}
	write("20260101T000000.000Z-a", service,
		report.Recording{Key: "a", File: "/a.wav", Status: report.Refused, Patient: 6},
		report.Recording{Key: "b", File: "/b.wav", Status: report.Refused, Patient: 6},
		report.Recording{Key: "c", File: "/c.wav", Status: report.Refused, Patient: 6})
	write("20260101T120000.000Z-d", service,
		report.Recording{Key: "d", File: "/d.wav", OwnKey: "E1-", Status: report.Processing, Patient: 6})
	write("20260102T000000.000Z-b", "https://elsewhere.example", report.Recording{Key: "c", File: "/c.wav", Status: report.Created, Patient: 7})
	write("20260103T000000.000Z-c", service,
		report.Recording{Key: "a", File: "/a.wav", Status: report.Created, Patient: 7},
		report.Recording{Key: "b", File: "/b.wav", Status: report.Refused, Patient: 7},
		report.Recording{Key: "d", Status: report.Failed})
	env, _ := newEnv(srv)
	left := func(which string) map[string]string {
		list, err := (&uploadOptions{Env: env}).leftOver(which, service, 1)
		require.NoError(t, err)
		wanted := map[string]string{}
		for _, r := range list {
			wanted[r.File] += fmt.Sprintf("%s%d", r.Key, r.Params.PatientID)
		}
		return wanted
	}
	assert.Equal(t, map[string]string{"/b.wav": "7", "/d.wav": "E1-6"}, left(""), "the newest report counts")
	assert.Equal(t, map[string]string{"/b.wav": "7", "/c.wav": "6", "/d.wav": "E1-6"}, left("2026"),
		"each once, with what was said last")
}

func TestReport_List_HasTheTimeOfTheBeginning(t *testing.T) {
	t.Parallel()
	env, shown := newEnv(nil)
	began := time.Date(2026, 3, 1, 22, 0, 0, 0, time.UTC)
	runs := []report.Run{{ID: "run", Began: began, Ended: began.Add(time.Hour), Code: codeUsage}}
	require.NoError(t, (&reportOptions{Env: env}).table(runs))
	assert.Equal(t, "run\t2026-03-01T22:00:00Z\t2\tNothing was sent\n", shown.out.String())
}

func TestUpload_Report_HasTheExitCode(t *testing.T) {
	state := t.TempDir()
	t.Setenv("CLINICALDOC_STATE_DIR", state)
	env, _ := newEnv(nil)
	o := &uploadOptions{Env: env}
	err := o.runRecorded(t.Context(), func(context.Context) ([]ingest.Recording, error) { return nil, clinicaldoc.ErrServer })
	require.ErrorIs(t, err, clinicaldoc.ErrServer)
	runs, err := report.List(filepath.Join(state, "reports"), "")
	require.NoError(t, err)
	require.Len(t, runs, 1)
	assert.Equal(t, codeUnreachable, runs[0].Code)
}

// The time that is named is still to come, and is not called the end of the search.
func TestLostText_SecondNight_NamesNoPastTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 22, 0, 0, 0, time.UTC)
	first := lostText(now, now.Add(10*time.Minute))
	assert.Contains(t, first, "cannot rule out a note before 2026-03-01T22:10:00Z")
	assert.NotContains(t, first, "at the latest")
	assert.NotContains(t, lostText(now.Add(24*time.Hour), now), "2026", "the second night")
}

// People at a terminal do not know the methods of the library, so errors show the route instead.
func TestErrorText_Method_IsReplacedByRoute(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"clinicaldoc: Notes.Get (GET /v1/progress-notes/{id}): 404 Not Found": "GET /v1/progress-notes/{id}: 404 Not Found",
		"1 failed: Notes.Create (POST /v1/progress-notes): 422":               "1 failed: POST /v1/progress-notes: 422",
		"gaps: no note: clinicaldoc: Notes.Create (POST /v1/notes): 422":      "no note: POST /v1/notes: 422",
		"a file (a.wav) of Visit (second)":                                    "a file (a.wav) of Visit (second)",
	} {
		assert.Equal(t, want, errorText(errors.New(text)))
	}
}

// After Ctrl-C, the command waits for the response to an upload that is complete, and prints its note in every format.
func TestResult_AfterCtrlC_IsPrinted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for flag, want := range map[string]string{"jq": "5\n", "template": "5", "json": `{"note_id":5}` + "\n"} {
		var out bytes.Buffer
		o := &uploadOptions{Env: &Env{IO: &output.IO{Out: &out, Err: io.Discard}}, record: report.Begin(t.TempDir(), "devel")}
		switch flag {
		case "jq":
			require.NoError(t, o.jq.Set(".note_id"))
		case "template":
			require.NoError(t, o.template.Set("{{.note_id}}"))
		default:
			o.json = "note_id"
		}
		r := newUploadRun(o, nil)
		r.result(ctx, &ingest.Result{Recording: ingest.Recording{File: "/nowhere/visit.wav"}, Status: ingest.Created, NoteID: 5})
		require.NoError(t, r.broken, flag)
		assert.Equal(t, want, out.String(), flag)
		require.NoError(t, o.record.Close())
	}
}
