package clinicaldoc_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// assertFullNote compares every field with fullNote.
func assertFullNote(t *testing.T, note *clinicaldoc.ProgressNote) {
	t.Helper()
	require.NotNil(t, note)
	var patient, user struct {
		ID   int64
		Name string
		Tags []string
	}
	require.NoError(t, note.Patient.Decode(&patient))
	require.NoError(t, note.User.Decode(&user))
	assert.EqualValues(t, 4711, patient.ID)
	assert.Equal(t, "Test Patient", patient.Name)
	assert.Equal(t, []string{"a", "b"}, patient.Tags)
	assert.EqualValues(t, 22, user.ID)
	assert.Equal(t, "Test User", user.Name)

	rest := *note
	rest.Patient, rest.User = clinicaldoc.Object{}, clinicaldoc.Object{}
	assert.Equal(t, clinicaldoc.ProgressNote{
		ID:            7,
		Name:          "Synthetic visit",
		Transcription: "Doctor: how are you?\nPatient: é <fine> & well",
		Analysis:      "Nothing to see",
		Template:      &clinicaldoc.Template{ID: 11, Name: "SOAP", Description: "Four parts"},
		Audio: &clinicaldoc.AudioInfo{
			Duration: 61.25, Bitrate: 128000, Size: 980123,
			UploadedAt: moment(1, 1000), ExpiresAt: time.Date(2024, 6, 1, 10, 0, 2, 0, time.UTC),
			FileURL: "https://storage.clinic.test/7.wav?signature=s",
		},
		Has:                      clinicaldoc.Completion{Content: true, Transcription: true},
		TeamID:                   21,
		UserID:                   22,
		TranscriptionStartedAt:   moment(3, 0),
		TranscriptionCompletedAt: moment(4, 0),
		AnalysisStartedAt:        moment(5, 0),
		AnalysisCompletedAt:      moment(6, 0),
		ErrorState:               new("none to speak of"),
		CreatedAt:                moment(7, 123456000),
		UpdatedAt:                moment(8, 0),
	}, rest)
}

func TestGet_ReadsTheNote(t *testing.T) {
	t.Parallel()
	client := serve(t,
		call{url: "/v1/progress-notes/7", response: fullNote},
		call{url: "/v1/progress-notes/9223372036854775807", response: `{"id":9223372036854775807,"name":"n"}`})
	assertFullNote(t, must(client.Notes.Get(t.Context(), 7))(t))
	largest := must(client.Notes.Get(t.Context(), math.MaxInt64))(t)
	assert.Equal(t, int64(math.MaxInt64), largest.ID)
}

func TestList_ReadsAPage(t *testing.T) {
	t.Parallel()
	const (
		links = `"first":"x","last":"x","prev":null,"next":"x"`
		more  = `"from":2,"links":[{"url":null,"label":"&laquo;","active":false}],"path":"x","to":2`
	)
	client := serve(t, call{
		url: "/v1/progress-notes?page=2&patient_id=4711&per_page=1&sort=oldest",
		response: `{"data":[` + fullNote + `],"links":{` + links + `},
			"meta":{"current_page":2,"last_page":3,"per_page":1,"total":3,` + more + `}}`,
	})
	params := listParams{PatientID: 4711, PerPage: 1, Sort: clinicaldoc.SortOldest, Page: 2}
	page := must(client.Notes.List(t.Context(), params))(t)
	require.Len(t, page.Items, 1)
	assertFullNote(t, &page.Items[0])
	extra := object(t, `{`+links+`,`+more+`}`)
	assert.Equal(t, clinicaldoc.PageMeta{CurrentPage: 2, LastPage: 3, PerPage: 1, Total: 3, Extra: extra}, page.Meta)
	assert.True(t, page.HasNext())
}

// The query parameters of the call are added to those of the list, and replace none of them.
func TestList_WithQuery_IsSentToo(t *testing.T) {
	t.Parallel()
	client := serve(t, call{url: notesPath + "?filter=synthetic&per_page=10&per_page=5", response: `{"data":[]}`})
	_, err := client.Notes.List(t.Context(), listParams{PerPage: 10}, clinicaldoc.WithQuery("per_page", "5"),
		clinicaldoc.WithQuery("filter", "synthetic"))
	require.NoError(t, err)
}

func TestList_ZeroParams_AreNotSent(t *testing.T) {
	t.Parallel()
	for query, params := range map[string]listParams{
		"":                {TrustPatientFilter: true},
		"?patient_id=1":   {PatientID: 1},
		"?per_page=100":   {PerPage: 100},
		"?sort=latest":    {Sort: clinicaldoc.SortLatest},
		"?page=1":         {Page: 1},
		"?cursor=a%2B%3D": {Cursor: "a+="},
	} {
		client := serve(t, call{url: "/v1/progress-notes" + query, response: `{"data":[]}`})
		page := must(client.Notes.List(t.Context(), params))(t)
		assert.Empty(t, page.Items)
		assert.False(t, page.HasNext())
	}
}

func TestList_InvalidParams_AreRejected(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text   string // what the error says of the field
		params listParams
	}{
		{"PatientID: must not be negative", listParams{PatientID: -1}},
		{"PatientID: must not be negative", listParams{PatientID: math.MinInt64}},
		{"PerPage: -1 is outside 1 to 100", listParams{PerPage: -1}},
		{"PerPage: 101 is outside 1 to 100", listParams{PerPage: 101}},
		{"Sort: is neither SortLatest nor SortOldest", listParams{Sort: "newest"}},
		{"Page: must not be negative", listParams{Page: -1}},
		{"Page: cannot be combined with Cursor", listParams{Page: 1, Cursor: "c"}},
	} {
		client := serve(t)
		page, err := client.Notes.List(t.Context(), tt.params)
		notes, allErr := clinicaldoc.Collect(client.Notes.All(t.Context(), tt.params))
		assert.Nil(t, page, tt.text)
		assert.Empty(t, notes, tt.text)
		for _, err := range []error{err, allErr} {
			require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
			require.EqualError(t, err, "clinicaldoc: Notes.List: "+tt.text+": invalid argument")
		}
	}
}

// Fields that have an effect on All alone are an error where List would ignore them.
func TestList_ParamsForAll_AreRejected(t *testing.T) {
	t.Parallel()
	for text, params := range map[string]listParams{
		"Prefetch: is for Notes.All; List requests one page": {Prefetch: 1},
		"Verify: is for Notes.All; List requests one page":   {Verify: true},
	} {
		_, err := serve(t).Notes.List(t.Context(), params)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
		require.EqualError(t, err, "clinicaldoc: Notes.List: "+text+": invalid argument")
	}
	for text, params := range map[string]listParams{
		"Prefetch: -1 is outside 0 to 64": {Prefetch: -1},
		"Prefetch: 65 is outside 0 to 64": {Prefetch: 65},
	} {
		_, err := clinicaldoc.Collect(serve(t).Notes.All(t.Context(), params))
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
		require.EqualError(t, err, "clinicaldoc: Notes.All: "+text+": invalid argument")
	}
	empty := `{"data":[],"meta":{"current_page":1,"last_page":1,"total":0}}`
	client := serve(t, call{url: notesPath, response: empty})
	must(clinicaldoc.Collect(client.Notes.All(t.Context(), listParams{Prefetch: 1, Verify: true})))(t)
}

func TestUpdate_SendsWhatIsSet(t *testing.T) {
	t.Parallel()
	text := "line\n<b> & \"quoted\" \u00e9"
	for body, params := range map[string]updateParams{
		`{}`:          {},
		`{"name":""}`: {Name: new("")},
		`{"name":"n","transcription":"t","analysis":"a"}`: {Name: new("n"), Transcription: new("t"),
			Analysis: new("a")},
		`{"analysis":"line\n\u003cb\u003e \u0026 \"quoted\" é"}`: {Analysis: &text},
	} {
		client := serve(t, call{method: "PUT", url: "/v1/progress-notes/7", body: body, response: fullNote})
		assertFullNote(t, must(client.Notes.Update(t.Context(), 7, params))(t))
	}
}

func TestDelete_ReadsTheConfirmation(t *testing.T) {
	t.Parallel()
	client := serve(t, call{method: "DELETE", url: "/v1/progress-notes/7", response: `{"message":"Note deleted"}`})
	confirmation := must(client.Notes.Delete(t.Context(), 7))(t)
	assert.Equal(t, &clinicaldoc.Confirmation{Message: "Note deleted"}, confirmation)
}

func TestDelete_EmptyConfirmation_Succeeds(t *testing.T) {
	t.Parallel()
	for _, answer := range []call{
		{status: http.StatusNoContent}, {}, {response: " \n"}, {response: "null"}, {response: "[]"}, {response: "{}"},
		{response: "true"}, {response: `"done"`}, {response: `{"message":null}`},
	} {
		answer.method = "DELETE"
		answer.url = "/v1/progress-notes/7"
		confirmation, err := serve(t, answer).Notes.Delete(t.Context(), 7)
		require.NoError(t, err, "%q", answer.response)
		assert.Equal(t, &clinicaldoc.Confirmation{}, confirmation)
		answer.url = "/v1/auth/tokens/7"
		confirmation, err = serve(t, answer).Tokens.Revoke(t.Context(), 7)
		require.NoError(t, err, "%q", answer.response)
		assert.Equal(t, &clinicaldoc.Confirmation{}, confirmation)
	}
}

func TestSign_ReadsTheNote(t *testing.T) {
	t.Parallel()
	signed := strings.Replace(fullNote, `"signed": false`, `"signed": true`, 1)
	client := serve(t, call{method: "PUT", url: "/v1/progress-notes/7/sign", response: signed})
	note := must(client.Notes.Sign(t.Context(), 7))(t)
	assert.True(t, note.Has.Signed)
	note.Has.Signed = false
	assertFullNote(t, note)
}

func TestCreate_NoteOfAnotherPatient_IsAConflict(t *testing.T) {
	t.Parallel()
	for patient, mismatch := range map[string]bool{
		`"patient":{"id":7},`: false, `"patient_id":"7",`: false, ``: false, `"patient":[],`: false,
		`"patient":{"id":8},`: true, `"patient_id":8,`: true, `"patient":{"id":7},"patient_id":8,`: true,
	} {
		client := serve(t, call{method: "POST", url: "/v1/progress-notes", checkBody: checkParts(
			part{`form-data; name="patient_id"`, "", "7"}), response: `{` + patient + smallNote[1:]})
		note, err := client.Notes.Create(t.Context(), createParams{PatientID: 7})
		if !mismatch {
			require.NoError(t, err, patient)
			continue
		}
		require.ErrorIs(t, err, clinicaldoc.ErrPatientMismatch, patient)
		require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown, "it exists")
		assert.Nil(t, note)
		conflict := requireAs[*clinicaldoc.ConflictError](t, err)
		assert.EqualValues(t, 7, conflict.Current.ID, "the error carries the note")
	}
}

func TestEndpoints_IDsBelowOne_AreRejected(t *testing.T) {
	t.Parallel()
	for _, id := range []int64{0, -1, math.MinInt64} {
		client := serve(t)
		for operation, attempt := range map[string]func(context.Context) (any, error){
			"Notes.Get": func(ctx context.Context) (any, error) { return pointer(client.Notes.Get(ctx, id)) },
			"Notes.Update": func(ctx context.Context) (any, error) {
				return pointer(client.Notes.Update(ctx, id, updateParams{}))
			},
			"Notes.Delete":   func(ctx context.Context) (any, error) { return pointer(client.Notes.Delete(ctx, id)) },
			"Notes.Sign":     func(ctx context.Context) (any, error) { return pointer(client.Notes.Sign(ctx, id)) },
			"Notes.AudioURL": func(ctx context.Context) (any, error) { return pointer(client.Notes.AudioURL(ctx, id)) },
			"Tokens.Revoke":  func(ctx context.Context) (any, error) { return pointer(client.Tokens.Revoke(ctx, id)) },
		} {
			value, err := attempt(t.Context())
			require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, operation)
			require.ErrorContains(t, err, operation+": id")
			assert.Nil(t, value, operation)
		}
	}
}

func TestCreate_SendsTheForm(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "visit.mp3")
	require.NoError(t, os.WriteFile(path, []byte("sound"), 0o600))
	subtests(t, map[string]*clinicaldoc.AudioSource{
		"file":      must(clinicaldoc.AudioFile(path))(t),
		"bytes":     clinicaldoc.AudioBytes("visit.mp3", []byte("sound")),
		"reader at": clinicaldoc.AudioReaderAt("visit.mp3", strings.NewReader("sound, and more"), 5),
	}, func(t *testing.T, audio *clinicaldoc.AudioSource) {
		client := serve(t, call{method: "POST", url: "/v1/progress-notes", status: http.StatusCreated,
			response: fullNote,
			checkBody: checkParts(
				part{`form-data; name="file"; filename="visit.mp3"`, "audio/mpeg", "sound"},
				part{`form-data; name="name"`, "", "Visit é"},
				part{`form-data; name="patient_id"`, "", "4711"},
				part{`form-data; name="prompt_id"`, "", "12"},
			)})
		var progress [][2]int64
		note := must(client.Notes.Create(t.Context(), createParams{
			Name: "Visit é", PatientID: 4711, PromptID: 12, Audio: audio,
			OnProgress: func(sent, total int64) { progress = append(progress, [2]int64{sent, total}) },
		}))(t)
		assertFullNote(t, note)
		assert.Equal(t, [][2]int64{{0, 5}, {5, 5}}, progress)
	})
}

func TestCreate_ZeroParams_AreNotSent(t *testing.T) {
	t.Parallel()
	client := serve(t,
		call{method: "POST", url: "/v1/progress-notes", checkBody: checkParts(), status: http.StatusUnprocessableEntity,
			response: `{"message":"The given data was invalid","errors":{"file":["Required."],"name":["Required."]}}`},
		call{method: "POST", url: "/v1/progress-notes",
			checkBody: checkParts(part{`form-data; name="patient_id"`, "", "5"}), response: smallNote},
	)
	_, err := client.Notes.Create(t.Context(), createParams{})
	require.ErrorIs(t, err, clinicaldoc.ErrValidation)
	require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	require.ErrorContains(t, err, "[fields: file, name]")
	must(client.Notes.Create(t.Context(), createParams{PatientID: 5}))(t)
}

func TestCreate_InvalidParams_AreRejected(t *testing.T) {
	t.Parallel()
	audio := func(name string) createParams {
		return createParams{Audio: clinicaldoc.AudioBytes(name, []byte("sound"))}
	}
	typed := func(contentType string) createParams {
		params := audio("a.wav")
		params.Audio.ContentType = contentType
		return params
	}
	for name, params := range map[string]createParams{
		"PatientID":                 {PatientID: -1},
		"PromptID":                  {PromptID: -1},
		"Name":                      {Name: "a\xff"},
		"Audio: zero":               {Audio: &clinicaldoc.AudioSource{}},
		"Audio: nil reader":         {Audio: clinicaldoc.AudioReader("a.wav", nil)},
		"Audio: nil reader at":      {Audio: clinicaldoc.AudioReaderAt("a.wav", nil, 5)},
		"Audio: empty":              {Audio: clinicaldoc.AudioBytes("a.wav", nil)},
		"Audio: negative size":      {Audio: clinicaldoc.AudioReaderAt("a.wav", syntheticAudio(1), -1)},
		"Audio: no name":            audio(""),
		"Audio: a folder":           audio("a/"),
		"Audio: dots":               audio("a/.."),
		"Audio: a line break":       audio("a\r\nX-Injected: 1.wav"),
		"Audio: NUL":                audio("a\x00.wav"),
		"Audio: delete":             audio("a\x7f.wav"),
		"Audio: not UTF-8":          audio("a\xff.wav"),
		"Audio: a long name":        audio(strings.Repeat("a", 256)),
		"ContentType":               typed("sound"),
		"ContentType: a line break": typed("audio/wav\r\nX-Injected: 1"),
		"ContentType: parameters":   typed("audio/wav; rate"),
	} {
		field, _, _ := strings.Cut(name, ":")
		note, err := serve(t).Notes.Create(t.Context(), params)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, name)
		require.ErrorContains(t, err, field, name)
		assert.Nil(t, note, name)
	}
}

// commitBodies are bodies of every kind that BeforeCommit has to hold up.
func commitBodies() map[string]func() *clinicaldoc.AudioSource {
	stream := func(size int64) func() *clinicaldoc.AudioSource {
		return func() *clinicaldoc.AudioSource {
			return clinicaldoc.AudioReader("a.wav", io.NewSectionReader(syntheticAudio(size), 0, size))
		}
	}
	known := func(size int64) func() *clinicaldoc.AudioSource {
		return func() *clinicaldoc.AudioSource {
			return clinicaldoc.AudioReaderAt("a.wav", syntheticAudio(size), size)
		}
	}
	return map[string]func() *clinicaldoc.AudioSource{
		"one byte":        known(1),
		"some":            known(100 << 10),
		"announced":       known(3 << 20),
		"short stream":    stream(1),
		"stream":          stream(3 << 20),
		"no audio at all": func() *clinicaldoc.AudioSource { return nil },
	}
}

// commitTail is what BeforeCommit withholds of a body with this type: the closing delimiter, from its line break on.
func commitTail(t *testing.T, contentType string) string {
	t.Helper()
	_, params, err := mime.ParseMediaType(contentType)
	assert.NoError(t, err)
	return "\r\n--" + params["boundary"] + "--\r\n"
}

// commitServer creates notes, over HTTP/1.1 or HTTP/2, and hands over what it got of each body and whether that was
// all.
func commitServer(t *testing.T, http2 bool) (client *clinicaldoc.Client, bodies <-chan commitBody) {
	t.Helper()
	received := make(chan commitBody, 8)
	handler := func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, http2, r.ProtoMajor == 2)
		body, err := io.ReadAll(r.Body)
		received <- commitBody{body, commitTail(t, r.Header.Get("Content-Type")), err}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, socketNote(31))
	}
	if http2 {
		return h2Client(t, handler), received
	}
	return socketClient(t, socketHandler(t, handler).URL), received
}

type commitBody struct {
	got  []byte
	tail string // the closing delimiter
	err  error
}

// lacksTheEnd demands that not one byte of the closing delimiter has come.
func (b commitBody) lacksTheEnd(t *testing.T) {
	t.Helper()
	require.Error(t, b.err, "the server has the request whole")
	for n := range len(b.tail) {
		assert.False(t, bytes.HasSuffix(b.got, []byte(b.tail[:n+1])), "%d bytes of the closing delimiter have come",
			n+1)
	}
	assert.NotContains(t, string(b.got), b.tail)
}

func eachCommit(t *testing.T, test func(t *testing.T, http2 bool, audio *clinicaldoc.AudioSource)) {
	t.Helper()
	for name, audio := range commitBodies() {
		for protocol, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
			t.Run(name+" over "+protocol, func(t *testing.T) {
				t.Parallel()
				test(t, http2, audio())
			})
		}
	}
}

func TestBeforeCommit_ReturnsNil_SendsTheLastBytes(t *testing.T) {
	t.Parallel()
	eachCommit(t, func(t *testing.T, http2 bool, audio *clinicaldoc.AudioSource) {
		t.Helper()
		client, bodies := commitServer(t, http2)
		calls := 0
		must(client.Notes.Create(socketContext(t), createParams{
			Name: "Synthetic", PatientID: 7, Audio: audio,
			BeforeCommit: func(ctx context.Context) error {
				calls++
				assert.Empty(t, bodies, "the server has the request whole already")
				return ctx.Err()
			},
		}))(t)
		assert.Equal(t, 1, calls)
		body := <-bodies
		require.NoError(t, body.err)
		assert.True(t, strings.HasSuffix(string(body.got), body.tail))
	})
}

func TestBeforeCommit_ReturnsAnError_SendsNoLastByte(t *testing.T) {
	t.Parallel()
	eachCommit(t, func(t *testing.T, http2 bool, audio *clinicaldoc.AudioSource) {
		t.Helper()
		client, bodies := commitServer(t, http2)
		refusal := errors.New("journal of a synthetic patient is full")
		calls := 0
		note, err := client.Notes.Create(socketContext(t), createParams{
			Name: "Synthetic", PatientID: 7, Audio: audio,
			BeforeCommit: func(context.Context) error { calls++; return refusal },
		})
		assert.Nil(t, note)
		require.ErrorIs(t, err, refusal)
		require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		assert.NotContains(t, err.Error(), "synthetic patient")
		assert.Contains(t, err.Error(), "BeforeCommit")
		assert.Equal(t, 1, calls, "it is not retried")
		assertLacksTheEnd(t, bodies)
	})
}

func TestBeforeCommit_ContextEnds_SendsNoLastByte(t *testing.T) {
	t.Parallel()
	cause, refusal := errors.New("synthetic: the program ends"), errors.New("synthetic: no room")
	for name, result := range map[string]func(context.Context) error{
		"and it returns nil":       func(context.Context) error { return nil },
		"and it returns the error": context.Cause,
		"and it refuses":           func(context.Context) error { return refusal },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachCommit(t, func(t *testing.T, http2 bool, audio *clinicaldoc.AudioSource) {
				t.Helper()
				client, bodies := commitServer(t, http2)
				ctx, cancel := context.WithCancelCause(socketContext(t))
				defer cancel(nil)
				calls := 0
				_, err := client.Notes.Create(ctx, createParams{
					Name: "Synthetic", PatientID: 7, Audio: audio,
					BeforeCommit: func(attempt context.Context) error {
						calls++
						cancel(cause)
						<-attempt.Done()
						return result(attempt)
					},
				})
				require.ErrorIs(t, err, cause)
				require.ErrorIs(t, err, context.Canceled)
				require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
				assert.Equal(t, name == "and it refuses", errors.Is(err, refusal))
				assert.NotContains(t, err.Error(), "the program ends")
				assert.Equal(t, 1, calls)
				assertLacksTheEnd(t, bodies)
			})
		})
	}
}

func TestBeforeCommit_PanicsOrExits_SendsNoLastByte(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(){"panic": func() { panic("synthetic") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachCommit(t, func(t *testing.T, http2 bool, audio *clinicaldoc.AudioSource) {
				t.Helper()
				client, bodies := commitServer(t, http2)
				params := createParams{Name: "Synthetic", PatientID: 7, Audio: audio}
				params.BeforeCommit = func(context.Context) error { stop(); return nil }
				create := func() { _, _ = client.Notes.Create(socketContext(t), params) }
				if name == "panic" {
					assert.PanicsWithValue(t, "synthetic", create)
				} else {
					assert.True(t, exits(create))
				}
				assertLacksTheEnd(t, bodies)
			})
		})
	}
}

// assertLacksTheEnd checks what a server has received. A small request may never have left.
func assertLacksTheEnd(t *testing.T, bodies <-chan commitBody) {
	t.Helper()
	if len(bodies) > 0 {
		(<-bodies).lacksTheEnd(t)
	}
}

// exits reports whether f ends its goroutine by runtime.Goexit.
func exits(f func()) bool {
	exited := make(chan bool, 1)
	go func() {
		returned := false
		defer func() { exited <- !returned && recover() == nil }()
		f()
		returned = true
	}()
	return <-exited
}

func TestBeforeCommit_OnTheWire_HoldsTheDelimiterBack(t *testing.T) {
	t.Parallel()
	// The server waits for all that may come before the callback returns, and then for the end of the connection.
	for name, audio := range commitBodies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := make(chan commitBody, 1)
			srv := newRawServer(t, func(c *rawConn) {
				r := c.receive(0)
				body, err := io.ReadAll(r.Body)
				got <- commitBody{body, commitTail(t, r.Header.Get("Content-Type")), err}
				assert.Zero(t, c.in.Buffered())
			})
			_, err := socketClient(t, srv.URL).Notes.Create(socketContext(t), createParams{
				Name: "Synthetic", PatientID: 7, Audio: audio(),
				BeforeCommit: func(context.Context) error { return errors.New("synthetic") },
			})
			require.Error(t, err)
			body := <-got
			require.ErrorIs(t, body.err, io.ErrUnexpectedEOF)
			if len(body.got) > 0 {
				body.lacksTheEnd(t)
			}
		})
	}
	t.Run("frames", func(t *testing.T) {
		t.Parallel()
		got := make(chan []byte, 1)
		url, httpClient, _ := frameServer(t, func(c *h2Conn) {
			_, body, ended := c.request(true)
			assert.False(t, ended)
			got <- body
		})
		var boundary atomic.Value
		tr := httpClient.Transport
		httpClient.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			boundary.Store(r.Header.Get("Content-Type"))
			return tr.RoundTrip(r)
		})
		params := socketParams(200 << 10)
		params.BeforeCommit = func(context.Context) error { return errors.New("synthetic") }
		_, err := socketClient(t, url, clinicaldoc.WithHTTPClient(httpClient)).Notes.Create(socketContext(t), params)
		require.Error(t, err)
		body := commitBody{<-got, commitTail(t, boundary.Load().(string)), io.ErrUnexpectedEOF}
		assert.Greater(t, len(body.got), 200<<10, "all the rest has come")
		body.lacksTheEnd(t)
	})
}

func TestBeforeCommit_Retries_AreAskedEachTime(t *testing.T) {
	t.Parallel()
	refusal := errors.New("synthetic")
	limited := socketStatus(http.StatusTooManyRequests, "{}")
	for refuseAt, want := range map[int]error{0: nil, 2: refusal} {
		script := newSocketSteps(limited, limited, socketStatus(http.StatusCreated, socketNote(32)))
		calls := 0
		params := socketParams(2 << 20)
		params.BeforeCommit = func(context.Context) error {
			if calls++; calls == refuseAt {
				return refusal
			}
			return nil
		}
		_, err := script.client(t).Notes.Create(socketContext(t), params)
		require.ErrorIs(t, err, want)
		require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		assert.Equal(t, cmp.Or(refuseAt, 3), calls)
	}
}

func TestBeforeCommit_AnnouncementRefused_IsAskedOnce(t *testing.T) {
	t.Parallel()
	srv := newRawServer(t,
		func(c *rawConn) { c.head(); c.answer(http.StatusExpectationFailed, ""); c.untilClosed() },
		func(c *rawConn) { c.request(); c.answer(http.StatusCreated, socketNote(33)); c.untilClosed() })
	calls := 0
	params := socketParams(2 << 20)
	params.BeforeCommit = func(context.Context) error { calls++; return nil }
	must(socketClient(t, srv.URL).Notes.Create(socketContext(t), params))(t)
	assert.Equal(t, 1, calls, "the refused request had no body to commit")
}

func TestBeforeCommit_ServerRespondsEarly_Ends(t *testing.T) {
	t.Parallel()
	// The response comes before the callback has decided. A refusal of the caller's counts unless the server has acted.
	refusal := errors.New("synthetic")
	for status, want := range map[int]error{
		http.StatusTooManyRequests: refusal, http.StatusRequestEntityTooLarge: refusal, http.StatusBadGateway: refusal,
		http.StatusCreated: nil,
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			inCallback, responded := make(chan struct{}), make(chan struct{})
			calls := 0
			tr := roundTripper(func(r *http.Request) (*http.Response, error) {
				go func() { _, _ = io.Copy(io.Discard, r.Body) }()
				<-inCallback
				defer close(responded)
				return madeResponse(r, status, socketNote(34)), nil
			})
			params := socketParams(10)
			params.BeforeCommit = func(context.Context) error {
				calls++
				close(inCallback)
				<-responded
				return refusal
			}
			_, err := socketClient(t, "http://127.0.0.1:1", over(tr)).Notes.Create(socketContext(t), params)
			require.ErrorIs(t, err, want)
			require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
			assert.Equal(t, 1, calls)
		})
	}
}

func TestBeforeCommit_Slow_IsNotAStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := timedClient(t, func(r *http.Request) (*http.Response, error) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return nil, err
			}
			return madeResponse(r, http.StatusCreated, socketNote(35)), nil
		})
		params := socketParams(100)
		params.BeforeCommit = func(context.Context) error { time.Sleep(time.Hour); return nil }
		must(c.Notes.Create(t.Context(), params))(t)
		assert.Equal(t, time.Hour, time.Since(start))
	})
}

func TestBeforeCommit_Slow_DoesNotProlongTheStallTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// The time that the callback took is none that the server needs.
		c := timedClient(t, func(r *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		var committed time.Time
		params := socketParams(100)
		params.BeforeCommit = func(context.Context) error { time.Sleep(time.Hour); committed = time.Now(); return nil }
		_, err := c.Notes.Create(t.Context(), params)
		require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		assert.Less(t, time.Since(committed), 62*time.Second)
	})
}

// A job that was queued has an id too, and is not a note.
func TestCreate_ResponseWithOnlyAnID_IsUnknown(t *testing.T) {
	t.Parallel()
	for body, id := range map[string]int64{
		`{"id":55,"status":"queued"}`: 55, `{"id":55}`: 55, `{"data":{"id":55}}`: 55,
		`{"id":55,"name":"","created_at":null}`: 55,
		`{"status":"queued"}`:                   0, ``: 0,
	} {
		timedSubtest(t, body, func(t *testing.T) {
			s := newFakeService(t)
			s.post = func(r *http.Request, _ fakeNote) (*http.Response, error) {
				return s.respond(r, http.StatusAccepted, body), nil
			}
			client := s.client()
			lost := lose(t, client, visit())
			assert.Equal(t, id, lost.NoteID)
			require.ErrorIs(t, lost, clinicaldoc.ErrUnexpectedResponse)

			// Note 55 is another patient's. It is not taken for the one that was sent.
			for range 54 {
				s.keep(earlier().ago(time.Hour))
			}
			strangers := visited()
			strangers.patient = 5
			require.EqualValues(t, 55, s.keep(strangers))
			note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
			assert.Nil(t, note)
			require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		})
	}
}

func TestGet_ResponseWithoutANote_IsRejected(t *testing.T) {
	t.Parallel()
	for body, isNote := range map[string]bool{
		`{"id":55}`: false, `{"id":55,"status":"queued"}`: false, `{"id":55,"transcription":"words"}`: false,
		`{"id":55,"name":"Visit"}`: true, `{"id":55,"created_at":"2026-01-02T03:04:05Z"}`: true,
	} {
		client := serve(t, call{url: notesPath + "/55", response: body},
			call{url: notesPath, response: `{"data":[` + body + `]}`})
		note, err := client.Notes.Get(t.Context(), 55)
		page, listErr := client.Notes.List(t.Context(), listParams{})
		if isNote {
			require.NoError(t, err, body)
			assert.EqualValues(t, 55, note.ID)
			require.NoError(t, listErr, body)
			assert.Len(t, page.Items, 1)
			continue
		}
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse, body)
		require.ErrorIs(t, listErr, clinicaldoc.ErrUnexpectedResponse, body)
	}
}

func TestCreateOnce_NothingLost_SearchesNothing(t *testing.T) {
	t.Parallel()
	s := newFakeService(t)
	s.post = s.committing
	opts := append(make([]clinicaldoc.CallOption, 0, 8), clinicaldoc.WithoutRetry())
	note := must(s.client().Notes.CreateOnce(t.Context(), visit(), findParams{}, opts...))(t)
	assert.EqualValues(t, 1, note.ID)
	assert.Zero(t, s.lists, "nothing is searched for")
	assert.Nil(t, opts[:2][1], "what is behind the options is the caller's, perhaps for another call")
}

// The response is lost and the note is found, also if it is created late. Nothing is sent twice.
func TestCreateOnce_LostResponse_FindsTheNote(t *testing.T) {
	t.Parallel()
	gatewayTimeout := func(s *fakeService, r *http.Request) (*http.Response, error) {
		time.Sleep(59 * time.Second)
		return s.respond(r, http.StatusGatewayTimeout, ""), nil
	}
	silence := func(_ *fakeService, r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	reset := func(*fakeService, *http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }
	type test struct {
		lose   func(*fakeService, *http.Request) (*http.Response, error)
		commit time.Duration
	}
	timedSubtests(t, map[string]test{
		"504 after 59 s, created before":          {gatewayTimeout, time.Second},
		"504 after 59 s, created after 120 s":     {gatewayTimeout, 120 * time.Second},
		"silent for a minute, created after 95 s": {silence, 95 * time.Second},
		"reset, created after 36 s":               {reset, 36 * time.Second},
		"reset, created after 9 minutes":          {reset, 9 * time.Minute},
		"reset, created at the last moment":       {reset, defaultSettle - time.Second},
	}, func(t *testing.T, tt test) {
		s := newFakeService(t)
		s.keep(visited().ago(30 * time.Hour))
		var posts atomic.Int64
		s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) {
			posts.Add(1)
			time.AfterFunc(tt.commit, func() { s.commit(r, sent) }) //nolint:bodyclose // nobody reads it
			return tt.lose(s, r)
		}
		note := must(s.client().Notes.CreateOnce(t.Context(), visit(), findParams{}))(t)
		assert.EqualValues(t, 2, note.ID)
		time.Sleep(time.Hour)
		assert.Len(t, s.notes, 2, "one note for one recording")
		assert.EqualValues(t, 1, posts.Load())
	})
}

// A proxy may take as long to pass an upload on as the upload took. After an upload that takes longer than the default
// of Settle, CreateOnce waits that long for the note, and finds it.
func TestCreateOnce_LongUpload_IsWaitedForAsLong(t *testing.T) {
	t.Parallel()
	const (
		uploadTakes   = 1000 * time.Second
		passedOnAfter = 15 * time.Minute // longer than the default of Settle, shorter than the upload
	)
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) {
			time.AfterFunc(passedOnAfter, func() { s.commit(r, sent) }) //nolint:bodyclose // nobody reads it
			return nil, io.ErrUnexpectedEOF
		}
		params := visit()
		const reads = 20 // of 10 bytes each, as slowReader has it
		audio := &slowReader{text: strings.Repeat("s", 10*reads), pause: uploadTakes / reads}
		params.Audio = clinicaldoc.AudioReader("a.wav", audio)
		client := s.client(clinicaldoc.WithStallTimeout(time.Hour))
		note := must(client.Notes.CreateOnce(t.Context(), params, findParams{}))(t)
		assert.EqualValues(t, 1, note.ID)
		assert.Len(t, s.notes, 1)
	})
}

// Only a note that was certainly not created is created again, at most three times in all.
func TestCreateOnce_NotCreated_CreatesAgain(t *testing.T) {
	t.Parallel()
	stream := func() *clinicaldoc.AudioSource { return clinicaldoc.AudioReader("a.wav", strings.NewReader("sound")) }
	type test struct {
		lost  int64 // uploads that never arrive
		audio func() *clinicaldoc.AudioSource
		other bool // somebody creates another note after the first upload
		posts int64
		want  error // nil: created
	}
	timedSubtests(t, map[string]test{
		"once":                   {1, nil, false, 2, nil},
		"twice":                  {2, nil, false, 3, nil},
		"three times":            {3, nil, false, 3, clinicaldoc.ErrNotCreated},
		"a stream":               {1, stream, false, 1, clinicaldoc.ErrNotCreated},
		"no recording":           {1, func() *clinicaldoc.AudioSource { return nil }, false, 2, nil},
		"undecided":              {1, nil, true, 1, clinicaldoc.ErrOutcomeUnknown},
		"a stream and undecided": {1, stream, true, 1, clinicaldoc.ErrOutcomeUnknown},
	}, func(t *testing.T, tt test) {
		s := newFakeService(t)
		var posts atomic.Int64
		s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) {
			uploads := posts.Add(1)
			if tt.other {
				s.keep(visited().of(otherSound))
			}
			if uploads <= tt.lost {
				return nil, io.ErrUnexpectedEOF
			}
			return s.commit(r, sent), nil
		}
		params := visit()
		if tt.audio != nil {
			params.Audio = tt.audio()
		}
		begin := time.Now()
		note, err := s.client().Notes.CreateOnce(t.Context(), params, findParams{Settle: time.Minute})
		assert.Equal(t, tt.posts, posts.Load())
		if tt.want == nil {
			require.NoError(t, err)
			assert.EqualValues(t, 1, note.ID)
			assert.Len(t, s.notes, 1)
			assert.Equal(t, time.Duration(tt.lost)*time.Minute, time.Since(begin))
			return
		}
		assert.Nil(t, note)
		require.ErrorIs(t, err, tt.want)
		isUnknown := tt.want == clinicaldoc.ErrOutcomeUnknown //nolint:errorlint // of the table
		assert.Equal(t, isUnknown, errors.Is(err, clinicaldoc.ErrOutcomeUnknown))
	})
}

// The second upload is a create of its own: its response is lost too, and its note is found.
func TestCreateOnce_SecondResponseLost_IsFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		var posts atomic.Int64
		s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) {
			if posts.Add(1) == 2 {
				return s.losing(r, sent)
			}
			return nil, io.ErrUnexpectedEOF
		}
		note := must(s.client().Notes.CreateOnce(t.Context(), visit(), findParams{}))(t)
		assert.EqualValues(t, 1, note.ID)
		assert.EqualValues(t, 2, posts.Load())
	})
}

func TestCreateOnce_ContextEnds_IsUndecided(t *testing.T) {
	t.Parallel()
	timedSubtests(t, map[string]func(*http.Request, fakeNote) (*http.Response, error){
		"while it searches": func(*http.Request, fakeNote) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
		"while it uploads": func(r *http.Request, _ fakeNote) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
	}, func(t *testing.T, post func(*http.Request, fakeNote) (*http.Response, error)) {
		s := newFakeService(t)
		var posts atomic.Int64
		s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) {
			posts.Add(1)
			return post(r, sent)
		}
		ctx := endsAfter(t, 40*time.Second)
		begin := time.Now()
		note, err := s.client().Notes.CreateOnce(ctx, visit(), findParams{})
		requireUndecided(t, note, err, "context deadline exceeded")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 40*time.Second, time.Since(begin))
		assert.EqualValues(t, 1, posts.Load())
	})
}

func TestCreateOnce_OnProgress_IsCalled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		begin := time.Now()
		var decidable []time.Time
		params := findParams{Settle: time.Minute, OnProgress: func(reason string, at time.Time) {
			assert.Contains(t, reason, "may still be processing")
			decidable = append(decidable, at)
		}}
		_, err := s.client().Notes.CreateOnce(t.Context(), visit(), params)
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		require.Greater(t, len(decidable), 6, "in each of three searches")
		assert.Equal(t, begin.Add(time.Minute), decidable[0])
		assert.Equal(t, begin.Add(3*time.Minute), decidable[len(decidable)-1])
	})
}

// An error of Create after which nothing is unknown is returned as it is.
func TestCreateOnce_OtherErrors_AreReturned(t *testing.T) {
	t.Parallel()
	s := newFakeService(t)
	s.post = func(r *http.Request, _ fakeNote) (*http.Response, error) {
		return s.respond(r, http.StatusUnprocessableEntity, `{"message":"invalid","errors":{"name":["too long"]}}`), nil
	}
	client := s.client()
	note, err := client.Notes.CreateOnce(t.Context(), visit(), findParams{})
	assert.Nil(t, note)
	require.ErrorIs(t, err, clinicaldoc.ErrValidation)
	_, direct := client.Notes.Create(t.Context(), visit())
	require.EqualError(t, err, direct.Error())

	params := visit()
	params.PatientID = -1
	_, err = client.Notes.CreateOnce(t.Context(), params, findParams{})
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	assert.Zero(t, s.lists)
}

// Many recordings of one patient are created under one name at the same time, while every eighth response and every
// ninth request is lost. No note is returned for two of them, and none is created twice.
func TestCreateOnce_ManyAtOnce_ShareNoNote(t *testing.T) {
	t.Parallel()
	timedSubtests(t, map[string]bool{"of one recording": true, "of different recordings": false},
		func(t *testing.T, same bool) {
			s := newFakeService(t)
			var posts atomic.Int64
			s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) {
				n := posts.Add(1)
				time.Sleep(time.Duration(n) * 300 * time.Millisecond)
				if n%9 == 0 {
					return nil, io.ErrUnexpectedEOF
				}
				response := s.commit(r, sent)
				time.Sleep(2 * time.Second)
				if n%8 == 0 {
					return nil, io.ErrUnexpectedEOF
				}
				return response, nil
			}
			client := s.client()
			var mu sync.Mutex
			given := map[int64][]string{} // recordings by note
			undecided := 0
			var workers sync.WaitGroup
			for i := range 40 {
				workers.Go(func() {
					params := visit()
					recording := "sound"
					if !same {
						recording = fmt.Sprintf("sound %02d", i)
					}
					params.Audio = clinicaldoc.AudioBytes("a.wav", []byte(recording))
					note, err := client.Notes.CreateOnce(t.Context(), params, findParams{})
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						assert.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
						undecided++
						return
					}
					given[note.ID] = append(given[note.ID], recording)
				})
			}
			workers.Wait()
			for id, recordings := range given {
				assert.Equal(t, []string{s.notes[id-1].recording}, recordings)
			}
			assert.Equal(t, 40, len(given)+undecided)
			assert.LessOrEqual(t, len(s.notes), 40)
			if !same {
				assert.Len(t, given, 40, "every one is found, or created again")
			}
		})
}

func TestUpdate_Extra_IsSentAsFurtherMembers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		params updateParams
		want   string
	}{
		{updateParams{Name: new("n"), Extra: map[string]any{"status": "draft", "tags": []string{"<a>"}}},
			`{"name":"n","status":"draft","tags":["<a>"]}`},
		{updateParams{Extra: map[string]any{"status": nil}}, `{"status":null}`},
		{updateParams{Extra: map[string]any{}}, `{}`},
	} {
		client := serve(t, call{method: "PUT", url: "/v1/progress-notes/7", response: smallNote,
			checkBody: func(t *testing.T, _ string, body []byte) {
				t.Helper()
				assert.JSONEq(t, tc.want, string(body))
			}})
		must(client.Notes.Update(t.Context(), 7, tc.params))(t)
	}
}

func TestUpdate_UnsendableExtra_IsRejected(t *testing.T) {
	t.Parallel()
	circle := map[string]any{}
	circle["again"] = circle
	for name, extra := range map[string]map[string]any{
		"name": {"name": canary}, "transcription": {"transcription": canary}, "analysis": {"Analysis": canary},
		"no name": {"": canary},
		"key":     {"\xff": canary}, "text": {"status": "\xff"},
		"nested text": {"status": map[string]any{"a": []any{"\xff"}}},
		"chan":        {"status": make(chan int)}, "func": {"status": func() {}}, "circle": circle,
		"failing": {"status": unencodable{}},
	} {
		_, err := serve(t).Notes.Update(t.Context(), 7, updateParams{Analysis: new("a"), Extra: extra})
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, name)
		assert.Contains(t, err.Error(), "Notes.Update: Extra")
		assert.NotContains(t, err.Error(), canary)
	}
}

// unencodable is a value of a caller's that cannot be encoded, and says why in words that must not be printed.
type unencodable struct{}

func (unencodable) MarshalJSON() ([]byte, error) { return nil, errors.New(canary) }
