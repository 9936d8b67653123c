package main

import (
	"fmt"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// findings is where the service and what callers were told differ. Each entry names a note by its synthetic name.
type findings struct {
	duplicates []string // a second note for one create
	losses     []string // reported done, and is not
	wrong      []string // any other untrue answer: other bytes, another patient's row, reported as not done and is
	lateCopies int      // texts overwritten by a copy of an earlier update that the network had held back
}

func (f *findings) duplicate(format string, args ...any) {
	f.duplicates = append(f.duplicates, fmt.Sprintf(format, args...))
}
func (f *findings) loss(format string, args ...any) {
	f.losses = append(f.losses, fmt.Sprintf(format, args...))
}
func (f *findings) untrue(format string, args ...any) {
	f.wrong = append(f.wrong, fmt.Sprintf(format, args...))
}

func (f *findings) add(other findings) {
	f.duplicates = append(f.duplicates, other.duplicates...)
	f.losses = append(f.losses, other.losses...)
	f.wrong = append(f.wrong, other.wrong...)
	f.lateCopies += other.lateCopies
}

// verify compares the ledgers with what the service holds and did.
func verify(records []*record, notes []clinicaldoctest.Note, did *history, ward *ward) findings {
	var f findings
	byRecording := map[string][]clinicaldoctest.Note{}
	for _, note := range notes {
		byRecording[note.AudioSHA256] = append(byRecording[note.AudioSHA256], note)
	}
	atLeast, atMost := 0, 0 // notes that were created, by what callers know
	for _, r := range records {
		switch r.outcome {
		case created, found:
			atLeast++
			atMost++
		case lost, undecided:
			atMost++
		case notSent, notCreated:
		}
		held := byRecording[r.sum]
		delete(byRecording, r.sum)
		verifyPresence(&f, r, held, ward)
		for _, note := range held {
			if r.isThere() && note.ID == r.id {
				verifyContent(&f, r, note, did, ward)
			}
		}
		for _, sum := range r.downloads {
			if sum != r.sum {
				f.untrue("%s: downloaded other bytes than were uploaded", r.name)
			}
		}
	}
	for _, strangers := range byRecording {
		f.untrue("%q: %d notes that nobody created", strangers[0].Name, len(strangers))
	}
	// A duplicate that was deleted since shows only here.
	if carriedOut := did.creates(); carriedOut > atMost {
		f.duplicate("the service created %d notes, callers know of %d", carriedOut, atMost)
	} else if carriedOut < atLeast {
		f.loss("the service created %d notes, callers know of %d", carriedOut, atLeast)
	}
	return f
}

// verifyPresence checks that the note is there as often as the caller believes.
func verifyPresence(f *findings, r *record, held []clinicaldoctest.Note, ward *ward) {
	if len(held) > 1 {
		f.duplicate("%s: %d notes", r.name, len(held))
		return
	}
	present := len(held) == 1
	switch {
	case present && r.isThere() && held[0].ID != r.id:
		f.duplicate("%s: its recording is in another note than the one the caller knows", r.name)
	case present && (r.outcome == notSent || r.outcome == notCreated):
		f.untrue("%s: reported as not created and is there", r.name)
	case present && r.isThere() && r.deleted == done:
		f.loss("%s: reported as deleted and is there", r.name)
	case !present && r.isThere() && r.deleted == never && !ward.removing(r.id):
		f.loss("%s: reported as created and is not there", r.name)
	}
}

// verifyContent checks that the note is as the caller left it.
func verifyContent(f *findings, r *record, note clinicaldoctest.Note, did *history, ward *ward) {
	if note.PatientID != r.patientID || note.Name != r.title {
		f.untrue("%s: another patient's, or another name", r.name)
	}
	if note.AudioSize != r.size {
		f.untrue("%s: the service holds another recording", r.name)
	}
	signed := note.Stage == clinicaldoctest.StageSigned
	switch {
	case r.signed == done && !signed:
		f.loss("%s: reported as signed and is not", r.name)
	case r.signed == never && signed:
		f.untrue("%s: signed by nobody", r.name)
	}
	if !ward.edited(r.id) { // else what was written over what is judged call by call
		verifyText(f, r, note, did)
	}
}

// verifyText checks that the note says what the last successful update set, or what one after it may have set.
func verifyText(f *findings, r *record, note clinicaldoctest.Note, did *history) {
	latest := r.latest()
	for i := max(latest, 0); i < len(r.texts); i++ {
		if r.texts[i].value == note.Analysis {
			return
		}
	}
	if latest < 0 {
		for _, t := range r.texts {
			if t.value == note.Analysis {
				return
			}
		}
		if !isUpdateText(note.Analysis) {
			return // as the service made it
		}
		f.untrue("%s: a text that nobody wrote", r.name)
		return
	}
	for _, t := range r.texts[:latest] {
		if t.value == note.Analysis && t.strayed && did.strayAfter(r, latest) {
			f.lateCopies++
			return
		}
	}
	f.loss("%s: the last successful update is not in place", r.name)
}
