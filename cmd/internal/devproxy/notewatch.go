package devproxy

import (
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

const (
	shownNotes = 100
	// lookPause bounds how much of its time the process looks at notes: a long look is followed by a longer pause.
	lookPause = 20
)

// noteWatch finds out which notes moved on. Notes do that by the clock, without a request, so somebody has to look.
type noteWatch struct {
	mu    sync.Mutex
	last  map[int64]watchedNote
	after time.Time // no look before
}

// watchedNote is what a page shows of a note.
type watchedNote struct {
	ID        int64                 `json:"id"`
	Name      string                `json:"name"`
	PatientID int64                 `json:"patient_id"`
	Stage     clinicaldoctest.Stage `json:"stage"`
	Error     string                `json:"error,omitempty"`
	Gone      bool                  `json:"gone,omitempty"`
}

// snapshot returns the newest notes, oldest first.
func (n *noteWatch) snapshot(srv *clinicaldoctest.Server) []watchedNote {
	all := srv.Notes()
	shown := []watchedNote{}
	for _, note := range all[max(0, len(all)-shownNotes):] {
		shown = append(shown, watchedNote{ID: note.ID, Name: note.Name, PatientID: note.PatientID, Stage: note.Stage, Error: note.ErrorState})
	}
	return shown
}

// look publishes every change since the last look. Pages call it; several of them cost no more than one.
func (n *noteWatch) look(srv *clinicaldoctest.Server, pages *events) {
	n.mu.Lock()
	defer n.mu.Unlock()
	began := time.Now()
	if began.Before(n.after) {
		return
	}
	shown := n.snapshot(srv)
	seen := map[int64]watchedNote{}
	for _, note := range shown {
		seen[note.ID] = note
		if before, known := n.last[note.ID]; !known || before != note {
			pages.publish("note", note)
		}
	}
	for id, note := range n.last {
		_, still := seen[id]
		if pushedOut := len(shown) == shownNotes && id < shown[0].ID; !still && !pushedOut {
			note.Gone = true
			pages.publish("note", note)
		}
	}
	n.last = seen
	n.after = began.Add(max(notesInterval*8/10, lookPause*time.Since(began)))
}
