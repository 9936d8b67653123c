//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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
	return string(said), exitCode(c.t, err)
}

// exits runs a command line that must end with this code, and returns what it said.
func (c *cron) exits(code int, line string, env ...string) string {
	c.t.Helper()
	said, got := c.runs(line, env...)
	require.Equal(c.t, code, got, "%s: %s", line, said)
	return said
}

// process is a command line that runs.
type process struct {
	*exec.Cmd
	said io.Reader // on standard error
}

// starts runs the program itself, so that it is the one that is killed.
func (c *cron) starts(line string) *process {
	c.t.Helper()
	p := &process{Cmd: exec.CommandContext(c.t.Context(), "clinicaldoc", strings.Fields(line)[1:]...)}
	p.Dir, p.Env = c.home, c.env
	var err error
	p.said, err = p.StderrPipe()
	require.NoError(c.t, err)
	require.NoError(c.t, p.Start())
	return p
}

// morning is what somebody who was not there reads.
func (c *cron) morning(wants ...string) string {
	c.t.Helper()
	said := c.exits(0, "clinicaldoc upload report")
	for _, want := range wants {
		assert.Regexp(c.t, "(?m)"+want, said)
	}
	assert.NotContains(c.t, said, "visit-")
	assert.NotRegexp(c.t, `exit code|Notes\.|Users\.|in doubt|without a word`, said)
	head, _, _ := strings.Cut(said, "\nDetails\n")
	assert.NotRegexp(c.t, `\b(GET|POST|PUT) /`, head)
	assert.Less(c.t, strings.Count(said, "\n"), 80, "it is read in a minute, even if each list has its ten rows")
	if testing.Verbose() {
		c.t.Logf("a morning:\n%s", said)
	}
	return said
}

// night is a service that can be made to hold uploads back, or to be down from one of them on.
type night struct {
	*gate
	down     atomic.Bool
	downFrom atomic.Int64 // the upload, counted from 1
	uploads  atomic.Int64
}

func (n *night) before(api http.Handler) http.Handler {
	held := n.gate.before(api)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && n.uploads.Add(1) == n.downFrom.Load() {
			n.down.Store(true)
		}
		if n.down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		held.ServeHTTP(w, r)
	})
}

// Two nightly uploads from cron meet every kind of failure. Each recording becomes one note, and each report says what
// happened and what to do.
func TestCron_TwoBadNights_EachRecordingIsOneNote(t *testing.T) {
	t.Parallel()
	const count = 1000
	n := &night{gate: newGate(count / 3)}
	srv := newServer(t, clinicaldoctest.WithMiddleware(n.before))
	srv.AddPatient(clinicaldoctest.Patient{ID: 7})
	c := newCron(t)
	share := filepath.Join(c.home, "share")
	require.NoError(t, os.Mkdir(share, 0o700))
	var recordings [][]byte
	for i := range count {
		recordings = append(recordings, fmt.Appendf(nil, "RIFF recording %d %s", i, bytes.Repeat([]byte{'x'}, 1000+i)))
		require.NoError(t, os.WriteFile(filepath.Join(share, fmt.Sprintf("visit-%04d.wav", i)), recordings[i], 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(share, "visit-bad.wav"), nil, 0o600))
	const upload = "clinicaldoc upload --begin --patient 7 --prompt 1 --unique-names --settle 1s --retries 0 "
	tonight := upload + "share"

	// Nobody has logged in where cron runs, and there is no keyring: what is printed to be done is done.
	c.exits(4, tonight)
	c.morning(`^This upload sent none of its 1001 encounters\.$`, `^Nobody has logged in to the service`,
		`^  Whoever runs the uploads: run "clinicaldoc login URL", then run the same upload again\.$`)
	login := func() {
		c.exits(0, "printf '%s' \"$T\" | CLINICALDOC_KEYRING=off clinicaldoc login "+srv.URL, "T="+srv.Token)
	}
	login()

	// The first night: killed in the middle, before a note is complete.
	// do: run the same upload again, or "clinicaldoc upload retry": what is done is not sent twice
	srv.SetDelays(clinicaldoctest.Delays{Transcribing: time.Hour})
	killed := c.starts(tonight)
	<-n.holds[0].reached
	said, _ := c.runs("clinicaldoc upload report")
	assert.Contains(t, said, "The upload is still running")
	require.NoError(t, killed.Process.Kill())
	_ = killed.Wait()
	srv.SetDelays(clinicaldoctest.Delays{})
	close(n.holds[0].release)
	n.awaitCalm()
	c.morning(`^The upload was killed, or the machine stopped, before it ended\. 1001 encounters have no result\.$`,
		`^  Whoever runs the uploads: run the same upload again, or "clinicaldoc upload retry"`)
	said = c.exits(0, "clinicaldoc upload report --reveal")
	assert.Regexp(t, `(?m)^  command +clinicaldoc upload --begin --patient 7 .* share\n  folder +`+c.home, said)
	assert.Regexp(t, `(?m)^1001 recordings have no result\n +`+share+`/visit-0000.wav$`, said)
	assert.Contains(t, said, "    and 991 more; --json lists all\n")
	said = c.exits(0, "clinicaldoc upload report --reveal --json unfinished")
	assert.Contains(t, said, share+"/visit-0999.wav")

	// do: make room on the disk, and run the same command again
	// do: make room on the disk, and run the same upload again: what is done is not sent twice
	// The disk is full after a few more: a limit on the size of files is as good.
	said, code := c.runs("ulimit -f $(( $(cat .local/state/clinicaldoc/journals/*.journal | wc -c) / 512 + 30 )); " + tonight)
	assert.Contains(t, []int{1, 7}, code, said) // what was under way may be unresolved
	n.awaitCalm()
	assert.Contains(t, said, "the report is incomplete, because it could not be written: file too large")
	c.morning(`^\d+ of 1001 encounters (is|are) complete; .*\d+ were not sent\.$`, `^The disk is full: .*file too large\.$`,
		`^  Whoever runs the uploads: make room on the disk, and run the same command again`,
		`^The results of \d+ recordings could not be written to this report\.`)
	said, code = c.runs("ulimit -f 0; " + tonight)
	assert.NotEqual(t, 0, code, said)
	c.morning(`^The report could not be written, so it does not show what became of the upload\.$`,
		`^  Whoever runs the uploads: make room on the disk, and run the same upload again`)

	// The token is in a keyring, which there is none of at night; then it is refused.
	// do: if nobody is logged in, as in cron, keep the token in a file: CLINICALDOC_KEYRING=off clinicaldoc login URL
	place := filepath.Join(c.home, ".config", "clinicaldoc", "tokens", "127.0.0.1-"+srv.URL[strings.LastIndex(srv.URL, ":")+1:]+".json")
	good, err := os.ReadFile(place)
	require.NoError(t, err)
	require.NoError(t, os.Remove(place))
	c.exits(4, tonight)
	c.morning(`^This upload sent none of its 1001 encounters\.$`, `^The token is in the system's keyring, which cannot be used`,
		`^  Whoever runs the uploads: .*CLINICALDOC_KEYRING=off clinicaldoc login URL`)
	login()
	require.NoError(t, os.WriteFile(place, bytes.Replace(good, []byte(srv.Token), []byte("revoked"), 1), 0o600))
	c.exits(4, tonight)
	c.morning(`^The service did not accept the token`, `^  Whoever runs the uploads: run "clinicaldoc login URL", then`)
	login()

	// The share is not there.
	// do: check the path, and whether its share is mounted; then run the same command again
	c.exits(2, upload+"/nowhere/share")
	c.morning(`^Nothing was sent; 1 file or folder was left out\.$`, `^A file or folder in the arguments cannot be read: no such file`,
		`^  Whoever runs the uploads: check the path, and whether its share is mounted`, `^  1 file or folder: it cannot be read`)

	// The second night: the service goes down in the middle, for longer than a run waits.
	n.downFrom.Store(n.uploads.Load() + 100)
	c.exits(7, upload+"--max-pause 1ms share")
	n.awaitCalm()
	c.morning(`^\d+ of 1001 encounters are complete; .* are unresolved, \d+ were not sent\.$`,
		`^The service, or a proxy before it, was failing\.$`, `^  Whoever runs the uploads: run the command again later; `,
		`^  Somebody who may read the patients' notes: decide about the \d+ recordings that are unresolved`,
		`^\d+ recordings are processing: their notes are not complete yet\.$`, `^    and \d+ more; --json lists all`,
		`^  20.*  paused, because every upload failed in the same way: 503`)
	c.exits(6, tonight)
	c.morning(`^This upload sent none of its 1001 encounters\.$`, `^The service, or a proxy before it, was failing\.$`,
		`^  Whoever runs the uploads: run the command again later`, `^  20.*  \d+ of 1001 encounters are complete; .* was failing\.`,
		`^  20.*  Nothing was sent; 1 file or folder was left out: a file`)
	n.down.Store(false)

	// Then it goes down and comes back, and the run goes on by itself. One file is bad.
	n.downFrom.Store(n.uploads.Load() + 100)
	paused := c.starts(tonight)
	for lines := bufio.NewScanner(paused.said); lines.Scan(); {
		if strings.Contains(lines.Text(), " pausing, because everything fails in the same way: ") {
			n.down.Store(false)
		}
	}
	assert.Equal(t, 9, exitCode(t, paused.Wait()))
	report := c.morning(`^1000 of 1001 encounters are complete; 1 was refused\.$`, `^1 recording was refused: it has no note\.$`,
		`^    file-[0-9a-f]{8}  recording 1001  20`, `^  why +.*empty`, `^  do +check the file, and run the same command again`,
		`^  20.*  paused, .*503`, `^  20.*  went on$`)
	assert.NotContains(t, report, "could not be written", "what a later upload came to the end of needs nobody")
	require.NoError(t, srv.CreatedOnce(recordings...))
	assert.Len(t, srv.Notes(), count)

	// do: check the file, and run the same command again
	recordings = append(recordings, []byte("RIFF what was meant"))
	require.NoError(t, os.WriteFile(filepath.Join(share, "visit-bad.wav"), recordings[count], 0o600))
	c.exits(0, "clinicaldoc upload retry --unique-names")
	assert.NotContains(t, c.morning(`^All done: 1 encounter is complete\.$`, `^There is nothing to do about this upload\.$`), "refused", "what was done since is not told again")
	assert.NoError(t, srv.CreatedOnce(recordings...))
}

// A share is gone while a run reads from it. The run pauses and ends. Its exit code does not claim that nothing was
// sent.
func TestCron_ShareGoesAway_RetrySendsTheRest(t *testing.T) {
	t.Parallel()
	g := newGate(4)
	srv := newServer(t, clinicaldoctest.WithMiddleware(g.before))
	c := newCron(t)
	c.env = append(c.env, "CLINICALDOC_BASE_URL="+srv.URL, "CLINICALDOC_TOKEN="+srv.Token)
	folder, recordings := visits(t, 12)
	share := filepath.Join(c.home, "share")
	require.NoError(t, os.Rename(folder, share))
	p := c.starts("clinicaldoc upload --begin --patient 7 --prompt 1 --workers 1 --max-pause 1ms share")
	<-g.holds[0].reached
	require.NoError(t, os.Rename(share, share+"-away"))
	close(g.holds[0].release)
	said, err := io.ReadAll(p.said)
	require.NoError(t, err)
	assert.Equal(t, 6, exitCode(t, p.Wait()), string(said))
	c.morning(`^\d of 12 encounters (is|are) complete; .*not sent\.$`, `^The recordings could no longer be read\.$`,
		`^  Whoever runs the uploads: check whether the file's share is mounted, then run the same command again\.$`)

	// do: check whether the file's share is mounted, then run the same command again
	// It is mounted again, and what the run left over is sent by its report alone.
	require.NoError(t, os.Rename(share+"-away", share))
	c.exits(0, "clinicaldoc upload retry")
	c.morning(`^All done`)
	assert.NoError(t, srv.CreatedOnce(recordings...))
}

// A disk that is really full, where this system lets anybody mount one of their own.
func TestCron_DiskIsFull_RunSaysSoAndGoesOn(t *testing.T) {
	t.Parallel()
	if err := exec.CommandContext(t.Context(), "unshare", "-rm", "sh", "-c", "mount -t tmpfs -o size=64k none /mnt").Run(); err != nil {
		t.Skip("no disk can be mounted here: ", err)
	}
	srv := newServer(t)
	c := newCron(t)
	folder, recordings := visits(t, 100)
	require.NoError(t, os.Rename(folder, filepath.Join(c.home, "share")))
	require.NoError(t, os.Mkdir(filepath.Join(c.home, "disk"), 0o700))
	c.env = append(c.env, "CLINICALDOC_BASE_URL="+srv.URL, "CLINICALDOC_TOKEN="+srv.Token, "CLINICALDOC_STATE_DIR="+filepath.Join(c.home, "disk"))
	require.NoError(t, os.WriteFile(filepath.Join(c.home, "night.sh"), []byte(`
mount -t tmpfs -o size=256k none disk
upload() { clinicaldoc upload --begin --patient 7 --prompt 1 --workers 1 --unique-names --settle 1s --max-pause 1ms share; echo "code $?"; clinicaldoc upload report; }
dd if=/dev/zero of=disk/other bs=1k count=196 2>/dev/null
echo "first"; upload
dd if=/dev/zero of=disk/more bs=1k 2>/dev/null
echo "second"; upload
rm disk/other disk/more
echo "third"; upload
`), 0o600))
	said := c.exits(0, "unshare -rm sh night.sh")
	first, rest, ok := strings.Cut(said, "\nsecond\n")
	require.True(t, ok, said)
	second, third, ok := strings.Cut(rest, "\nthird\n")
	require.True(t, ok, said)
	assert.Regexp(t, `(?m)^code [17]$`, first)
	assert.Regexp(t, `(?m)^The disk is full: .*no space left on device`, first, "the end is written where room was kept for it")
	assert.Regexp(t, `(?m)^  Whoever runs the uploads: make room on the disk, and run the same command again`, first)
	assert.Regexp(t, `(?m)^  do: make room on the disk`, second)
	assert.NotRegexp(t, `(?m)^All done`, second)
	assert.Regexp(t, `(?m)^code 0$`, third)
	assert.Regexp(t, `(?m)^All done`, third)
	assert.NoError(t, srv.CreatedOnce(recordings...))
}
