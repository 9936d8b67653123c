package journaltest

import (
	"errors"
	"reflect"
	"slices"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// failed returns the entry of a recording that the service could not process.
func (k *kit) failed(n int) ingest.Entry {
	e := k.entry(n, ingest.StateCreated)
	e.NoteCreatedAt = began.Add(time.Minute)
	e.Stage = clinicaldoc.StageFailed
	e.Why = "the service could not process the recording"
	return e
}

// toSendAgain returns a failed entry after a person decided to send its recording again. It is refused, so that the
// next run sends it, and its note is one of those that are replaced. Notes 90 to 92 are of earlier decisions.
func toSendAgain(failed ingest.Entry) ingest.Entry {
	e := failed
	e.State = ingest.StateRefused
	e.At = began.Add(time.Hour)
	e.By = "a person"
	e.Replaced = []ingest.NoteRef{{ID: 90}, {ID: failed.NoteID, CreatedAt: failed.NoteCreatedAt}}
	e.Excluded = []int64{91, 92}
	e.NoteID = 0
	e.NoteCreatedAt = time.Time{}
	e.Stage = 0
	e.Why = ""
	return e
}

// hasDecision checks that the claim of a recording has a manual decision.
func hasDecision(got, want ingest.Entry) error {
	if err := isState(got, ingest.StateClaimed); err != nil {
		return err
	}
	for i := range got.Replaced {
		got.Replaced[i].CreatedAt = got.Replaced[i].CreatedAt.UTC()
	}
	switch {
	case got.By != want.By:
		return errorf("By is %q, want %q", got.By, want.By)
	case !reflect.DeepEqual(got.Replaced, want.Replaced):
		return errorf("Replaced is %v, want %v", got.Replaced, want.Replaced)
	case !slices.Equal(got.Excluded, want.Excluded):
		return errorf("Excluded is %v, want %v", got.Excluded, want.Excluded)
	}
	return nil
}

// checkSentAgain checks that a manual decision lets a recording with a note be sent again. The next process finds
// the decision, also if the one before claimed the recording and did nothing.
func (k *kit) checkSentAgain() error {
	failed := k.failed(0)
	decided := toSendAgain(failed)
	for _, e := range []ingest.Entry{failed, decided} {
		if err := k.save(e); err != nil {
			return err
		}
	}
	for range 3 { // in three processes, each of which claims the recording and does nothing
		got, err := k.load(failed.Key)
		if err != nil {
			return err
		}
		if err := hasDecision(got, decided); err != nil {
			return err
		}
		if err := k.reopenAndBind(); err != nil {
			return err
		}
	}
	return k.checkReplacedAfterwards(decided)
}

// checkReplacedAfterwards checks that a recording keeps its earlier notes when it is uploaded.
func (k *kit) checkReplacedAfterwards(decided ingest.Entry) error {
	e := decided
	e.By = ""
	for _, state := range []ingest.State{ingest.StateCommitting, ingest.StateCreated} {
		e.State = state
		if state == ingest.StateCreated {
			e.NoteID = 77
			e.Stage = clinicaldoc.StageUploaded
		}
		if err := k.save(e); err != nil {
			return err
		}
		got, err := k.load(e.Key)
		if err != nil {
			return err
		}
		if got.State != state || got.NoteID != e.NoteID || len(got.Replaced) != len(decided.Replaced) {
			return errorf("the entry is %s of note %d with %d earlier notes, want %s of note %d with %d",
				got.State, got.NoteID, len(got.Replaced), state, e.NoteID, len(decided.Replaced))
		}
	}
	return nil
}

// checkStage checks that the stage of a note can change, and that another note can take its place.
func (k *kit) checkStage() error {
	e := k.entry(0, ingest.StateCreated)
	for _, stage := range []clinicaldoc.Stage{
		clinicaldoc.StageUploaded, clinicaldoc.StageTranscribing, clinicaldoc.StageFailed, clinicaldoc.StageComplete,
	} {
		e.Stage = stage
		if err := k.saveAndFind(e); err != nil {
			return err
		}
	}
	e.Replaced = []ingest.NoteRef{{ID: e.NoteID}}
	e.NoteID = 78
	e.By = "a person"
	return k.saveAndFind(e)
}

// saveAndFind saves the entry of a recording that has a note, and checks what this process and the next one find.
func (k *kit) saveAndFind(e ingest.Entry) error {
	if err := k.save(e); err != nil {
		return err
	}
	for range 2 { // before and after the process ends
		got, err := k.load(e.Key)
		if err != nil {
			return err
		}
		if got.Stage != e.Stage || got.NoteID != e.NoteID || len(got.Replaced) != len(e.Replaced) {
			return errorf("the entry is note %d, %s, with %d earlier notes, want note %d, %s, with %d",
				got.NoteID, got.Stage, len(got.Replaced), e.NoteID, e.Stage, len(e.Replaced))
		}
		if err := k.reopenAndBind(); err != nil {
			return err
		}
	}
	return nil
}

// checkLateStage checks that a manual decision stays if another worker saves the stage of the old note after it. It
// checks nothing if the journal does not let both claim the recording.
func (k *kit) checkLateStage() error {
	failed := k.failed(0)
	if err := k.save(failed); err != nil {
		return err
	}
	decided := toSendAgain(failed)
	couldBothClaim := false
	err := k.withTwo(failed.Key, func(person, worker ingest.Claim) error {
		couldBothClaim = true
		if err := person.Save(k.ctx, decided); err != nil {
			return err
		}
		late := failed
		late.Stage = clinicaldoc.StageComplete
		err := worker.Save(k.ctx, late)
		if !errors.Is(err, ingest.ErrTaken) {
			return errorf("a stage that was saved after a decision: %v, want ErrTaken", err)
		}
		return nil
	})
	if err != nil || !couldBothClaim {
		return err
	}
	got, err := k.load(failed.Key)
	if err != nil {
		return err
	}
	return hasDecision(got, decided)
}

// checkProcessing checks that Processing lists the notes that are in processing, and stops listing one that becomes
// complete. It checks nothing if the journal is not a ProcessingJournal.
func (k *kit) checkProcessing() error {
	_, canListThem := k.journal.(ingest.ProcessingJournal)
	if !canListThem {
		return nil
	}
	for n, stage := range []clinicaldoc.Stage{
		0, clinicaldoc.StageUploaded, clinicaldoc.StageTranscribing, clinicaldoc.StageAnalysing,
		clinicaldoc.StageComplete, clinicaldoc.StageSigned, clinicaldoc.StageFailed,
	} {
		e := k.entry(n, ingest.StateCreated)
		e.Stage = stage
		if err := k.save(e); err != nil {
			return err
		}
	}
	if err := k.save(k.entry(7, ingest.StateInDoubt)); err != nil {
		return err
	}
	if err := k.listsProcessing(1, 2, 3); err != nil { // uploaded, transcribing, analysing
		return err
	}
	done := k.entry(2, ingest.StateCreated)
	done.Stage = clinicaldoc.StageComplete
	if err := k.save(done); err != nil {
		return err
	}
	return k.listsProcessing(1, 3)
}

// listsProcessing checks which recordings of this part Processing returns, in this process and in the next one.
func (k *kit) listsProcessing(want ...int) error {
	for range 2 { // before and after the process ends
		journal, _ := k.journal.(ingest.ProcessingJournal)
		entries, err := journal.Processing(k.ctx)
		if err != nil {
			return errorf("Processing: %w", err)
		}
		var got []int
		for _, e := range entries {
			if e.Key[0] == k.part { // see key
				got = append(got, int(e.Key[1]))
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return errorf("Processing returned the recordings %v, want %v", got, want)
		}
		if err := k.reopenAndBind(); err != nil {
			return err
		}
	}
	return nil
}

// checkReplaced checks that EntriesForPatient lists a recording with an earlier note, by the time of that note, also
// before the recording is sent again, while a worker has it, and in the next process.
func (k *kit) checkReplaced() error {
	failed := k.failed(0)
	failed.NoteCreatedAt = replacedNoteAt
	decided := toSendAgain(failed)
	for _, e := range []ingest.Entry{failed, decided} {
		if err := k.save(e); err != nil {
			return err
		}
	}
	if err := k.listsReplaced(decided); err != nil {
		return err
	}
	err := k.withClaim(failed.Key, func(ingest.Claim) error { return k.listsReplaced(decided) })
	if err != nil {
		return err
	}
	if err := k.reopenAndBind(); err != nil {
		return err
	}
	if err := k.listsReplaced(decided); err != nil {
		return err
	}
	return k.lists(decided.Patient, replacedNoteAt.Add(time.Hour), states{})
}

// replacedNoteAt is when the earlier note of checkReplaced was created: long after its recording was sent, so that only
// this time can be why the entry is listed.
var replacedNoteAt = began.Add(100 * time.Hour)

// listsReplaced checks that EntriesForPatient, asked for the time since shortly before replacedNoteAt, returns one
// entry with as many earlier notes as the wanted one has.
func (k *kit) listsReplaced(want ingest.Entry) error {
	entries, err := k.journal.EntriesForPatient(k.ctx, want.Patient, replacedNoteAt.Add(-time.Hour))
	if err != nil {
		return errorf("EntriesForPatient: %w", err)
	}
	if len(entries) != 1 || len(entries[0].Replaced) != len(want.Replaced) {
		return errorf("EntriesForPatient returned %+v, want one entry with %d earlier notes",
			entries, len(want.Replaced))
	}
	return nil
}
