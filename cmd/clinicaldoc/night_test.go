//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// cron runs command lines as cron does: by sh, without a terminal, a keyring, or more of an environment than it needs.
type cron struct {
	t    *testing.T
	home string
	env  []string
}

func newCron(t *testing.T) *cron {
	t.Helper()
	binary, err := exec.LookPath("clinicaldoc")
	require.NoError(t, err)
	home := t.TempDir()
	return &cron{t: t, home: home, env: []string{"HOME=" + home, "LOGNAME=night", "SHELL=/bin/sh", "PATH=" + filepath.Dir(binary) + ":/usr/bin:/bin", "DBUS_SESSION_BUS_ADDRESS=unix:path=/nowhere"}}
}

// runs returns what a command line said and its exit code.
func (c *cron) runs(line string, env ...string) (string, int) {
	c.t.Helper()
	command := exec.CommandContext(c.t.Context(), "/bin/sh", "-c", line)
	command.Dir = c.home
	command.Env = append(append([]string{}, c.env...), env...)
	said, err := command.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(said), exit.ExitCode()
	}
	require.NoError(c.t, err, string(said))
	return string(said), 0
}

// morning is what somebody who was not there reads.
func (c *cron) morning(wants ...string) string {
	c.t.Helper()
	said, code := c.runs("clinicaldoc upload report")
	require.Equal(c.t, 0, code, said)
	for _, want := range wants {
		assert.Regexp(c.t, "(?m)"+want, said)
	}
	assert.NotContains(c.t, said, "visit-")
	return said
}

// Two nights from cron, in which whatever can go wrong does: each recording becomes one note, and each morning's report says what
// happened and what is to be done.
func TestTwoNightsFromCron(t *testing.T) {
	t.Parallel()
	const count = 60
	g := newGate(20)
	var down, hold atomic.Bool
	hold.Store(true)
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithMiddleware(func(api http.Handler) http.Handler {
		held := g.before(api)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case down.Load():
				http.Error(w, "down", http.StatusServiceUnavailable)
			case hold.Load():
				held.ServeHTTP(w, r)
			default:
				api.ServeHTTP(w, r)
			}
		})
	}))
	defer srv.Close()
	srv.AddPatient(clinicaldoctest.Patient{ID: 7})
	c := newCron(t)
	share := filepath.Join(c.home, "share")
	require.NoError(t, os.Mkdir(share, 0o700))
	var recordings [][]byte
	for i := range count {
		recordings = append(recordings, fmt.Appendf(nil, "RIFF recording %d %s", i, bytes.Repeat([]byte{'x'}, 1000+i)))
		require.NoError(t, os.WriteFile(filepath.Join(share, fmt.Sprintf("visit-%02d.wav", i)), recordings[i], 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(share, "visit-bad.wav"), nil, 0o600))
	const upload = "clinicaldoc upload --begin --patient 7 --prompt 1 --unique-names --settle 1s --max-pause 0s --retries 0 "
	night := upload + "share"

	// Nobody has logged in where cron runs, and there is no keyring: what is printed to be done is done.
	said, code := c.runs(night)
	assert.Equal(t, 4, code, said)
	c.morning(`^how +exit code 4: not logged in`, `^do +clinicaldoc login URL`)
	said, code = c.runs("printf '%s' \"$T\" | CLINICALDOC_KEYRING=off clinicaldoc login "+srv.URL, "T="+srv.Token)
	require.Equal(t, 0, code, said)

	// The first night: killed in the middle.
	command := exec.CommandContext(t.Context(), "clinicaldoc", strings.Fields(night)[1:]...)
	command.Dir, command.Env = c.home, c.env
	require.NoError(t, command.Start())
	<-g.holds[0].reached
	said, _ = c.runs("clinicaldoc upload report")
	assert.Contains(t, said, "still running")
	require.NoError(t, command.Process.Kill())
	_ = command.Wait()
	close(g.holds[0].release)
	g.awaitCalm()
	hold.Store(false)
	c.morning(`^how +cut off without a word`, `^do +run the same upload again`, `61 recordings: \d+ created.*not begun or not finished`)

	// The disk is full: a limit on the size of files is as good.
	said, code = c.runs("ulimit -f 0; " + night)
	assert.NotEqual(t, 0, code, said)
	assert.Contains(t, said, "the report could not be kept whole")

	// The service is down.
	down.Store(true)
	said, code = c.runs(night)
	assert.Equal(t, 6, code, said)
	c.morning(`^how +exit code 6: .*503`, `^do +run it again later`)
	down.Store(false)

	// The token is in a keyring, which there is none of at night; then it is refused.
	place := filepath.Join(c.home, ".config", "clinicaldoc", "tokens", "127.0.0.1-"+srv.URL[strings.LastIndex(srv.URL, ":")+1:]+".json")
	good, err := os.ReadFile(place)
	require.NoError(t, err)
	require.NoError(t, os.Remove(place))
	said, code = c.runs(night)
	assert.Equal(t, 4, code, said)
	c.morning(`^how +exit code 4: .*keyring`, `^do +.*CLINICALDOC_KEYRING=off clinicaldoc login URL`)
	require.NoError(t, os.WriteFile(place, bytes.Replace(good, []byte(srv.Token), []byte("revoked"), 1), 0o600))
	said, code = c.runs(night)
	assert.Equal(t, 4, code, said)
	c.morning(`^how +exit code 4: .*401`, `^do +clinicaldoc login URL`)
	require.NoError(t, os.WriteFile(place, good, 0o600))

	// The share is not there.
	said, code = c.runs(upload + "/nowhere/share")
	assert.Equal(t, 2, code, said)
	c.morning(`^how +exit code 2: a file or folder that is named cannot be read: no such file`)

	// The second night is good, but for one bad file.
	said, code = c.runs(night)
	assert.Equal(t, 9, code, said)
	report := c.morning(`^how +exit code 9: 1 of 61 recordings were refused`, `61 recordings: \d+ created, \d+ already there, 1 refused, 0 in doubt`, `^file-[0-9a-f]{8}  refused`, `^  why +.*empty`, `^  do +look at the file, and run the same command again`)
	t.Logf("the morning after the second night:\n%s", report)
	require.NoError(t, srv.CreatedOnce(recordings...))
	assert.Len(t, srv.Notes(), count)

	// What the report says to do is done.
	recordings = append(recordings, []byte("RIFF what was meant"))
	require.NoError(t, os.WriteFile(filepath.Join(share, "visit-bad.wav"), recordings[count], 0o600))
	said, code = c.runs("clinicaldoc upload retry --unique-names")
	assert.Equal(t, 0, code, said)
	c.morning(`^how +all done`)
	assert.NoError(t, srv.CreatedOnce(recordings...))
}
