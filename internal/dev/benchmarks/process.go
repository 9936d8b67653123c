package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// roleVariable holds what a process was started for: to be the server, or the name of an uploader and its base URL.
const roleVariable = "CLINICALDOC_BENCHMARKS_ROLE"

const serverRole = "server"

// playRole does what a process was started for and ends it. In a process that child did not start, it does nothing.
func playRole() {
	role := strings.Fields(os.Getenv(roleVariable))
	if len(role) == 0 {
		return
	}
	var err error
	if role[0] == serverRole {
		err = serve()
	} else {
		err = uploadOnce(context.Background(), role[0], role[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child is this program in a role. Another process allocates and is busy on its own account.
func child(ctx context.Context, role ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), roleVariable+"="+strings.Join(role, " "))
	cmd.Stderr = os.Stderr
	return cmd, nil
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

// startServer returns the address of a server in another process, and what ends it.
func startServer(ctx context.Context) (url string, stop func(), err error) {
	cmd, err := child(ctx, serverRole)
	if err != nil {
		return "", nil, err
	}
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
	if _, err = fmt.Fscan(out, &url); err != nil {
		stop()
		return "", nil, fmt.Errorf("the server did not start: %w", err)
	}
	return url, stop, nil
}
