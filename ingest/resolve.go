package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Resolution is a manual decision about a recording: which note it has, that it has none, or that it is to be sent
// again.
type Resolution struct {
	NoteID int64 // of its note; 0: there is none, or SendAgain is set, and the next run uploads the recording
	// SendAgain decides that the recording is to become another note, because the service could not process it, or
	// because its note was deleted. The journal keeps the old note's id. NoteID must be 0.
	SendAgain bool
	// Force decides that there is no note although it is too early. If the service is still processing the upload,
	// the recording becomes two notes.
	Force bool
	By    string // who decided; it is kept in the journal, with the time
}

// Resolve saves a manual decision about the recording with the key in [Result].JournalKey or [Entry].Key. Then start
// the next run: the recording is already there for it, or is uploaded once.
//
// If the decision names a note, Resolve reads it first. The note must belong to the patient, and to no other recording
// of the journal.
//
// "There is no note" can be decided for an unresolved recording, from [Result].Until on, also by the service's clock.
// Before that, Resolve returns [ErrTooEarly] unless Force is set. The decision states that none of the notes in
// [Result].Candidates is the recording's. It never overrides a note with the same content: the next run searches for
// one before the upload.
//
// SendAgain, or a different note, is accepted if the service reports that the recording's note has failed, does not
// exist, or belongs to another patient.
//
// Resolve returns an error matching [clinicaldoc.ErrInvalidArgument] if the journal does not know the recording or
// there is nothing to decide. The error matches [clinicaldoc.ErrPatientMismatch] for another patient's note,
// [ErrKeyReused] for another recording's note, and [ErrTaken] while a run has the recording. It is not an error to
// save the same decision twice.
func (u *Uploader) Resolve(ctx context.Context, key Key, decision Resolution) error {
	if err := decision.check(); err != nil {
		return err
	}
	if err := u.check(ctx); err != nil {
		return err
	}
	var response clinicaldoc.Response
	owner, err := askOwner(ctx, u.Client, clinicaldoc.WithResponse(&response))
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
	before := claim.Entry()
	if decision.isSaved(before) {
		return nil
	}
	e, err := u.decide(ctx, before, binding.Origin, decision)
	if err != nil {
		return err
	}
	isNone := decision.NoteID == 0 && !decision.SendAgain
	if isNone && !decision.Force {
		if err := before.checkServiceTime(response.Header); err != nil {
			return err
		}
	}
	e.By = decision.By
	return claim.Save(ctx, e)
}

// check returns an error if the decision is not complete or contradicts itself.
func (d Resolution) check() error {
	switch {
	case strings.TrimSpace(d.By) == "":
		return fail("Resolution.By must say who decided", clinicaldoc.ErrInvalidArgument)
	case d.NoteID < 0:
		return fail("Resolution.NoteID must not be negative", clinicaldoc.ErrInvalidArgument)
	case d.SendAgain && d.NoteID != 0:
		return fail("Resolution.SendAgain and NoteID cannot be combined", clinicaldoc.ErrInvalidArgument)
	}
	return nil
}

// isSaved reports whether the journal has this decision already.
func (d Resolution) isSaved(e Entry) bool {
	isToBeSent := e.State == StateClaimed && e.By != "" // a person decided that, and it was not sent since
	switch {
	case d.SendAgain:
		return isToBeSent && len(e.Replaced) > 0
	case d.NoteID == 0:
		return isToBeSent
	}
	return e.State == StateCreated && d.NoteID == e.NoteID
}

// decide returns the entry of a recording after a decision. It returns an error if the entry does not allow it.
func (u *Uploader) decide(ctx context.Context, e Entry, origin string, decision Resolution) (Entry, error) {
	isOpen := e.State == StateInDoubt || e.State == StateCommitting
	wantsOtherNote := decision.SendAgain || decision.NoteID != 0
	switch {
	case e.State == StateCreated && wantsOtherNote:
		if err := u.checkUnusable(ctx, e, origin); err != nil {
			return e, err
		}
		e.Replaced = append(slices.Clone(e.Replaced), NoteRef{ID: e.NoteID, CreatedAt: e.NoteCreatedAt})
	case decision.SendAgain:
		const why = "the recording has no note that could be replaced, or the journal does not know it"
		return e, fail(why, clinicaldoc.ErrInvalidArgument)
	case !isOpen:
		const why = "the recording does not need a decision, or the journal does not know it"
		return e, fail(why, clinicaldoc.ErrInvalidArgument)
	case decision.NoteID == 0:
		if err := e.checkTime(decision); err != nil {
			return e, err
		}
		e.Excluded = e.ruledOut()
	}
	e.At = time.Now()
	e.Until = time.Time{}
	e.Loss = nil
	e.Why = ""
	if decision.NoteID != 0 {
		return u.takeNote(ctx, e, origin, decision.NoteID)
	}
	e.State = StateRefused // the next run searches, and uploads it if no note has its content
	e.NoteID = 0
	e.NoteCreatedAt = time.Time{}
	e.Found = false
	e.Stage = 0
	return e, nil
}

const tooEarly = "it is too early to decide that there is no note; the service may still be processing the upload, " +
	"and sending the recording again would make a second note"

// checkTime returns an error if it is too early to decide that there is no note.
func (e Entry) checkTime(decision Resolution) error {
	switch {
	case decision.Force:
		return nil
	case e.State == StateCommitting:
		return fail(tooEarly+". Run the upload again first: it searches for the note", ErrTooEarly)
	case time.Now().Before(e.Until):
		return fail(tooEarly+". Decide after "+e.Until.UTC().Format(time.RFC3339), ErrTooEarly)
	}
	return nil
}

// checkServiceTime is checkTime by the service's clock, as the header of its response shows it: this machine's clock
// may have been set since the response was lost. It returns nil if the entry does not know how the clocks compared.
func (e Entry) checkServiceTime(header http.Header) error {
	var clocks struct {
		ReadAt  time.Time `json:"clock_read_at"` // by this machine's clock
		Service time.Time `json:"service_clock"`
	}
	err := json.Unmarshal(e.Loss, &clocks)
	if err != nil || clocks.ReadAt.IsZero() || clocks.Service.IsZero() {
		return nil //nolint:nilerr // nothing is known
	}
	const rounding = 2 * time.Second // the service's times are in whole seconds
	until := clocks.Service.Add(e.Until.Sub(clocks.ReadAt))
	if exchange.ServerTime(header, until).Before(until.Add(-rounding)) {
		return fail(tooEarly+". This machine's clock is not the service's: decide after "+
			until.UTC().Format(time.RFC3339)+" by the service's clock", ErrTooEarly)
	}
	return nil
}

// ruledOut returns the ids of all notes that might be the recording's, for a decision that it has none.
func (e Entry) ruledOut() []int64 {
	ids := slices.Concat(e.Excluded, e.Candidates())
	if e.NoteID != 0 {
		ids = append(ids, e.NoteID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// checkUnusable returns an error if the note must not be replaced: it is the patient's, and the service has processed
// it or may still do so.
func (u *Uploader) checkUnusable(ctx context.Context, e Entry, origin string) error {
	note, err := u.Client.Notes.Get(ctx, e.NoteID)
	name := "note " + strconv.FormatInt(e.NoteID, 10)
	switch {
	case errors.Is(err, clinicaldoc.ErrNotFound):
		return nil
	case err != nil:
		return fail(name+" cannot be read: "+redact.Opaque(err).Error(), err)
	case note.Stage() == clinicaldoc.StageFailed || !e.hasNote(note.ID, note.CreatedAt):
		return nil
	}
	patient, isNamed := note.PatientID()
	if isNamed && patientHash(origin, patient) != e.Patient {
		return nil
	}
	return fail(name+" of the recording is "+note.Stage().String()+
		"; it can be replaced only after its processing has failed, or after it was deleted",
		clinicaldoc.ErrInvalidArgument)
}

// takeNote returns the entry after a decision that the recording's note is the one with this id. It returns an error if
// the note cannot be the recording's.
func (u *Uploader) takeNote(ctx context.Context, e Entry, origin string, id int64) (Entry, error) {
	note, err := u.checkNote(ctx, e, origin, id)
	if err != nil {
		return e, err
	}
	e.State = StateCreated
	e.NoteID = note.ID
	e.NoteCreatedAt = note.CreatedAt
	e.Found = true
	e.Stage = 0 // a run that waits only until the note exists keeps no stage
	if u.Until != clinicaldoc.StageUploaded {
		e.Stage = note.Stage()
	}
	e.Excluded = nil
	if e.SentAt.IsZero() { // it was not sent; EntriesForPatient has to find the entry also if the note has no time
		e.SentAt = e.At
		e.SHA256 = "" // the note is made of what somebody else sent
	}
	return e, nil
}

// checkNote reads a note. It returns an error if the note is another patient's or another recording's.
func (u *Uploader) checkNote(ctx context.Context, e Entry, origin string, id int64) (*clinicaldoc.ProgressNote, error) {
	note, err := u.Client.Notes.Get(ctx, id)
	if err != nil {
		return nil, fail("note "+strconv.FormatInt(id, 10)+" cannot be read: "+redact.Opaque(err).Error(), err)
	}
	if patient, _ := note.PatientID(); patientHash(origin, patient) != e.Patient {
		return nil, fail("the note belongs to another patient, or names none", clinicaldoc.ErrPatientMismatch)
	}
	entries, err := u.Journal.EntriesForPatient(ctx, e.Patient, anyTime)
	if err != nil && !errors.Is(err, ErrJournalDamaged) {
		return nil, err
	}
	isOthers := func(other Entry) bool {
		hasIt := other.hasNote(id, note.CreatedAt) || other.hasReplacedNote(id, note.CreatedAt)
		return hasIt && other.Key != e.Key
	}
	if slices.ContainsFunc(entries, isOthers) {
		return nil, fail("the note belongs to another recording", ErrKeyReused)
	}
	return note, nil
}
