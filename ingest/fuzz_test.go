package ingest_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

const fuzzedService = "https://service.example"

// FuzzJournal opens files of any content. A journal is read, repaired or rejected with a reason, and what was read
// stays the same from then on.
func FuzzJournal(f *testing.F) {
	const (
		header = "clinicaldoc-ingest 3 " + fuzzedService + " user=17 headers=none\n"
		key    = "0123456789abcdef0123456789abcdef"
		common = " patient=9a8b7c6d name=01234567 size=48044 sent=2026-01-02T03:04:04.5Z"
	)
	for _, lines := range []string{
		"",
		header,
		header + "2026-01-02T03:04:05Z claimed " + key + "\n",
		header + "2026-01-02T03:04:05Z committing " + key + common + "\n2026-01-02T03:04:06Z created " + key + common +
			" note=7 made=2026-01-02T03:04:05Z found=true stage=complete replaced=5@2026-01-02T03:04:05Z,6 excluded=1,2\n",
		header + "2026-01-02T03:04:05Z in-doubt " + key + common + ` until=2026-01-02T03:14:05Z loss={"id":"x"} why=lost a=b` + "\n",
		header + "2026-01-02T03:04:05Z refused " + key + common + " by=A+person sha=00 why=422\n2026-02-03T04:05:07Z gap\n",
		header + "2026-02-03T04:05:06Z owner https://other.example/prefix user=17 headers=none\n",
		"clinicaldoc-ingest 1 " + fuzzedService + "\n2026-01-02T03:04:05Z created " + key + common + " note=7\n",
		"clinicaldoc-ingest 99 " + fuzzedService + "\n",
		"clinicaldoc-export 1 " + fuzzedService + "\n",
	} {
		f.Add([]byte(lines), true, uint16(0))
		f.Add([]byte(lines), true, uint16(3))
		f.Add([]byte(lines), false, uint16(0))
	}
	f.Fuzz(func(t *testing.T, lines []byte, sealed bool, cut uint16) {
		if sealed {
			lines = seal(lines)
		}
		lines = lines[:len(lines)-min(int(cut), len(lines))]
		path := filepath.Join(t.TempDir(), "uploads.journal")
		require.NoError(t, os.WriteFile(path, lines, 0o600))
		owner, entries, err := ingest.ReadJournal(t.Context(), path)
		journal, openErr := ingest.OpenJournal(t.Context(), path)
		if err != nil {
			checkRejected(t, path, err, openErr)
			return
		}
		require.NoError(t, openErr, "what can be read can be opened")
		require.NoError(t, journal.Close())
		ownerAgain, entriesAgain, err := ingest.ReadJournal(t.Context(), path)
		require.NoError(t, err)
		require.Equal(t, owner, ownerAgain)
		require.Equal(t, byKey(entries), byKey(entriesAgain))
		lost, err := ingest.SalvageJournal(t.Context(), path, owner)
		require.NoError(t, err)
		require.Zero(t, lost, "nothing of it was damaged")
	})
}

// seal gives each line its checksum.
func seal(lines []byte) []byte {
	var sealed strings.Builder
	sum := ""
	for line := range bytes.Lines(lines) {
		text := ingest.Line(sum, string(bytes.TrimSuffix(line, []byte{'\n'})))
		sum = text[:8]
		sealed.WriteString(text)
	}
	return []byte(sealed.String())
}

func byKey(entries []ingest.Entry) map[ingest.Key]string {
	known := map[ingest.Key]string{}
	for i := range entries {
		known[entries[i].Key] = fmt.Sprintf("%+v", entries[i])
	}
	return known
}

// checkRejected checks the reason for which a journal cannot be read. Salvaging makes a damaged one usable.
func checkRejected(t *testing.T, path string, err, openErr error) {
	t.Helper()
	require.Error(t, openErr, "what cannot be read cannot be opened: %v", err)
	if errors.Is(err, ingest.ErrJournalVersion) {
		require.ErrorIs(t, openErr, ingest.ErrJournalVersion)
		return
	}
	require.ErrorIs(t, err, ingest.ErrJournalDamaged)
	require.ErrorIs(t, openErr, ingest.ErrJournalDamaged)
	owner := ingest.Owner{Service: fuzzedService, UserID: 17, Headers: "none"}
	_, err = ingest.SalvageJournal(t.Context(), path, owner)
	isAnothers := errors.Is(err, ingest.ErrOtherService) || errors.Is(err, ingest.ErrOtherUser)
	if isAnothers || errors.Is(err, ingest.ErrJournalVersion) {
		return
	}
	require.NoError(t, err)
	_, _, err = ingest.ReadJournal(t.Context(), path)
	require.NoError(t, err, "it was salvaged")
	lost, err := ingest.SalvageJournal(t.Context(), path, owner)
	require.NoError(t, err)
	require.Zero(t, lost)
}

// FuzzManifest reads lists of any content. Each is rejected, with lines that it has, or gives recordings that can be
// uploaded as the list says.
func FuzzManifest(f *testing.F) {
	for _, content := range []string{
		"", "{", "\ufeff", "key,patient,prompt,name,path\n1,7,1,Visit,1.wav\n", "path\n1.wav\n2.wav\n",
		"path,path\n", "path\n\"1.wav", "patient,path\n7,1.wav\n8,2.wav\n9,1.wav\n", "path,name\n1.wav,\"two\nlines\"\n",
		`{"path":"1.wav","patient":7,"prompt":1,"name":"Visit","key":"k"}` + "\n" + `{"path":"2.wav","patient":"8"}`,
		`{"path":"1.wav","path":"2.wav"}`, `{"path":{}}`, `{"path":"1.wav","name":null,"patient":1e3}`, "{\"path\":\"1.wav\",\"name\":\"\xe9\"}",
		`{"path":"1.wav","name":"\ud800"}`, `{"path":"/dev/null"}`, `{"path":"../1.wav"}`, "path,name\n1.wav,\xe9\n",
	} {
		f.Add([]byte(content))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		path := manifest(t, string(content))
		recordings, err := ingest.ReadManifest(path, ingest.WithDefaults(7, 1))
		if err != nil {
			require.Empty(t, recordings)
			require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
			checkProblems(t, content, err)
			return
		}
		files := map[string]bool{}
		keys := map[string]bool{}
		for _, r := range recordings {
			require.Positive(t, r.Params.PatientID)
			require.Positive(t, r.Params.PromptID)
			require.FileExists(t, r.File)
			require.False(t, files[r.File], "a file twice")
			require.False(t, keys[r.Key] && r.Key != "", "a key twice")
			files[r.File] = true
			keys[r.Key] = true
			require.NotContains(t, r.Key+r.Params.Name, "\n")
			// What is not UTF-8 must not become other letters in a patient's note.
			replaced := strings.Contains(r.Params.Name+r.Key, "\ufffd")
			written := bytes.Contains(content, []byte("\ufffd")) || bytes.Contains(bytes.ToLower(content),
				[]byte(`\ufffd`))
			require.False(t, replaced && !written, "letters were replaced")
		}
	})
}

func checkProblems(t *testing.T, content []byte, err error) {
	t.Helper()
	listed, ok := errors.AsType[*ingest.ManifestError](err)
	if !ok {
		return
	}
	require.NotEmpty(t, listed.Problems)
	lines := bytes.Count(content, []byte{'\n'}) + bytes.Count(content, []byte{'\r'}) + 1
	for _, problem := range listed.Problems {
		require.True(t, problem.Line >= 1 && problem.Line <= lines, "line %d of %d", problem.Line, lines)
		require.NotEmpty(t, problem.What)
	}
	require.True(t,
		slices.IsSortedFunc(listed.Problems, func(a, b ingest.ManifestProblem) int { return a.Line - b.Line }))
}
