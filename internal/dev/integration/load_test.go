package integration

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

const (
	loadClients = 200
	loadRounds  = 2  // of each client, unless -load says how long
	loadKept    = 20 // notes that a client keeps, so that a long run does not only measure the box's list
)

// TestLoad lets 200 clients work at once and loses nothing: each note that was created is there once, with the latest
// text and its own recording, each that was deleted is gone, and no call fails.
func TestLoad(t *testing.T) {
	t.Parallel()
	box := clinicaldoctest.NewServer(clinicaldoctest.WithDelays(clinicaldoctest.Delays{}))
	t.Cleanup(box.Close)
	var workers sync.WaitGroup
	all := make([]*worker, loadClients)
	deadline := time.Now().Add(*loadFor)
	for i := range all {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		all[i] = &worker{
			client:    newClient(t, box.URL, box.Token, clinicaldoc.WithHTTPClient(&http.Client{Transport: transport})),
			patientID: box.AddPatient(clinicaldoctest.Patient{}).ID, texts: map[int64]string{},
		}
		workers.Go(func() {
			for round := 0; round < loadRounds || time.Now().Before(deadline); round++ {
				if all[i].err = all[i].round(t.Context()); all[i].err != nil {
					return
				}
			}
			all[i].err = all[i].check(t.Context())
		})
	}
	workers.Wait()

	calls, kept := 0, map[int64]string{}
	for _, w := range all {
		require.NoError(t, w.err)
		calls += w.calls
		for id, text := range w.texts {
			_, twice := kept[id]
			require.False(t, twice, "two clients were given the same note")
			kept[id] = text
		}
	}
	notes := box.Notes()
	assert.Len(t, notes, len(kept))
	for _, note := range notes {
		assert.Equal(t, kept[note.ID], note.Analysis)
	}
	t.Logf("%d clients made %d calls and hold %d notes", loadClients, calls, len(kept))
}

// worker is one client under load with a patient of its own.
type worker struct {
	client    *clinicaldoc.Client
	patientID int64
	texts     map[int64]string // of the notes that are there
	oldest    []int64          // their ids, in the order of creation
	calls     int
	err       error
}

// round creates, reads, updates, downloads and deletes notes, and compares each answer.
func (w *worker) round(ctx context.Context) error {
	recording := bytes.Repeat([]byte(fmt.Sprintf("synthetic %d %d ", w.patientID, w.calls)), 64)
	note, err := w.client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{
		Name: "Synthetic load", PatientID: w.patientID, PromptID: 1, Audio: clinicaldoc.AudioBytes("synthetic.wav", recording),
	})
	if err != nil {
		return err
	}
	if _, known := w.texts[note.ID]; known {
		return fmt.Errorf("note %d was created twice", note.ID)
	}
	text := fmt.Sprintf("Synthetic analysis %d of %d", w.calls, note.ID)
	if _, err := w.client.Notes.Update(ctx, note.ID, clinicaldoc.UpdateNoteParams{Analysis: &text}); err != nil {
		return err
	}
	w.texts[note.ID] = text
	w.oldest = append(w.oldest, note.ID)
	read, err := w.client.Notes.Get(ctx, note.ID)
	if err != nil {
		return err
	}
	if id, _ := read.Patient.ID(); read.Analysis != text || id != w.patientID {
		return fmt.Errorf("note %d is not as it was left", note.ID)
	}
	var received bytes.Buffer
	if _, err := w.client.Notes.DownloadAudio(ctx, note.ID, &received, clinicaldoc.DownloadParams{}); err != nil {
		return err
	}
	if !bytes.Equal(recording, received.Bytes()) {
		return fmt.Errorf("note %d has another recording", note.ID)
	}
	w.calls += 4
	if len(w.oldest) > loadKept {
		gone := w.oldest[0]
		if _, err := w.client.Notes.Delete(ctx, gone); err != nil {
			return err
		}
		w.oldest = w.oldest[1:]
		delete(w.texts, gone)
		w.calls++
	}
	return nil
}

// check lists the client's notes and finds what it holds, each once.
func (w *worker) check(ctx context.Context) error {
	missing := map[int64]bool{}
	for id := range w.texts {
		missing[id] = true
	}
	for note, err := range w.client.Notes.All(ctx, clinicaldoc.ListNotesParams{PatientID: w.patientID, PerPage: 100}) {
		switch {
		case err != nil:
			return err
		case !missing[note.ID]:
			return fmt.Errorf("note %d is listed and should not be", note.ID)
		case !strings.HasPrefix(note.Name, "Synthetic load"):
			return fmt.Errorf("note %d has another name", note.ID)
		}
		delete(missing, note.ID)
	}
	w.calls++
	if len(missing) > 0 {
		return fmt.Errorf("%d notes are lost", len(missing))
	}
	return nil
}
