package clinicaldoctest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Fault is something that goes wrong with a request. The functions that return
// one say what; its methods say how often and for which of the requests:
//
//	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
//	srv.Inject(clinicaldoctest.RouteGetNote, clinicaldoctest.Answer(502, "bad gateway").Times(3).After(1))
//
// A fault strikes once unless told otherwise. Delays and slow bodies take real
// time, also under a frozen clock; Close ends them.
type Fault struct {
	name        string
	skip, times int
	commits     bool          // the request is done all the same
	commitAfter time.Duration // by the server's clock
	lag         time.Duration // how old what is read is
	header      http.Header
	strike      func(s *Server, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc)
}

// String returns the fault's kind.
func (f Fault) String() string { return f.name }

// Times makes the fault strike n requests.
func (f Fault) Times(n int) Fault { f.times = n; return f }

// Always makes the fault strike every request.
func (f Fault) Always() Fault { f.times = -1; return f }

// After lets n requests pass before the fault strikes.
func (f Fault) After(n int) Fault { f.skip = n; return f }

// CommitAfter makes the service do what the request asks for all the same, so
// long after the fault has struck, by the server's clock: a note that appears
// minutes after its 504. The request's body is read first; its true response is
// lost. It means nothing on [RouteAudio].
func (f Fault) CommitAfter(d time.Duration) Fault {
	f.commits, f.commitAfter = true, max(d, 0)
	return f
}

// WithHeader adds a header to the answers of struck requests.
func (f Fault) WithHeader(key, value string) Fault {
	f.header = f.header.Clone()
	if f.header == nil {
		f.header = http.Header{}
	}
	f.header.Add(key, value)
	return f
}

// Answer answers with this status and body at once; the endpoint does not run.
// A body that starts with { is sent as JSON, any other as HTML.
func Answer(status int, body string) Fault {
	return Fault{name: "status " + strconv.Itoa(status), times: 1, strike: func(_ *Server, w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		contentType := "text/html; charset=UTF-8"
		if strings.HasPrefix(body, "{") {
			contentType = "application/json"
		}
		w.Header().Set("Content-Type", contentType)
		if body != "" {
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}}
}

// TooManyRequests answers 429 with a Retry-After in whole seconds.
func TooManyRequests(retryAfter time.Duration) Fault {
	return Fault{name: "429", times: 1, strike: func(s *Server, w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		now := s.Now()
		verdict{limit: 60, refused: true, reset: now.Add(retryAfter), now: now}.describe(w.Header())
		writeAnswer(w, tooManyAttempts())
	}}
}

// Throttle lets limit requests per window pass, with X-RateLimit headers, and
// answers 429 to the rest. It stays until [Server.ClearFaults].
func Throttle(limit int, window time.Duration) Fault {
	var requests limiter
	return Fault{name: "throttle", times: -1, strike: func(s *Server, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
		verdict := requests.take(0, limit, window, s.Now())
		verdict.describe(w.Header())
		if verdict.refused {
			writeAnswer(w, tooManyAttempts())
			return
		}
		serve(w, r)
	}}
}

// Delay waits before it lets the request through.
func Delay(d time.Duration) Fault {
	return Fault{name: "delay", times: 1, strike: func(s *Server, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
		s.pause(r, d)
		serve(w, r)
	}}
}

// Reset resets the connection once the request's headers are there; its body
// is not read and nothing happens.
func Reset() Fault {
	return Fault{name: "reset", times: 1, strike: func(_ *Server, w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		resetConnection(w)
	}}
}

// ResetAfterRequest takes the whole request, does nothing and resets the connection.
func ResetAfterRequest() Fault {
	return Fault{name: "reset after request", times: 1, strike: func(_ *Server, w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
		_, _ = io.Copy(io.Discard, r.Body)
		resetConnection(w)
	}}
}

// ResetAfterCommit does what the request asks for and then resets the
// connection instead of answering.
func ResetAfterCommit() Fault {
	return Fault{name: "reset after commit", times: 1, strike: func(_ *Server, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
		serve(unsentWriter{header: http.Header{}}, r)
		resetConnection(w)
	}}
}

// Truncate does what the request asks for and cuts the answer's body off after
// n bytes of its announced length.
func Truncate(n int) Fault {
	return Fault{name: "truncate", times: 1, strike: func(_ *Server, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
		serve(&truncatingWriter{ResponseWriter: w, left: n}, r)
	}}
}

// TruncateChunked is [Truncate] for a chunked answer, which announces no length.
func TruncateChunked(n int) Fault {
	return Fault{name: "truncate chunked", times: 1, strike: func(_ *Server, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
		serve(&truncatingWriter{ResponseWriter: w, left: n, chunked: true}, r)
	}}
}

// SlowBody sends the answer's body in pieces of n bytes with a pause after each.
func SlowBody(n int, pause time.Duration) Fault {
	return Fault{name: "slow body", times: 1, strike: func(s *Server, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
		serve(&slowWriter{ResponseWriter: w, size: max(n, 1), pause: func() { s.pause(r, pause) }}, r)
	}}
}

// Lagging answers a read as a replica does that is so far behind, by the
// server's clock: without the notes and changes made since. It means something
// on [RouteGetNote], [RouteListNotes] and [RouteAudioURL].
func Lagging(behind time.Duration) Fault {
	return Fault{name: "lagging", times: 1, lag: behind, strike: func(_ *Server, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
		serve(w, r.WithContext(context.WithValue(r.Context(), lagKey{}, behind)))
	}}
}

// Inject makes requests to a route meet a fault. The route is one of the Route
// constants, or "" for all of them, the storage's included. Of several faults
// for one request the one injected first strikes. An unknown route panics.
func (s *Server) Inject(route string, f Fault) {
	if route != "" && !slices.Contains(Routes(), route) {
		panic(fmt.Sprintf("clinicaldoctest: no route %q", route))
	}
	s.keepHistory(f.lag)
	s.faults.add(route, f)
}

// ClearFaults takes back every fault injected so far.
func (s *Server) ClearFaults() { s.faults.clear() }

type faultList struct {
	mu       sync.Mutex
	injected []*injectedFault
}

type injectedFault struct {
	route string
	Fault
}

func (l *faultList) add(route string, f Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.injected = append(l.injected, &injectedFault{route, f})
}

func (l *faultList) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.injected = nil
}

// next returns the fault that strikes a request to route.
func (l *faultList) next(route string) (Fault, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.injected {
		switch {
		case f.times == 0 || f.route != "" && f.route != route:
		case f.skip > 0:
			f.skip--
		default:
			if f.times > 0 {
				f.times--
			}
			return f.Fault, true
		}
	}
	return Fault{}, false
}

// receiver reads a request and returns what it is to do.
type receiver func(http.ResponseWriter, *http.Request) effect

// withFaults serves a request through the fault meant for it, if any.
func (s *Server) withFaults(route string, w http.ResponseWriter, r *http.Request, receive receiver, serve http.HandlerFunc) {
	fault, strikes := s.faults.next(route)
	if !strikes {
		serve(w, r)
		return
	}
	if recording, ok := w.(*recordingWriter); ok {
		s.requests.update(func() { recording.seen.Fault = fault.name })
	}
	maps.Copy(w.Header(), fault.header)
	if fault.commits && receive != nil {
		s.commitLater(receive(unsentWriter{header: http.Header{}}, r), fault.commitAfter)
		serve = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	}
	fault.strike(s, w, r, serve)
}

// pause waits, and gives the request up when its client or the server goes away.
func (s *Server) pause(r *http.Request, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
		panic(http.ErrAbortHandler)
	case <-s.closing.Done():
		panic(http.ErrAbortHandler)
	}
}

// resetConnection drops the connection so that the client sees a reset, not an end.
func resetConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if lingering, ok := conn.(interface{ SetLinger(sec int) error }); ok {
		_ = lingering.SetLinger(0)
	}
	_ = conn.Close()
}

// unsentWriter swallows an answer.
type unsentWriter struct{ header http.Header }

func (w unsentWriter) Header() http.Header         { return w.header }
func (w unsentWriter) WriteHeader(int)             {}
func (w unsentWriter) Write(p []byte) (int, error) { return len(p), nil }

// truncatingWriter drops the connection once enough of the body is out.
type truncatingWriter struct {
	http.ResponseWriter
	left    int
	chunked bool
}

func (w *truncatingWriter) WriteHeader(status int) {
	if w.chunked {
		w.Header().Del("Content-Length")
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *truncatingWriter) Write(p []byte) (int, error) {
	if len(p) <= w.left {
		w.left -= len(p)
		return w.ResponseWriter.Write(p)
	}
	_, _ = w.ResponseWriter.Write(p[:w.left])
	_ = http.NewResponseController(w.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}

// slowWriter sends a body in pieces.
type slowWriter struct {
	http.ResponseWriter
	size  int
	pause func()
}

func (w *slowWriter) Write(p []byte) (int, error) {
	written := 0
	for piece := range slices.Chunk(p, w.size) {
		n, err := w.ResponseWriter.Write(piece)
		written += n
		if err != nil {
			return written, err
		}
		if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil {
			return written, err
		}
		w.pause()
	}
	return written, nil
}
