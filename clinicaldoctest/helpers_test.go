package clinicaldoctest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // the heap is small, so that the collector would run without end
	goleak.VerifyTestMain(m)
}

// object is a decoded JSON object.
type object = map[string]any

// caller talks to a server with the standard library alone, over its own
// connections, so that nothing of the SDK stands between test and wire.
type caller struct {
	t     *testing.T
	srv   *clinicaldoctest.Server
	token string
}

func start(t *testing.T, opts ...clinicaldoctest.Option) caller {
	t.Helper()
	srv := clinicaldoctest.NewServer(opts...)
	t.Cleanup(srv.Close)
	return caller{t, srv, srv.Token}
}

func (c caller) as(token string) caller { c.token = token; return c }

// answer is a response read to its end.
type answer struct {
	*http.Response
	text string
}

func (a answer) object(t *testing.T) object {
	t.Helper()
	var decoded object
	require.NoError(t, json.Unmarshal([]byte(a.text), &decoded), a.text)
	return decoded
}

func (c caller) request(method, path string, body io.Reader) *http.Request {
	c.t.Helper()
	address := path
	if !strings.HasPrefix(path, "http") {
		address = c.srv.URL + path
	}
	req, err := http.NewRequestWithContext(c.t.Context(), method, address, body)
	require.NoError(c.t, err)
	req.Header.Set("Accept", "application/json")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return req
}

// try sends a request and reads the answer; redirects are not followed.
func (c caller) try(req *http.Request) (answer, error) {
	resp, err := c.srv.Transport().RoundTrip(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp, string(text)}, err
}

func (c caller) send(req *http.Request) answer {
	c.t.Helper()
	a, err := c.try(req)
	require.NoError(c.t, err)
	return a
}

func (c caller) get(path string) answer {
	c.t.Helper()
	return c.send(c.request(http.MethodGet, path, nil))
}

// expect sends a request without a body and returns the object it answers.
func (c caller) expect(status int, method, path string) object {
	c.t.Helper()
	a := c.send(c.request(method, path, nil))
	require.Equal(c.t, status, a.StatusCode, a.text)
	return a.object(c.t)
}

func (c caller) put(path, body string) answer {
	c.t.Helper()
	req := c.request(http.MethodPut, path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	return c.send(req)
}

// audioURL is the signed address of the first note's audio.
func (c caller) audioURL() string {
	c.t.Helper()
	return field[string](c.t, c.expect(http.StatusOK, http.MethodGet, "/v1/progress-notes/1/audio-url"), "url")
}

// audio is what a note says of its audio.
func (c caller) audio(id int) object {
	c.t.Helper()
	return field[object](c.t, c.expect(http.StatusOK, http.MethodGet, fmt.Sprintf("/v1/progress-notes/%d", id)), "audio")
}

// field returns a member of an object, or of the objects inside it.
func field[T any](t *testing.T, value any, path ...string) T {
	t.Helper()
	for _, name := range path {
		object, ok := value.(object)
		require.True(t, ok, "nothing can hold %q", name)
		require.Contains(t, object, name)
		value = object[name]
	}
	typed, ok := value.(T)
	require.True(t, ok || value == nil, "%v is %T", path, value)
	return typed
}

// form is the body of a creation.
type form struct {
	fields   map[string]string
	fileName string
	file     []byte
}

func validForm() form {
	return form{
		fields:   map[string]string{"name": "Visit", "patient_id": "7", "prompt_id": "3"},
		fileName: "visit.mp3", file: bytes.Repeat([]byte("a"), 32_000),
	}
}

func formOf(recording string) form {
	f := validForm()
	f.file = []byte(recording)
	return f
}

func (c caller) createRequest(f form) *http.Request {
	c.t.Helper()
	return c.multipartRequest(func(w *multipart.Writer) {
		if f.fileName != "" {
			c.writeFile(w, f.fileName, f.file)
		}
		for name, value := range f.fields {
			require.NoError(c.t, w.WriteField(name, value))
		}
	})
}

// multipartRequest is a creation with the parts that write adds.
func (c caller) multipartRequest(write func(*multipart.Writer)) *http.Request {
	c.t.Helper()
	var body bytes.Buffer
	writer := multipart.NewWriter(&body)
	write(writer)
	require.NoError(c.t, writer.Close())
	req := c.request(http.MethodPost, "/v1/progress-notes", &body)
	req.Header.Set("Content-Type", writer.FormDataContentType())
	return req
}

func (c caller) writeFile(w *multipart.Writer, name string, content []byte) {
	c.t.Helper()
	part, err := w.CreateFormFile("file", name)
	require.NoError(c.t, err)
	_, err = part.Write(content)
	require.NoError(c.t, err)
}

func (c caller) create(f form) answer {
	c.t.Helper()
	return c.send(c.createRequest(f))
}

// files are the names of the recordings on disk.
func (c caller) files() []string {
	c.t.Helper()
	names, err := c.srv.Files()
	require.NoError(c.t, err)
	return names
}

// setTemporary says where temporary files go, in the words of Unix and of Windows.
func setTemporary(t *testing.T, folder string) {
	t.Helper()
	t.Setenv("TMPDIR", folder)
	t.Setenv("TMP", folder)
}
