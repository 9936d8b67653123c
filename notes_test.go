package clinicaldoc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jarcoal/httpmock"
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

func TestNotesGet(t *testing.T) {
	t.Parallel()
	client := serve(t, call{method: "GET", url: "/v1/progress-notes/7", response: fullNote})
	note, err := client.Notes.Get(t.Context(), 7)
	require.NoError(t, err)
	assertFullNote(t, note)
}

func TestNotesGetLargestID(t *testing.T) {
	t.Parallel()
	client := serve(t, call{url: "/v1/progress-notes/9223372036854775807", response: `{"id":9223372036854775807}`})
	note, err := client.Notes.Get(t.Context(), math.MaxInt64)
	require.NoError(t, err)
	assert.Equal(t, int64(math.MaxInt64), note.ID)
}

func TestNotesList(t *testing.T) {
	t.Parallel()
	client := serve(t, call{
		method: "GET", url: "/v1/progress-notes?page=2&patient_id=4711&per_page=1&sort=oldest",
		response: `{"data":[` + fullNote + `],"links":{"first":"x","last":"x","prev":null,"next":"x"},"meta":{"current_page":2,"from":2,"last_page":3,"links":[{"url":null,"label":"&laquo;","active":false}],"path":"x","per_page":1,"to":2,"total":3}}`,
	})
	page, err := client.Notes.List(t.Context(), clinicaldoc.ListNotesParams{PatientID: 4711, PerPage: 1, Sort: clinicaldoc.SortOldest, Page: 2})
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	assertFullNote(t, &page.Items[0])
	assert.Equal(t, clinicaldoc.PageMeta{CurrentPage: 2, LastPage: 3, PerPage: 1, Total: 3}, page.Meta)
	assert.True(t, page.HasNext())
}

func TestNotesListSendsOnlyWhatIsSet(t *testing.T) {
	t.Parallel()
	for query, params := range map[string]clinicaldoc.ListNotesParams{
		"":                {Prefetch: 3, TrustPatientFilter: true, Verify: true},
		"?patient_id=1":   {PatientID: 1},
		"?per_page=100":   {PerPage: 100},
		"?sort=latest":    {Sort: clinicaldoc.SortLatest},
		"?page=1":         {Page: 1},
		"?cursor=a%2B%3D": {Cursor: "a+="},
	} {
		client := serve(t, call{url: "/v1/progress-notes" + query, response: `{"data":[]}`})
		page, err := client.Notes.List(t.Context(), params)
		require.NoError(t, err)
		assert.Empty(t, page.Items)
		assert.False(t, page.HasNext())
	}
}

func TestNotesListRefusesBadParams(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text   string // what the error says of the field
		params clinicaldoc.ListNotesParams
	}{
		{"PatientID: must not be negative", clinicaldoc.ListNotesParams{PatientID: -1}},
		{"PatientID: must not be negative", clinicaldoc.ListNotesParams{PatientID: math.MinInt64}},
		{"PerPage: -1 is outside 1 to 100", clinicaldoc.ListNotesParams{PerPage: -1}},
		{"PerPage: 101 is outside 1 to 100", clinicaldoc.ListNotesParams{PerPage: 101}},
		{"Sort: is neither SortLatest nor SortOldest", clinicaldoc.ListNotesParams{Sort: "newest"}},
		{"Page: must not be negative", clinicaldoc.ListNotesParams{Page: -1}},
		{"Page: cannot be combined with Cursor", clinicaldoc.ListNotesParams{Page: 1, Cursor: "c"}},
		{"Prefetch: -1 is outside 0 to 64", clinicaldoc.ListNotesParams{Prefetch: -1}},
		{"Prefetch: 65 is outside 0 to 64", clinicaldoc.ListNotesParams{Prefetch: 65}},
	} {
		want := "clinicaldoc: Notes.List: " + tt.text + ": invalid argument"
		client := serve(t)
		page, err := client.Notes.List(t.Context(), tt.params)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, tt.text)
		require.EqualError(t, err, want)
		assert.Nil(t, page, tt.text)

		yielded := 0
		for note, err := range client.Notes.All(t.Context(), tt.params) {
			yielded++
			require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, tt.text)
			require.EqualError(t, err, want)
			assert.Nil(t, note, tt.text)
		}
		assert.Equal(t, 1, yielded, tt.text)
	}
}

func TestNotesUpdate(t *testing.T) {
	t.Parallel()
	text := "line\n<b> & \"quoted\" \u00e9"
	tests := map[string]clinicaldoc.UpdateNoteParams{
		`{}`:          {},
		`{"name":""}`: {Name: new("")},
		`{"name":"n","transcription":"t","analysis":"a"}`:        {Name: new("n"), Transcription: new("t"), Analysis: new("a")},
		`{"analysis":"line\n\u003cb\u003e \u0026 \"quoted\" é"}`: {Analysis: &text},
	}
	for body, params := range tests {
		client := serve(t, call{method: "PUT", url: "/v1/progress-notes/7", body: body, response: fullNote})
		note, err := client.Notes.Update(t.Context(), 7, params)
		require.NoError(t, err)
		assertFullNote(t, note)
	}
}

func TestNotesUpdateErrors(t *testing.T) {
	t.Parallel()
	client := serve(t,
		call{method: "PUT", url: "/v1/progress-notes/7", body: `{}`, status: http.StatusForbidden, response: `{"message":"You do not have permission to modify this note"}`},
		call{method: "PUT", url: "/v1/progress-notes/7", body: `{}`, status: http.StatusUnprocessableEntity, response: `{"message":"The given data was invalid","errors":{"name":["Too long.","Too odd."]}}`},
	)
	note, err := client.Notes.Update(t.Context(), 7, clinicaldoc.UpdateNoteParams{})
	require.ErrorIs(t, err, clinicaldoc.ErrForbidden)
	assert.Nil(t, note)
	_, err = client.Notes.Update(t.Context(), 7, clinicaldoc.UpdateNoteParams{})
	var answered *clinicaldoc.Error
	require.ErrorAs(t, err, &answered)
	assert.Equal(t, map[string][]string{"name": {"Too long.", "Too odd."}}, answered.Fields)
	assert.Equal(t, "The given data was invalid", answered.Message)
}

func TestNotesDelete(t *testing.T) {
	t.Parallel()
	client := serve(t, call{method: "DELETE", url: "/v1/progress-notes/7", response: `{"message":"Note deleted"}`})
	confirmation, err := client.Notes.Delete(t.Context(), 7)
	require.NoError(t, err)
	assert.Equal(t, &clinicaldoc.Confirmation{Message: "Note deleted"}, confirmation)
}

func TestConfirmationsMayBeEmpty(t *testing.T) {
	t.Parallel()
	for _, answer := range []call{
		{status: http.StatusNoContent}, {}, {response: " \n"}, {response: "null"}, {response: "[]"}, {response: "{}"}, {response: "true"}, {response: `"done"`}, {response: `{"message":null}`},
	} {
		del, revoke := answer, answer
		del.method, del.url = "DELETE", "/v1/progress-notes/7"
		revoke.method, revoke.url = "DELETE", "/v1/auth/tokens/7"
		client := serve(t, del, revoke)
		confirmation, err := client.Notes.Delete(t.Context(), 7)
		require.NoError(t, err, "%q", answer.response)
		assert.Equal(t, &clinicaldoc.Confirmation{}, confirmation)
		confirmation, err = client.Tokens.Revoke(t.Context(), 7)
		require.NoError(t, err, "%q", answer.response)
		assert.Equal(t, &clinicaldoc.Confirmation{}, confirmation)
	}
}

func TestNotesSign(t *testing.T) {
	t.Parallel()
	client := serve(t, call{method: "PUT", url: "/v1/progress-notes/7/sign", response: fullNote})
	note, err := client.Notes.Sign(t.Context(), 7)
	require.NoError(t, err)
	assertFullNote(t, note)
}

func TestNotesSignRefusals(t *testing.T) {
	t.Parallel()
	const (
		complete   = `{"id":7,"has":{"content":true,"transcription":true}}`
		incomplete = `{"id":7,"has":{"content":false,"transcription":true}}`
		signed     = `{"id":7,"has":{"content":true,"transcription":true,"signed":true}}`
		telling    = `{"message":"A note without complete transcription and analysis cannot be signed"}`
		silent     = `{"message":"This action is unauthorized."}`
	)
	tests := map[string]struct {
		status   int
		answer   string
		read     string // the note, when it is read to find out; empty: it is not
		match    error
		mismatch error
	}{
		"telling 400":                 {400, telling, incomplete, clinicaldoc.ErrNoteIncomplete, nil},
		"telling 403":                 {403, telling, incomplete, clinicaldoc.ErrNoteIncomplete, nil},
		"telling 422":                 {422, telling, incomplete, clinicaldoc.ErrNoteIncomplete, nil},
		"telling 423":                 {423, telling, incomplete, clinicaldoc.ErrNoteIncomplete, nil},
		"telling 500":                 {500, telling, incomplete, clinicaldoc.ErrNoteIncomplete, nil},
		"silent 403, not complete":    {403, silent, incomplete, clinicaldoc.ErrNoteIncomplete, nil},
		"silent 409, not complete":    {409, "", incomplete, clinicaldoc.ErrNoteIncomplete, nil},
		"silent 422, not complete":    {422, `{"message":"The given data was invalid"}`, incomplete, clinicaldoc.ErrNoteIncomplete, nil},
		"silent 403, complete":        {403, silent, complete, clinicaldoc.ErrForbidden, clinicaldoc.ErrNoteIncomplete},
		"silent 409, signed already":  {409, silent, signed, clinicaldoc.ErrConflict, clinicaldoc.ErrNoteIncomplete},
		"silent 422, no longer there": {422, silent, "gone", clinicaldoc.ErrValidation, clinicaldoc.ErrNoteIncomplete},
		"401":                         {401, `{"message":"Unauthorized"}`, "", clinicaldoc.ErrUnauthorized, clinicaldoc.ErrNoteIncomplete},
		"404":                         {404, `{"message":"Resource not found"}`, "", clinicaldoc.ErrNotFound, clinicaldoc.ErrNoteIncomplete},
		"429":                         {429, "", "", clinicaldoc.ErrRateLimited, clinicaldoc.ErrNoteIncomplete},
		"500, not complete":           {500, "", incomplete, clinicaldoc.ErrNoteIncomplete, nil},
		"500, complete":               {500, "", complete, clinicaldoc.ErrServer, clinicaldoc.ErrNoteIncomplete},
		"302":                         {302, "", complete, clinicaldoc.ErrUnexpectedResponse, clinicaldoc.ErrNoteIncomplete},
	}
	for name, tt := range tests {
		for _, opts := range [][]clinicaldoc.CallOption{nil, {clinicaldoc.WithoutRetry()}} {
			t.Run(fmt.Sprint(name, len(opts)), func(t *testing.T) {
				t.Parallel()
				calls := []call{{method: "PUT", url: "/v1/progress-notes/7/sign", status: tt.status, response: tt.answer}}
				switch tt.read {
				case "":
				case "gone":
					calls = append(calls, call{url: "/v1/progress-notes/7", status: http.StatusNotFound})
				default:
					calls = append(calls, call{url: "/v1/progress-notes/7", response: tt.read})
				}
				note, err := serve(t, calls...).Notes.Sign(t.Context(), 7, opts...)
				require.ErrorIs(t, err, tt.match)
				if tt.mismatch != nil {
					require.NotErrorIs(t, err, tt.mismatch)
				}
				var answered *clinicaldoc.Error
				require.ErrorAs(t, err, &answered)
				assert.Equal(t, tt.status, answered.StatusCode)
				assert.Nil(t, note)
			})
		}
	}
}

func TestNotesSignFindsItselfDone(t *testing.T) {
	t.Parallel()
	// The first response is lost, so the note is read: it is signed, that is the result, and nothing is signed twice.
	const note = testBase + "/v1/progress-notes/7"
	for _, retries := range []int{0, 3} {
		for name, lost := range map[string]httpmock.Responder{
			"bad gateway":      httpmock.NewStringResponder(http.StatusBadGateway, ""),
			"connection reset": httpmock.NewErrorResponder(errors.New("connection reset")),
		} {
			transport := httpmock.NewMockTransport()
			transport.RegisterResponder("PUT", note+"/sign", lost)
			transport.RegisterResponder("GET", note, httpmock.NewStringResponder(http.StatusOK, `{"id":7,"has":{"content":true,"transcription":true,"signed":true}}`))
			client := clientOn(t, &http.Client{Transport: transport}, clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: retries, MinWait: 1, MaxWait: 1}))
			signed, err := client.Notes.Sign(t.Context(), 7)
			require.NoError(t, err, name)
			assert.True(t, signed.Has.Signed)
			assert.Equal(t, 1, transport.GetCallCountInfo()["PUT "+note+"/sign"], "%s, %d retries", name, retries)
		}
	}
}

func TestNotesCreateForAnotherPatient(t *testing.T) {
	t.Parallel()
	for patient, mismatch := range map[string]bool{
		`"patient":{"id":7},`: false, `"patient_id":"7",`: false, ``: false, `"patient":[],`: false,
		`"patient":{"id":8},`: true, `"patient_id":8,`: true, `"patient":{"id":7},"patient_id":8,`: true,
	} {
		client := serve(t, call{method: "POST", url: "/v1/progress-notes", checkBody: checkParts(part{`form-data; name="patient_id"`, "", "7"}), response: `{` + patient + smallNote[1:]})
		note, err := client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{PatientID: 7})
		if !mismatch {
			require.NoError(t, err, patient)
			continue
		}
		require.ErrorIs(t, err, clinicaldoc.ErrPatientMismatch, patient)
		require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown, "it exists")
		assert.Nil(t, note)
		var conflict *clinicaldoc.ConflictError
		require.ErrorAs(t, err, &conflict)
		assert.EqualValues(t, 7, conflict.Current.ID, "the error carries the note")
	}
}

func TestIDsBelowOneAreRefused(t *testing.T) {
	t.Parallel()
	for _, id := range []int64{0, -1, math.MinInt64} {
		client := serve(t)
		for operation, attempt := range map[string]func(context.Context) (any, error){
			"Notes.Get": func(ctx context.Context) (any, error) { return pointer(client.Notes.Get(ctx, id)) },
			"Notes.Update": func(ctx context.Context) (any, error) {
				return pointer(client.Notes.Update(ctx, id, clinicaldoc.UpdateNoteParams{}))
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

func TestNotesCreate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "visit.mp3")
	require.NoError(t, os.WriteFile(path, []byte("sound"), 0o600))
	file, err := clinicaldoc.AudioFile(path)
	require.NoError(t, err)
	typed := clinicaldoc.AudioBytes("visit", []byte("sound"))
	typed.ContentType = "audio/L16; rate=8000"
	fields := []part{
		{`form-data; name="name"`, "", "Visit é"},
		{`form-data; name="patient_id"`, "", "4711"},
		{`form-data; name="prompt_id"`, "", "12"},
	}
	tests := map[string]struct {
		audio *clinicaldoc.AudioSource
		want  part
	}{
		"file":               {file, part{`form-data; name="file"; filename="visit.mp3"`, "audio/mpeg", "sound"}},
		"bytes":              {clinicaldoc.AudioBytes("visit.WAV", []byte("sound")), part{`form-data; name="file"; filename="visit.WAV"`, "audio/wav", "sound"}},
		"reader at":          {clinicaldoc.AudioReaderAt("visit.m4a", strings.NewReader("sound, and more"), 5), part{`form-data; name="file"; filename="visit.m4a"`, "audio/mp4", "sound"}},
		"unknown extension":  {clinicaldoc.AudioBytes("visit.xyz", []byte("sound")), part{`form-data; name="file"; filename="visit.xyz"`, "application/octet-stream", "sound"}},
		"given content type": {typed, part{`form-data; name="file"; filename="visit"`, "audio/l16; rate=8000", "sound"}},
		"folders in a name":  {clinicaldoc.AudioBytes(`C:\a/b\visit.ogg`, []byte("sound")), part{`form-data; name="file"; filename="visit.ogg"`, "audio/ogg", "sound"}},
		"quotes in a name":   {clinicaldoc.AudioBytes(`a"b é.flac`, []byte("sound")), part{`form-data; name="file"; filename="a\"b é.flac"`, "audio/flac", "sound"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := serve(t, call{method: "POST", url: "/v1/progress-notes", checkBody: checkParts(append([]part{tt.want}, fields...)...), status: http.StatusCreated, response: fullNote})
			var progress [][2]int64
			note, err := client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{
				Name: "Visit é", PatientID: 4711, PromptID: 12, Audio: tt.audio,
				OnProgress: func(sent, total int64) { progress = append(progress, [2]int64{sent, total}) },
			})
			require.NoError(t, err)
			assertFullNote(t, note)
			assert.Equal(t, [][2]int64{{0, 5}, {5, 5}}, progress)
		})
	}
}

func TestNotesCreateSendsOnlyWhatIsSet(t *testing.T) {
	t.Parallel()
	client := serve(t,
		call{method: "POST", url: "/v1/progress-notes", checkBody: checkParts(), status: http.StatusUnprocessableEntity, response: `{"message":"The given data was invalid","errors":{"file":["Required."],"name":["Required."]}}`},
		call{method: "POST", url: "/v1/progress-notes", checkBody: checkParts(part{`form-data; name="patient_id"`, "", "5"}), response: smallNote},
	)
	_, err := client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{})
	require.ErrorIs(t, err, clinicaldoc.ErrValidation)
	require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	require.ErrorContains(t, err, "[fields: file, name]")
	_, err = client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{PatientID: 5})
	require.NoError(t, err)
}

func TestNotesCreateRefusesBadParams(t *testing.T) {
	t.Parallel()
	data := []byte("sound")
	badType := clinicaldoc.AudioBytes("a.wav", data)
	badType.ContentType = "sound"
	twoLines := clinicaldoc.AudioBytes("a.wav", data)
	twoLines.ContentType = "audio/wav\r\nX-Evil: 1"
	for name, params := range map[string]clinicaldoc.CreateNoteParams{
		"PatientID":           {PatientID: -1},
		"PromptID":            {PromptID: -1},
		"Audio: made by hand": {Audio: &clinicaldoc.AudioSource{}},
		"Audio: nil reader":   {Audio: clinicaldoc.AudioReader("a.wav", nil)},
		"Audio: nil at":       {Audio: clinicaldoc.AudioReaderAt("a.wav", nil, 5)},
		"Audio: empty":        {Audio: clinicaldoc.AudioBytes("a.wav", nil)},
		"Audio: negative":     {Audio: clinicaldoc.AudioReaderAt("a.wav", bytes.NewReader(data), -1)},
		"Audio: no name":      {Audio: clinicaldoc.AudioBytes("", data)},
		"Audio: a folder":     {Audio: clinicaldoc.AudioBytes("a/", data)},
		"Audio: dots":         {Audio: clinicaldoc.AudioBytes("a/..", data)},
		"Audio: control":      {Audio: clinicaldoc.AudioBytes("a\nb.wav", data)},
		"Audio: not UTF-8":    {Audio: clinicaldoc.AudioBytes("a\xff.wav", data)},
		"Audio: long":         {Audio: clinicaldoc.AudioBytes(strings.Repeat("a", 256), data)},
		"ContentType":         {Audio: badType},
		"ContentType: lines":  {Audio: twoLines},
	} {
		field, _, _ := strings.Cut(name, ":")
		note, err := serve(t).Notes.Create(t.Context(), params)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, name)
		require.ErrorContains(t, err, field, name)
		assert.Nil(t, note, name)
	}
}

func TestNotesCreateNoticesChangedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret.wav")
	require.NoError(t, os.WriteFile(path, []byte("sound"), 0o600))
	source, err := clinicaldoc.AudioFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte("other sound"), 0o600))
	_, err = serve(t).Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Audio: source})
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	require.ErrorContains(t, err, "changed")
	require.NoError(t, os.Remove(path))
	_, err = serve(t).Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Audio: source})
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.NotContains(t, err.Error(), "secret")
}

func TestNotesCreateUnknownOutcomes(t *testing.T) {
	t.Parallel()
	reset := errors.New("connection reset")
	tests := map[string]struct {
		answer  call
		match   error
		unknown bool
	}{
		"lost answer": {call{fail: reset}, reset, true},
		"500":         {call{status: 500}, clinicaldoc.ErrServer, true},
		"503":         {call{status: 503}, clinicaldoc.ErrServer, true},
		"no note":     {call{response: `{"status":"queued"}`}, clinicaldoc.ErrUnexpectedResponse, true},
		"HTML":        {call{response: `<html>`}, clinicaldoc.ErrUnexpectedResponse, true},
		"nothing":     {call{status: 204}, clinicaldoc.ErrUnexpectedResponse, true},
		"302":         {call{status: 302, answerHeader: map[string]string{"Location": "/login"}}, clinicaldoc.ErrUnexpectedResponse, true},
		"308":         {call{status: 308, answerHeader: map[string]string{"Location": "/v2"}}, clinicaldoc.ErrUnexpectedResponse, false},
		"401":         {call{status: 401}, clinicaldoc.ErrUnauthorized, false},
		"413":         {call{status: 413}, clinicaldoc.ErrTooLarge, false},
		"422":         {call{status: 422}, clinicaldoc.ErrValidation, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := tt.answer
			request.method, request.url = "POST", "/v1/progress-notes"
			request.checkBody = func(*testing.T, string, []byte) {}
			params := clinicaldoc.CreateNoteParams{Name: "Visit", PatientID: 4711, Audio: clinicaldoc.AudioBytes("a.wav", []byte("sound"))}
			before := time.Now()
			client := serveWith(t, []clinicaldoc.Option{clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 3})}, request)
			note, err := client.Notes.Create(t.Context(), params)
			assert.Nil(t, note)
			require.ErrorIs(t, err, tt.match)
			var unknown *clinicaldoc.OutcomeUnknownError
			assert.Equal(t, tt.unknown, errors.As(err, &unknown))
			assert.Equal(t, tt.unknown, errors.Is(err, clinicaldoc.ErrOutcomeUnknown))
			if tt.unknown {
				assert.Equal(t, params.Name, unknown.Params.Name)
				assert.Same(t, params.Audio, unknown.Params.Audio)
				assert.WithinRange(t, unknown.SentAt, before, time.Now())
			}
		})
	}
}
