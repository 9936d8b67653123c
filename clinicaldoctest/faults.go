package clinicaldoctest

import (
	"net/http"
	"strconv"
	"time"
)

// Fault is something that goes wrong with a request. The functions that return
// one say what; its methods say how often and for which of the requests:
//
//	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
//	srv.Inject(clinicaldoctest.RouteGetNote, clinicaldoctest.Answer(502, "bad gateway").Times(3).After(1))
//	srv.Inject("", clinicaldoctest.Delay(time.Second).Rate(0.05))
//
// A fault strikes once unless told otherwise. It remembers nothing: what it has
// struck is counted where it is injected, so one value serves any number of
// servers. Delays and slow bodies take real time, also under a frozen clock;
// Close ends them.
type Fault struct {
	kind        string
	number      int           // a status, or how many bytes, requests or notes
	length      time.Duration // of a wait, a window or a lag
	body        string
	skip, times int           // times below 0: always
	every       int           // of how many requests it strikes the last; 0: of each
	rate        float64       // the probability that it strikes; negative: always
	commits     bool          // the request is done all the same
	commitAfter time.Duration // by the server's clock
	header      http.Header
}

// newFault is a fault of a kind, as often as that kind usually strikes.
func newFault(kind string, number int, length time.Duration) Fault {
	return Fault{kind: kind, number: max(number, 0), length: max(length, 0), times: usualTimes(kind), rate: -1}
}

// usualTimes is how often a fault of a kind strikes that says nothing of it.
func usualTimes(kind string) int {
	if kind == kindThrottle {
		return -1
	}
	return 1
}

// String returns the fault as [ParseFault] reads it; only the body of an
// [Answer] and added headers are not told.
func (f Fault) String() string {
	text, usual := f.what(), usualTimes(f.kind)
	if f.every > 0 {
		text, usual = text+":every="+strconv.Itoa(f.every), -1
	}
	if f.rate >= 0 {
		text, usual = text+":rate="+strconv.FormatFloat(f.rate, 'g', -1, 64), -1
	}
	if f.skip > 0 {
		text += ":after=" + strconv.Itoa(f.skip)
	}
	if f.commits {
		text += ":commit=" + f.commitAfter.String()
	}
	switch {
	case f.times == usual:
		return text
	case f.times < 0:
		return text + ":always"
	default:
		return text + ":" + strconv.Itoa(f.times)
	}
}

// Times makes the fault strike n requests.
func (f Fault) Times(n int) Fault { f.times = max(n, 0); return f }

// Always makes the fault strike without end: every request, or as
// [Fault.Every] and [Fault.Rate] say.
func (f Fault) Always() Fault { f.times = -1; return f }

// Every makes the fault strike each n-th request; a later [Fault.Times] bounds
// how often.
func (f Fault) Every(n int) Fault { f.every, f.times = max(n, 1), -1; return f }

// Rate makes the fault strike each request with that probability, as the
// server's seed has it ([WithSeed]); a later [Fault.Times] bounds how often.
func (f Fault) Rate(probability float64) Fault {
	f.rate, f.times = min(max(probability, 0), 1), -1
	if probability != probability { // not a number
		f.rate = 0
	}
	return f
}

// After lets n requests pass before the fault strikes.
func (f Fault) After(n int) Fault { f.skip = max(n, 0); return f }

// CommitAfter makes the service do what the request asks for all the same, so
// long after the fault has struck, by the server's clock: a note that appears
// minutes after its 504. The request's body is read first; its true response is
// lost. It means nothing on [RouteAudio].
func (f Fault) CommitAfter(d time.Duration) Fault {
	f.commits, f.commitAfter = true, max(d, 0)
	return f
}

// WithHeader sets a header of the answers to struck requests, in place of what
// the server would send; several values of one key are sent in that order, and
// an empty one alone sends none.
func (f Fault) WithHeader(key, value string) Fault {
	f.header = f.header.Clone()
	if f.header == nil {
		f.header = http.Header{}
	}
	f.header.Add(key, value)
	return f
}

// Answer answers with this status and body at once; the endpoint does not run.
// A body that starts with { is sent as JSON, any other as HTML. A status that
// no response can have panics.
func Answer(status int, body string) Fault {
	if status < minStatus || status > maxStatus {
		panic("clinicaldoctest: " + strconv.Itoa(status) + " is no status of a response")
	}
	f := newFault(kindStatus, status, 0)
	f.body = body
	return f
}

const minStatus, maxStatus = 200, 599

// TooManyRequests answers 429 with a Retry-After in whole seconds. A proxy that
// limits requests may answer 503 instead, which is [Answer](503, ""): after it
// nobody knows whether a create made a note.
func TooManyRequests(retryAfter time.Duration) Fault { return newFault("429", 0, retryAfter) }

// Throttle lets limit requests per window pass, with X-RateLimit headers, and
// answers 429 to the rest. It stays until [Server.ClearFaults].
func Throttle(limit int, window time.Duration) Fault {
	return newFault(kindThrottle, max(limit, 1), max(window, 1))
}

// Delay waits before it lets the request through.
func Delay(d time.Duration) Fault { return newFault("delay", 0, d) }

// Reset resets the connection once the request's headers are there; its body
// is not read and nothing happens. Over HTTP/2 that ends every request on it.
func Reset() Fault { return newFault("reset", 0, 0) }

// ResetAfterRequest takes the whole request, does nothing and resets the connection.
func ResetAfterRequest() Fault { return newFault("reset-after-request", 0, 0) }

// ResetAfterCommit does what the request asks for and then resets the
// connection instead of answering.
func ResetAfterCommit() Fault { return newFault("reset-after-commit", 0, 0) }

// Truncate does what the request asks for and cuts the answer's body off after
// n bytes of its announced length.
func Truncate(n int) Fault { return newFault("truncate", n, 0) }

// TruncateChunked is [Truncate] for a chunked answer, which announces no length.
func TruncateChunked(n int) Fault { return newFault("truncate-chunked", n, 0) }

// SlowBody sends the answer's body in pieces of n bytes with a pause after each.
func SlowBody(n int, pause time.Duration) Fault { return newFault("slow", max(n, 1), max(pause, 1)) }

// Silent makes the request's connection go silent: nothing more is read from it
// or sent on it, yet it stays open, as when a machine or a link on the way dies.
// Over HTTP/2 that ends every request on the connection. With
// [Fault.CommitAfter] the request is read and done first.
func Silent() Fault { return newFault("silent", 0, 0) }

// Lagging answers a read as a replica does that is so far behind, by the
// server's clock: without the notes and changes made since. A note of
// [Server.AddNote] is there since its CreatedAt. It means something on
// [RouteGetNote], [RouteListNotes] and [RouteAudioURL].
func Lagging(behind time.Duration) Fault { return newFault("lagging", 0, behind) }

// Vanish deletes up to n of the notes that a list shows, the first rows first,
// before the list's client can ask for the next page: somebody else was
// quicker. It means something on [RouteListNotes].
func Vanish(n int) Fault { return newFault("vanish", n, 0) }

// Arrive adds n notes of the patient whose notes are listed, or of patient 1,
// before the list's client can ask for the next page. It means something on
// [RouteListNotes].
func Arrive(n int) Fault { return newFault("arrive", n, 0) }
