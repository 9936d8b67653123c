package clinicaldoctest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
)

// maxRequests bounds what a long-running server remembers.
const maxRequests = 10_000

// Request is a request that the server received. It contains no secrets: headers with tokens, keys and cookies are
// left out, and tokens and signatures in the query are masked.
type Request struct {
	ID      string // also sent back as X-Request-Id
	Time    time.Time
	Storage bool // sent to storage instead of the API
	// Route is the route, such as "GET /v1/progress-notes/{id}". It is empty for a path or method that the API does
	// not have. It is RouteAudio for every request to storage.
	Route  string
	Method string
	Path   string
	Query  url.Values
	Header http.Header
	// Authorized reports whether the request had an Authorization header, valid or not.
	Authorized bool
	// ContentLength is what the client announced; -1 is a chunked body.
	ContentLength int64
	Fault         string // the injected fault that applied, if any
	// NoteID is the note that the request created, changed, signed or deleted; 0 if there is none, or not yet.
	NoteID int64

	// Status is the status of the response, or 0 if none was sent. The numbers below are final when the response is
	// complete.
	Status        int
	BytesReceived int64
	BytesSent     int64
	Duration      time.Duration
}

// clone returns a copy that a caller may change.
func (r *Request) clone() Request {
	own := *r
	own.Header = r.Header.Clone()
	own.Query = url.Values(http.Header(r.Query).Clone())
	return own
}

// Requests returns the recorded requests, oldest first. It keeps at least the last 9,000.
func (s *Server) Requests() []Request {
	return s.state().requests.list()
}

// ForgetRequests empties the list that [Server.Requests] returns.
func (s *Server) ForgetRequests() { s.state().requests.forget() }

type recorder struct {
	mu    sync.Mutex
	count int
	seen  []*Request
}

func (rec *recorder) list() []Request {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	list := make([]Request, len(rec.seen))
	for i, seen := range rec.seen {
		list[i] = seen.clone()
	}
	return list
}

func (rec *recorder) forget() {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.seen = nil
}

func (rec *recorder) add(seen *Request) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.count++
	seen.ID = fmt.Sprintf("req-%d", rec.count)
	if len(rec.seen) >= maxRequests {
		rec.seen = slices.Delete(rec.seen, 0, maxRequests/10)
	}
	rec.seen = append(rec.seen, seen)
}

// update changes a request that is already in the list.
func (rec *recorder) update(change func()) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	change()
}

// record serves a request and keeps it: when it begins, so that a client that
// has its answer finds it in the list, and again when it is over.
func (s *state) record(w http.ResponseWriter, r *http.Request, route string, serve http.HandlerFunc) {
	began := time.Now()
	seen := &Request{
		Time: s.now(), Storage: route == RouteAudio, Route: route,
		Method: r.Method, Path: r.URL.Path, Query: withoutSignatures(r.URL.Query()),
		Header: withoutSecrets(r.Header), Authorized: r.Header.Get("Authorization") != "",
		ContentLength: r.ContentLength,
	}
	s.requests.add(seen)
	body := &countingBody{ReadCloser: r.Body}
	if r.Body == nil { // of a request that no server has read
		body.ReadCloser = http.NoBody
	}
	// A copy: net/http must keep the body that it knows, or it holds a refusal back until an announced body has come.
	own := r.WithContext(context.WithValue(r.Context(), requestKey{}, seen))
	own.Body = body
	recording := &recordingWriter{ResponseWriter: w, recorder: &s.requests, seen: seen}
	if !s.variant().NoRequestID {
		recording.Header().Set("X-Request-Id", seen.ID)
	}
	recording.Header().Set("Date", seen.Time.Add(s.variant().DateOffset).Format(http.TimeFormat))
	defer func() {
		var over Request // the other one may still be changed
		s.requests.update(func() {
			seen.BytesReceived = body.read
			seen.BytesSent = recording.written
			seen.Duration = time.Since(began)
			over = seen.clone()
		})
		if observe := s.srv.initial.observe; observe != nil {
			observe(over)
		}
	}()
	serve(recording, own)
}

// requestKey is where a request's context holds its record.
type requestKey struct{}

// seenRequest returns the record of a request that is being served.
func seenRequest(r *http.Request) *Request {
	seen, ok := r.Context().Value(requestKey{}).(*Request)
	if !ok {
		panic("clinicaldoctest: a request is served without a record")
	}
	return seen
}

// withoutSecrets copies a header and drops what must not be kept.
func withoutSecrets(header http.Header) http.Header {
	kept := header.Clone()
	maps.DeleteFunc(kept, func(name string, _ []string) bool { return boxlink.IsSecretHeader(name) })
	return kept
}

// withoutSignatures masks tokens and what makes a signed address work.
func withoutSignatures(query url.Values) url.Values {
	for name := range query {
		if boxlink.IsSecretParameter(name) {
			query.Set(name, "masked")
		}
	}
	return query
}

// countingBody counts the bytes of a request's body.
type countingBody struct {
	io.ReadCloser
	read int64
}

func (b *countingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	return n, err
}

// recordingWriter notes the answer's status and size.
type recordingWriter struct {
	http.ResponseWriter
	recorder *recorder
	seen     *Request
	written  int64
}

// Unwrap lets http.ResponseController flush and hijack.
func (w *recordingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Struck notes the fault that strikes the request.
func (w *recordingWriter) Struck(fault string) {
	w.recorder.update(func() { w.seen.Fault = fault })
}

func (w *recordingWriter) WriteHeader(status int) {
	w.recorder.update(func() { w.seen.Status = status })
	w.ResponseWriter.WriteHeader(status)
}

func (w *recordingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.written += int64(n)
	return n, err
}
