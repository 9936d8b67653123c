package main

import (
	"bytes"
	"context"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxLate is how late the gateway passes on what it has given up.
const maxLate = 3 * time.Second

// gateway stands before the box as a proxy with a queue does: of some changes it says that they took too long, or drops the
// connection, and passes them on later all the same.
type gateway struct {
	address string // where it listens
	target  string // the box's
	server  *http.Server
	inner   *http.Transport
	late    sync.WaitGroup // under way although nobody waits for them
	over    chan struct{}  // closed when what is late has to go now

	mu      sync.Mutex
	rng     *rand.Rand
	delayed int
}

func newGateway(seed uint64, target string) (*gateway, error) {
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &gateway{
		address: listener.Addr().String(), target: target, over: make(chan struct{}),
		inner: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}, rng: rand.New(rand.NewPCG(seed, 1)),
	}
	g.server = &http.Server{Handler: g, ReadHeaderTimeout: time.Minute}
	go func() { _ = g.server.Serve(listener) }()
	return g, nil
}

// fate says what becomes of a request: how late it is, 0 for not at all, and whether the client is told.
func (g *gateway) fate(method string) (late time.Duration, told bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if method == http.MethodGet || g.rng.IntN(100) >= 6 {
		return 0, false
	}
	g.delayed++
	return 1 + rand.N(maxLate), g.rng.IntN(2) == 0
}

// ServeHTTP takes the whole request first, so that nothing incomplete reaches the box.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	late, told := g.fate(r.Method)
	if late == 0 {
		g.pass(w, r, body)
		return
	}
	method, uri, header := r.Method, r.URL.RequestURI(), r.Header.Clone()
	g.late.Go(func() { //nolint:contextcheck // a late commit outlives its request
		select {
		case <-time.After(late):
		case <-g.over:
		}
		if resp, err := g.forward(context.Background(), method, uri, header, body); err == nil {
			_ = resp.Body.Close()
		}
	})
	if !told {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(http.StatusGatewayTimeout)
}

func (g *gateway) pass(w http.ResponseWriter, r *http.Request, body []byte) {
	resp, err := g.forward(context.WithoutCancel(r.Context()), r.Method, r.URL.RequestURI(), r.Header, body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

func (g *gateway) forward(ctx context.Context, method, uri string, header http.Header, body []byte) (*http.Response, error) {
	out, err := http.NewRequestWithContext(ctx, method, "http://"+g.target+uri, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	out.Header = header.Clone()
	out.Header.Del("Expect")
	return g.inner.RoundTrip(out)
}

// close lets everything that is late go now, and ends when it has arrived.
func (g *gateway) close() {
	close(g.over)
	g.late.Wait()
	_ = g.server.Close()
	g.inner.CloseIdleConnections()
}
