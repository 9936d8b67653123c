package clinicaldoctest

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// Fault makes requests fail. The functions that return one determine what goes
// wrong. Its methods determine how often, and for which requests:
//
//	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
//	srv.Inject(clinicaldoctest.RouteGetNote, clinicaldoctest.Answer(502, "bad gateway").Times(3).After(1))
//	srv.Inject("", clinicaldoctest.Delay(time.Second).Rate(0.05))
//
// By default a fault applies to one request. A Fault is a value without state,
// so any number of servers can share it. Delays and slow bodies take real time,
// even with a frozen clock. Close ends them.
type Fault struct {
	kind        string
	number      int           // a status, or how many bytes, requests or notes
	length      time.Duration // of a wait, a window or a lag
	body        string
	skip, times int           // times may be everyTime
	every       int           // of how many requests it strikes the last; 0: of each
	rate        float64       // the probability that it strikes; negative: always, see hasRate
	commits     bool          // the request is carried out anyway
	commitAfter time.Duration // by the server's clock
	header      http.Header
}

// newFault is a fault of a kind, as often as that kind usually strikes.
func newFault(kind string, number int, length time.Duration) Fault {
	return Fault{kind: kind, number: max(number, 0), length: max(length, 0), times: usualTimes(kind), rate: -1}
}

// hasRate reports whether chance decides which requests it strikes.
func (f Fault) hasRate() bool { return f.rate >= 0 }

// everyTime as the number of times stands for every request.
const everyTime = -1

// usualTimes is how often a fault of a kind applies by default.
func usualTimes(kind string) int {
	if kind == kindThrottle {
		return everyTime
	}
	return 1
}

// String returns the fault in the form that [ParseFault] reads, without the
// body of an [Answer] and without added headers.
func (f Fault) String() string {
	text := f.kindAndArgument()
	usual := usualTimes(f.kind)
	if f.every > 0 {
		text += ":every=" + strconv.Itoa(f.every)
		usual = everyTime
	}
	if f.hasRate() {
		text += ":rate=" + strconv.FormatFloat(f.rate, 'g', -1, 64)
		usual = everyTime
	}
	if f.skip > 0 {
		text += ":after=" + strconv.Itoa(f.skip)
	}
	if f.commits {
		text += ":commit=" + f.commitAfter.String()
	}
	switch f.times {
	case usual:
		return text
	case everyTime:
		return text + ":always"
	default:
		return text + ":" + strconv.Itoa(f.times)
	}
}

// Times makes the fault apply to n requests.
func (f Fault) Times(n int) Fault { f.times = max(n, 0); return f }

// Always makes the fault apply to every request, or without end to those that
// [Fault.Every] or [Fault.Rate] selects.
func (f Fault) Always() Fault { f.times = everyTime; return f }

// Every makes the fault apply to each n-th request. A later [Fault.Times] limits
// how often.
func (f Fault) Every(n int) Fault {
	f.every = max(n, 1)
	f.times = everyTime
	return f
}

// Rate makes the fault apply to each request with that probability. The server's
// seed ([WithSeed]) determines which. A later [Fault.Times] limits how often.
func (f Fault) Rate(probability float64) Fault {
	f.rate = min(max(probability, 0), 1)
	if math.IsNaN(probability) {
		f.rate = 0
	}
	f.times = everyTime
	return f
}

// After lets n requests pass before the fault applies.
func (f Fault) After(n int) Fault { f.skip = max(n, 0); return f }

// CommitAfter makes the service carry out the request anyway, d after the fault,
// by the server's clock: a note appears minutes after its 504. The request's
// body is read first, and its true response is lost. It has no effect on
// [RouteAudio].
func (f Fault) CommitAfter(d time.Duration) Fault {
	f.commits = true
	f.commitAfter = max(d, 0)
	return f
}

// WithHeader sets a header of the responses to affected requests, instead of
// the server's own. Several values of one key are sent in that order. A single
// empty value removes the header.
func (f Fault) WithHeader(key, value string) Fault {
	f.header = f.header.Clone()
	if f.header == nil {
		f.header = http.Header{}
	}
	f.header.Add(key, value)
	return f
}

// Answer responds immediately with this status and body; the endpoint does not
// run. A body that starts with { is sent as JSON, any other as HTML. Answer
// panics if the status is not valid.
func Answer(status int, body string) Fault {
	if status < minStatus || status > maxStatus {
		panic("clinicaldoctest: " + strconv.Itoa(status) + " is not a status of a response")
	}
	f := newFault(kindStatus, status, 0)
	f.body = body
	return f
}

const minStatus, maxStatus = 200, 599

// TooManyRequests responds with 429 and a Retry-After in seconds. A proxy that
// limits requests may respond with 503 instead; use [Answer](503, "") for that.
// After a 503 it is not known whether a create made a note.
func TooManyRequests(retryAfter time.Duration) Fault { return newFault("429", 0, retryAfter) }

// Throttle lets limit requests per window pass, with X-RateLimit headers, and
// responds with 429 to others. It stays until [Server.ClearFaults].
func Throttle(limit int, window time.Duration) Fault {
	return newFault(kindThrottle, max(limit, 1), max(window, 1))
}

// Delay waits before it lets the request through.
func Delay(d time.Duration) Fault { return newFault("delay", 0, d) }

// Reset resets the connection after the request's headers arrived. The body is
// not read, and the request is not carried out. Over HTTP/2 this ends every
// request of the connection.
func Reset() Fault { return newFault("reset", 0, 0) }

// ResetAfterRequest reads the complete request and resets the connection without
// carrying it out.
func ResetAfterRequest() Fault { return newFault("reset-after-request", 0, 0) }

// ResetAfterCommit carries out the request and then resets the connection
// instead of responding.
func ResetAfterCommit() Fault { return newFault("reset-after-commit", 0, 0) }

// Truncate carries out the request and ends the response's body after n bytes,
// before its announced length.
func Truncate(n int) Fault { return newFault("truncate", n, 0) }

// TruncateChunked is [Truncate] for a chunked response, which announces no length.
func TruncateChunked(n int) Fault { return newFault("truncate-chunked", n, 0) }

// SlowBody sends the response's body in pieces of n bytes with a pause after each.
func SlowBody(n int, pause time.Duration) Fault { return newFault("slow", max(n, 1), max(pause, 1)) }

// Silent stops all reads and writes on the request's connection but leaves it open, as if a machine between client and
// server had failed. Over HTTP/2 this affects every request of the connection. With [Fault.CommitAfter] the request is
// read and carried out first.
func Silent() Fault { return newFault("silent", 0, 0) }

// Lagging responds to a read like a replica that is behind by that time, by the
// server's clock: without later notes and changes. A note of [Server.AddNote]
// exists since its CreatedAt. Lagging has an effect on [RouteGetNote],
// [RouteListNotes] and [RouteAudioURL].
func Lagging(behind time.Duration) Fault { return newFault("lagging", 0, behind) }

// Vanish deletes up to n of the notes that a list shows, beginning with the
// first row, before the client can request the next page. It has an effect on
// [RouteListNotes].
func Vanish(n int) Fault { return newFault("vanish", n, 0) }

// Arrive adds n notes of the listed patient, or of patient 1, before the client
// can request the next page. It has an effect on [RouteListNotes].
func Arrive(n int) Fault { return newFault("arrive", n, 0) }
