package devproxy

import (
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
)

const (
	shownNotes = 100
	// lookPause bounds how much of its time the process looks at notes: a long look is followed by a longer pause.
	lookPause = 20
)

// noteWatch finds out which notes moved on. Notes do that by the clock, without a request, so somebody has to look.
type noteWatch struct {
	mu    sync.Mutex
	last  map[int64]boxlink.Note
	after time.Time // no look before
}

// goneNote tells that a note is not there any more.
type goneNote struct {
	boxlink.Note
	Gone bool `json:"gone"`
}

// look publishes every change since the last look. Pages call it; several of them cost no more than one.
func (n *noteWatch) look(srv *clinicaldoctest.Server, pages *events) {
	n.mu.Lock()
	defer n.mu.Unlock()
	began := time.Now()
	if began.Before(n.after) {
		return
	}
	shown := boxlink.Newest(srv, shownNotes)
	seen := map[int64]boxlink.Note{}
	for _, note := range shown {
		seen[note.ID] = note
		if before, known := n.last[note.ID]; !known || before != note {
			pages.publish("note", note)
		}
	}
	for id, note := range n.last {
		_, still := seen[id]
		if pushedOut := len(shown) == shownNotes && id < shown[0].ID; !still && !pushedOut {
			pages.publish("note", goneNote{note, true})
		}
	}
	n.last = seen
	n.after = began.Add(pauseAfter(time.Since(began)))
}

// pauseAfter returns how much later than a look the next one may begin.
func pauseAfter(took time.Duration) time.Duration { return max(notesInterval*8/10, lookPause*took) }
