//go:build unix

package command

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The report's command line can be typed: a shell makes the same words of it.
func TestShellWords_AnyWord_IsReadByAShell(t *testing.T) {
	t.Parallel()
	words := []string{"upload", "", "it's", "a b", "--name=x", `back\slash`, "$HOME", "`id`", "*", "two\nlines", "'", "ünïcode/ü.wav", "~", "#x", "a;b", `"`}
	line := shellWords(`printf '%s\0'`, words)
	read, err := exec.CommandContext(t.Context(), "sh", "-c", line).Output()
	require.NoError(t, err, line)
	want := ""
	for _, word := range words {
		want += word + "\x00"
	}
	assert.Equal(t, want, string(read))
}

// An editor that ignores the termination signal does not hold up the command for ever.
func TestInteractive_ContextEnds_WaitsForAWhile(t *testing.T) {
	t.Parallel()
	run := interactive(t.Context(), "vi")
	assert.NotNil(t, run.Cancel)
	assert.Equal(t, programGrace, run.WaitDelay)
}
