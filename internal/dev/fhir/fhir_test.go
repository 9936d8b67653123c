package fhir_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// output runs a command and returns what it prints.
func output(t *testing.T, folder string, stdin []byte, variables []string, name string, args ...string) []byte {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir, command.Stdin, command.Env = folder, bytes.NewReader(stdin), append(os.Environ(), variables...)
	var complaints bytes.Buffer
	command.Stderr = &complaints
	out, err := command.Output()
	require.NoError(t, err, "%s: %s%s", name, out, complaints.String())
	return out
}

// validator installs the library, as the lock file has it. What it returns tells what is wrong with each document.
func validator(t *testing.T) func(documents ...map[string]any) [][]string {
	t.Helper()
	for _, program := range []string{"npm", "node"} {
		if _, err := exec.LookPath(program); err != nil {
			require.Empty(t, os.Getenv("CI"), "%s is missing where all must be tested", program)
			t.Skip(program + " was not found: what the example prints is NOT checked against R4")
		}
	}
	folder := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", ".npmrc", "validate.mjs"} {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), content, 0o600))
	}
	output(t, folder, nil, nil, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	return func(documents ...map[string]any) [][]string {
		t.Helper()
		given, err := json.Marshal(documents)
		require.NoError(t, err)
		var found [][]string
		require.NoError(t, json.Unmarshal(output(t, folder, given, nil, "node", "--no-warnings", "validate.mjs"), &found))
		require.Len(t, found, len(documents))
		return found
	}
}

// export returns what the example prints for a note that is signed.
func export(t *testing.T, note clinicaldoctest.Note, author string) func() map[string]any {
	t.Helper()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	note.PatientID, note.Stage = 7, clinicaldoctest.StageSigned
	id := srv.AddNote(note)
	variables := []string{"GOWORK=off", clinicaldoc.EnvBaseURL + "=" + srv.URL, clinicaldoc.EnvToken + "=" + srv.Token}
	printed := output(t, "../../..", nil, variables, "go", "run", "./examples/fhirexport",
		"-note", strconv.FormatInt(id, 10), "-patient", "7", "-subject", "Patient/123", "-author", author)
	return func() (document map[string]any) {
		require.NoError(t, json.Unmarshal(printed, &document))
		return document
	}
}

func TestWhatTheExamplePrintsIsR4(t *testing.T) {
	t.Parallel()
	validate := validator(t)
	for what, found := range validate(
		export(t, clinicaldoctest.Note{Name: "Synthetic visit", Analysis: "A synthetic analysis."}, "Practitioner/5")(),
		export(t, clinicaldoctest.Note{Analysis: "x"}, "PractitionerRole/a.b-c")(),
		export(t, clinicaldoctest.Note{Name: "Ünïcödé 🩺 \"&<>", Analysis: "Zeile 1\r\n\tZeile 2 🩺"}, "Organization/1")(),
		export(t, clinicaldoctest.Note{Name: "Synthetic visit", Analysis: strings.Repeat("A long synthetic analysis. ", 20_000)}, "Device/1")(),
	) {
		assert.Empty(t, found, what)
	}
}

// The check above means something: the library refuses a document of the example with one thing wrong.
func TestTheLibraryRefusesWhatIsNotR4(t *testing.T) {
	t.Parallel()
	validate := validator(t)
	document := export(t, clinicaldoctest.Note{Name: "Synthetic visit", Analysis: "A synthetic analysis."}, "Practitioner/5")
	wrongs := []struct {
		where string
		spoil func(document, attachment map[string]any)
	}{
		{"DocumentReference.status", func(d, _ map[string]any) { d["status"] = "signed" }},
		{"DocumentReference.status", func(d, _ map[string]any) { delete(d, "status") }},
		{"DocumentReference.status", func(d, _ map[string]any) { d["status"] = []any{"current"} }},
		{"DocumentReference.docStatus", func(d, _ map[string]any) { d["docStatus"] = "signed" }},
		{"DocumentReference.content", func(d, _ map[string]any) { delete(d, "content") }},
		{"DocumentReference.content", func(d, _ map[string]any) { d["content"] = []any{} }},
		{"DocumentReference.content", func(d, a map[string]any) { d["content"] = map[string]any{"attachment": a} }},
		{"DocumentReference.author", func(d, _ map[string]any) { d["author"] = map[string]any{"reference": "Practitioner/5"} }},
		{"DocumentReference.author", func(d, _ map[string]any) { d["author"] = []any{map[string]any{"reference": "Location/5"}} }},
		{"DocumentReference.subject", func(d, _ map[string]any) { d["subject"] = []any{d["subject"]} }},
		{"DocumentReference.subject", func(d, _ map[string]any) { d["subject"] = "Patient/123" }},
		{"DocumentReference.type", func(d, _ map[string]any) { d["type"] = map[string]any{"coding": []any{map[string]any{"code": "1"}}} }},
		{"DocumentReference.date", func(d, _ map[string]any) { d["date"] = "2026-03-02" }},
		{"DocumentReference.date", func(d, _ map[string]any) { d["date"] = "2026-03-02T12:00:00" }},
		{"DocumentReference.signed", func(d, _ map[string]any) { d["signed"] = true }},
		{"DocumentReference.content[0].attachment.size", func(_, a map[string]any) { a["size"] = "21" }},
		{"DocumentReference.content[0].attachment.size", func(_, a map[string]any) { a["size"] = -1 }},
		{"DocumentReference.content[0].attachment.data", func(_, a map[string]any) { a["data"] = "A synthetic analysis." }},
		{"DocumentReference.content[0].attachment.contentType", func(_, a map[string]any) { a["contentType"] = "text" }},
		{"DocumentReference.content[0].attachment.creation", func(_, a map[string]any) { a["creation"] = "yesterday" }},
	}
	var broken []map[string]any
	for _, wrong := range wrongs {
		whole := document()
		content, _ := whole["content"].([]any)
		first, _ := content[0].(map[string]any)
		attachment, _ := first["attachment"].(map[string]any)
		wrong.spoil(whole, attachment)
		broken = append(broken, whole)
	}
	for i, found := range validate(broken...) {
		assert.Contains(t, strings.Join(found, "\n"), wrongs[i].where, "%d of %v", i, broken[i])
	}
}
