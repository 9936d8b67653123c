package service

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
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
	fmt.Println("http://" + listener.Addr().String())
	if err := server.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// Start runs the server in a process of its own and returns its address and a function that ends it.
func Start() (baseURL string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.Command(self) //nolint:noctx // it ends with its standard input
	cmd.Env = append(os.Environ(), role+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("the server did not start: %w", err)
	}
	return strings.TrimSpace(line), stop, nil
}
