package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

const overlap = 48 * time.Hour

// exported returns the notes of an export by their id.
func exported(t *testing.T, path string) map[int64]clinicaldoc.ProgressNote {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	notes := map[int64]clinicaldoc.ProgressNote{}
	for line := range bytes.Lines(text) {
		var note clinicaldoc.ProgressNote
		require.NoError(t, json.Unmarshal(line, &note))
		require.NotContains(t, notes, note.ID, "each once")
		notes[note.ID] = note
	}
	return notes
}

// clinic returns a box with a note for each of the last days, the newest last.
func clinic(t *testing.T, days int, opts ...clinicaldoctest.Option) (srv *clinicaldoctest.Server, ids []int64) {
	t.Helper()
	srv = clinicaldoctest.NewServer(opts...)
	t.Cleanup(srv.Close)
	for day := range days {
		ids = append(ids, srv.AddNote(clinicaldoctest.Note{
			Transcription: "synthetic transcription", CreatedAt: srv.Now().AddDate(0, 0, day-days),
		}))
	}
	return srv, ids
}

func TestTheFirstRunWritesEveryNoteOnce(t *testing.T) {
	t.Parallel()
	srv, ids := clinic(t, 250)
	path := filepath.Join(t.TempDir(), "notes.jsonl")
	count, err := export(t.Context(), srv.Client(), path, overlap, false)
	require.NoError(t, err)
	assert.Equal(t, len(ids), count)
	notes := exported(t, path)
	assert.Len(t, notes, len(ids))
	for _, note := range notes {
		assert.Equal(t, "synthetic transcription", note.Transcription)
		require.NotNil(t, note.Audio)
		assert.Empty(t, note.Audio.FileURL, "a file is no place for signed URLs")
	}
}

func TestALaterRunReadsWhatIsNewAndTheOverlap(t *testing.T) {
	t.Parallel()
	orders := map[string]clinicaldoctest.Variant{
		"newest first":                               {},
		"a service that cannot sort":                 {Query: clinicaldoctest.QueryNames{Sort: "other"}},
		"a service that can only sort the other way": {Query: clinicaldoctest.QueryNames{Sort: "other"}, OldestFirst: true},
	}
	for name, variant := range orders {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, ids := clinic(t, 250, clinicaldoctest.WithVariant(variant))
			path := filepath.Join(t.TempDir(), "notes.jsonl")
			client, err := clinicaldoc.NewClient(srv.URL, srv.Token) // srv.Client would know what the sort is called
			require.NoError(t, err)
			_, err = export(t.Context(), client, path, overlap, false)
			require.NoError(t, err)

			added := srv.AddNote(clinicaldoctest.Note{})
			late := srv.AddNote(clinicaldoctest.Note{CreatedAt: srv.Now().Add(-30 * time.Hour)})
			recent, old := ids[len(ids)-1], ids[0]
			for _, id := range []int64{recent, old} {
				_, err = client.Notes.Update(t.Context(), id, clinicaldoc.UpdateNoteParams{Analysis: new("reviewed")})
				require.NoError(t, err)
			}
			srv.ForgetRequests()
			count, err := export(t.Context(), client, path, overlap, false)
			require.NoError(t, err)
			assert.Less(t, count, 10)
			if variant.Query.Sort == "" {
				assert.Len(t, srv.Requests(), 1, "one page, not three")
			}
			notes := exported(t, path)
			assert.Len(t, notes, len(ids)+2)
			assert.Contains(t, notes, added)
			assert.Contains(t, notes, late, "stored late, but within the overlap")
			assert.Equal(t, "reviewed", notes[recent].Analysis)
			assert.NotEqual(t, "reviewed", notes[old].Analysis, "changed before the overlap: that takes -full")

			_, err = export(t.Context(), client, path, overlap, true)
			require.NoError(t, err)
			assert.Equal(t, "reviewed", exported(t, path)[old].Analysis)
		})
	}
}

func TestAFailedRunLeavesTheLastOne(t *testing.T) {
	t.Parallel()
	srv, ids := clinic(t, 150)
	path := filepath.Join(t.TempDir(), "notes.jsonl")
	_, err := export(t.Context(), srv.Client(), path, overlap, false)
	require.NoError(t, err)
	srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Answer(500, "").After(1).Always())
	_, err = export(t.Context(), srv.Client(clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{})), path, overlap, true)
	require.ErrorIs(t, err, clinicaldoc.ErrServer)
	assert.Len(t, exported(t, path), len(ids))
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, left, 2, "the export and its state, nothing half-written")
}

func TestAnExportIsOfOneService(t *testing.T) {
	t.Parallel()
	one, _ := clinic(t, 1)
	other, _ := clinic(t, 1)
	path := filepath.Join(t.TempDir(), "notes.jsonl")
	_, err := export(t.Context(), one.Client(), path, overlap, false)
	require.NoError(t, err)
	_, err = export(t.Context(), other.Client(), path, overlap, true)
	require.ErrorContains(t, err, "name another")

	foreign := filepath.Join(t.TempDir(), "something.txt")
	require.NoError(t, os.WriteFile(foreign, []byte("somebody's\n"), 0o600))
	_, err = export(t.Context(), one.Client(), foreign, overlap, true)
	require.ErrorContains(t, err, "name another")
	text, err := os.ReadFile(foreign)
	require.NoError(t, err)
	assert.Equal(t, "somebody's\n", string(text))
}

func TestRehearsal(t *testing.T) {
	t.Setenv(clinicaldoc.EnvBaseURL, "") // the box, whatever the shell has
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), "unused", overlap, false, &out))
	assert.Regexp(t, "first run: 100 notes read\nsecond run: [34] notes read\n", out.String())
}
