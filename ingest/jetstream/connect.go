package jetstream

import (
	"context"
	"errors"
	"fmt"
	neturl "net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// safe are options that a journal requires. Writes that were made without a connection must not be sent later.
// Subjects contain hashes of keys and are not printed.
func safe() []nats.Option {
	return []nats.Option{
		nats.ReconnectBufSize(-1), nats.MaxReconnects(-1),
		nats.ReconnectWait(500 * time.Millisecond), nats.PingInterval(3 * time.Second),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
}

// Connect connects to a NATS server or cluster, with the same arguments as nats.Connect. Nothing is buffered to be
// sent after a reconnect, and reconnects are attempted without end. Close the connection after use. It returns an
// error matching [clinicaldoc.ErrInvalidArgument] if the URL is empty, and one matching [ErrServerTooOld] if the
// server is older than 2.11.
func Connect(url string, opts ...nats.Option) (*nats.Conn, error) {
	if url == "" { // which would be whatever server this machine happens to have
		return nil, fail("no connection: the server's URL is empty", clinicaldoc.ErrInvalidArgument)
	}
	conn, err := nats.Connect(url, append(opts, safe()...)...)
	switch {
	case errors.As(err, new(*neturl.Error)):
		return nil, fail("no connection: the server's URL cannot be read", err) // it may hold a password
	case err != nil:
		return nil, fail("no connection: "+err.Error(), err)
	}
	if err := checkServer(conn); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// Server is a NATS server inside this process.
type Server struct {
	Conn *nats.Conn // to it

	server *server.Server
	lock   *os.File
}

// Embed starts a server in this process, for one machine with nothing installed. It keeps its files in dir,
// listens on no port and syncs every write to the disk. It returns an error matching [clinicaldoc.ErrInUse] if the
// directory is in use already.
func Embed(ctx context.Context, dir string) (*Server, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fail("the directory cannot be made: "+redact.Cause(err), err)
	}
	lock, err := disk.Take(filepath.Join(dir, "clinicaldoc.lock")) // two servers on one directory would both start
	if err != nil {
		return nil, cannotLock(err)
	}
	log := &logger{}
	s, err := server.NewServer(&server.Options{
		ServerName: "clinicaldoc", DontListen: true, JetStream: true,
		StoreDir: filepath.Join(dir, "store"), SyncAlways: true, NoSigs: true,
	})
	if err != nil {
		return nil, errors.Join(fail(err.Error(), err), disk.Close(lock))
	}
	// The server logs no debug lines, no traces and no system traces.
	s.SetLoggerV2(log, false, false, false)
	s.Start()
	readyWithin := 10 * time.Second
	if deadline, ok := ctx.Deadline(); ok {
		readyWithin = min(readyWithin, time.Until(deadline))
	}
	if !s.ReadyForConnections(readyWithin) {
		s.Shutdown()
		return nil, errors.Join(fail("the server did not start: "+log.first()), disk.Close(lock))
	}
	conn, err := nats.Connect("", append(safe(), nats.InProcessServer(s))...)
	if err != nil {
		s.Shutdown()
		return nil, errors.Join(fail(err.Error(), err), disk.Close(lock))
	}
	return &Server{Conn: conn, server: s, lock: lock}, nil
}

// Close ends the connection and the server.
func (s *Server) Close() error {
	s.Conn.Close()
	s.server.Shutdown()
	s.server.WaitForShutdown()
	return disk.Close(s.lock)
}

// logger keeps the first error that a server logs. Only there it says why it does not start.
type logger struct {
	mu   sync.Mutex
	text string
}

func (l *logger) keepFirst(format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text == "" {
		l.text = fmt.Sprintf(format, v...)
	}
}

// first returns the first error that was logged.
func (l *logger) first() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text == "" {
		return "no reason was given"
	}
	return l.text
}

func (l *logger) Noticef(string, ...any)         {}
func (l *logger) Warnf(string, ...any)           {}
func (l *logger) Debugf(string, ...any)          {}
func (l *logger) Tracef(string, ...any)          {}
func (l *logger) Errorf(format string, v ...any) { l.keepFirst(format, v...) }
func (l *logger) Fatalf(format string, v ...any) { l.keepFirst(format, v...) }

// cannotLock returns the error for a directory that could not be locked. It matches [ingest.ErrJournalInUse] only if
// the directory is in use.
func cannotLock(err error) error {
	if errors.Is(err, disk.ErrHeld) {
		return fail("the directory is already in use, in this process or in another one; close it there, "+
			"or try again later", ingest.ErrJournalInUse)
	}
	return fail("the directory cannot be locked: "+redact.Cause(err), err)
}
