//go:build unix

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// hostile holds one of each class of what can control a terminal or pose as something else.
const hostile = "h\x1b[31m\x1b]0;title\a\b\v\f\x7f\u009b2J\u0085\u202e\u2066\u2028\rx\nanalysis:\nfalse words"

// No command lets through what the service sends to control a terminal, on one or in a pipe that may lead to one.
func TestNoCommandLetsEscapesThrough(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	user := srv.AddUser(clinicaldoctest.User{Name: hostile, Email: hostile})
	srv.AddToken(user.ID, hostile)
	srv.AddPatient(clinicaldoctest.Patient{ID: 7, Name: hostile})
	srv.AddNote(clinicaldoctest.Note{UserID: user.ID, PatientID: 7, Name: hostile, Transcription: hostile, Analysis: "true words"})
	srv.AddNote(clinicaldoctest.Note{UserID: user.ID, PatientID: 7, Name: hostile, Stage: clinicaldoctest.StageFailed, ErrorState: hostile})
	env := append(environment(t, srv), "CLINICALDOC_TOKEN="+user.Token)
	refusal, err := json.Marshal(map[string]any{"message": hostile, "errors": map[string]any{"name": []string{hostile}}})
	require.NoError(t, err)
	folder := t.TempDir()
	recording := filepath.Join(folder, "visit \x1b[31m.wav")
	require.NoError(t, os.WriteFile(recording, []byte("RIFF"), 0o600))
	safe := func(said, how string) {
		t.Helper()
		for _, r := range said {
			bad := r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028')
			assert.False(t, bad, "%U in what %s printed: %q", r, how, said)
		}
		if !strings.Contains(how, "--jq") && !strings.Contains(how, "--template") { // a text by itself poses as nothing
			assert.NotRegexp(t, `(?m)^analysis:\n(  \| )?false`, said, how)
		}
	}
	for _, args := range [][]string{
		{"whoami"}, {"whoami", "--json"}, {"whoami", "--jq", ".name"}, {"whoami", "--template", "{{.name}}"}, {"tokens", "list"}, {"tokens", "list", "--json"},
		{"notes", "list", "--reveal"}, {"notes", "list", "--reveal", "--json"}, {"notes", "list", "--reveal", "--jq", ".[].name"}, {"notes", "list", "--reveal", "--template", "{{range .}}{{.name}}{{end}}"},
		{"notes", "show", "1"}, {"notes", "show", "2"}, {"notes", "show", "1", "--json"}, {"notes", "show", "1", "--jq", ".transcription"}, {"notes", "wait", "2"},
		{"api", "/v1/progress-notes/1"}, {"api", "/v1/progress-notes/1", "-i"}, {"api", "/v1/progress-notes/1", "--jq", ".data.name"}, {"api", "/v1/progress-notes/1", "--template", "{{.data.name}}"}, {"api", "/v1/progress-notes", "--paginate"},
		{"export", "-"}, {"status"}, {"doctor"}, {"watch", "--initial", "--count", "1"},
		{"upload", "--begin", "--patient", "7", "--prompt", "1", "--reveal", recording}, {"upload", "report", "--reveal"}, {"upload", "report", "--reveal", "--json"}, {"upload", "report", "--reveal", "--html"}, {"upload", "status"},
	} {
		if args[0] == "upload" && len(args) > 3 {
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, string(refusal)))
		}
		command := exec.CommandContext(t.Context(), "clinicaldoc", args...)
		command.Env = append(os.Environ(), env...)
		said, _ := command.CombinedOutput()
		require.NotEmpty(t, said, args)
		safe(string(said), strings.Join(args, " ")+" | cat")

		if args[0] == "upload" && len(args) > 3 {
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, string(refusal)))
		}
		x := onTerminal(t, append(env, "NO_COLOR=1", "TERM=dumb"), args...)
		x.ends()
		safe(strings.ReplaceAll(x.raw.String(), "\r\n", "\n"), strings.Join(args, " "))
	}
	command := exec.CommandContext(t.Context(), "clinicaldoc", "notes", "show", "1", "--raw", "--jq", ".transcription")
	command.Env = append(os.Environ(), env...)
	said, err := command.Output()
	require.NoError(t, err)
	assert.Equal(t, hostile+"\n", string(said), "what is asked for raw is")
}
