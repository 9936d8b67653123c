package faultmatrix

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// checkFindCreated demands that an unknown outcome is resolved by what is true, and by nothing before it can be known.
func checkFindCreated(ctx context.Context, v *verdict, w *world, err error) {
	var lost *clinicaldoc.OutcomeUnknownError
	if !errors.As(err, &lost) || lost.NoteID != 0 && !w.fault.commits {
		return // nothing is unknown, or the answer named a note that it did not make
	}
	settle := lastLook
	if took := lost.LostAt.Sub(lost.SentAt); took > longUpload && w.op.done(w) == 0 && !w.fault.late {
		checkUndecided(ctx, v, w, lost, settle) // it would have to look for as long once more
		return
	}
	if w.fault.late {
		settle = hangs
		lost = checkUndecided(ctx, v, w, lost, settle)
	}
	found, err := w.client.Notes.FindCreated(ctx, lost, clinicaldoc.FindCreatedParams{Settle: settle})
	said := time.Now()
	switch made := w.op.done(w); {
	case made == 1:
		v.check(err == nil && w.holdsRecording(found.ID, lost.AudioSize), "FindCreated did not find the note: %v", err)
	case w.fault.rival:
		v.check(errors.Is(err, clinicaldoc.ErrOutcomeUnknown), "FindCreated decided between a lost note and a colleague's: %v", err)
	default:
		v.check(errors.Is(err, clinicaldoc.ErrNotCreated), "FindCreated did not find out that there is no note: %v", err)
		v.check(!said.Before(lost.LostAt.Add(settle)), "FindCreated knew %v too early", lost.LostAt.Add(settle).Sub(said))
	}
	v.check(w.op.done(w) <= 1, "there are %d notes in the end", w.op.done(w))
	checkPrivacy(v, w, err)
}

// longUpload is from when on a search counts the upload's own duration instead of what the cell wants.
const longUpload = 2 * time.Second

// checkUndecided looks while there is no note yet: nothing may be said, and what is left can be asked by another process.
func checkUndecided(ctx context.Context, v *verdict, w *world, lost *clinicaldoc.OutcomeUnknownError, settle time.Duration) *clinicaldoc.OutcomeUnknownError {
	soon, cancel := context.WithTimeout(ctx, lastLook)
	defer cancel()
	found, err := w.client.Notes.FindCreated(soon, lost, clinicaldoc.FindCreatedParams{Settle: settle})
	var still *clinicaldoc.OutcomeUnknownError
	v.check(found == nil && errors.As(err, &still) && !errors.Is(err, clinicaldoc.ErrNotCreated), "FindCreated decided before the service did: %v", err)
	if still == nil {
		return lost
	}
	stored, err := json.Marshal(still)
	read := new(clinicaldoc.OutcomeUnknownError)
	v.check(err == nil && json.Unmarshal(stored, read) == nil, "the unknown outcome cannot be stored")
	return read
}
