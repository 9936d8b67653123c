package command

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestPart_ChangedThenDeletedNote_IsNotWritten(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "notes.jsonl")
	changed := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	part, err := openPart(target, owner)
	require.NoError(t, err)
	for id := range int64(2) {
		require.NoError(t, part.add(&clinicaldoc.ProgressNote{ID: id + 1, UpdatedAt: changed}, changed.Add(time.Hour)))
	}
	part.close()
	part, err = openPart(target, owner)
	require.NoError(t, err)
	later := changed.Add(time.Minute)
	require.True(t, part.has(exportRow{1, changed}))
	require.False(t, part.has(exportRow{2, later}), "and then it cannot be read: it was deleted")
	written, err := part.finish([]exportRow{{1, changed}, {2, later}}, nil)
	require.NoError(t, err)
	assert.Equal(t, 1, written)
}

func TestPart_OfOthers_IsRefused(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes there")
	}
	folder := t.TempDir()
	shared := filepath.Join(folder, "shared.jsonl")
	part, err := openPart(shared, owner)
	require.NoError(t, err)
	path := part.file.Name()
	part.close()
	require.NoError(t, os.Chmod(path, 0o666))
	_, err = openPart(shared, owner)
	require.ErrorContains(t, err, "can be read or written by others")

	linked := filepath.Join(folder, "linked.jsonl")
	elsewhere := filepath.Join(folder, "elsewhere")
	require.NoError(t, os.WriteFile(elsewhere, nil, 0o600))
	require.NoError(t, os.Symlink(elsewhere, partPath(linked)))
	_, err = openPart(linked, owner)
	require.ErrorContains(t, err, "can be read or written by others")
	require.ErrorContains(t, checkTarget(partPath(linked)), "this is a link")
}

func TestPart_CannotBeFinished_LeavesNoNotesBehind(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	target := filepath.Join(folder, "notes.jsonl")
	part, err := openPart(target, owner)
	require.NoError(t, err)
	t.Cleanup(part.close)
	require.NoError(t, part.add(&clinicaldoc.ProgressNote{ID: 1}, time.Now()))
	require.NoError(t, os.MkdirAll(filepath.Join(target, "in the way"), 0o700))
	_, err = part.finish([]exportRow{{id: 1}}, nil)
	require.Error(t, err)
	assert.NoFileExists(t, part.file.Name()+"-new")
}

func TestPart_ToAPipe_HasNoName(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be removed there")
	}
	state := t.TempDir()
	t.Setenv("CLINICALDOC_STATE_DIR", state)
	part, err := openPart("-", owner)
	require.NoError(t, err)
	t.Cleanup(part.close)
	require.NoError(t, part.add(&clinicaldoc.ProgressNote{ID: 1}, time.Now()))
	left, err := os.ReadDir(filepath.Join(state, "exports"))
	require.NoError(t, err)
	assert.Empty(t, left, "a killed export leaves nothing")
}

// exporting is an export of three notes of patient 7, which were changed an hour ago.
func exporting(t *testing.T) (*exportOptions, *clinicaldoctest.Server, *console) {
	t.Helper()
	srv := newServer(t)
	for range 3 {
		srv.AddNote(clinicaldoctest.Note{PatientID: 7, CreatedAt: time.Now().Add(-time.Hour)})
	}
	env, shown := newEnv(srv)
	return &exportOptions{Env: env, path: filepath.Join(t.TempDir(), "notes.jsonl"), patient: 7, workers: 1}, srv, shown
}

func TestExport_NoteCannotBeRead_WritesNothing(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]clinicaldoctest.Fault{
		"forbidden":       clinicaldoctest.Answer(http.StatusForbidden, `{"message":"no"}`),
		"another patient": clinicaldoctest.Answer(http.StatusOK, `{"id":2,"name":"n","patient":{"id":8}}`),
	} {
		o, srv, _ := exporting(t)
		srv.Inject(clinicaldoctest.RouteGetNote, fault.After(1))
		require.Error(t, o.run(t.Context()), name)
		assert.NoFileExists(t, o.path, name)
		srv.ForgetRequests()

		require.NoError(t, o.run(t.Context()), name)
		assert.Equal(t, 2, requestsTo(srv, clinicaldoctest.RouteGetNote), "what was read is not read again")
		text, err := os.ReadFile(o.path)
		require.NoError(t, err)
		assert.Equal(t, 3, strings.Count(string(text), "\n"))
		info, err := os.Stat(o.path)
		require.NoError(t, err)
		if runtime.GOOS != "windows" {
			assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
		}
		assert.NoFileExists(t, partPath(o.path))
	}
}

func TestExport_NoteDeletedMeanwhile_IsCounted(t *testing.T) {
	t.Parallel()
	o, srv, shown := exporting(t)
	srv.Inject(clinicaldoctest.RouteGetNote, clinicaldoctest.Answer(http.StatusNotFound, `{"message":"gone"}`).After(1))
	require.NoError(t, o.run(t.Context()))
	assert.Contains(t, shown.err.String(), "2 notes\n1 more was deleted during the export\n")
}
