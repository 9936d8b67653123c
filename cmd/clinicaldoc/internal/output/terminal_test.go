//go:build unix

package output_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"sync"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/term"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

// openTerminal returns a terminal of the width, and the keyboard in front of it.
func openTerminal(t *testing.T, columns uint16) (keyboard, terminal *os.File) {
	t.Helper()
	keyboard, terminal, err := pty.Open()
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, keyboard.Close())
		assert.NoError(t, terminal.Close())
	})
	require.NoError(t, pty.Setsize(keyboard, &pty.Winsize{Rows: 12, Cols: columns}))
	return keyboard, terminal
}

// replace makes the files the process's streams until the end of the test.
func replace(t *testing.T, in, out, err *os.File) {
	t.Helper()
	before := [...]*os.File{os.Stdin, os.Stdout, os.Stderr}
	t.Cleanup(func() { os.Stdin, os.Stdout, os.Stderr = before[0], before[1], before[2] })
	os.Stdin, os.Stdout, os.Stderr = in, out, err
}

// Colors are for a terminal that can show them, whose user wants them.
func TestSystem_Color_FollowsTerminalAndVariables(t *testing.T) { //nolint:paralleltest // sets variables
	_, terminal := openTerminal(t, 70)
	pipe, _, err := os.Pipe()
	require.NoError(t, err)
	defer func() { assert.NoError(t, pipe.Close()) }()
	for _, tt := range []struct {
		out           *os.File
		noColor, term string
		want          bool
	}{
		{terminal, "", "xterm", true},
		{terminal, "", "", true},
		{terminal, "1", "xterm", false},
		{terminal, "", "dumb", false},
		{terminal, "1", "dumb", false},
		{pipe, "", "xterm", false},
	} {
		replace(t, pipe, tt.out, pipe)
		t.Setenv("NO_COLOR", tt.noColor)
		t.Setenv("TERM", tt.term)
		assert.Equal(t, tt.want, output.System().Color, tt)
	}
}

// Rows are redrawn and tables aligned unless the variable wants lines.
func TestSystem_Plain_FollowsTheVariable(t *testing.T) {
	t.Setenv("CLINICALDOC_PLAIN", "")
	assert.False(t, output.System().Plain)
	t.Setenv("CLINICALDOC_PLAIN", "1")
	assert.True(t, output.System().Plain)
}

// The width is the terminal's, and that of standard error follows its window. Without a terminal, or if the terminal
// does not know its width, it is 80.
//
//nolint:paralleltest // replaces the process's streams
func TestSystem_Width_IsTheTerminals(t *testing.T) {
	keyboard, terminal := openTerminal(t, 70)
	pipe, _, err := os.Pipe()
	require.NoError(t, err)
	defer func() { assert.NoError(t, pipe.Close()) }()
	replace(t, terminal, terminal, terminal)
	streams := output.System()
	assert.True(t, streams.InTTY && streams.OutTTY && streams.ErrTTY)
	assert.Equal(t, 70, streams.Width)
	require.NoError(t, pty.Setsize(keyboard, &pty.Winsize{Rows: 12, Cols: 1}))
	assert.Equal(t, 1, streams.ErrWidth())
	require.NoError(t, pty.Setsize(keyboard, &pty.Winsize{}))
	assert.Equal(t, 80, streams.ErrWidth())
	replace(t, pipe, pipe, pipe)
	streams = output.System()
	assert.False(t, streams.InTTY || streams.OutTTY || streams.ErrTTY)
	assert.Equal(t, 80, streams.Width)
}

// typist types when it sees the question, and remembers what the terminal shows.
type typist struct {
	bytes.Buffer

	keyboard io.Writer
	keys     string
}

func (t *typist) Write(shown []byte) (int, error) {
	if t.Len() == 0 {
		if _, err := io.WriteString(t.keyboard, t.keys); err != nil {
			return 0, err
		}
	}
	return t.Buffer.Write(shown)
}

// A token that is typed is not shown. Ctrl-C is an interruption and not an empty token, which Ctrl-D is.
//
//nolint:paralleltest // replaces the process's streams
func TestReadSecret_Terminal_EndsWithTheKey(t *testing.T) {
	for _, want := range []struct {
		keys, secret string
		err          error
	}{
		{" canary \r", "canary", nil},
		{"\x04", "", nil},
		{"\x03", "", output.ErrInterrupted},
		{"can\x03", "", output.ErrInterrupted},
		{"can\x7f\x7f\r", "c", nil},
	} {
		keyboard, terminal := openTerminal(t, 70)
		replace(t, terminal, terminal, terminal)
		before, err := term.GetState(int(terminal.Fd()))
		require.NoError(t, err)
		streams := output.System()
		shown := &typist{keyboard: keyboard, keys: want.keys}
		streams.Err = shown
		secret, err := streams.ReadSecret(t.Context(), "Token: ")
		require.ErrorIs(t, err, want.err)
		assert.Equal(t, want.secret, secret)
		assert.Equal(t, "Token: ", shown.String()[:len("Token: ")])
		assert.NotContains(t, shown.String(), "can")
		after, err := term.GetState(int(terminal.Fd()))
		require.NoError(t, err)
		assert.Equal(t, before, after, "the terminal is as it was")
	}
}

// locked is a terminal's screen. It calls first when it shows something.
type locked struct {
	mu    sync.Mutex
	shown bytes.Buffer
	first func()
}

func (l *locked) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.shown.Write(text)
	l.first()
	return n, err
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shown.String()
}

// A command that is ended while it asks for a token leaves the terminal as it was, with the cursor on a new line.
//
//nolint:paralleltest // replaces the process's streams
func TestReadSecret_ContextEnds_RestoresTheTerminal(t *testing.T) {
	keyboard, terminal := openTerminal(t, 70)
	replace(t, terminal, terminal, terminal)
	before, err := term.GetState(int(terminal.Fd()))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	streams := output.System()
	var shown locked
	streams.Err = &shown
	shown.first = cancel
	_, err = streams.ReadSecret(ctx, "Token: ")
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, "Token: \r\n", shown.String())
	after, err := term.GetState(int(terminal.Fd()))
	require.NoError(t, err)
	assert.Equal(t, before, after)
	_, err = keyboard.WriteString("\r") // ends the read
	require.NoError(t, err)
}
