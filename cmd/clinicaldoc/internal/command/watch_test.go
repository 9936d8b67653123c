package command

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// watching is a server with three notes, and a function that watches it until count changes were printed.
func watching(t *testing.T) (*clinicaldoctest.Server, func(count int) []string) {
	t.Helper()
	srv := newServer(t)
	for range 3 {
		srv.AddNote(clinicaldoctest.Note{CreatedAt: time.Now().Add(-time.Hour)})
	}
	state := filepath.Join(t.TempDir(), "watch")
	return srv, func(count int) []string {
		t.Helper()
		env, shown := newEnv(srv)
		o := &watchOptions{Env: env, interval: time.Second, count: count, initial: true, state: state}
		require.NoError(t, o.run(within(t)))
		return strings.Split(strings.TrimSpace(shown.out.String()), "\n")
	}
}

func TestWatch_CountReached_NextGoesOn(t *testing.T) {
	t.Parallel()
	srv, watch := watching(t)
	assert.Len(t, watch(3), 3)
	for range 2 {
		srv.AddNote(clinicaldoctest.Note{CreatedAt: time.Now().Add(-time.Hour)})
	}
	for _, id := range []string{"4", "5"} {
		lines := watch(1)
		require.Len(t, lines, 1)
		assert.Contains(t, lines[0], "\t"+id+"\tnew\t", "what was printed is not printed again")
	}
}

func TestWatch_CountEndsFirstLook_NextWatchGoesOn(t *testing.T) {
	t.Parallel()
	_, watch := watching(t)
	for i, event := range []string{"there", "new", "new"} {
		assert.Contains(t, watch(1)[0], fmt.Sprintf("\t%d\t%s\t", i+1, event))
	}
}

// A watch that never worked was given the wrong service, more likely than one that fails for a while.
func TestWatch_FirstLookFails_EndsIt(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Answer(http.StatusServiceUnavailable, "{}"))
	env, _ := newEnv(srv)
	ctx := within(t)
	err := (&watchOptions{Env: env, interval: time.Second, count: 1, initial: true}).run(ctx)
	require.ErrorIs(t, err, clinicaldoc.ErrServer)
	require.NoError(t, ctx.Err())
}

// endsWith calls a function when a text is written.
type endsWith struct {
	io.Writer
	text string
	do   func()
}

func (e endsWith) Write(p []byte) (int, error) {
	if strings.Contains(string(p), e.text) {
		e.do()
	}
	return e.Writer.Write(p)
}

// A look that fails later may succeed the next time. The watch says why it has nothing to print.
func TestWatch_LaterLookFails_SaysWhyAndGoesOn(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	srv.AddNote(clinicaldoctest.Note{})
	state := filepath.Join(t.TempDir(), "watch")
	env, _ := newEnv(srv)
	o := &watchOptions{Env: env, interval: time.Hour, count: 1, initial: true, state: state}
	require.NoError(t, o.run(within(t)))
	srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Answer(http.StatusServiceUnavailable, "{}"))
	env, shown := newEnv(srv)
	ctx, cancel := context.WithCancelCause(within(t))
	env.IO.Err = endsWith{&shown.err, "checking again in 1h0m0s", func() { cancel(&signalError{os.Interrupt}) }}
	o.Env = env
	assert.Equal(t, 130, exitCode(ctx, o.run(ctx)))
	assert.Contains(t, shown.err.String(), "503 Service Unavailable")
}

func TestWatch_ProgramIsACompoundCommand_Runs(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the program of this test is one of a shell")
	}
	env, shown := newEnv(nil)
	o := &watchOptions{Env: env, exec: `if test "$CLINICALDOC_NOTE_ID" = 7; then echo seven; fi`}
	require.NoError(t, o.tellChange(t.Context(), change{ID: 7}))
	assert.Contains(t, shown.out.String(), "seven")
	assert.NotContains(t, shown.err.String(), "the program failed")
}

func TestWatch_ProgramEndedWithTheWatch_IsRunAgain(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the program of this test is one of a shell")
	}
	env, shown := newEnv(nil)
	o := &watchOptions{Env: env, exec: "exit 3"}
	require.NoError(t, o.tellChange(t.Context(), change{ID: 1}), "one that fails does not end the watch")
	assert.Equal(t, "clinicaldoc: the program failed for note 1: exit code 3\n", shown.err.String())
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&signalError{os.Interrupt})
	require.Error(t, o.tellChange(ctx, change{ID: 1}))
}
