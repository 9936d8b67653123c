package clinicaldoc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log/slog"
	"maps"
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

// canary stands in every field that may hold a secret or a patient's data; canaryPatient in every number that names a patient.
const (
	canary              = "CANARY"
	canaryPatient int64 = 9876598765432 // too long to occur in a time or an address
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
		"Attempt":             sampleOf(clinicaldoc.Attempt{Operation: "Notes.Create", Err: &answered}),
		"Client":              sampleOf(*client),
		"Completion":          sampleOf(note.Has),
		"Confirmation":        sampleOf(clinicaldoc.Confirmation{Message: canary}),
		"CreateNoteParams":    sampleOf(params),
		"DownloadParams":      sampleOf(clinicaldoc.DownloadParams{OnProgress: func(int64, int64) {}}),
		"Error":               sampleOf(answered),
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
		"UpdateNoteParams":    sampleOf(clinicaldoc.UpdateNoteParams{Name: new(canary), Transcription: new(canary), Analysis: new(canary)}),
		"User":                sampleOf(clinicaldoc.User{ID: 1, Name: canary, Email: canary + "@clinic.test"}),
		"UsersService":        sampleOf(*client.Users),
		"WaitError":           samplePointer(&clinicaldoc.WaitError{ID: 7, Note: &note, Err: &answered}),
		"WaitParams":          sampleOf(clinicaldoc.WaitParams{OnUpdate: func(*clinicaldoc.ProgressNote) {}}),
	}
}

// assertSilent fails when a text holds a canary in any of the spellings that fmt gives it.
func assertSilent(t *testing.T, text, how string) {
	t.Helper()
	for _, spelling := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary), fmt.Sprintf("% x", canary), strings.Trim(fmt.Sprintf("%d", []byte(canary)), "[]"), fmt.Sprint(canaryPatient), fmt.Sprintf("%x", canaryPatient)} {
		assert.NotContains(t, text, spelling, how)
	}
}

var verbs = []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "% x", "%-10s"}

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

func TestNoErrorPrintsSecrets(t *testing.T) {
	t.Parallel()
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
		"validation":   {status: 422, answer: `{"message":"` + canary + `","errors":{"name":["` + canary + `"],"` + canary + ` x":["x"]}}`, answerHeader: map[string]string{"X-Request-Id": canary + " " + canary}},
		"redirect":     {status: 302, answerHeader: map[string]string{"Location": "https://" + canary + ".test/" + canary}},
		"not JSON":     {answer: canary, answerHeader: map[string]string{"Content-Type": canary + "/" + canary + " x"}},
		"wrong kind":   {answer: `{"id":7,"created_at":"` + canary + `"}`},
		"another":      {answer: `{"id":8,"name":"` + canary + `"}`},
		"odd key":      {answer: `{"id":7,"has":{"` + canary + ` x":1,"signed":"` + canary + `"}}`},
		"URL error":    {fail: &url.Error{Op: "Get", URL: "https://" + canary, Err: errors.New(canary)}},
		"plain error":  {fail: errors.New(canary)},
		"path error":   {fail: &os.PathError{Op: "open", Path: canary, Err: errors.New(canary)}},
		"joined error": {fail: errors.Join(errors.New(canary), io.ErrUnexpectedEOF)},
		"context":      {fail: context.DeadlineExceeded},
	} {
		answer.url = path
		_, failures[name] = serve(t, answer).Notes.Get(t.Context(), 7)
	}
	_, failures["patient"] = serve(t, call{url: fmt.Sprintf("%s?cursor=%s&patient_id=%d", notesPath, canary, canaryPatient), answer: `[{"id":1,"patient":{"id":5,"name":"` + canary + `"}}]`}).
		Notes.List(t.Context(), clinicaldoc.ListNotesParams{PatientID: canaryPatient, Cursor: canary})
	_, failures["sort"] = serve(t).Notes.List(t.Context(), clinicaldoc.ListNotesParams{Sort: canary})
	_, failures["create"] = serve(t, call{method: "POST", url: notesPath, checkBody: func(*testing.T, string, []byte) {}, status: 502, answer: canary}).
		Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: canary, PatientID: canaryPatient, Audio: clinicaldoc.AudioBytes(canary, []byte(canary))})
	_, failures["file name"] = serve(t).Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Audio: clinicaldoc.AudioBytes(canary+"\n", []byte(canary))})
	_, failures["unreadable audio"] = serve(t, call{method: "POST", url: notesPath, checkBody: func(*testing.T, string, []byte) {}, fail: errors.New(canary)}).
		Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Audio: clinicaldoc.AudioReaderAt("a.wav", bytes.NewReader([]byte(canary)), 6)})
	failures["Do path"] = serve(t).Do(t.Context(), http.MethodGet, "/v1/x?"+canary, nil, nil)
	failures["Do method"] = serve(t).Do(t.Context(), canary+" x", "/v1/x", nil, nil)
	failures["Do body"] = serve(t).Do(t.Context(), http.MethodPost, "/v1/"+canary, map[string]any{canary: func() {}}, nil)
	failures["Do answer"] = serve(t, call{url: "/v1/" + canary, answer: `{"a":"` + canary + `"}`}).Do(t.Context(), http.MethodGet, "/v1/"+canary, nil, new(struct{ A int }))
	failures["query key"] = serve(t).Do(t.Context(), http.MethodGet, "/v1/x", nil, nil, clinicaldoc.WithQuery("", canary))
	failures["header"] = serve(t).Do(t.Context(), http.MethodGet, "/v1/x", nil, nil, clinicaldoc.WithHeader("X-A", canary+"\n"))

	for name, err := range failures {
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
