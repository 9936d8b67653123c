//go:build unix

package main

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
)

// do: if only the service's address changed: "clinicaldoc upload rename FILE"; else leave out --journal
func TestAJournalFollowsItsServiceToAnotherAddress(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	target, err := url.Parse(srv.URL)
	require.NoError(t, err)
	old := httptest.NewServer(httputil.NewSingleHostReverseProxy(target))
	defer old.Close()
	folder, recordings := visits(t, 6)
	env := environment(t, srv)
	before, now := runner(t, append(env, "CLINICALDOC_BASE_URL="+old.URL)), runner(t, env)
	upload := []string{"upload", "--patient", "7", "--prompt", "1", folder}
	said, code := before(append(upload, "--begin")...)
	require.Equal(t, 0, code, said)
	said, _ = before("upload", "status", "--jq", ".[].journal")
	journal := strings.TrimSpace(said)
	old.Close()

	said, code = now(append(upload, "--journal", journal)...)
	assert.Equal(t, 5, code, said)
	assert.Contains(t, said, `do: if only the service's address changed: "clinicaldoc upload rename FILE"; else leave out --journal`)
	said, code = now("upload", "rename", journal)
	require.Equal(t, 0, code, said)
	said, code = now(upload...)
	assert.Equal(t, 0, code, said)
	assert.Contains(t, said, "0 created, 6 already there")
	require.NoError(t, srv.CreatedOnce(recordings...))

	// It is another service: its journal is left alone, and the right one is begun.
	other := clinicaldoctest.NewServer()
	defer other.Close()
	said, _ = now("upload", "status", "--jq", ".[].journal")
	journal = strings.TrimSpace(said)
	elsewhere := runner(t, append(env, "CLINICALDOC_BASE_URL="+other.URL, "CLINICALDOC_TOKEN="+other.Token))
	said, code = elsewhere(append(upload, "--journal", journal)...)
	assert.Equal(t, 5, code, said)
	said, code = elsewhere("upload", "rename", journal)
	assert.Equal(t, 5, code, said)
	assert.Empty(t, other.Notes())
	said, code = elsewhere(append(upload, "--begin")...)
	assert.Equal(t, 0, code, said)
	require.NoError(t, other.CreatedOnce(recordings...))
	said, code = now(upload...)
	assert.Equal(t, 0, code, said)
	assert.NoError(t, srv.CreatedOnce(recordings...))
}

// do: put the journal's file back where it was, and run the same command again
func TestAJournalThatIsMovedWhileItIsUsed(t *testing.T) {
	t.Parallel()
	g := newGate(4)
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithMiddleware(g.before))
	defer srv.Close()
	folder, recordings := visits(t, 20)
	env := environment(t, srv)
	first, said := uploadCommand(t.Context(), env, folder)
	require.NoError(t, first.Start())
	<-g.holds[0].reached
	run := runner(t, env)
	out, _ := run("upload", "status", "--jq", ".[].journal")
	journal := strings.TrimSpace(out)
	require.NoError(t, os.Rename(journal, journal+"-away"))
	close(g.holds[0].release)
	exit, ok := errors.AsType[*exec.ExitError](first.Wait())
	require.True(t, ok, said)
	assert.Contains(t, []int{5, 7}, exit.ExitCode(), said) // what was under way may be unresolved
	assert.Contains(t, said.String(), "do: put the journal's file back where it was, and run the same command again")
	g.awaitCalm()
	require.NoError(t, os.Rename(journal+"-away", journal))
	last, said := uploadCommand(t.Context(), env, folder)
	require.NoError(t, last.Run(), said)
	assert.NoError(t, srv.CreatedOnce(recordings...))
}

// do: if the service re-encodes recordings: --ignore-size
func TestARecordingOfAnotherSizeIsTakenOnRequest(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithVariant(clinicaldoctest.Variant{Audio: clinicaldoctest.AudioReencodedUntold}))
	defer srv.Close()
	folder, _ := visits(t, 1)
	run := runner(t, environment(t, srv))
	said, code := run("upload", "--begin", "--patient", "7", "--prompt", "1", folder)
	require.Equal(t, 0, code, said)
	target := filepath.Join(t.TempDir(), "out.wav")
	said, code = run("audio", "download", "1", target)
	assert.Equal(t, 5, code, said)
	assert.Contains(t, said, "do: if the service re-encodes recordings: --ignore-size")
	said, code = run("audio", "download", "1", target, "--ignore-size")
	assert.Equal(t, 0, code, said)
	assert.FileExists(t, target)
	assert.Len(t, srv.Notes(), 1)
}

// do: wait for the other download to end, or name another file
func TestASecondDownloadToAFileIsRefused(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	srv.AddNote(clinicaldoctest.Note{})
	run := runner(t, environment(t, srv))
	folder := t.TempDir()
	target := filepath.Join(folder, "out.wav")
	other, err := disk.Take(filepath.Join(folder, ".out.wav.clinicaldoc-part.json")) // as a download does
	require.NoError(t, err)
	said, code := run("audio", "download", "1", target)
	assert.Equal(t, 5, code, said)
	assert.Contains(t, said, "do: wait for the other download to end, or name another file")
	said, code = run("audio", "download", "1", filepath.Join(folder, "other.wav"))
	assert.Equal(t, 0, code, said)
	require.NoError(t, disk.Close(other))
	said, code = run("audio", "download", "1", target)
	assert.Equal(t, 0, code, said)
}

// A file that comes while a recording is downloaded is not replaced, unless that is asked for.
func TestADownloadReplacesNoFileThatCameMeanwhile(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "out.wav")
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithMiddleware(func(api http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/audio-url") {
				assert.NoError(t, os.WriteFile(target, []byte("another's"), 0o600))
			}
			api.ServeHTTP(w, r)
		})
	}))
	defer srv.Close()
	srv.AddNote(clinicaldoctest.Note{Audio: []byte("RIFF synthetic")})
	run := runner(t, environment(t, srv))
	said, code := run("audio", "download", "1", target)
	assert.Equal(t, 5, code, said)
	assert.Contains(t, said, "a file with that name exists")
	assert.Contains(t, said, "do: name another file, or add --force")
	content, err := os.ReadFile(target)
	require.NoError(t, err)
	assert.Equal(t, "another's", string(content))
	said, code = run("audio", "download", "1", target, "--force")
	assert.Equal(t, 0, code, said)
	content, err = os.ReadFile(target)
	require.NoError(t, err)
	assert.Equal(t, "RIFF synthetic", string(content))
	left, err := os.ReadDir(filepath.Dir(target))
	require.NoError(t, err)
	assert.Len(t, left, 1)
}

// do: name the context of that service with --context
func TestWhatWasLeftOverGoesToItsOwnService(t *testing.T) {
	t.Parallel()
	srv, other := clinicaldoctest.NewServer(), clinicaldoctest.NewServer()
	defer srv.Close()
	defer other.Close()
	folder, recordings := visits(t, 2)
	env := append(environment(t, srv), "CLINICALDOC_BASE_URL=", "CLINICALDOC_TOKEN=")
	run := runner(t, env)
	for name, service := range map[string]*clinicaldoctest.Server{"ward": srv, "trial": other} {
		login := exec.CommandContext(t.Context(), "clinicaldoc", "login", service.URL, "--context", name)
		login.Env, login.Stdin = append(os.Environ(), env...), strings.NewReader(service.Token)
		require.NoError(t, login.Run())
		said, code := run("--context", name, "upload", "--begin", "--patient", "7", "--prompt", "1", filepath.Join(folder, "visit-00.wav"))
		require.Equal(t, 0, code, said)
	}
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, `{"message":"no"}`))
	said, code := run("--context", "ward", "upload", "--patient", "7", "--prompt", "1", filepath.Join(folder, "visit-01.wav"))
	require.Equal(t, 5, code, said)
	said, code = run("--context", "trial", "upload", "retry")
	assert.Equal(t, 5, code, said)
	assert.Contains(t, said, "do: name the context of that service with --context")
	assert.Len(t, other.Notes(), 1, "its patient 7 is another one")

	// That the other service has it does not end it here.
	id, _ := run("upload", "report", "--jq", ".[0].id")
	said, code = run("--context", "trial", "upload", "--patient", "7", "--prompt", "1", filepath.Join(folder, "visit-01.wav"))
	require.Equal(t, 0, code, said)
	said, code = run("--context", "ward", "upload", "retry", strings.TrimSpace(id))
	assert.Equal(t, 0, code, said)
	assert.NoError(t, srv.CreatedOnce(recordings...))
}

// do: the service may filter by another parameter: "clinicaldoc doctor --gaps" finds it, "clinicaldoc context set --query" sets it
// do: run the command again; if it fails again, the list's parameters may have other names: "clinicaldoc doctor --gaps" finds them
// do: clinicaldoc doctor --gaps --patient ID --prompt ID finds the right name
// do: clinicaldoc context set NAME --query '
// do: name a --patient and a --prompt that exist
// do: clinicaldoc notes delete ID
func TestDoctorFindsTheListsParameters(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithVariant(clinicaldoctest.Variant{Query: clinicaldoctest.QueryNames{PatientID: "filter[patient_id]", PerPage: "limit", Page: "p"}}))
	defer srv.Close()
	srv.SetDelays(clinicaldoctest.Delays{})
	for i := range 40 {
		srv.AddNote(clinicaldoctest.Note{PatientID: int64(7 + i%2), Name: "Visit"})
	}
	env := append(environment(t, srv), "CLINICALDOC_BASE_URL=", "CLINICALDOC_TOKEN=")
	run := runner(t, env)
	login := exec.CommandContext(t.Context(), "clinicaldoc", "login", srv.URL, "--context", "ward")
	login.Env, login.Stdin = append(os.Environ(), env...), strings.NewReader(srv.Token)
	require.NoError(t, login.Run())

	said, code := run("notes", "list", "--patient", "7")
	assert.Equal(t, 5, code, said)
	assert.Contains(t, said, `do: the service may filter by another parameter: "clinicaldoc doctor --gaps" finds it, "clinicaldoc context set --query" sets it`)
	srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Answer(200, `{"data":[{"id":1,"name":"Visit","created_at":"2026-03-01T09:00:00Z"}],"meta":{"current_page":1,"last_page":1,"total":40}}`).Always())
	said, code = run("notes", "list", "--limit", "0")
	srv.ClearFaults()
	assert.Equal(t, 1, code, said)
	assert.Contains(t, said, `do: run the command again; if it fails again, the list's parameters may have other names: "clinicaldoc doctor --gaps" finds them`)
	said, code = run("doctor")
	assert.Equal(t, 0, code, said)
	assert.Contains(t, said, "do: clinicaldoc doctor --gaps --patient ID --prompt ID finds the right name")

	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, `{"message":"no such prompt"}`).Always())
	said, code = run("doctor", "--gaps", "--patient", "7", "--prompt", "1")
	assert.Equal(t, 1, code, said)
	assert.Contains(t, said, "do: name a --patient and a --prompt that exist")
	srv.ClearFaults()
	srv.Inject(clinicaldoctest.RouteDeleteNote, clinicaldoctest.Answer(403, `{}`).Always())
	said, code = run("doctor", "--gaps", "--patient", "7", "--prompt", "1")
	assert.Equal(t, 0, code, said)
	srv.ClearFaults()
	left := regexp.MustCompile(`could not be deleted: \[([0-9 ]+)\]`).FindStringSubmatch(said)
	require.Len(t, left, 2, said)
	assert.Contains(t, said, "do: clinicaldoc notes delete ID")
	for id := range strings.FieldsSeq(left[1]) {
		said, code := run("notes", "delete", id, "--yes="+id)
		assert.Equal(t, 0, code, said)
	}
	assert.Len(t, srv.Notes(), 40)

	set := regexp.MustCompile(`do: clinicaldoc context set NAME --query '(.*)'`).FindStringSubmatch(said)
	require.Len(t, set, 2, said)
	said, code = run("context", "set", "ward", "--query", set[1])
	require.Equal(t, 0, code, said)
	said, code = run("notes", "list", "--patient", "7", "--limit", "0", "--jq", "length")
	assert.Equal(t, 0, code, said)
	assert.Equal(t, "20\n", said)
	said, code = run("notes", "list", "--limit", "0", "--jq", "length")
	assert.Equal(t, 0, code, said)
	assert.Equal(t, "40\n", said)
	assert.Len(t, srv.Notes(), 40)
}

// A doctor that is ended deletes its notes, and tells of those that it cannot delete.
func TestADoctorThatIsEndedTellsWhatItLeft(t *testing.T) {
	t.Parallel()
	var doctor *exec.Cmd
	started := make(chan struct{})
	var created atomic.Int32
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithMiddleware(func(api http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodPost:
				created.Add(1)
			case r.Method == http.MethodGet && r.URL.Path == "/v1/progress-notes" && created.Load() == 3:
				<-started
				assert.NoError(t, doctor.Process.Signal(syscall.SIGTERM))
				<-r.Context().Done()
				return
			}
			api.ServeHTTP(w, r)
		})
	}))
	defer srv.Close()
	srv.SetDelays(clinicaldoctest.Delays{})
	srv.Inject(clinicaldoctest.RouteDeleteNote, clinicaldoctest.Answer(403, `{}`).Always())
	doctor = exec.CommandContext(t.Context(), "clinicaldoc", "doctor", "--gaps", "--patient", "7", "--prompt", "1")
	doctor.Env = append(os.Environ(), environment(t, srv)...)
	var said strings.Builder
	doctor.Stdout = &said
	require.NoError(t, doctor.Start())
	close(started)
	exit, ok := errors.AsType[*exec.ExitError](doctor.Wait())
	require.True(t, ok, said.String())
	assert.Equal(t, 143, exit.ExitCode(), said.String())
	assert.Contains(t, said.String(), "could not be deleted: [1 2 3]")
	assert.Len(t, srv.Notes(), 3)
}

// do: clinicaldoc login https://
// do: run the command again later
func TestWhatDoctorSaysIsDone(t *testing.T) {
	t.Parallel()
	srv, err := clinicaldoctest.Start(clinicaldoctest.WithTLS())
	require.NoError(t, err)
	defer srv.Close()
	trusted := filepath.Join(t.TempDir(), "authority.pem")
	require.NoError(t, os.WriteFile(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600))
	env := append(environment(t, srv), "SSL_CERT_FILE="+trusted, "SSL_CERT_DIR=/nowhere")
	said, code := runner(t, append(env, "CLINICALDOC_BASE_URL=http"+srv.URL[5:]))("doctor")
	assert.Equal(t, 1, code, said)
	advice := regexp.MustCompile(`do: clinicaldoc (login https://\S+)`).FindStringSubmatch(said)
	require.Len(t, advice, 2, said)
	env = append(env, "CLINICALDOC_BASE_URL=", "CLINICALDOC_TOKEN=")
	login := exec.CommandContext(t.Context(), "clinicaldoc", strings.Fields(advice[1])...)
	login.Env, login.Stdin = append(os.Environ(), env...), strings.NewReader(srv.Token)
	out, err := login.CombinedOutput()
	require.NoError(t, err, string(out))
	run := runner(t, env)
	srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.ResetAfterRequest())
	said, code = run("doctor")
	assert.Equal(t, 1, code, said)
	assert.Contains(t, said, "do: run the command again later")
	said, code = run("doctor")
	assert.Equal(t, 0, code, said)
	assert.Regexp(t, `(?m)^good +tls +certificate of`, said)
	assert.Regexp(t, `(?m)^good +token`, said)
}

func TestExport_ServiceLimitsRequests_ExportsAll(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	const count = 50
	for range count {
		srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: "synthetic"})
	}
	const window = 3 * time.Second
	srv.Inject("", clinicaldoctest.Throttle(20, window))
	started := time.Now()
	command := exec.CommandContext(t.Context(), "clinicaldoc", "export", "-", "--workers", "8")
	command.Env = append(os.Environ(), environment(t, srv)...)
	said := &strings.Builder{}
	command.Stderr = said
	exported, err := command.Output()
	require.NoError(t, err, said)
	assert.Equal(t, count, strings.Count(string(exported), "\n"))
	refused := 0
	for _, r := range srv.Requests() {
		if r.Status == http.StatusTooManyRequests {
			refused++
		}
	}
	assert.NotZero(t, refused)
	assert.LessOrEqual(t, refused, int(time.Since(started)/window)+1, "one a window")
}

// Standard output that ends early, or a kill, leaves nothing of an export behind.
func TestAnExportToAPipeLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	g := newGate()
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithMiddleware(g.before))
	defer srv.Close()
	for range 50 {
		srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: "Visit", Transcription: strings.Repeat("canaryText ", 10_000)})
	}
	env := environment(t, srv)
	state := strings.TrimPrefix(env[len(env)-1], "CLINICALDOC_STATE_DIR=")
	nothing := func() {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "grep", "-rl", "canaryText", state).CombinedOutput()
		require.Error(t, err, "it is in %s", out)
		left, err := os.ReadDir(filepath.Join(state, "exports"))
		require.NoError(t, err)
		assert.Empty(t, left)
	}
	start := func(ctx context.Context) (*exec.Cmd, *os.File, *strings.Builder) {
		command := exec.CommandContext(ctx, "clinicaldoc", "export", "-")
		command.Env = append(os.Environ(), env...)
		read, write, err := os.Pipe()
		require.NoError(t, err)
		said := &strings.Builder{}
		command.Stdout, command.Stderr = write, said
		require.NoError(t, command.Start())
		require.NoError(t, write.Close())
		return command, read, said
	}

	// The reader ends after the first bytes: told, with a code, and no signal.
	command, pipe, said := start(t.Context())
	_, err := pipe.Read(make([]byte, 100))
	require.NoError(t, err)
	require.NoError(t, pipe.Close())
	exit, ok := errors.AsType[*exec.ExitError](command.Wait())
	require.True(t, ok, said)
	assert.Equal(t, 1, exit.ExitCode(), said)
	assert.Contains(t, said.String(), "only a part was written")
	nothing()

	// Killed while it writes: the pipe is full, and nobody reads on.
	command, pipe, _ = start(t.Context())
	_, err = pipe.Read(make([]byte, 100))
	require.NoError(t, err)
	require.NoError(t, command.Process.Kill())
	require.Error(t, command.Wait())
	require.NoError(t, pipe.Close())
	nothing()
}
