package clinicaldoctest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
)

// Server is a running fake server. Its methods are safe for concurrent use.
type Server struct {
	// URL is the API's base URL.
	URL string
	// StorageURL is the origin that serves audio.
	StorageURL string
	// Token belongs to the server's first user, whose id is 1.
	Token string

	initial config
	current atomic.Pointer[state]

	dir        string // holds the audio files; "": they are held in memory
	signingKey []byte

	certificate *tls.Certificate // nil: no TLS

	api, storage *origin
	transport    *http.Transport
	inProcess    bool
	closing      context.Context // done once Close has begun: ends delays
	close        func()
}

// Option configures a server.
type Option func(*config)

type config struct {
	variant           Variant
	delays            Delays
	frozen            time.Time
	token             string
	addr, storageAddr string
	host              string
	inProcess, tls    bool
	inMemory          bool // recordings, as always in process
	observe           func(Request)
	seed              uint64
	middleware        func(http.Handler) http.Handler
}

// WithVariant sets how the server behaves where the description is silent.
func WithVariant(v Variant) Option {
	own := v.clone()
	return func(c *config) { c.variant = own }
}

// WithDelays sets how long notes stay in each stage. With the zero Delays a
// note is complete when it is first read.
func WithDelays(d Delays) Option { return func(c *config) { c.delays = d } }

// WithFrozenClock stops the server's clock at the start. [Server.Advance] and
// [Server.SetTime] move it.
func WithFrozenClock(start time.Time) Option { return func(c *config) { c.frozen = start } }

// WithToken sets the token of the server's first user instead of a random one.
func WithToken(token string) Option { return func(c *config) { c.token = token } }

// WithAddr sets the API's listening address instead of a free port on 127.0.0.1.
func WithAddr(addr string) Option { return func(c *config) { c.addr = addr } }

// WithStorageAddr sets the storage's listening address instead of a free port
// on 127.0.0.1.
func WithStorageAddr(addr string) Option { return func(c *config) { c.storageAddr = addr } }

// WithHost sets the host name in [Server.URL], [Server.StorageURL] and all URLs
// of responses, instead of the listening address. Use it for a server in a
// container.
func WithHost(name string) Option { return func(c *config) { c.host = name } }

// WithMiddleware puts a handler in front of the API, and one in front of the
// storage. Programs use it to serve something else at the same address. Requests
// that it does not pass on are not recorded, and faults do not apply to them.
func WithMiddleware(middleware func(next http.Handler) http.Handler) Option {
	return func(c *config) { c.middleware = middleware }
}

// WithObserver calls observe after each request, possibly concurrently.
func WithObserver(observe func(Request)) Option { return func(c *config) { c.observe = observe } }

// WithSeed sets the seed of [Fault.Rate]. With the same seed and the same requests
// in the same order, these faults apply to the same requests.
func WithSeed(seed uint64) Option { return func(c *config) { c.seed = seed } }

// InProcess serves over in-memory pipes instead of sockets, and keeps audio in
// memory instead of on disk. Use it inside a testing/synctest bubble, in which
// time does not pass while a goroutine waits for a socket. Start the server
// inside the bubble.
// [Server.Client] and [Server.Transport] reach it.
func InProcess() Option { return func(c *config) { c.inProcess = true } }

// NewServer starts a server with one user and no notes. Like httptest.NewServer it panics if it cannot listen; see
// [Start].
func NewServer(opts ...Option) *Server {
	s, err := Start(opts...)
	if err != nil {
		panic(err)
	}
	return s
}

// Start is [NewServer] with an error for an address that cannot be used or an
// option that is nil.
func Start(opts ...Option) (_ *Server, err error) {
	cfg := config{delays: defaultDelays, addr: "127.0.0.1:0", storageAddr: "127.0.0.1:0"}
	for _, opt := range opts {
		if opt == nil {
			return nil, errors.New("clinicaldoctest: an option is nil")
		}
		opt(&cfg)
	}
	if cfg.middleware == nil {
		cfg.middleware = func(next http.Handler) http.Handler { return next }
	}
	cfg.variant.BasePath = strings.TrimSuffix("/"+strings.Trim(cfg.variant.BasePath, "/"), "/")
	cfg.token = cmp.Or(cfg.token, "1|"+rand.Text())
	s := &Server{Token: cfg.token, initial: cfg, signingKey: []byte(rand.Text())}
	var cancel context.CancelFunc
	s.closing, cancel = context.WithCancel(context.Background())
	s.close = sync.OnceFunc(func() { s.shutDown(cancel) })
	defer func() {
		if err != nil {
			s.close()
			err = fmt.Errorf("clinicaldoctest: %w", err)
		}
	}()

	if !cfg.inProcess && !cfg.inMemory {
		if s.dir, err = os.MkdirTemp("", "clinicaldoctest-"); err != nil {
			return nil, err
		}
	}
	if err := s.listen(cfg); err != nil {
		return nil, err
	}
	s.URL = s.api.url + cfg.variant.BasePath
	s.StorageURL = s.storage.url
	s.current.Store(newState(s, cfg))
	s.api.serve(cfg.middleware(http.HandlerFunc(s.serveAPI)), s.certificate)
	s.storage.serve(cfg.middleware(http.HandlerFunc(s.serveStorage)), s.certificate)
	return s, nil
}

// state returns what the server remembers at present.
func (s *Server) state() *state { return s.current.Load() }

func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request)     { s.state().serveAPI(w, r) }
func (s *Server) serveStorage(w http.ResponseWriter, r *http.Request) { s.state().serveStorage(w, r) }

// listen opens both origins and the transport that reaches them.
func (s *Server) listen(cfg config) error {
	s.transport = &http.Transport{ExpectContinueTimeout: time.Second, MaxIdleConnsPerHost: 16}
	s.inProcess = cfg.inProcess
	if cfg.tls {
		if err := s.secure(cfg.host); err != nil {
			return err
		}
	}
	if s.inProcess {
		api := newMemoryListener()
		storage := newMemoryListener()
		s.api = newOrigin("https://"+memoryAPIHost, api)
		s.storage = newOrigin("https://"+memoryStorageHost, storage)
		s.transport.DialTLSContext = dialMemory(map[string]*memoryListener{
			memoryAPIHost: api, memoryStorageHost: storage,
		})
		return nil
	}
	api, err := listenTCP(cfg.addr)
	if err != nil {
		return err
	}
	s.api = newOrigin(s.scheme(boxlink.Listening(api.Addr(), cfg.host)), api)
	storage, err := listenTCP(cfg.storageAddr)
	if err != nil {
		return err
	}
	s.storage = newOrigin(s.scheme(boxlink.Listening(storage.Addr(), cfg.host)), storage)
	return nil
}

// scheme makes an http address an https one where there is TLS.
func (s *Server) scheme(address string) string {
	if s.certificate == nil {
		return address
	}
	return "https" + strings.TrimPrefix(address, "http")
}

func listenTCP(addr string) (net.Listener, error) {
	return net.Listen("tcp", addr) //nolint:noctx // it does not wait for anything
}

// Transport returns a RoundTripper that reaches both the API and the storage. No other one reaches a server
// [InProcess].
func (s *Server) Transport() http.RoundTripper { return s.transport }

// Handler returns the API and the storage as one handler, which distinguishes
// them by the request's host. It is for tests with their own network.
// A fault that breaks the connection panics with [http.ErrAbortHandler] where
// the ResponseWriter cannot be hijacked.
func (s *Server) Handler() http.Handler {
	_, storageHost, _ := strings.Cut(s.StorageURL, "://")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cmp.Or(r.Host, r.URL.Host) == storageHost {
			s.serveStorage(w, r)
			return
		}
		s.serveAPI(w, r)
	})
}

// Close cuts every connection, waits for the running handlers and removes the
// stored audio. It may be called more than once.
func (s *Server) Close() { s.close() }

// shutDown ends delayed responses, stops the API and the storage, and removes the files of recordings.
func (s *Server) shutDown(endDelays context.CancelFunc) {
	endDelays()
	for _, o := range []*origin{s.api, s.storage} {
		if o != nil {
			o.stop()
		}
	}
	if s.transport != nil {
		s.transport.CloseIdleConnections()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir) // what is left is in the system's temporary directory
	}
}

// origin is one of the server's two listeners and what runs behind it.
type origin struct {
	url      string
	listener net.Listener
	server   *http.Server
	accept   sync.WaitGroup
	conns    sync.WaitGroup
	handlers sync.WaitGroup
}

func newOrigin(url string, listener net.Listener) *origin {
	return &origin{url: url, listener: listener}
}

// serve accepts connections, with TLS where there is a certificate.
func (o *origin) serve(handler http.Handler, certificate *tls.Certificate) {
	o.server = &http.Server{
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(withoutHandshakes{log.Writer()}, "", log.LstdFlags),
		ConnContext:       withConn,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			o.handlers.Add(1)
			defer o.handlers.Done()
			handler.ServeHTTP(w, r)
		}),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				o.conns.Add(1)
			case http.StateClosed, http.StateHijacked:
				o.conns.Done()
			default:
			}
		},
	}
	serve := o.server.Serve
	if certificate != nil {
		o.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12}
		serve = func(l net.Listener) error { return o.server.ServeTLS(l, "", "") }
	}
	o.accept.Go(func() {
		if err := serve(quietListener{o.listener}); !errors.Is(err, http.ErrServerClosed) {
			panic("clinicaldoctest: " + err.Error()) // nothing but Close ends a listener
		}
	})
}

// withoutHandshakes logs what net/http logs, but for clients that went away
// before they had a connection.
type withoutHandshakes struct{ io.Writer }

func (w withoutHandshakes) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("http: TLS handshake error")) {
		return len(line), nil
	}
	return w.Writer.Write(line)
}

// stop returns when no goroutine of the origin is left. It waits first for the
// goroutine that begins connections, then for those that begin handlers.
func (o *origin) stop() {
	if o.server == nil { // it was never served
		_ = o.listener.Close()
		return
	}
	_ = o.server.Close()
	o.accept.Wait()
	o.conns.Wait()
	o.handlers.Wait()
}
