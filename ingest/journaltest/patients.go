package journaltest

import (
	"maps"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// states are those of a patient's recordings, by their numbers.
type states map[int]ingest.State

// lists checks what EntriesForPatient returns.
func (k *kit) lists(patient uint32, since time.Time, want states) error {
	entries, err := k.journal.EntriesForPatient(k.ctx, patient, since)
	if err != nil {
		return errorf("EntriesForPatient: %w", err)
	}
	got := states{}
	for _, e := range entries {
		n := int(e.Key[1]) + int(e.Key[2])<<8 // as key has put it there
		if _, twice := got[n]; twice {
			return errorf("EntriesForPatient returned recording %d twice", n)
		}
		got[n] = e.State
	}
	if !maps.Equal(got, want) {
		return errorf("EntriesForPatient(%d, %s) returned %v, want %v", patient, since, got, want)
	}
	return nil
}

// checkStates checks that a patient's entries are listed unless they are refused, in this process and in the next one.
// Recordings 0 to 3 are those of patient 0, and recording 4 is that of patient 1. Patient 2 has none.
func (k *kit) checkStates() error {
	all := []ingest.State{ingest.StateCommitting, ingest.StateCreated, ingest.StateInDoubt, ingest.StateRefused}
	for n, state := range all {
		if err := k.save(k.entry(n, state)); err != nil {
			return err
		}
	}
	other := k.entry(4, ingest.StateCommitting)
	other.Patient = k.patient(1)
	if err := k.save(other); err != nil {
		return err
	}
	for range 2 { // before and after the process ends
		want := states{0: ingest.StateCommitting, 1: ingest.StateCreated, 2: ingest.StateInDoubt}
		if err := k.lists(k.patient(0), time.Time{}, want); err != nil {
			return err
		}
		if err := k.lists(k.patient(1), time.Time{}, states{4: ingest.StateCommitting}); err != nil {
			return err
		}
		if err := k.lists(k.patient(2), time.Time{}, states{}); err != nil {
			return err
		}
		if err := k.reopenAndBind(); err != nil {
			return err
		}
	}
	return nil
}

// checkTimes checks that entries are found by the time at which they were sent or their note was created, in any
// order of saving. A clock may be days wrong, and be corrected.
func (k *kit) checkTimes() error {
	for n, hours := range []int{0, 100, 1, 50} {
		e := k.entry(n, ingest.StateCommitting)
		e.SentAt = began.Add(time.Duration(hours) * time.Hour)
		if err := k.save(e); err != nil {
			return err
		}
	}
	sentByLateClock := k.entry(4, ingest.StateCreated) // its note was created 200 hours after it was sent
	sentByLateClock.NoteCreatedAt = began.Add(200 * time.Hour)
	if err := k.save(sentByLateClock); err != nil {
		return err
	}
	const committing = ingest.StateCommitting
	for hours, want := range map[int]states{ // by the time since which entries are asked for
		0:   {0: committing, 1: committing, 2: committing, 3: committing, 4: ingest.StateCreated},
		1:   {1: committing, 2: committing, 3: committing, 4: ingest.StateCreated},
		50:  {1: committing, 3: committing, 4: ingest.StateCreated},
		100: {1: committing, 4: ingest.StateCreated},
		200: {4: ingest.StateCreated},
		201: {},
	} {
		if err := k.lists(k.patient(0), began.Add(time.Duration(hours)*time.Hour), want); err != nil {
			return err
		}
	}
	return nil
}

// checkChanges checks that an entry is listed as it is now: sent again later, refused, or another patient's.
func (k *kit) checkChanges() error {
	save := func(n int, patient uint32, state ingest.State, sent time.Duration) error {
		e := k.entry(n, state)
		e.Patient = patient
		e.SentAt = began.Add(sent)
		return k.save(e)
	}
	first, second := k.patient(0), k.patient(1)
	for _, c := range []struct {
		n       int
		patient uint32
		state   ingest.State
		sent    time.Duration
	}{
		{0, first, ingest.StateInDoubt, 0},
		{1, first, ingest.StateCreated, time.Hour},
		{0, first, ingest.StateCommitting, 99 * time.Hour}, // sent again
		{2, first, ingest.StateCommitting, 99 * time.Hour},
		{2, first, ingest.StateRefused, 99 * time.Hour},
		{3, first, ingest.StateRefused, 99 * time.Hour},
		{3, second, ingest.StateCreated, 99 * time.Hour},
		{4, first, ingest.StateCommitting, 99 * time.Hour},
		{4, second, ingest.StateCommitting, 99 * time.Hour},
	} {
		if err := save(c.n, c.patient, c.state, c.sent); err != nil {
			return err
		}
	}
	since := began.Add(99 * time.Hour)
	if err := k.lists(first, since, states{0: ingest.StateCommitting}); err != nil {
		return err
	}
	return k.lists(second, since, states{3: ingest.StateCreated, 4: ingest.StateCommitting})
}
