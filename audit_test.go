package clinicaldoc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// recordKey identifies a record.
type recordKey struct {
	note      int64
	recording bool
}

// auditBox is a service in a box whose middleware writes down what leaves it, and a client with an audit function that
// records what it receives.
type auditBox struct {
	srv    *clinicaldoctest.Server
	client *clinicaldoc.Client
	dir    func() string // is made when it is first asked for

	complete, moving, failed, doomed int64

	mu       sync.Mutex
	trail    []clinicaldoc.Access
	failAt   int                 // number of the access that the audit function fails for; 0: none
	calls    int                 // of the audit function
	gave     map[recordKey]int64 // what left the box whole, with its patient
	keys     map[string]int64
	requests int
	cancelAt int // number of the request at which the caller's context ends; 0: none
	cancel   context.CancelFunc
	reached  map[recordKey]bool // what the caller got
	early    []string           // what it got before the audit function received it
	fault    string             // that was injected
}

// fakedFaults say that something was done that was not.
var fakedFaults = []string{"not a note", "another note", "created for another"}

var errTrail = errors.New("the trail's disk is full")

const auditPatient = 41

func newAuditBox(t *testing.T) *auditBox {
	t.Helper()
	b := &auditBox{
		dir: sync.OnceValue(t.TempDir), gave: map[recordKey]int64{}, keys: map[string]int64{},
		reached: map[recordKey]bool{},
	}
	b.srv = clinicaldoctest.NewServer(clinicaldoctest.InProcess(), clinicaldoctest.WithMiddleware(b.record))
	t.Cleanup(b.srv.Close)
	for id := range int64(3) {
		b.srv.AddPatient(clinicaldoctest.Patient{ID: auditPatient + id, Name: "Synthetic " + strconv.FormatInt(id, 10)})
	}
	add := func(patient int64, stage clinicaldoctest.Stage) int64 {
		note := clinicaldoctest.Note{PatientID: patient, Name: "Visit", Stage: stage, Stuck: true, AudioSize: 200 << 10}
		if stage == clinicaldoctest.StageFailed {
			note.ErrorState = "no speech"
		}
		return b.srv.AddNote(note)
	}
	for range 3 {
		add(auditPatient+1, "")
	}
	b.complete = add(auditPatient, "")
	b.moving = add(auditPatient, clinicaldoctest.StageTranscribing)
	b.failed = add(auditPatient, clinicaldoctest.StageFailed)
	b.doomed = add(auditPatient, "")
	b.client = b.srv.Client(
		clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 2}),
		clinicaldoc.WithAudit(b.audit), clinicaldoc.WithStallTimeout(time.Minute))
	return b
}

// audit is the audit function.
func (b *auditBox) audit(ctx context.Context, access clinicaldoc.Access) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	switch {
	case ctx.Err() != nil:
		return errors.New("the context of the trail has ended")
	case ctx.Value(auditKey{}) != "clinician 7":
		return errors.New("the context of the trail is not the call's")
	case b.calls == b.failAt:
		return errTrail
	}
	b.trail = append(b.trail, access)
	return nil
}

type auditKey struct{}

// record writes down what leaves the box.
func (b *auditBox) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		b.requests++
		if b.requests == b.cancelAt {
			b.cancel()
		}
		b.mu.Unlock()
		var body bytes.Buffer
		next.ServeHTTP(&teeWriter{w, &body}, r)
		b.mu.Lock()
		defer b.mu.Unlock()
		for note, patient := range notesOf(body.Bytes()) {
			b.gave[recordKey{note: note}] = patient
		}
		var signed struct{ URL string }
		if json.Unmarshal(body.Bytes(), &signed) == nil && signed.URL != "" {
			id, _ := strconv.ParseInt(strings.Split(r.URL.Path, "/")[3], 10, 64)
			b.keys[key(signed.URL)] = id
			b.gave[recordKey{id, true}] = 0
		}
	})
}

func key(address string) string {
	path, _, _ := strings.Cut(address, "?")
	return path[strings.LastIndex(path, "/")+1:]
}

type teeWriter struct {
	http.ResponseWriter
	body *bytes.Buffer
}

func (w *teeWriter) Write(p []byte) (int, error) {
	w.body.Write(p)
	return w.ResponseWriter.Write(p)
}

func (w *teeWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// notesOf returns the notes in a body of the service, with their patients.
func notesOf(body []byte) map[int64]int64 {
	type row struct {
		ID        int64
		CreatedAt string `json:"created_at"`
		TeamID    int64  `json:"team_id"`
		Patient   struct{ ID int64 }
	}
	var page struct{ Data []row }
	var single row
	_ = json.Unmarshal(body, &page)
	if json.Unmarshal(body, &single) == nil && single.TeamID != 0 {
		page.Data = append(page.Data, single)
	}
	notes := map[int64]int64{}
	for _, row := range page.Data {
		notes[row.ID] = row.Patient.ID
	}
	return notes
}

// get takes in what the caller got. The audit function must have received it before.
func (b *auditBox) get(records ...recordKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range records {
		b.reached[r] = true
		reported := slices.ContainsFunc(b.trail, func(a clinicaldoc.Access) bool {
			return a.Outcome == clinicaldoc.AccessDisclosed && recordKey{a.NoteID, a.Recording} == r
		})
		if !reported {
			b.early = append(b.early, fmt.Sprint(r))
		}
	}
}

func (b *auditBox) getNote(notes ...*clinicaldoc.ProgressNote) {
	for _, note := range notes {
		if note != nil {
			b.get(recordKey{note: note.ID})
		}
	}
}

// getError takes in what the caller got by an error.
func (b *auditBox) getError(err error) error {
	if conflict, ok := errors.AsType[*clinicaldoc.ConflictError](err); ok {
		b.getNote(conflict.Current)
	}
	if ended, ok := errors.AsType[*clinicaldoc.WaitError](err); ok {
		b.getNote(ended.Note)
	}
	return err
}

// one takes in a call's note.
func (b *auditBox) one(note *clinicaldoc.ProgressNote, err error) error {
	b.getNote(note)
	return b.getError(err)
}

// each takes in what an iterator yields.
func (b *auditBox) each(notes func(func(*clinicaldoc.ProgressNote, error) bool), most int) error {
	var last error
	for note, err := range notes {
		last = b.one(note, err)
		most--
		if most == 0 {
			break
		}
	}
	return last
}

// recordingWriter is how a download reaches the caller.
func (b *auditBox) recordingWriter(id int64) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		b.get(recordKey{id, true})
		return len(p), nil
	})
}

// auditCall is a way to call a method. The key of the table is the method, or the method and a comma.
type auditCall func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error

var auditRecording = []byte("RIFF0000WAVEfmt synthetic recording")

func auditParams() createParams {
	return createParams{
		Name: "New visit", PatientID: auditPatient, PromptID: 1,
		Audio: clinicaldoc.AudioBytes("new.wav", auditRecording),
	}
}

// auditCalls has every method that gives out or changes a record.
func auditCalls() map[string]auditCall {
	patient := listParams{PatientID: auditPatient, PerPage: 2}
	update := updateParams{Analysis: new("reviewed")}
	stale := clinicaldoc.IfVersion("1-stale")
	calls := map[string]auditCall{
		"NotesService.Create": func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			return b.one(b.client.Notes.Create(ctx, auditParams(), opts...))
		},
		"NotesService.CreateOnce": func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			find := clinicaldoc.FindCreatedParams{Settle: time.Second}
			return b.one(b.client.Notes.CreateOnce(ctx, auditParams(), find, opts...))
		},
		"NotesService.FindCreated": func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			lost := &clinicaldoc.OutcomeUnknownError{Params: auditParams(), SentAt: time.Now()}
			return b.one(b.client.Notes.FindCreated(ctx, lost, clinicaldoc.FindCreatedParams{Settle: time.Second},
				opts...))
		},
		"NotesService.List": func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			page, err := b.client.Notes.List(ctx, patient, opts...)
			for i := 0; page != nil && i < len(page.Items); i++ {
				b.getNote(&page.Items[i])
			}
			return err
		},
		"NotesService.List, of another patient": func(ctx context.Context, b *auditBox,
			opts ...clinicaldoc.CallOption) error {
			wrong := listParams{PatientID: auditPatient + 2}
			opts = append(slices.Clip(opts), clinicaldoc.WithQuery("patient_id", strconv.Itoa(auditPatient)))
			page, err := b.client.Notes.List(ctx, wrong, opts...)
			assertNil(page)
			return err
		},
		"NotesService.All": func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			return b.each(b.client.Notes.All(ctx, listParams{PerPage: 2}, opts...), 0)
		},
		"NotesService.All, ahead and again": func(ctx context.Context, b *auditBox,
			opts ...clinicaldoc.CallOption) error {
			params := listParams{PerPage: 2, Prefetch: 2, Verify: true}
			return b.each(b.client.Notes.All(ctx, params, opts...), 0)
		},
		"NotesService.All, left early": func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			return b.each(b.client.Notes.All(ctx, listParams{PerPage: 2, Prefetch: 2}, opts...), 3)
		},
		"NotesService.Get": func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			return b.one(b.client.Notes.Get(ctx, b.complete, opts...))
		},
		"NotesService.Update": func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			return b.one(b.client.Notes.Update(ctx, b.complete, update, opts...))
		},
		"NotesService.Update, if unchanged": func(ctx context.Context, b *auditBox,
			opts ...clinicaldoc.CallOption) error {
			read, err := b.srv.Client().Notes.Get(context.WithoutCancel(ctx), b.complete)
			if err != nil {
				return nil //nolint:nilerr // a fault met the test's own read
			}
			opts = append(slices.Clip(opts), clinicaldoc.IfUnchanged(read))
			return b.one(b.client.Notes.Update(ctx, b.complete, update, opts...))
		},
		"NotesService.Update, if it is what it is not": func(ctx context.Context, b *auditBox,
			opts ...clinicaldoc.CallOption) error {
			return b.one(b.client.Notes.Update(ctx, b.complete, update, append(slices.Clip(opts), stale)...))
		},
		"NotesService.Sign": func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			return b.one(b.client.Notes.Sign(ctx, b.complete, opts...))
		},
		"NotesService.Sign, too early": func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			return b.one(b.client.Notes.Sign(ctx, b.moving, opts...))
		},
		"NotesService.Delete": func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			_, err := b.client.Notes.Delete(ctx, b.doomed, opts...)
			return b.getError(err)
		},
		"NotesService.Delete, if it is what it is not": func(ctx context.Context, b *auditBox,
			opts ...clinicaldoc.CallOption) error {
			_, err := b.client.Notes.Delete(ctx, b.doomed, append(slices.Clip(opts), stale)...)
			return b.getError(err)
		},
		"NotesService.AudioURL": func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			signed, err := b.client.Notes.AudioURL(ctx, b.complete, opts...)
			if signed != nil {
				b.get(recordKey{b.complete, true})
			}
			return err
		},
		"NotesService.OpenAudio": func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			stream, err := b.client.Notes.OpenAudio(ctx, b.complete, opts...)
			if stream != nil {
				b.get(recordKey{b.complete, true})
				_, err = io.Copy(io.Discard, stream)
				return errors.Join(err, stream.Close())
			}
			return err
		},
		"NotesService.DownloadAudio": func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			_, err := b.client.Notes.DownloadAudio(ctx, b.complete, b.recordingWriter(b.complete), downloadParams{},
				opts...)
			return err
		},
		"NotesService.DownloadAudioFile": func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			path := filepath.Join(b.dir(), "recording.wav")
			_, err := b.client.Notes.DownloadAudioFile(ctx, b.complete, path, downloadParams{}, opts...)
			if fileBytes(b.dir()) > 0 {
				b.get(recordKey{b.complete, true})
			}
			return err
		},
		"NotesService.Wait": func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			return b.one(b.client.Notes.Wait(ctx, b.complete, waitParams{MaxFailures: 2}, opts...))
		},
		"NotesService.Wait, in vain": func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			return b.one(b.client.Notes.Wait(ctx, b.moving, waitParams{MaxFailures: 2}, opts...))
		},
		"NotesService.Watch": func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			params := waitParams{MaxFailures: 2, OnUpdate: func(n *clinicaldoc.ProgressNote) { b.getNote(n) }}
			return b.each(b.client.Notes.Watch(ctx, b.failed, params, opts...), 0)
		},
		"NotesService.WaitAll": func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			params := waitParams{MaxFailures: 2, OnUpdate: func(n *clinicaldoc.ProgressNote) { b.getNote(n) }}
			ids := []int64{b.complete, b.moving, b.failed}
			return b.each(b.client.Notes.WaitAll(ctx, ids, params, opts...), 0)
		},
		"Client.Do": func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			var out struct{ ID int64 }
			err := b.client.Do(ctx, http.MethodGet, notePath(b.complete), nil, &out, opts...)
			if out.ID != 0 {
				b.get(recordKey{note: out.ID})
			}
			return err
		},
		"Client.Do, a list": func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			var out struct{ Data []struct{ ID int64 } }
			err := b.client.Do(ctx, http.MethodGet, "/v1/progress-notes", nil, &out, opts...)
			for _, row := range out.Data {
				b.get(recordKey{note: row.ID})
			}
			return err
		},
		"Client.Do, a change": func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			body := map[string]string{"analysis": "reviewed"}
			return b.client.Do(ctx, http.MethodPut, notePath(b.complete), body, nil, opts...)
		},
		"Client.Do, a deletion": func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			var out struct{ Message string }
			return b.client.Do(ctx, http.MethodDelete, notePath(b.doomed), nil, &out, opts...)
		},
		"Client.Do, an address": func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			var out struct{ URL string }
			err := b.client.Do(ctx, http.MethodGet, notePath(b.complete)+"/audio-url", nil, &out, opts...)
			if out.URL != "" {
				b.get(recordKey{b.complete, true})
			}
			return err
		},
	}
	return calls
}

func assertNil(page *clinicaldoc.Page[clinicaldoc.ProgressNote]) {
	if page != nil {
		panic("a page came that should have been refused")
	}
}

func notePath(id int64) string { return "/v1/progress-notes/" + strconv.FormatInt(id, 10) }

// fileBytes is how much all files in the folder hold, parts included.
func fileBytes(dir string) (size int64) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		info, err := entry.Info()
		isRecording := !strings.HasSuffix(entry.Name(), ".json") && err == nil
		if isRecording && info.Mode().IsRegular() && info.Size() > 1000 { // and not what a part is known by
			size += info.Size()
		}
	}
	return size
}

// auditFaults are what the calls meet, by name.
func auditFaults() map[string]func(*clinicaldoctest.Server) {
	everywhere := func(f clinicaldoctest.Fault) func(*clinicaldoctest.Server) {
		return func(srv *clinicaldoctest.Server) { srv.Inject("", f) }
	}
	at := func(f clinicaldoctest.Fault, routes ...string) func(*clinicaldoctest.Server) {
		return func(srv *clinicaldoctest.Server) {
			for _, route := range routes {
				srv.Inject(route, f)
			}
		}
	}
	writes := []string{
		clinicaldoctest.RouteCreateNote, clinicaldoctest.RouteUpdateNote, clinicaldoctest.RouteSignNote,
		clinicaldoctest.RouteDeleteNote,
	}
	return map[string]func(*clinicaldoctest.Server){
		"none":            func(*clinicaldoctest.Server) {},
		"503 once":        everywhere(clinicaldoctest.Answer(http.StatusServiceUnavailable, "")),
		"503 always":      everywhere(clinicaldoctest.Answer(http.StatusServiceUnavailable, "").Always()),
		"503 each second": everywhere(clinicaldoctest.Answer(http.StatusServiceUnavailable, "").Every(2)),
		"cut once":        everywhere(clinicaldoctest.Truncate(40)),
		"cut late":        everywhere(clinicaldoctest.Truncate(70_000).After(1)),
		"cut always":      everywhere(clinicaldoctest.Truncate(40).Always()),
		"recording cut":   at(clinicaldoctest.Truncate(70_000).Always(), clinicaldoctest.RouteAudio),
		"recording gone": at(clinicaldoctest.Answer(http.StatusNotFound, "").Always(),
			clinicaldoctest.RouteAudio),
		"stalled once":        everywhere(clinicaldoctest.Delay(time.Hour)),
		"reset once":          everywhere(clinicaldoctest.Reset()),
		"write lost once":     at(clinicaldoctest.ResetAfterCommit(), writes...),
		"write lost always":   at(clinicaldoctest.ResetAfterCommit().Always(), writes...),
		"write not done once": at(clinicaldoctest.ResetAfterRequest(), writes...),
		"read of an edit fails": at(clinicaldoctest.Answer(http.StatusBadGateway, "").Always(),
			clinicaldoctest.RouteGetNote),
		"refused": everywhere(clinicaldoctest.Answer(http.StatusForbidden,
			`{"message":"no"}`).Always()),
		"not a note": everywhere(clinicaldoctest.Answer(http.StatusOK,
			`{"id":55,"status":"queued"}`).Always()),
		"another note": at(clinicaldoctest.Answer(http.StatusOK, strangersNote).Always(),
			clinicaldoctest.RouteGetNote, clinicaldoctest.RouteUpdateNote),
		"created for another": at(clinicaldoctest.Answer(http.StatusCreated, strangersNote).Always(),
			clinicaldoctest.RouteCreateNote),
		"lagging lists and a loss": at(clinicaldoctest.ResetAfterCommit().CommitAfter(2*time.Second),
			clinicaldoctest.RouteCreateNote),
	}
}

const strangersNote = `{"id":991,"name":"Stranger","team_id":1,"user_id":1,"patient":{"id":990},` +
	`"created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z"}`

// do makes the call, and returns how it ended.
func (b *auditBox) do(t *testing.T, call auditCall, opts ...clinicaldoc.CallOption) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), auditKey{}, "clinician 7"), 30*time.Minute)
	defer cancel()
	b.cancel = cancel
	var response clinicaldoc.Response
	err := call(ctx, b, append(opts, clinicaldoc.WithResponse(&response))...)
	if response.StatusCode/100 == 2 {
		for note := range notesOf(response.Body) {
			b.get(recordKey{note: note})
		}
		var signed struct{ URL string }
		if json.Unmarshal(response.Body, &signed) == nil && signed.URL != "" {
			b.get(recordKey{b.complete, true})
		}
	}
	return err
}

// check compares the trail with what the caller got, and with what the box gave out and did.
func (b *auditBox) check(t *testing.T, operation string, err error, partly bool) {
	t.Helper()
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.Empty(t, b.early, "got before it was reported")
	disclosed := map[recordKey]bool{}
	seen := map[recordKey]bool{}
	for _, a := range b.trail {
		r := recordKey{a.NoteID, a.Recording}
		assert.Equal(t, operation, a.Operation)
		if a.Outcome == clinicaldoc.AccessDisclosed {
			disclosed[r] = true
		}
		patient, given := b.gave[r]
		if a.Outcome != clinicaldoc.AccessNone {
			assert.True(t, given, "reported %v, which never left the box", a)
			assert.NotEmpty(t, a.RequestID)
		}
		if given && !a.Recording && a.Outcome != clinicaldoc.AccessNone { // else the client may not have received it
			assert.Equal(t, patient, a.PatientID)
		}
		assert.Contains(t, []int64{0, auditPatient, auditPatient + 1, 990}, a.PatientID)
		again := seen[r] && !a.Changed
		assert.False(t, again && operation != "Notes.CreateOnce", "reported twice: %v", a)
		seen[r] = true
	}
	if !partly {
		assert.Equal(t, slices.Sorted(maps.Keys(ids(b.reached))), slices.Sorted(maps.Keys(ids(disclosed))))
	}
	for r := range b.reached {
		assert.True(t, disclosed[r], "%v reached the caller and is not in the trail", r)
	}
	b.checkChanges(t, err, slices.Contains(fakedFaults, b.fault))
}

func ids(records map[recordKey]bool) map[string]bool {
	texts := map[string]bool{}
	for r := range records {
		texts[fmt.Sprint(r)] = true
	}
	return texts
}

// checkChanges compares the changes in the trail with those that the box carried out.
func (b *auditBox) checkChanges(t *testing.T, err error, faked bool) {
	t.Helper()
	done := map[int64]bool{}
	for _, request := range b.srv.Requests() {
		if request.NoteID != 0 && request.Method != http.MethodGet {
			done[request.NoteID] = true
		}
	}
	reported := map[int64]bool{}
	unknown := false
	for _, a := range b.trail {
		if !a.Changed {
			assert.False(t, a.OutcomeUnknown)
			continue
		}
		reported[a.NoteID] = true
		unknown = unknown || a.OutcomeUnknown && a.NoteID == 0
		if !a.OutcomeUnknown && !faked {
			assert.True(t, done[a.NoteID], "reported as changed, which the box has not done: %v", a)
		}
	}
	failure, withheld := errors.AsType[*clinicaldoc.NotAuditedError](err)
	for id := range done {
		known := reported[id] || unknown || withheld && failure.Changed
		assert.True(t, known, "the box changed note %d, and neither trail nor error say so: %v", id, err)
	}
	assert.Equal(t, errors.Is(err, errTrail), errors.Is(err, clinicaldoc.ErrNotAudited))
}

func operationOf(call string) string {
	method, _, _ := strings.Cut(call, ",")
	method = strings.TrimPrefix(method, "Client.")
	return strings.Replace(method, "Service.", ".", 1)
}

// eachAudited runs a case with every method, each on a box of its own. If trailFails is true, the case is repeated with
// the trail failing at the first access, at the second and so on, until the call makes no further access.
func eachAudited(t *testing.T, trailFails bool, cases []string, prepare func(b *auditBox, c string)) {
	t.Helper()
	for name, call := range auditCalls() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range cases {
				if c == "not a note" && strings.HasPrefix(name, "Client.Do") {
					continue // it gives what came, whatever that is
				}
				if !trailFails {
					auditOnce(t, name, c, call, 0, prepare)
					continue
				}
				failed := true
				for at := 1; failed; at++ {
					failed = auditOnce(t, name, c, call, at, prepare)
				}
			}
		})
	}
}

// auditOnce runs a case with a method. The trail fails at the access with that number, or never if it is 0. It reports
// whether the trail failed.
func auditOnce(
	t *testing.T, name, c string, call auditCall, failAt int, prepare func(b *auditBox, c string),
) (failed bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newAuditBox(t)
		b.failAt = failAt
		prepare(b, c)
		err := b.do(t, call)
		b.check(t, operationOf(name), err, failAt > 0)
		failed = failAt > 0 && b.calls >= failAt
		// nobody is there to hear of what was not yielded
		isLeft := strings.HasSuffix(name, "left early")
		assert.True(t, errors.Is(err, clinicaldoc.ErrNotAudited) == failed || isLeft)
		assert.False(t, failed && clinicaldoc.Retryable(err))
		if t.Failed() {
			t.Logf("%s: %s, trail fails at %d: %v\ntrail %v", name, c, failAt, err, b.trail)
			t.FailNow()
		}
		b.srv.Close()
	})
	return failed
}

func TestAudit_EveryMethodUnderEveryFault_ReportsWhatTheCallerGets(t *testing.T) {
	t.Parallel()
	faults := auditFaults()
	eachAudited(t, false, slices.Collect(maps.Keys(faults)), func(b *auditBox, fault string) {
		b.fault = fault
		faults[fault](b.srv)
	})
}

func TestAudit_CallCanceledAtAnyRequest_ReportsWhatTheCallerGets(t *testing.T) {
	t.Parallel()
	eachAudited(t, false, []string{"1", "2", "3", "4", "5", "6"}, func(b *auditBox, request string) {
		b.cancelAt, _ = strconv.Atoi(request)
	})
}

// If the trail fails for one access, the record does not reach the caller, whatever the method and the fault.
func TestAudit_TrailFailsAtAnyAccess_WithholdsTheRecord(t *testing.T) {
	t.Parallel()
	faults := auditFaults()
	some := []string{"none", "write lost once", "write lost always", "503 each second", "created for another"}
	eachAudited(t, true, some, func(b *auditBox, fault string) {
		b.fault = fault
		faults[fault](b.srv)
	})
}

// Without a fault, every record that the fake server sent for the call is in the trail, including those that the caller
// did not get.
func TestAudit_NoFault_ReportsAllThatLeftTheBox(t *testing.T) {
	t.Parallel()
	for name, call := range auditCalls() {
		synctest.Test(t, func(t *testing.T) {
			b := newAuditBox(t)
			_ = b.do(t, call)
			synctest.Wait()
			reported := map[recordKey]bool{}
			for _, a := range b.trail {
				reported[recordKey{a.NoteID, a.Recording}] = true
			}
			for r := range b.gave {
				// its recording may not have been read
				isAddress := r.recording && operationOf(name) == "Notes.FindCreated"
				// a page that was asked for ahead may not have been read
				isUnderWay := strings.HasSuffix(name, "left early")
				isKnown := reported[r] || isAddress || isUnderWay
				assert.True(t, isKnown, "%s: %v left the box and is not in the trail", name, r)
			}
			b.srv.Close()
		})
	}
}

// Every method that can disclose or change a record must be in the table. This includes methods of other services
// that return notes or recordings.
func TestAuditCalls_HaveEveryMethodThatGivesOutRecords(t *testing.T) {
	t.Parallel()
	var methods []string
	for name, method := range methodsOf(serve(t)) {
		service, _, _ := strings.Cut(name, ".")
		mustBeAudited := service == "NotesService" || service == "Client" || givesOutRecords(method.Type())
		if mustBeAudited {
			methods = append(methods, name)
		}
	}
	covered := map[string]bool{}
	for call := range auditCalls() {
		method, _, _ := strings.Cut(call, ",")
		covered[method] = true
	}
	assert.ElementsMatch(t, methods, slices.Collect(maps.Keys(covered)))

	assert.True(t, givesOutRecords(reflect.TypeFor[func() (*clinicaldoc.Page[clinicaldoc.ProgressNote], error)]()))
	assert.True(t, givesOutRecords(reflect.TypeFor[func() iter.Seq2[*clinicaldoc.ProgressNote, error]]()))
	assert.True(t, givesOutRecords(reflect.TypeFor[func() (*clinicaldoc.AudioStream, error)]()))
	assert.False(t, givesOutRecords(reflect.TypeFor[func() ([]clinicaldoc.Token, error)]()))
}

// Every operation on a path of notes has to come into the table, also if its method belongs to another service and
// returns no record.
func TestAuditCalls_HaveEveryOperationOnNotes(t *testing.T) {
	t.Parallel()
	onNotes := regexp.MustCompile(`&operation\{"([^"]+)", [^,]+, "[^"]*/progress-notes`)
	files := must(filepath.Glob("*.go"))(t)
	var operations []string
	for _, file := range files {
		source := must(os.ReadFile(file))(t)
		for _, match := range onNotes.FindAllSubmatch(source, -1) {
			operations = append(operations, string(match[1]))
		}
	}
	require.Contains(t, operations, "Notes.Delete")
	covered := map[string]bool{}
	for call := range auditCalls() {
		covered[operationOf(call)] = true
	}
	assert.Subset(t, slices.Collect(maps.Keys(covered)), operations)
}

// givesOutRecords reports whether a method returns notes or recordings.
func givesOutRecords(method reflect.Type) bool {
	for out := range method.Outs() {
		if name := out.String(); strings.Contains(name, "ProgressNote") || strings.Contains(name, "clinicaldoc.Audio") {
			return true
		}
	}
	return false
}

// auditedNote is a note with a patient.
const auditedNote = `{"id":7,"name":"Visit","team_id":1,"user_id":2,"patient":{"id":41},` +
	`"created_at":"2024-05-01T10:11:12Z","updated_at":"2024-05-01T10:11:12Z"}`

// collectAudit returns an option whose audit function keeps what it receives.
func collectAudit(trail *[]clinicaldoc.Access) clinicaldoc.Option {
	return clinicaldoc.WithAudit(func(_ context.Context, access clinicaldoc.Access) error {
		*trail = append(*trail, access)
		return nil
	})
}

func failingAudit(context.Context, clinicaldoc.Access) error { return errTrail }

func TestWithAudit_GivenTwice_LastOneIsCalled(t *testing.T) {
	t.Parallel()
	var first, last []clinicaldoc.Access
	client := serveWith(t, []clinicaldoc.Option{collectAudit(&first), collectAudit(&last)},
		call{url: "/v1/progress-notes/7", response: auditedNote})
	must(client.Notes.Get(t.Context(), 7))(t)
	assert.Empty(t, first)
	assert.Equal(t, []clinicaldoc.Access{{Operation: "Notes.Get", NoteID: 7, PatientID: 41, Outcome: "disclosed"}},
		last)
}

func TestAudit_CreateAndTrailFails_ErrorNamesTheNote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newAuditBox(t)
		client := b.srv.Client(clinicaldoc.WithAudit(failingAudit))
		note, err := client.Notes.Create(t.Context(), auditParams())
		assert.Nil(t, note)
		failure := requireAs[*clinicaldoc.NotAuditedError](t, err)
		created := b.srv.Created()
		require.Len(t, created, 1)
		want := clinicaldoc.NotAuditedError{Operation: "Notes.Create", NoteID: created[0].NoteID, Changed: true,
			Err: errTrail}
		assert.Equal(t, want, *failure)
		require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		assert.Equal(t, "clinicaldoc: Notes.Create: the record is withheld, because the audit function failed; "+
			"the change was made, to note 8: do not send it again", err.Error())
	})
}

func TestAudit_CreateIsLostAndTrailFails_OutcomeIsStillUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newAuditBox(t)
		client := b.srv.Client(clinicaldoc.WithAudit(failingAudit))
		b.srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		_, err := client.Notes.Create(t.Context(), auditParams())
		require.ErrorIs(t, err, clinicaldoc.ErrNotAudited)
		lost := requireAs[*clinicaldoc.OutcomeUnknownError](t, err)
		note, err := b.srv.Client().Notes.FindCreated(t.Context(), lost,
			clinicaldoc.FindCreatedParams{Settle: time.Second})
		require.NoError(t, err)
		assert.Equal(t, b.srv.Created()[0].NoteID, note.ID)
	})
}

// The note moves to another patient while it is changed, so that the call has two records. If the function fails for
// the first one, it still receives the change.
func TestAudit_TrailFailsBeforeTheChange_ChangeIsReportedAnyway(t *testing.T) {
	t.Parallel()
	moved := strings.Replace(auditedNote, `"id":41`, `"id":42`, 1)
	var reported []clinicaldoc.Access
	audit := clinicaldoc.WithAudit(func(_ context.Context, access clinicaldoc.Access) error {
		reported = append(reported, access)
		if len(reported) == 1 {
			return errTrail
		}
		return nil
	})
	client := serveWith(t, []clinicaldoc.Option{audit},
		call{url: "/v1/progress-notes/7", response: auditedNote},
		call{method: http.MethodPut, url: "/v1/progress-notes/7/sign", response: moved})
	var read clinicaldoc.ProgressNote
	require.NoError(t, json.Unmarshal([]byte(auditedNote), &read))

	note, err := client.Notes.Sign(t.Context(), 7, clinicaldoc.IfUnchanged(&read))
	assert.Nil(t, note)
	failure := requireAs[*clinicaldoc.NotAuditedError](t, err)
	assert.True(t, failure.Changed)
	assert.False(t, failure.OutcomeUnknown)
	assert.Equal(t, []clinicaldoc.Access{
		{Operation: "Notes.Sign", NoteID: 7, PatientID: 41, Outcome: clinicaldoc.AccessRefused},
		{Operation: "Notes.Sign", NoteID: 7, PatientID: 42, Changed: true, Outcome: clinicaldoc.AccessRead},
	}, reported)
}

func TestAudit_RowsOfAnotherPatient_AreReportedAsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newAuditBox(t)
		err := b.do(t, auditCalls()["NotesService.List, of another patient"])
		require.ErrorIs(t, err, clinicaldoc.ErrPatientMismatch)
		require.NotEmpty(t, b.trail)
		for _, access := range b.trail {
			assert.Equal(t, clinicaldoc.AccessRefused, access.Outcome)
			assert.EqualValues(t, auditPatient, access.PatientID)
		}
	})
}

func TestAudit_FunctionPanics_LeavesTheCallOnceAndWithoutTheRecord(t *testing.T) {
	t.Parallel()
	for name, call := range auditCalls() {
		synctest.Test(t, func(t *testing.T) {
			b := newAuditBox(t)
			reported := 0
			var mu sync.Mutex // pages may be requested ahead
			var ended []clinicaldoc.Call
			end := func(_ context.Context, c clinicaldoc.Call) {
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, c)
			}
			b.client = b.srv.Client(
				clinicaldoc.WithAudit(func(context.Context, clinicaldoc.Access) error {
					reported++
					panic("the trail has a bug")
				}),
				clinicaldoc.WithHooks(clinicaldoc.Hooks{CallEnd: end}))
			assert.PanicsWithValue(t, "the trail has a bug", func() { _ = b.do(t, call) }, name)
			assert.Equal(t, 1, reported, name)
			assert.Empty(t, b.reached, name)
			require.NotEmpty(t, ended, name)
			last := ended[len(ended)-1]
			if !strings.HasPrefix(operationOf(name), "Notes.Wa") && !strings.HasPrefix(operationOf(name), "Notes.All") {
				assert.Equal(t, "panic", last.ErrorType, name)
			}
			b.srv.Close()
		})
	}
}

func TestAudit_CallbackPanics_WhatMayHaveBeenSentIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newAuditBox(t)
		params := auditParams()
		params.OnProgress = func(sent, _ int64) {
			if sent > 0 {
				panic("the caller has a bug")
			}
		}
		assert.Panics(t, func() {
			_ = b.do(t, func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
				return b.one(b.client.Notes.Create(ctx, params, opts...))
			})
		})
		want := clinicaldoc.Access{
			Operation: "Notes.Create", PatientID: auditPatient, Changed: true, OutcomeUnknown: true,
			Outcome: clinicaldoc.AccessNone,
		}
		assert.Equal(t, []clinicaldoc.Access{want}, b.trail)
	})
}

func TestAudit_LoopBodyPanics_UnyieldedRowsAreReportedAsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newAuditBox(t)
		assert.Panics(t, func() {
			_ = b.do(t, func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
				for range b.client.Notes.All(ctx, listParams{PerPage: 3}, opts...) {
					panic("the caller has a bug")
				}
				return nil
			})
		})
		var outcomes []string
		for _, access := range b.trail {
			outcomes = append(outcomes, access.Outcome)
		}
		assert.Equal(t, []string{"disclosed", "read", "read"}, outcomes)
	})
}

// The calls of one client share nothing but the audit function.
func TestAudit_ManyGoroutines_EachCallIsReportedSeparately(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newAuditBox(t)
		type user struct{}
		var mu sync.Mutex
		reported := map[int]int{}
		client := b.srv.Client(clinicaldoc.WithAudit(func(ctx context.Context, _ clinicaldoc.Access) error {
			mu.Lock()
			defer mu.Unlock()
			reported[ctx.Value(user{}).(int)]++
			return nil
		}))
		var workers sync.WaitGroup
		for worker := range 8 {
			workers.Go(func() {
				ctx := context.WithValue(t.Context(), user{}, worker)
				rows, err := clinicaldoc.Collect(client.Notes.All(ctx, listParams{PerPage: 2, Prefetch: 2}))
				_, failure := client.Notes.DownloadAudio(ctx, b.complete, io.Discard, downloadParams{})
				if err := errors.Join(err, failure); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				assert.Equal(t, len(rows)+2, reported[worker], "the rows, the recording and its note")
			})
		}
		workers.Wait()
	})
}

// A call that finds the complete part of an earlier call only renames it. Its recording is reported as disclosed
// anyway, although the call writes no byte.
func TestAudit_FinishedPart_IsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newAuditBox(t)
		params := downloadParams{}
		path := filepath.Join(b.dir(), "recording.wav")
		// The first access is the recording. The second one, the note that was read for its size, is reported when all
		// bytes are written, so this failure leaves a complete part without its name.
		b.failAt = 2
		download := func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			_, err := b.client.Notes.DownloadAudioFile(ctx, b.complete, path, params, opts...)
			return err
		}
		require.ErrorIs(t, b.do(t, download), clinicaldoc.ErrNotAudited)
		assert.NoFileExists(t, path)
		b.trail = nil
		require.NoError(t, b.do(t, download))
		assert.FileExists(t, path)
		assert.True(t, slices.ContainsFunc(b.trail, func(a clinicaldoc.Access) bool {
			return a.Recording && a.Outcome == clinicaldoc.AccessDisclosed
		}))
	})
}

// Logs must not name the patient. An audit trail must, so the JSON of an Access does.
func TestAudit_Access_PrintsWithoutThePatient(t *testing.T) {
	t.Parallel()
	access := clinicaldoc.Access{Operation: "Notes.Get", NoteID: 7, PatientID: secretPatient,
		Outcome: clinicaldoc.AccessDisclosed, RequestID: "r"}
	const fields = "operation=Notes.Get note_id=7 recording=false changed=false outcome=disclosed " +
		"outcome_unknown=false request_id=r"
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x"} {
		assert.Equal(t, "clinicaldoc.Access{"+fields+"}", fmt.Sprintf(verb, access), verb)
	}
	var logged bytes.Buffer
	slog.New(slog.NewTextHandler(&logged, nil)).InfoContext(t.Context(), "m", "", access)
	assert.Contains(t, logged.String(), " "+fields+"\n")
	assert.NotContains(t, logged.String(), "patient")
	logged.Reset()
	slog.New(slog.NewJSONHandler(&logged, nil)).InfoContext(t.Context(), "m", "access", access)
	assert.Contains(t, logged.String(), `"note_id":7`)
	assert.Empty(t, leak(logged.String()))

	encoded := must(json.Marshal(access))(t)
	assert.JSONEq(t, `{"operation":"Notes.Get","note_id":7,"patient_id":`+fmt.Sprint(secretPatient)+
		`,"recording":false,"changed":false,"outcome":"disclosed","outcome_unknown":false,"request_id":"r"}`,
		string(encoded))
}

// Do reports notes on every path that contains "/progress-notes".
func TestAudit_DoOnAnyPathOfNotes_IsReported(t *testing.T) {
	t.Parallel()
	disclosed := clinicaldoc.Access{Operation: "Do", NoteID: 7, PatientID: 41, Outcome: clinicaldoc.AccessDisclosed}
	changed := disclosed
	changed.Changed = true
	named := clinicaldoc.Access{Operation: "Do", NoteID: 7, Outcome: clinicaldoc.AccessDisclosed}
	other := clinicaldoc.Access{Operation: "Do", NoteID: 9, Outcome: clinicaldoc.AccessDisclosed}
	list := `{"data":[` + auditedNote + `]}`
	const version = `{"id":9,"created_at":"2026-01-02T03:04:05Z"}`
	for _, c := range []struct {
		method, path, response string
		want                   []clinicaldoc.Access
	}{
		{http.MethodGet, "/v1/progress-notes", list, []clinicaldoc.Access{disclosed}},
		{http.MethodGet, "/v1/progress-notes/", list, []clinicaldoc.Access{disclosed}},
		{http.MethodGet, "/v2/progress-notes", list, []clinicaldoc.Access{disclosed}},
		{http.MethodGet, "/v1/patients/41/progress-notes", list, []clinicaldoc.Access{disclosed}},
		{http.MethodGet, "/v1/progress-notes/search", list, []clinicaldoc.Access{disclosed}},
		{http.MethodGet, "/v1/progress-notes/latest", auditedNote, []clinicaldoc.Access{disclosed}},
		{http.MethodGet, "/v2/progress-notes/7", auditedNote, []clinicaldoc.Access{disclosed}},
		{http.MethodPost, "/v2/progress-notes", auditedNote, []clinicaldoc.Access{changed}},
		{http.MethodPost, "/v1/progress-notes/7/archive", auditedNote, []clinicaldoc.Access{changed}},
		{http.MethodGet, "/v1/progress-notes/7/versions/9", version, []clinicaldoc.Access{named, other}},
		{http.MethodGet, "/v1/progress-notes/count", `{"count":5}`, nil},
		{http.MethodGet, "/v1/prompts", list, nil},
	} {
		var reported []clinicaldoc.Access
		client := serveWith(t, []clinicaldoc.Option{collectAudit(&reported)},
			call{method: c.method, url: c.path, response: c.response})
		var out any
		require.NoError(t, client.Do(t.Context(), c.method, c.path, nil, &out))
		assert.Equal(t, c.want, reported, "%s %s", c.method, c.path)
	}
}

// These are the figures in docs/privacy.md: an audit function costs a few allocations, and a call without one costs
// none.
func TestAudit_CostsWhatIsDocumented(t *testing.T) { //nolint:paralleltest // allocations of all goroutines are counted
	skipWithRace(t)
	get := func(opts ...clinicaldoc.Option) float64 {
		opts = append(opts, over(canned(auditedNote)))
		client, err := clinicaldoc.NewClient(testBase, testToken, opts...)
		require.NoError(t, err)
		return testing.AllocsPerRun(50, func() {
			if _, err := client.Notes.Get(t.Context(), 7); err != nil {
				panic(err)
			}
		})
	}
	none := func(context.Context, clinicaldoc.Access) error { return nil }
	assert.InDelta(t, 15, get(clinicaldoc.WithAudit(none))-get(), 2)
}

// Somebody edits the note while the response to a change is lost. The read that follows shows that the change was made,
// so it is reported as a change, although the call ends with a conflict.
func TestAudit_LostChangeInConflict_IsReportedAsChanged(t *testing.T) {
	t.Parallel()
	type test struct {
		route       string
		editedFirst bool // the other edit precedes the change; otherwise it follows
		change      func(ctx context.Context, c *clinicaldoc.Client, id int64, opts ...clinicaldoc.CallOption) error
	}
	timedSubtests(t, map[string]test{
		"update": {route: clinicaldoctest.RouteUpdateNote,
			change: func(ctx context.Context, c *clinicaldoc.Client, id int64, opts ...clinicaldoc.CallOption) error {
				_, err := c.Notes.Update(ctx, id, updateParams{Analysis: new("reviewed")}, opts...)
				return err
			}},
		"sign, not retried": {route: clinicaldoctest.RouteSignNote, editedFirst: true,
			change: func(ctx context.Context, c *clinicaldoc.Client, id int64, opts ...clinicaldoc.CallOption) error {
				_, err := c.Notes.Sign(ctx, id, append(opts, clinicaldoc.WithoutRetry())...)
				return err
			}},
	}, func(t *testing.T, tt test) {
		b := newAuditBox(t)
		other := b.srv.Client()
		read := must(other.Notes.Get(t.Context(), b.complete))(t)
		edit := func(ctx context.Context, a clinicaldoc.Attempt) {
			if a.Method == http.MethodPut {
				params := updateParams{Transcription: new("changed")}
				_, err := other.Notes.Update(context.WithoutCancel(ctx), b.complete, params)
				assert.NoError(t, err)
			}
		}
		hooks := clinicaldoc.Hooks{AttemptEnd: edit}
		if tt.editedFirst {
			start := func(ctx context.Context, a clinicaldoc.Attempt) (context.Context, clinicaldoc.TraceContext) {
				edit(ctx, a)
				return ctx, clinicaldoc.TraceContext{}
			}
			hooks = clinicaldoc.Hooks{AttemptStart: start}
		}
		b.client = b.srv.Client(clinicaldoc.WithAudit(b.audit), clinicaldoc.WithHooks(hooks))
		b.srv.Inject(tt.route, clinicaldoctest.ResetAfterCommit())
		err := b.do(t, func(ctx context.Context, b *auditBox, opts ...clinicaldoc.CallOption) error {
			opts = append(opts, clinicaldoc.IfUnchanged(read))
			return b.getError(tt.change(ctx, b.client, b.complete, opts...))
		})
		require.ErrorIs(t, err, clinicaldoc.ErrConflict)
		require.Len(t, b.trail, 1)
		assert.True(t, b.trail[0].Changed)
		assert.False(t, b.trail[0].OutcomeUnknown)
		assert.Equal(t, clinicaldoc.AccessDisclosed, b.trail[0].Outcome, "the conflict has the note")
	})
}
