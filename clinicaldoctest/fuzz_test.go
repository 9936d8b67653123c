package clinicaldoctest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// FuzzHandlers holds both origins against any request: they must not panic,
// must not blame themselves, and must refuse with an Error body.
func FuzzHandlers(f *testing.F) {
	const form = "multipart/form-data; boundary=b"
	part := func(header, content string) string { return "--b\r\n" + header + "\r\n\r\n" + content + "\r\n" }
	field := func(name, value string) string { return part(`Content-Disposition: form-data; name="`+name+`"`, value) }
	file := part("Content-Disposition: form-data; name=\"file\"; filename=\"../../visit.wav\"\r\nContent-Type: audio/wav", "RIFF\x00\x00\x00\x00WAVEdata\xff\xff\xff\xff")
	whole := field("name", "Visit") + field("patient_id", "7") + field("prompt_id", "3") + file + "--b--\r\n"

	for _, seed := range []struct{ method, target, contentType, body string }{
		{"POST", "/v1/progress-notes", form, whole},
		{"POST", "/v1/progress-notes", form, whole[:len(whole)-20]},
		{"POST", "/v1/progress-notes", form, field("patient_id", "9223372036854775808") + "--b--"},
		{"POST", "/v1/progress-notes", "multipart/form-data", whole},
		{"POST", "/v1/progress-notes", form, strings.Repeat(field("x", ""), 200)},
		{"GET", "/v1/progress-notes?per_page=1&page=2&sort=oldest&patient_id=1", "", ""},
		{"GET", "/v1/progress-notes?cursor=e30&page=99999999999&filter[patient_id]=-1", "", ""},
		{"GET", "/v1/progress-notes/%2e%2e", "", ""},
		{"GET", "/v1/progress-notes/1", "", ""},
		{"PUT", "/v1/progress-notes/1", "application/json", `{"name":"New","transcription":null,"analysis":7}`},
		{"PUT", "/v1/progress-notes/1", "application/json", `[[[[`},
		{"PUT", "/v1/progress-notes/1/sign", "", ""},
		{"GET", "/v1/progress-notes/1/audio-url", "", ""},
		{"DELETE", "/v1/progress-notes/1", "", ""},
		{"GET", "/v1/auth/tokens", "", ""},
		{"DELETE", "/v1/auth/tokens/1", "", ""},
		{"GET", "/user", "", ""},
		{"GET", "/audio/x?X-Amz-Date=20240501T000000Z&X-Amz-Expires=-1&X-Amz-Signature=0", "", ""},
		{"GET", "/audio/../x?expires=99999999999999999999&signature=", "", ""},
		{"BREW", "//", "", ""},
	} {
		for variant := range Variants() {
			f.Add(seed.method, seed.target, seed.contentType, []byte(seed.body), byte(variant))
		}
	}

	f.Fuzz(func(t *testing.T, method, target, contentType string, body []byte, variant byte) {
		address, err := url.ParseRequestURI(target)
		if err != nil {
			t.Skip("no HTTP client can send such a target")
		}
		variants := Variants()
		s := NewServer(InProcess(), WithVariant(variants[int(variant)%len(variants)]), WithDelays(Delays{}))
		defer s.Close()
		s.AddNote(Note{Stage: StageComplete})
		address.Path = s.state().variant().BasePath + address.Path
		request := func() *http.Request {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", bytes.NewReader(body))
			req.Method, req.URL = method, address
			req.Header = http.Header{"Accept": {"application/json"}, "Authorization": {"Bearer " + s.Token}, "Content-Type": {contentType}}
			return req
		}

		answered := httptest.NewRecorder()
		s.serveAPI(answered, request())
		audio := strings.HasPrefix(address.Path, s.state().variant().BasePath+audioPath)
		login := strings.HasSuffix(strings.TrimSuffix(address.Path, "/"), "/login")
		tooLarge := answered.Code == http.StatusRequestEntityTooLarge
		switch {
		case answered.Code >= http.StatusInternalServerError:
			t.Fatalf("%s %s: status %d", method, target, answered.Code)
		case answered.Code == http.StatusNoContent || method == http.MethodOptions || audio || login || tooLarge:
		default:
			var decoded map[string]any
			if err := json.Unmarshal(answered.Body.Bytes(), &decoded); err != nil {
				t.Fatalf("%s %s: status %d: %v", method, target, answered.Code, err)
			}
			if _, isText := decoded["message"].(string); answered.Code >= http.StatusBadRequest && !isText {
				t.Fatalf("%s %s: status %d without a message", method, target, answered.Code)
			}
		}

		stored := httptest.NewRecorder()
		s.serveStorage(stored, request())
		if stored.Code >= http.StatusInternalServerError || stored.Code < http.StatusBadRequest {
			t.Fatalf("storage gave %d to an unsigned %s %s", stored.Code, method, target)
		}
	})
}
