package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"
)

// serverVariable is set in the environment of a process that is the server.
const serverVariable = "CLINICALDOC_BENCHMARKS_SERVER"

// serveIfChild turns a process that startServer started into the server; in every other it does nothing.
func serveIfChild() {
	if os.Getenv(serverVariable) == "" {
		return
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve runs until standard input ends, which it does at the latest with the process at its other end.
func serve() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // for the life of the process
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler(), ReadHeaderTimeout: time.Minute}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Close()
	}()
	fmt.Println("http://" + listener.Addr().String())
	if err := server.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// server is a server in another process, so allocations and processor time of this one are the client's.
type server struct {
	url  string
	stop func()
}

func startServer() (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self) //nolint:noctx // it ends with its standard input
	cmd.Env = append(os.Environ(), serverVariable+"=1")
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
	started := &server{stop: func() {
		_ = in.Close()
		_ = cmd.Wait()
	}}
	if _, err = fmt.Fscan(out, &started.url); err != nil {
		started.stop()
		return nil, fmt.Errorf("the server did not start: %w", err)
	}
	return started, nil
}
