package main

import (
	"slices"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// outcome is what a caller was told about a create.
type outcome int

const (
	created    outcome = iota // and given the note
	notSent                   // an error that promises that nothing was created
	lost                      // the outcome is unknown and not looked up yet
	found                     // looked up: it was created
	notCreated                // looked up: it was not
	undecided                 // looked up in vain
)

// claim is what a caller was told about something that either happened or not.
type claim int

const (
	never  claim = iota // it was not asked for
	done                // it succeeded
	unsure              // it failed, and may have happened all the same
)

// record is all that a caller was told about one note. Besides its clinicians only one goroutine ever changes a note, so that
// it is decidable what the note must be like.
type record struct {
	name      string // of the record; no other has it
	title     string // of the note
	patientID int64
	sum       string // SHA-256 of its recording, which no other note has
	size      int64

	outcome         outcome
	id              int64                            // 0 unless created or found
	lost            *clinicaldoc.OutcomeUnknownError // what to look it up with
	texts           []text                           // in the order of the updates
	signed, deleted claim
	downloads       []string // SHA-256 of each recording that was downloaded to its end
}

// text is one update of a note.
type text struct {
	value     string
	done      bool   // the caller was told that it is in place
	strayed   bool   // an attempt of it got no answer, so that a copy may have been under way still
	requestID string // of the attempt that was answered
	call      string // its name on the wire
}

// isThere reports whether the caller was told that the note exists.
func (r *record) isThere() bool { return r.outcome == created || r.outcome == found }

// latest is the index of the last text that is known to be in place, -1 when there is none.
func (r *record) latest() int {
	for i, t := range slices.Backward(r.texts) {
		if t.done {
			return i
		}
	}
	return -1
}

// settled reports whether no attempt to change the text went unanswered.
func (r *record) settled() bool {
	for _, t := range r.texts {
		if t.strayed {
			return false
		}
	}
	return true
}
