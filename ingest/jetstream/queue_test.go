package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// filed is a recording in a file.
func filed(tb testing.TB, dir string, n int) ingest.Recording {
	tb.Helper()
	path := filepath.Join(dir, fmt.Sprintf("%d.wav", n))
	require.NoError(tb, os.WriteFile(path, content(n), 0o600))
	params := clinicaldoc.CreateNoteParams{Name: fmt.Sprintf("Encounter #%d.", n), PatientID: int64(1 + n%3), PromptID: 1}
	return ingest.Recording{Key: fmt.Sprint("encounter ", n), File: path, Params: params}
}

func publish(tb testing.TB, f *Fleet, dir string, count int) {
	tb.Helper()
	for n := range count {
		require.NoError(tb, f.Publish(tb.Context(), filed(tb, dir, n)))
	}
}

// contents returns the first recordings, each of which the service must have once.
func contents(count int) (all [][]byte) {
	for n := range count {
		all = append(all, content(n))
	}
	return all
}

// drain works until the queue is empty, and returns how many recordings had each ending.
func drain(t *testing.T, f *Fleet, u *ingest.Uploader) map[Ending]int {
	t.Helper()
	endings := map[Ending]int{}
	for result, err := range f.Drain(t.Context(), u) {
		require.NoError(t, err)
		endings[result.Ending]++
	}
	return endings
}

func messages(t *testing.T, f *Fleet) int {
	t.Helper()
	info, err := f.queue.stream.Info(t.Context())
	require.NoError(t, err)
	return int(info.State.Msgs)
}

func letters(t *testing.T, f *Fleet) (all []DeadLetter) {
	t.Helper()
	for letter, err := range f.DeadLetters(t.Context()) {
		require.NoError(t, err)
		all = append(all, letter)
	}
	return all
}

func TestDrain_PublishedSeveralTimes_UploadsEachRecordingOnce(t *testing.T) {
	t.Parallel()
	srv, s, dir := clinicaldoctest.NewServer(), startServer(t), t.TempDir()
	t.Cleanup(srv.Close)
	f := openFleet(t, connect(t, s), Params{})
	publish(t, f, dir, 20)
	publish(t, f, dir, 20) // it waits there once
	assert.Equal(t, 20, messages(t, f))
	u := &ingest.Uploader{Client: srv.Client()}
	assert.Equal(t, map[Ending]int{Done: 20}, drain(t, f, u))
	assert.Zero(t, u.Workers, "the caller's uploader stays as it is")
	assert.Nil(t, u.Journal)
	require.NoError(t, srv.CreatedOnce(contents(20)...))
	publish(t, f, dir, 20) // the journal knows
	assert.Equal(t, map[Ending]int{Done: 20}, drain(t, f, u))
	require.NoError(t, srv.CreatedOnce(contents(20)...))
	assert.Empty(t, letters(t, f))
}

// A file was still being copied when it was published, so its key was computed from a part of it. The complete file
// becomes one note, under its own key.
func TestWork_FileChangedInTheQueue_IsNotUploadedUnderItsOldKey(t *testing.T) {
	t.Parallel()
	srv, dir := clinicaldoctest.NewServer(), t.TempDir()
	t.Cleanup(srv.Close)
	f := openFleet(t, connect(t, startServer(t)), Params{})
	r := filed(t, dir, 0)
	r.Key = ""
	whole := content(0)
	require.NoError(t, os.WriteFile(r.File, whole[:len(whole)/2], 0o600))
	require.NoError(t, f.Publish(t.Context(), r))
	require.NoError(t, os.WriteFile(r.File, whole, 0o600))
	for _, want := range []Ending{Later, Done} {
		for result, err := range f.Drain(t.Context(), &ingest.Uploader{Client: srv.Client()}) {
			require.NoError(t, err)
			if result.Ending == want { // the first one may have rested
				break
			}
		}
		require.NoError(t, f.Publish(t.Context(), r)) // the second time it is there already
	}
	require.NoError(t, srv.CreatedOnce(whole))
}

// Publish returns nil only if the recording waits in the queue.
func TestPublish_ReturnsNilOnlyIfItWaits(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func(*jetstream.StreamConfig){
		"messages": func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 },
		"bytes":    func(c *jetstream.StreamConfig) { c.MaxBytes = 3000 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, dir := openFleet(t, connect(t, startServer(t)), Params{}), t.TempDir()
			config := f.queue.stream.CachedInfo().Config
			limit(&config)
			_, err := f.store.js.UpdateStream(t.Context(), config)
			require.NoError(t, err)
			stored := 0
			for n := range 50 {
				err := f.Publish(t.Context(), filed(t, dir, n))
				if err != nil {
					require.ErrorIs(t, err, ErrQueueFull)
					continue
				}
				stored++
			}
			assert.Equal(t, messages(t, f), stored)
			assert.Less(t, stored, 50)
			require.NoError(t, f.Publish(t.Context(), filed(t, dir, 0)), "it waits there")
			assert.Equal(t, messages(t, f), stored)
		})
	}
	f, dir := openFleet(t, connect(t, startServer(t)), Params{}), t.TempDir()
	name, called, extra := filed(t, dir, 1), filed(t, dir, 1), filed(t, dir, 1)
	name.Params.Name, called.Params.BeforeCommit = "\xff", func(context.Context) error { return nil }
	extra.Params.Extra = map[string]string{"department": "1"}
	for i, recording := range []ingest.Recording{
		{Key: "a"}, {Key: "a", File: "relative.wav"}, {File: filepath.Join(dir, "none.wav")},
		{Key: strings.Repeat("k", 1025), File: name.File}, {Key: "a", SHA256: "none", File: name.File},
		{Key: "M\xfcller", File: name.File}, {Key: "a", File: name.File + "\xff"}, name, called, extra,
		{Key: "a", File: name.File, Params: clinicaldoc.CreateNoteParams{Audio: clinicaldoc.AudioBytes("a.wav", content(1))}},
	} {
		require.ErrorIs(t, f.Publish(t.Context(), recording), clinicaldoc.ErrInvalidArgument, i)
	}
	require.NoError(t, f.Publish(t.Context(), filed(t, dir, 3)))
	moved, patient, longer := filed(t, dir, 3), filed(t, dir, 3), filed(t, dir, 3)
	moved.File = filepath.Join(dir, "moved.wav")
	require.NoError(t, os.WriteFile(moved.File, content(3), 0o600))
	require.NoError(t, f.Publish(t.Context(), moved), "it waits under another path")
	moved.File = filepath.Join(dir, "hidden.wav")
	require.NoError(t, f.Publish(t.Context(), moved), "which cannot be seen from here")
	patient.Params.PatientID++
	longer.File = filepath.Join(dir, "longer.wav")
	require.NoError(t, os.WriteFile(longer.File, append(content(3), 0), 0o600))
	for i, other := range []ingest.Recording{patient, longer} {
		require.ErrorIs(t, f.Publish(t.Context(), other), ingest.ErrKeyReused, i)
	}
	large := filed(t, dir, 1)
	large.Params.Name = string(make([]byte, 1<<20))
	err := f.Publish(t.Context(), large)
	require.ErrorIs(t, err, nats.ErrMaxPayload)
	assert.NotContains(t, err.Error(), "publish it again", "it is known that nothing was stored")
	require.NoError(t, f.store.js.DeleteStream(t.Context(), f.store.queueName()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.Error(t, f.Publish(ctx, filed(t, dir, 2)))
}

// The size of a file that this machine cannot read is not known, so it does not count as different.
func TestOtherSize_UnreadableFile_IsNotOther(t *testing.T) {
	t.Parallel()
	here, longer, gone := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "c")
	require.NoError(t, os.WriteFile(here, []byte("1"), 0o600))
	require.NoError(t, os.WriteFile(longer, []byte("12"), 0o600))
	assert.True(t, otherSize(here, longer))
	for _, pair := range [][2]string{{here, here}, {here, gone}, {gone, here}, {gone, gone}} {
		assert.False(t, otherSize(pair[0], pair[1]))
	}
}

// The error of a recording decides whether it is tried later or becomes a dead letter. It is Done only if it has a
// note.
func TestJudge_EachResult_HasItsEnding(t *testing.T) {
	t.Parallel()
	soon, past := time.Now().Add(5*time.Minute), time.Now().Add(-time.Hour)
	status := func(code int) error { return &clinicaldoc.Error{StatusCode: code} }
	file := func(err error) error {
		return fail("synthetic", clinicaldoc.ErrInvalidArgument, &fs.PathError{Op: "open", Path: "x", Err: err})
	}
	refused := func(err error) ingest.Result { return ingest.Result{Status: ingest.Refused, Err: err} }
	for name, c := range map[string]struct {
		result ingest.Result
		err    error
		first  Ending // at the first try
		tenth  Ending
	}{
		"created":             {ingest.Result{Status: ingest.Created}, nil, Done, Done},
		"already there":       {ingest.Result{Status: ingest.AlreadyThere}, nil, Done, Done},
		"complete":            {ingest.Result{Status: ingest.Complete}, nil, Done, Done},
		"processing":          {ingest.Result{Status: ingest.Processing}, nil, Later, Later},
		"processing failed":   {ingest.Result{Status: ingest.Failed}, nil, Dead, Dead},
		"nothing listens":     {refused(syscall.ECONNREFUSED), nil, Later, Later},
		"401":                 {refused(status(401)), nil, Later, Later},
		"403":                 {refused(status(403)), nil, Later, Later},
		"400":                 {refused(status(400)), nil, Later, Dead},
		"404":                 {refused(status(404)), nil, Later, Dead},
		"409":                 {refused(status(409)), nil, Later, Dead},
		"413":                 {refused(status(413)), nil, Dead, Dead},
		"422":                 {refused(status(422)), nil, Dead, Dead},
		"429":                 {refused(status(429)), nil, Later, Later},
		"500":                 {refused(status(500)), nil, Later, Later},
		"503":                 {refused(status(503)), nil, Later, Later},
		"the limiter":         {refused(unreachable(errors.New("synthetic"))), nil, Later, Later},
		"the token source":    {refused(errors.New("synthetic")), nil, Later, Later},
		"cancelled":           {refused(context.Canceled), nil, Later, Later},
		"file absent":         {refused(file(fs.ErrNotExist)), nil, Later, Later},
		"file not permitted":  {refused(file(fs.ErrPermission)), nil, Later, Later},
		"too many files":      {refused(file(syscall.EMFILE)), nil, Later, Later},
		"file empty":          {refused(clinicaldoc.ErrInvalidArgument), nil, Later, Dead},
		"key reused":          {refused(ingest.ErrKeyReused), nil, Dead, Dead},
		"in doubt":            {ingest.Result{Status: ingest.InDoubt, Until: soon}, nil, Later, Later},
		"in doubt for long":   {ingest.Result{Status: ingest.InDoubt, Until: past}, nil, Later, Dead},
		"in doubt since late": {ingest.Result{Status: ingest.InDoubt, Until: time.Now().Add(-time.Minute)}, nil, Later, Later},
		"another has it":      {ingest.Result{Status: ingest.InDoubt, Err: errTaken}, nil, Later, Later},
		"a status to come":    {ingest.Result{Status: 99}, nil, Later, Later},
		"its record":          {ingest.Result{}, errDamaged, Dead, Dead},
		"the engine":          {ingest.Result{}, unreachable(errors.New("synthetic")), Later, Later},
		"the worker stopped":  {ingest.Result{}, errStopped, Later, Later},
		"nothing at all said": {ingest.Result{}, nil, Later, Later},
		"an unsaved note":     {ingest.Result{Status: ingest.Created, NoteID: 1}, errors.New("synthetic"), Later, Later},
	} {
		for tries, want := range map[int]Ending{1: c.first, 9: c.first, 10: c.tenth} {
			got := judge(c.result, c.err, tries, 0.5, 30*time.Second)
			assert.Equal(t, want, got.Ending, "%s, try %d", name, tries)
			assert.Equal(t, want == Later, got.Rest > 0, "%s rests", name)
			assert.Equal(t, want == Done, got.Err == nil, "%s: whoever is told that it is not done is told why", name)
		}
	}
}

// A failure counts for a pause if it shows something about the service. An unresolved recording counts only when it
// becomes unresolved, and not when it is searched for again.
func TestJudge_EachResult_CountsForAPauseOrNot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		result        ingest.Result
		err           error
		tries         int
		counts, tried bool
	}{
		{ingest.Result{Status: ingest.Created}, nil, 1, true, true},
		{ingest.Result{Status: ingest.AlreadyThere, Err: errors.New("synthetic")}, nil, 1, true, true},
		{ingest.Result{Status: ingest.Refused, Err: clinicaldoc.ErrUnauthorized}, nil, 1, true, true},
		{ingest.Result{Status: ingest.Refused, Err: clinicaldoc.ErrValidation}, nil, 1, false, true},
		{ingest.Result{Status: ingest.InDoubt}, nil, 1, true, true},
		{ingest.Result{Status: ingest.InDoubt}, nil, 2, false, true},
		{ingest.Result{Status: ingest.InDoubt, Err: errTaken}, nil, 1, false, false},
		{ingest.Result{Status: ingest.Created, NoteID: 1}, errors.New("synthetic"), 1, false, true},
		{ingest.Result{}, errors.New("synthetic"), 1, true, true},
		{ingest.Result{}, errStopped, 1, false, false},
		{ingest.Result{}, errDamaged, 1, false, true},
	} {
		got := judge(c.result, c.err, c.tries, 0.5, defaultLease)
		assert.Equal(t, []bool{c.counts, c.tried}, []bool{got.isForPauser, got.isResult}, c.result)
		if c.err != nil && c.tried && c.result.NoteID == 0 && got.Ending == Later {
			assert.Equal(t, []any{ingest.Refused, c.err}, []any{got.Status, got.Err}, "the result contains the error")
		}
		if got.Ending == Done {
			require.NoError(t, got.cause, "a note is no failure")
		}
	}
}

// Recordings stay in the queue while nothing listens, while the share is not mounted, or while the token is refused.
func TestWork_FailureThatMayEnd_KeepsTheQueue(t *testing.T) {
	t.Parallel()
	const count = 12
	for name, trouble := range map[string]func(t *testing.T, srv *clinicaldoctest.Server, dir string) (cure func()){
		"503": func(_ *testing.T, srv *clinicaldoctest.Server, _ string) func() {
			srv.Inject("", clinicaldoctest.Answer(503, "synthetic").Always())
			return srv.ClearFaults
		},
		"401": func(_ *testing.T, srv *clinicaldoctest.Server, _ string) func() {
			srv.Inject("", clinicaldoctest.Answer(401, "synthetic").Always())
			return srv.ClearFaults
		},
		"403": func(_ *testing.T, srv *clinicaldoctest.Server, _ string) func() {
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(403, "synthetic").Always())
			return srv.ClearFaults
		},
		"the connection is reset": func(_ *testing.T, srv *clinicaldoctest.Server, _ string) func() {
			srv.Inject("", clinicaldoctest.Reset().Always())
			return srv.ClearFaults
		},
		"the share is not mounted": func(t *testing.T, _ *clinicaldoctest.Server, dir string) func() {
			require.NoError(t, os.Rename(dir, dir+".away"))
			return func() { assert.NoError(t, os.Rename(dir+".away", dir)) }
		},
	} {
		dir := filepath.Join(t.TempDir(), "share")
		require.NoError(t, os.Mkdir(dir, 0o700))
		inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
			f := e.fleet(defaultLease)
			publish(t, f, dir, count)
			cure := trouble(t, srv, dir)
			u := uploader(srv)
			u.Find = clinicaldoc.FindCreatedParams{Settle: time.Second, UniqueName: true}
			failed, done := 0, map[string]bool{}
			var mu sync.Mutex
			var told []bool // of pauses: that one begins, or is over
			u.OnEvent = func(event ingest.Event) {
				mu.Lock()
				defer mu.Unlock()
				if event.Pause != nil {
					told = append(told, event.Pause.Why != nil)
				}
			}
			for result, err := range f.Drain(t.Context(), u) {
				require.NoError(t, err)
				require.NotEqual(t, Dead, result.Ending, result)
				if result.Ending == Done {
					done[result.Recording.Key] = true
				} else if failed++; failed == sameFailures {
					assert.Empty(t, srv.Notes(), name)
					assert.GreaterOrEqual(t, messages(t, f), count, "all of them are still there: %s", name)
					cure()
				}
			}
			assert.Len(t, done, count, name)
			assert.Equal(t, []bool{true, false}, told, name)
			assert.NoError(t, srv.CreatedOnce(contents(count)...), name)
		})
	}
}

// A recording that is refused permanently is kept with the reason, until a person redrives or discards it.
func TestDeadLetter_PermanentRefusal_IsKeptUntilRedriven(t *testing.T) {
	t.Parallel()
	srv, dir := clinicaldoctest.NewServer(), t.TempDir()
	t.Cleanup(srv.Close)
	f := openFleet(t, connect(t, startServer(t)), Params{})
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, `{"message":"CANARY"}`).Always())
	publish(t, f, dir, 3)
	assert.Equal(t, map[Ending]int{Dead: 3}, drain(t, f, &ingest.Uploader{Client: srv.Client()}))
	dead := letters(t, f)
	require.Len(t, dead, 3)
	keys := map[string]ingest.Recording{}
	for _, letter := range dead {
		keys[letter.Recording.Key] = letter.Recording
		assert.Contains(t, letter.Reason, "422")
		assert.Equal(t, 1, letter.Tries)
		assert.WithinDuration(t, time.Now(), letter.At, time.Minute)
		assert.NotContains(t, fmt.Sprintf("%v %+v %#v %s", letter, letter, letter, letter), "Encounter")
		assert.NotContains(t, letter.Reason, "CANARY")
	}
	for n := range 3 {
		want := filed(t, dir, n)
		assert.Equal(t, want, keys[want.Key])
	}
	status, err := f.Status(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3, status.DeadLetters)

	srv.ClearFaults()
	assert.Empty(t, drain(t, f, &ingest.Uploader{Client: srv.Client()}), "nobody asked for it")
	require.NoError(t, f.Redrive(t.Context(), dead[0]))
	require.NoError(t, f.Redrive(t.Context(), dead[0]), "again does no harm")
	require.NoError(t, f.Discard(t.Context(), dead[1]))
	require.NoError(t, f.Discard(t.Context(), dead[1]))
	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, f.Discard(ended, dead[2]), errEngine, "it is still there")
	assert.Equal(t, map[Ending]int{Done: 1}, drain(t, f, &ingest.Uploader{Client: srv.Client()}))
	left := letters(t, f)
	require.Len(t, left, 1)
	assert.Equal(t, dead[2].Recording, left[0].Recording)
	assert.Len(t, srv.Notes(), 1)
}

// A dead letter belongs to one fleet. Another fleet can neither redrive nor discard it, and its own dead letter with
// the same number stays.
func TestDeadLetter_OfAnotherFleet_IsRejected(t *testing.T) {
	t.Parallel()
	srv, dir, conn := clinicaldoctest.NewServer(), t.TempDir(), connect(t, startServer(t))
	t.Cleanup(srv.Close)
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(413, "synthetic").Always())
	one, other := openFleet(t, conn, Params{Name: "one"}), openFleet(t, conn, Params{Name: "other"})
	for n, f := range []*Fleet{one, other} {
		require.NoError(t, f.Publish(t.Context(), filed(t, dir, n)))
		require.Equal(t, map[Ending]int{Dead: 1}, drain(t, f, &ingest.Uploader{Client: srv.Client(), AllNew: true}))
	}
	letter := letters(t, one)[0]
	require.ErrorIs(t, other.Discard(t.Context(), letter), clinicaldoc.ErrInvalidArgument)
	require.ErrorIs(t, other.Redrive(t.Context(), letter), clinicaldoc.ErrInvalidArgument)
	assert.Zero(t, messages(t, other))
	assert.Len(t, letters(t, other), 1)
	require.NoError(t, one.Discard(t.Context(), letter))
	assert.Empty(t, letters(t, one))
}

// Dead letters that are redriven while they are listed, and are refused again immediately, are listed once.
func TestDeadLetters_RedrivenMeanwhile_AreListedOnce(t *testing.T) {
	t.Parallel()
	f := openFleet(t, connect(t, startServer(t)), Params{})
	publish(t, f, t.TempDir(), 2)
	for range 2 {
		require.NoError(t, nextOf(t, f, freshLane).bury(t.Context(), "synthetic"))
	}
	listed := 0
	for letter, err := range f.DeadLetters(t.Context()) {
		require.NoError(t, err)
		require.NoError(t, f.Redrive(t.Context(), letter))
		require.NoError(t, nextOf(t, f, freshLane).bury(t.Context(), "synthetic"))
		if listed++; listed > 2 {
			break
		}
	}
	assert.Equal(t, 2, listed)
	assert.Len(t, letters(t, f), 2)
}

// Recordings that share a key by mistake have a dead letter each, so none is lost.
func TestDeadLetter_RecordingsWithOneKey_HaveOneEach(t *testing.T) {
	t.Parallel()
	srv, dir := clinicaldoctest.NewServer(), t.TempDir()
	t.Cleanup(srv.Close)
	f := openFleet(t, connect(t, startServer(t)), Params{})
	var files []string
	for n := range 4 { // the first one gets the note, and with it the key
		recording := filed(t, dir, n)
		recording.Key, recording.Params.PatientID = "encounter", int64(n+1)
		require.NoError(t, f.Publish(t.Context(), recording))
		drain(t, f, &ingest.Uploader{Client: srv.Client()})
	}
	again := letters(t, f)[0]
	require.NoError(t, f.Publish(t.Context(), again.Recording))
	assert.Equal(t, map[Ending]int{Dead: 1}, drain(t, f, &ingest.Uploader{Client: srv.Client()}))
	for _, letter := range letters(t, f) {
		files = append(files, letter.Recording.File)
	}
	assert.ElementsMatch(t, []string{filed(t, dir, 1).File, filed(t, dir, 2).File, filed(t, dir, 3).File}, files)
	assert.Len(t, srv.Notes(), 1)
}

// A recording has at most one dead letter: the latest one.
func TestDeadLetter_RecordingBuriedTwice_HasOne(t *testing.T) {
	t.Parallel()
	e := newEngine()
	q := e.fleet(defaultLease).queue
	for n, reason := range []string{"the first", "the second"} {
		w := queuedRecording{Key: "encounter", File: "/synthetic", PatientID: 7, FirstRest: time.Duration(n) * time.Minute}
		d := &delivery{queue: q, message: &memoryMessage{engine: e, sequence: uint64(90 + n)}, queued: w, tries: n + 1}
		require.NoError(t, d.bury(t.Context(), reason))
	}
	require.Equal(t, 1, e.count("dead"))
	var letter queuedRecording
	require.NoError(t, json.Unmarshal(e.waiting[0].data, &letter))
	assert.Equal(t, queuedRecording{Key: "encounter", File: "/synthetic", PatientID: 7, Reason: "the second", Tries: 2}, letter)
}

// A damaged message becomes a dead letter, and so does a recording whose record in the journal is damaged. The other
// recordings go on.
func TestWork_DamagedMessageOrRecord_HoldsUpNoOther(t *testing.T) {
	t.Parallel()
	srv, dir := clinicaldoctest.NewServer(), t.TempDir()
	t.Cleanup(srv.Close)
	f := openFleet(t, connect(t, startServer(t)), Params{})
	j := f.Journal()
	binding, err := j.Bind(t.Context(), ingest.Owner{Service: ingest.ServiceName(srv.URL)})
	require.NoError(t, err)
	assert.NotEmpty(t, binding.Origin)
	publish(t, f, dir, 1)
	assert.Equal(t, map[Ending]int{Done: 1}, drain(t, f, &ingest.Uploader{Client: srv.Client()}))
	for _, b := range j.buckets { // the one record that there is
		keys, err := b.Keys(t.Context())
		if errors.Is(err, jetstream.ErrNoKeysFound) {
			continue
		}
		require.NoError(t, err)
		for _, key := range keys {
			if key[0] == 'r' {
				_, err = b.Put(t.Context(), key, []byte("{"))
				require.NoError(t, err)
			}
		}
	}
	publish(t, f, dir, 5)
	for kind, text := range map[string]string{"q": "{", "r": `{"rest":3600000000000}`, "dead": `{"reason":"synthetic","tries":1,`} {
		_, err = f.store.js.Publish(t.Context(), f.store.subject(kind)+"unreadable", []byte(text))
		require.NoError(t, err)
	}
	// AllNew skips the search, in which notes of the same size would make each other unresolved.
	assert.Equal(t, map[Ending]int{Done: 4, Dead: 3}, drain(t, f, &ingest.Uploader{Client: srv.Client(), AllNew: true}))
	require.NoError(t, srv.CreatedOnce(contents(5)...))
	reasons := map[string]int{}
	for _, letter := range letters(t, f) {
		if letter.Recording.Key != "" {
			continue
		}
		reasons[letter.Reason]++
		err := f.Redrive(t.Context(), letter)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
		require.ErrorContains(t, err, "publish its recording again, then discard it")
		require.NoError(t, f.Discard(t.Context(), letter))
	}
	assert.Equal(t, map[string]int{"jetstream: the message cannot be read": 2, "the dead letter cannot be read": 1}, reasons)
	assert.Len(t, letters(t, f), 1, "the damaged one")
	doubts := 0
	for e, err := range j.Doubts(t.Context()) {
		require.NoError(t, err)
		assert.NotZero(t, e.Key)
		doubts++
	}
	assert.Equal(t, 1, doubts, "the damaged one")
}

// More than a thousand unresolved recordings rest in the queue without holding up the others.
func TestWork_ThousandsUnresolved_HoldUpNothing(t *testing.T) {
	t.Parallel()
	f := openFleet(t, connect(t, startServer(t)), Params{})
	const doubts, fresh = 1200, 100
	var all sync.WaitGroup
	for part := range 8 {
		all.Go(func() {
			for n := part; n < doubts; n += 8 {
				assert.NoError(t, f.queue.put(t.Context(), freshLane, fmt.Sprint(n), fmt.Appendf(nil, `{"key":"doubt %d"}`, n)))
			}
		})
	}
	all.Wait()
	var put atomic.Int64
	for range 8 {
		all.Go(func() {
			for put.Load() < doubts {
				d, err := f.queue.next(t.Context(), freshLane, nextWait)
				if assert.NoError(t, err) && d != nil {
					put.Add(1)
					assert.NoError(t, d.later(t.Context(), time.Hour))
				}
			}
		})
	}
	all.Wait()
	for range doubts { // each comes once, and rests
		d, err := f.queue.next(t.Context(), againLane, 5*time.Second)
		require.NoError(t, err)
		require.Nil(t, d)
	}
	for n := range fresh {
		require.NoError(t, f.queue.put(t.Context(), freshLane, fmt.Sprint("fresh-", n), fmt.Appendf(nil, `{"key":"fresh %d"}`, n)))
	}
	for messages(t, f) > doubts {
		_ = nextOf(t, f, freshLane).remove(t.Context()) // if it fails, the recording comes once more
	}
	status, err := f.Status(t.Context())
	require.NoError(t, err)
	assert.Equal(t, doubts, status.Later)
	assert.Zero(t, status.Waiting)
}

// If the work is stopped by a break or its context, its recordings stay in the queue.
func TestWork_Stopped_KeepsItsRecordings(t *testing.T) {
	t.Parallel()
	srv, dir := clinicaldoctest.NewServer(), t.TempDir()
	t.Cleanup(srv.Close)
	f := openFleet(t, connect(t, startServer(t)), Params{})
	const count = 30
	publish(t, f, dir, count)
	limiter, err := f.Limiter(200)
	require.NoError(t, err)
	client := srv.Client(clinicaldoc.WithLimiter(limiter))
	for round := range 6 {
		ctx, cancel := context.WithCancel(t.Context())
		taken := 0
		for result, err := range f.Work(ctx, &ingest.Uploader{Client: client}) {
			require.NoError(t, err)
			require.Equal(t, Done, result.Ending, result)
			if taken++; taken < 3 {
				continue
			}
			if round%2 == 0 {
				break
			}
			cancel()
		}
		cancel()
	}
	assert.Positive(t, messages(t, f))
	drain(t, f, &ingest.Uploader{Client: client})
	require.NoError(t, srv.CreatedOnce(contents(count)...))
	assert.Empty(t, letters(t, f))
}

// nextOf waits for a recording of a lane.
func nextOf(t *testing.T, f *Fleet, l lane) *delivery {
	t.Helper()
	for {
		d, err := f.queue.next(t.Context(), l, time.Second)
		require.NoError(t, err)
		if d != nil {
			return d
		}
	}
}

// Tries are counted, not deliveries: if a worker stops or dies, its recordings do not come nearer to the limit of
// tries.
func TestWork_WorkersStopOrDie_CountNoTries(t *testing.T) {
	t.Parallel()
	f, dir := openFleet(t, connect(t, startServer(t)), Params{Lease: minLease}), t.TempDir()
	publish(t, f, dir, 1)
	next := func(l lane) *delivery { return nextOf(t, f, l) }
	for range 3 {
		d := next(freshLane)
		assert.Equal(t, 1, d.tries)
		require.NoError(t, d.putBack(time.Millisecond))
	}
	require.NoError(t, next(freshLane).later(t.Context(), time.Millisecond))
	for tries := 2; tries < 5; tries++ {
		for range 3 {
			require.NoError(t, next(againLane).putBack(time.Millisecond))
			next(againLane) // and dies
		}
		d := next(againLane)
		assert.Equal(t, tries, d.tries)
		require.NoError(t, d.later(t.Context(), time.Millisecond))
	}
	require.NoError(t, next(againLane).bury(t.Context(), "synthetic"))
	dead := letters(t, f)
	require.Len(t, dead, 1)
	assert.Equal(t, 5, dead[0].Tries)
	require.NoError(t, f.Redrive(t.Context(), dead[0]))
	assert.Equal(t, 1, next(freshLane).tries, "it begins anew")
}

// An unresolved recording that nobody can decide becomes a dead letter after ten searches, so no worker searches again.
func TestWork_NeverDecided_BecomesADeadLetter(t *testing.T) {
	t.Parallel()
	f, dir := openFleet(t, connect(t, startServer(t)), Params{}), t.TempDir()
	publish(t, f, dir, 1)
	w := &work{fleet: f}
	private := fail("a person has to look", errors.New("CANARY"))
	expired := time.Now().Add(-maxDelay - time.Second) // so only a person can decide it by now
	endless := ingest.Result{Status: ingest.InDoubt, Until: expired, Err: fmt.Errorf("CANARY: %w", private)}
	l := freshLane
	for search := 1; ; search++ {
		d := nextOf(t, f, l)
		o := judge(endless, nil, d.tries, 0.5, time.Second)
		o.Rest = min(o.Rest, time.Millisecond)
		w.end(t.Context(), d, &o)
		if l = againLane; o.Ending == Dead {
			assert.Equal(t, 10, search)
			break
		}
		require.Less(t, search, 10)
	}
	require.Len(t, letters(t, f), 1)
	assert.Contains(t, letters(t, f)[0].Reason, "a person has to look")
	assert.NotContains(t, letters(t, f)[0].Reason, "CANARY")
	assert.Zero(t, messages(t, f))
}

// The dead letter of a recording stays until the recording is in the queue again.
func TestRedrive_NotPublished_KeepsDeadLetter(t *testing.T) {
	t.Parallel()
	f := openFleet(t, connect(t, startServer(t)), Params{})
	dir := t.TempDir()
	publish(t, f, dir, 1)
	require.NoError(t, nextOf(t, f, freshLane).bury(t.Context(), "synthetic"))
	assert.Zero(t, messages(t, f))
	rejected := letters(t, f)[0]
	rejected.Recording.File = "relative"
	require.ErrorIs(t, f.Redrive(t.Context(), rejected), clinicaldoc.ErrInvalidArgument)
	assert.Len(t, letters(t, f), 1)

	full := f.queue.stream.CachedInfo().Config
	full.MaxMsgs = 1
	_, err := f.store.js.UpdateStream(t.Context(), full)
	require.NoError(t, err)
	require.NoError(t, f.Publish(t.Context(), filed(t, dir, 2)))
	require.ErrorIs(t, f.Redrive(t.Context(), letters(t, f)[0]), ErrQueueFull)
	assert.Len(t, letters(t, f), 1)
}

func TestPublish_WaitsAlready_KeepsWhatWaits(t *testing.T) {
	t.Parallel()
	f := openFleet(t, connect(t, startServer(t)), Params{})
	r := filed(t, t.TempDir(), 1)
	require.NoError(t, f.Publish(t.Context(), r))
	again := r
	again.Params.Name = "Another"
	require.NoError(t, f.Publish(t.Context(), again))
	assert.Equal(t, r.Params.Name, nextOf(t, f, freshLane).queued.Name)
}

// A message whose subject waits in the queue already is not an error, and other refusals of the engine are. Both are
// reported immediately, without repeating the request.
func TestPublish_Refused_IsNotRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		f := e.fleet(defaultLease)
		begun := time.Now()
		for range 2 {
			require.NoError(t, f.queue.put(t.Context(), freshLane, "key", []byte("{}")))
		}
		// Some servers have another code for a message that waits. Any other code is an error, though not a full queue.
		for code, want := range map[jetstream.ErrorCode]bool{10164: true, 10054: false} {
			e.before = func(context.Context, string, string) error { return &jetstream.APIError{ErrorCode: code} }
			err := f.queue.put(t.Context(), freshLane, "key", []byte("{}"))
			assert.Equal(t, want, err == nil, code)
			require.NotErrorIs(t, err, ErrQueueFull)
		}
		assert.Zero(t, time.Since(begun))

		// The message that waited is gone by the time that put reads it, so put stores the new one.
		e.before = func(context.Context, string, string) error {
			e.before = nil
			return &jetstream.APIError{ErrorCode: jetstream.JSErrCodeStreamWrongLastSequence}
		}
		require.NoError(t, f.queue.put(t.Context(), freshLane, "another", []byte("{}")))
		assert.Equal(t, 2, e.count("q"))
	})
}

func TestWork_FullLane_KeepsTheRecording(t *testing.T) {
	t.Parallel()
	for _, code := range []jetstream.ErrorCode{10077, 10023} { // a limit of the stream's, the server's disk
		fullLane(t, code)
	}
}

func fullLane(t *testing.T, code jetstream.ErrorCode) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		f := e.fleet(defaultLease)
		_, err := e.Publish(t.Context(), e.store.subject("q")+"1", []byte(`{"key":"synthetic"}`))
		require.NoError(t, err)
		d := nextOf(t, f, freshLane)
		e.before = func(_ context.Context, op, _ string) error {
			if op == "publish" {
				return &jetstream.APIError{ErrorCode: code}
			}
			return nil
		}
		begun := time.Now()
		require.ErrorIs(t, d.later(t.Context(), time.Second), ErrQueueFull)
		assert.Equal(t, 1, e.count("q"))
		d = nextOf(t, f, freshLane)
		assert.Equal(t, time.Second, time.Since(begun), "it rests there as well")
		require.Error(t, d.bury(t.Context(), "synthetic"))
		nextOf(t, f, freshLane)
		assert.Equal(t, 10*time.Minute+time.Second, time.Since(begun), "and longer where there is no room for a letter")
	})
}

// Status counts each recording once, where it is in the queue; the unresolved ones are counted in the journal. It
// reports a pause only while the fleet rests.
func TestStatus_CountsEachRecordingOnce(t *testing.T) {
	t.Parallel()
	f, dir := openFleet(t, connect(t, startServer(t)), Params{}), t.TempDir()
	status := func() Status {
		s, err := f.Status(t.Context())
		require.NoError(t, err)
		return s
	}
	becomes := func(want Status, why string) { // the engine counts a moment later
		t.Helper()
		isEqual := func() bool { return assert.ObjectsAreEqual(want, status()) }
		require.Eventually(t, isEqual, untilTestEnds, 5*time.Millisecond, why)
	}
	publish(t, f, dir, 4)
	becomes(Status{Waiting: 4}, "")
	failed := nextOf(t, f, freshLane)
	nextOf(t, f, freshLane)
	require.NoError(t, failed.later(t.Context(), time.Minute))
	becomes(Status{Waiting: 2, Uploading: 1, Later: 1}, "nobody has seen it in the other lane")
	d, err := f.queue.next(t.Context(), againLane, time.Second)
	require.NoError(t, err)
	assert.Nil(t, d, "it rests")
	becomes(Status{Waiting: 2, Uploading: 1, Later: 1}, "")
	require.NoError(t, nextOf(t, f, freshLane).bury(t.Context(), "synthetic"))
	want := Status{Waiting: 1, Uploading: 1, Later: 1, DeadLetters: 1}
	becomes(want, "")

	for n, state := range []ingest.State{ingest.StateInDoubt, ingest.StateCreated, ingest.StateInDoubt, ingest.StateCommitting, ingest.StateInDoubt} {
		save(t, f.Journal(), entry(n, state))
	}
	want.Doubts = 3
	becomes(want, "")
	for e, err := range f.Journal().Doubts(t.Context()) {
		require.NoError(t, err)
		assert.Equal(t, ingest.StateInDoubt, e.State)
		break // with others in other buckets
	}
	listening := f.store.conn.NumSubscriptions()
	for range 3 {
		becomes(want, "")
	}
	assert.Equal(t, listening, f.store.conn.NumSubscriptions(), "reading them leaves no subscription")

	pause := livePause{Pause: Pause{Reason: "synthetic"}}
	require.NoError(t, f.live.setPause(t.Context(), pause, 0))
	becomes(want, "nobody rests")
	_, err = f.queue.stream.PauseConsumer(t.Context(), laneNames[1], time.Now().Add(time.Hour))
	require.NoError(t, err)
	assert.Equal(t, &pause.Pause, status().Pause)
	_, revision, err := f.live.pause(t.Context())
	require.NoError(t, err)
	pause.Over = true
	require.NoError(t, f.live.setPause(t.Context(), pause, revision))
	becomes(want, "it is over")

	for n := range 6 { // of two machines, the oldest last
		w := Worker{Host: fmt.Sprint("host ", n%2), Since: time.Unix(int64(1000-n), 0).UTC()}
		require.NoError(t, f.live.beat(t.Context(), fmt.Sprint(n), liveWorker{Worker: w}))
	}
	var order []string
	for _, w := range status().Workers {
		order = append(order, fmt.Sprint(w.Host, " ", w.Since.Unix()))
	}
	assert.Equal(t, []string{"host 0 996", "host 0 998", "host 0 1000", "host 1 995", "host 1 997", "host 1 999"}, order)
}

// A status prints and logs all its counts by their names.
func TestStatus_Printed_HasItsCounts(t *testing.T) {
	t.Parallel()
	s := Status{Waiting: 1, Uploading: 2, Later: 3, Doubts: 4, Processing: 7, DeadLetters: 5, Workers: make([]Worker, 6)}
	assert.Equal(t, "1 waiting, 2 uploading, 3 later, 4 unresolved, 7 processing, 5 dead letters, 6 workers", s.String())
	assert.Equal(t, "[waiting=1 uploading=2 later=3 doubts=4 processing=7 dead_letters=5 workers=6]", s.LogValue().String())
	s.Pause = &Pause{Reason: "synthetic"}
	assert.Contains(t, s.String(), "; paused: synthetic")
	assert.Contains(t, s.LogValue().String(), "pause=synthetic")
}
