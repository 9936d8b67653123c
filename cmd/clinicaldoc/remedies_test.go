//go:build unix

package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
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
func TestUploadRename_ServiceMoved_JournalFollows(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	target, err := url.Parse(srv.URL)
	require.NoError(t, err)
	old := httptest.NewServer(httputil.NewSingleHostReverseProxy(target))
	defer old.Close()
	folder, recordings := visits(t, 6)
	now := newCLI(t, srv)
	before := now.with("CLINICALDOC_BASE_URL=" + old.URL)
	upload := []string{"upload", "--patient", "7", "--prompt", "1", folder}
	before.exits(0, append(upload, "--begin")...)
	said := before.exits(0, "upload", "status", "--jq", ".[].journal")
	journal := strings.TrimSpace(said)
	old.Close()

	said = now.exits(5, append(upload, "--journal", journal)...)
	assert.Contains(t, said, `do: if only the service's address changed: "clinicaldoc upload rename FILE"; else leave out --journal`)
	now.exits(0, "upload", "rename", journal)
	said = now.exits(0, upload...)
	assert.Contains(t, said, "0 created, 6 already there")
	require.NoError(t, srv.CreatedOnce(recordings...))

	// It is another service: its journal is left alone, and the right one is begun.
	other := newServer(t)
	said = now.exits(0, "upload", "status", "--jq", ".[].journal")
	journal = strings.TrimSpace(said)
	elsewhere := now.with("CLINICALDOC_BASE_URL="+other.URL, "CLINICALDOC_TOKEN="+other.Token)
	elsewhere.exits(5, append(upload, "--journal", journal)...)
	elsewhere.exits(5, "upload", "rename", journal)
	assert.Empty(t, other.Notes())
	elsewhere.exits(0, append(upload, "--begin")...)
	require.NoError(t, other.CreatedOnce(recordings...))
	now.exits(0, upload...)
	assert.NoError(t, srv.CreatedOnce(recordings...))
}

// do: put the journal's file back where it was, and run the same command again
func TestUpload_JournalMovedMeanwhile_EndsAndGoesOn(t *testing.T) {
	t.Parallel()
	g := newGate(4)
	srv := newServer(t, clinicaldoctest.WithMiddleware(g.before))
	folder, recordings := visits(t, 20)
	run := newCLI(t, srv)
	first, said := run.command(uploadArgs(folder)...)
	require.NoError(t, first.Start())
	<-g.holds[0].reached
	journal := strings.TrimSpace(run.exits(0, "upload", "status", "--jq", ".[].journal"))
	require.NoError(t, os.Rename(journal, journal+"-away"))
	close(g.holds[0].release)
	assert.Contains(t, []int{5, 7}, exitCode(t, first.Wait()), said) // what was under way may be unresolved
	assert.Contains(t, said.String(), "do: put the journal's file back where it was, and run the same command again")
	g.awaitCalm()
	require.NoError(t, os.Rename(journal+"-away", journal))
	run.exits(0, uploadArgs(folder)...)
	assert.NoError(t, srv.CreatedOnce(recordings...))
}

// do: if the service re-encodes recordings: --ignore-size
func TestDownload_OtherSize_NeedsIgnoreSize(t *testing.T) {
	t.Parallel()
	srv := newServer(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{Audio: clinicaldoctest.AudioReencodedUntold}))
	folder, _ := visits(t, 1)
	run := newCLI(t, srv)
	run.exits(0, "upload", "--begin", "--patient", "7", "--prompt", "1", folder)
	target := filepath.Join(t.TempDir(), "out.wav")
	said := run.exits(5, "audio", "download", "1", target)
	assert.Contains(t, said, "do: if the service re-encodes recordings: --ignore-size")
	run.exits(0, "audio", "download", "1", target, "--ignore-size")
	assert.FileExists(t, target)
	assert.Len(t, srv.Notes(), 1)
}

// do: wait for the other download to end, or name another file
func TestDownload_FileInUse_IsRefused(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	srv.AddNote(clinicaldoctest.Note{})
	run := newCLI(t, srv)
	folder := t.TempDir()
	target := filepath.Join(folder, "out.wav")
	other, err := disk.Take(filepath.Join(folder, ".out.wav.clinicaldoc-part.json")) // as a download does
	require.NoError(t, err)
	said := run.exits(5, "audio", "download", "1", target)
	assert.Contains(t, said, "do: wait for the other download to end, or name another file")
	run.exits(0, "audio", "download", "1", filepath.Join(folder, "other.wav"))
	require.NoError(t, disk.Close(other))
	run.exits(0, "audio", "download", "1", target)
}

// A file that another program creates during the download is replaced only with --force.
func TestDownload_FileCameMeanwhile_NeedsForce(t *testing.T) {
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
	run := newCLI(t, srv)
	said := run.exits(5, "audio", "download", "1", target)
	assert.Contains(t, said, "a file with that name exists")
	assert.Contains(t, said, "do: name another file, or add --force")
	content, err := os.ReadFile(target)
	require.NoError(t, err)
	assert.Equal(t, "another's", string(content))
	run.exits(0, "audio", "download", "1", target, "--force")
	content, err = os.ReadFile(target)
	require.NoError(t, err)
	assert.Equal(t, "RIFF synthetic", string(content))
	left, err := os.ReadDir(filepath.Dir(target))
	require.NoError(t, err)
	assert.Len(t, left, 1)
}

// do: name the context of that service with --context
func TestUploadRetry_OtherService_IsRefused(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	other := newServer(t)
	folder, recordings := visits(t, 2)
	run := newCLI(t, srv, "CLINICALDOC_BASE_URL=", "CLINICALDOC_TOKEN=")
	for name, service := range map[string]*clinicaldoctest.Server{"ward": srv, "trial": other} {
		run.login(service, name)
		run.exits(0, "--context", name, "upload", "--begin", "--patient", "7", "--prompt", "1", filepath.Join(folder, "visit-00.wav"))
	}
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, `{"message":"no"}`))
	run.exits(5, "--context", "ward", "upload", "--patient", "7", "--prompt", "1", filepath.Join(folder, "visit-01.wav"))
	said := run.exits(5, "--context", "trial", "upload", "retry")
	assert.Contains(t, said, "do: name the context of that service with --context")
	assert.Len(t, other.Notes(), 1, "its patient 7 is another one")

	// That the other service has it does not end it here.
	id := run.exits(0, "upload", "report", "--jq", ".[0].id")
	run.exits(0, "--context", "trial", "upload", "--patient", "7", "--prompt", "1", filepath.Join(folder, "visit-01.wav"))
	run.exits(0, "--context", "ward", "upload", "retry", strings.TrimSpace(id))
	assert.NoError(t, srv.CreatedOnce(recordings...))
}

// do: the service may filter by another parameter: "clinicaldoc doctor --gaps" finds it, "clinicaldoc context set --query" sets it
// do: run the command again; if it fails again, the list's parameters may have other names: "clinicaldoc doctor --gaps" finds them
// do: clinicaldoc doctor --gaps --patient ID --prompt ID finds the right name
// do: clinicaldoc context set NAME --query '
// do: name a --patient and a --prompt that exist
// do: clinicaldoc notes delete ID
func TestDoctor_OtherQueryNames_AreFoundAndSet(t *testing.T) {
	t.Parallel()
	names := clinicaldoctest.QueryNames{PatientID: "filter[patient_id]", PerPage: "limit", Page: "p"}
	srv := newServer(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{Query: names}))
	srv.SetDelays(clinicaldoctest.Delays{})
	for i := range 40 {
		srv.AddNote(clinicaldoctest.Note{PatientID: int64(7 + i%2), Name: "Visit"})
	}
	run := newCLI(t, srv, "CLINICALDOC_BASE_URL=", "CLINICALDOC_TOKEN=")
	run.login(srv, "ward")

	said := run.exits(5, "notes", "list", "--patient", "7")
	assert.Contains(t, said, `do: the service may filter by another parameter: "clinicaldoc doctor --gaps" finds it, "clinicaldoc context set --query" sets it`)
	srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Answer(200, `{"data":[{"id":1,"name":"Visit","created_at":"2026-03-01T09:00:00Z"}],"meta":{"current_page":1,"last_page":1,"total":40}}`).Always())
	said = run.exits(1, "notes", "list", "--limit", "0")
	srv.ClearFaults()
	assert.Contains(t, said, `do: run the command again; if it fails again, the list's parameters may have other names: "clinicaldoc doctor --gaps" finds them`)
	said = run.exits(0, "doctor")
	assert.Contains(t, said, "do: clinicaldoc doctor --gaps --patient ID --prompt ID finds the right name")

	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, `{"message":"no such prompt"}`).Always())
	said = run.exits(1, "doctor", "--gaps", "--patient", "7", "--prompt", "1")
	assert.Contains(t, said, "do: name a --patient and a --prompt that exist")
	srv.ClearFaults()
	srv.Inject(clinicaldoctest.RouteDeleteNote, clinicaldoctest.Answer(403, `{}`).Always())
	said = run.exits(0, "doctor", "--gaps", "--patient", "7", "--prompt", "1")
	srv.ClearFaults()
	left := regexp.MustCompile(`could not be deleted: \[([0-9 ]+)\]`).FindStringSubmatch(said)
	require.Len(t, left, 2, said)
	assert.Contains(t, said, "do: clinicaldoc notes delete ID")
	for id := range strings.FieldsSeq(left[1]) {
		run.exits(0, "notes", "delete", id, "--yes="+id)
	}
	assert.Len(t, srv.Notes(), 40)

	set := regexp.MustCompile(`do: clinicaldoc context set NAME --query '(.*)'`).FindStringSubmatch(said)
	require.Len(t, set, 2, said)
	run.exits(0, "context", "set", "ward", "--query", set[1])
	said = run.exits(0, "notes", "list", "--patient", "7", "--limit", "0", "--jq", "length")
	assert.Equal(t, "20\n", said)
	said = run.exits(0, "notes", "list", "--limit", "0", "--jq", "length")
	assert.Equal(t, "40\n", said)
	assert.Len(t, srv.Notes(), 40)
}

// A doctor that is terminated deletes the notes that it created, and names those that it cannot delete.
func TestDoctor_Terminated_NamesNotesItLeft(t *testing.T) {
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
	command, said := newCLI(t, srv).command("doctor", "--gaps", "--patient", "7", "--prompt", "1")
	doctor = command
	require.NoError(t, doctor.Start())
	close(started)
	assert.Equal(t, 143, exitCode(t, doctor.Wait()), said)
	assert.Contains(t, said.String(), "could not be deleted: [1 2 3]")
	assert.Len(t, srv.Notes(), 3)
}

// do: clinicaldoc login https://
// do: run the command again later
func TestDoctor_EachRemedy_Works(t *testing.T) {
	t.Parallel()
	srv := newServer(t, clinicaldoctest.WithTLS())
	trusted := filepath.Join(t.TempDir(), "authority.pem")
	require.NoError(t, os.WriteFile(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600))
	run := newCLI(t, srv, "SSL_CERT_FILE="+trusted, "SSL_CERT_DIR=/nowhere")
	said := run.with("CLINICALDOC_BASE_URL=http"+srv.URL[5:]).exits(1, "doctor")
	advice := regexp.MustCompile(`do: clinicaldoc (login https://\S+)`).FindStringSubmatch(said)
	require.Len(t, advice, 2, said)
	run = run.with("CLINICALDOC_BASE_URL=", "CLINICALDOC_TOKEN=")
	login, out := run.command(strings.Fields(advice[1])...)
	login.Stdin = strings.NewReader(srv.Token)
	require.NoError(t, login.Run(), out)
	srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.ResetAfterRequest())
	said = run.exits(1, "doctor")
	assert.Contains(t, said, "do: run the command again later")
	said = run.exits(0, "doctor")
	assert.Regexp(t, `(?m)^good +tls +certificate of`, said)
	assert.Regexp(t, `(?m)^good +token`, said)
}

func TestExport_ServiceLimitsRequests_ExportsAll(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	const count = 50
	for range count {
		srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: "synthetic"})
	}
	const window = 3 * time.Second
	srv.Inject("", clinicaldoctest.Throttle(20, window))
	started := time.Now()
	command, said := newCLI(t, srv).command("export", "-", "--workers", "8")
	exported := &strings.Builder{}
	command.Stdout = exported
	require.NoError(t, command.Run(), said)
	assert.Equal(t, count, strings.Count(exported.String(), "\n"))
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
func TestExport_PipeEndsEarly_LeavesNothing(t *testing.T) {
	t.Parallel()
	g := newGate()
	srv := newServer(t, clinicaldoctest.WithMiddleware(g.before))
	for range 50 {
		srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: "Visit", Transcription: strings.Repeat("canaryText ", 10_000)})
	}
	run := newCLI(t, srv)
	state := strings.TrimPrefix(run.env[len(run.env)-1], "CLINICALDOC_STATE_DIR=")
	nothing := func() {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "grep", "-rl", "canaryText", state).CombinedOutput()
		require.Error(t, err, "it is in %s", out)
		left, err := os.ReadDir(filepath.Join(state, "exports"))
		require.NoError(t, err)
		assert.Empty(t, left)
	}
	start := func() (*exec.Cmd, *os.File, *bytes.Buffer) {
		command, said := run.command("export", "-")
		read, write, err := os.Pipe()
		require.NoError(t, err)
		command.Stdout = write
		require.NoError(t, command.Start())
		require.NoError(t, write.Close())
		return command, read, said
	}

	// The reader ends after the first bytes: told, with a code, and no signal.
	command, pipe, said := start()
	_, err := pipe.Read(make([]byte, 100))
	require.NoError(t, err)
	require.NoError(t, pipe.Close())
	assert.Equal(t, 1, exitCode(t, command.Wait()), said)
	assert.Contains(t, said.String(), "only a part was written")
	nothing()

	// Killed while it writes: the pipe is full, and nobody reads on.
	command, pipe, _ = start()
	_, err = pipe.Read(make([]byte, 100))
	require.NoError(t, err)
	require.NoError(t, command.Process.Kill())
	require.Error(t, command.Wait())
	require.NoError(t, pipe.Close())
	nothing()
}

// Two practices share a machine, and their patients have the same numbers. What one of them left over is not for the
// other one to send.
//
// do: name the context of that user with --context
func TestRetry_UploadOfAnotherUser_SendsNothing(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	other := srv.AddUser(clinicaldoctest.User{TeamID: 2})
	folder, _ := visits(t, 2)
	run := newCLI(t, srv, "CLINICALDOC_BASE_URL=", "CLINICALDOC_TOKEN=")
	run.login(srv, "first")
	login, said := run.command("login", srv.URL, "--context", "second")
	login.Stdin = strings.NewReader(other.Token)
	require.NoError(t, login.Run(), said)
	srv.SetDelays(clinicaldoctest.Delays{Transcribing: time.Hour})
	for i, name := range []string{"second", "first"} {
		file := filepath.Join(folder, fmt.Sprintf("visit-%02d.wav", i))
		run.exits(8, "--context", name, "upload", "--begin", "--patient", "7", "--prompt", "1", "--max-wait", "0", file)
	}
	require.Len(t, srv.Created(), 2)
	refused := run.exits(5, "--context", "second", "upload", "retry", "--max-wait", "0")
	assert.Contains(t, refused, "that upload was another user's: nothing was sent")
	assert.Contains(t, refused, "do: name the context of that user with --context")
	assert.Len(t, srv.Created(), 2)
	run.exits(8, "--context", "first", "upload", "retry", "--max-wait", "0")
	assert.Len(t, srv.Created(), 2)
}
