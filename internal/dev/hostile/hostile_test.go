package hostile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

const (
	noteID    = 7
	patientID = 4711
	// longest is how long a call may take by its own clock, with every retry and every stall.
	longest = 2 * time.Hour
)

// FuzzServer lets a server send any bytes to every method, in one or more pieces, and then close the connection or
// stay silent. Time is virtual, so a call that hangs is a deadlock, and a goroutine that is left behind is reported.
// No method may panic, take longer than its bounds, or return a note with another id than was asked for.
func FuzzServer(f *testing.F) {
	for number := range operations {
		for _, response := range responses() {
			f.Add(response, byte(number), false, true, uint16(0))
			f.Add(response, byte(number), false, false, uint16(len(response)/2))
		}
		for _, response := range http2Responses() {
			f.Add(response, byte(number), true, true, uint16(0))
			f.Add(response, byte(number), true, false, uint16(len(response)/2))
		}
	}
	f.Fuzz(func(t *testing.T, response []byte, operation byte, http2, closes bool, cut uint16) {
		s := &server{response: response, closes: closes, cut: int(cut)}
		s.call(t, http2, operations[int(operation)%len(operations)].call)
	})
}

// The fuzzer begins with responses that work, over both protocols.
func TestServer_ItsResponsesWork(t *testing.T) {
	t.Parallel()
	get := func(ctx context.Context, t *testing.T, c *clinicaldoc.Client) {
		note, err := c.Notes.Get(ctx, noteID)
		require.NoError(t, err)
		require.Equal(t, int64(noteID), note.ID)
	}
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP/2 %t", http2), func(t *testing.T) {
			t.Parallel()
			response := responses()[0]
			if http2 {
				response = http2Response(ok, note)
			}
			(&server{response: response}).call(t, http2, get)
			(&server{response: response, cut: 20}).call(t, http2, get)
		})
	}
}

// A method that was added must meet a hostile server too.
func TestOperations_CallEveryMethod(t *testing.T) {
	t.Parallel()
	var called []string
	for _, operation := range operations {
		called = append(called, operation.method)
	}
	methods := methodsOf("", reflect.TypeFor[*clinicaldoc.Client]())
	for service := range reflect.TypeFor[clinicaldoc.Client]().Fields() {
		if service.IsExported() {
			methods = append(methods, methodsOf(service.Name+".", service.Type)...)
		}
	}
	require.ElementsMatch(t, methods, called)
}

// methodsOf returns the names of the methods that send requests: they take a context after their receiver.
func methodsOf(prefix string, of reflect.Type) (names []string) {
	for method := range of.Methods() {
		if method.Type.NumIn() > 1 && method.Type.In(1) == reflect.TypeFor[context.Context]() {
			names = append(names, prefix+method.Name)
		}
	}
	return names
}

// call makes one call to the server, in virtual time.
func (s *server) call(t *testing.T, http2 bool, operation call) {
	t.Helper()
	s.serve = (*server).http1
	if http2 {
		s.serve = (*server).http2
	}
	synctest.Test(t, func(t *testing.T) {
		transport := &http.Transport{DialContext: s.dial, Protocols: new(http.Protocols)}
		transport.Protocols.SetHTTP1(!http2)
		transport.Protocols.SetUnencryptedHTTP2(http2)
		client, err := clinicaldoc.NewClient("http://127.0.0.1:1", "synthetic",
			clinicaldoc.WithHTTPClient(&http.Client{Transport: transport}),
			clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 1, MinWait: time.Second, MaxWait: time.Second}))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), longest)
		defer cancel()
		began := time.Now()
		operation(ctx, t, client)
		require.Less(t, time.Since(began), longest+time.Minute, "the context ends every call")
		transport.CloseIdleConnections()
		s.close()
	})
}

// server sends the same bytes to each request, or, over HTTP/2, to each connection.
type server struct {
	serve    func(*server, net.Conn)
	response []byte
	closes   bool // the connection, after the bytes
	cut      int  // where the second piece begins; 0: there is one

	mu      sync.Mutex
	conns   []net.Conn
	running sync.WaitGroup
}

func (s *server) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	s.mu.Lock()
	s.conns = append(s.conns, near, far)
	s.mu.Unlock()
	s.running.Go(func() { s.serve(s, far) })
	return near, nil
}

func (s *server) close() {
	s.mu.Lock()
	for _, conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// http1 responds to each request that it can read.
func (s *server) http1(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	requests := bufio.NewReader(conn)
	for {
		request, err := http.ReadRequest(requests)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, request.Body); err != nil {
			return
		}
		if !s.send(conn) {
			return
		}
	}
}

// http2 waits for a request, and responds once. Before its first request, a client refuses the frames of any stream.
func (s *server) http2(conn net.Conn) {
	if err := readHeadersFrame(conn); err != nil {
		_ = conn.Close()
		return
	}
	s.running.Go(func() { _, _ = io.Copy(io.Discard, conn) })
	if !s.send(conn) {
		_ = conn.Close()
	}
}

// readHeadersFrame reads the preface of an HTTP/2 connection, and its frames up to the first HEADERS frame.
func readHeadersFrame(conn net.Conn) error {
	const headers = 1
	if _, err := io.CopyN(io.Discard, conn, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return err
	}
	for {
		var head [9]byte // 3 bytes of length, 1 of type, 1 of flags, 4 of the stream
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return err
		}
		length := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if _, err := io.CopyN(io.Discard, conn, length); err != nil {
			return err
		}
		if head[3] == headers {
			return nil
		}
	}
}

// send reports whether the connection stays open.
func (s *server) send(conn net.Conn) bool {
	first := s.response[:min(s.cut, len(s.response))]
	for _, piece := range [][]byte{first, s.response[len(first):]} {
		if _, err := conn.Write(piece); err != nil {
			return false
		}
	}
	return !s.closes
}

func params() clinicaldoc.CreateNoteParams {
	return clinicaldoc.CreateNoteParams{
		Name: "Synthetic", PatientID: patientID, PromptID: 1,
		Audio: clinicaldoc.AudioBytes("visit.wav", bytes.Repeat([]byte("RIFF"), 20)),
	}
}

// isIt checks that a note is the one that was asked for, or that there is an error instead.
func isIt(t *testing.T, note *clinicaldoc.ProgressNote, err error) {
	t.Helper()
	if err != nil {
		require.Nil(t, note, "either a note or an error: %v", err)
		return
	}
	require.Equal(t, int64(noteID), note.ID, "another note was returned")
}

// isNew checks a note that was created: its id is whatever the service gave it.
func isNew(t *testing.T, note *clinicaldoc.ProgressNote, err error) {
	t.Helper()
	if err == nil {
		require.Positive(t, note.ID)
		require.True(t, note.Name != "" || !note.CreatedAt.IsZero(), "that is not a note")
	}
}

// isOfPatient checks a row of a list that was filtered by patient.
func isOfPatient(t *testing.T, note *clinicaldoc.ProgressNote) {
	t.Helper()
	require.Positive(t, note.ID)
	id, named := note.PatientID()
	require.True(t, named && id == patientID, "a row of another patient")
}

type call func(context.Context, *testing.T, *clinicaldoc.Client)

type operation struct {
	method string // of the client, or of one of its services
	call   call
}

// operations call each method of the SDK that sends requests. They check what they get.
var operations = []operation{
	{"Notes.Get", func(ctx context.Context, t *testing.T, c *clinicaldoc.Client) {
		note, err := c.Notes.Get(ctx, noteID)
		isIt(t, note, err)
	}},
	{"Notes.Create", func(ctx context.Context, t *testing.T, c *clinicaldoc.Client) {
		note, err := c.Notes.Create(ctx, params())
		isNew(t, note, err)
	}},
	{"Notes.CreateOnce", func(ctx context.Context, t *testing.T, c *clinicaldoc.Client) {
		note, err := c.Notes.CreateOnce(ctx, params(), clinicaldoc.FindCreatedParams{})
		isNew(t, note, err)
	}},
	{"Notes.Update", func(ctx context.Context, t *testing.T, c *clinicaldoc.Client) {
		note, err := c.Notes.Update(ctx, noteID, clinicaldoc.UpdateNoteParams{Analysis: new("Synthetic.")})
		isIt(t, note, err)
	}},
	{"Notes.Sign", func(ctx context.Context, t *testing.T, c *clinicaldoc.Client) {
		note, err := c.Notes.Sign(ctx, noteID)
		isIt(t, note, err)
	}},
	{"Notes.Delete", func(ctx context.Context, t *testing.T, c *clinicaldoc.Client) {
		confirmation, err := c.Notes.Delete(ctx, noteID)
		require.Equal(t, err == nil, confirmation != nil)
	}},
	{"Notes.List", func(ctx context.Context, t *testing.T, c *clinicaldoc.Client) {
		page, err := c.Notes.List(ctx, clinicaldoc.ListNotesParams{PatientID: patientID})
		require.Equal(t, err == nil, page != nil)
		if err == nil {
			for i := range page.Items {
				isOfPatient(t, &page.Items[i])
			}
		}
	}},
	{"Notes.All", func(ctx context.Context, t *testing.T, c *clinicaldoc.Client) {
		seen := map[int64]bool{}
		for note, err := range c.Notes.All(ctx, clinicaldoc.ListNotesParams{PatientID: patientID, Prefetch: 2}) {
			if err == nil {
				isOfPatient(t, note)
				require.False(t, seen[note.ID], "a row twice")
				seen[note.ID] = true
			}
		}
	}},
	{"Notes.Wait", func(ctx context.Context, t *testing.T, c *clinicaldoc.Client) {
		note, err := c.Notes.Wait(ctx, noteID, clinicaldoc.WaitParams{})
		if err == nil {
			isIt(t, note, err)
		}
	}},
	{"Notes.Watch", func(ctx context.Context, t *testing.T, c *clinicaldoc.Client) {
		for note, err := range c.Notes.Watch(ctx, noteID, clinicaldoc.WaitParams{}) {
			if err == nil {
				isIt(t, note, err)
			}
		}
	}},
	{"Notes.WaitAll", func(ctx context.Context, t *testing.T, c *clinicaldoc.Client) {
		for note, err := range c.Notes.WaitAll(ctx, []int64{noteID}, clinicaldoc.WaitParams{}) {
			if err == nil {
				isIt(t, note, err)
			}
		}
	}},
	{"Notes.AudioURL", func(ctx context.Context, t *testing.T, c *clinicaldoc.Client) {
		address, err := c.Notes.AudioURL(ctx, noteID)
		require.Equal(t, err == nil, address != nil)
	}},
	{"Notes.DownloadAudio", func(ctx context.Context, t *testing.T, c *clinicaldoc.Client) {
		n, err := c.Notes.DownloadAudio(ctx, noteID, io.Discard, clinicaldoc.DownloadParams{})
		require.True(t, err != nil || n > 0, "an empty recording")
	}},
	{"Notes.DownloadAudioFile", func(ctx context.Context, t *testing.T, c *clinicaldoc.Client) {
		path := filepath.Join(t.TempDir(), "visit.wav")
		_, err := c.Notes.DownloadAudioFile(ctx, noteID, path, clinicaldoc.DownloadParams{})
		_, missing := os.Stat(path)
		require.Equal(t, err == nil, missing == nil, "a file without a complete recording: %v", err)
	}},
	{"Notes.OpenAudio", func(ctx context.Context, t *testing.T, c *clinicaldoc.Client) {
		stream, err := c.Notes.OpenAudio(ctx, noteID)
		if err == nil {
			_, _ = io.Copy(io.Discard, stream)
			require.NoError(t, stream.Close())
		}
	}},
	{"Notes.FindCreated", func(ctx context.Context, t *testing.T, c *clinicaldoc.Client) {
		loss := &clinicaldoc.OutcomeUnknownError{Params: params(), SentAt: time.Now(), AudioSize: 80}
		note, err := c.Notes.FindCreated(ctx, loss, clinicaldoc.FindCreatedParams{Settle: time.Minute})
		if err == nil {
			isOfPatient(t, note)
		}
	}},
	{"Tokens.List", func(ctx context.Context, t *testing.T, c *clinicaldoc.Client) {
		tokens, err := c.Tokens.List(ctx)
		require.True(t, err == nil || tokens == nil)
	}},
	{"Tokens.Revoke", func(ctx context.Context, t *testing.T, c *clinicaldoc.Client) {
		confirmation, err := c.Tokens.Revoke(ctx, noteID)
		require.Equal(t, err == nil, confirmation != nil)
	}},
	{"Users.Me", func(ctx context.Context, t *testing.T, c *clinicaldoc.Client) {
		user, err := c.Users.Me(ctx)
		require.True(t, err != nil || user.ID > 0)
	}},
	{"Do", func(ctx context.Context, t *testing.T, c *clinicaldoc.Client) {
		var out map[string]any
		_ = c.Do(ctx, http.MethodPut, "/v1/undescribed", map[string]int{"n": 1}, &out)
	}},
}

const (
	note = `{"id":7,"name":"Synthetic","team_id":1,"user_id":1,"patient":{"id":4711},"has":{"content":true,` +
		`"transcription":true,"signed":false},"transcription":"t","analysis":"a","error_state":null,` +
		`"created_at":"2000-01-01T00:00:00Z","updated_at":"2000-01-01T00:00:00Z"}`
	list  = `{"data":[` + note + `],"links":{"next":null},"meta":{"current_page":1,"last_page":1,"total":1}}`
	other = `{"id":8,"name":"Synthetic","created_at":"2000-01-01T00:00:00Z"}`
	link  = `{"url":"http://127.0.0.1:1/audio/1?X-Amz-Signature=s"}`
)

// responses are what the fuzzer begins with.
func responses() [][]byte {
	head := func(status, header, body string) []byte {
		return []byte("HTTP/1.1 " + status + "\r\n" + header + "\r\n" + body)
	}
	const typed = "Content-Type: application/json\r\n"
	length := func(body string) string { return typed + fmt.Sprintf("Content-Length: %d\r\n", len(body)) }
	return [][]byte{
		head("200 OK", length(note), note),
		head("201 Created", length(note), note),
		head("200 OK", length(list), list),
		head("200 OK", length(other), other),
		head("200 OK", length(link), link),
		head("206 Partial Content", "Content-Type: audio/wav\r\nContent-Range: bytes 0-3/80\r\nContent-Length: 4\r\n", "RIFF"),
		head("200 OK", typed+"Transfer-Encoding: chunked\r\n", "5\r\n{\"id\"\r\n3\r\n:7}\r\n0\r\n\r\n"),
		head("100 Continue", "", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
		head("204 No Content", "", ""),
		head("302 Found", "Location: //other.test/\r\nContent-Length: 0\r\n", ""),
		head("401 Unauthorized", length(`{"message":"Unauthorized"}`), `{"message":"Unauthorized"}`),
		head("429 Too Many Requests", "Retry-After: 99999999999\r\nContent-Length: 0\r\n", ""),
		head("503 Service Unavailable", "Retry-After: -1\r\nDate: Fri, 31 Dec 9999 23:59:59 GMT\r\n", "<html>"),
		head("200 OK", typed+"Content-Encoding: gzip\r\nContent-Length: 5\r\n", "\x1f\x8b\x08\x00\x00"),
		head("200 OK", typed+"Content-Length: 1000\r\n", `{"id":7,"name":"cut`),
		{},
	}
}

// http2Responses are what a server sends to one request over HTTP/2, from the first byte on.
func http2Responses() [][]byte {
	const badGateway = "\x08\x03502" // :status in HPACK, which has a number only for the usual ones
	return [][]byte{http2Response(ok, note), http2Response(ok, list), http2Response(ok, link), http2Response(badGateway, "<html>")}
}

const ok = "\x88" // :status 200 in HPACK

// http2Response is a response in frames: SETTINGS, an acknowledgment of the client's, HEADERS and DATA.
func http2Response(status, body string) []byte {
	const data, headers, settings, acknowledges, endsStream, endsHeaders = 0, 1, 4, 1, 1, 4
	header := status + "\x0f\x10\x10application/json" // content-type
	return slices.Concat(
		frame(settings, 0, 0, ""), frame(settings, acknowledges, 0, ""),
		frame(headers, endsHeaders, 1, header), frame(data, endsStream, 1, body))
}

func frame(kind, flags byte, stream uint32, payload string) []byte {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	return append(binary.BigEndian.AppendUint32(append(head, flags), stream), payload...)
}
