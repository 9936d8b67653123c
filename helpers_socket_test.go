package clinicaldoc_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

const socketToken = "synthetic-token-0001"

// socketPolicy repeats as often as the default does, without making a test wait.
var socketPolicy = clinicaldoc.RetryPolicy{MaxRetries: 3, MinWait: time.Millisecond, MaxWait: 2 * time.Millisecond}

// socketNote is a note as the service gives it.
func socketNote(id int64) string {
	return fmt.Sprintf(`{"id":%d,"name":"Synthetic note","team_id":1,"user_id":1,"patient":{"id":7},"has":{"content":false,"transcription":false,"signed":false},`+
		`"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z"}`, id)
}

// socketTransport is a transport of the test's own, whose connections end with the test.
func socketTransport(t *testing.T) *http.Transport {
	t.Helper()
	tr := &http.Transport{ExpectContinueTimeout: 10 * time.Second, MaxIdleConnsPerHost: 64}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// socketClient is a client with a transport of its own and waits too short to notice.
func socketClient(t *testing.T, baseURL string, opts ...clinicaldoc.Option) *clinicaldoc.Client {
	t.Helper()
	all := append([]clinicaldoc.Option{
		clinicaldoc.WithHTTPClient(&http.Client{Transport: socketTransport(t)}),
		clinicaldoc.WithRetry(socketPolicy),
		clinicaldoc.WithStallTimeout(20 * time.Second),
	}, opts...)
	c, err := clinicaldoc.NewClient(baseURL, socketToken, all...)
	require.NoError(t, err)
	return c
}

// socketContext bounds a test that would otherwise hang.
func socketContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// socketHandler serves with httptest until the test ends.
func socketHandler(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv
}

// socketReset closes the connection of a handler so that the peer sees a reset.
func socketReset(t *testing.T, w http.ResponseWriter) {
	t.Helper()
	conn, _, err := http.NewResponseController(w).Hijack()
	if assert.NoError(t, err) {
		resetConn(conn)
	}
}

func resetConn(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// socketSteps answers the n-th request with the n-th step; the last step answers all that follow.
type socketSteps struct {
	mu    sync.Mutex
	seen  []string // method and path
	steps []http.HandlerFunc
}

func newSocketSteps(handlers ...http.HandlerFunc) *socketSteps { return &socketSteps{steps: handlers} }

func (s *socketSteps) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	step := s.steps[min(len(s.seen), len(s.steps)-1)]
	s.seen = append(s.seen, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	step(w, r)
}

func (s *socketSteps) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

// socketStatus answers with a status and a body.
func socketStatus(code int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// socketLost takes the whole request and then breaks the connection without an answer.
func socketLost(t *testing.T) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		socketReset(t, w)
	}
}

// rawServer is a TCP listener whose n-th connection runs the n-th script. A connection too many fails the test.
type rawServer struct {
	URL      string
	accepted atomic.Int32
	finished sync.WaitGroup
	scripts  sync.WaitGroup
}

func newRawServer(t *testing.T, scripts ...func(*rawConn)) *rawServer {
	t.Helper()
	var config net.ListenConfig
	ln, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &rawServer{URL: "http://" + ln.Addr().String()}
	var mu sync.Mutex
	var open []net.Conn
	s.finished.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			n := int(s.accepted.Add(1))
			if !assert.LessOrEqual(t, n, len(scripts), "a connection too many") {
				_ = conn.Close()
				continue
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			s.scripts.Add(1)
			s.finished.Go(func() {
				defer s.scripts.Done()
				defer conn.Close()
				scripts[n-1](&rawConn{t: t, Conn: conn, in: bufio.NewReader(conn)})
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		mu.Lock()
		for _, conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		s.finished.Wait()
	})
	return s
}

// wait waits for the ends of the connections' scripts.
func (s *rawServer) wait() { s.scripts.Wait() }

// rawConn is one scripted connection.
type rawConn struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

// head reads a request up to the end of its header.
func (c *rawConn) head() *http.Request {
	r, err := http.ReadRequest(c.in)
	if err != nil {
		return &http.Request{Header: http.Header{}, Body: http.NoBody}
	}
	return r
}

// request reads a whole request and returns it with its body.
func (c *rawConn) request() (*http.Request, []byte) {
	r := c.head()
	if r.Header.Get("Expect") != "" {
		c.send("HTTP/1.1 100 Continue\r\n\r\n")
	}
	body, _ := io.ReadAll(r.Body)
	return r, body
}

func (c *rawConn) send(text string) { _, _ = io.WriteString(c.Conn, text) }

// answer sends a complete answer.
func (c *rawConn) answer(code int, body string, header ...string) {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nContent-Length: %d\r\n", code, http.StatusText(code), len(body))
	for i := 0; i+1 < len(header); i += 2 {
		fmt.Fprintf(&b, "%s: %s\r\n", header[i], header[i+1])
	}
	c.send(b.String() + "\r\n" + body)
}

// untilClosed waits for the peer to close.
func (c *rawConn) untilClosed() { _, _ = io.Copy(io.Discard, c.in) }

// sentForm is a multipart request as the server sees it.
type sentForm struct {
	length           int64 // of Content-Length; -1: chunked
	transferEncoding []string
	expect           string
	fields           map[string]string
	fileName         string
	fileType         string
	file             []byte
}

// readForm reads a multipart request with the standard library's reader, which is strict about the envelope.
func readForm(r *http.Request) (sentForm, error) {
	form := sentForm{length: r.ContentLength, transferEncoding: r.TransferEncoding, expect: r.Header.Get("Expect"), fields: map[string]string{}}
	body := &countedReader{r: r.Body}
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return form, err
	}
	parts := multipart.NewReader(body, params["boundary"])
	for {
		part, err := parts.NextRawPart()
		if err == io.EOF { //nolint:errorlint // the reader's documented end
			break
		}
		if err != nil {
			return form, err
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return form, err
		}
		if part.FormName() != "file" {
			form.fields[part.FormName()] = string(data)
			continue
		}
		_, disposition, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
		if err != nil {
			return form, err
		}
		form.fileName, form.fileType, form.file = disposition["filename"], part.Header.Get("Content-Type"), data
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		return form, err
	}
	if form.length >= 0 && form.length != body.n {
		return form, fmt.Errorf("Content-Length %d, body %d", form.length, body.n)
	}
	return form, nil
}

type countedReader struct {
	r io.Reader
	n int64
}

func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// syntheticAudio is a recording of the given size. Its bytes repeat after a length that is no buffer's, so that a part
// that is missing, doubled or misplaced shows.
type syntheticAudio int64

var audioPattern = func() []byte {
	pattern := make([]byte, 65537)
	for i := range pattern {
		pattern[i] = byte(i ^ i>>8)
	}
	return pattern
}()

func (size syntheticAudio) ReadAt(p []byte, off int64) (int, error) {
	n := int(min(int64(len(p)), max(0, int64(size)-off)))
	for done := 0; done < n; {
		done += copy(p[done:n], audioPattern[(off+int64(done))%int64(len(audioPattern)):])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (size syntheticAudio) bytes() []byte {
	b, _ := io.ReadAll(io.NewSectionReader(size, 0, int64(size)))
	return b
}

// socketParams is a create with a recording of the given size.
func socketParams(size int64) clinicaldoc.CreateNoteParams {
	return clinicaldoc.CreateNoteParams{
		Name: "Synthetic note", PatientID: 7, PromptID: 3,
		Audio: clinicaldoc.AudioReaderAt("synthetic.wav", syntheticAudio(size), size),
	}
}

// madeResponse is an answer made by a roundTripper.
func madeResponse(r *http.Request, code int, body string, header ...string) *http.Response {
	resp := &http.Response{
		StatusCode: code, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader([]byte(body))), ContentLength: int64(len(body)), Request: r,
	}
	for i := 0; i+1 < len(header); i += 2 {
		resp.Header.Set(header[i], header[i+1])
	}
	return resp
}

// requireUnknown demands that a create reports an unknown outcome, with all that FindCreated needs.
func requireUnknown(t *testing.T, err error, params clinicaldoc.CreateNoteParams, started time.Time) *clinicaldoc.OutcomeUnknownError {
	t.Helper()
	var unknown *clinicaldoc.OutcomeUnknownError
	require.ErrorAs(t, err, &unknown)
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	assert.Equal(t, params.Name, unknown.Params.Name)
	assert.Equal(t, params.PatientID, unknown.Params.PatientID)
	assert.Same(t, params.Audio, unknown.Params.Audio)
	assert.WithinRange(t, unknown.SentAt, started, time.Now())
	return unknown
}

// timedClient is a client in virtual time, whose transport is a function, with the default retry policy.
func timedClient(t *testing.T, transport roundTripper, opts ...clinicaldoc.Option) *clinicaldoc.Client {
	t.Helper()
	all := append([]clinicaldoc.Option{clinicaldoc.WithHTTPClient(&http.Client{Transport: transport})}, opts...)
	c, err := clinicaldoc.NewClient("https://api.clinic.test", socketToken, all...)
	require.NoError(t, err)
	return c
}

// slowReader gives 10 bytes after each pause.
type slowReader struct {
	text  string
	pause time.Duration
}

func (r *slowReader) Read(p []byte) (int, error) {
	if r.text == "" {
		return 0, io.EOF
	}
	time.Sleep(r.pause)
	n := copy(p[:min(len(p), 10)], r.text)
	r.text = r.text[n:]
	return n, nil
}

// closedAddress is an address of this machine where nobody listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

// badReader fails with an error that names a file, at the first read or when it has given something.
type badReader struct{ given bool }

func (r *badReader) Read(p []byte) (int, error) {
	if !r.given {
		r.given = true
		return copy(p, canary), nil
	}
	return 0, &os.PathError{Op: "read", Path: canary, Err: errors.New(canary)}
}

func (r *badReader) ReadAt([]byte, int64) (int, error) { return 0, errors.New(canary) }

func (r *badReader) Write([]byte) (int, error) { return 0, errors.New(canary) }

// badCallback is a limiter and a token source that fail.
type badCallback struct{ err error }

func (c badCallback) Wait(context.Context) error { return c.err }

func (c badCallback) Token(context.Context) (string, error) { return canary, c.err }
