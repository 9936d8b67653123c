package clinicaldoc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// roundTripper answers requests in this process.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// fuzzClient is a client whose requests get the answer, each one once.
func fuzzClient(t *testing.T, answer roundTripper, opts ...clinicaldoc.Option) *clinicaldoc.Client {
	t.Helper()
	opts = append([]clinicaldoc.Option{clinicaldoc.WithHTTPClient(&http.Client{Transport: answer}), once}, opts...)
	client, err := clinicaldoc.NewClient(testBase, testToken, opts...)
	require.NoError(t, err)
	return client
}

// answerWith answers everything alike.
func answerWith(status int, contentType string, body []byte) roundTripper {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: status, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(bytes.NewReader(body)), Request: r,
		}, nil
	}
}

// decodingErrors is all that an error of an answer that does not decode may say: constant words, described keys, numbers.
var decodingErrors = regexp.MustCompile(`^clinicaldoc: [A-Z][a-z]+\.[A-Za-z]+ \([A-Z]+ /[a-z0-9/{}-]+\): the response is 200 OK with (no body|application/json), but not what the service describes: (` +
	`invalid JSON at byte \d+: (unexpected character or end|invalid escape sequence|nested too deeply)` +
	`|((\.?(id|name|transcription|analysis|template|description|audio|duration|bitrate|size|file_url|has|content|signed|team_id|user_id|email|url|message|data|tokens|` +
	`(uploaded|expires|transcription_started|transcription_completed|analysis_started|analysis_completed|created|updated|last_used)_at)|\[\d+\])+: )?` +
	`want (an? (object|whole number|number|boolean|date-time|record with an id)|the end of the list, of at most 100000 rows|boolean|number|string|array|object), got (null|boolean|number|string|array|object)` +
	`|it holds no (id|list|usable url)|it is (another record than the one asked for|empty))` +
	`(; it may or may not have been carried out: ask Notes\.FindCreated before creating again|; an attempt may have had its effect: read the record before trying again)?$`)

// checkDecoding expects either a value or an error whose text holds nothing of the answer.
func checkDecoding(t *testing.T, value any, err error) {
	t.Helper()
	if err == nil {
		require.NotNil(t, value)
		return
	}
	require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	require.Nil(t, value)
	require.Regexp(t, decodingErrors, err.Error())
}

// checkStored expects that a value encodes, and that what was encoded decodes to the same value.
func checkStored[T any](t *testing.T, value T) {
	t.Helper()
	stored, err := json.Marshal(value)
	require.NoError(t, err)
	var back T
	require.NoError(t, json.Unmarshal(stored, &back), "%s", stored)
	require.Equal(t, value, back, "%s", stored)
}

func unmarshalled[T any](t *testing.T, document []byte) {
	t.Helper()
	var value T
	if json.Unmarshal(document, &value) == nil {
		checkStored(t, value)
	}
}

func FuzzRecords(f *testing.F) {
	for _, seed := range []string{
		fullNote, smallNote, "", "null", "[]", `{"data":` + smallNote + `}`, `{"id":"7","data":{"id":8}}`,
		`{"id":7,"patient_id":"4711","patient":{"id":0},"user":[ 1 ],"error_state":{"code": 5},"template":[],"audio":{"size":"12","duration":"1e2"}}`,
		`{"id":7,"patient":"4711","patient_id":5}`, `{"id":7,"error_state":["` + "\xff" + `"]}`, `{"id":7,"user":"` + "\xff\u2028" + `<&>"}`,
		`{"id":7,"created_at":"0000-01-01T00:00:00+23:59"}`, `{"id":7,"updated_at":"9999-12-31T23:59:59-01:00"}`,
		`{"id":7,"audio":{"duration":-0.0,"bitrate":1e3,"size":9007199254740993,"expires_at":"2024-05-01"},"has":{"signed":"1","content":0}}`,
		`{"id":2,"name":"Test User","email":"user@clinic.test","created_at":"2024-05-01 10:11:12"}`,
		`{"id":1,"name":"label","created_at":"2024-05-01T10:11:12.5+0200","last_used_at":null}`,
		`{"url":"https://storage.clinic.test/7.wav?expires=1714558272"}`, `{"message":"done"}`, `{"id":7,"more":[ 1 ],"<x>" :"&","more":2,"patient":{"id":7},"patient_id":8}`,
		`{"id":7,"patient":{"name":"x"},"patient_id":"8 ","":{}}`, `{"id":7,"patient_id":{"id":[{"id":[{"data":7.0}]}]}}`, `{"id":7,"patient":` + strings.Repeat(`[`, 1200),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		client := fuzzClient(t, answerWith(http.StatusOK, "application/json", document))
		ctx := t.Context()
		note, err := pointer(client.Notes.Get(ctx, 7))
		checkDecoding(t, note, err)
		created, err := pointer(client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{Name: "Visit"}))
		checkDecoding(t, created, err)
		if err == nil {
			checkStored(t, *created.(*clinicaldoc.ProgressNote))
			require.Positive(t, created.(*clinicaldoc.ProgressNote).ID)
		}
		user, err := pointer(client.Users.Me(ctx))
		checkDecoding(t, user, err)
		if err == nil {
			checkStored(t, *user.(*clinicaldoc.User))
		}
		done, err := pointer(client.Notes.Delete(ctx, 7))
		checkDecoding(t, done, err)
		address, err := pointer(client.Notes.AudioURL(ctx, 7))
		checkDecoding(t, address, err)

		unmarshalled[clinicaldoc.ProgressNote](t, document)
		unmarshalled[clinicaldoc.Template](t, document)
		unmarshalled[clinicaldoc.AudioInfo](t, document)
		unmarshalled[clinicaldoc.Completion](t, document)
		unmarshalled[clinicaldoc.Token](t, document)
		unmarshalled[clinicaldoc.User](t, document)
		unmarshalled[clinicaldoc.Object](t, document)
	})
}

func FuzzPages(f *testing.F) {
	for _, seed := range []string{
		"", "[]", "null", `{"data":null}`, `{"data":[` + fullNote + `]}`, `[{"id":1},{"id":2,"patient":{"id":4711}}]`,
		`{"data":[{"id":1}],"links":{"next":"https://other.test/?cursor=c"},"meta":{"current_page":1,"last_page":"2","per_page":15,"total":16}}`,
		`{"data":[{"id":1}],"meta":{"next_cursor":"abc"},"next_page_url":null}`, `{"data":[{"id":1}],"next_page_url":"?cursor=%zz"}`,
		`{"data":[{"id":1}],"current_page":9223372036854775807,"last_page":-1}`, `{"data":[],"data":[{"id":1}],"meta":[],"links":7}`,
		`{"tokens":[{"id":1,"name":"label","created_at":"2024-05-01T10:11:12Z","last_used_at":""}]}`, `{"data":[{"id":0}]}`, `[{"id":1,"has":{"signed":2}}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		client := fuzzClient(t, answerWith(http.StatusOK, "application/json", document))
		tokens, err := client.Tokens.List(t.Context())
		if err != nil {
			checkDecoding(t, nil, err)
		}
		for _, token := range tokens {
			require.Positive(t, token.ID)
			checkStored(t, token)
		}
		for _, params := range []clinicaldoc.ListNotesParams{{}, {PerPage: 1}, {Page: 2}, {Cursor: "c"}, {PatientID: 4711}} {
			page, err := client.Notes.List(t.Context(), params)
			if err != nil {
				require.Nil(t, page)
				checkListError(t, err)
				continue
			}
			for _, note := range page.Items {
				require.Positive(t, note.ID)
				checkStored(t, note)
				if params.PatientID != 0 {
					id, named := note.PatientID()
					require.True(t, named)
					require.Equal(t, params.PatientID, id)
				}
			}
			require.False(t, page.Meta.NextCursor != "" && !page.HasNext(), "a cursor leads on")
		}
	})
}

// checkListError is checkDecoding for a list, whose rows and position are judged too.
func checkListError(t *testing.T, err error) {
	t.Helper()
	if _, judgement, _ := strings.Cut(err.Error(), "): "); listErrors.MatchString(judgement) {
		return
	}
	checkDecoding(t, nil, err)
}

var listErrors = regexp.MustCompile(`^(it is another page than the one asked for; does WithQueryNames name the page parameter\?` +
	`|the list may be incomplete: (page after page brings no new row; does WithQueryNames name the page, size and sort parameters\?` +
	`|the service tells of more rows than it gives|(nothing tells whether more rows exist|more rows exist than its pages show); does WithQueryNames name the page, size and sort parameters\?)` +
	`|the service returned a note of another patient, or of one that cannot be told; does WithQueryNames name the patient parameter\?` +
	`|the service returned a note that names no patient, so that nothing can be verified; TrustPatientFilter accepts such rows)$`)

// FuzzPageWalk lets a service say anything about its pages: the walk ends, and shows every row once.
func FuzzPageWalk(f *testing.F) {
	f.Add([]byte{1, 2, 0, 3}, `"current_page":$,"last_page":2`, "", byte(0))
	f.Add([]byte{1, 0, 1, 0, 1}, `"current_page":$,"last_page":1000000`, "", byte(3))
	f.Add([]byte{1, 2, 0, 2, 3}, `"next_cursor":"c$"`, "", byte(1))
	f.Add([]byte{1, 2, 0, 2, 3}, `"next_cursor":"same"`, "", byte(2))
	f.Add([]byte{1, 0, 2, 0, 3}, `"per_page":1`, "https://other.test/?cursor=c$", byte(1))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 2}, `"current_page":9223372036854775807,"last_page":9223372036854775807`, "?page=$", byte(64))
	f.Add([]byte{}, `"total":-1`, "%zz", byte(0))
	f.Add([]byte{1, 0, 2, 0, 3, 0, 1, 0, 4, 0, 5, 0, 1}, `"current_page":$,"last_page":9,"total":~`, "", byte(2))
	f.Add([]byte{1, 2, 0, 3, 0, 0, 4}, `"current_page":$,"last_page":~,"per_page":2`, "", byte(0))
	f.Add([]byte{1, 2, 0, 3, 4}, `"next_cursor":"c~","total":~`, "", byte(1))
	f.Add([]byte{5}, `"current_page":"$","last_page":"9","next_cursor":null`, "", byte(9))
	f.Fuzz(func(t *testing.T, rows []byte, meta, link string, prefetch byte) {
		// The n-th response holds the n-th piece of rows, zeros being the seams, and once all were shown, the last piece
		// again; $ is the page's number, and ~ falls with each response.
		pieces := bytes.Split(rows, []byte{0})
		distinct := len(slices.Compact(slices.Sorted(slices.Values(rows))))
		quoted, err := json.Marshal(link)
		require.NoError(t, err)
		requests := make(chan struct{}, 10_000)
		var page int
		serving := make(chan struct{}, 1) // one at a time
		client := fuzzClient(t, func(r *http.Request) (*http.Response, error) {
			serving <- struct{}{}
			defer func() { <-serving }()
			select {
			case requests <- struct{}{}:
			default:
				return nil, errors.New("too many requests")
			}
			page++
			number := strconv.Itoa(page)
			if asked := r.URL.Query().Get("page"); asked != "" {
				number = asked
			}
			var ids []string
			for _, id := range pieces[min(page, len(pieces))-1] {
				ids = append(ids, fmt.Sprintf(`{"id":%d}`, id))
			}
			body := `{"data":[` + strings.Join(ids, ",") + `],"links":{"next":` + strings.ReplaceAll(string(quoted), "$", number) + `},"meta":{` + strings.NewReplacer("$", number, "~", strconv.Itoa(900-page)).Replace(meta) + `}}`
			return answerWith(http.StatusOK, "application/json", []byte(body))(r)
		})
		params := clinicaldoc.ListNotesParams{Prefetch: int(prefetch) % 65}
		seen := map[int64]bool{}
		ended := false
		for note, err := range client.Notes.All(t.Context(), params) {
			require.False(t, ended, "nothing follows an error")
			if err != nil {
				ended = true
				require.Nil(t, note)
				checkListError(t, err)
				continue
			}
			require.False(t, seen[note.ID], "a row twice")
			seen[note.ID] = true
		}
		// Three pages in a row may bring nothing new; each may have taken a way back over all pages before it, on which
		// pages were requested ahead; and five walks may be made.
		pages := 3*(distinct+1) + 1
		require.LessOrEqual(t, len(requests), 5*pages*pages*(1+params.Prefetch))
	})
}

// errorTexts is all that an answer that is no success may say: the status, names of fields, constant advice, the id.
var errorTexts = regexp.MustCompile(`^clinicaldoc: Notes\.Get \(GET /v1/progress-notes/\{id\}\): (\d{3})( [A-Za-z' -]+)?` +
	`( \[fields: ([A-Za-z0-9_.\-\[\]*]{1,64}(, [A-Za-z0-9_.\-\[\]*]{1,64}){0,9})\])?` +
	`(: [A-Za-z' ,;().?]+)?( \(retry after [0-9.hms]+\))?( \(request id [A-Za-z0-9_.:=;/+-]{1,128}\))?$`)

func FuzzErrors(f *testing.F) {
	f.Add(422, []byte(`{"message":"Invalid.","errors":{"name":["The name field is required."],"files.0":"too large"}}`), "application/json", "req-1", "")
	f.Add(404, []byte(`{"message":"No such note: Jane"}`), "application/json", "two words", "5")
	f.Add(502, []byte(`<html>Bad Gateway</html>`), "text/html; charset=utf-8", "", "99999999999999999999")
	f.Add(301, []byte{}, "", "a\nb", "Fri, 02 Jan 2026 03:04:05 GMT")
	f.Add(429, []byte(`{"errors":{"Jane Doe":[],"x":{"y":1},"z":null}}`), "application/json", strings.Repeat("x", 129), "-1")
	f.Add(401, []byte(`{"message":"m","errors":{"`+"\xff"+`":["`+"\xff"+`"]}} `), "a/b", "id", "0.5")
	f.Fuzz(func(t *testing.T, status int, body []byte, contentType, requestID, after string) {
		if status < 300 || status > 999 {
			status = 300 + (status%700+700)%700
		}
		client := fuzzClient(t, func(r *http.Request) (*http.Response, error) {
			resp, err := answerWith(status, contentType, body)(r)
			resp.Header["X-Request-Id"] = []string{requestID}
			resp.Header["Retry-After"] = []string{after}
			return resp, err
		})
		_, err := client.Notes.Get(t.Context(), 7)
		var answered *clinicaldoc.Error
		require.ErrorAs(t, err, &answered)
		require.Equal(t, status, answered.StatusCode)
		require.GreaterOrEqual(t, answered.RetryAfter, time.Duration(0))
		require.LessOrEqual(t, len(answered.Fields), 100)
		for _, messages := range answered.Fields {
			require.NotNil(t, messages)
			require.LessOrEqual(t, len(messages), 20)
		}
		checkStored(t, *answered)

		// Beyond the names of fields, an error without its body says the same.
		bare := clinicaldoc.Error{
			StatusCode: status, RetryAfter: answered.RetryAfter, RequestID: answered.RequestID,
			Operation: answered.Operation, Method: answered.Method, Route: answered.Route,
		}
		said := errorTexts.FindStringSubmatch(answered.Error())
		require.NotNil(t, said, answered.Error())
		if names := said[4]; names != "" {
			require.Subset(t, slices.Collect(maps.Keys(answered.Fields)), strings.Split(names, ", "))
		}
		require.Equal(t, bare.Error(), strings.Replace(answered.Error(), said[3], "", 1))
		require.Contains(t, []string{requestID, ""}, answered.RequestID)
		for _, verb := range verbs {
			require.Equal(t, answered.Error(), fmt.Sprintf(verb, answered))
		}
	})
}

func FuzzTimes(f *testing.F) {
	for _, seed := range []string{
		"", "2024-05-01T10:11:12Z", "2024-05-01T12:11:12.345678+02:00", "2024-05-01 10:11:12", "2024-05-01 10:11:12.5-0130", "2024-05-01",
		"0000-01-01T00:00:00+23:59", "9999-12-31T23:59:59-00:01", "2024-02-30T00:00:00Z", "2024-05-01T24:00:00Z", "0001-01-01T00:00:00Z", "1714558272",
		"0000-01-01 00:00:00+0100", "2024-05-01T10:11:12,5Z", "+2024-05-01",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		quoted, err := json.Marshal(text)
		require.NoError(t, err)
		document := []byte(`{"id":7,"created_at":` + string(quoted) + `}`)
		note, err := fuzzClient(t, answerWith(http.StatusOK, "application/json", document)).Notes.Get(t.Context(), 7)
		want, standard := time.Parse(time.RFC3339, text)
		encodable := want.UTC().Year() >= 0 && want.UTC().Year() <= 9999
		if err != nil {
			checkDecoding(t, nil, err)
			require.False(t, standard == nil && encodable && !strings.Contains(text, ","), "refuses what RFC 3339 has")
			return
		}
		require.Equal(t, time.UTC, note.CreatedAt.Location())
		if standard == nil {
			require.True(t, want.Equal(note.CreatedAt))
		}
		checkStored(t, *note)
		_, err = note.CreatedAt.MarshalText()
		require.NoError(t, err)
	})
}

// FuzzEnvelope reads an upload back with the standard library: it holds what was given, and nothing else.
func FuzzEnvelope(f *testing.F) {
	f.Add("visit.wav", "", "Follow-up", int64(7), int64(1), []byte("RIFF"))
	f.Add(`C:\audio\a"b;c=d.mp3`, "audio/mpeg; codecs=\"a;b\"", "", int64(0), int64(0), []byte("x"))
	f.Add("n\r\nX-Injected: yes\r\n\r\n", "audio/wav\r\nX-Injected: yes", "a\r\n--b", int64(-1), int64(2), []byte("--"))
	f.Add("日本語\u2028.ogg", "audio/ogg; title*=utf-8''%e2%82%ac", "Naïve", int64(1), int64(2), []byte("\r\n--\r\n"))
	f.Add("..", "audio", "\xff", int64(1), int64(2), []byte{})
	f.Add("a%22b%0d%0a.wav", "audio/x-a; b=\"\"; c*0=d; c*1=e", "n", int64(1), int64(2), []byte{0})
	f.Add(strings.Repeat("x", 256), "text/plain; a=\u00e9", "n", int64(1), int64(2), []byte{0})
	f.Fuzz(func(t *testing.T, fileName, contentType, name string, patient, prompt int64, audio []byte) {
		type part struct{ name, file, value string }
		var parts []part
		var types []string
		client := fuzzClient(t, func(r *http.Request) (*http.Response, error) {
			body, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			require.EqualValues(t, len(body), r.ContentLength)
			kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
			require.NoError(t, err)
			require.Equal(t, "multipart/form-data", kind)
			reader := multipart.NewReader(bytes.NewReader(body), params["boundary"])
			for {
				p, err := reader.NextRawPart()
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				value, err := io.ReadAll(p)
				require.NoError(t, err)
				kind, disposition, err := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
				require.NoError(t, err)
				require.Equal(t, "form-data", kind)
				allowed := 1
				if disposition["name"] == "file" {
					allowed = 2
					types = append(types, p.Header["Content-Type"]...)
				}
				require.Len(t, p.Header, allowed, "no header beside its own")
				parts = append(parts, part{disposition["name"], disposition["filename"], string(value)})
				delete(disposition, "name")
				delete(disposition, "filename")
				require.Empty(t, disposition)
			}
			return answerWith(http.StatusCreated, "application/json", []byte(smallNote))(r)
		})
		source := clinicaldoc.AudioBytes(fileName, audio)
		source.ContentType = contentType
		_, err := client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: name, PatientID: patient, PromptID: prompt, Audio: source})

		base := fileName[strings.LastIndexAny(fileName, `/\`)+1:]
		unsendable := base == "" || base == "." || base == ".." || len(base) > 255 || !utf8.ValidString(base) || hasControl(base)
		if err != nil {
			require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
			require.Empty(t, parts, "nothing is sent")
			require.Regexp(t, `^clinicaldoc: (Audio|Audio: ContentType|Notes\.Create: [A-Za-z]+): [A-Za-z0-9 ,;/-]+: invalid argument$`, err.Error())
			kind, params, badType := mime.ParseMediaType(contentType)
			require.True(t, unsendable || patient < 0 || prompt < 0 || !utf8.ValidString(name) || len(audio) == 0 || badType != nil ||
				!strings.Contains(kind, "/") || hasControl(contentType) || mime.FormatMediaType(kind, params) == "", err)
			return
		}
		require.False(t, unsendable)
		want := []part{{"file", base, string(audio)}} // first, so that a cut upload lacks what the service acts on
		if name != "" {
			want = append(want, part{name: "name", value: name})
		}
		if patient != 0 {
			want = append(want, part{name: "patient_id", value: strconv.FormatInt(patient, 10)})
		}
		if prompt != 0 {
			want = append(want, part{name: "prompt_id", value: strconv.FormatInt(prompt, 10)})
		}
		require.Equal(t, want, parts)
		require.Len(t, types, 1)
		kind, params, err := mime.ParseMediaType(types[0])
		require.NoError(t, err, "%q", types[0])
		if contentType != "" {
			wantKind, wantParams, err := mime.ParseMediaType(contentType)
			require.NoError(t, err)
			require.Equal(t, wantKind, kind)
			require.Equal(t, wantParams, params)
		}
	})
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

func FuzzAudioURLExpiry(f *testing.F) {
	for _, seed := range []string{
		"https://storage.clinic.test/7.wav?X-Amz-Date=20240501T101112Z&X-Amz-Expires=300&X-Amz-Signature=s", "https://s.test/?X-Goog-Date=99991231T235959Z&X-Goog-Expires=2147483647",
		"http://s.test/?expires=1714558272", "https://s.test/?Expires=9223372036854775807", "https://s.test/?expires=-5", "https://s.test/?X-Amz-Expires=1&expires=5",
		"https://s.test/?X-Amz-Date=00000101T000000Z&X-Amz-Expires=1", "//s.test", "ftp://s.test", "https://", "https://s.test/%zz", "https://s.test/?expires=%zz;a", "https://s.test?expires=253402300799",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		quoted, err := json.Marshal(map[string]string{"url": address})
		require.NoError(t, err)
		got, err := pointer(fuzzClient(t, answerWith(http.StatusOK, "application/json", quoted)).Notes.AudioURL(t.Context(), 7))
		checkDecoding(t, got, err)
		if err != nil {
			return
		}
		audio := got.(*clinicaldoc.AudioURL)
		var sent map[string]string
		require.NoError(t, json.Unmarshal(quoted, &sent))
		require.Equal(t, sent["url"], audio.URL)
		checkStored(t, *audio)
		u, err := url.Parse(audio.URL)
		require.NoError(t, err)
		if audio.ExpiresAt.IsZero() {
			return
		}
		require.Equal(t, time.UTC, audio.ExpiresAt.Location())
		query := u.Query()
		require.True(t, query.Has("X-Amz-Expires") || query.Has("X-Goog-Expires") || query.Has("expires") || query.Has("Expires"), "nothing tells that")
		require.Less(t, audio.ExpiresAt.Year(), 10000)
	})
}
