package clinicaldoctest_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
)

var noon = time.Date(2024, 5, 1, 12, 0, 0, 123456000, time.UTC)

func TestNote_Processing_PassesEveryStage(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon), clinicaldoctest.WithDelays(clinicaldoctest.Delays{
		Uploaded: time.Second, Transcribing: time.Minute, Transcribed: time.Second, Analysing: time.Minute,
	}))
	created := c.create(validForm())
	require.Equal(t, http.StatusCreated, created.StatusCode, created.text)
	note := created.object(t)
	assert.Equal(t, object{"content": false, "transcription": false, "signed": false}, note["has"])
	assert.Equal(t, "2024-05-01T12:00:00.123456Z", note["created_at"])
	assert.NotContains(t, note, "transcription")
	assert.Nil(t, note["error_state"])
	assert.Equal(t, object{"id": 7.0, "name": "Patient 7"}, note["patient"])
	assert.Equal(t, object{"id": 3.0, "name": "Template 3", "description": "Synthetic template 3"}, note["template"])
	assert.Equal(t, object{"id": 1.0, "name": "User 1"}, note["user"])

	seen := func(advance time.Duration) object {
		c.srv.Advance(advance)
		return c.expect(http.StatusOK, http.MethodGet, "/v1/progress-notes/1")
	}
	transcribing := seen(time.Second)
	assert.Equal(t, "2024-05-01T12:00:01.123456Z", transcribing["transcription_started_at"])
	assert.NotContains(t, transcribing, "transcription_completed_at")

	transcribed := seen(time.Minute)
	assert.Equal(t, "2024-05-01T12:01:01.123456Z", transcribed["transcription_completed_at"])
	assert.Equal(t, "Synthetic transcription of note 1.", transcribed["transcription"])
	assert.Equal(t, object{"content": false, "transcription": true, "signed": false}, transcribed["has"])

	c.expect(http.StatusUnprocessableEntity, http.MethodPut, "/v1/progress-notes/1/sign")

	complete := seen(2 * time.Minute)
	assert.Equal(t, "2024-05-01T12:01:02.123456Z", complete["analysis_started_at"])
	assert.Equal(t, "2024-05-01T12:02:02.123456Z", complete["analysis_completed_at"])
	assert.Equal(t, complete["analysis_completed_at"], complete["updated_at"])
	assert.Equal(t, "Synthetic analysis of note 1.", complete["analysis"])

	signed := c.expect(http.StatusOK, http.MethodPut, "/v1/progress-notes/1/sign")
	assert.Equal(t, object{"content": true, "transcription": true, "signed": true}, signed["has"])
	assert.Equal(t, clinicaldoctest.StageSigned, c.srv.Notes()[0].Stage)
}

func TestScriptNext_Scripts_DecideProcessing(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithDelays(clinicaldoctest.Delays{}))
	c.srv.ScriptNext(
		clinicaldoctest.Script{Transcription: "Scripted.", Analysis: "Analysed."},
		clinicaldoctest.Script{TranscriptionError: "no speech"},
		clinicaldoctest.Script{AnalysisError: "model unavailable"},
	)
	for range 4 {
		c.create(validForm())
	}
	notes := c.srv.Notes()
	assert.Equal(t, "Scripted.", notes[0].Transcription)
	assert.Equal(t, "Analysed.", notes[0].Analysis)
	assert.Equal(t, clinicaldoctest.StageComplete, notes[3].Stage, "notes without a script succeed")

	silent := c.expect(http.StatusOK, http.MethodGet, "/v1/progress-notes/2")
	assert.Equal(t, "no speech", silent["error_state"])
	assert.Contains(t, silent, "transcription_started_at")
	assert.NotContains(t, silent, "transcription_completed_at")

	half := c.expect(http.StatusOK, http.MethodGet, "/v1/progress-notes/3")
	assert.Equal(t, "model unavailable", half["error_state"])
	assert.Contains(t, half, "analysis_started_at")
	assert.NotContains(t, half, "analysis_completed_at")
	assert.Equal(t, object{"content": false, "transcription": true, "signed": false}, half["has"])
}

func TestAddNote_EachStage_StartsThere(t *testing.T) {
	t.Parallel()
	const failedStage = clinicaldoctest.StageFailed
	stages := map[clinicaldoctest.Stage]clinicaldoctest.Stage{ // and what each one is an hour later
		clinicaldoctest.StageUploaded:     clinicaldoctest.StageComplete,
		clinicaldoctest.StageTranscribing: clinicaldoctest.StageComplete,
		clinicaldoctest.StageTranscribed:  clinicaldoctest.StageComplete,
		clinicaldoctest.StageAnalysing:    clinicaldoctest.StageComplete,
		clinicaldoctest.StageComplete:     clinicaldoctest.StageComplete,
		failedStage:                       failedStage,
		clinicaldoctest.StageSigned:       clinicaldoctest.StageSigned,
	}
	c := start(t, clinicaldoctest.WithFrozenClock(noon))
	started, stuck := map[clinicaldoctest.Stage]int64{}, map[clinicaldoctest.Stage]int64{}
	for stage := range stages {
		anHourAgo := noon.Add(-time.Hour).In(time.FixedZone("elsewhere", 3600))
		started[stage] = c.srv.AddNote(clinicaldoctest.Note{Stage: stage, CreatedAt: anHourAgo})
		stuck[stage] = c.srv.AddNote(clinicaldoctest.Note{Stage: stage, Stuck: true})
	}
	now := func() map[int64]clinicaldoctest.Stage {
		byID := map[int64]clinicaldoctest.Stage{}
		for _, note := range c.srv.Notes() {
			byID[note.ID] = note.Stage
		}
		return byID
	}
	assert.Equal(t, noon.Add(-time.Hour), c.srv.Notes()[0].CreatedAt, "in UTC")
	for stage, id := range started {
		assert.Equal(t, stage, now()[id])
	}
	c.srv.Advance(time.Hour)
	for stage, later := range stages {
		assert.Equal(t, stage, now()[stuck[stage]], "a stuck note stays")
		assert.Equal(t, later, now()[started[stage]], "the others go on")
	}
	failed := c.expect(http.StatusOK, http.MethodGet, fmt.Sprintf("/v1/progress-notes/%d", started[failedStage]))
	assert.Equal(t, "processing failed", failed["error_state"])
	assert.NotContains(t, failed, "transcription")

	inAnalysis := c.srv.AddNote(clinicaldoctest.Note{Stage: failedStage, Transcription: "Synthetic words."})
	failed = c.expect(http.StatusOK, http.MethodGet, fmt.Sprintf("/v1/progress-notes/%d", inAnalysis))
	assert.Equal(t, "Synthetic words.", failed["transcription"])
	assert.Contains(t, failed, "analysis_started_at")
}

func TestUpdate_SomeFields_ChangesOnlyThose(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon))
	c.srv.AddNote(clinicaldoctest.Note{Name: "Before", Transcription: "Kept."})
	c.srv.Advance(time.Minute)

	updated := c.put("/v1/progress-notes/1", `{"name":"  After ","analysis":"","unknown":1}`).object(t)
	assert.Equal(t, "After", updated["name"], "text is trimmed")
	assert.Equal(t, "Kept.", updated["transcription"])
	assert.NotContains(t, updated, "analysis")
	assert.Equal(t, "2024-05-01T12:01:00.123456Z", updated["updated_at"])
	assert.Equal(t, "2024-05-01T12:00:00.123456Z", updated["created_at"])

	c.srv.Advance(time.Minute)
	for _, body := range []string{"", "{}", `{"name":"After"}`, `{"name":" After "}`} {
		same := c.put("/v1/progress-notes/1", body)
		require.Equal(t, http.StatusOK, same.StatusCode, "nothing to change is no error")
		assert.Equal(t, "2024-05-01T12:01:00.123456Z", same.object(t)["updated_at"], "what changes nothing dates nothing: %s", body)
	}
}

// A clinician may clear a text that the service made. Reading the note does not make it again.
func TestUpdate_ClearedText_StaysEmpty(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.srv.AddNote(clinicaldoctest.Note{Transcription: "Synthetic.", Analysis: "Synthetic."})
	for _, text := range []string{"transcription", "analysis"} {
		assert.Contains(t, c.expect(http.StatusOK, http.MethodGet, "/v1/progress-notes/1"), text)
		c.put("/v1/progress-notes/1", `{"`+text+`":""}`)
		assert.NotContains(t, c.expect(http.StatusOK, http.MethodGet, "/v1/progress-notes/1"), text)
	}
}

// Laravel reads what it can of an update's body and ignores the rest.
func TestUpdate_OddBody_IsReadAsLaravelDoes(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.srv.AddNote(clinicaldoctest.Note{Name: "Untouched"})
	send := func(contentType, body string) answer {
		req := c.request(http.MethodPut, "/v1/progress-notes/1", strings.NewReader(body))
		req.Header.Set("Content-Type", contentType)
		return c.send(req)
	}
	for _, body := range []string{`{"name":`, `[]`, `null`, `"text"`, "{\"name\":\"\xff\"}", `[{"name":"x"}]`} {
		assert.Equal(t, http.StatusOK, send("application/json", body).StatusCode, body)
	}
	assert.Equal(t, http.StatusOK, send("multipart/form-data; boundary=b", "--b--").StatusCode)
	assert.Equal(t, http.StatusOK, send("text/plain", `{"name":"x"}`).StatusCode)
	assert.Equal(t, "Untouched", c.srv.Notes()[0].Name)

	assert.Equal(t, http.StatusOK, send("application/x-www-form-urlencoded", "name=From+a+form&analysis=").StatusCode)
	note := c.srv.Notes()[0]
	assert.Equal(t, "From a form", note.Name)
	assert.Empty(t, note.Analysis)

	v := c.srv.Variant()
	v.RefuseMalformedBody = true
	c.srv.SetVariant(v)
	for _, body := range []string{`{"name":`, `[]`, "{\"name\":\"\xff\"}"} {
		assert.Equal(t, http.StatusBadRequest, send("application/json", body).StatusCode, body)
	}
	assert.Equal(t, http.StatusBadRequest, send("text/plain", "name").StatusCode)
	assert.Equal(t, http.StatusOK, send("application/json", "").StatusCode)
}

func TestUpdate_DuringProcessing_IsKept(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon))
	c.create(validForm())
	c.put("/v1/progress-notes/1", `{"transcription":"Edited early.","analysis":"Edited too."}`)
	c.put("/v1/progress-notes/1", `{"name":"Edited later"}`)
	c.srv.Advance(time.Hour)
	note := c.srv.Notes()[0]
	assert.Equal(t, clinicaldoctest.StageComplete, note.Stage)
	assert.Equal(t, "Edited early.", note.Transcription)
	assert.Equal(t, "Edited too.", note.Analysis)
}

func TestUpdate_InvalidInput_IsRefused(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.srv.AddNote(clinicaldoctest.Note{Name: "Untouched"})
	for body, field := range map[string]string{
		`{"name":5}`:    "name",
		`{"name":null}`: "name",
		`{"name":" "}`:  "name",
		`{"name":"` + strings.Repeat("n", 256) + `"}`: "name",
		`{"transcription":["a"]}`:                     "transcription",
		`{"analysis":{}}`:                             "analysis",
	} {
		a := c.put("/v1/progress-notes/1", body)
		require.Equal(t, http.StatusUnprocessableEntity, a.StatusCode, body)
		refused := a.object(t)
		assert.Equal(t, "The given data was invalid", refused["message"])
		assert.Contains(t, refused["errors"], field, body)
	}
	huge := c.put("/v1/progress-notes/1", `{"analysis":"`+strings.Repeat("a", 9<<20)+`"}`)
	assert.Equal(t, http.StatusRequestEntityTooLarge, huge.StatusCode)
	assert.Equal(t, "Untouched", c.srv.Notes()[0].Name)
}

func TestNote_OtherUser_IsLimitedByTeamAndOwner(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.srv.AddNote(clinicaldoctest.Note{})
	colleague := c.as(c.srv.AddUser(clinicaldoctest.User{}).Token)
	stranger := c.as(c.srv.AddUser(clinicaldoctest.User{TeamID: 2}).Token)

	colleague.expect(http.StatusOK, http.MethodGet, "/v1/progress-notes/1")
	stranger.expect(http.StatusNotFound, http.MethodGet, "/v1/progress-notes/1")
	assert.Empty(t, stranger.expect(http.StatusOK, http.MethodGet, "/v1/progress-notes")["data"])

	assert.Equal(t, http.StatusForbidden, colleague.put("/v1/progress-notes/1", `{"name":5}`).StatusCode, "before validation")
	assert.Equal(t, http.StatusNotFound, stranger.put("/v1/progress-notes/1", `{}`).StatusCode)
	colleague.expect(http.StatusForbidden, http.MethodDelete, "/v1/progress-notes/1")
	colleague.expect(http.StatusForbidden, http.MethodPut, "/v1/progress-notes/1/sign")
	assert.Len(t, c.srv.Notes(), 1)
}

func TestDelete_Note_RemovesItsAudio(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.create(validForm())
	address := c.audioURL()
	require.Equal(t, http.StatusOK, c.as("").get(address).StatusCode)

	assert.NotEmpty(t, c.expect(http.StatusOK, http.MethodDelete, "/v1/progress-notes/1")["message"])
	assert.Equal(t, http.StatusNotFound, c.as("").get(address).StatusCode)
	for _, path := range []string{"/v1/progress-notes/1", "/v1/progress-notes/1/audio-url"} {
		c.expect(http.StatusNotFound, http.MethodGet, path)
	}
	c.expect(http.StatusNotFound, http.MethodDelete, "/v1/progress-notes/1")
}

func TestSign_SignedNote_StaysSigned(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon))
	c.srv.AddNote(clinicaldoctest.Note{})
	for range 2 {
		c.srv.Advance(time.Minute)
		signed := c.expect(http.StatusOK, http.MethodPut, "/v1/progress-notes/1/sign")
		assert.Equal(t, "2024-05-01T12:01:00.123456Z", signed["updated_at"], "only the first time changes it")
	}
}

func TestCreate_LongestName_IsKept(t *testing.T) {
	t.Parallel()
	f := validForm()
	f.fields["name"] = strings.Repeat("é", 255)
	created := start(t).create(f)
	require.Equal(t, http.StatusCreated, created.StatusCode, created.text)
	assert.Equal(t, f.fields["name"], created.object(t)["name"])
}

func TestCreate_InvalidPart_IsNamedAndLeavesNoFile(t *testing.T) {
	t.Parallel()
	c := start(t)
	for name, test := range map[string]struct {
		change func(*form)
		field  string
	}{
		"no name":           {func(f *form) { delete(f.fields, "name") }, "name"},
		"blank name":        {func(f *form) { f.fields["name"] = "  " }, "name"},
		"long name":         {func(f *form) { f.fields["name"] = strings.Repeat("n", 256) }, "name"},
		"binary name":       {func(f *form) { f.fields["name"] = "\xff" }, "name"},
		"no patient":        {func(f *form) { delete(f.fields, "patient_id") }, "patient_id"},
		"patient in words":  {func(f *form) { f.fields["patient_id"] = "seven" }, "patient_id"},
		"patient 0":         {func(f *form) { f.fields["patient_id"] = "0" }, "patient_id"},
		"patient 1e99":      {func(f *form) { f.fields["patient_id"] = strings.Repeat("9", 40) }, "patient_id"},
		"fractional prompt": {func(f *form) { f.fields["prompt_id"] = "1.5" }, "prompt_id"},
		"no prompt":         {func(f *form) { delete(f.fields, "prompt_id") }, "prompt_id"},
		"no file":           {func(f *form) { f.fileName = "" }, "file"},
		"file as text":      {func(f *form) { f.fileName = ""; f.fields["file"] = "audio" }, "file"},
	} {
		f := validForm()
		test.change(&f)
		a := c.create(f)
		require.Equal(t, http.StatusUnprocessableEntity, a.StatusCode, name)
		problems := field[object](t, a.object(t), "errors")
		assert.Len(t, problems, 1, name)
		assert.Contains(t, problems, test.field, name)
		assert.Empty(t, c.files(), name)
	}

	asUpdate := validForm()
	asUpdate.fields["_method"] = http.MethodPut
	assert.Equal(t, http.StatusMethodNotAllowed, c.create(asUpdate).StatusCode)
	assert.Empty(t, c.files())

	notMultipart := c.request(http.MethodPost, "/v1/progress-notes", strings.NewReader("{}"))
	notMultipart.Header.Set("Content-Type", "application/json")
	assert.Len(t, c.send(notMultipart).object(t)["errors"], 4)
	assert.Empty(t, c.srv.Notes())
}

func TestCreate_UploadBreaksOff_LeavesNothing(t *testing.T) {
	t.Parallel()
	c := start(t)
	whole := c.createRequest(validForm())
	body, err := io.ReadAll(whole.Body)
	require.NoError(t, err)
	for _, cut := range []int{0, 10, 200, len(body) / 2, len(body) - 10} {
		req := c.request(http.MethodPost, "/v1/progress-notes", bytes.NewReader(body[:cut]))
		req.Header = whole.Header.Clone()
		assert.Equal(t, http.StatusUnprocessableEntity, c.send(req).StatusCode, cut)
		assert.Empty(t, c.files(), cut)
	}
	assert.Empty(t, c.srv.Notes())
}

func TestCreate_TwoRecordings_KeepsTheLast(t *testing.T) {
	t.Parallel()
	c := start(t)
	req := c.multipartRequest(func(w *multipart.Writer) {
		for name, value := range validForm().fields {
			require.NoError(t, w.WriteField(name, value))
		}
		c.writeFile(w, "visit.mp3", []byte("first"))
		c.writeFile(w, "visit.mp3", []byte("second"))
	})
	require.Equal(t, http.StatusCreated, c.send(req).StatusCode)
	assert.Len(t, c.files(), 1)
	assert.NoError(t, c.srv.CreatedOnce([]byte("second")))
}

func TestCreate_TooManyParts_IsRefused(t *testing.T) {
	t.Parallel()
	c := start(t)
	req := c.multipartRequest(func(w *multipart.Writer) {
		for range 101 {
			require.NoError(t, w.WriteField("name", "Visit"))
		}
	})
	assert.Contains(t, c.send(req).text, "The file failed to upload.")
}

func TestCreate_Recording_IsDescribed(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon))
	c.create(validForm())
	estimated := c.audio(1)
	assert.InDelta(t, 2, estimated["duration"], 0)
	assert.InDelta(t, 128_000, estimated["bitrate"], 0)
	assert.InDelta(t, 32_000, estimated["size"], 0)
	assert.Equal(t, "2024-05-01T12:00:00.123456Z", estimated["uploaded_at"])
	assert.Equal(t, "2024-05-31T12:00:00.123456Z", estimated["expires_at"])
	assert.True(t, strings.HasPrefix(field[string](t, estimated, "file_url"), c.srv.StorageURL+"/"))

	recording := validForm()
	recording.fileName, recording.file = "../../visit.WAV", wav(32000, 48000)
	c.create(recording)
	measured := c.audio(2)
	assert.InDelta(t, 1.5, measured["duration"], 0)
	assert.InDelta(t, 256_000, measured["bitrate"], 0)

	recording.file = recording.file[:len(recording.file)-16_000] // a recorder that never came to its end
	c.create(recording)
	assert.InDelta(t, 1, c.audio(3)["duration"], 0)

	c.srv.Advance(31 * 24 * time.Hour)
	expired := c.audio(1)
	assert.NotContains(t, expired, "file_url")
	c.expect(http.StatusNotFound, http.MethodGet, "/v1/progress-notes/1/audio-url")
}

// wav is a WAV file with a chunk before its format, as many recorders write.
func wav(bytesPerSecond uint32, size int) []byte {
	little := binary.LittleEndian
	file := append([]byte("RIFF"), 0, 0, 0, 0)
	file = append(file, "WAVELIST"...)
	file = append(little.AppendUint32(file, 3), "abc\x00"...)
	file = little.AppendUint32(append(file, "fmt "...), 16)
	file = append(file, 1, 0, 1, 0)
	file = little.AppendUint32(file, bytesPerSecond/2)
	file = little.AppendUint32(file, bytesPerSecond)
	file = append(file, 2, 0, 16, 0)
	file = little.AppendUint32(append(file, "data"...), uint32(size))
	return append(file, make([]byte, size)...)
}

func TestRoutes_UnknownPathOrMethod_IsRefused(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.srv.AddNote(clinicaldoctest.Note{})
	for _, id := range []string{"0", "-1", "+1", "01", "1.0", "abc", "1e3", strings.Repeat("9", 30), "%31%20", "..", "%2e%2e", "2"} {
		a := c.get("/v1/progress-notes/" + id)
		require.Equal(t, http.StatusNotFound, a.StatusCode, id)
		assert.Equal(t, object{"message": "Resource not found"}, a.object(t))
	}
	for _, path := range []string{"/", "", "/v1", "/v2/progress-notes", "/v1/users", "/v1/progress-notes/1/unsign", "//v1/progress-notes"} {
		c.expect(http.StatusNotFound, http.MethodGet, path)
	}
	for request, allowed := range map[string]string{
		"PATCH /v1/progress-notes":              "GET, HEAD, POST",
		"POST /v1/progress-notes/1":             "DELETE, GET, HEAD, PUT",
		"GET /v1/progress-notes/1/sign":         "PUT",
		"PUT /user":                             "GET, HEAD",
		"NONSENSE /v1/auth/tokens/1":            "DELETE",
		"DELETE /v1/progress-notes/1/audio-url": "GET, HEAD",
	} {
		method, path, _ := strings.Cut(request, " ")
		a := c.send(c.request(method, path, nil))
		assert.Equal(t, http.StatusMethodNotAllowed, a.StatusCode, request)
		assert.Equal(t, allowed, a.Header.Get("Allow"), request)
		assert.NotEmpty(t, a.object(t)["message"])
	}
	assert.Equal(t, http.StatusOK, c.get("/v1/progress-notes/1/").StatusCode, "a trailing slash does not matter")
	assert.Equal(t, http.StatusOK, c.send(c.request(http.MethodHead, "/user", nil)).StatusCode)
	assert.Equal(t, "GET, HEAD", c.send(c.request(http.MethodOptions, "/user", nil)).Header.Get("Allow"))
}

func TestAddPatient_KnownPatient_IsNamed(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{PatientsMustExist: true}))
	assert.Equal(t, http.StatusUnprocessableEntity, c.create(validForm()).StatusCode)
	patient := c.srv.AddPatient(clinicaldoctest.Patient{ID: 7, Name: "Seeded patient"})
	assert.Equal(t, object{"id": 7.0, "name": patient.Name}, c.create(validForm()).object(t)["patient"])
	c.srv.AddPatient(clinicaldoctest.Patient{ID: 3})
	assert.Equal(t, int64(8), c.srv.AddPatient(clinicaldoctest.Patient{}).ID, "after the highest ID")
}

func TestPlant_PatientsMustExist_KnowsItsPatients(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{PatientsMustExist: true}))
	boxlink.Plant(c.srv, 10) // three to a patient
	for patient, want := range map[string]int{
		"1": http.StatusCreated, "4": http.StatusCreated, "5": http.StatusUnprocessableEntity,
	} {
		f := validForm()
		f.fields["patient_id"] = patient
		assert.Equal(t, want, c.create(f).StatusCode, patient)
	}
}

func TestAddPrompt_PromptsMustExist_AllowsIt(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{PromptsMustExist: true}))
	known, unknown := validForm(), validForm()
	unknown.fields["prompt_id"] = "77"
	for prompt, want := range map[string]int{
		"1": http.StatusCreated, "9": http.StatusCreated, "10": http.StatusUnprocessableEntity,
	} {
		known.fields["prompt_id"] = prompt
		assert.Equal(t, want, c.create(known).StatusCode, "nine are there from the start: %s", prompt)
	}
	assert.Equal(t, int64(10), c.srv.AddPrompt(clinicaldoctest.Prompt{}).ID)
	refused := c.create(unknown)
	assert.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode)
	assert.Contains(t, refused.object(t)["errors"], "prompt_id")
	c.srv.AddPrompt(clinicaldoctest.Prompt{ID: 77, Name: "Seeded prompt"})
	assert.Equal(t, "Seeded prompt", field[string](t, c.create(unknown).object(t), "template", "name"))
	assert.Equal(t, int64(78), c.srv.AddPrompt(clinicaldoctest.Prompt{}).ID)
}

func TestVariant_NameRules_ChangeNames(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{NameLength: 12, DecomposeNames: true}))
	long := validForm()
	long.fields["name"] = " Visite à Orléans in spring "
	created := c.create(long).object(t)
	assert.Equal(t, "Visite a\u0300 Orl", created["name"], "twelve letters, one of them taken apart")
	updated := c.put("/v1/progress-notes/1", `{"name":"Ärzte"}`).object(t)
	assert.Equal(t, "A\u0308rzte", updated["name"])
	very := c.put("/v1/progress-notes/1", `{"name":"`+strings.Repeat("n", 300)+`"}`)
	assert.Equal(t, strings.Repeat("n", 12), very.object(t)["name"], "cut instead of refused")
	endsInSpace := c.put("/v1/progress-notes/1", `{"name":"Third visit of spring"}`).object(t)
	assert.Equal(t, "Third visit", endsInSpace["name"], "the twelfth letter is a space")
}

func TestAddNote_Impossible_Panics(t *testing.T) {
	t.Parallel()
	c := start(t)
	panicText := func(what string, add func()) (text string) {
		defer func() {
			value := recover()
			text, _ = value.(string)
			assert.NotEmpty(t, text, "%s: %v", what, value)
		}()
		add()
		return ""
	}
	for what, c := range map[string]struct {
		add  func()
		want string
	}{
		"unknown stage": {func() { c.srv.AddNote(clinicaldoctest.Note{Stage: "lost"}) }, `unknown stage "lost"`},
		"unknown user":  {func() { c.srv.AddNote(clinicaldoctest.Note{UserID: 99}) }, "no user 99"},
		"less audio than the header of a WAV file": {
			func() { c.srv.AddNote(clinicaldoctest.Note{AudioSize: 1}) }, "no room for a header",
		},
		"token of an unknown user": {func() { c.srv.AddToken(99, "") }, "no user 99"},
		"unknown route": {
			func() { c.srv.Inject("GET /nowhere", clinicaldoctest.Reset()) }, `no route "GET /nowhere"`,
		},
		"note":               {func() { c.srv.AddNote(clinicaldoctest.Note{ID: -1}) }, "-1 is not an ID"},
		"the note's patient": {func() { c.srv.AddNote(clinicaldoctest.Note{PatientID: -1}) }, "-1 is not an ID"},
		"the note's prompt":  {func() { c.srv.AddNote(clinicaldoctest.Note{PromptID: -1}) }, "-1 is not an ID"},
		"user":               {func() { c.srv.AddUser(clinicaldoctest.User{ID: -1}) }, "-1 is not an ID"},
		"patient":            {func() { c.srv.AddPatient(clinicaldoctest.Patient{ID: -1}) }, "-1 is not an ID"},
		"prompt":             {func() { c.srv.AddPrompt(clinicaldoctest.Prompt{ID: -1}) }, "-1 is not an ID"},
	} {
		assert.Contains(t, panicText(what, c.add), c.want, what)
	}
	assert.Empty(t, c.srv.Notes())
}

func TestErrors_WithoutAcceptJSON_ArePages(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.srv.AddNote(clinicaldoctest.Note{})
	browse := func(c caller, method, path string) answer {
		req := c.request(method, path, nil)
		req.Header.Del("Accept")
		return c.send(req)
	}
	login := browse(c.as(""), http.MethodGet, "/user")
	assert.Equal(t, http.StatusFound, login.StatusCode)
	assert.Equal(t, "/login", login.Header.Get("Location"))
	assert.Equal(t, "text/html; charset=UTF-8", login.Header.Get("Content-Type"))
	assert.Contains(t, c.get("/login").text, "Log in")
	assert.Equal(t, http.StatusFound, browse(c, http.MethodPost, "/v1/progress-notes").StatusCode)
	assert.Contains(t, browse(c, http.MethodGet, "/v1/progress-notes/9").text, "<title>Not Found</title>")
	assert.Equal(t, "GET, HEAD", browse(c, http.MethodPut, "/user").Header.Get("Allow"), "a page has the same headers")
	assert.Equal(t, http.StatusOK, browse(c, http.MethodGet, "/v1/progress-notes/1").StatusCode, "only errors differ")

	lenient := start(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{AlwaysJSON: true})).as("")
	assert.Equal(t, http.StatusUnauthorized, browse(lenient, http.MethodGet, "/user").StatusCode)
}
