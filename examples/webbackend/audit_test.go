package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestTrail_NamesTheClinicianOfEachRecord(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	var trail bytes.Buffer
	w.trail = &trail
	id := w.srv.AddNote(clinicaldoctest.Note{PatientID: 7, UserID: w.first.ID, Name: "Visit", Analysis: "draft"})
	path := fmt.Sprintf("/notes/%d", id)
	first := w.login(t, w.first.Token)
	second := w.login(t, w.second.Token)
	for _, session := range []string{first, second} {
		require.Equal(t, http.StatusOK, w.ask(session, http.MethodGet, path, "", "").Code)
	}
	readers := map[int64]bool{}
	for line := range strings.Lines(trail.String()) {
		var access auditLine
		require.NoError(t, json.Unmarshal([]byte(line), &access))
		if access.Operation == "Notes.Get" && access.NoteID == id && access.PatientID == 7 {
			readers[access.Clinician] = true
		}
	}
	assert.Equal(t, map[int64]bool{w.first.ID: true, w.second.ID: true}, readers)
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestTrail_CannotBeWritten_ShowsNoNote(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	id := w.srv.AddNote(clinicaldoctest.Note{PatientID: 7, UserID: w.first.ID, Name: "Visit", Analysis: "draft text"})
	session := w.login(t, w.first.Token)
	w.trail = fullDisk{}
	path := fmt.Sprintf("/notes/%d", id)
	shown := w.ask(session, http.MethodGet, path, "", "")
	assert.Equal(t, http.StatusServiceUnavailable, shown.Code)
	assert.NotContains(t, shown.Body.String(), "draft text")
	conflict := w.ask(session, http.MethodPut, path, `"another version"`, "mine")
	assert.Equal(t, http.StatusServiceUnavailable, conflict.Code)
	assert.NotContains(t, conflict.Body.String(), "draft text")
}

// almostFull is a disk that has room for half a line, once.
type almostFull struct {
	bytes.Buffer

	isFull bool
}

func (d *almostFull) Write(line []byte) (int, error) {
	if d.isFull {
		return d.Buffer.Write(line)
	}
	d.isFull = true
	n, _ := d.Buffer.Write(line[:len(line)/2])
	return n, errors.New("no space left")
}

// What the full disk has cut off is not a part of the line after it: no reader would find that access.
func TestTrail_LineWasCutOff_NextOneIsComplete(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	disk := &almostFull{}
	w.trail = disk
	require.Error(t, w.append([]byte(`{"note_id":1}`)))
	require.NoError(t, w.append([]byte(`{"note_id":2}`)))
	require.NoError(t, w.append([]byte(`{"note_id":3}`)))
	assert.Equal(t, "{\"note_\n{\"note_id\":2}\n{\"note_id\":3}\n", disk.String())

	path := filepath.Join(t.TempDir(), "trail.jsonl") // as the server that had met the full disk left it
	for content, want := range map[string]bool{"": false, "{}\n": false, "{}\n{": true} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		file, isCut, err := openTrail(path)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		assert.Equal(t, want, isCut, content)
	}
}
