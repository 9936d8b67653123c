package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func clinic(t *testing.T, notes int, opts ...clinicaldoctest.Option) *clinicaldoctest.Server {
	t.Helper()
	srv := clinicaldoctest.NewServer(opts...)
	t.Cleanup(srv.Close)
	for range notes {
		srv.AddNote(clinicaldoctest.Note{Transcription: "synthetic transcription"})
	}
	return srv
}

// export runs the program once, and returns what it said and the notes of the folder.
func export(t *testing.T, client *clinicaldoc.Client, folder string) (string, map[int64]clinicaldoc.ProgressNote) {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), client, folder, &out))
	return out.String(), exported(t, folder)
}

func exported(t *testing.T, folder string) map[int64]clinicaldoc.ProgressNote {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	require.NoError(t, err)
	notes := map[int64]clinicaldoc.ProgressNote{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		var note clinicaldoc.ProgressNote
		require.NoError(t, json.Unmarshal(content, &note))
		assert.Equal(t, fmt.Sprint(note.ID, ".json"), filepath.Base(file))
		notes[note.ID] = note
	}
	return notes
}

func TestLaterRunsBringWhatChanged(t *testing.T) {
	t.Parallel()
	for name, variant := range map[string]clinicaldoctest.Variant{
		"as it is": {}, "rows without texts": {ListTexts: clinicaldoctest.ListTextsAbsent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, folder := clinic(t, 150, clinicaldoctest.WithVariant(variant)), t.TempDir()
			client := srv.Client()
			said, notes := export(t, client, folder)
			assert.Equal(t, "150 new, 0 changed, 0 gone\n", said)
			require.Len(t, notes, 150)
			for _, note := range notes {
				assert.Equal(t, "synthetic transcription", note.Transcription)
				require.NotNil(t, note.Audio)
				assert.Empty(t, note.Audio.FileURL, "a file is no place for signed URLs")
			}

			added := srv.AddNote(clinicaldoctest.Note{})
			_, err := client.Notes.Update(t.Context(), 1, clinicaldoc.UpdateNoteParams{Name: new("reviewed")})
			require.NoError(t, err)
			_, err = client.Notes.Delete(t.Context(), 2)
			require.NoError(t, err)
			said, notes = export(t, client, folder)
			assert.Equal(t, "1 new, 1 changed, 1 gone\n", said)
			assert.Len(t, notes, 150)
			assert.Contains(t, notes, added)
			assert.NotContains(t, notes, int64(2))
			assert.Equal(t, "reviewed", notes[1].Name)
		})
	}
}

func TestAFailedRunIsGoneOnWith(t *testing.T) {
	t.Parallel()
	srv, folder := clinic(t, 20), t.TempDir()
	killed := filepath.Join(folder, ".part-1")
	require.NoError(t, os.WriteFile(killed, []byte("synthetic transcription"), 0o600))
	srv.Inject(clinicaldoctest.RouteGetNote, clinicaldoctest.Answer(500, "").After(10).Always())
	client := srv.Client(clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{}))
	require.ErrorIs(t, run(t.Context(), client, folder, new(bytes.Buffer)), clinicaldoc.ErrServer)
	assert.Len(t, exported(t, folder), 10)
	assert.NoFileExists(t, killed)

	srv.ClearFaults()
	said, notes := export(t, client, folder)
	assert.Equal(t, "10 new, 0 changed, 0 gone\n", said)
	assert.Len(t, notes, 20)
}

// The first run has nothing saved before its end: killed, it leaves files, and the snapshot's file without a word in it.
func TestAKilledFirstRunIsGoneOnWith(t *testing.T) {
	t.Parallel()
	srv, folder := clinic(t, 3), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "notes.snapshot"), nil, 0o600))
	for _, name := range []string{"1.json", "99.json"} { // one is gone since
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte("{}\n"), 0o600))
	}
	said, notes := export(t, srv.Client(), folder)
	assert.Equal(t, "3 new, 0 changed, 0 gone\n", said)
	assert.Len(t, notes, 3)
	assert.NoFileExists(t, filepath.Join(folder, "99.json"))
}

// The name of a folder is no pattern of names.
func TestRun_FolderWithBrackets_LeavesNothingBehind(t *testing.T) {
	t.Parallel()
	srv, folder := clinic(t, 3), filepath.Join(t.TempDir(), "notes [2026]")
	require.NoError(t, os.Mkdir(folder, 0o700))
	foreign := filepath.Join(folder, "99.json")
	require.NoError(t, os.WriteFile(foreign, []byte("{}\n"), 0o600))
	require.ErrorContains(t, run(t.Context(), srv.Client(), folder, new(bytes.Buffer)), "name another")

	// A killed first run leaves it so.
	require.NoError(t, os.WriteFile(filepath.Join(folder, "notes.snapshot"), nil, 0o600))
	incomplete := filepath.Join(folder, ".part-1")
	require.NoError(t, os.WriteFile(incomplete, []byte("synthetic transcription"), 0o600))
	require.NoError(t, run(t.Context(), srv.Client(), folder, new(bytes.Buffer)))
	assert.NoFileExists(t, incomplete)
	assert.NoFileExists(t, foreign, "the note is gone since")
	assert.FileExists(t, filepath.Join(folder, "3.json"))
}

// Lists and notes may come from different copies of the service's data, of which one lags.
func TestRun_NotesLagBehindTheList_KeepsNoOlderVersion(t *testing.T) {
	t.Parallel()
	lag := clinicaldoctest.Lagging(10 * time.Second)
	for name, change := range map[string]func(*testing.T, *clinicaldoctest.Server) (id int64){
		"changed note": func(t *testing.T, srv *clinicaldoctest.Server) int64 {
			t.Helper()
			texts := clinicaldoc.UpdateNoteParams{Analysis: new("corrected")}
			note, err := srv.Client().Notes.Update(t.Context(), 1, texts)
			require.NoError(t, err)
			return note.ID
		},
		"new note": func(_ *testing.T, srv *clinicaldoctest.Server) int64 {
			return srv.AddNote(clinicaldoctest.Note{Analysis: "corrected"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, folder := clinic(t, 3), t.TempDir()
			_, _ = export(t, srv.Client(), folder)
			srv.Advance(time.Hour)
			id := change(t, srv)
			srv.Inject(clinicaldoctest.RouteGetNote, lag.Always())
			require.ErrorIs(t, run(t.Context(), srv.Client(), folder, new(bytes.Buffer)), errBehind)
			srv.ClearFaults()
			srv.Inject(clinicaldoctest.RouteGetNote, lag.Times(2)) // as if the copy caught up meanwhile
			_, notes := export(t, srv.Client(), folder)
			assert.Equal(t, "corrected", notes[id].Analysis)
		})
	}
}

func TestRun_NoteDeletedAfterItsList_GoesOn(t *testing.T) {
	t.Parallel()
	var srv *clinicaldoctest.Server
	var isDeleted atomic.Bool
	srv = clinic(t, 3, clinicaldoctest.WithMiddleware(func(api http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/2") && isDeleted.CompareAndSwap(false, true) {
				_, err := srv.Client().Notes.Delete(r.Context(), 2)
				assert.NoError(t, err)
			}
			api.ServeHTTP(w, r)
		})
	}))
	said, notes := export(t, srv.Client(), t.TempDir())
	assert.Equal(t, "2 new, 0 changed, 0 gone\n", said)
	assert.NotContains(t, notes, int64(2))
}

// A folder is the mirror of one service, and of nothing that somebody put there.
func TestAFolderIsOfOneService(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	_, before := export(t, clinic(t, 1).Client(), folder)
	require.Error(t, run(t.Context(), clinic(t, 2).Client(), folder, new(bytes.Buffer)))
	assert.Equal(t, before, exported(t, folder))

	foreign := filepath.Join(t.TempDir(), "1.json")
	require.NoError(t, os.WriteFile(foreign, []byte("somebody's\n"), 0o600))
	for range 2 { // the first one leaves nothing that the second could take for its own
		require.ErrorContains(t, run(t.Context(), clinic(t, 1).Client(), filepath.Dir(foreign), new(bytes.Buffer)), "name another")
	}
	text, err := os.ReadFile(foreign)
	require.NoError(t, err)
	assert.Equal(t, "somebody's\n", string(text))
}
