package clinicaldoc_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"go/token"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
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

// The privacy test runs every operation of the SDK, well and with every fault, against a service whose every text is a
// canary, prints all that comes back in every way, and reads all that logger, observer and the standard streams were
// told. No canary may be in any of it.

// secretPatient is a patient's id that no clock and no counter shows by accident.
const secretPatient int64 = 8_765_432_109_876_543

// secret makes a canary that tells where it came from.
func secret(of string) string { return canary + strings.ToLower(canary) + of }

// spellings are the forms in which a canary may show, in lower case: as it is, as a number's digits, in hex, as a list of
// bytes, or in base64 at any alignment. X-Amz- and /audio/ stand for the box's own signed addresses.
var spellings = sync.OnceValue(func() []string {
	list := []string{
		strings.ToLower(canary), fmt.Sprintf("%x", canary), fmt.Sprintf("% x", canary), fmt.Sprintf("%# x", canary),
		strings.Trim(fmt.Sprintf("%d", []byte(canary)), "[]"), strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", []byte(canary)), "[]byte{"), "}"),
		fmt.Sprint(secretPatient), fmt.Sprintf("%x", secretPatient), "x-amz-", "/audio/",
	}
	for shift := range 3 {
		whole := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + canary + "xx"))
		list = append(list, strings.ToLower(whole[4*((shift+2)/3):4*((shift+len(canary))/3)]))
	}
	return list
})

// leak returns the canary that a text holds, or nothing.
func leak(text string) string {
	text = strings.ToLower(text)
	for _, spelling := range spellings() {
		if strings.Contains(text, spelling) {
			return spelling
		}
	}
	return ""
}

func TestLeaksAreSeenInEverySpelling(t *testing.T) {
	t.Parallel()
	assert.Empty(t, leak(`clinicaldoc.ProgressNote{id=7 stage=complete} 2026-01-02T03:04:05.98765Z https://api.clinic.test`))
	text := secret("text")
	for _, verb := range append(slices.Clone(verbs), "%#x", "%# x") {
		for _, value := range []any{text, []byte(text), struct{ S string }{text}, []string{text}} {
			printed := fmt.Sprintf(verb, value)
			assert.NotEmpty(t, leak(printed), "%s of %T: %s", verb, value, printed)
		}
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%d", "%x", "%X", "%#x", "%s"} {
		printed := fmt.Sprintf(verb, struct{ N int64 }{secretPatient})
		assert.NotEmpty(t, leak(printed), "%s: %s", verb, printed)
	}
	for shift := range 3 {
		assert.NotEmpty(t, leak(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("-", shift)+text))))
	}
	assert.NotEmpty(t, leak("GET https://storage.clinic.test/?X-Amz-Signature=5f"))
}

// eavesdropper prints whatever it is shown and remembers what leaked, and which types had something to leak.
type eavesdropper struct {
	ctx  context.Context
	deaf bool // it prints nothing and only lets the operations run

	mu         sync.Mutex
	step       string
	leaks      []string
	clean      map[string]bool // texts without a canary, which come again and again
	values     int
	carriers   map[string]bool
	operations map[string]bool
	statuses   map[int]bool
	missing    []error // kinds of errors that were not seen yet
	log        bytes.Buffer
}

func newEavesdropper(t *testing.T) *eavesdropper {
	t.Helper()
	return &eavesdropper{
		ctx: t.Context(), clean: map[string]bool{}, carriers: map[string]bool{}, operations: map[string]bool{}, statuses: map[int]bool{},
		missing: []error{
			clinicaldoc.ErrUnauthorized, clinicaldoc.ErrForbidden, clinicaldoc.ErrNotFound, clinicaldoc.ErrConflict, clinicaldoc.ErrTooLarge,
			clinicaldoc.ErrValidation, clinicaldoc.ErrRateLimited, clinicaldoc.ErrServer, clinicaldoc.ErrNoteIncomplete, clinicaldoc.ErrInvalidArgument,
			clinicaldoc.ErrUnexpectedResponse, clinicaldoc.ErrOutcomeUnknown, clinicaldoc.ErrNotCreated, clinicaldoc.ErrProcessingFailed,
			clinicaldoc.ErrPatientMismatch, clinicaldoc.ErrAudioChanged, context.DeadlineExceeded, context.Canceled, io.ErrUnexpectedEOF,
		},
	}
}

// Write takes in the lines of the loggers.
func (w *eavesdropper) Write(line []byte) (int, error) {
	w.read("log", string(line))
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(line)
}

func (w *eavesdropper) read(how, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.clean[text] {
		return
	}
	if found := leak(text); found == "" {
		w.clean[text] = true
	} else {
		w.leaks = append(w.leaks, fmt.Sprintf("%s: %s prints %q: %.300s", w.step, how, found, text))
	}
}

// see prints the value in every way a program may: itself, what it points to, and in the company of others.
func (w *eavesdropper) see(what string, value any) {
	if value == nil || w.deaf {
		return
	}
	forms := []any{value}
	if v := reflect.ValueOf(value); v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		if token.IsExported(v.Type().Elem().Name()) { // which a program can have by value
			forms = append(forms, v.Elem().Interface())
		}
	}
	w.mu.Lock()
	w.values++
	if holdsSecret(reflect.ValueOf(value), 0) {
		w.carriers[strings.TrimPrefix(fmt.Sprintf("%T", value), "*")] = true
	}
	w.mu.Unlock()
	for _, form := range forms {
		how := what + " " + fmt.Sprintf("%T", form)
		for _, verb := range append([]string{"%T", "%U"}, verbs...) {
			w.read(how+" "+verb, fmt.Sprintf(verb, form))
		}
		w.read(how+" among others", fmt.Sprintf("%v %+v %#v", []any{form}, struct{ V any }{form}, map[string]any{"k": form}))
		var text, encoded strings.Builder
		logged := slog.Group("g", "value", form)
		slog.New(slog.NewTextHandler(&text, nil)).LogAttrs(w.ctx, slog.LevelInfo, "m", slog.Any("value", form), logged)
		w.read(how+" slog text", text.String())
		if reflect.ValueOf(form).Kind() != reflect.Slice { // which is encoded as JSON, and so gives everything
			slog.New(slog.NewJSONHandler(&encoded, nil)).LogAttrs(w.ctx, slog.LevelInfo, "m", slog.Any("value", form), logged)
			w.read(how+" slog JSON", encoded.String())
		}
	}
	if err, ok := value.(error); ok {
		w.mu.Lock()
		w.missing = slices.DeleteFunc(w.missing, func(kind error) bool { return errors.Is(err, kind) })
		w.mu.Unlock()
		w.read(what+" error text", err.Error())
		for _, wrapped := range []error{fmt.Errorf("wrapped: %w", err), errors.Join(err, io.EOF)} {
			w.read(what+" wrapped", fmt.Sprintf("%v %+v %s %q", wrapped, wrapped, wrapped, wrapped))
		}
		for _, inner := range unwrapped(err) {
			w.see(what+" wraps", inner)
		}
	}
}

// holdsSecret looks for a canary in all of the SDK's own that a value reaches, unexported fields included.
func holdsSecret(v reflect.Value, depth int) bool {
	if !v.IsValid() || depth > 12 {
		return false
	}
	switch v.Kind() {
	case reflect.String:
		return leak(v.String()) != ""
	case reflect.Int64:
		return v.Int() == secretPatient
	case reflect.Pointer, reflect.Interface:
		return holdsSecret(v.Elem(), depth+1)
	case reflect.Struct:
		if !strings.HasPrefix(v.Type().PkgPath(), reflect.TypeFor[clinicaldoc.Client]().PkgPath()) || v.Type() == reflect.TypeFor[clinicaldoc.Client]() {
			return false // what others own may be in use meanwhile
		}
		for _, field := range v.Fields() {
			if holdsSecret(field, depth+1) {
				return true
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return v.Kind() == reflect.Slice && leak(string(v.Bytes())) != ""
		}
		for i := range v.Len() {
			if holdsSecret(v.Index(i), depth+1) {
				return true
			}
		}
	case reflect.Map:
		for iter := v.MapRange(); iter.Next(); {
			if holdsSecret(iter.Key(), depth+1) || holdsSecret(iter.Value(), depth+1) {
				return true
			}
		}
	default:
	}
	return false
}

// observe is the client's observer.
func (w *eavesdropper) observe(_ context.Context, a clinicaldoc.Attempt) {
	w.mu.Lock()
	w.operations[a.Operation] = true
	w.statuses[a.StatusCode] = true
	w.mu.Unlock()
	w.see("observer", &a)
}

// patientFile is a service in a box with canaries in it, and a client that tells the eavesdropper everything.
type patientFile struct {
	*eavesdropper
	srv    *clinicaldoctest.Server
	client *clinicaldoc.Client
	dir    string

	complete, failed, young, doomed, tokenID int64
	lost                                     *clinicaldoc.OutcomeUnknownError
}

func newPatientFile(t *testing.T, w *eavesdropper, variant clinicaldoctest.Variant) *patientFile {
	t.Helper()
	srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess(), clinicaldoctest.WithVariant(variant))
	t.Cleanup(srv.Close)
	p := &patientFile{eavesdropper: w, srv: srv, dir: filepath.Join(t.TempDir(), secret("folder"))}
	require.NoError(t, os.MkdirAll(p.dir, 0o700))
	user := srv.AddUser(clinicaldoctest.User{Name: secret("user"), Email: secret("mail") + "@clinic.test", Token: "9|" + secret("token")})
	p.tokenID = srv.AddToken(user.ID, secret("label")).ID
	srv.AddPatient(clinicaldoctest.Patient{ID: secretPatient, Name: secret("patient")})
	note := clinicaldoctest.Note{
		UserID: user.ID, PatientID: secretPatient, Name: secret("note"), Transcription: secret("transcription"), Analysis: secret("analysis"), Stuck: true,
	}
	p.complete, p.doomed = srv.AddNote(note), srv.AddNote(note)
	note.Stage, note.ErrorState = clinicaldoctest.StageFailed, secret("state")
	p.failed = srv.AddNote(note)
	note.Stage, note.ErrorState = clinicaldoctest.StageTranscribing, ""
	p.young = srv.AddNote(note)

	level := &slog.HandlerOptions{Level: slog.LevelDebug}
	client, err := clinicaldoc.NewClient(srv.URL, user.Token,
		clinicaldoc.WithHTTPClient(&http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := srv.Transport().RoundTrip(r)
			if err == nil && resp.Header.Get("X-Debug") != "" {
				resp.Header.Set("Content-Type", secret("type")+"/ x") // which the box sets itself
			}
			return resp, err
		})}),
		clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 1}),
		clinicaldoc.WithLogger(slog.New(slog.NewMultiHandler(slog.NewTextHandler(w, level), slog.NewJSONHandler(w, level)))),
		clinicaldoc.WithObserver(w.observe))
	require.NoError(t, err)
	p.client = client
	p.lost = &clinicaldoc.OutcomeUnknownError{Params: p.create(), SentAt: time.Now(), Err: clinicaldoc.ErrServer}
	return p
}

func (p *patientFile) create() clinicaldoc.CreateNoteParams {
	return clinicaldoc.CreateNoteParams{
		Name: secret("note"), PatientID: secretPatient, PromptID: 1, Audio: clinicaldoc.AudioBytes(secret("file")+".wav", []byte(secret("audio"))),
	}
}

// each shows the eavesdropper what an iterator yields.
func (p *patientFile) each(notes iter.Seq2[*clinicaldoc.ProgressNote, error]) error {
	var last error
	for note, err := range notes {
		p.see("yielded", note)
		p.see("yielded", err)
		last = err
	}
	return last
}

// brief limits a wait that would take a day.
func brief(ctx context.Context) context.Context {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// surface is every operation of the SDK, by the name of its method.
func (p *patientFile) surface(ctx context.Context, opts ...clinicaldoc.CallOption) map[string]func() (any, error) {
	notes := p.client.Notes
	wait := clinicaldoc.WaitParams{MaxFailures: 1, OnUpdate: func(n *clinicaldoc.ProgressNote) { p.see("update", n) }}
	list := clinicaldoc.ListNotesParams{PatientID: secretPatient, PerPage: 2}
	update := clinicaldoc.UpdateNoteParams{Name: new(secret("note")), Transcription: new(secret("transcription")), Analysis: new(secret("analysis"))}
	return map[string]func() (any, error){
		"NotesService.Create": func() (any, error) {
			params := p.create()
			p.see("params", params)
			p.see("params", params.Audio)
			note, err := notes.Create(ctx, params, opts...)
			if unknown, ok := errors.AsType[*clinicaldoc.OutcomeUnknownError](err); ok {
				p.see("unknown", unknown)
				p.lost = unknown
			}
			return note, err
		},
		"NotesService.List": func() (any, error) {
			p.see("params", list)
			page, err := notes.List(ctx, list, opts...)
			if err == nil {
				p.see("meta", page.Meta)
				for i := range page.Items {
					p.see("row", &page.Items[i])
				}
			}
			return page, err
		},
		"NotesService.All":    func() (any, error) { return nil, p.each(notes.All(ctx, list, opts...)) },
		"NotesService.Get":    func() (any, error) { return p.withParts(notes.Get(ctx, p.complete, opts...)) },
		"NotesService.Update": func() (any, error) { p.see("params", update); return notes.Update(ctx, p.complete, update, opts...) },
		"NotesService.Sign":   func() (any, error) { return notes.Sign(ctx, p.young, opts...) },
		"NotesService.AudioURL": func() (any, error) {
			return notes.AudioURL(ctx, p.complete, opts...)
		},
		"NotesService.DownloadAudio": func() (any, error) {
			return notes.DownloadAudio(ctx, p.complete, io.Discard, clinicaldoc.DownloadParams{}, opts...)
		},
		"NotesService.DownloadAudioFile": func() (any, error) {
			for _, unusable := range []string{p.dir, filepath.Join(p.dir, "missing", secret("file"))} {
				_, err := notes.DownloadAudioFile(ctx, p.complete, unusable, clinicaldoc.DownloadParams{}, opts...)
				p.see("unusable path", err)
			}
			return notes.DownloadAudioFile(ctx, p.complete, filepath.Join(p.dir, secret("file")), clinicaldoc.DownloadParams{}, opts...)
		},
		"NotesService.Wait":  func() (any, error) { return notes.Wait(brief(ctx), p.young, wait, opts...) },
		"NotesService.Watch": func() (any, error) { return nil, p.each(notes.Watch(brief(ctx), p.failed, wait, opts...)) },
		"NotesService.WaitAll": func() (any, error) {
			return nil, p.each(notes.WaitAll(brief(ctx), []int64{p.complete, p.failed, p.young}, wait, opts...))
		},
		"NotesService.FindCreated": func() (any, error) {
			p.see("lost", p.lost)
			absent := *p.lost
			absent.Params.Name = secret("absent")
			params := clinicaldoc.FindCreatedParams{Settle: time.Minute, UniqueName: true}
			p.see("params", params)
			_, err := notes.FindCreated(brief(ctx), &absent, params, opts...)
			p.see("absent", err)
			return notes.FindCreated(brief(ctx), p.lost, clinicaldoc.FindCreatedParams{}, opts...)
		},
		"NotesService.Delete": func() (any, error) { return notes.Delete(ctx, p.doomed, opts...) },
		"TokensService.List": func() (any, error) {
			tokens, err := p.client.Tokens.List(ctx, opts...)
			for i := range tokens {
				p.see("token", &tokens[i])
			}
			return tokens, err
		},
		"TokensService.Revoke": func() (any, error) { return p.client.Tokens.Revoke(ctx, p.tokenID, opts...) },
		"UsersService.Me":      func() (any, error) { return p.client.Users.Me(ctx, opts...) },
		"Client.Do": func() (any, error) {
			p.see("Do", p.client.Do(ctx, http.MethodGet, "/v1/progress-notes", nil, new(struct{ Data int }), opts...))
			p.see("Do", p.client.Do(ctx, http.MethodGet, "/v1/patients/"+secret("path"), nil, nil, opts...))
			return nil, p.client.Do(ctx, http.MethodPost, "/v1/"+secret("path"), map[string]string{"name": secret("body")}, nil, opts...)
		},
	}
}

// withParts shows the parts of a note too.
func (p *patientFile) withParts(note *clinicaldoc.ProgressNote, err error) (*clinicaldoc.ProgressNote, error) {
	if note != nil {
		p.see("part", note.Patient)
		p.see("part", note.User)
		p.see("part", note.Audio)
		p.see("part", note.Template)
		p.see("part", note.Has)
	}
	return note, err
}

// run calls every operation, in an order that leaves each its note.
func (p *patientFile) run(ctx context.Context, name string) (failures int) {
	var response clinicaldoc.Response
	ops := p.surface(ctx, clinicaldoc.WithResponse(&response), clinicaldoc.WithHeader("X-Custom", secret("header")), clinicaldoc.WithQuery("q", secret("query")))
	for _, op := range slices.Sorted(maps.Keys(ops)) {
		p.mu.Lock()
		p.step = name + ", " + op
		p.mu.Unlock()
		value, err := ops[op]()
		p.see("result", value)
		p.see("error", err)
		p.see("response", &response)
		p.see("client", p.client)
		encoded, _ := json.Marshal(p.client)
		p.read("client as JSON", string(encoded))
		if err != nil {
			failures++
		}
	}
	return failures
}

const html = "<html>" + canary + "</html>"

// troubles are the faults that the operations meet, by name. Every text the service can say in them is a canary.
func troubles() map[string]clinicaldoctest.Fault {
	refusal := `{"message":"` + secret("message") + `","errors":{"name":["` + secret("validation") + `"],"` + canary + ` key":["` + secret("validation") + `"]}}`
	told := func(f clinicaldoctest.Fault) clinicaldoctest.Fault {
		return f.WithHeader("X-Request-Id", secret("id")+" two words").WithHeader("X-Debug", secret("header")).WithHeader("Set-Cookie", "session="+secret("cookie"))
	}
	note := `{"id":1,"name":"` + secret("note") + `","patient":{"id":5,"name":"` + secret("patient") + `"},`
	faults := map[string]clinicaldoctest.Fault{
		"throttled":          told(clinicaldoctest.TooManyRequests(time.Second)),
		"throttled for long": told(clinicaldoctest.TooManyRequests(24 * time.Hour)),
		"HTML":               told(clinicaldoctest.Answer(http.StatusOK, html)),
		"nothing":            told(clinicaldoctest.Answer(http.StatusOK, "")),
		"another record":     clinicaldoctest.Answer(http.StatusOK, `{"id":4711,"name":"`+secret("note")+`","url":"https://s.clinic.test/`+secret("url")+`"}`),
		"wrong kinds":        clinicaldoctest.Answer(http.StatusOK, note+`"created_at":"`+canary+`","has":{"`+canary+` x":1,"signed":"`+canary+`"},"data":"`+canary+`","url":"`+canary+`","tokens":"`+canary+`"}`),
		"broken JSON":        clinicaldoctest.Answer(http.StatusOK, note+`"transcription":`+canary),
		"nothing new":        clinicaldoctest.Answer(http.StatusOK, `{"data":[],"meta":{"next_cursor":"`+secret("cursor")+`"}}`),
		"another patient":    clinicaldoctest.Answer(http.StatusOK, `{"data":[`+note+`"user_id":1}],"meta":{"next_cursor":"`+secret("cursor")+`"}}`),
		"signed elsewhere":   clinicaldoctest.Answer(http.StatusOK, `{"url":"https://storage.elsewhere.test/`+secret("path")+`?signature=`+secret("signature")+`&expires=4102444800"}`),
		"unsafe address":     clinicaldoctest.Answer(http.StatusOK, `{"url":"http://`+secret("user")+`:`+secret("password")+`@10.0.0.1/`+secret("path")+`"}`),
		"redirect":           clinicaldoctest.Answer(http.StatusFound, html).WithHeader("Location", "https://elsewhere.test/"+secret("location")+"?token="+secret("token")),
		"redirect in circle": clinicaldoctest.Answer(http.StatusTemporaryRedirect, html).WithHeader("Location", "/v1/"+secret("location")),
		"truncated":          clinicaldoctest.Truncate(20),
		"truncated chunks":   clinicaldoctest.TruncateChunked(20),
		"reset":              clinicaldoctest.Reset(),
		"reset after all":    clinicaldoctest.ResetAfterRequest(),
		"lost answer":        clinicaldoctest.ResetAfterCommit(),
		"stall":              clinicaldoctest.Delay(24 * time.Hour),
	}
	for _, status := range []int{400, 401, 403, 404, 409, 413, 417, 422, 500, 503} {
		faults[fmt.Sprintf("%d", status)] = told(clinicaldoctest.Answer(status, refusal))
	}
	for _, status := range []int{403, 413, 502} {
		faults[fmt.Sprintf("%d with a page", status)] = told(clinicaldoctest.Answer(status, html))
	}
	return faults
}

// privacyScenario runs the whole surface, first without a fault, then under each, in virtual time.
func privacyScenario(t *testing.T, w *eavesdropper) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		for name, variant := range map[string]clinicaldoctest.Variant{
			"well":              {},
			"well with cursors": {Pagination: clinicaldoctest.PaginationCursor, WrapObjects: true, ExtraFields: true, LocalDisk: true},
			"ignored filter":    {Query: clinicaldoctest.QueryNames{PatientID: "filter[patient]"}, Patient: clinicaldoctest.PatientUnnamed},
		} {
			p := newPatientFile(t, w, variant)
			failures := p.run(t.Context(), name)
			assert.LessOrEqual(t, failures, 9, "most of it works")
			p.srv.Close()
		}
		for name, fault := range troubles() {
			p := newPatientFile(t, w, clinicaldoctest.Variant{})
			p.srv.Inject("", fault.Always())
			assert.Positive(t, p.run(t.Context(), name))
			p.srv.ClearFaults()
			p.srv.Inject(clinicaldoctest.RouteAudio, fault.Always())
			for _, op := range []string{"NotesService.DownloadAudio", "NotesService.DownloadAudioFile"} {
				p.mu.Lock()
				p.step = name + " of storage, " + op
				p.mu.Unlock()
				n, err := p.surface(t.Context())[op]()
				p.see("bytes", n)
				p.see("error", err)
			}
			p.srv.Close()
		}
		disk := newPatientFile(t, w, clinicaldoctest.Variant{LocalDisk: true})
		disk.srv.Inject(clinicaldoctest.RouteAudio, clinicaldoctest.Truncate(20))
		disk.run(t.Context(), "cut without ranges")
		disk.srv.Close()
		absent := newPatientFile(t, w, clinicaldoctest.Variant{})
		absent.srv.Close()
		absent.run(t.Context(), "absent service")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		absent.run(ended, "cancelled")
	})
}

func TestNothingPrintsSecretsUnasked(t *testing.T) {
	t.Parallel()
	w := newEavesdropper(t)
	privacyScenario(t, w)
	assert.Empty(t, strings.Join(w.leaks[:min(len(w.leaks), 20)], "\n"), "%d leaks", len(w.leaks))

	// The check sees something only if the secrets were there to be printed.
	carriers := slices.Sorted(maps.Keys(w.carriers))
	for _, typ := range []string{
		"AudioInfo", "AudioSource", "AudioURL", "CreateNoteParams", "Error", "ListNotesParams", "Object", "OutcomeUnknownError",
		"PageMeta", "Page[github.com/clinicaldoc/clinicaldoc-go.ProgressNote]", "ProgressNote", "Response", "Token", "UpdateNoteParams", "User", "WaitError",
	} {
		assert.Contains(t, carriers, "clinicaldoc."+typ)
	}
	assert.Subset(t, slices.Collect(maps.Keys(w.statuses)), []int{0, 200, 201, 302, 400, 401, 403, 404, 409, 413, 422, 429, 500})
	assert.Subset(t, slices.Collect(maps.Keys(w.operations)), []string{
		"Do", "Notes.AudioURL", "Notes.Create", "Notes.Delete", "Notes.DownloadAudio", "Notes.Get", "Notes.List", "Notes.Sign", "Notes.Update", "Tokens.List", "Tokens.Revoke", "Users.Me",
	})
	for _, line := range []string{`"level":"DEBUG"`, `"level":"WARN"`, "level=DEBUG", "level=WARN"} {
		assert.Contains(t, w.log.String(), line)
	}
	assert.Empty(t, w.missing, "kinds of errors that were never seen")
	t.Logf("%d values printed, %d bytes logged", w.values, w.log.Len())
}

// A new method has to come into the scenario.
func TestThePrivacyScenarioHasTheWholeSurface(t *testing.T) {
	t.Parallel()
	client := serve(t)
	var methods []string
	for _, service := range []any{client, client.Notes, client.Tokens, client.Users} {
		typ := reflect.TypeOf(service)
		for method := range typ.Methods() {
			if name := method.Name; name != "LogValue" && name != "Format" && name != "BaseURL" {
				methods = append(methods, typ.Elem().Name()+"."+name)
			}
		}
	}
	p := &patientFile{eavesdropper: newEavesdropper(t), client: client}
	assert.ElementsMatch(t, methods, slices.Collect(maps.Keys(p.surface(t.Context()))))
}

const privacyChild = "CLINICALDOC_TEST_PRIVACY_CHILD"

// The scenario again, in a process of its own: whatever writes to the standard streams there is not the SDK.
func TestNothingIsWrittenToTheStandardStreams(t *testing.T) {
	t.Parallel()
	if os.Getenv(privacyChild) != "" {
		w := newEavesdropper(t)
		w.deaf = true
		privacyScenario(t, w)
		return
	}
	self, err := os.Executable()
	require.NoError(t, err)
	child := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.count=1")
	child.Env = append(os.Environ(), privacyChild+"=1")
	var stdout, stderr bytes.Buffer
	child.Stdout, child.Stderr = &stdout, &stderr
	require.NoError(t, child.Run(), stdout.String()+stderr.String())
	for line := range strings.Lines(stdout.String() + stderr.String()) {
		framework := line == "PASS\n" || strings.HasPrefix(line, "coverage: ") || strings.HasPrefix(line, "warning: GOCOVERDIR")
		assert.True(t, framework, "written by the SDK: %s", line)
	}
	assert.Empty(t, leak(stdout.String()+stderr.String()))
	assert.Contains(t, stdout.String(), "PASS")
}

// saysItself lists the types that fmt may print field by field, with the only fields they may have.
var saysItself = map[string][]string{
	"Attempt":       {"Operation", "Method", "Route", "Number", "StatusCode", "Duration", "RequestID", "BytesSent", "BytesReceived", "Err"},
	"AttemptInfo":   {"Operation", "Method", "Route", "ServerAddress", "ServerPort", "Number"},
	"AttemptResult": {"StatusCode", "Duration", "BytesSent", "BytesReceived", "RateLimitRemaining", "ErrorType", "OutcomeUnknown"},
	"CallInfo":      {"Operation"},
	"CallResult":    {"Attempts", "Duration", "ErrorType", "OutcomeUnknown"},
	"NotesService":  {"client"},
	"QueryNames":    {"PatientID", "PerPage", "Sort", "Page", "Cursor"},
	"TokensService": {"client"},
	"TraceContext":  {"Traceparent", "Tracestate"},
	"UsersService":  {"client"},
}

// A type of which a text can be reached decides itself what of it is printed, in fmt and in slog.
func TestEveryTypeThatHoldsTextDecidesWhatIsPrinted(t *testing.T) {
	t.Parallel()
	formatter, valuer := reflect.TypeFor[fmt.Formatter](), reflect.TypeFor[slog.LogValuer]()
	checked := 0
	for name, s := range publicSamples(t) { // all exported structs: TestNoPublicTypeIsForgotten
		typ := reflect.TypeOf(s.direct[0])
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if !reachesText(typ, map[reflect.Type]bool{}) {
			continue
		}
		checked++
		if allowed, ok := saysItself[name]; ok {
			var fields []string
			for field := range typ.Fields() {
				fields = append(fields, field.Name)
			}
			assert.ElementsMatch(t, allowed, fields, name)
			continue
		}
		assert.True(t, reflect.PointerTo(typ).Implements(formatter), "%s has no Format", name)
		assert.True(t, reflect.PointerTo(typ).Implements(valuer), "%s has no LogValue", name)
	}
	assert.Greater(t, checked, 20)
}

func reachesText(typ reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[typ] || typ == reflect.TypeFor[time.Time]() {
		return false
	}
	seen[typ] = true
	switch typ.Kind() {
	case reflect.String, reflect.Interface:
		return true
	case reflect.Slice, reflect.Array:
		return typ.Elem().Kind() == reflect.Uint8 || reachesText(typ.Elem(), seen)
	case reflect.Pointer:
		return reachesText(typ.Elem(), seen)
	case reflect.Map:
		return reachesText(typ.Key(), seen) || reachesText(typ.Elem(), seen)
	case reflect.Struct:
		for field := range typ.Fields() {
			if reachesText(field.Type, seen) {
				return true
			}
		}
	default:
	}
	return false
}
