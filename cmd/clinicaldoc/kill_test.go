//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// uploadCommand is an upload of a folder as a process of its own.
func uploadCommand(ctx context.Context, env []string, folder string) (*exec.Cmd, *bytes.Buffer) {
	command := exec.CommandContext(ctx, "clinicaldoc", "upload", "--begin", "--patient", "7", "--prompt", "1", "--unique-names", "--settle", "1s", "--workers", "8", folder)
	command.Env = append(os.Environ(), env...)
	said := &bytes.Buffer{}
	command.Stdout, command.Stderr = said, said
	return command, said
}

// gate holds uploads back from a certain number on, so that what is to happen meanwhile does.
type gate struct {
	mu       sync.Mutex
	seen     int
	holds    []*hold
	underWay int
	calm     *sync.Cond // nothing is under way
}

type hold struct {
	from    int
	reached chan struct{}
	release chan struct{}
}

func newGate(numbers ...int) *gate {
	g := &gate{}
	g.calm = sync.NewCond(&g.mu)
	for _, n := range numbers {
		g.holds = append(g.holds, &hold{from: n, reached: make(chan struct{}), release: make(chan struct{})})
	}
	return g
}

func (g *gate) before(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			g.wait()
			defer g.done()
		}
		api.ServeHTTP(w, r)
	})
}

func (g *gate) wait() {
	g.mu.Lock()
	g.seen++
	g.underWay++
	number := g.seen
	g.mu.Unlock()
	for _, h := range g.holds {
		if number == h.from {
			close(h.reached)
		}
		if number >= h.from {
			<-h.release
		}
	}
}

func (g *gate) done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.underWay--; g.underWay == 0 {
		g.calm.Broadcast()
	}
}

func (g *gate) awaitCalm() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.underWay > 0 {
		g.calm.Wait()
	}
}

func TestUploadKilledTwiceCreatesEachNoteOnce(t *testing.T) {
	t.Parallel()
	const count = 200
	g := newGate(3, 60, 130)
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithSeed(7), clinicaldoctest.WithMiddleware(g.before))
	defer srv.Close()
	// One in twenty: the note is made or not, and the response never comes.
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit().Rate(0.02))
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest().Rate(0.02))
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(502, "bad gateway").Rate(0.01))
	folder := t.TempDir()
	var recordings [][]byte
	for i := range count {
		recording := fmt.Appendf(nil, "RIFF recording %d %s", i, bytes.Repeat([]byte{byte(i)}, 20_000))
		recordings = append(recordings, recording)
		require.NoError(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("visit-%03d.wav", i)), recording, 0o600))
	}
	env := environment(t, srv)

	first, _ := uploadCommand(t.Context(), env, folder)
	require.NoError(t, first.Start())
	<-g.holds[0].reached
	second, said := uploadCommand(t.Context(), env, folder)
	exit, ok := errors.AsType[*exec.ExitError](second.Run())
	// do: wait for the other upload to end, or end it; only one upload at a time can use a journal
	require.True(t, ok, "the second is refused while the first one runs: %s", said)
	assert.Equal(t, 5, exit.ExitCode(), said)
	assert.Contains(t, said.String(), "the journal is already open")
	assert.Contains(t, said.String(), "do: wait for the other upload to end, or end it; only one upload at a time can use a journal")
	close(g.holds[0].release)

	kill := func(command *exec.Cmd, h *hold) {
		<-h.reached
		require.NoError(t, command.Process.Kill())
		_ = command.Wait()
		close(h.release) // what was under way is done all the same, for nobody
		g.awaitCalm()    // and within --settle, however busy this machine is
	}
	kill(first, g.holds[1])
	third, _ := uploadCommand(t.Context(), env, folder)
	require.NoError(t, third.Start())
	kill(third, g.holds[2])
	last, said := uploadCommand(t.Context(), env, folder)
	require.NoError(t, last.Run(), said)
	assert.NoError(t, srv.CreatedOnce(recordings...))
	assert.Len(t, srv.Notes(), count)
	t.Logf("%d requests for %d notes", g.seen, count)
	assert.NotContains(t, said.String(), "visit-")
}
