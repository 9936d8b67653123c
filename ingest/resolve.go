package ingest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Resolution is a person's word on a recording in doubt.
type Resolution struct {
	NoteID int64  // of its note; 0: there is none, and the next run uploads it
	By     string // who says so; it is kept in the journal, with the time
}

// Resolve takes down a person's word on a recording in doubt, by the key in [Result].JournalKey or [Entry].Key. The note is read
// first: it must be the patient's and no other recording's of the journal. Nothing else is needed to go on: the next run finds
// the recording already there, or uploads it.
//
// A recording that the journal does not know, or that is not in doubt, is [clinicaldoc.ErrInvalidArgument], unless it has that
// note already; another patient's note is [clinicaldoc.ErrPatientMismatch], another recording's [ErrKeyReused]; while a run has
// the recording, it is [ErrTaken].
func (u *Uploader) Resolve(ctx context.Context, key Key, word Resolution) error {
	switch {
	case strings.TrimSpace(word.By) == "":
		return fail("Resolution.By must say who decided", clinicaldoc.ErrInvalidArgument)
	case word.NoteID < 0:
		return fail("Resolution.NoteID must not be negative", clinicaldoc.ErrInvalidArgument)
	}
	if err := u.check(ctx); err != nil {
		return err
	}
	owner, err := OwnerOf(ctx, u.Client)
	if err != nil {
		return err
	}
	binding, err := u.Journal.Bind(ctx, owner)
	if err != nil {
		return err
	}
	claim, err := u.Journal.Claim(ctx, key)
	if err != nil {
		return err
	}
	defer claim.Release()
	e := claim.Entry()
	switch {
	case e.State == StateCreated && word.NoteID == e.NoteID:
		return nil
	case e.State != StateInDoubt && e.State != StateCommitting:
		return fail("the recording is not in doubt, or the journal does not know it", clinicaldoc.ErrInvalidArgument)
	}
	e.At, e.By, e.Until, e.Loss, e.Why = time.Now(), word.By, time.Time{}, nil, ""
	if word.NoteID == 0 {
		e.State, e.NoteID = StateRefused, 0
		return claim.Save(ctx, e)
	}
	note, err := u.checkNote(ctx, e, binding.Origin, word.NoteID)
	if err != nil {
		return err
	}
	e.State, e.NoteID, e.NoteCreatedAt, e.Found = StateCreated, note.ID, note.CreatedAt, true
	if e.SentAt.IsZero() {
		e.SentAt = e.At
	}
	return claim.Save(ctx, e)
}

// checkNote reads a note and refuses one that cannot be the entry's.
func (u *Uploader) checkNote(ctx context.Context, e Entry, origin string, id int64) (*clinicaldoc.ProgressNote, error) {
	note, err := u.Client.Notes.Get(ctx, id)
	if err != nil {
		return nil, fail("note "+strconv.FormatInt(id, 10)+" cannot be read: "+redact.Opaque(err).Error(), err)
	}
	if patient, _ := note.PatientID(); patientHash(origin, patient) != e.Patient {
		return nil, fail("the note is another patient's, or does not say whose it is", clinicaldoc.ErrPatientMismatch)
	}
	entries, err := u.Journal.EntriesForPatient(ctx, e.Patient, time.Time{})
	if err != nil && !errors.Is(err, ErrJournalDamaged) {
		return nil, err
	}
	if slices.ContainsFunc(entries, func(other Entry) bool { return other.Key != e.Key && other.has(id, note.CreatedAt) }) {
		return nil, fail("the note is another recording's", ErrKeyReused)
	}
	return note, nil
}
