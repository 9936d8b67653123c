package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/description"
)

const (
	maxChecked    = 8 << 20
	shutdownGrace = 5 * time.Second
)

// serveUpstream passes requests on to a real service until the context ends.
func serveUpstream(ctx context.Context, set settings, stdout, stderr io.Writer) error {
	upstream, err := parseUpstream(set.upstream)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", set.addr)
	if err != nil {
		return err
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second, ExpectContinueTimeout: time.Second,
	}
	defer transport.CloseIdleConnections()
	requests := newRequestLog(stderr)
	if set.quiet {
		requests = newRequestLog(io.Discard)
	}
	proxy := &upstreamProxy{requests: requests, seen: map[sighting]int{}}
	server := &http.Server{Handler: proxy.handler(upstream, transport), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if _, err := fmt.Fprintf(stdout, `Passing requests on to %s://%s. Interrupt for the summary.

  base URL  http://%s

Use the service's own token; it goes to that service only. Answers are held
against the service's description, and only paths and types are reported.

`, upstream.Scheme, upstream.Host, listener.Addr()); err != nil {
		_ = server.Close()
		return err
	}

	select {
	case <-ctx.Done():
	case err = <-served:
		return err
	}
	graceful, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := server.Shutdown(graceful); err != nil {
		_ = server.Close() // whoever is still talking has had the grace period
	}
	_, err = io.WriteString(stdout, proxy.summary())
	return err
}

// parseUpstream refuses what would send a token in the clear.
func parseUpstream(text string) (*url.URL, error) {
	upstream, err := url.Parse(text)
	if err != nil || upstream.Host == "" || upstream.User != nil || upstream.RawQuery != "" {
		return nil, errors.New("-upstream must be a base URL such as https://service.example")
	}
	ip := net.ParseIP(upstream.Hostname())
	local := upstream.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	if upstream.Scheme != "https" && (upstream.Scheme != "http" || !local) {
		return nil, errors.New("-upstream must be https, or http on this machine")
	}
	return upstream, nil
}

// upstreamProxy reports what it passes on.
type upstreamProxy struct {
	requests *requestLog
	mu       sync.Mutex
	seen     map[sighting]int
	all      int
}

// sighting is a finding and where it was made.
type sighting struct {
	route string
	finding
}

// exchange is one request on its way through the proxy.
type exchange struct {
	route    string
	status   int
	findings []finding
}

type exchangeKey struct{}

// handler forwards requests. Redirects are passed back, never followed, so a
// caller's token reaches the upstream alone.
func (p *upstreamProxy) handler(upstream *url.URL, transport http.RoundTripper) http.Handler {
	routes := routeFinder()
	forward := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // what arrives is passed on at once, also when the rest never comes
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(upstream)
			r.Out.Header.Del("Accept-Encoding") // the transport unpacks what it asks for itself
		},
		ModifyResponse: func(resp *http.Response) error {
			if passing, ok := resp.Request.Context().Value(exchangeKey{}).(*exchange); ok {
				passing.inspect(resp)
			}
			return nil
		},
		ErrorLog: log.New(io.Discard, "", 0), // what breaks off is a finding
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, `{"message":"The upstream service could not be reached or broke off"}`)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		passing := &exchange{route: routes(r)}
		received := &countingBody{ReadCloser: r.Body}
		r.Body = received
		sent := &countingWriter{ResponseWriter: w}
		defer func() { // also when the answer breaks off
			p.report(passing, entry{
				method: r.Method, route: passing.route, status: cmp.Or(passing.status, http.StatusBadGateway),
				duration: time.Since(began), received: received.n.Load(), sent: sent.n, findings: passing.findings,
			})
		}()
		forward.ServeHTTP(sent, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, passing)))
	})
}

// routeFinder returns a function that names a request's route.
func routeFinder() func(*http.Request) string {
	mux := http.NewServeMux()
	for route := range description.Endpoints {
		mux.Handle(route, http.NotFoundHandler())
	}
	return func(r *http.Request) string {
		_, route := mux.Handler(r)
		if _, known := description.Endpoints[route]; !known {
			return ""
		}
		return route
	}
}

// inspect reads an answer's JSON, checks it and puts it back.
func (e *exchange) inspect(resp *http.Response) {
	e.status = resp.StatusCode
	if resp.Request.Method == http.MethodHead {
		return
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxChecked+1))
	resp.Body = rejoined{io.MultiReader(bytes.NewReader(body), resp.Body), resp.Body}
	switch {
	case err != nil:
		e.findings = []finding{{what: "the answer broke off"}}
	case len(body) > maxChecked:
		e.findings = []finding{{what: "too large to check"}}
	default:
		e.findings = checkAnswer(e.route, resp.StatusCode, resp.Header.Get("Content-Type"), body)
	}
}

// rejoined is a body of which a part was read ahead. An error that was met
// doing so comes again: a response's body remembers it.
type rejoined struct {
	io.Reader
	io.Closer
}

func (p *upstreamProxy) report(passing *exchange, e entry) {
	p.requests.write(e)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all++
	for _, f := range passing.findings {
		p.seen[sighting{cmp.Or(passing.route, "(unknown path)"), f}]++
	}
}

// summary lists every kind of departure that was seen.
func (p *upstreamProxy) summary() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var text strings.Builder
	fmt.Fprintf(&text, "%d requests; ", p.all)
	if len(p.seen) == 0 {
		text.WriteString("every answer was as described.\n")
		return text.String()
	}
	text.WriteString("departures from the description:\n")
	ordered := slices.SortedFunc(maps.Keys(p.seen), func(a, b sighting) int {
		return cmp.Or(cmp.Compare(a.route, b.route), cmp.Compare(a.String(), b.String()))
	})
	route := ""
	for _, s := range ordered {
		if s.route != route {
			route = s.route
			fmt.Fprintf(&text, "\n  %s\n", route)
		}
		fmt.Fprintf(&text, "    %s (%d times)\n", s.finding, p.seen[s])
	}
	return text.String()
}

// countingBody counts atomically: the transport may still read from it when
// the upstream has answered.
type countingBody struct {
	io.ReadCloser
	n atomic.Int64
}

func (b *countingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.Add(int64(n))
	return n, err
}

type countingWriter struct {
	http.ResponseWriter
	n int64
}

// Unwrap lets the reverse proxy flush.
func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.n += int64(n)
	return n, err
}
