package command

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/account"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/report"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/fileheader"
	"github.com/clinicaldoc/clinicaldoc-go/snapshot"
)

// Earlier versions of the command wrote the files in these folders of testdata: a login, two uploads, a watch and
// an export. One upload has a refused recording, and the export failed after two notes. The last file is the JSON
// of a create whose response was lost. Only the paths in reports were changed. The name is the format of the
// journal. The version of format 1 had no reports, and its watch kept nothing.
var earlierVersions = map[string]string{"format1": "http://127.0.0.1:18791", "format2": "http://127.0.0.1:18790"}

// ofVersion copies what an earlier version left, for this user alone.
func ofVersion(t *testing.T, version string) string {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(folder, os.DirFS(filepath.Join("testdata", version))))
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return os.Chmod(path, 0o600)
	}))
	return folder
}

// eachVersion runs a test with what each earlier version left of a file or folder.
func eachVersion(t *testing.T, name string, test func(t *testing.T, folder, service string)) {
	t.Helper()
	tested := 0
	for version, service := range earlierVersions {
		if _, err := os.Stat(filepath.Join("testdata", version, name)); err != nil {
			continue
		}
		tested++
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			test(t, ofVersion(t, version), service)
		})
	}
	assert.NotZero(t, tested)
}

func TestEarlierVersion_Journal_IsOpened(t *testing.T) {
	t.Parallel()
	eachVersion(t, "uploads.journal", func(t *testing.T, folder, service string) {
		path := filepath.Join(folder, "uploads.journal")
		before, err := readStatus(t.Context(), path)
		require.NoError(t, err)
		assert.Equal(t, ingest.ServiceName(service), before.Service)
		assert.Equal(t, [2]int{2, 1}, [2]int{before.Created, before.Refused})
		journal, err := ingest.OpenJournal(t.Context(), path)
		require.NoError(t, err)
		require.NoError(t, journal.Close())
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Contains(t, string(text), "clinicaldoc-ingest 3 ", "the earlier version refuses it from now on")
		after, err := readStatus(t.Context(), path)
		require.NoError(t, err)
		assert.Equal(t, before, after)
	})
}

func TestEarlierVersion_Reports_AreShown(t *testing.T) {
	t.Parallel()
	eachVersion(t, "reports", func(t *testing.T, folder, _ string) {
		runs, err := report.List(filepath.Join(folder, "reports"), "all")
		require.NoError(t, err)
		require.Len(t, runs, 2)
		assert.Equal(t, [2]int{0, codeRefused}, [2]int{runs[0].Code, runs[1].Code})
		assert.Len(t, runs[0].Done(), 2)
		require.Len(t, runs[1].Open(), 1)
		assert.Equal(t, report.Refused, runs[1].Open()[0].Status)
		var page strings.Builder
		require.NoError(t, report.HTML(&page, runs))
	})
}

func TestEarlierVersion_Settings_AreUsed(t *testing.T) {
	t.Parallel()
	eachVersion(t, "config", func(t *testing.T, folder, service string) {
		store := &account.Store{Folder: filepath.Join(folder, "config")}
		config, err := store.Load()
		require.NoError(t, err)
		assert.Equal(t, "fixture", config.Current)
		assert.Equal(t, service, config.Contexts["fixture"].BaseURL)
		_, err = store.Login("second", account.Context{BaseURL: service}, "other")
		require.NoError(t, err)
		config, err = store.Load()
		require.NoError(t, err)
		assert.Contains(t, config.Contexts, "fixture")
	})
}

func TestEarlierVersion_Export_GoesOn(t *testing.T) {
	t.Parallel()
	eachVersion(t, "notes.part", func(t *testing.T, folder, service string) {
		target := filepath.Join(folder, "notes.jsonl")
		require.NoError(t, os.Rename(filepath.Join(folder, "notes.part"), partPath(target)))
		own := fileheader.Header{Kind: partKind, Version: 1, Service: ingest.ServiceName(service), UserID: 1}
		part, err := openPart(target, own)
		if service == earlierVersions["format1"] { // which did not say whose it is
			require.ErrorContains(t, err, "belongs to another account or version; remove it, or name another file")
			assert.FileExists(t, partPath(target))
			return
		}
		t.Cleanup(part.close)
		require.Len(t, part.held, 2)
		held := part.held[1]
		assert.False(t, held.updatedAt.IsZero())
		assert.True(t, held.readAt.After(held.updatedAt), "both times decide whether it is read again")
	})
}

// byHandler reaches a server whatever address is asked for.
type byHandler struct{ http.Handler }

func (h byHandler) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	response := w.Result()
	response.Request = r
	return response, nil
}

func TestEarlierVersion_Watch_GoesOn(t *testing.T) {
	t.Parallel()
	eachVersion(t, "watch.state", func(t *testing.T, folder, service string) {
		srv := newServer(t, clinicaldoctest.InProcess())
		for range 2 {
			srv.AddNote(clinicaldoctest.Note{})
		}
		client, err := clinicaldoc.NewClient(service, srv.Token, clinicaldoc.WithHTTPClient(&http.Client{Transport: byHandler{srv.Handler()}}))
		require.NoError(t, err)
		seen, err := snapshot.Open(t.Context(), client, filepath.Join(folder, "watch.state"),
			clinicaldoc.ListNotesParams{Sort: clinicaldoc.SortOldest, PerPage: 100})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, seen.Close()) })
		assert.True(t, seen.Begun())
		events := map[int64]string{}
		for change, err := range seen.Changes(t.Context()) {
			require.NoError(t, err)
			events[change.ID] = string(change.Event)
		}
		assert.Equal(t, "gone", events[3], "it knows what was there")
		assert.NotEqual(t, "new", events[1])
	})
}

func TestEarlierVersion_LostCreate_IsRead(t *testing.T) {
	t.Parallel()
	eachVersion(t, "loss.json", func(t *testing.T, folder, service string) {
		text, err := os.ReadFile(filepath.Join(folder, "loss.json"))
		require.NoError(t, err)
		var lost clinicaldoc.OutcomeUnknownError
		require.NoError(t, json.Unmarshal(text, &lost))
		assert.Equal(t, int64(7), lost.Params.PatientID)
		assert.Equal(t, "Synthetic visit", lost.Params.Name)
		assert.Equal(t, int64(24), lost.AudioSize)
		assert.False(t, lost.SentAt.IsZero())
		require.ErrorIs(t, &lost, clinicaldoc.ErrOutcomeUnknown)
		if lost.Service != "" {
			assert.Equal(t, ingest.ServiceName(service), lost.Service)
		}
	})
}
