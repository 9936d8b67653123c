package jetstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// machine works in a fleet, one process after the other.
type machine struct {
	world  *world
	number int
	clock  skew

	mu        sync.Mutex
	random    *rand.Rand // of its requests
	noEngine  time.Time  // until when it is cut off
	noService time.Time
	stopped   time.Time // until when it does nothing
}

func newMachine(w *world, number int) *machine {
	m := &machine{world: w, number: number, random: rand.New(rand.NewPCG(w.seed, uint64(100+number)))}
	m.clock = skew(choice(m.random, 0, 0, 20*time.Second, -20*time.Second, time.Hour, -time.Hour))
	return m
}

// life is one process of a machine. A dead one stands still where it touches the world, until that is over.
type life struct {
	machine *machine
	number  int
	clock   skew
	dead    chan struct{}
	wrote   map[ingest.Key]written // last; guarded by world.mu

	mu    sync.Mutex
	fuse  int           // after so many steps it dies, or stops; 0: never
	dies  bool          // else it stops, for longer than its lease
	burnt chan struct{} // closed when that happens
}

// written is when a process wrote a record of its own, and when it had sent the recording then.
type written struct{ at, sent time.Time }

func (l *life) String() string { return fmt.Sprintf("m%d.%d", l.machine.number, l.number) }

// touch lets a living process pass, when it is not stopped.
func (l *life) touch() error {
	l.burn()
	for {
		select {
		case <-l.dead:
			<-l.machine.world.over
			return errDead
		default:
		}
		l.machine.mu.Lock()
		rest := time.Until(l.machine.stopped)
		l.machine.mu.Unlock()
		if rest <= 0 {
			return nil
		}
		time.Sleep(rest)
	}
}

func (l *life) burn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fuse--; l.fuse != 0 {
		return
	}
	l.machine.world.say("%s ends, dies: %t", l, l.dies)
	if l.dies {
		close(l.dead)
	} else {
		l.machine.mu.Lock()
		l.machine.stopped = time.Now().Add(3 * defaultLease)
		l.machine.mu.Unlock()
	}
	close(l.burnt)
}

// live lets things happen to the machine until it is calm. A clock is set between two processes: what one has read by
// its old clock would here be moved with it.
func (m *machine) live(ctx context.Context) {
	w, r := m.world, rand.New(rand.NewPCG(m.world.seed, uint64(10+m.number)))
	number := 1
	current := m.newLife(number)
	current.work(ctx)
	for {
		time.Sleep(anytime(r, 2*w.design.scale))
		if !time.Now().Before(w.calm) {
			return
		}
		length := anytime(r, choice(r, 10*time.Second, 45*time.Second, 3*time.Minute))
		until := time.Now().Add(length)
		if until.After(w.calm) {
			until = w.calm
		}
		what := choice(r, "killed", "stopped", "cut off from the engine", "cut off from the service", "cut off", "set anew")
		w.count(what)
		w.say("%s: %s, %s", current, what, length)
		m.mu.Lock()
		switch what {
		case "stopped":
			m.stopped = until
		case "cut off from the engine":
			m.noEngine = until
		case "cut off from the service":
			m.noService = until
		case "cut off":
			m.noEngine, m.noService = until, until
		}
		m.mu.Unlock()
		if what != "killed" && what != "set anew" {
			continue
		}
		close(current.dead)
		time.Sleep(time.Until(until))
		if what == "set anew" && w.design.steps {
			m.clock = skew(choice(r, 0, 30*time.Second, -30*time.Second, time.Hour, -time.Hour))
		}
		number++
		current = m.newLife(number)
		current.work(ctx)
	}
}

func (m *machine) newLife(number int) *life {
	return &life{machine: m, number: number, clock: m.clock, wrote: map[ingest.Key]written{}, dead: make(chan struct{}), burnt: make(chan struct{})}
}

// join connects a process with the engine and the service.
func (l *life) join() (*Fleet, *ingest.Uploader) {
	w, e := l.machine.world, l.machine.world.engine.another()
	f := e.fleet(defaultLease)
	e.clock, e.carry = l.clock, l.carry
	e.wrote = func(key string, value []byte) {
		var r record
		if strings.HasPrefix(key, "r.") && json.Unmarshal(value, &r) == nil && r.Owner != "" {
			w.mu.Lock()
			w.owners[r.Owner] = l
			l.wrote[r.Entry.Key] = written{time.Now(), r.Entry.SentAt}
			w.mu.Unlock()
		}
	}
	client, err := clinicaldoc.NewClient(w.box.URL, "synthetic", clinicaldoc.WithHTTPClient(&http.Client{Transport: l}), clinicaldoc.WithInsecureHTTP())
	if err != nil {
		w.violate("no client: %v", err)
	}
	return f, &ingest.Uploader{Client: client, Workers: w.design.workers}
}

// work starts the process.
func (l *life) work(ctx context.Context) {
	w := l.machine.world
	f, uploader := l.join() //nolint:contextcheck // nothing is asked for
	w.running.Go(func() {
		for result, err := range f.Work(ctx, uploader) {
			switch {
			case err != nil && l.alive():
				w.violate("%s ends: %v", l, err)
			case err == nil:
				w.say("%s: %s %s %s, note %d, rest %s: %v", l, result.Recording.Key, result.Status, result.Ending, result.NoteID, result.Rest, result.Err)
				w.count(result.Status.String())
			}
		}
	})
}

func (l *life) alive() bool {
	select {
	case <-l.dead:
		return false
	case <-l.machine.world.over:
		return false
	default:
		return true
	}
}

// draw makes the choices for a request.
func (m *machine) draw(choose func(*rand.Rand)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	choose(m.random)
}

// happens lets something happen to the machine sometimes, for a while, where it is worst.
func (m *machine) happens(chance float64, what func(until time.Time)) {
	m.draw(func(r *rand.Rand) {
		if length := anytime(r, 100*time.Second); r.Float64() < chance && time.Now().Add(length).Before(m.world.calm) {
			what(time.Now().Add(length))
		}
	})
}

var errNoConnection = errors.New("synthetic: no connection to the engine")

// silence is what a request hears that is lost.
func silence(ctx context.Context) error {
	if !sleep(ctx, 7*time.Second) {
		return ctx.Err()
	}
	return errNoConnection
}

// carry takes a request to the engine: it may be lost on its way, carried out unheard, or carried out later.
func (l *life) carry(ctx context.Context, op string, effect func() error) error {
	if err := l.touch(); err != nil {
		return err
	}
	m, w := l.machine, l.machine.world
	var there, back, late time.Duration
	var fate float64
	quick := false
	m.draw(func(r *rand.Rand) {
		there, back, late = anytime(r, 20*time.Millisecond), anytime(r, 20*time.Millisecond), anytime(r, 8*time.Second)
		fate, quick = r.Float64(), r.IntN(2) == 0
		if time.Now().Before(m.noEngine) {
			fate = -1
		}
	})
	rate := w.design.rate
	if !time.Now().Before(w.calm) {
		rate = 0
	}
	switch {
	case fate < 0 && quick:
		return errNoConnection
	case fate < rate/3:
		w.count("engine: request lost")
		return silence(ctx)
	case !sleep(ctx, there):
		return ctx.Err()
	case fate < rate*2/3 && op != "get" && op != "info" && op != "stream" && op != "next":
		w.count("engine: carried out later")
		w.running.Go(func() {
			time.Sleep(late)
			_ = effect()
		})
		return silence(ctx)
	}
	err := effect()
	if fate < rate {
		w.count("engine: response lost")
		return silence(ctx)
	}
	if op == "create" || op == "update" {
		m.happens(0.03, func(until time.Time) { m.stopped = until }) // when it has just committed, perhaps
	}
	if !sleep(ctx, back) {
		return ctx.Err()
	}
	if dead := l.touch(); dead != nil {
		return dead
	}
	return err
}

var whichSound = regexp.MustCompile(`RIFF synthetic (\d{5})`)

var (
	errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	errReset   = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
)

// RoundTrip takes a request to the service.
func (l *life) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := l.touch(); err != nil {
		return nil, err
	}
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil && trace.GetConn != nil {
		trace.GetConn(req.URL.Host)
	}
	m, w := l.machine, l.machine.world
	var latency, late, piece time.Duration
	var fate float64
	kind := 0
	m.draw(func(r *rand.Rand) {
		latency, late, piece = anytime(r, 300*time.Millisecond), anytime(r, w.design.late), anytime(r, w.design.upload)
		fate, kind = r.Float64(), r.IntN(7)
	})
	cut := func() bool { m.mu.Lock(); defer m.mu.Unlock(); return time.Now().Before(m.noService) }
	failed := fate < w.design.rate && time.Now().Before(w.calm)
	if cut() || failed && kind == 0 {
		_ = sleep(req.Context(), latency)
		return nil, errRefused
	}
	body, err := l.read(req, piece, failed && kind == 1)
	if err != nil {
		return nil, err
	}
	sound := -1
	if found := whichSound.FindSubmatch(body); req.Method == http.MethodPost && found != nil {
		sound, _ = strconv.Atoi(string(found[1]))
		w.leaves(sound, l)
	}
	response := make(chan *http.Response, 1)
	act := func() { response <- l.arrive(req, body, sound) } //nolint:bodyclose // it is in memory
	switch {
	case failed && kind == 2: // it never arrives
	case failed && kind == 3: // it is carried out later, when nobody waits for it any more
		w.count("service: carried out later")
		w.running.Go(func() { time.Sleep(late); act() })
	default:
		w.running.Go(func() { time.Sleep(latency / 2); act() })
	}
	if !sleep(req.Context(), latency) {
		return nil, req.Context().Err()
	}
	if err := l.touch(); err != nil {
		return nil, err
	}
	switch {
	case cut() || failed && kind <= 4:
		w.count("service: response lost")
		_ = sleep(req.Context(), latency*20)
		return nil, errReset
	case failed:
		return &http.Response{StatusCode: 502 + kind%2, Request: req, Header: http.Header{"Content-Type": {"text/html"}}, Body: io.NopCloser(strings.NewReader("synthetic"))}, nil
	}
	resp := <-response
	if sound >= 0 {
		m.happens(0.2, func(until time.Time) { m.noEngine = until }) // when its note is to be written down
	}
	if resp == nil {
		return nil, errReset
	}
	l.clock.date(resp.Header)
	return resp, nil
}

// read takes what is sent, piece by piece.
func (l *life) read(req *http.Request, each time.Duration, cut bool) (body []byte, err error) {
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil && trace.WroteHeaders != nil {
		trace.WroteHeaders()
	}
	if req.Body == nil {
		return nil, nil
	}
	defer func() { _ = req.Body.Close() }()
	for {
		piece, err := io.ReadAll(io.LimitReader(req.Body, 150))
		if body = append(body, piece...); err != nil {
			return body, err
		}
		if len(piece) < 150 {
			return body, nil
		}
		if cut && len(body) > 300 {
			return body, errReset
		}
		if req.Method == http.MethodPost && !sleep(req.Context(), each) {
			return body, req.Context().Err()
		}
		if err := l.touch(); err != nil {
			return body, err
		}
	}
}

// arrive is the request at the service.
func (l *life) arrive(req *http.Request, body []byte, sound int) *http.Response {
	w := l.machine.world
	recorder := httptest.NewRecorder()
	at := &http.Request{
		Method: req.Method, URL: &url.URL{Path: req.URL.Path, RawQuery: req.URL.RawQuery}, Header: req.Header.Clone(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Host: req.URL.Host,
	}
	switch status := w.refuses(sound); status {
	case statusLost:
		return nil
	case 0:
		w.box.Handler().ServeHTTP(recorder, at)
	default:
		recorder.Header().Set("Content-Type", "application/json")
		recorder.WriteHeader(status)
		_, _ = recorder.WriteString(`{"message":"synthetic","errors":{"file":["synthetic"]}}`)
	}
	resp := recorder.Result()
	resp.Request = req
	if sound >= 0 && resp.StatusCode == http.StatusCreated {
		w.say("%s: recording %d has a note", l, sound)
		w.mu.Lock()
		w.births[sound]++
		w.mu.Unlock()
	}
	resp.Header.Set("Date", w.box.Now().UTC().Format(http.TimeFormat))
	if strings.Contains(resp.Header.Get("Content-Type"), "json") {
		text, _ := io.ReadAll(resp.Body)
		text = l.clock.read(text)
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		resp.Header.Del("Content-Length")
	}
	return resp
}
