package main

import (
	"net"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// Half a configuration is none, and nobody uploads by trying the program: the queue is not even connected to.
func TestNothingIsTouchedUnasked(t *testing.T) {
	t.Parallel()
	worker := filepath.Join(t.TempDir(), "worker.exe")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", worker, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	queue, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	connected := make(chan bool, 1)
	go func() {
		_, err := queue.Accept()
		connected <- err == nil
	}()
	service, token := clinicaldoc.EnvBaseURL+"=https://service.example", clinicaldoc.EnvToken+"=1|synthetic"
	for _, test := range []struct {
		variables []string
		args      []string
		says      string
	}{
		{nil, []string{"-yes"}, clinicaldoc.EnvBaseURL},
		{[]string{token}, []string{"-yes"}, clinicaldoc.EnvBaseURL},
		{[]string{service}, []string{"-yes"}, clinicaldoc.EnvToken},
		{[]string{service, token}, nil, "start it with -yes"},
	} {
		command := exec.CommandContext(t.Context(), worker, test.args...)
		command.Env = append([]string{"CLINICALDOC_NATS=nats://" + queue.Addr().String()}, test.variables...)
		out, err := command.CombinedOutput()
		require.Error(t, err, string(out))
		assert.Contains(t, string(out), test.says)
	}
	require.NoError(t, queue.Close())
	assert.False(t, <-connected)
}
