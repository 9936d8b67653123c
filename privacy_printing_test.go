package clinicaldoc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// sample is a value of a public type in all the shapes a program may print it in.
type sample struct {
	direct []any // the value and a pointer to it
	nested []any // in exported fields, lists and maps
}

func sampleOf[T any](v T) sample {
	return sample{
		direct: []any{v, &v},
		nested: []any{
			[]T{v}, []*T{&v}, [1]T{v}, map[string]T{"k": v}, map[string]*T{"k": &v}, []any{v, &v}, map[string]any{"k": v, "p": &v},
			struct{ V T }{v}, &struct{ V T }{v}, struct{ V *T }{&v}, struct{ V any }{v}, struct{ V []T }{[]T{v}},
			struct{ Outer struct{ V T } }{struct{ V T }{v}},
		},
	}
}

// samplePointer is for types that are only used by pointer.
func samplePointer[T any](p *T) sample {
	return sample{direct: []any{p}, nested: []any{[]*T{p}, map[string]*T{"k": p}, struct{ V *T }{p}, &struct{ V *T }{p}, []any{p}, struct{ V any }{p}}}
}

// secretNote has a canary in every field that can hold one.
func secretNote(t *testing.T) clinicaldoc.ProgressNote {
	t.Helper()
	secret := func(raw string) clinicaldoc.Object {
		var o clinicaldoc.Object
		require.NoError(t, o.UnmarshalJSON([]byte(raw)))
		return o
	}
	return clinicaldoc.ProgressNote{
		ID: 7, Name: canary, Transcription: canary, Analysis: canary,
		Template:   &clinicaldoc.Template{ID: 3, Name: canary, Description: canary},
		Patient:    secret(`{"name":"` + canary + `","id":4}`),
		Audio:      &clinicaldoc.AudioInfo{Size: 5, FileURL: "https://storage.clinic.test/" + canary + "?signature=" + canary},
		User:       secret(`{"name":"` + canary + `"}`),
		ErrorState: new(canary),
	}
}

// publicSamples must have every exported struct type of the package.
func publicSamples(t *testing.T) map[string]sample {
	t.Helper()
	note := secretNote(t)
	client, err := clinicaldoc.NewClient(testBase, canary)
	require.NoError(t, err)
	answered := clinicaldoc.Error{StatusCode: 422, Message: canary, Fields: map[string][]string{"name": {canary}, canary + " " + canary: {canary}}, Operation: "Notes.Create"}
	params := clinicaldoc.CreateNoteParams{
		Name: canary, PatientID: canaryPatient, Audio: clinicaldoc.AudioBytes(canary+".wav", []byte(canary)),
	}
	meta := clinicaldoc.PageMeta{CurrentPage: 2, NextCursor: canary}
	return map[string]sample{
		"AudioInfo":           sampleOf(*note.Audio),
		"AudioSource":         sampleOf(*params.Audio),
		"AudioURL":            sampleOf(clinicaldoc.AudioURL{URL: "https://storage.clinic.test/?signature=" + canary}),
		"AttemptInfo":         sampleOf(clinicaldoc.AttemptInfo{Operation: "Notes.Create"}),
		"AttemptResult":       sampleOf(clinicaldoc.AttemptResult{ErrorType: "503"}),
		"Attempt":             sampleOf(clinicaldoc.Attempt{Operation: "Notes.Create", Err: &answered}),
		"CallInfo":            sampleOf(clinicaldoc.CallInfo{Operation: "Notes.Create"}),
		"CallResult":          sampleOf(clinicaldoc.CallResult{ErrorType: "503"}),
		"Client":              sampleOf(*client),
		"Completion":          sampleOf(note.Has),
		"Confirmation":        sampleOf(clinicaldoc.Confirmation{Message: canary}),
		"ConflictError":       sampleOf(clinicaldoc.ConflictError{Current: &note, Err: &answered}),
		"CreateNoteParams":    sampleOf(params),
		"DownloadParams":      sampleOf(clinicaldoc.DownloadParams{OnProgress: func(int64, int64) {}}),
		"Error":               sampleOf(answered),
		"FindCreatedParams":   sampleOf(clinicaldoc.FindCreatedParams{Settle: time.Minute, ExcludeIDs: []int64{canaryPatient}}),
		"Hooks":               sampleOf(clinicaldoc.Hooks{}),
		"ListNotesParams":     sampleOf(clinicaldoc.ListNotesParams{PatientID: canaryPatient, Cursor: canary}),
		"NotesService":        sampleOf(*client.Notes),
		"Object":              sampleOf(note.Patient),
		"OutcomeUnknownError": sampleOf(clinicaldoc.OutcomeUnknownError{Params: params, SentAt: time.Now(), Err: &answered}),
		"Page":                sampleOf(clinicaldoc.Page[clinicaldoc.ProgressNote]{Items: []clinicaldoc.ProgressNote{note}, Meta: meta}),
		"PageMeta":            sampleOf(meta),
		"ProgressNote":        sampleOf(note),
		"QueryNames":          sampleOf(clinicaldoc.QueryNames{Page: "p"}),
		"RateLimit":           sampleOf(clinicaldoc.RateLimit{Limit: 1}),
		"Response":            sampleOf(clinicaldoc.Response{StatusCode: 200, Header: http.Header{"Set-Cookie": {canary}}, Body: []byte(canary)}),
		"RetryPolicy":         sampleOf(clinicaldoc.RetryPolicy{MaxRetries: 1}),
		"Template":            sampleOf(*note.Template),
		"Token":               sampleOf(clinicaldoc.Token{ID: 1, Name: canary}),
		"TokensService":       sampleOf(*client.Tokens),
		"TraceContext":        sampleOf(clinicaldoc.TraceContext{}),
		"UpdateNoteParams":    sampleOf(clinicaldoc.UpdateNoteParams{Name: new(canary), Transcription: new(canary), Analysis: new(canary)}),
		"User":                sampleOf(clinicaldoc.User{ID: 1, Name: canary, Email: canary + "@clinic.test"}),
		"UsersService":        sampleOf(*client.Users),
		"WaitError":           samplePointer(&clinicaldoc.WaitError{ID: 7, Note: &note, Err: &answered}),
		"WaitParams":          sampleOf(clinicaldoc.WaitParams{OnUpdate: func(*clinicaldoc.ProgressNote) {}}),
	}
}

func assertPrintsSilently(t *testing.T, value any, what string) {
	t.Helper()
	for _, verb := range verbs {
		assertSilent(t, fmt.Sprintf(verb, value), what+" "+verb)
	}
	assertSilent(t, fmt.Sprint(value), what)
	assertSilent(t, fmt.Sprintln(value), what)
	var text strings.Builder
	log := slog.New(slog.NewTextHandler(&text, nil))
	log.InfoContext(t.Context(), "m", "value", value)
	log.With("value", value).WithGroup("g").InfoContext(t.Context(), "m", slog.Any("value", value))
	assertSilent(t, text.String(), what+" slog text")
}

func TestNoPublicTypePrintsSecrets(t *testing.T) {
	t.Parallel()
	for name, s := range publicSamples(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, value := range slices.Concat(s.direct, s.nested) {
				assertPrintsSilently(t, value, fmt.Sprintf("%T", value))
			}
			// The JSON handler encodes a list or a struct as encoding/json does, which is explicit and gives everything; what
			// is logged by itself is printed by its own rule.
			var encoded strings.Builder
			log := slog.New(slog.NewJSONHandler(&encoded, nil))
			for _, value := range s.direct {
				for _, odd := range []string{"%t", "%5.2f", "%U", "%c", "%z"} {
					assertSilent(t, fmt.Sprintf(odd, value), name+" "+odd)
				}
				log.InfoContext(t.Context(), "m", "value", value)
				log.With("value", value).InfoContext(t.Context(), "m", slog.Group("g", slog.Any("value", value)))
			}
			assertSilent(t, encoded.String(), name+" slog JSON")
		})
	}
}

func TestNoPublicTypeIsForgotten(t *testing.T) {
	t.Parallel()
	var exported []string
	sources, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.IsExported() {
				if _, isStruct := spec.Type.(*ast.StructType); isStruct {
					exported = append(exported, spec.Name.Name)
				}
			}
			return true
		})
	}
	require.Contains(t, exported, "ProgressNote")
	assert.ElementsMatch(t, exported, slices.Collect(maps.Keys(publicSamples(t))))
}

func TestWhatIsPrinted(t *testing.T) {
	t.Parallel()
	note := secretNote(t)
	note.Has = clinicaldoc.Completion{Transcription: true}
	for want, value := range map[string]any{
		"clinicaldoc.ProgressNote{id=7 stage=failed transcription=true content=false signed=false}": note,
		"clinicaldoc.Object{present=true}":                   note.Patient,
		"clinicaldoc.Template{id=3}":                         note.Template,
		"clinicaldoc.AudioInfo{duration=0 bitrate=0 size=5}": note.Audio,
		"clinicaldoc.User{id=2}":                             clinicaldoc.User{ID: 2, Name: canary},
		"clinicaldoc.Page{items=1 meta={current_page=2 last_page=3 per_page=4 total=5 per_page_ignored=false}}":       clinicaldoc.Page[clinicaldoc.ProgressNote]{Items: []clinicaldoc.ProgressNote{note}, Meta: clinicaldoc.PageMeta{CurrentPage: 2, LastPage: 3, PerPage: 4, Total: 5}},
		"clinicaldoc.UpdateNoteParams{name=true transcription=false analysis=false}":                                  clinicaldoc.UpdateNoteParams{Name: new(canary)},
		"clinicaldoc.CreateNoteParams{prompt_id=4 audio=false}":                                                       clinicaldoc.CreateNoteParams{Name: canary, PromptID: 4},
		"clinicaldoc.AudioSource{size=6}":                                                                             clinicaldoc.AudioBytes(canary, []byte(canary)),
		"clinicaldoc.Response{status=200 request_id=r attempts=2 bytes=6}":                                            clinicaldoc.Response{StatusCode: 200, RequestID: "r", Attempts: 2, Body: []byte(canary)},
		"clinicaldoc.Confirmation{}":                                                                                  clinicaldoc.Confirmation{Message: canary},
		"clinicaldoc: Notes.Get (GET /x): 404 Not Found: it does not exist, or not for this token's user":             clinicaldoc.Error{StatusCode: 404, Operation: "Notes.Get", Method: "GET", Route: "/x"},
		"clinicaldoc.Client{base_url=https://api.clinic.test}":                                                        serve(t),
		"clinicaldoc.ListNotesParams{patient=true sort=latest page=2 per_page=3 prefetch=4}":                          clinicaldoc.ListNotesParams{PatientID: canaryPatient, Sort: clinicaldoc.SortLatest, Page: 2, PerPage: 3, Prefetch: 4},
		"clinicaldoc.AudioURL{expires_at=2024-05-01 10:00:01 +0000 UTC}":                                              clinicaldoc.AudioURL{URL: canary, ExpiresAt: moment(1, 0)},
		"clinicaldoc.Token{id=1 created_at=2024-05-01 10:00:01 +0000 UTC last_used_at=2024-05-01 10:00:02 +0000 UTC}": clinicaldoc.Token{ID: 1, CreatedAt: moment(1, 0), LastUsedAt: moment(2, 0)},
	} {
		assert.Equal(t, want, fmt.Sprint(value))
		assert.Equal(t, want, fmt.Sprintf("%#v", value))
	}
}

func TestNilPointersPrint(t *testing.T) {
	t.Parallel()
	for _, value := range []any{
		(*clinicaldoc.ProgressNote)(nil), (*clinicaldoc.Client)(nil), (*clinicaldoc.Error)(nil), (*clinicaldoc.OutcomeUnknownError)(nil), (*clinicaldoc.AudioSource)(nil),
	} {
		assert.NotPanics(t, func() { assertPrintsSilently(t, value, fmt.Sprintf("%T", value)) })
	}
}

// failures are errors of many origins, each of which had a canary at hand.
func failures(t *testing.T) map[string]error {
	t.Helper()
	folder := filepath.Join(t.TempDir(), canary)
	require.NoError(t, os.Mkdir(folder, 0o700))
	_, missing := clinicaldoc.AudioFile(filepath.Join(folder, "visit.wav"))
	_, directory := clinicaldoc.AudioFile(folder)
	_, badURL := clinicaldoc.NewClient("https://"+canary+"@api.clinic.test", canary)
	_, badHost := clinicaldoc.NewClient("https://api.clinic.test:"+canary, canary)
	_, badToken := clinicaldoc.NewClient(testBase, canary+" ")
	failures := map[string]error{"missing": missing, "directory": directory, "bad URL": badURL, "bad host": badHost, "bad token": badToken}

	path := "/v1/progress-notes/7"
	for name, answer := range map[string]call{
		"validation":   {status: 422, response: `{"message":"` + canary + `","errors":{"name":["` + canary + `"],"` + canary + ` x":["x"]}}`, answerHeader: map[string]string{"X-Request-Id": canary + " " + canary}},
		"redirect":     {status: 302, answerHeader: map[string]string{"Location": "https://" + canary + ".test/" + canary}},
		"not JSON":     {response: canary, answerHeader: map[string]string{"Content-Type": canary + "/" + canary + " x"}},
		"wrong kind":   {response: `{"id":7,"created_at":"` + canary + `"}`},
		"another":      {response: `{"id":8,"name":"` + canary + `"}`},
		"odd key":      {response: `{"id":7,"` + canary + ` x":1,"name":{"` + canary + ` x":"` + canary + `"}}`},
		"URL error":    {fail: &url.Error{Op: "Get", URL: "https://" + canary, Err: errors.New(canary)}},
		"plain error":  {fail: errors.New(canary)},
		"path error":   {fail: &os.PathError{Op: "open", Path: canary, Err: errors.New(canary)}},
		"joined error": {fail: errors.Join(errors.New(canary), io.ErrUnexpectedEOF)},
		"context":      {fail: context.DeadlineExceeded},
	} {
		answer.url = path
		_, failures[name] = serve(t, answer).Notes.Get(t.Context(), 7)
	}
	_, failures["patient"] = serve(t, call{url: fmt.Sprintf("%s?cursor=%s&patient_id=%d", notesPath, canary, canaryPatient), response: `[{"id":1,"patient":{"id":5,"name":"` + canary + `"}}]`}).
		Notes.List(t.Context(), clinicaldoc.ListNotesParams{PatientID: canaryPatient, Cursor: canary})
	_, failures["sort"] = serve(t).Notes.List(t.Context(), clinicaldoc.ListNotesParams{Sort: canary})
	_, failures["create"] = serve(t, call{method: "POST", url: notesPath, checkBody: func(*testing.T, string, []byte) {}, status: 502, response: canary}).
		Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: canary, PatientID: canaryPatient, Audio: clinicaldoc.AudioBytes(canary, []byte(canary))})
	_, failures["file name"] = serve(t).Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Audio: clinicaldoc.AudioBytes(canary+"\n", []byte(canary))})
	_, failures["unreadable audio"] = serve(t, call{method: "POST", url: notesPath, checkBody: func(*testing.T, string, []byte) {}, fail: errors.New(canary)}).
		Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Audio: clinicaldoc.AudioReaderAt("a.wav", bytes.NewReader([]byte(canary)), 6)})
	failures["Do path"] = serve(t).Do(t.Context(), http.MethodGet, "/v1/x?"+canary, nil, nil)
	failures["Do method"] = serve(t).Do(t.Context(), canary+" x", "/v1/x", nil, nil)
	failures["Do body"] = serve(t).Do(t.Context(), http.MethodPost, "/v1/"+canary, map[string]any{canary: func() {}}, nil)
	failures["Do answer"] = serve(t, call{url: "/v1/" + canary, response: `{"a":"` + canary + `"}`}).Do(t.Context(), http.MethodGet, "/v1/"+canary, nil, new(struct{ A int }))
	failures["query key"] = serve(t).Do(t.Context(), http.MethodGet, "/v1/x", nil, nil, clinicaldoc.WithQuery("", canary))
	failures["header"] = serve(t).Do(t.Context(), http.MethodGet, "/v1/x", nil, nil, clinicaldoc.WithHeader("X-A", canary+"\n"))

	maps.Copy(failures, foreignFailures(t))
	maps.Copy(failures, socketFailures(t))
	return failures
}

// foreignSafeError is a type of the caller's that calls its text safe, and is not as a whole.
type foreignSafeError struct{ Name string }

func (e foreignSafeError) Error() string  { return e.Name }
func (foreignSafeError) SafeText() string { return "safe" }

// foreignFailures are calls that fail by an error of the caller's own code.
func foreignFailures(t *testing.T) map[string]error {
	t.Helper()
	own := map[string]error{
		"text":      errors.New(canary),
		"safe":      foreignSafeError{canary},
		"wrapped":   fmt.Errorf(canary+": %w", &url.Error{Op: canary, URL: canary, Err: &os.PathError{Op: canary, Path: canary, Err: os.ErrNotExist}}),
		"joined":    errors.Join(errors.New(canary), foreignSafeError{canary}, context.Canceled),
		"DNS":       &net.DNSError{Err: canary, Server: canary, Name: "host.test"},
		"operation": &net.OpError{Op: canary, Net: canary, Source: &net.UnixAddr{Name: canary}, Addr: &net.UnixAddr{Name: canary}, Err: errors.New(canary)},
		"link":      &os.LinkError{Op: canary, Old: canary, New: canary, Err: errors.New(canary)},
		"of ours":   fmt.Errorf(canary+": %w", &clinicaldoc.Error{StatusCode: 500, Message: canary, Route: "/x"}),
	}
	failures := map[string]error{}
	for name, err := range own {
		broken := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Body != nil {
				if _, failed := io.Copy(io.Discard, r.Body); failed != nil {
					return nil, failed
				}
			}
			return nil, err
		})}
		_, failures["transport, "+name] = clientOn(t, broken).Users.Me(t.Context())
		_, failures["transport of a create, "+name] = clientOn(t, broken).Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: canary})
		_, failures["transport of a wait, "+name] = clientOn(t, broken).Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{MaxFailures: 1, Interval: time.Millisecond, MaxInterval: time.Millisecond})
		_, failures["limiter, "+name] = serveWith(t, []clinicaldoc.Option{clinicaldoc.WithLimiter(badCallback{err})}).Users.Me(t.Context())
		sourced, failed := clinicaldoc.NewClient(testBase, "", clinicaldoc.WithTokenSource(badCallback{err}))
		require.NoError(t, failed)
		_, failures["token source, "+name] = sourced.Users.Me(t.Context())
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(err)
		_, failures["context, "+name] = serve(t).Users.Me(ctx)
		failures["a wait's own, "+name] = &clinicaldoc.WaitError{Err: err}
		failures["an unknown outcome's own, "+name] = &clinicaldoc.OutcomeUnknownError{Err: err}
		for form, audio := range map[string]*clinicaldoc.AudioSource{
			"reader": clinicaldoc.AudioReader(canary, new(badReader)), "reader at": clinicaldoc.AudioReaderAt(canary, new(badReader), 5),
		} {
			_, failures[form+", "+name] = clientOn(t, broken).Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Audio: audio})
		}
	}
	return failures
}

// socketFailures are calls answered with bytes that are no proper HTTP, each with a canary.
func socketFailures(t *testing.T) map[string]error {
	t.Helper()
	const ok = "HTTP/1.1 200 OK\r\n"
	failures := map[string]error{}
	for name, bytes := range map[string]string{
		"no HTTP":           canary + "\r\n\r\n",
		"protocol":          canary + "/1.1 200 OK\r\n\r\n",
		"status":            "HTTP/1.1 " + canary + " OK\r\n\r\n",
		"version":           "HTTP/" + canary + " 200 OK\r\n\r\n",
		"header line":       ok + canary + "\r\n\r\n",
		"header key":        ok + canary + " " + canary + ": x\r\n\r\n",
		"header value":      ok + "X-A: " + canary + "\x00\r\n\r\n",
		"continued header":  ok + " " + canary + "\r\n\r\n",
		"length":            ok + "Content-Length: " + canary + "\r\n\r\n",
		"two lengths":       ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n" + canary,
		"transfer encoding": ok + "Transfer-Encoding: " + canary + "\r\n\r\n",
		"chunk":             ok + "Transfer-Encoding: chunked\r\n\r\n" + canary + "\r\n",
		"trailer":           ok + "Transfer-Encoding: chunked\r\nTrailer: " + canary + " x\r\n\r\n0\r\n" + canary + "\r\n\r\n",
		"compression":       ok + "Content-Encoding: gzip\r\nContent-Length: 6\r\n\r\n" + canary,
		"cut":               ok + "Content-Length: 60\r\n\r\n" + canary,
		"location":          "HTTP/1.1 302 Found\r\nLocation: %zz" + canary + "\r\nContent-Length: 0\r\n\r\n",
		"content type":      ok + "Content-Type: " + canary + "/" + canary + "\r\nContent-Length: 6\r\n\r\n" + canary,
	} {
		srv := newRawServer(t, slices.Repeat([]func(*rawConn){func(c *rawConn) { c.request(); c.send(bytes) }}, 3)...)
		client := socketClient(t, srv.URL, once)
		_, failures["bytes: "+name] = client.Notes.Get(t.Context(), 7)
		_, failures["bytes to a create: "+name] = client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: canary})
		storage := clientOn(t, &http.Client{Transport: storageAt(srv.URL)}, clinicaldoc.WithInsecureHTTP())
		_, failures["bytes of storage: "+name] = storage.Notes.DownloadAudio(t.Context(), 7, new(badReader), clinicaldoc.DownloadParams{})
	}
	return failures
}

func TestNoErrorPrintsSecrets(t *testing.T) {
	t.Parallel()
	for name, err := range failures(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Error(t, err)
			assertSilent(t, err.Error(), name)
			for _, value := range []any{
				err, fmt.Errorf("wrapped: %w", err), errors.Join(err, io.EOF), struct{ Err error }{err}, &struct{ Err error }{err}, []error{err}, map[string]error{"k": err},
				clinicaldoc.Attempt{Err: err}, clinicaldoc.OutcomeUnknownError{Err: err},
			} {
				assertPrintsSilently(t, value, fmt.Sprintf("%s %T", name, value))
			}
			var encoded strings.Builder
			log := slog.New(slog.NewJSONHandler(&encoded, nil))
			log.InfoContext(t.Context(), "m", "err", err, "wrapped", fmt.Errorf("wrapped: %w", err), "attempt", clinicaldoc.Attempt{Err: err})
			assertSilent(t, encoded.String(), name+" slog JSON")
		})
	}
}

func TestNoMemberOfAnErrorsChainPrintsSecrets(t *testing.T) {
	t.Parallel()
	for name, err := range failures(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var encoded strings.Builder
			log := slog.New(slog.NewJSONHandler(&encoded, nil))
			for _, member := range chain(err) {
				assertSilent(t, member.Error(), name)
				assertPrintsSilently(t, member, fmt.Sprintf("%s %T", name, member))
				log.InfoContext(t.Context(), "m", "err", member)
				switch member.(type) { //nolint:errorlint // this member alone
				case *clinicaldoc.Error, *clinicaldoc.OutcomeUnknownError, *clinicaldoc.WaitError: // their JSON gives everything, on purpose
				default:
					text, failed := json.Marshal(member)
					require.NoError(t, failed)
					encoded.Write(text)
				}
			}
			text, failed := json.Marshal(clinicaldoc.Attempt{Operation: "Notes.Get", Err: err})
			require.NoError(t, failed)
			encoded.Write(text)
			assertSilent(t, encoded.String(), name+" JSON")
		})
	}
}
