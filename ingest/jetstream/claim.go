package jetstream

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// claim is a lease on one key. Renewals and saves take turns: otherwise a save could fail because of the claim's own
// renewal.
type claim struct {
	journal *Journal
	key     ingest.Key
	owner   string // empty: the recording has its note, and there is nothing to hold
	hasNote bool   // it had when it was claimed

	turn       turn
	record     record
	revision   uint64
	isLost     bool
	untilShift time.Duration // by which Until is later here than in the record; see Journal.untilShift

	stopRenewals  context.CancelFunc // nil: there are no renewals
	renewalsEnded chan struct{}
}

// compareAndSet writes the record if its revision in the bucket is still the one that was seen last. Otherwise the
// error is a conflict.
func (c *claim) compareAndSet(ctx context.Context, r record) error {
	value, err := json.Marshal(r)
	if err != nil {
		return err
	}
	bucket := c.journal.records(c.key)
	return within(ctx, func(ctx context.Context) error {
		var revision uint64
		if c.revision == 0 {
			revision, err = bucket.Create(ctx, recordKey(c.key), value)
		} else {
			revision, err = bucket.Update(ctx, recordKey(c.key), value, c.revision)
		}
		if err == nil {
			c.record = r
			c.revision = revision
		}
		return err
	})
}

// writeRepeatedly writes an entry by compareAndSet, and repeats that while the cluster elects a leader. A try that
// failed may still be carried out later. The next one is for the same revision, so only one of the two succeeds.
//
// A conflict with an earlier try of this write is a success. After a late renewal of this claim, the write is repeated
// on the renewal's revision. After any other conflict the error is ErrTaken.
//
// The Until of an unresolved entry is also written by the engine's clock, because the workers' clocks may differ.
func (c *claim) writeRepeatedly(ctx context.Context, entry ingest.Entry) error {
	entry.Key = c.key
	var tries []string // their write IDs
	untilByEngine, err := c.untilByEngine(ctx, entry)
	if err != nil {
		return err
	}
	for begun := time.Now(); ; {
		r := record{Owner: c.owner, WriteID: rand.Text(), UntilByEngine: untilByEngine, Entry: entry}
		tries = append(tries, r.WriteID)
		err := c.compareAndSet(ctx, r)
		if err == nil {
			return nil
		}
		if !isConflict(err) {
			if !mayRepeat(ctx, begun, c.journal.store.patience) {
				return unreachable(err)
			}
			continue
		}
		found, revision, err := c.journal.read(ctx, c.key)
		if err != nil {
			return err
		}
		isThisWrite := slices.Contains(tries, found.WriteID)
		isThisClaim := found.Owner == c.owner && !c.hasNote // a recording with a note has no owner to compare
		if !isThisWrite && !isThisClaim {
			return ingest.ErrTaken
		}
		c.record, c.revision = found, revision
		if isThisWrite {
			return nil
		}
	}
}

// untilByEngine returns the entry's Until by the engine's clock, or zero if the entry is not unresolved or has no
// Until. If the record has the same Until, its UntilByEngine stays. Otherwise the result is as far from the engine's
// time as Until is from this machine's.
func (c *claim) untilByEngine(ctx context.Context, entry ingest.Entry) (time.Time, error) {
	switch {
	case entry.State != ingest.StateInDoubt || entry.Until.IsZero():
		return time.Time{}, nil
	case entry.Until.Equal(c.record.Entry.Until) && !c.record.UntilByEngine.IsZero():
		return c.record.UntilByEngine, nil
	}
	now, err := c.journal.engineTime(ctx, c.journal.records(c.key))
	return now.Add(time.Until(entry.Until)), err
}

// Entry implements [ingest.Claim].
func (c *claim) Entry() ingest.Entry {
	_ = c.turn.take(context.Background()) // it fails only if the context ends
	defer c.turn.leave()
	entry := c.record.Entry
	if entry.State == ingest.StateInDoubt {
		entry.Until = entry.Until.Add(c.untilShift)
	}
	return entry
}

// Save implements [ingest.Claim]. Before a commit it verifies the store.
func (c *claim) Save(ctx context.Context, entry ingest.Entry) error {
	if err := c.turn.take(ctx); err != nil {
		return err
	}
	defer c.turn.leave()
	begun := time.Now()
	if entry.State == ingest.StateCommitting {
		if err := c.journal.store.check(ctx); err != nil {
			return err
		}
	}
	if c.needsMark(entry) {
		if err := c.markPatient(ctx, entry.Patient); err != nil {
			return err
		}
	}
	switch {
	case c.hasNote:
		return c.saveKnown(ctx, entry)
	case entry.State == ingest.StateCreated:
		return c.saveCreated(ctx, entry)
	case c.isLost || c.owner == "":
		return errTaken
	}
	return c.saveOwn(ctx, entry, begun)
}

// saveOwn writes the entry of a recording that has no note and that this worker has. It returns an error matching
// ErrTaken if a commit takes longer than half a lease: another worker may have the recording soon.
func (c *claim) saveOwn(ctx context.Context, entry ingest.Entry, begun time.Time) error {
	decidedBy := c.record.Entry.By
	err := c.writeOwn(ctx, c.withUntil(entry))
	if err != nil || entry.State != ingest.StateCommitting {
		return err
	}
	if err := c.yieldToRival(ctx, entry, decidedBy); err != nil {
		return err
	}
	if time.Since(begun) > c.journal.lease/2 {
		return fail("the journal did not confirm in time that this worker still has the recording", ingest.ErrTaken)
	}
	return nil
}

// writeOwn writes an entry while the claim is this worker's.
func (c *claim) writeOwn(ctx context.Context, entry ingest.Entry) error {
	err := c.writeRepeatedly(ctx, entry)
	if errors.Is(err, ingest.ErrTaken) {
		c.isLost = true
		return errTaken
	}
	return err
}

// yieldToRival takes back a commit and returns errRival if another recording of the patient with the same content is
// committing or unresolved. If both outcomes became unknown, nobody could tell which note is whose. Without such a
// recording it returns nil. A worker commits first and then reads the others' entries, so of two workers that commit at
// the same time at least one sees the other's.
//
// The commit has removed the person who decided about the recording before. That is decidedBy, and the entry that is
// taken back names the person again.
func (c *claim) yieldToRival(ctx context.Context, entry ingest.Entry, decidedBy string) error {
	var anyTime time.Time
	entries, err := c.journal.EntriesForPatient(ctx, entry.Patient, anyTime)
	isDamaged := errors.Is(err, ingest.ErrJournalDamaged) // a damaged record holds up only its own recording
	if err != nil && !isDamaged {
		return err
	}
	isRival := func(other ingest.Entry) bool {
		isOpen := other.State == ingest.StateCommitting || other.State == ingest.StateInDoubt
		return isOpen && other.Key != c.key && other.SHA256 != "" && other.SHA256 == entry.SHA256
	}
	if !slices.ContainsFunc(entries, isRival) {
		return nil
	}
	entry.State = ingest.StateRefused
	entry.Why = "another recording with the same content was being sent"
	entry.Loss = nil
	entry.By = decidedBy
	if err := c.writeOwn(ctx, entry); err != nil {
		return err
	}
	return errRival
}

var errRival = fail("the recording waits for another one with the same content for the patient", ingest.ErrTaken)

// needsMark reports whether no mark leads from the entry's patient to the recording yet.
func (c *claim) needsMark(entry ingest.Entry) bool {
	if !mayHaveNote(entry.State) {
		return false
	}
	known := c.record.Entry
	return !mayHaveNote(known.State) || known.Patient != entry.Patient
}

// withUntil returns the entry with the Until of the record, if the caller did not change what Entry returned. Entry
// adds the difference of the clocks, which must not be written.
func (c *claim) withUntil(entry ingest.Entry) ingest.Entry {
	unchanged := entry.Until.Equal(c.record.Entry.Until.Add(c.untilShift))
	if entry.State == ingest.StateInDoubt && unchanged {
		entry.Until = c.record.Entry.Until
		return entry
	}
	c.untilShift = 0
	return entry
}

// markPatient writes the mark that leads from the patient to the recording. A mark that exists already, or leads to a
// recording that was never committed, does no harm.
func (c *claim) markPatient(ctx context.Context, patient uint32) error {
	j := c.journal
	err := patiently(ctx, j.lease/2, func(ctx context.Context) error {
		_, err := j.patients(patient).Put(ctx, patientKey(patient, c.key.String()), nil)
		return err
	})
	if err != nil {
		return unreachable(err)
	}
	return nil
}

// saveCreated writes the entry of a note that the service created, whoever has the claim by now. If the recording has a
// note already, that note stays.
func (c *claim) saveCreated(ctx context.Context, entry ingest.Entry) error {
	entry.Key = c.key
	for begun := time.Now(); ; {
		err := c.compareAndSet(ctx, record{WriteID: rand.Text(), Entry: entry})
		if err == nil {
			return nil
		}
		if !isConflict(err) {
			if !mayRepeat(ctx, begun, c.journal.store.patience) {
				return unreachable(err)
			}
			continue
		}
		found, revision, err := c.journal.read(ctx, c.key)
		if err != nil {
			return err
		}
		c.record, c.revision = found, revision
		if found.Owner != c.owner { // if this entry is not written in the end, the recording is the other worker's
			c.isLost = true
		}
		if found.Entry.State == ingest.StateCreated {
			return nil
		}
	}
}

// saveKnown replaces the entry of a recording that has a note: by another stage of the note, or by a manual decision.
// No worker has such a recording. If another worker changed the entry since it was read, saveKnown writes nothing and
// returns errTaken.
func (c *claim) saveKnown(ctx context.Context, entry ingest.Entry) error {
	if !mayReplace(c.record.Entry, entry) {
		return errTaken
	}
	err := c.writeRepeatedly(ctx, entry)
	if errors.Is(err, ingest.ErrTaken) {
		return errTaken
	}
	return err
}

// mayReplace reports whether an entry may take the place of one that has a note. It must not lose the note.
func mayReplace(known, entry ingest.Entry) bool {
	if entry.State == known.State && entry.NoteID == known.NoteID {
		return true
	}
	isKnown := func(note ingest.NoteRef) bool { return note.ID == known.NoteID }
	decided := entry.State == ingest.StateCreated || entry.State == ingest.StateRefused
	return decided && slices.ContainsFunc(entry.Replaced, isKnown)
}

// startRenewals starts a goroutine that renews the lease: once after untilFirst, then as often as the journal's
// renewEach. The lease of a new key is written by its first renewal. Only Release ends the renewals, not the context.
func (c *claim) startRenewals(ctx context.Context, untilFirst time.Duration) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.stopRenewals = cancel
	c.renewalsEnded = make(chan struct{})
	go func() {
		defer close(c.renewalsEnded)
		tick := time.NewTicker(untilFirst)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				tick.Reset(c.journal.renewEach)
				c.renew(ctx)
			}
		}
	}()
}

// renew writes the record once more, to show that this worker lives. It notices if another worker took the claim.
func (c *claim) renew(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.journal.lease/3)
	defer cancel()
	if c.turn.take(ctx) != nil {
		return // a save has the turn, and its write renews the lease; or the claim is being released
	}
	defer c.turn.leave()
	if c.isLost || c.record.Entry.State == ingest.StateCreated {
		return
	}
	c.isLost = errors.Is(c.writeRepeatedly(ctx, c.record.Entry), ingest.ErrTaken)
}

// Release implements [ingest.Claim].
func (c *claim) Release() {
	if c.stopRenewals == nil {
		return
	}
	c.stopRenewals()
	<-c.renewalsEnded
	c.stopRenewals = nil
	ctx, cancel := context.WithTimeout(context.Background(), c.journal.lease/3)
	defer cancel()
	if c.turn.take(ctx) != nil {
		return
	}
	defer c.turn.leave()
	wasLost := c.isLost
	c.isLost = true // what is saved from now on would be another's
	if wasLost || c.record.Entry.State == ingest.StateCreated {
		return
	}
	c.removeOwner(ctx)
}

// removeOwner writes the record without its owner, so that nobody has to wait for the lease to run out. The last write
// of this claim may have been carried out without a response, so a newer record may be its own too.
func (c *claim) removeOwner(ctx context.Context) {
	if c.revision == 0 && !c.readOwn(ctx) {
		return
	}
	for begun := time.Now(); ; {
		r := record{WriteID: rand.Text(), UntilByEngine: c.record.UntilByEngine, Entry: c.record.Entry}
		err := c.compareAndSet(ctx, r)
		switch {
		case err == nil:
			return
		case isConflict(err):
			if !c.readOwn(ctx) {
				return
			}
		case !mayRepeat(ctx, begun, c.journal.store.patience):
			return
		}
	}
}

// readOwn reads the record again, and reports whether this claim wrote it.
func (c *claim) readOwn(ctx context.Context) bool {
	found, revision, err := c.journal.read(ctx, c.key)
	if err != nil || found.Owner != c.owner {
		return false
	}
	c.record, c.revision = found, revision
	return true
}
