package devproxy

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	origin "github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

// maxControlBody bounds what a control takes; a seed can be long.
const maxControlBody = 4 << 20

// pagePath is where the inspector and its controls live. Nothing below it is ever passed on to a service.
const pagePath = "/_/"

//go:embed page
var pageFiles embed.FS

// inspector is the page at /_/ and the controls behind it.
type inspector struct {
	traffic  *traffic
	events   *events
	controls controls
}

// control is one thing that can be changed while the proxy runs: it takes the request's JSON and returns what to
// respond.
type control func(body []byte) (any, error)

// controls are what the box, or the way to a real service, lets be changed.
type controls interface {
	state() any
	routes() map[string]control // by method and path below pagePath
	look()                      // publishes what changed by itself
	names() clinicaldoctest.QueryNames
	replay(ctx context.Context, r *request, change edited) error
}

// front serves the service's description and the inspector, and passes everything else on. Without an inspector its
// paths are nobody's.
func front(in *inspector, next http.Handler) http.Handler {
	own := http.NotFoundHandler
	if in != nil {
		own = sync.OnceValue(in.handler) // when the first request comes, what is controlled has been started
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case asksForOpenAPI(r):
			serveOpenAPI(w, r)
		case r.URL.Path == strings.TrimSuffix(pagePath, "/"), strings.HasPrefix(r.URL.Path, pagePath):
			own().ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (in *inspector) handler() http.Handler {
	mux := http.NewServeMux()
	files, err := fs.Sub(pageFiles, "page")
	if err != nil {
		panic(err) // the folder is embedded
	}
	mux.Handle("GET "+pagePath, http.StripPrefix(pagePath, http.FileServerFS(files)))
	mux.HandleFunc("GET "+pagePath+"events", func(w http.ResponseWriter, r *http.Request) {
		in.events.serve(w, r, in.controls.look)
	})
	mux.HandleFunc("GET "+pagePath+"state", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, in.controls.state())
	})
	mux.HandleFunc("GET "+pagePath+"docs/{name}", serveDocs)
	in.handleRequests(mux)
	for route, change := range in.controls.routes() {
		method, path, _ := strings.Cut(route, " ")
		mux.HandleFunc(method+" "+pagePath+path, func(w http.ResponseWriter, r *http.Request) {
			in.serveControl(w, r, change)
		})
	}
	return guard(mux)
}

func (in *inspector) serveControl(w http.ResponseWriter, r *http.Request, change control) {
	body, err := readAll(w, r, maxControlBody)
	if err != nil {
		refuse(w, http.StatusBadRequest, "the body could not be read, or is too large")
		return
	}
	result, err := change(body)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	in.events.publish("state", struct{}{})
	respond(w, http.StatusOK, result)
}

// guard admits only programs and pages of this machine. Otherwise any site that is open in a browser here could use
// a control, by a name that points to this machine or through a tunnel.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set(
			"Content-Security-Policy",
			"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; media-src "+
				"'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cache-Control", "no-store")
		if problem := stranger(r); problem != "" {
			refuse(w, http.StatusForbidden, problem)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// tunnelHeaders are what proxies and tunnels add to what they pass on.
var tunnelHeaders = []string{
	"Via", "Forwarded", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "X-Original-Forwarded-For",
	"X-Original-Host",
	"Cf-Connecting-Ip", "Cf-Connecting-Ipv6", "Cf-Ray", "Cdn-Loop", "True-Client-Ip", "Fastly-Client-Ip",
	"Fly-Client-Ip",
	"X-Appengine-User-Ip", "X-Azure-Clientip", "X-Envoy-External-Address",
}

const forwarded = "the inspector rejects forwarded requests"

// stranger says why a request does not come from this machine, or nothing.
func stranger(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	switch {
	case err != nil || ip == nil || !ip.IsLoopback():
		return "the inspector can be reached from this machine only"
	case !origin.Loopback(&url.URL{Host: r.Host}):
		return "use this machine's own name for the inspector, such as localhost"
	case !r.ProtoAtLeast(1, 1):
		// No browser sends this. It is nginx, which by default names this machine as the host and says nothing else.
		return forwarded
	}
	for name := range r.Header {
		if slices.Contains(tunnelHeaders, name) || strings.HasPrefix(name, "X-Forwarded") {
			return forwarded
		}
	}
	isSafe := r.Method == http.MethodGet || r.Method == http.MethodHead
	isJSON := strings.HasPrefix(r.Header.Get("Content-Type"), "application/json")
	switch {
	case fromOtherSite(r):
		return "the inspector rejects requests from other sites"
	case !isSafe && !isJSON && r.ContentLength != 0:
		return "a control needs application/json" // which no site can send unasked
	}
	return ""
}

// fromOtherSite reports whether a browser sent the request on behalf of another site. Following a link to the
// inspector's page does not count.
func fromOtherSite(r *http.Request) bool {
	from := r.Header.Get("Origin")
	if from != "" && from != "http://"+r.Host {
		return true
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	isLink := r.Method == http.MethodGet && r.URL.Path == pagePath && r.Header.Get("Sec-Fetch-Mode") == "navigate"
	return !isLink
}

func respond(w http.ResponseWriter, status int, content any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(content) // a page that went away needs no response
}

func refuse(w http.ResponseWriter, status int, problem string) {
	respond(w, status, map[string]string{"message": problem})
}

func readAll(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	return io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
}

// decode reads a control's JSON. No body means nothing was chosen; a misspelled name is an error, not ignored.
func decode[T any](body []byte) (into T, err error) {
	if len(body) == 0 {
		return into, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&into); err != nil {
		return into, errors.New("the body is not as expected: " + err.Error())
	}
	return into, nil
}
