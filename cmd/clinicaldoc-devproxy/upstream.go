package main

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

	"github.com/clinicaldoc/clinicaldoc-go/internal/description"
	"github.com/clinicaldoc/clinicaldoc-go/internal/origin"
)

const shutdownGrace = 5 * time.Second

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
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, DisableCompression: true,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second, ExpectContinueTimeout: time.Second,
	}
	defer transport.CloseIdleConnections()
	requests := newRequestLog(stderr)
	if set.quiet {
		requests = newRequestLog(io.Discard)
	}
	proxy := &upstreamProxy{requests: requests}
	server := &http.Server{Handler: proxy.handler(upstream, transport), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if _, err := fmt.Fprintf(stdout, `Passing requests on to %s://%s. Interrupt for the summary.

  base URL  %s

Use the service's own token; it goes to that service only. Responses are held
against the service's description, and only paths and types are reported.

`, upstream.Scheme, upstream.Host, origin.Listening(listener.Addr(), set.host)); err != nil {
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
	_, err = io.WriteString(stdout, proxy.departures.summary())
	return err
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

// upstreamProxy reports what it passes on.
type upstreamProxy struct {
	requests   *requestLog
	departures departures
}

// handler passes requests on as they came, and responses as they come back. Redirects are passed back, never followed, so
// a caller's token reaches the upstream alone.
func (p *upstreamProxy) handler(upstream *url.URL, transport http.RoundTripper) http.Handler {
	forward := forwarder(upstream, transport)
	routes := routeFinder()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		passing := &exchange{
			route: routes(r), began: time.Now(),
			received: &countingBody{ReadCloser: r.Body}, sent: &countingWriter{ResponseWriter: w},
		}
		// net/http must keep the body that it knows, or it holds a refusal back until an announced body has come.
		own := r.WithContext(context.WithValue(r.Context(), exchangeKey{}, passing))
		own.Body = passing.received
		defer func() { // also when the response breaks off
			passing.conclude(r)
			p.requests.write(entry{
				method: r.Method, route: passing.route, status: passing.sent.status, duration: time.Since(passing.began),
				received: passing.received.n.Load(), sent: passing.sent.n, findings: passing.findings,
			})
			p.departures.add(passing)
		}()
		forward.ServeHTTP(passing.sent, own)
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
			if passing, ok := resp.Request.Context().Value(exchangeKey{}).(*exchange); ok {
				passing.inspect(resp)
			}
			return nil
		},
		ErrorLog: log.New(io.Discard, "", 0), // what breaks off is a finding
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, _ error) {
			if passing, ok := r.Context().Value(exchangeKey{}).(*exchange); ok {
				passing.unreachable = true
				if passing.hungUp(r) {
					panic(http.ErrAbortHandler) // nobody is left to read a response
				}
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, `{"message":"The upstream service could not be reached or broke off"}`)
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
