package service

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// role is set in the environment of a process that is the server.
const role = "CLINICALDOC_BENCHMARKS_SERVER"

// RunIfChild turns a process that Start started into the server; in every other it does nothing. Programs that call
// Start call it first thing.
func RunIfChild() {
	if os.Getenv(role) == "" {
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run serves until standard input ends, which it does at the latest with the process at its other end.
func run() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // for the life of the process
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler(), ReadHeaderTimeout: time.Minute}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Close()
	}()
	secure := httptest.NewUnstartedServer(server.Handler) // it brings a certificate
	secure.EnableHTTP2 = true
	secure.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			secured.Add(1)
		}
	}
	secure.StartTLS()
	defer secure.Close()
	box, err := clinicaldoctest.Start(clinicaldoctest.WithToken(Token))
	if err != nil {
		return err
	}
	defer box.Close()
	fmt.Println("http://"+listener.Addr().String(), secure.URL, box.URL, base64.StdEncoding.EncodeToString(secure.Certificate().Raw))
	if err := server.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// Server is a server that runs.
type Server struct {
	URL  string
	TLS  string // its secure address, where it speaks HTTP/2
	Box  string // the address of the service in a box, beside it
	Stop func()

	certificate *x509.Certificate
}

// Transport trusts the server.
func (s *Server) Transport() *http.Transport {
	roots := x509.NewCertPool()
	roots.AddCert(s.certificate)
	return &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true, ExpectContinueTimeout: time.Second,
	}
}

// Start runs the server in a process of its own.
func Start() (*Server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self) //nolint:noctx // it ends with its standard input
	cmd.Env = append(os.Environ(), role+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	server := &Server{Stop: func() {
		_ = in.Close()
		_ = cmd.Wait()
	}}
	var encoded string
	if _, err = fmt.Fscan(out, &server.URL, &server.TLS, &server.Box, &encoded); err == nil {
		var raw []byte
		if raw, err = base64.StdEncoding.DecodeString(encoded); err == nil {
			server.certificate, err = x509.ParseCertificate(raw)
		}
	}
	if err != nil {
		server.Stop()
		return nil, fmt.Errorf("the server did not start: %w", err)
	}
	return server, nil
}
