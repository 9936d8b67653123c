//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// uploadArgs are an upload of a folder.
func uploadArgs(folder string) []string {
	return []string{
		"upload", "--begin", "--patient", "7", "--prompt", "1", "--unique-names", "--settle", "1s", "--workers", "8", folder,
	}
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

func TestUpload_KilledTwice_CreatesEachNoteOnce(t *testing.T) {
	t.Parallel()
	const count = 200
	g := newGate(3, 60, 130)
	srv := newServer(t, clinicaldoctest.WithSeed(7), clinicaldoctest.WithMiddleware(g.before))
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
	run := newCLI(t, srv)
	upload := uploadArgs(folder)

	first, _ := run.command(upload...)
	require.NoError(t, first.Start())
	<-g.holds[0].reached
	// do: wait for the other upload to end, or end it; only one upload at a time can use a journal
	said := run.exits(5, upload...)
	assert.Contains(t, said, "the journal is already open")
	assert.Contains(t, said, "do: wait for the other upload to end, or end it; only one upload at a time can use a journal")
	close(g.holds[0].release)

	kill := func(command *exec.Cmd, h *hold) {
		<-h.reached
		require.NoError(t, command.Process.Kill())
		_ = command.Wait()
		close(h.release) // what was under way is done all the same, for nobody
		g.awaitCalm()    // and within --settle, however busy this machine is
	}
	kill(first, g.holds[1])
	third, _ := run.command(upload...)
	require.NoError(t, third.Start())
	kill(third, g.holds[2])
	said = run.exits(0, upload...)
	require.NoError(t, srv.CreatedOnce(recordings...))
	assert.Len(t, srv.Notes(), count)
	assert.NotContains(t, said, "visit-")
}

// The first signal lets the watch wait for its program. The second one ends the watch immediately.
func TestWatch_SecondSignal_EndsIt(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	srv.AddNote(clinicaldoctest.Note{})
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	watch, _ := newCLI(t, srv).command("watch", "--initial", "--exec", "cat '"+fifo+"'")
	watch.Stdout = nil
	watch.Stderr = nil
	said, err := watch.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, watch.Start())
	program, err := os.OpenFile(fifo, os.O_WRONLY, 0) // waits until the program has opened the other end
	require.NoError(t, err)
	require.NoError(t, watch.Process.Signal(syscall.SIGTERM))
	line, err := bufio.NewReader(said).ReadString('\n')
	require.NoError(t, err)
	assert.Contains(t, line, "a second signal ends it immediately")
	require.NoError(t, watch.Process.Signal(syscall.SIGTERM))
	require.NoError(t, program.Close())
	ended, err := watch.Process.Wait()
	require.NoError(t, err)
	assert.Equal(t, "signal: terminated", ended.String())
}
