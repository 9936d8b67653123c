package devproxy

import (
	"cmp"
	"context"
	"hash/maphash"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
)

const (
	keptRequests = 20_000
	keptCalls    = 1000
	maxUnread    = 256 << 10 // net/http reads as much of a body that nobody wanted
	// retryWindow is how long after a failure the same request counts as its retry.
	retryWindow = 2 * time.Minute
)

// traffic follows every request, tells the log and the pages of it, and keeps the last ones. What it keeps of a real
// service's requests is names and types, never a value.
type traffic struct {
	log        *requestLog
	events     *events
	departures *departures // nil: nothing is passed on to a real service
	bodies     *bodies     // nil: shapes are kept, and no value

	mu    sync.Mutex
	last  int64
	kept  []*request // oldest first
	open  map[int64]*exchange
	calls map[uint64]call
	seed  maphash.Seed

	routeOf func(*http.Request) string
}

// request is what a page shows of a request.
type request struct {
	ID       int64    `json:"id"`
	Call     int64    `json:"call"`    // the id of the first attempt
	Attempt  int      `json:"attempt"` // 1 is the first
	At       int64    `json:"at"`      // milliseconds since 1970
	Method   string   `json:"method"`
	Route    string   `json:"route"`
	Target   string   `json:"target"` // path and query; of a real service the names alone
	Pending  bool     `json:"pending,omitempty"`
	Status   int      `json:"status"`
	Fault    string   `json:"fault,omitempty"`
	Proto    string   `json:"proto"`
	Conn     string   `json:"conn"` // the client's end of its connection
	Millis   float64  `json:"ms"`
	Received int64    `json:"received"`
	Sent     int64    `json:"sent"`
	NoteID   int64    `json:"note,omitempty"`
	Findings []string `json:"findings,omitempty"`
	Replays  int64    `json:"replays,omitempty"` // the request that it repeats
	Loaded   bool     `json:"loaded,omitempty"`  // from a file: it was sent elsewhere

	record *record // nil: detail is all that is known
	detail detail
}

// detail is what a request opens to.
type detail struct {
	RequestID      string     `json:"request_id,omitempty"`
	RequestHeader  []string   `json:"request_header"`
	RequestShape   []string   `json:"request_shape,omitempty"`
	RequestBody    *shownBody `json:"request_body,omitempty"`
	Parts          []part     `json:"parts,omitempty"`
	ResponseHeader []string   `json:"response_header"`
	ResponseShape  []string   `json:"response_shape,omitempty"`
	ResponseBody   *shownBody `json:"response_body,omitempty"`
	Curl           string     `json:"curl"`
	Go             string     `json:"go"`
	Verdict        *verdict   `json:"verdict,omitempty"`
}

// record is a request as it was, and its response.
type record struct {
	method, scheme, host, uri     string
	requestHeader, responseHeader http.Header
	requestBody, responseBody     *body
	authorization                 []string // never shown
	storage                       bool     // asked of the audio storage
	chunked                       bool     // sent without a length
	announced                     int64    // the length of the response; -1: none
}

// call is the latest attempt of a call that may be tried again.
type call struct {
	id      int64
	attempt int
	ended   time.Time
}

func newTraffic(log *requestLog, events *events, departures *departures, bodies *bodies) *traffic {
	return &traffic{
		log: log, events: events, departures: departures, bodies: bodies, routeOf: routeFinder(),
		open: map[int64]*exchange{}, calls: map[uint64]call{}, seed: maphash.MakeSeed(),
	}
}

// upstream reports whether the requests are a real service's.
func (t *traffic) upstream() bool { return t.departures != nil }

// masked returns a text without the tokens and signatures in a real service's addresses. The box's stay, as they are
// synthetic and a request that is sent again needs them.
func (t *traffic) masked(text string) string {
	if !t.upstream() {
		return text
	}
	return boxlink.MaskAddresses(text, withheld)
}

// withholdAddresses masks a record that no page knows yet.
func (t *traffic) withholdAddresses(rec *record) {
	rec.uri = t.masked(rec.uri)
	rec.requestHeader = t.maskedHeader(rec.requestHeader)
	rec.responseHeader = t.maskedHeader(rec.responseHeader)
}

func (t *traffic) maskedHeader(header http.Header) http.Header {
	kept := header.Clone() // pages may be reading the other one
	for _, values := range kept {
		for i := range values {
			values[i] = t.masked(values[i])
		}
	}
	return kept
}

// watch follows the requests to a handler, which finds the exchange in the request's context.
func (t *traffic) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := t.begin(w, r)
		r.Header.Del(replayHeader)
		// net/http must keep the body that it knows, or it holds a refusal back until an announced body has come.
		own := r.WithContext(context.WithValue(r.Context(), exchangeKey{}, e))
		own.Body = e.received
		e.brokenOff = true
		defer func() { t.end(e, r) }()
		next.ServeHTTP(e.sent, own)
		e.brokenOff = false
		if e.record != nil && !e.sent.hijacked && r.ContentLength > 0 && r.ContentLength <= maxUnread &&
			r.Header.Get("Expect") == "" {
			_, _ = io.Copy(io.Discard, e.received) // so that what was refused unread can be seen
		}
		if e.sent.status == 0 && !e.sent.hijacked {
			e.sent.status = http.StatusOK // as net/http has it
		}
	})
}

func (t *traffic) begin(w http.ResponseWriter, r *http.Request) *exchange {
	e := &exchange{
		began: time.Now(), key: t.keyOf(r),
		received: &countingBody{Reader: r.Body}, sent: &countingWriter{ResponseWriter: w, verbatim: t.upstream()},
	}
	e.sent.onFailure = sync.OnceFunc(func() { t.remember(e) })
	if t.bodies != nil {
		e.record = newRecord(r, t.bodies)
		t.withholdAddresses(e.record)
		e.received.copy, e.sent.copy = e.record.requestBody, e.record.responseBody
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	e.request = &request{
		ID: t.last, Call: t.last, Attempt: 1, At: e.began.UnixMilli(),
		Method: method(r.Method), Target: t.masked(target(r, t.bodies == nil)), Pending: true, Proto: r.Proto,
		Conn: r.RemoteAddr, record: e.record,
	}
	e.request.Replays, _ = strconv.ParseInt(r.Header.Get(replayHeader), 10, 64) // 0: none
	if before, failed := t.calls[e.key]; failed && e.began.Sub(before.ended) < retryWindow {
		e.request.Call, e.request.Attempt = before.id, before.attempt+1
		delete(t.calls, e.key)
	}
	t.open[t.last] = e
	t.keep(e.request)
	t.events.publish("request", e.request)
	return e
}

// end tells what became of a request. It stays in the list as a new value: pages may be reading the old one.
func (t *traffic) end(e *exchange, r *http.Request) {
	e.conclude(r)
	over := *e.request
	over.Pending, over.Route, over.Status, over.Fault, over.NoteID = false, e.route, e.sent.status, e.sent.fault,
		e.noteID
	over.Millis = float64(time.Since(e.began).Microseconds()) / 1000
	over.Received, _, _ = e.received.seen()
	over.Sent = e.sent.n
	for _, f := range e.findings {
		over.Findings = append(over.Findings, f.String())
	}
	if t.upstream() {
		t.departures.add(e)
	}
	if e.record != nil {
		over.record = e.record.answered(e.sent.Header())
		t.withholdAddresses(over.record)
		over.record.storage = e.storage
		if e.brokenOff {
			over.record.announced = math.MaxInt64 // more than came, whatever it was
		}
	} else {
		over.detail = describe(e, r)
	}
	t.log.write(entry{
		method: r.Method, route: e.route, status: over.Status, duration: time.Since(e.began),
		received: over.Received, sent: over.Sent, fault: over.Fault, findings: e.findings,
	})

	if retryable(over.Status) || e.brokenOff {
		e.sent.onFailure()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, over.ID)
	if i := t.find(over.ID); i >= 0 {
		t.kept[i] = &over
	}
	t.events.publish("request", &over)
}

// retryable reports whether a client may try again after that status; 0 is no response.
func retryable(status int) bool {
	return status == 0 || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

// remember keeps a failure for the request that may come after it.
func (t *traffic) remember(e *exchange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if len(t.calls) >= keptCalls {
		maps.DeleteFunc(t.calls, func(_ uint64, old call) bool { return now.Sub(old.ended) >= retryWindow })
	}
	if len(t.calls) < keptCalls {
		t.calls[e.key] = call{e.request.Call, e.request.Attempt, now}
	}
}

// keyOf is the same for the attempts of one call: nothing in a request says that it is a retry. Its body is yet to
// come; by their lengths most recordings are known from each other.
func (t *traffic) keyOf(r *http.Request) uint64 {
	return maphash.String(t.seed, strings.Join(
		[]string{r.Method, r.URL.RequestURI(), r.Header.Get("Authorization"), strconv.FormatInt(r.ContentLength, 10)},
		"\n",
	))
}

// find returns where a request is kept, or -1; the caller holds the lock.
func (t *traffic) find(id int64) int {
	i, found := slices.BinarySearchFunc(t.kept, id, compareIDs)
	if !found {
		return -1
	}
	return i
}

// list returns up to limit requests that came after one, oldest first.
func (t *traffic) list(after int64, limit int) []*request {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, found := slices.BinarySearchFunc(t.kept, after, compareIDs)
	if found {
		i++
	}
	later := t.kept[i:]
	return append([]*request{}, later[:min(len(later), limit)]...) // an empty list is a list too
}

func compareIDs(r *request, id int64) int { return cmp.Compare(r.ID, id) }

// opened returns a request that is kept, or nil.
func (t *traffic) opened(id int64) *request {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := t.find(id); i >= 0 {
		return t.kept[i]
	}
	return nil
}

func (t *traffic) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropBodies(t.kept)
	t.kept = nil
	clear(t.calls)
}

// dropBodies forgets the bodies of requests.
func (t *traffic) dropBodies(dropped []*request) {
	for _, r := range dropped {
		if r.record != nil {
			t.bodies.drop(r.record.requestBody, r.record.responseBody)
		}
	}
}

// add keeps a request that came elsewhere.
func (t *traffic) add(r *request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	r.ID, r.Call, r.Attempt = t.last, t.last, 1
	t.keep(r)
}

// keep appends to the list, which has its bounds; the caller holds the lock.
func (t *traffic) keep(r *request) {
	if len(t.kept) >= keptRequests {
		t.dropBodies(t.kept[:keptRequests/10])
		t.kept = slices.Delete(t.kept, 0, keptRequests/10)
	}
	t.kept = append(t.kept, r)
}

// exchangeOf returns the exchange with that id that is not over.
func (t *traffic) exchangeOf(id int64) *exchange {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[id]
}
