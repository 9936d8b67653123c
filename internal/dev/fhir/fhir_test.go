package fhir_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
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

var scratch string // a folder that is removed at the end

func TestMain(m *testing.M) {
	var err error
	scratch, err = os.MkdirTemp("", "fhir")
	if err != nil {
		panic(err)
	}
	code := m.Run()
	if err := os.RemoveAll(scratch); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// install installs the library once for all tests, as the lock file has it.
var install = sync.OnceValue(func() error {
	for _, name := range []string{"package.json", "package-lock.json", ".npmrc", "validate.mjs"} {
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(scratch, name), content, 0o600); err != nil {
			return err
		}
	}
	command := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	command.Dir = scratch
	out, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("npm ci: %w: %s", err, out)
	}
	return nil
})

// validator returns a function that lists what is wrong with each of the given resources.
func validator(t *testing.T) func(documents ...object) [][]string {
	t.Helper()
	for _, program := range []string{"npm", "node"} {
		if _, err := exec.LookPath(program); err != nil {
			require.Empty(t, os.Getenv("CI"), "%s is missing where all must be tested", program)
			t.Skip(program + " was not found: what the example prints is NOT checked against R4")
		}
	}
	require.NoError(t, install())
	return func(documents ...object) [][]string {
		t.Helper()
		given, err := json.Marshal(documents)
		require.NoError(t, err)
		var found [][]string
		require.NoError(t, json.Unmarshal(output(t, scratch, given, nil, "node", "--no-warnings", "validate.mjs"), &found))
		require.Len(t, found, len(documents))
		return found
	}
}

// export returns what the example prints for a note that is signed.
func export(t *testing.T, note clinicaldoctest.Note, signer string) func() object {
	t.Helper()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	note.PatientID = 7
	note.Stage = clinicaldoctest.StageSigned
	id := srv.AddNote(note)
	variables := []string{"GOWORK=off", clinicaldoc.EnvBaseURL + "=" + srv.URL, clinicaldoc.EnvToken + "=" + srv.Token}
	printed := output(t, "../../..", nil, variables, "go", "run", "./examples/fhirexport",
		"-note", strconv.FormatInt(id, 10), "-patient", "7", "-subject", "Patient/123",
		"-device", "Device/9", "-signer", signer)
	return func() (document object) {
		require.NoError(t, json.Unmarshal(printed, &document))
		return document
	}
}

// at returns a part of a document: a name is a member, a number an element.
func at(t *testing.T, document any, path ...any) object {
	t.Helper()
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, ok := document.(object)
			require.True(t, ok, "%v: no object before %q", path, step)
			document = object[step]
		case int:
			list, ok := document.([]any)
			require.True(t, ok, "%v: no array before %d", path, step)
			require.Greater(t, len(list), step)
			document = list[step]
		}
	}
	object, ok := document.(object)
	require.True(t, ok, "%v", path)
	return object
}

func TestExample_PrintsR4(t *testing.T) {
	t.Parallel()
	validate := validator(t)
	long := strings.Repeat("A long synthetic analysis. ", 20_000)
	for i, found := range validate(
		export(t, clinicaldoctest.Note{Name: "Synthetic visit", Analysis: "A synthetic analysis."}, "Practitioner/5")(),
		export(t, clinicaldoctest.Note{Analysis: "x"}, "PractitionerRole/a.b-c")(),
		export(t, clinicaldoctest.Note{Name: "Ünïcödé 🩺 \"&<>", Analysis: "Zeile 1\r\n\tZeile 2 🩺"}, "Practitioner/1")(),
		export(t, clinicaldoctest.Note{Name: "Synthetic visit", Analysis: long}, "Practitioner/1")(),
	) {
		assert.Empty(t, found, i)
	}
}

// The recipe in docs/recipes.md makes an AuditEvent of each access.
func TestRecipe_MakesR4AuditEvents(t *testing.T) {
	t.Parallel()
	validate := validator(t)
	path := filepath.Join(t.TempDir(), "events.json")
	variables := []string{"GOWORK=off", "CLINICALDOC_AUDIT_EVENTS=" + path}
	output(t, "../recipes", nil, variables, "go", "test", "-count=1", "-run", "^TestAuditEvents_DescribeEachAccess$", ".")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var events []object
	require.NoError(t, json.Unmarshal(text, &events))
	require.Len(t, events, 6)
	for i, found := range validate(events...) {
		assert.Empty(t, found, "%d: %v", i, events[i])
	}

	// The check would notice a wrong code.
	at(t, events[0], "subtype", 0)["code"] = "look"
	events[1]["action"] = "X"
	at(t, events[2], "entity", 0, "role")["code"] = "99"
	for _, found := range validate(events[:3]...) {
		assert.Len(t, found, 1)
	}
}

type object = map[string]any

// parts are what the example prints.
type parts struct{ bundle, document, attachment, provenance object }

const unused = "00000000-0000-4000-8000-000000000000" // the name of no resource

// The check of the example means something: it rejects what the example prints with one thing wrong.
func TestCheck_RejectsSpoiledExport(t *testing.T) {
	t.Parallel()
	validate := validator(t)
	note := clinicaldoctest.Note{Name: "Synthetic visit", Analysis: "A synthetic analysis."}
	exported := export(t, note, "Practitioner/5")
	wrongs := []struct {
		where string
		spoil func(e parts)
	}{
		{"DocumentReference.status", func(e parts) { e.document["status"] = "signed" }},
		{"DocumentReference.status", func(e parts) { delete(e.document, "status") }},
		{"DocumentReference.content", func(e parts) { e.document["content"] = object{"attachment": e.attachment} }},
		{"DocumentReference.author", func(e parts) { e.document["author"] = []any{object{"reference": "Location/5"}} }},
		{"DocumentReference.meta", func(e parts) { e.document["meta"] = object{"label": "AIAST"} }},
		{"DocumentReference.date", func(e parts) { e.document["date"] = "2026-03-02T12:00:00" }},
		{"DocumentReference.signed", func(e parts) { e.document["signed"] = true }},
		{"DocumentReference.content[0].attachment.size", func(e parts) { e.attachment["size"] = "21" }},
		{"DocumentReference.content[0].attachment.data", func(e parts) { e.attachment["data"] = "A synthetic analysis." }},
		{"DocumentReference.content[0].attachment.contentType", func(e parts) { e.attachment["contentType"] = "text" }},
		{"Provenance.target", func(e parts) { delete(e.provenance, "target") }},
		{"Provenance.agent[0].who", func(e parts) { at(t, e.provenance, "agent", 0, "who")["reference"] = "Location/5" }},
		{"Provenance.agent.type", func(e parts) { at(t, e.provenance, "agent", 1, "type", "coding", 0)["code"] = "signer" }},
		{"Provenance.agent.type", func(e parts) { at(t, e.provenance, "agent", 1, "type", "coding", 0)["system"] = "http://loinc.org" }},
		{"Bundle.entry[0].request.method", func(e parts) { at(t, e.bundle, "entry", 0, "request")["method"] = "SEND" }},
		{"Provenance refers to", func(e parts) { at(t, e.bundle, "entry", 0)["fullUrl"] = "urn:uuid:" + unused }},
	}
	var spoiled []object
	for _, wrong := range wrongs {
		bundle := exported()
		document := at(t, bundle, "entry", 0, "resource")
		attachment := at(t, document, "content", 0, "attachment")
		wrong.spoil(parts{bundle, document, attachment, at(t, bundle, "entry", 1, "resource")})
		spoiled = append(spoiled, bundle)
	}
	for i, found := range validate(spoiled...) {
		assert.Contains(t, strings.Join(found, "\n"), wrongs[i].where, "%d of %v", i, spoiled[i])
	}
}
