package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	nats "github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// Two machines share a folder and a journal: each recording becomes one note, whichever of them sends it.
func TestFleetCreatesEachNoteOnce(t *testing.T) {
	t.Parallel()
	queue, err := nats.NewServer(&nats.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true, Username: "u", Password: "canaryPassword"})
	require.NoError(t, err)
	queue.Start()
	defer queue.Shutdown()
	require.True(t, queue.ReadyForConnections(20*time.Second))
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	folder := t.TempDir()
	var recordings [][]byte
	for i := range 20 {
		recordings = append(recordings, fmt.Appendf(nil, "RIFF recording %d", i))
		require.NoError(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("visit-%02d.wav", i)), recordings[i], 0o600))
	}
	machine := func(args ...string) (*exec.Cmd, *bytes.Buffer) {
		command := exec.CommandContext(t.Context(), "clinicaldoc", append([]string{"upload", "--patient", "7", "--prompt", "1", folder}, args...)...)
		command.Env = append(append(os.Environ(), environment(t, srv)...), "CLINICALDOC_NATS=nats://u:canaryPassword@"+queue.Addr().String())
		said := &bytes.Buffer{}
		command.Stdout, command.Stderr = said, said
		return command, said
	}
	nobody, said := machine()
	require.Error(t, nobody.Run())
	assert.Contains(t, said.String(), "--begin", "a journal that is not there is not begun in silence")
	assert.Empty(t, srv.Notes())
	first, firstSaid := machine("--begin")
	second, secondSaid := machine("--begin")
	require.NoError(t, first.Start())
	require.NoError(t, second.Start())
	for command, said := range map[*exec.Cmd]*bytes.Buffer{first: firstSaid, second: secondSaid} {
		require.NoError(t, command.Wait(), said)
		assert.NotContains(t, said.String(), "canaryPassword")
	}
	require.NoError(t, srv.CreatedOnce(recordings...))
	third, said := machine()
	require.NoError(t, third.Run(), said)
	assert.Contains(t, said.String(), "0 created, 20 already there")
	assert.NoError(t, srv.CreatedOnce(recordings...))

	// What is refused for good is a dead letter, which any machine sees and sends again.
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, `{"message":"no"}`))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "visit-20.wav"), []byte("RIFF the last of all recordings"), 0o600))
	refused, said := machine()
	exit, ok := errors.AsType[*exec.ExitError](refused.Run())
	require.True(t, ok, said)
	assert.Equal(t, 9, exit.ExitCode(), said)
	run := func(args ...string) string {
		command, said := machine()
		command.Args = append([]string{"clinicaldoc"}, args...)
		require.NoError(t, command.Run(), said)
		assert.NotContains(t, said.String(), "visit-")
		return said.String()
	}
	assert.Contains(t, run("fleet", "status"), "dead letters\t1\t")
	assert.Equal(t, "1\n", run("fleet", "status", "--jq", ".dead_letters | length"))
	assert.Equal(t, "1 recordings are in the queue again\n", run("upload", "retry"))
	last, said := machine()
	require.NoError(t, last.Run(), said)
	assert.NoError(t, srv.CreatedOnce(append(recordings, []byte("RIFF the last of all recordings"))...))
	assert.Contains(t, run("fleet", "status"), "dead letters\t0\t")
}
