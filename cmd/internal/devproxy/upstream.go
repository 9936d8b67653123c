package devproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
	"github.com/clinicaldoc/clinicaldoc-go/internal/description"
	origin "github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

const shutdownGrace = 5 * time.Second

// serveUpstream passes requests on to a real service until the context ends.
func serveUpstream(ctx context.Context, set settings, stdout, stderr io.Writer) error {
	upstream, err := parseUpstream(set.upstream)
	if err != nil {
		return err
	}
	way, err := newWay(upstream, set)
	if err != nil {
		return err
	}
	defer way.faults.Close()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", set.addr)
	if err != nil {
		return err
	}
	transport := newTransport()
	defer transport.CloseIdleConnections()
	pages := newEvents()
	var kept *bodies
	warning := "with the service's description, and only paths and types are reported."
	if set.showBodies {
		kept = &bodies{}
		warning = `with the service's description.

BODIES ARE SHOWN: the inspector keeps patients' data in memory and shows it on its page.`
	}
	followed := newTraffic(set.log(stderr), pages, &way.departures, kept)
	server := &http.Server{
		Handler:           front(set.inspector(followed, way), followed.watch(way.handler(transport))),
		ReadHeaderTimeout: time.Minute,
	}
	server.RegisterOnShutdown(pages.close)
	server.RegisterOnShutdown(way.faults.Close) // which ends delays and silence
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	address := boxlink.Listening(listener.Addr(), set.host)
	if _, err := fmt.Fprintf(stdout, `Forwarding requests to %s://%s. Interrupt for the summary.

  base URL  %s
%s
Use the service's own token; it is sent only to that service. Responses are compared
%s

`, upstream.Scheme, upstream.Host, address, set.pageLine(address), warning); err != nil {
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
	_, err = io.WriteString(stdout, way.departures.summary())
	return err
}

// newTransport reaches the service as a program would. Idle connections are closed early. If a service closes one
// just when a request is sent, the proxy would lose a request that a direct connection would not have lost.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, DisableCompression: true,
		MaxIdleConnsPerHost: 100, IdleConnTimeout: 2 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second, ExpectContinueTimeout: time.Second,
	}
}

// parseUpstream refuses what would send a token in the clear.
func parseUpstream(text string) (*url.URL, error) {
	upstream, err := url.Parse(text)
	if err != nil || upstream.Host == "" || upstream.User != nil || upstream.RawQuery != "" {
		return nil, errors.New("-upstream must be a base URL such as https://service.example")
	}
	if upstream.Scheme != "https" && (upstream.Scheme != "http" || !origin.Loopback(upstream)) {
		return nil, errors.New("-upstream must be https, or http on this machine")
	}
	return upstream, nil
}

// way is the way to a real service, on which requests can meet faults and responses are held against the description.
type way struct {
	upstream   *url.URL
	routeOf    func(*http.Request) string
	faults     *clinicaldoctest.Server // only its faults are used
	departures departures
	showBodies bool
}

func newWay(upstream *url.URL, set settings) (*way, error) {
	w := &way{
		upstream: upstream, showBodies: set.showBodies, routeOf: routeFinder(),
		faults: clinicaldoctest.NewServer(clinicaldoctest.InProcess()),
	}
	for _, f := range set.faults {
		if err := f.onlyInTheBox(); err != nil {
			w.faults.Close()
			return nil, err
		}
		w.faults.Inject(f.route, f.Fault)
	}
	return w, nil
}

// handler passes requests on as they came, and responses as they come back. Redirects are passed back, never followed,
// so a caller's token reaches the upstream alone.
func (w *way) handler(transport http.RoundTripper) http.Handler {
	forward := forwarder(w.upstream, transport)
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		e := exchangeIn(r.Context())
		e.route = w.routeOf(r)
		w.faults.Handler().ServeHTTP(rw, r.WithContext(boxlink.PassOn(r.Context(), forward)))
	})
}

// forwardingHeaders tell of proxies on the way here; ReverseProxy drops them unless told otherwise.
var forwardingHeaders = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

func forwarder(upstream *url.URL, transport http.RoundTripper) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // what arrives is passed on at once, also when the rest never comes
		Rewrite: func(r *httputil.ProxyRequest) {
			// ReverseProxy drops what it cannot parse, and a service would list everybody's notes for lack of a filter.
			r.Out.URL.RawQuery, r.Out.URL.ForceQuery = r.In.URL.RawQuery, r.In.URL.ForceQuery
			r.SetURL(upstream)
			for _, name := range forwardingHeaders {
				if values, given := r.In.Header[name]; given {
					r.Out.Header[name] = values
				}
			}
		},
		ModifyResponse: func(resp *http.Response) error {
			exchangeIn(resp.Request.Context()).inspect(resp)
			return nil
		},
		ErrorLog: log.New(io.Discard, "", 0), // what breaks off is a finding
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, _ error) {
			passing := exchangeIn(r.Context())
			passing.unreachable = true
			if passing.hungUp(r) {
				panic(http.ErrAbortHandler) // nobody is left to read a response
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, `{"message":"The upstream service could not be reached, or ended the connection"}`)
		},
	}
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
