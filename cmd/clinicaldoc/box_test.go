//go:build unix

package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The local server runs in one terminal. In another one, the same binary runs all other commands against it.
func TestBox_OtherCommands_CanUseIt(t *testing.T) {
	t.Parallel()
	box := exec.CommandContext(t.Context(), "clinicaldoc", "box", "-addr", "127.0.0.1:0", "-seed", "3", "-quiet")
	out, err := box.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, box.Start())
	var baseURL, token string
	for lines := bufio.NewScanner(out); (baseURL == "" || token == "") && lines.Scan(); {
		if after, ok := strings.CutPrefix(lines.Text(), "  base URL "); ok {
			baseURL = strings.TrimSpace(after)
		}
		if after, ok := strings.CutPrefix(lines.Text(), "  token "); ok {
			token = strings.TrimSpace(after)
		}
	}
	folder := t.TempDir()
	clinicaldoc := func(stdin string, args ...string) string {
		c := exec.CommandContext(t.Context(), "clinicaldoc", args...)
		c.Env = append(os.Environ(), "CLINICALDOC_BASE_URL=", "CLINICALDOC_TOKEN=", "CLINICALDOC_KEYRING=off", "CLINICALDOC_CONFIG_DIR="+folder, "CLINICALDOC_STATE_DIR="+folder)
		c.Stdin = strings.NewReader(stdin)
		said, err := c.CombinedOutput()
		require.NoError(t, err, string(said))
		return string(said)
	}
	assert.Contains(t, clinicaldoc(token, "login", baseURL), "logged in to 127.0.0.1:")
	assert.Equal(t, 3, strings.Count(clinicaldoc("", "notes", "list"), "\n"))
	assert.Contains(t, clinicaldoc("", "doctor"), "good      token")

	second := exec.CommandContext(t.Context(), "clinicaldoc", "box", "-addr", strings.TrimPrefix(baseURL, "http://"))
	said, err := second.CombinedOutput()
	require.Error(t, err)
	assert.Equal(t, 1, second.ProcessState.ExitCode())
	wanted := `^clinicaldoc: cannot listen on 127.0.0.1:\d+: .*\n  do: end the program that uses this address, .*-addr\n$`
	assert.Regexp(t, wanted, string(said))

	require.NoError(t, box.Process.Signal(syscall.SIGINT))
	_, _ = bufio.NewReader(out).WriteTo(&strings.Builder{})
	assert.NoError(t, box.Wait())
}
