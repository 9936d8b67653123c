//go:build unix

package guards_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A run that a signal ends has not passed, whatever its last command returned.
func TestCIRun_EndedBySignal_HasNotPassed(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	script, err := filepath.Abs(filepath.Join(root, ".ci", "run"))
	require.NoError(t, err)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			// The first command that the script runs says that it has begun, and then waits until it is ended.
			tools := t.TempDir()
			waiting := "#!/bin/sh\necho begun\nread line < \"$WAIT\"\n"
			require.NoError(t, os.WriteFile(filepath.Join(tools, "go"), []byte(waiting), 0o700))
			fifo := filepath.Join(tools, "wait")
			require.NoError(t, syscall.Mkfifo(fifo, 0o600))
			run := exec.CommandContext(t.Context(), bash, script)
			run.Env = append(os.Environ(), "PATH="+tools+string(os.PathListSeparator)+os.Getenv("PATH"), "WAIT="+fifo)
			output, err := run.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, run.Start())
			lines := bufio.NewReader(output)
			for line := ""; !strings.Contains(line, "begun"); {
				line, err = lines.ReadString('\n')
				require.NoError(t, err)
			}
			require.NoError(t, run.Process.Signal(signal))
			release, err := os.OpenFile(fifo, os.O_WRONLY, 0)
			require.NoError(t, err)
			require.NoError(t, release.Close())
			rest, err := io.ReadAll(lines)
			require.NoError(t, err)
			require.Error(t, run.Wait())
			assert.NotContains(t, string(rest), "All passed")
		})
	}
}
