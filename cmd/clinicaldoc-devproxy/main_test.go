package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asCommand is the variable that makes the test binary run as the command.
const asCommand = "CLINICALDOC_DEVPROXY_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, os.Args[0], args...)
	c.Env = append(os.Environ(), asCommand+"=1")
	return c
}

func TestCommand_WrongFlag_FailsAndSaysWhy(t *testing.T) {
	t.Parallel()
	c := command(t.Context(), "-nonsense")
	var stdout, stderr bytes.Buffer
	c.Stdout = &stdout
	c.Stderr = &stderr
	require.Error(t, c.Run())
	assert.Equal(t, 1, c.ProcessState.ExitCode())
	assert.True(t, strings.HasPrefix(stderr.String(), "clinicaldoc-devproxy: "), stderr.String())
	assert.Empty(t, stdout.String())
}

// A container is stopped with SIGTERM, and a terminal sends an interrupt.
func TestCommand_Signal_EndsInOrder(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("it has no signals")
	}
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		c := command(t.Context(), "-addr", "127.0.0.1:0", "-quiet")
		stdout, err := c.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, c.Start())
		lines := bufio.NewReader(stdout)
		for line := ""; !strings.Contains(line, "base URL"); {
			line, err = lines.ReadString('\n')
			require.NoError(t, err)
		}
		require.NoError(t, c.Process.Signal(signal))
		rest, err := io.ReadAll(lines)
		require.NoError(t, err)
		assert.Contains(t, string(rest), "Closing.\n", signal)
		require.NoError(t, c.Wait(), signal)
	}
}
