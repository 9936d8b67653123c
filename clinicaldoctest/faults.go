package clinicaldoctest

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fault is something that goes wrong with a request. The functions that return
// one say what; its methods say how often and for which of the requests:
//
//	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
//	srv.Inject(clinicaldoctest.RouteGetNote, clinicaldoctest.Answer(502, "bad gateway").Times(3).After(1))
//	srv.Inject("", clinicaldoctest.Delay(time.Second).Rate(0.05))
//
// A fault strikes once unless told otherwise. Delays and slow bodies take real
// time, also under a frozen clock; Close ends them.
type Fault struct {
	kind        string // with its argument, as ParseFault reads it
	skip, times int
	every       int           // of how many requests it strikes the last; 0: of each
	rate        float64       // the probability that it strikes; negative: always
	commits     bool          // the request is done all the same
	commitAfter time.Duration // by the server's clock
	lag         time.Duration // how old what is read is
	header      http.Header
	strike      func(s *Server, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc)
}

// newFault is a fault that strikes once.
func newFault(kind string, strike func(s *Server, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc)) Fault {
	return Fault{kind: kind, times: 1, rate: -1, strike: strike}
}

// String returns the fault as [ParseFault] reads it; only the body of an
// [Answer] and added headers are not told.
func (f Fault) String() string {
	text := f.kind
	add := func(format string, args ...any) { text += ":" + fmt.Sprintf(format, args...) }
	often := f.every > 0 || f.rate >= 0
	if f.every > 0 {
		add("every=%d", f.every)
	}
	if f.rate >= 0 {
		add("rate=%s", strconv.FormatFloat(f.rate, 'g', -1, 64))
	}
	if f.skip > 0 {
		add("after=%d", f.skip)
	}
	if f.commits {
		add("commit=%s", f.commitAfter)
	}
	switch {
	case f.times < 0 && !often && !strings.HasPrefix(f.kind, kindThrottle):
		add("always")
	case f.times >= 0 && (f.times != 1 || often):
		add("%d", f.times)
	}
	return text
}

// Times makes the fault strike n requests.
func (f Fault) Times(n int) Fault { f.times = n; return f }

// Always makes the fault strike every request.
func (f Fault) Always() Fault { f.times = -1; return f }

// Every makes the fault strike each n-th request; a later [Fault.Times] bounds
// how often.
func (f Fault) Every(n int) Fault { f.every, f.times = max(n, 1), -1; return f }

// Rate makes the fault strike each request with that probability, as the
// server's seed has it ([WithSeed]); a later [Fault.Times] bounds how often.
func (f Fault) Rate(probability float64) Fault { f.rate, f.times = max(probability, 0), -1; return f }

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
	return newFault("status="+strconv.Itoa(status), func(_ *Server, w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
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
	})
}

// TooManyRequests answers 429 with a Retry-After in whole seconds, as a service
// or a well-set proxy does that limits requests. nginx's limit_req answers 503
// unless told otherwise (limit_req_status 429): to a create that is
// [Answer](503, ""), after which nobody knows whether there is a note.
func TooManyRequests(retryAfter time.Duration) Fault {
	return newFault("429="+retryAfter.String(), func(s *Server, w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		now := s.Now()
		verdict{limit: 60, refused: true, reset: now.Add(retryAfter), now: now}.describe(w.Header())
		writeAnswer(w, tooManyAttempts())
	})
}

// kindThrottle is the one kind that stays unless told otherwise.
const kindThrottle = "throttle"

// Throttle lets limit requests per window pass, with X-RateLimit headers, and
// answers 429 to the rest. It stays until [Server.ClearFaults].
func Throttle(limit int, window time.Duration) Fault {
	var requests limiter
	return newFault(fmt.Sprintf("%s=%d/%s", kindThrottle, limit, window), func(s *Server, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
		verdict := requests.take(0, limit, window, s.Now())
		verdict.describe(w.Header())
		if verdict.refused {
			writeAnswer(w, tooManyAttempts())
			return
		}
		serve(w, r)
	}).Always()
}

// Delay waits before it lets the request through.
func Delay(d time.Duration) Fault {
	return newFault("delay="+d.String(), func(s *Server, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
		s.pause(r, d)
		serve(w, r)
	})
}

// Reset resets the connection once the request's headers are there; its body
// is not read and nothing happens.
func Reset() Fault {
	return newFault("reset", func(_ *Server, w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		resetConnection(w)
	})
}

// ResetAfterRequest takes the whole request, does nothing and resets the connection.
func ResetAfterRequest() Fault {
	return newFault("reset-after-request", func(_ *Server, w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
		_, _ = io.Copy(io.Discard, r.Body)
		resetConnection(w)
	})
}

// ResetAfterCommit does what the request asks for and then resets the
// connection instead of answering.
func ResetAfterCommit() Fault {
	return newFault("reset-after-commit", func(_ *Server, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
		serve(unsentWriter{header: http.Header{}}, r)
		resetConnection(w)
	})
}

// Truncate does what the request asks for and cuts the answer's body off after
// n bytes of its announced length.
func Truncate(n int) Fault {
	return newFault("truncate="+strconv.Itoa(n), func(_ *Server, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
		serve(&truncatingWriter{ResponseWriter: w, left: n}, r)
	})
}

// TruncateChunked is [Truncate] for a chunked answer, which announces no length.
func TruncateChunked(n int) Fault {
	return newFault("truncate-chunked="+strconv.Itoa(n), func(_ *Server, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
		serve(&truncatingWriter{ResponseWriter: w, left: n, chunked: true}, r)
	})
}

// SlowBody sends the answer's body in pieces of n bytes with a pause after each.
func SlowBody(n int, pause time.Duration) Fault {
	return newFault(fmt.Sprintf("slow=%d/%s", n, pause), func(s *Server, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
		serve(&slowWriter{ResponseWriter: w, size: max(n, 1), pause: func() { s.pause(r, pause) }}, r)
	})
}

// Lagging answers a read as a replica does that is so far behind, by the
// server's clock: without the notes and changes made since. It means something
// on [RouteGetNote], [RouteListNotes] and [RouteAudioURL].
func Lagging(behind time.Duration) Fault {
	f := newFault("lagging="+behind.String(), func(_ *Server, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
		serve(w, r.WithContext(context.WithValue(r.Context(), lagKey{}, behind)))
	})
	f.lag = behind
	return f
}

// resetConnection drops the connection so that the client sees a reset, not an end.
func resetConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn() // without a farewell
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
