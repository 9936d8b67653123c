package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

const clinicianText = "Synthetic clinician's words "

// ward is the clinicians: they read, edit and delete the callers' notes over a network of their own that works.
type ward struct {
	box    *clinicaldoctest.Server
	client *clinicaldoc.Client

	mu       sync.Mutex
	known    map[int64]bool // notes whose callers know of them: only such are deleted, or no search could tell
	touched  map[int64]bool // notes whose text a clinician has begun to edit
	deleting map[int64]bool // notes that a clinician has begun to delete
	deleted  map[int64]bool // and was told that they are gone
	words    []words
	failures []string
}

// words are one edit of a clinician's.
type words struct {
	note         int64
	text         string
	began, ended time.Time
}

func newWard(box *clinicaldoctest.Server, client *clinicaldoc.Client) *ward {
	return &ward{box: box, client: client, known: map[int64]bool{}, touched: map[int64]bool{}, deleting: map[int64]bool{}, deleted: map[int64]bool{}}
}

// work edits and deletes until the context ends.
func (w *ward) work(ctx context.Context, rng *rand.Rand, number int) {
	for n := 0; ctx.Err() == nil; n++ {
		select {
		case <-time.After(time.Duration(2+rng.IntN(20)) * time.Millisecond):
		case <-ctx.Done():
			return
		}
		notes := w.box.Notes()
		if len(notes) == 0 {
			continue
		}
		note := notes[rng.IntN(len(notes))]
		if rng.IntN(20) == 0 && w.has(w.known, note.ID) {
			w.remove(note.ID) //nolint:contextcheck // what a clinician began is not cut off by the storm's end
		} else if note.Stage != clinicaldoctest.StageSigned {
			w.edit(note.ID, fmt.Sprintf("%s%d-%d", clinicianText, number, n)) //nolint:contextcheck // likewise
		}
	}
}

// The clinicians' calls are not cut short by the end of the storm: their outcome must be known.
func (w *ward) edit(id int64, text string) {
	w.mark(w.touched, id)
	began := time.Now()
	_, err := w.client.Notes.Update(context.Background(), id, clinicaldoc.UpdateNoteParams{Analysis: &text})
	w.keep(id, err, func() { w.words = append(w.words, words{id, text, began, time.Now()}) })
}

func (w *ward) remove(id int64) {
	w.mark(w.deleting, id)
	_, err := w.client.Notes.Delete(context.Background(), id)
	w.keep(id, err, func() { w.deleted[id] = true })
}

func (w *ward) keep(id int64, err error, done func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		done()
	} else if !strings.Contains(err.Error(), "404") {
		w.failures = append(w.failures, fmt.Sprintf("note %d: %v", id, err))
	}
}

func (w *ward) mark(set map[int64]bool, id int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	set[id] = true
}

func (w *ward) has(set map[int64]bool, id int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return set[id]
}

// learn tells of a note that a caller knows of.
func (w *ward) learn(id int64) {
	if w != nil {
		w.mark(w.known, id)
	}
}

// edited, removing and removed tell what clinicians have done so far; without clinicians that is nothing.
func (w *ward) edited(id int64) bool   { return w != nil && w.has(w.touched, id) }
func (w *ward) removing(id int64) bool { return w != nil && w.has(w.deleting, id) }
func (w *ward) removed(id int64) bool  { return w != nil && w.has(w.deleted, id) }

// verifyEdits checks that no call wrote over words that it had seen, or had to look for: of each request that changed a note,
// the look before it came later than the words only if those were there to be seen.
func verifyEdits(f *findings, said []words, calls map[string]*call, did *history) {
	did.mu.Lock()
	defer did.mu.Unlock()
	for _, changes := range did.changes {
		for _, change := range changes {
			c := calls[change.call]
			if c == nil || c.unruly {
				continue // a clinician's, or of a caller whose own transport repeats what it likes
			}
			since := c.since
			if !c.guarded {
				if c.kind == "delete" {
					continue // once more changes nothing
				}
				since = firstSent(changes, change.call)
				if !since.Before(change.sent) {
					continue // the first attempt of an edit that guards nothing
				}
			}
			looked := lastLook(did.looks[c.note], since, change.sent)
			for _, w := range said {
				if w.note == c.note && w.began.After(since) && w.ended.Before(looked) {
					f.loss("note %d: %s wrote over a clinician's words that it had seen", c.note, c.kind)
				}
			}
			if looked.IsZero() {
				f.loss("note %d: %s was sent without a look", c.note, c.kind)
			}
		}
	}
}

// lastLook is when the service served the read that was sent last in between: retries of a read end with the one that came
// back.
func lastLook(looks []served, since, until time.Time) time.Time {
	var last served
	for _, look := range looks {
		between := look.sent.After(since) && look.sent.Before(until)
		if between && (look.sent.After(last.sent) || look.sent.Equal(last.sent) && look.began.Before(last.began)) {
			last = look
		}
	}
	return last.began
}

// firstSent is when the first attempt of a call was sent that the service has carried out.
func firstSent(changes []served, call string) time.Time {
	first := time.Time{}
	for _, s := range changes {
		if s.call == call && (first.IsZero() || s.sent.Before(first)) {
			first = s.sent
		}
	}
	return first
}
