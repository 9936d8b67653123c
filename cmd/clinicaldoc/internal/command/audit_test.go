package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestAuditTrail_FileOfOthers_IsRefused(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes there")
	}
	path := filepath.Join(t.TempDir(), "trail.jsonl")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Chmod(path, 0o666))
	_, err := openAuditTrail(path)
	require.ErrorContains(t, err, "--audit cannot be used")
}

// If an access cannot be written to the file of the audit trail, the note is not shown.
func TestAuditTrail_FileFails_WithholdsTheNote(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	id := srv.AddNote(clinicaldoctest.Note{})
	path := filepath.Join(t.TempDir(), "trail.jsonl")
	trail, err := openAuditTrail(path)
	require.NoError(t, err)
	require.NoError(t, trail.file.Close())
	note, err := srv.Client(trail.option(srv.URL)).Notes.Get(t.Context(), id)
	assert.Nil(t, note)
	require.ErrorIs(t, err, clinicaldoc.ErrNotAudited)
	assert.Equal(t, codeRefused, exitCode(t.Context(), err))
	assert.Contains(t, kindOf(err).do, "--audit")

	// do: make room on the disk for the file of --audit; run the command again only if no change was made
	trail, err = openAuditTrail(path)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, trail.file.Close()) })
	_, err = srv.Client(trail.option(srv.URL)).Notes.Get(t.Context(), id)
	require.NoError(t, err)
}

// A full disk or a kill has cut off a line. The next one is not lost in it.
func TestAuditTrail_LineCutOff_NextLineIsReadable(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	id := srv.AddNote(clinicaldoctest.Note{})
	path := filepath.Join(t.TempDir(), "trail.jsonl")
	trail, err := openAuditTrail(path)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, trail.file.Close()) })
	client := srv.Client(trail.option(srv.URL))
	const cutOff = `{"time":"2026-01-02T03:0`
	for range 2 {
		_, err = client.Notes.Get(t.Context(), id)
		require.NoError(t, err)
		_, err = trail.file.WriteString(cutOff)
		require.NoError(t, err)
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Split(string(text), "\n")
	require.Len(t, lines, 4)
	assert.True(t, json.Valid([]byte(lines[0])), lines[0])
	assert.Contains(t, lines, cutOff)
	assert.True(t, json.Valid([]byte(lines[2])), lines[2])
}

// A file that a command writes takes the place of the one before, and with it every line of the trail.
func TestAuditTrail_TargetOfACommand_IsRefused(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(env *Env, path string) error{
		"export": func(env *Env, path string) error {
			return (&exportOptions{Env: env, path: path, workers: 1}).run(t.Context())
		},
		"download": func(env *Env, path string) error {
			return (&downloadOptions{Env: env, path: path, id: 1, force: true}).run(t.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newServer(t)
			srv.AddNote(clinicaldoctest.Note{PatientID: 7})
			folder := t.TempDir()
			path := filepath.Join(folder, "trail.jsonl")
			for _, target := range []string{path, filepath.Join(folder, ".", "x", "..", "trail.jsonl")} {
				env, _ := newEnv(srv)
				env.auditPath = path
				require.ErrorContains(t, run(env, target), "this is the audit file", "it does not exist yet")
			}
			const earlier = "a line of an earlier command\n"
			require.NoError(t, os.WriteFile(path, []byte(earlier), 0o600))
			env, _ := newEnv(srv)
			env.auditPath = path
			require.ErrorContains(t, run(env, path), "this is the audit file")
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, earlier, string(text))
			assert.Empty(t, srv.Requests(), "nothing was sent")
			require.NoError(t, run(env, filepath.Join(folder, "another")))
		})
	}
}
