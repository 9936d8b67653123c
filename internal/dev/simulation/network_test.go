package simulation

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// faultKind is something that goes wrong on the way.
type faultKind int

const (
	refused        faultKind = iota // no connection
	cut                             // the connection ends within the request
	lost                            // the request arrives nowhere, the connection ends
	unheard                         // the request is carried out, the connection ends
	badGateway                      // 502, carried out or not
	unavailable                     // 503, carried out or not
	gatewayTimeout                  // 504 after a minute: carried out, not, or late
	silent                          // nothing comes back: carried out, not, or late
	tooMany                         // 429
	slow                            // it takes long
	breaksOff                       // the response ends in its middle
	webPage                         // 200 with a page of a proxy: carried out, not, or late
	redirected                      // 302, carried out or not
	garbled                         // a note whose name cannot be read
	mixedUp                         // another patient's notes
	barred                          // 403 or 501 of something in between
	oddPart                         // a note of which one part that it need not have cannot be read
	bloated                         // a list of far too many rows
	queued                          // 202 with the id of a job: carried out, not, or late
	faultKinds
)

func (k faultKind) String() string {
	return [...]string{"refused", "cut", "lost", "unheard", "502", "503", "504", "silent", "429", "slow", "breaks off", "web page", "302", "garbled", "mixed up", "barred", "odd part", "bloated", "queued"}[k]
}

// fate is what becomes of the commit.
type fate int

const (
	atOnce fate = iota
	never
	later
)

func (f fate) String() string { return [...]string{"acts", "does not act", "acts late"}[f] }

// network is the way of one program to the service.
type network struct {
	*being

	life *life // of the process; nil: one that does not die

	mu    sync.Mutex
	asked map[string]int // how often each request was made in the present step
}

// RoundTrip takes a request to the service and its response back, or what a bad day leaves of them.
func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	if n.life != nil {
		if err := n.life.touch(); err != nil {
			return nil, err
		}
	}
	c := callOf(req.Context())
	r := request{
		method: req.Method, path: req.URL.Path, query: req.URL.RawQuery, header: maps.Clone(req.Header), call: c, storage: req.URL.Host == storageHost,
	}
	place := n.place(c, r)
	d := drawsAt(n.world.seed, uint64(n.number), uint64(c.step), hashOf(place))
	t := trip{network: n, request: r, fault: -1, keptAt: new(atomic.Pointer[time.Time])}
	struck, kind := d.chance(n.world.design.rate), pick(d, n.world.design.faults...)
	if again, before := d.chance(0.25), c.latestFault(); before >= 0 && again && !n.world.design.quiet { // trouble seldom comes once
		struck, kind = true, before
	}
	if struck && time.Now().Before(n.world.calm) {
		if n.world.happens(fmt.Sprintf("%s.%d %s", n.name, c.step, place)) {
			t.fault = kind
			n.world.count("fault "+kind.String(), 1)
		}
	}
	t.prepare(d)
	t.drawJob(drawsAt(d.key, hashOf("job")))
	t.meddle(d, place)
	t.request.attempt, t.request.knew = c.asked(r, n.world), c.knows()
	if r.writes() && r.id() != 0 {
		n.world.slot(n.number)
		n.world.service.busy.Store(r.id())
	}
	n.world.checkRequest(c, req)
	began := time.Now()
	resp, err := t.send(req)
	if n.life != nil {
		if err := n.life.touch(); err != nil {
			return nil, err
		}
	}
	c.responded(t, resp, err, time.Since(began))
	return resp, err
}

// place names a request within its step, whatever else is asked for at the same time.
func (n *network) place(c *call, r request) string {
	if r.storage { // its address is never twice the same
		r.path, r.query = "storage", ""
	}
	if n.life != nil { // equal requests at one instant are alike, in whatever order they come
		return fmt.Sprintf("%s %s?%s at %s", r.method, strings.TrimPrefix(r.path, "/v1/progress-notes"), r.query, time.Since(n.world.began))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	key := fmt.Sprintf("%d %s %s?%s", c.step, r.method, r.path, r.query)
	n.asked[key]++
	return fmt.Sprintf("%s %s?%s #%d", r.method, strings.TrimPrefix(r.path, "/v1/progress-notes"), r.query, n.asked[key])
}

// trip is one request on its way.
type trip struct {
	*network
	request request
	fault   faultKind // -1: none
	fate    fate
	latency time.Duration
	late    time.Duration // of a late commit
	copied  bool          // the replica responds to a read
	cached  bool          // a proxy may respond from its cache
	// What the cache gives as the time, without saying how old it is; nil: it says that. A late request may come to the cache
	// when the response is on its way.
	keptAt *atomic.Pointer[time.Time]
	extent int // of what arrives when something is cut, or of what is asked for

	job    int64 // that a response names instead of the note
	spared bool  // the response has nothing that the fault could spoil
}

// prepare makes all choices before the request leaves.
func (t *trip) prepare(d *draws) {
	t.latency = 20*time.Millisecond + d.within(400*time.Millisecond)
	if t.fault == slow {
		t.latency = d.within(50 * time.Second)
	}
	if longest := t.world.design.lists; t.request.lists() && longest > 0 && t.fault < 0 {
		t.latency = drawsAt(d.key, hashOf("list")).within(longest)
		t.world.count("slow lists", 1)
	}
	t.late = min(d.within(t.world.design.late), 10*time.Minute-t.world.design.lag) // replicas have it within Settle
	t.copied = t.world.service.replica != nil && !t.request.writes() && !t.request.storage && !t.request.addresses() && d.chance(0.5)
	t.copied = t.copied && !t.request.call.foreign
	t.cached = t.world.design.cached > 0 && !t.request.call.foreign && t.request.call.op == "find" && t.request.lists()
	t.extent = d.below(1 << 20)
	switch t.fault {
	case lost, tooMany, barred:
		t.fate = never
	case badGateway, unavailable, redirected:
		t.fate = pick(d, atOnce, never)
	case gatewayTimeout, silent, webPage:
		t.fate = pick(d, atOnce, never, later)
	case queued:
		if t.request.creates() {
			t.fate = pick(d, atOnce, never, later)
		}
	default:
		t.fate = atOnce
	}
}

var (
	errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	errReset   = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	errCut     = &net.OpError{Op: "write", Net: "tcp", Err: syscall.ECONNRESET}
)

func (t *trip) send(req *http.Request) (*http.Response, error) {
	ctx, trace := req.Context(), traceOf(req)
	trace.GetConn(req.URL.Host)
	if t.fault == refused {
		t.say("-> %s: refused", t.label())
		return nil, cmp.Or[error](wait(ctx, t.latency), errRefused)
	}
	trace.WroteHeaders()
	if req.Body != nil {
		defer func() { _ = req.Body.Close() }()
		limit := int64(1 << 30)
		if t.fault == cut {
			limit = int64(t.extent % 600)
		}
		body, err := t.read(ctx, io.LimitReader(req.Body, limit))
		if err != nil {
			return nil, err
		}
		t.request.body = body
	}
	if t.fault == cut {
		t.say("-> %s: cut", t.label())
		return nil, cmp.Or[error](wait(ctx, t.latency), errCut)
	}
	trace.WroteRequest(httptrace.WroteRequestInfo{})
	return t.travel(ctx)
}

// read takes in what is sent, a piece at a time where uploads take long.
func (t *trip) read(ctx context.Context, body io.Reader) (all []byte, err error) {
	const pieces, size = 20, 64
	longest := t.world.design.uploads
	if t.request.method != http.MethodPost || longest == 0 {
		return io.ReadAll(body)
	}
	t.world.count("long uploads", 1)
	pause := time.Duration(t.extent%pieces) * longest / (pieces * pieces)
	for range pieces {
		piece, err := io.ReadAll(io.LimitReader(body, size))
		if all = append(all, piece...); err != nil || len(piece) < size {
			return all, err
		}
		if err := wait(ctx, pause); err != nil {
			return all, err
		}
	}
	rest, err := io.ReadAll(body)
	return append(all, rest...), err
}

// travel lets the whole request go: from here on nobody can call it back.
func (t *trip) travel(ctx context.Context) (*http.Response, error) {
	t.request.sent = time.Now()
	response := make(chan *http.Response, 1)
	t.world.running.Go(func() { response <- t.arrive() }) //nolint:bodyclose // it is in memory
	timer := time.NewTimer(t.delay())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		t.say("-> %s: given up", t.label())
		return nil, ctx.Err()
	}
	switch t.fault {
	case lost, unheard:
		return nil, errReset
	case badGateway:
		return t.dated(respond(502, "text/html", "bad gateway")), nil
	case unavailable:
		return t.dated(respond(503, "text/html", "unavailable")), nil
	case gatewayTimeout:
		return t.dated(respond(504-96*(t.extent%2), "text/html", "gateway timeout")), nil // 408 is what some say instead
	case webPage:
		return t.dated(respond(200, "text/html", "<html>welcome</html>")), nil
	case redirected:
		return t.dated(respond(302, "text/html", "")), nil
	case barred:
		return t.dated(respond(403+98*(t.extent%2), "text/html", "<html>no</html>")), nil
	case tooMany:
		resp := t.dated(respond(429, "application/json", `{"message":"`+textMark+` too many"}`))
		resp.Header.Set("Retry-After", strconv.Itoa(1+t.extent%20))
		return resp, nil
	case silent:
		<-ctx.Done()
		return nil, ctx.Err()
	case queued:
		if t.request.creates() {
			return t.dated(t.jobResponse()), nil
		}
		return t.dated(<-response), nil
	default:
		return t.spoilt(t.dated(<-response)), nil
	}
}

// spoilt is the service's own response as it arrives.
func (t *trip) spoilt(resp *http.Response) *http.Response {
	switch t.fault {
	case breaksOff, garbled, mixedUp, oddPart, bloated:
	default:
		return resp
	}
	whole, _ := io.ReadAll(resp.Body)
	if t.fault == breaksOff {
		if t.request.storage {
			t.request.call.broken()
		}
		resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(whole[:t.extent%(len(whole)+1)]), brokenReader{}))
		return resp
	}
	resp.ContentLength = -1
	switch t.fault {
	case garbled:
		garbled := nameMember.ReplaceAll(whole, []byte(`"name":{"text":17}`))
		t.spared, whole = bytes.Equal(garbled, whole), garbled
	case oddPart:
		whole = partMember.ReplaceAll(whole, []byte(`"template":17`))
	case bloated:
		if t.request.lists() && t.request.call.op == "list" && resp.StatusCode == http.StatusOK {
			t.request.call.bloated = true
			whole = []byte(`{"data":[` + strings.Repeat(`{"id":1,"name":"x"},`, 100_000) + `{"id":1,"name":"x"}]}`)
		}
	default:
		whole = patientMember.ReplaceAll(whole, []byte(`"patient":{"id":666`))
	}
	resp.Body = io.NopCloser(bytes.NewReader(whole))
	return resp
}

// delay is how long the program waits at least.
func (t *trip) delay() time.Duration {
	if t.fault == gatewayTimeout || t.fault == silent {
		return 59 * time.Second
	}
	return t.latency
}

// arrive is the request at the service.
func (t *trip) arrive() *http.Response {
	number := t.number
	switch t.fate {
	case never:
		t.say("-> %s: %s, does not act", t.label(), t.faultName())
		return nil
	case later:
		time.Sleep(t.late)
		number += 32
		t.world.count("late commits", 1)
	default:
		time.Sleep(t.latency / 2)
	}
	t.world.slot(number)
	resp := t.serve()
	if t.world.mute {
		return resp
	}
	t.say("-> %s: %s%s, %d%s", t.label(), t.faultName(), t.fate, resp.StatusCode, t.rows(resp))
	return resp
}

// rowMember is the id of a note, which its name follows.
var rowMember = regexp.MustCompile(`"id":(\d+),"name":"[^"]*` + nameMark)

// rows are the ids of a list.
func (t *trip) rows(resp *http.Response) string {
	if !t.request.lists() || resp.StatusCode != http.StatusOK {
		return ""
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	text := ", notes"
	for _, row := range rowMember.FindAllSubmatch(body, -1) {
		text += " " + string(row[1])
	}
	if t.copied {
		text += " by the replica"
	}
	return text
}

func (t *trip) serve() *http.Response {
	s := t.world.service
	switch {
	case t.copied:
		t.world.count("reads of a replica", 1)
		resp := t.mannered(handle(s.replica, t.request))
		t.request.call.shown(t.request, resp, time.Now().Add(-t.world.design.lag))
		return resp
	case t.cached:
		return t.fromCache(func() *http.Response { return t.mannered(s.serve(t.request)) })
	}
	t.misplace()
	resp := t.refusal()
	if resp == nil {
		resp = s.serve(t.request)
	}
	resp = t.mannered(resp)
	if t.request.compares() {
		resp = t.fromStorage(resp)
	}
	t.request.call.shown(t.request, resp, time.Now())
	return resp
}

// dated gives a response the time of day that its sender believes in.
func (t *trip) dated(resp *http.Response) *http.Response {
	now := time.Now().Add(t.world.design.clock)
	if kept := t.keptAt.Load(); kept != nil {
		now = kept.Add(t.world.design.clock)
	}
	if age, err := strconv.Atoi(resp.Header.Get("Age")); err == nil {
		now = now.Add(-time.Duration(age) * time.Second)
	}
	switch t.world.design.date {
	case serviceDate:
	case noDate:
		resp.Header.Del("Date")
		return resp
	case skewedDate:
		now = now.Add(t.world.design.skew)
	case stillDate:
		now = t.world.began.Add(t.world.design.clock)
	}
	resp.Header.Set("Date", now.UTC().Format(http.TimeFormat))
	return resp
}

func (t *trip) label() string {
	if t.request.storage {
		return t.request.method + " storage"
	}
	query := t.request.query
	if query != "" {
		query = "?" + query
	}
	return t.request.method + " " + t.request.path + query
}

func (t *trip) faultName() string {
	if t.fault < 0 {
		return ""
	}
	return t.fault.String() + ", "
}

func (t *trip) say(format string, args ...any) { t.world.say(t.name, format, args...) }

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// traceOf returns the hooks of whoever traces the request. Those that a trip calls are there in any case.
func traceOf(req *http.Request) *httptrace.ClientTrace {
	return httptrace.ContextClientTrace(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GetConn:      func(string) {},
		WroteHeaders: func() {},
		WroteRequest: func(httptrace.WroteRequestInfo) {},
	}))
}

const loginPath = "/login"

func respond(status int, contentType, body string) *http.Response {
	resp := &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)),
	}
	if status/100 == 3 {
		resp.Header.Set("Location", loginPath)
	}
	return resp
}

// wait returns nil when the time has passed, or why it did not.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
