//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// uploadCommand is an upload of a folder as a process of its own.
func uploadCommand(ctx context.Context, env []string, folder string) (*exec.Cmd, *bytes.Buffer) {
	command := exec.CommandContext(ctx, "clinicaldoc", "upload", "--patient", "7", "--prompt", "1", "--unique-names", "--settle", "1s", "--workers", "8", folder)
	command.Env = append(os.Environ(), env...)
	said := &bytes.Buffer{}
	command.Stdout, command.Stderr = said, said
	return command, said
}

func TestUploadKilledTwiceCreatesEachNoteOnce(t *testing.T) {
	t.Parallel()
	const count = 200
	var seen atomic.Int64
	reached := map[int64]chan struct{}{3: make(chan struct{}), 60: make(chan struct{}), 130: make(chan struct{})}
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithSeed(7), clinicaldoctest.WithObserver(func(r clinicaldoctest.Request) {
		if r.Route == clinicaldoctest.RouteCreateNote {
			if c := reached[seen.Add(1)]; c != nil {
				close(c)
			}
		}
	}))
	defer srv.Close()
	// One in twenty: the note is made or not, and the response never comes.
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit().Rate(0.02))
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest().Rate(0.02))
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(502, "bad gateway").Rate(0.01))
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Delay(5*time.Millisecond).Always()) // so that there is something to kill
	folder := t.TempDir()
	var recordings [][]byte
	for i := range count {
		recording := fmt.Appendf(nil, "RIFF recording %d %s", i, bytes.Repeat([]byte{byte(i)}, 20_000))
		recordings = append(recordings, recording)
		require.NoError(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("visit-%03d.wav", i)), recording, 0o600))
	}
	env := environment(t, srv)

	for _, at := range []int64{60, 130} {
		killed, _ := uploadCommand(t.Context(), env, folder)
		require.NoError(t, killed.Start())
		if at == 60 {
			<-reached[3]
			second, said := uploadCommand(t.Context(), env, folder)
			exit, ok := errors.AsType[*exec.ExitError](second.Run())
			require.True(t, ok, "the second is refused while the first one runs: %s", said)
			assert.Equal(t, 5, exit.ExitCode(), said)
			assert.Contains(t, said.String(), "another process has the journal open")
		}
		<-reached[at]
		require.NoError(t, killed.Process.Kill())
		_ = killed.Wait()
	}
	last, said := uploadCommand(t.Context(), env, folder)
	require.NoError(t, last.Run(), said)
	assert.NoError(t, srv.CreatedOnce(recordings...))
	assert.Len(t, srv.Notes(), count)
	t.Logf("%d requests for %d notes", seen.Load(), count)
	assert.NotContains(t, said.String(), "visit-")
}
