package jetstream_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// The programs of docs/fleets.md begin a fleet, publish recordings and upload them.
func TestExamples_OperatorAndWorkers_UploadTheQueue(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(s.Shutdown)
	require.True(t, s.ReadyForConnections(20*time.Second))
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	programs := t.TempDir()
	built, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-o", programs, "./examples/worker", "./examples/operator").CombinedOutput()
	require.NoError(t, err, string(built))
	program := func(ctx context.Context, name string, args ...string) *exec.Cmd {
		p := exec.CommandContext(ctx, filepath.Join(programs, name), args...)
		p.Env = append(os.Environ(), "CLINICALDOC_NATS="+s.ClientURL(), "CLINICALDOC_BASE_URL="+srv.URL, "CLINICALDOC_TOKEN="+srv.Token)
		return p
	}
	operator := func(args ...string) string {
		out, err := program(t.Context(), "operator", args...).CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	out, err := program(t.Context(), "worker", "-yes").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "there is no fleet")
	operator("begin")
	var contents [][]byte
	for n := range 6 {
		path := filepath.Join(programs, fmt.Sprint(n, ".wav"))
		contents = append(contents, fmt.Appendf(nil, "RIFF synthetic %d", n))
		require.NoError(t, os.WriteFile(path, contents[n], 0o600))
		operator("publish", fmt.Sprint(4711+n), path)
	}
	assert.Contains(t, operator("status"), "6 waiting, 0 uploading, 0 later, 0 unresolved, 0 processing, 0 dead letters, 0 workers")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var workers []*exec.Cmd
	for range 2 {
		worker := program(ctx, "worker", "-yes")
		worker.Cancel = func() error { return worker.Process.Signal(os.Interrupt) }
		require.NoError(t, worker.Start())
		workers = append(workers, worker)
	}
	isEmpty := func() bool { return strings.Contains(operator("status"), "0 waiting, 0 uploading, 0 later") }
	require.Eventually(t, isEmpty, time.Hour, 100*time.Millisecond)
	assert.Contains(t, operator("status"), "2 workers")
	operator("redrive")
	cancel()
	for _, worker := range workers {
		_ = worker.Wait()
		assert.Zero(t, worker.ProcessState.ExitCode(), "an interrupt is no failure")
	}
	assert.NoError(t, srv.CreatedOnce(contents...))
}

// docs/fleets.md shows parts of the example programs, unchanged.
func TestExamples_AreQuotedInTheDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/fleets.md")
	require.NoError(t, err)
	worker, err := os.ReadFile(filepath.Join("examples", "worker", "main.go"))
	require.NoError(t, err)
	_, code, _ := strings.Cut(strings.ReplaceAll(string(worker), "\n\n", "\n"), "\nfunc main")
	assert.LessOrEqual(t, strings.Count(code, "\n"), 30, "imports aside")
	var programs strings.Builder
	for _, name := range []string{"worker", "operator"} {
		source, err := os.ReadFile(filepath.Join("examples", name, "main.go"))
		require.NoError(t, err)
		programs.Write(source)
	}
	blocks := regexp.MustCompile("(?s)\n```go\n(.*?\n)```").FindAllStringSubmatch(strings.ReplaceAll(string(page), "\r\n", "\n"), -1)
	assert.Len(t, blocks, 1)
	assert.Contains(t, string(page), "](../ingest/jetstream/examples/operator/main.go)")
	for _, block := range blocks {
		assert.Contains(t, strings.ReplaceAll(programs.String(), "\r\n", "\n"), block[1])
	}
}
