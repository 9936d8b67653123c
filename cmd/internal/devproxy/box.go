package devproxy

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// serveBox serves the stand-in until the context ends.
func serveBox(ctx context.Context, set settings, stdout, stderr io.Writer) error {
	pages := newEvents()
	followed := newTraffic(set.log(stderr), pages, nil, &bodies{}) // its data is synthetic
	box := &box{
		settings: set, events: pages, traffic: followed, started: make(chan struct{}),
		transport: &http.Transport{DisableCompression: true},
	}
	defer box.transport.CloseIdleConnections()
	srv, err := clinicaldoctest.Start(
		clinicaldoctest.WithAddr(set.addr),
		clinicaldoctest.WithStorageAddr(cmp.Or(set.storageAddr, storageAddress(set.addr))),
		clinicaldoctest.WithHost(set.host),
		clinicaldoctest.WithToken(set.token),
		clinicaldoctest.WithVariant(set.variant),
		clinicaldoctest.WithDelays(clinicaldoctest.Delays{Transcribing: set.transcription, Analysing: set.analysis}),
		clinicaldoctest.WithMiddleware(func(next http.Handler) http.Handler {
			watched := followed.watch(tagged(next))
			return box.afterStart(watched, front(set.inspector(followed, box), box.landing(watched)))
		}),
		clinicaldoctest.WithObserver(func(r clinicaldoctest.Request) { observe(followed, r) }),
	)
	if err != nil {
		return err
	}
	defer srv.Close()
	box.Server = srv
	if err := box.fill(); err != nil {
		return err
	}
	close(box.started)

	_, err = fmt.Fprintf(stdout, `The service in a box, variant %s, with synthetic data. Interrupt to end.

  base URL  %s
  token     %s
%s
Try it:

  curl -H 'Accept: application/json' -H 'Authorization: Bearer %s' %s/user

For programs, and with CLINICALDOC_INTEGRATION=1 for the integration tests:

  export CLINICALDOC_BASE_URL='%s' CLINICALDOC_TOKEN='%s'

`, cmp.Or(set.variant.Name, "default"), srv.URL, srv.Token, set.pageLine(box.origin()), srv.Token, srv.URL, srv.URL,
		srv.Token)
	if err != nil {
		return err
	}
	<-ctx.Done()
	_, err = fmt.Fprintln(stdout, "Closing.")
	return err
}

// box is the running stand-in.
type box struct {
	*clinicaldoctest.Server
	settings
	events  *events
	traffic *traffic
	frozen  atomic.Bool
	notes   noteWatch
	started chan struct{} // closed once the box is filled

	transport *http.Transport // sends requests again
}

// fill puts in what the command line asks for.
func (b *box) fill() error {
	if err := b.seed.plant(b.Server); err != nil {
		return err
	}
	for _, f := range b.faults {
		b.Inject(f.route, f.Fault)
	}
	return nil
}

// origin is the API's address without the path that a variant may put before its own.
func (b *box) origin() string {
	scheme, rest, _ := strings.Cut(b.URL, "://")
	host, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + host
}

// afterStart lets requests wait until the box is filled: it listens before that. The inspector is at the API's address.
func (b *box) afterStart(storage, api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-b.started:
		case <-r.Context().Done():
			return
		}
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if _, port, err := net.SplitHostPort(fmt.Sprint(local)); err == nil && strings.HasSuffix(
			b.StorageURL, ":"+port,
		) {
			storage.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// landing says at / what this is, where the service itself has nothing.
func (b *box) landing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/" || r.Method != http.MethodGet:
			next.ServeHTTP(w, r)
		case b.control && strings.Contains(r.Header.Get("Accept"), "text/html"):
			http.Redirect(w, r, pagePath, http.StatusSeeOther)
		default:
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = fmt.Fprintf(
				w, "The clinical documentation service in a box, with synthetic data.\n\nbase URL  %s\n%s", b.URL,
				strings.TrimPrefix(b.pageLine(b.origin()), "  "),
			)
		}
	})
}

// tag is a header by which the box's own record of a request is known again. The box does not look at it.
const tag = "X-Devproxy-Request"

func tagged(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own := *r
		own.Header = r.Header.Clone()
		own.Header.Set(tag, strconv.FormatInt(exchangeIn(r.Context()).request.ID, 10))
		api.ServeHTTP(w, &own)
	})
}

// observe takes over what only the box knows of a request.
func observe(followed *traffic, r clinicaldoctest.Request) {
	id, _ := strconv.ParseInt(r.Header.Get(tag), 10, 64) // 0: no request has it
	if e := followed.exchangeOf(id); e != nil {
		e.route, e.noteID, e.storage = r.Route, r.NoteID, r.Storage
		e.sent.Struck(r.Fault)
	}
}

// names are what the list's query parameters are called at present.
func (b *box) names() clinicaldoctest.QueryNames { return b.Variant().Query }
