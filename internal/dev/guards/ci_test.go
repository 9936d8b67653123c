//go:build unix

package guards_test

import (
	"os"
	"os/exec"
	"path/filepath"
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
	for _, signal := range []string{"TERM", "HUP"} {
		t.Run(signal, func(t *testing.T) {
			t.Parallel()
			tools := t.TempDir() // the first command that the script runs is this one
			kill := "#!/bin/sh\necho begun\nkill -s " + signal + " $PPID\n"
			require.NoError(t, os.WriteFile(filepath.Join(tools, "go"), []byte(kill), 0o700))
			run := exec.CommandContext(t.Context(), bash, script)
			run.Env = append(os.Environ(), "PATH="+tools+string(os.PathListSeparator)+os.Getenv("PATH"))
			output, err := run.CombinedOutput()
			require.Error(t, err)
			assert.Contains(t, string(output), "begun")
			assert.NotContains(t, string(output), "All passed")
		})
	}
}
