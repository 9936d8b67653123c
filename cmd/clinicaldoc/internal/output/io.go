// Package output writes the command's output: tables on a terminal, tab-separated lines in a pipe, JSON on request,
// questions on standard error. Texts of the service are made harmless before they reach a terminal.
package output

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// IO is the streams of a run and what is at their ends.
type IO struct {
	In                    *bufio.Reader
	Out, Err              io.Writer
	InTTY, OutTTY, ErrTTY bool
	Color                 bool       // on Out
	Plain                 bool       // lines instead of redrawn rows and tables
	Raw                   bool       // texts of the service as they came
	Width                 int        // of Out's terminal
	ErrWidth              func() int // of Err's, now: windows are resized
}

// System returns the process's own streams.
func System() *IO {
	s := &IO{In: bufio.NewReader(os.Stdin), Out: os.Stdout, Err: os.Stderr}
	s.InTTY, s.OutTTY, s.ErrTTY = isTerminal(os.Stdin), isTerminal(os.Stdout), isTerminal(os.Stderr)
	s.Width, s.ErrWidth = width(os.Stdout), func() int { return width(os.Stderr) }
	s.Color = s.OutTTY && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	s.Plain = os.Getenv("CLINICALDOC_PLAIN") != ""
	enableEscapes()
	return s
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func width(f *os.File) int {
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
		return w
	}
	return 80
}

// CanAsk reports whether somebody is there to answer.
func (s *IO) CanAsk() bool { return s.InTTY && s.ErrTTY }

// Ask asks a question whose answer is yes or no; no is the default.
func (s *IO) Ask(ctx context.Context, question string) (bool, error) {
	if _, err := io.WriteString(s.Err, question+" [y/N] "); err != nil {
		return false, err
	}
	line, err := Await(ctx, func() (string, error) { return readLine(s.In, MaxToken) })
	if ctx.Err() != nil { // Ctrl-C does not wait for Enter
		s.Note("")
		return false, context.Cause(ctx)
	}
	line = strings.ToLower(strings.TrimSpace(line))
	return line == "y" || line == "yes", err
}

// byteOrderMark is what some editors put at the beginning of a file.
const byteOrderMark = "\ufeff"

// ReadSecret reads a line that is not shown: from the terminal if there is one, else from standard input.
func (s *IO) ReadSecret(ctx context.Context, question string) (string, error) {
	if s.InTTY {
		return s.typedSecret(ctx, question)
	}
	line, err := Await(ctx, func() (string, error) { return readLine(s.In, MaxToken) })
	return strings.TrimSpace(strings.TrimPrefix(line, byteOrderMark)), err
}

// typedSecret asks for a line on the terminal. It puts the terminal back as it was, also if the context ends
// meanwhile.
func (s *IO) typedSecret(ctx context.Context, question string) (string, error) {
	// Raw before the question is asked: nothing that is typed or pasted early is shown.
	fd := int(os.Stdin.Fd())
	state, err := term.MakeRaw(fd)
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(fd, state) }()
	keys := &keyReader{Reader: s.In}
	keyboard := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keys, s.Err}, "")
	secret, err := Await(ctx, func() (string, error) {
		secret, err := keyboard.ReadPassword(question)
		switch {
		case errors.Is(err, io.EOF) && keys.interrupted:
			return "", ErrInterrupted
		case errors.Is(err, io.EOF):
			return "", nil // Ctrl-D
		}
		return secret, err
	})
	if ctx.Err() != nil {
		_, _ = io.WriteString(s.Err, "\r\n")
	}
	return strings.TrimSpace(secret), err
}

// ErrInterrupted is Ctrl-C where the terminal sends a key and no signal.
var ErrInterrupted = errors.New("interrupted")

// keyReader notices Ctrl-C.
type keyReader struct {
	io.Reader
	interrupted bool
}

func (k *keyReader) Read(keys []byte) (int, error) {
	n, err := k.Reader.Read(keys)
	k.interrupted = k.interrupted || bytes.IndexByte(keys[:n], 3) >= 0
	return n, err
}

// Note writes a line for people to standard error.
func (s *IO) Note(format string, args ...any) {
	_, _ = fmt.Fprintf(s.Err, format+"\n", args...)
}
