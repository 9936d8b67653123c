//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/command"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

// hostile contains one example of each class of text that can control a terminal or imitate other output. The
// classes are C0 with its escape sequences (CSI, OSC, DCS, APC), DEL, C1, text directions and line ends. The last
// example looks like the heading of another field.
const hostile = "h\x1b[31m\x1b]0;title\a\x1bPq\x1b_x\x1b\\\b\v\f\x0e\x7f\u0085\u0090\u009b2J\u009d\u009f\u061c\u200f\u202e\u2066\u2028\u2029\rx\nanalysis:\nfalse words"

// safe looks for what can control a terminal in what a command printed.
func safe(t *testing.T, said, how string) {
	t.Helper()
	assert.True(t, utf8.ValidString(said), how)
	for _, r := range said {
		bad := r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029')
		assert.False(t, bad, "%U in what %s printed: %q", r, how, said)
	}
	if !regexp.MustCompile(`--(jq|template|html)`).MatchString(how) { // a text by itself, or in a page, poses as nothing
		assert.NotRegexp(t, `(?m)^analysis:\n(  \| )?false`, said, how)
	}
}

// A command that prints nothing of the service's, and why.
var printsNothing = map[string]string{
	"box": "a service of its own", "completion": "scripts of the shells", "context": "settings", "logout": "nothing", "help": "texts of this program", "exit-codes": "a page", "environment": "a page",
	"upload rename": "the path of a journal", "upload salvage": "a number", "fleet repair": "a word", "notes delete": "an id", "tokens revoke": "an id", "audio download": "an id and a size; else the recording",
}

// No command prints the terminal escapes that a service sends, neither on a terminal nor in a pipe that may lead to
// one.
func TestCommands_HostileTexts_PrintNoEscapes(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	srv.SetDelays(clinicaldoctest.Delays{})
	user := srv.AddUser(clinicaldoctest.User{Name: hostile, Email: hostile})
	srv.AddToken(user.ID, hostile)
	srv.AddPatient(clinicaldoctest.Patient{ID: 7, Name: hostile})
	srv.AddNote(clinicaldoctest.Note{UserID: user.ID, PatientID: 7, Name: hostile, Transcription: hostile, Analysis: "true words"})
	srv.AddNote(clinicaldoctest.Note{UserID: user.ID, PatientID: 7, Name: hostile, Stage: clinicaldoctest.StageFailed, ErrorState: hostile})
	srv.AddNote(clinicaldoctest.Note{UserID: user.ID, PatientID: 7, Name: hostile, Transcription: hostile, Analysis: hostile})
	folder := t.TempDir()
	recording, editor, text := folder+"/visits \x1b[31m/visit.wav", filepath.Join(folder, "editor"), filepath.Join(folder, "text")
	require.NoError(t, os.Mkdir(filepath.Dir(recording), 0o700))
	require.NoError(t, os.WriteFile(recording, []byte("RIFF"), 0o600))
	require.NoError(t, os.WriteFile(text, []byte(hostile), 0o600))
	// Somebody is quicker than the editor, so that both texts are shown.
	require.NoError(t, os.WriteFile(editor, fmt.Appendf(nil, "#!/bin/sh\ncat %[1]q >> \"$1\"; date +%%N >> %[1]q\nCLINICALDOC_BASE_URL=%[2]s CLINICALDOC_TOKEN='%[3]s' clinicaldoc api PUT /v1/progress-notes/3 -F analysis=@%[1]s >/dev/null\n", text, srv.URL, user.Token), 0o700))
	env := append(environment(t, srv), "CLINICALDOC_TOKEN="+user.Token, "EDITOR="+editor, "VISUAL=")
	fleet := "CLINICALDOC_NATS=" + natsServer(t)
	refusal, err := json.Marshal(map[string]any{"message": hostile, "errors": map[string]any{"name": []string{hostile}}})
	require.NoError(t, err)
	upload := []string{"upload", "--begin", "--patient", "7", "--prompt", "1", "--reveal", recording}
	lines := [][]string{
		{"whoami"}, {"whoami", "--json"}, {"whoami", "--jq", ".name"}, {"whoami", "--template", "{{.name}}"}, {"tokens", "list"}, {"tokens", "list", "--json"},
		{"notes", "list", "--reveal"}, {"notes", "list", "--reveal", "--json"}, {"notes", "list", "--reveal", "--jq", ".[].name"}, {"notes", "list", "--reveal", "--template", "{{range .}}{{.name}}{{end}}"},
		{"notes", "show", "1"}, {"notes", "show", "2"}, {"notes", "show", "1", "--json"}, {"notes", "show", "1", "--jq", ".transcription"}, {"notes", "wait", "2"}, {"notes", "sign", "1"}, {"notes", "edit", "3"},
		{"api", "/v1/progress-notes/1"}, {"api", "/v1/progress-notes/1", "-i"}, {"api", "/v1/progress-notes/1", "--jq", ".data.name"}, {"api", "/v1/progress-notes/1", "--template", "{{.data.name}}"}, {"api", "/v1/progress-notes", "--paginate"}, {"api", "/user", "--silent-bytes"},
		{"export", "-"}, {"status"}, {"login", srv.URL}, {"doctor"}, {"doctor", "--gaps", "--patient", "7", "--prompt", "1"}, {"watch", "--initial", "--count", "1"},
		upload, {"upload", "report", "--reveal"}, {"upload", "report", "--reveal", "--json"}, {"upload", "report", "--reveal", "--html"}, {"upload", "status"}, {"upload", "retry", "--reveal"}, {"upload", "resolve", "\x1b[31m", "--none"},
		{"upload", "status", "--deletable", "--reveal"}, {"upload", "status", "--deletable", "--reveal", "--json"},
		append(slices.Clip(upload), "--plain"), {"fleet", "status", "--reveal"}, {"fleet", "status", "--reveal", "--json"},
	}
	covered := map[string]bool{}
	for _, args := range lines {
		covered[args[0]], covered[strings.Join(args[:min(len(args), 2)], " ")] = true, true
		refused := args[0] == "upload" && (len(args) > 4 || args[1] == "retry") || slices.Contains(args, "--gaps")
		own := env
		switch {
		case slices.Contains(args, "--plain") || args[0] == "fleet":
			own = slices.Concat(env, []string{fleet})
		case args[0] == "login":
			own = slices.Concat(env, []string{"CLINICALDOC_BASE_URL=", "CLINICALDOC_TOKEN="})
		}
		inject := func() {
			if refused {
				srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, string(refusal)))
			}
			if slices.Contains(args, "--silent-bytes") { // what is not even UTF-8
				srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(200, "{\"name\":\"\x9b31m\xff\"}"))
			}
		}
		line := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "--silent-bytes" })
		inject()
		command := exec.CommandContext(t.Context(), "clinicaldoc", line...)
		command.Env, command.Stdin = append(os.Environ(), own...), strings.NewReader(user.Token)
		said, _ := command.CombinedOutput()
		require.NotEmpty(t, said, args)
		safe(t, string(said), strings.Join(args, " ")+" | cat")

		inject()
		x := onTerminal(t, append(slices.Clip(own), "NO_COLOR=1", "TERM=dumb"), line...)
		switch {
		case args[0] == "login":
			x.until("Token:")
			x.press(user.Token + "\n")
		case strings.HasPrefix(strings.Join(args, " "), "notes sign"):
			x.until("[y/N]")
			x.press("n\n")
		}
		x.ends()
		safe(t, strings.ReplaceAll(strings.ReplaceAll(x.raw.String(), "\r\n", "\n"), "\r", ""), strings.Join(args, " "))
	}
	for _, c := range leaves(command.New(&command.Env{IO: output.System()})) {
		path := strings.TrimPrefix(c.CommandPath(), "clinicaldoc ")
		top, _, _ := strings.Cut(path, " ")
		assert.True(t, covered[path] || printsNothing[path] != "" || printsNothing[top] != "", "what does %q print?", path)
	}
	command := exec.CommandContext(t.Context(), "clinicaldoc", "notes", "show", "1", "--raw", "--jq", ".transcription")
	command.Env = append(os.Environ(), env...)
	said, err := command.Output()
	require.NoError(t, err)
	assert.Equal(t, hostile+"\n", string(said), "what is asked for raw is")
}

// leaves are the commands that do something.
func leaves(c *cobra.Command) (list []*cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.Runnable() && !sub.HasSubCommands() || sub.Name() == "upload" {
			list = append(list, sub)
		}
		list = append(list, leaves(sub)...)
	}
	return list
}
