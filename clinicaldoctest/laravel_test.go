package clinicaldoctest_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// The service is most likely an application on Laravel. Each row is a raw request, with the status that such an
// application responds with. Where the fake server responds differently on purpose, the row says how and why.
func TestServer_RawRequest_RespondsAsLaravel(t *testing.T) {
	t.Parallel()
	const (
		list   = "GET /v1/progress-notes"
		update = "PUT /v1/progress-notes/1"
		create = "POST /v1/progress-notes"
		isJSON = "Content-Type: application/json"
		isForm = "Content-Type: application/x-www-form-urlencoded"
		anyone = "Authorization:" // no token
	)
	parts := func(fields ...string) (header, body string) {
		var text strings.Builder
		for _, f := range fields {
			text.WriteString("--b\r\nContent-Disposition: form-data; " + f + "\r\n")
		}
		return "Content-Type: multipart/form-data; boundary=b", text.String() + "--b--\r\n"
	}
	valid := []string{`name="name"` + "\r\n\r\nVisit", `name="patient_id"` + "\r\n\r\n1", `name="prompt_id"` + "\r\n\r\n1"}
	file := `name="file"; filename="a.wav"` + "\r\nContent-Type: audio/wav\r\n\r\n"
	multipart, whole := parts(append(valid[:3:3], file+"RIFF")...)
	_, empty := parts(append(valid[:3:3], file)...)
	_, text := parts(append(valid[:3:3], `name="file"`+"\r\n\r\nRIFF")...)
	_, zeros := parts(valid[0], `name="patient_id"`+"\r\n\r\n01", valid[2], file+"RIFF")
	_, plus := parts(valid[0], `name="patient_id"`+"\r\n\r\n +1 ", valid[2], file+"RIFF")
	_, array := parts(valid[0], `name="patient_id[]"`+"\r\n\r\n1", valid[2], file+"RIFF")
	_, large := parts(valid[0], `name="patient_id"`+"\r\n\r\n9223372036854775808", valid[2], file+"RIFF")
	_, put := parts(append(valid[:3:3], `name="_method"`+"\r\n\r\nPUT", file+"RIFF")...)
	_, renamed := parts(`name="_method"`+"\r\n\r\nPUT", `name="name"`+"\r\n\r\nRenamed")

	tests := []struct {
		request string // method and target
		header  string // lines; they come after those of an ordinary client and replace them
		body    string
		laravel int
		box     int    // 0: the same
		because string // it is another
		rows    int    // of a list
	}{
		{request: list, laravel: 200, rows: 3},
		{request: list + "?patient_id=1", laravel: 200, rows: 2},
		{request: list + "?patient_id=1;2", laravel: 422},
		{request: list + "?patient_id=%zz", laravel: 422},
		{request: list + "?patient_id=1%", laravel: 422},
		{request: list + "?patient_id[]=1", laravel: 422},
		{request: list + "?patient_id%5B%5D=1", laravel: 422},
		{request: list + "?patient_id[a][b]=1", laravel: 422},
		{request: list + "?patient_id=01", laravel: 422},
		{request: list + "?patient_id=1.0", laravel: 422},
		{request: list + "?patient_id=1e0", laravel: 422},
		{request: list + "?patient_id=0x1", laravel: 422},
		{request: list + "?patient_id=1_0", laravel: 422},
		{request: list + "?patient_id=9223372036854775808", laravel: 422},
		{request: list + "?patient_id=%2B1", laravel: 200, rows: 2},
		{request: list + "?patient_id=+1+", laravel: 200, rows: 2},
		{request: list + "?patient_id=-1", laravel: 200},
		{request: list + "?patient_id=0", laravel: 200},
		{request: list + "?patient_id=", laravel: 200, rows: 3},
		{request: list + "?patient_id", laravel: 200, rows: 3},
		{request: list + "?&&patient_id=2&", laravel: 200, rows: 1},
		{request: list + "?patient_id=x&patient_id=1", laravel: 200, rows: 2},
		{request: list + "?patient_id=1&patient_id=x", laravel: 422},
		{request: list + "?patient_id=1&patient_id=2", laravel: 200, rows: 1},
		{request: list + "?patient_id=1&patient_id[]=2", laravel: 422},
		{request: list + "?patient.id=1", laravel: 200, rows: 2}, // PHP has no dots in names
		{request: list + "?+patient_id=1", laravel: 200, rows: 2},
		{request: list + "?PATIENT_ID=1", laravel: 200, rows: 3},
		{request: list + "?patient=1", laravel: 200, rows: 3},
		{request: list + "?per_page=0", laravel: 422},
		{request: list + "?per_page=101", laravel: 422},
		{request: list + "?per_page=05", laravel: 422},
		{request: list + "?per_page[]=5", laravel: 422},
		{request: list + "?per_page=1", laravel: 200, rows: 1},
		{request: list + "?sort=newest", laravel: 422},
		{request: list + "?sort=LATEST", laravel: 422},
		{request: list + "?sort[]=latest", laravel: 422},
		{request: list + "?page=0", laravel: 200, rows: 3},
		{request: list + "?page=-1", laravel: 200, rows: 3},
		{request: list + "?page=abc", laravel: 200, rows: 3},
		{request: list + "?page[]=2", laravel: 200, rows: 3},
		{request: list + "?page=9", laravel: 200},
		{request: "HEAD /v1/progress-notes", laravel: 200},
		{request: "GET /v1/progress-notes/", laravel: 200, rows: 3},

		{request: "GET /user", header: anyone, laravel: 401},
		{request: "GET /user", header: anyone + "\nAccept:", laravel: 302},
		{request: "GET /user", header: anyone + "\nAccept: text/html, application/json", laravel: 302},
		{request: "GET /user", header: anyone + "\nAccept: text/html;q=0.5, application/json", laravel: 401},
		{request: "GET /user", header: anyone + "\nAccept: application/problem+json", laravel: 401},
		{request: "GET /user", header: anyone + "\nAccept: APPLICATION/JSON", laravel: 401},
		{request: "GET /user", header: anyone + "\nAccept: */*", laravel: 302},
		{request: "GET /user", header: anyone + "\nAccept: */*\nX-Requested-With: XMLHttpRequest", laravel: 401},
		{request: "GET /user", header: anyone + "\nAccept:\nX-Requested-With: XMLHttpRequest", laravel: 401},
		{request: "GET /user", header: anyone + "\nAccept: text/html\nX-Requested-With: XMLHttpRequest", laravel: 302},
		{request: "GET /user", header: anyone + "\nAccept: */*\nX-Requested-With: XMLHttpRequest\nX-PJAX: true", laravel: 302},
		{request: "GET /user", header: "Authorization: bearer TOKEN", laravel: 200, box: 401, because: "frameworks differ in the scheme's case, and a program must send the usual one"},
		{request: "GET /user", header: "Authorization: Bearer  TOKEN ", laravel: 200},
		{request: "GET /nowhere", laravel: 404},
		{request: "GET /v1/progress-notes/01", laravel: 200, box: 404, because: "a database compares 01 as a number; an id of another spelling is no id here"},
		{request: "GET /v1/progress-notes/99", laravel: 404},
		{request: "PATCH /v1/progress-notes", laravel: 405},
		{request: "OPTIONS /v1/progress-notes", laravel: 200},

		{request: create, header: multipart, body: whole, laravel: 201},
		{request: create + "/", header: multipart, body: whole, laravel: 201},
		{request: create, header: multipart, body: empty, laravel: 201},
		{request: create, header: multipart, body: text, laravel: 422},
		{request: create, header: multipart, body: zeros, laravel: 422},
		{request: create, header: multipart, body: plus, laravel: 201},
		{request: create, header: multipart, body: array, laravel: 422},
		{request: create, header: multipart, body: large, laravel: 422},
		{request: create, header: multipart, body: put, laravel: 405},
		{request: create + "?_method=PUT", header: multipart, body: whole, laravel: 405},
		{request: create, header: multipart + "\nX-HTTP-Method-Override: DELETE", body: whole, laravel: 405},
		{request: create, header: isJSON, body: `{"name":"Visit"}`, laravel: 422},
		{request: create, laravel: 422},

		{request: update, header: isJSON, body: `{"name":"Renamed"}`, laravel: 200},
		{request: update, header: isForm, body: `name=Renamed`, laravel: 200},
		{request: update, header: multipart, body: renamed, laravel: 200},
		{request: update, header: isJSON, body: `{"name":1}`, laravel: 422},
		{request: update, header: isJSON, body: `{"name":""}`, laravel: 422},
		{request: update, header: isJSON, body: `{"name":["a"]}`, laravel: 422},
		{request: update, header: "Content-Type: APPLICATION/JSON", body: `{"name":""}`, laravel: 200}, // not taken for JSON
		{request: update, header: "Content-Type: application/vnd.api+json", body: `{"name":""}`, laravel: 422},
		{request: update, header: "Content-Type: text/json; charset=utf-8", body: `{"name":""}`, laravel: 422},
		{request: update, header: isJSON, body: `{"name":`, laravel: 200},
		{request: update, laravel: 200},
		{request: "POST /v1/progress-notes/1", header: isJSON, body: `{}`, laravel: 405},
		{request: "POST /v1/progress-notes/1?_method=PUT", header: isJSON, body: `{"name":"Renamed"}`, laravel: 200},
		{request: "POST /v1/progress-notes/1?_method=put", header: isJSON, body: `{"name":"Renamed"}`, laravel: 200},
		{request: "POST /v1/progress-notes/1", header: isForm, body: `_method=PUT&name=`, laravel: 422},
		{request: "POST /v1/progress-notes/1", header: multipart, body: renamed, laravel: 200},
		{request: "POST /v1/progress-notes/1", header: "X-HTTP-Method-Override: DELETE", laravel: 200},
		{request: "GET /v1/progress-notes/1?_method=DELETE", laravel: 200},
	}
	for _, test := range tests {
		t.Run(strings.Join([]string{test.request, test.header, firstLine(test.body)}, " "), func(t *testing.T) {
			t.Parallel()
			c := start(t)
			for _, patient := range []int64{1, 1, 2} {
				c.srv.AddNote(clinicaldoctest.Note{PatientID: patient})
			}
			got := c.raw(test.request, test.header, test.body)
			assert.Equal(t, "no-cache, private", got.Header.Get("Cache-Control"))
			if test.box != 0 {
				require.NotEmpty(t, test.because)
				assert.Equal(t, test.box, got.StatusCode, got.text)
				return
			}
			require.Equal(t, test.laravel, got.StatusCode, got.text)
			if target, isList := strings.CutPrefix(test.request, list); isList && (target == "" || target[0] == '?') && got.StatusCode == http.StatusOK {
				assert.Len(t, ids(t, got.object(t)), test.rows)
			}
		})
	}
}

func firstLine(text string) string { line, _, _ := strings.Cut(text, "\r\n"); return line }

// raw sends a request by hand, so that nothing repairs it on the way.
func (c caller) raw(request, header, body string) answer {
	c.t.Helper()
	lines := map[string]string{"accept": "application/json", "authorization": "Bearer " + c.token, "content-length": fmt.Sprint(len(body))}
	for line := range strings.Lines(header) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		lines[strings.ToLower(name)] = strings.ReplaceAll(value, "TOKEN", c.token)
	}
	text := request + " HTTP/1.1\r\nHost: box\r\nConnection: close\r\n"
	for name, value := range lines {
		if value != "" {
			text += name + ":" + value + "\r\n"
		}
	}
	conn, err := (&net.Dialer{}).DialContext(c.t.Context(), "tcp", strings.TrimPrefix(c.srv.URL, "http://"))
	require.NoError(c.t, err)
	defer conn.Close()
	_, err = conn.Write([]byte(text + "\r\n" + body))
	require.NoError(c.t, err)
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	require.NoError(c.t, err)
	defer resp.Body.Close()
	var read strings.Builder
	_, err = bufio.NewReader(resp.Body).WriteTo(&read)
	require.NoError(c.t, err)
	return answer{resp, read.String()}
}
