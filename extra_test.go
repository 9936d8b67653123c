package clinicaldoc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// sentDocuments are what a service of this kind may send, with members that the description does not show at every level.
var sentDocuments = map[string]string{
	"note": `{"id":7,"name":"Visit","transcription":"words","analysis":"thoughts","severity":{"level": 3},"patient":{"id":5,"tags":[]},
		"template":{"id":11,"name":"SOAP","description":"Four parts","locale":"en","sections":[{"title":"S"}]},
		"audio":{"duration":61.25,"bitrate":128000,"size":980123,"uploaded_at":"2024-05-01T10:00:01.000001Z",
		"expires_at":"2024-06-01T10:00:02Z","file_url":"https://storage.clinic.test/7.wav?signature=s","codec":"opus","channels":2},
		"has":{"content":true,"transcription":true,"signed":false,"letter":true,"locked":null},
		"team_id":3,"user_id":22,"user":{"id":22},"error_state":null,"created_at":"2024-05-01T10:00:07Z","updated_at":"2024-05-01T10:00:08Z"}`,
	"token": `{"id":1,"name":"ward-pc","abilities":["*"],"expires_at":null,"tokenable_id":22,
		"created_at":"2024-05-01T10:00:00.123456Z","last_used_at":"2024-05-02T11:00:00.654321Z"}`,
	"user": `{"id":22,"name":"Test User","email":"user@clinic.test","roles":["clinician"],"current_team":{"id":3},
		"created_at":"2024-05-01T10:00:01Z","updated_at":"2024-05-01T10:00:02Z"}`,
	"template":   `{"id":11,"name":"SOAP","description":"Four parts","locale":"en"}`,
	"audio":      `{"size":5,"codec":"opus","waveform":[0.5,0.25]}`,
	"completion": `{"content":true,"transcription":false,"signed":false,"letter":true}`,
}

func TestExtra_EveryRecordGivesBackWhatCame(t *testing.T) {
	t.Parallel()
	for name, target := range map[string]any{
		"note": new(clinicaldoc.ProgressNote), "token": new(clinicaldoc.Token), "user": new(clinicaldoc.User),
		"template": new(clinicaldoc.Template), "audio": new(clinicaldoc.AudioInfo), "completion": new(clinicaldoc.Completion),
	} {
		require.NoError(t, json.Unmarshal([]byte(sentDocuments[name]), target), name)
		encoded, err := json.Marshal(target)
		require.NoError(t, err, name)
		assert.JSONEq(t, sentDocuments[name], string(encoded), name)
		byValue, err := json.Marshal(reflect.ValueOf(target).Elem().Interface())
		require.NoError(t, err, name)
		assert.Equal(t, string(encoded), string(byValue), name)
	}
}

func TestExtra_IsReadAtEveryLevel(t *testing.T) {
	t.Parallel()
	note, err := get(t, sentDocuments["note"])
	require.NoError(t, err)
	assert.Equal(t, object(t, `{"severity":{"level":3}}`), note.Extra)
	assert.Equal(t, object(t, `{"locale":"en","sections":[{"title":"S"}]}`), note.Template.Extra)
	assert.Equal(t, object(t, `{"codec":"opus","channels":2}`), note.Audio.Extra)
	assert.Equal(t, object(t, `{"letter":true,"locked":null}`), note.Has.Extra)
	assertRoundTrip(t, *note)
	assertRoundTrip(t, *note.Template)
	assertRoundTrip(t, *note.Audio)
	assertRoundTrip(t, note.Has)

	page, err := serve(t, call{url: "/v1/progress-notes", response: `[` + sentDocuments["note"] + `,` + sentDocuments["note"] + `]`}).
		Notes.List(t.Context(), clinicaldoc.ListNotesParams{})
	require.NoError(t, err)
	assert.Equal(t, []clinicaldoc.ProgressNote{*note, *note}, page.Items)
}

func TestExtra_ReplacesNoDescribedMember(t *testing.T) {
	t.Parallel()
	extra := object(t, `{"id":8,"\u0069d":9,"name":"other","size":9,"content":true,"email":"x","file_url":"x","kept":[1]}`)
	for name, value := range map[string]any{
		`{"id":7,"name":"n","kept":[1],"size":9,"content":true,"email":"x","file_url":"x"}`:                                           clinicaldoc.Token{ID: 7, Name: "n", Extra: extra},
		`{"id":7,"name":"n","email":"","kept":[1],"size":9,"content":true,"file_url":"x"}`:                                            clinicaldoc.User{ID: 7, Name: "n", Extra: extra},
		`{"id":7,"name":"n","kept":[1],"size":9,"content":true,"email":"x","file_url":"x" }`:                                          clinicaldoc.Template{ID: 7, Name: "n", Extra: extra},
		`{"size":7,"id":9,"name":"other","content":true,"email":"x","kept":[1]}`:                                                      clinicaldoc.AudioInfo{Size: 7, Extra: extra},
		`{"content":false,"transcription":false,"signed":false,"id":9,"name":"other","size":9,"email":"x","file_url":"x","kept":[1]}`: clinicaldoc.Completion{Extra: extra},
	} {
		encoded, err := json.Marshal(value)
		require.NoError(t, err)
		assert.JSONEq(t, name, string(encoded), "%T", value)
	}
	for _, wrong := range []string{`5`, `"secret"`, `[1]`} {
		extra := object(t, wrong)
		for _, value := range []any{
			clinicaldoc.Token{Extra: extra}, clinicaldoc.User{Extra: extra}, clinicaldoc.Template{Extra: extra},
			clinicaldoc.AudioInfo{Extra: extra}, clinicaldoc.Completion{Extra: extra}, clinicaldoc.ProgressNote{Has: clinicaldoc.Completion{Extra: extra}},
		} {
			_, err := json.Marshal(value)
			require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, "%T", value)
			assert.NotContains(t, err.Error(), "secret")
		}
	}
}

func TestExtra_OfAnError(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"message":"m","errors":{"name":["required"]}}`:            `null`,
		`{"message":"m","code":"E17","retry":{"after": 5}}`:         `{"code":"E17","retry":{"after":5}}`,
		`{"message":{"text":"m"}}`:                                  `{"message":{"text":"m"}}`,
		`{"message":"m","errors":[{"code":"E17"}]}`:                 `{"errors":[{"code":"E17"}]}`,
		`{"message":"m","errors":{"name":[{"code":"E17"}]}}`:        `{"errors":{"name":[{"code":"E17"}]}}`,
		`{"message":"m","errors":{"name":"required","files.0":[]}}`: `null`,
		`{"message":"m","errors":null}`:                             `null`,
		`{"message":"m","errors":[]}`:                               `null`,
		`{"code":"E17","cut":"of`:                                   `{"code":"E17"}`,
		`<html>`:                                                    `null`,
		`[1]`:                                                       `null`,
		``:                                                          `null`,
		`{"errors":{"name":[` + strings.Repeat(`"m",`, 20) + `"the 21st"]}}`: `{"errors":{"name":[` + strings.Repeat(`"m",`, 20) + `"the 21st"]}}`,
	} {
		_, err := serve(t, call{url: "/v1/progress-notes/7", status: http.StatusUnprocessableEntity, response: body}).Notes.Get(t.Context(), 7)
		answered, ok := errors.AsType[*clinicaldoc.Error](err)
		require.True(t, ok, body)
		assert.Equal(t, object(t, want), answered.Extra, body)
		checkStored(t, *answered)
	}
}

func TestExtra_OfAPage(t *testing.T) {
	t.Parallel()
	const rows = `[{"id":1,"name":"n"}]`
	for answer, want := range map[string]string{
		`{"data":` + rows + `}`: `null`,
		rows:                    `null`,
		`{"data":` + rows + `,"meta":{"current_page":1,"last_page":1,"per_page":"15","total":1},"links":[]}`: `null`,
		`{"data":` + rows + `,"links":{"first":"https://a.test/?page=1","last":null,"prev":null,"next":"https://a.test/?page=2"},
		"meta":{"current_page":1,"from":1,"last_page":1,"links":[{"url":null,"label":"&laquo;","active":false}],"path":"https://a.test","to":1,"total":1}}`: `{"first":"https://a.test/?page=1",
		"last":null,"prev":null,"next":"https://a.test/?page=2","from":1,"links":[{"url":null,"label":"&laquo;","active":false}],"path":"https://a.test","to":1}`,
		`{"data":` + rows + `,"meta":{"path":"p","next_cursor":null,"prev_cursor":"abc"}}`:                     `{"path":"p","prev_cursor":"abc"}`,
		`{"current_page":1,"data":` + rows + `,"from":1,"next_page_url":null,"to":1,"warnings":["synthetic"]}`: `{"from":1,"to":1,"warnings":["synthetic"]}`,
		`{"data":` + rows + `,"meta":{"total":"many"}}`:                                                        `{"total":"many"}`,
	} {
		page, err := serve(t, call{url: "/v1/progress-notes", response: answer}).Notes.List(t.Context(), clinicaldoc.ListNotesParams{})
		require.NoError(t, err, answer)
		encoded, err := json.Marshal(page.Meta.Extra)
		require.NoError(t, err)
		assert.JSONEq(t, want, string(encoded), answer)
		assertRoundTrip(t, page.Meta)
	}
}

// A flag that the service did not send is false, as one that it sent as false. Encoding the note tells them apart, and so
// does Flags.
func TestFlags_TellAbsentFromFalse(t *testing.T) {
	t.Parallel()
	for has, want := range map[string]map[string]bool{
		``:                                      {},
		`"has":null`:                            {},
		`"has":[]`:                              {},
		`"has":{"content":null}`:                {},
		`"has":{"letter":true}`:                 {},
		`"has":{"signed":false}`:                {"signed": false},
		`"has":{"content":true}`:                {"content": true},
		`"has":{"content":true,"signed":false}`: {"content": true, "signed": false},
		`"has":{"content":false,"transcription":false,"signed":false}`: {"content": false, "transcription": false, "signed": false},
		`"has":{"content":true,"transcription":true,"signed":false}`:   {"content": true, "transcription": true, "signed": false},
		`"has":{"content":1,"transcription":"0","signed":""}`:          {"content": true, "transcription": false, "signed": false},
	} {
		note, err := get(t, withField(`"team_id":1`+strings.TrimSuffix(","+has, ",")))
		require.NoError(t, err, has)
		assert.Equal(t, want, note.Flags(), has)
		assertRoundTrip(t, *note)
		var back struct{ Has map[string]any }
		require.NoError(t, json.Unmarshal([]byte(asJSON(t, note)), &back))
		for _, flag := range []string{"content", "transcription", "signed"} {
			value, sent := want[flag]
			written, isWritten := back.Has[flag]
			assert.Equal(t, sent, isWritten, "%s: %s", has, flag)
			assert.True(t, !sent || written == value, "%s: %s", has, flag)
		}
		note.Has.Signed = true
		assert.True(t, note.Flags()["signed"], "what the program sets is written")
		assert.Contains(t, asJSON(t, note), `"signed":true`)
	}
	constructed := clinicaldoc.ProgressNote{ID: 7, Has: clinicaldoc.Completion{Content: true}}
	assert.Equal(t, map[string]bool{"content": true, "transcription": false, "signed": false}, constructed.Flags())
	assert.Empty(t, clinicaldoc.ProgressNote{ID: 7}.Flags())
}

func TestCreate_ExtraIsSentAsFurtherParts(t *testing.T) {
	t.Parallel()
	params := clinicaldoc.CreateNoteParams{
		Name: "Visit", PatientID: 5, Audio: clinicaldoc.AudioBytes("a.wav", []byte("RIFF")),
		Extra: map[string]string{"language": "de", "encounter[id]": "17", "empty": "", "note text": "a\r\n--b"},
	}
	client := serve(t, call{method: "POST", url: "/v1/progress-notes", status: 201, response: smallNote, checkBody: checkParts(
		part{`form-data; name="file"; filename="a.wav"`, "audio/wav", "RIFF"},
		part{`form-data; name="name"`, "", "Visit"},
		part{`form-data; name="patient_id"`, "", "5"},
		part{`form-data; name="empty"`, "", ""},
		part{`form-data; name="encounter[id]"`, "", "17"},
		part{`form-data; name="language"`, "", "de"},
		part{`form-data; name="note text"`, "", "a\r\n--b"},
	)})
	_, err := client.Notes.Create(t.Context(), params)
	require.NoError(t, err)
	assert.Len(t, params.Extra, 4)
}

// PHP reads "patient id", "patient.id" and "patient_id[0]" as patient_id: such a part would make the note another patient's.
func TestCreate_RejectsUnsendableExtra(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", "name", "patient_id", "prompt_id", "file", "Patient_ID", "patient.id", "patient id", " patient_id", "patient_id[0]", "file[]", "name[first]",
		"_method", "_METHOD", "a\"b", "a'b", "a\r\nX-Injected: yes", "a\x00", "a\x7f", "\xff", "[", strings.Repeat("x", 300),
	} {
		_, err := serve(t).Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: "Visit", Extra: map[string]string{"language": "de", name: canary}})
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, "%q", name)
		assert.Contains(t, err.Error(), "Notes.Create: Extra")
		assert.NotContains(t, err.Error(), canary)
	}
	_, err := serve(t).Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Extra: map[string]string{"language": "\xff"}})
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
}

func TestUpdate_ExtraIsSentAsFurtherMembers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		params clinicaldoc.UpdateNoteParams
		want   string
	}{
		{clinicaldoc.UpdateNoteParams{Name: new("n"), Extra: map[string]any{"status": "draft", "tags": []string{"<a>"}}}, `{"name":"n","status":"draft","tags":["<a>"]}`},
		{clinicaldoc.UpdateNoteParams{Extra: map[string]any{"status": nil}}, `{"status":null}`},
		{clinicaldoc.UpdateNoteParams{Extra: map[string]any{}}, `{}`},
	} {
		client := serve(t, call{method: "PUT", url: "/v1/progress-notes/7", response: smallNote, checkBody: func(t *testing.T, _ string, body []byte) {
			t.Helper()
			assert.JSONEq(t, tc.want, string(body))
		}})
		_, err := client.Notes.Update(t.Context(), 7, tc.params)
		require.NoError(t, err)
	}
}

func TestUpdate_RejectsUnsendableExtra(t *testing.T) {
	t.Parallel()
	circle := map[string]any{}
	circle["again"] = circle
	for name, extra := range map[string]map[string]any{
		"name": {"name": canary}, "transcription": {"transcription": canary}, "analysis": {"Analysis": canary}, "no name": {"": canary},
		"key": {"\xff": canary}, "text": {"status": "\xff"}, "nested text": {"status": map[string]any{"a": []any{"\xff"}}},
		"chan": {"status": make(chan int)}, "func": {"status": func() {}}, "circle": circle,
		"failing": {"status": unencodable{}},
	} {
		_, err := serve(t).Notes.Update(t.Context(), 7, clinicaldoc.UpdateNoteParams{Analysis: new("a"), Extra: extra})
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, name)
		assert.Contains(t, err.Error(), "Notes.Update: Extra")
		assert.NotContains(t, err.Error(), canary)
	}
}

// unencodable is a value of a caller's that cannot be encoded, and says why in words that must not be printed.
type unencodable struct{}

func (unencodable) MarshalJSON() ([]byte, error) { return nil, errors.New(canary) }

// Whether members that are not described were written can be told only by the note's own.
func TestUpdate_LostResponseWithExtra(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		echoed string // by the read after the lost response
		puts   int
	}{
		"carried out":                       {`"status":"final"`, 1},
		"not carried out":                   {`"status":"draft"`, 2},
		"the service does not give it back": {`"team_id":1`, 2},
	} {
		puts := 0
		client := clientOn(t, &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			note := `{"id":7,"name":"n","analysis":"a","updated_at":"2024-05-01T10:11:12Z",` + tc.echoed + `}`
			if r.Method == http.MethodPut {
				puts++
				_, _ = io.Copy(io.Discard, r.Body)
				if puts == 1 {
					return nil, io.ErrUnexpectedEOF
				}
			}
			return madeResponse(r, http.StatusOK, note), nil
		})}, clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 2, MinWait: 1, MaxWait: 1}))
		_, err := client.Notes.Update(t.Context(), 7, clinicaldoc.UpdateNoteParams{Extra: map[string]any{"status": "final"}})
		require.NoError(t, err, name)
		assert.Equal(t, tc.puts, puts, name)
	}
}

// FuzzRoundTrip wants every member of a record to be in what is encoded, at every level: the undescribed ones as they came,
// the described ones with a value that reads as the same.
func FuzzRoundTrip(f *testing.F) {
	for _, document := range sentDocuments {
		f.Add([]byte(document))
	}
	for _, seed := range []string{
		fullNote, richNote, smallNote, "{}", `{"has":{"signed":false}}`, `{"has":{"content":true,"x":{"y":[1]}},"audio":{"":0},"template":{"\u0061":"<"}}`,
		`{"template":{"x":1},"template":{"y":2}}`, `{"has":{"x":1},"has":{"content":true}}`, `{"audio":{"x":1},"audio":null}`,
		`{"id":7,"abilities":["*"],"expires_at":"2024-05-01","x":"` + "\u2028" + `"}`, "{\"x\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		tooDeep := bytes.Count(document, []byte("["))+bytes.Count(document, []byte("{")) > 900
		if tooDeep || !json.Valid(document) || repeatsKeys(json.NewDecoder(bytes.NewReader(document))) {
			t.Skip("encoding/json, which compares, keeps one of two members and knows no limit of depth")
		}
		givesBack[clinicaldoc.Token](t, document, nil)
		givesBack[clinicaldoc.User](t, document, nil)
		givesBack[clinicaldoc.Template](t, document, nil)
		givesBack[clinicaldoc.AudioInfo](t, document, nil)
		givesBack[clinicaldoc.Completion](t, document, nil)
		givesBack[clinicaldoc.ProgressNote](t, document, map[string]reflect.Type{
			"template": reflect.TypeFor[clinicaldoc.Template](), "audio": reflect.TypeFor[clinicaldoc.AudioInfo](), "has": reflect.TypeFor[clinicaldoc.Completion](),
		})
	})
}

// givesBack decodes and encodes a document as T.
func givesBack[T any](t *testing.T, document []byte, parts map[string]reflect.Type) {
	t.Helper()
	var value, back T
	if json.Unmarshal(document, &value) != nil {
		return
	}
	encoded, err := json.Marshal(value)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(encoded, &back))
	require.Equal(t, value, back, "what is described reads as the same")
	requireUndescribed(t, reflect.TypeFor[T](), document, encoded)
	for member, part := range parts {
		requireUndescribed(t, part, memberOf(document, member), memberOf(encoded, member))
	}
}

func memberOf(document []byte, name string) []byte {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(document, &members)
	return members[name]
}

// requireUndescribed wants the members of an object that have no field in the type.
func requireUndescribed(t *testing.T, record reflect.Type, document, encoded []byte) {
	t.Helper()
	described := map[string]bool{}
	for field := range record.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		described[name] = true
	}
	var sent, written map[string]json.RawMessage
	if json.Unmarshal(document, &sent) != nil {
		return
	}
	if len(encoded) > 0 {
		require.NoError(t, json.Unmarshal(encoded, &written))
	}
	for name, value := range sent {
		if !described[name] {
			require.Equal(t, asJSON(t, value), asJSON(t, written[name]), "%s: %s", record, name)
		}
	}
}

// The parts of a form are read back as the standard library reads them: each under its name, with its value.
func FuzzCreateExtra(f *testing.F) {
	f.Add("language", "de")
	f.Add("a\"b", "x")
	f.Add("patient id", "8")
	f.Add("encounter[id]", "a\r\n--b")
	f.Add("n\\a", "\x00")
	f.Fuzz(func(t *testing.T, name, value string) {
		parts := map[string]string{}
		client := fuzzClient(t, func(r *http.Request) (*http.Response, error) {
			_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
			require.NoError(t, err)
			for reader := multipart.NewReader(r.Body, params["boundary"]); ; {
				p, err := reader.NextPart()
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				content, err := io.ReadAll(p)
				require.NoError(t, err)
				parts[p.FormName()] = string(content)
			}
			return answerWith(http.StatusCreated, "application/json", []byte(smallNote))(r)
		})
		_, err := client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: "Visit", PatientID: 5, Extra: map[string]string{name: value}})
		if err != nil {
			require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
			require.Empty(t, parts, "nothing was sent")
			return
		}
		require.Equal(t, map[string]string{"name": "Visit", "patient_id": "5", name: value}, parts)
	})
}
