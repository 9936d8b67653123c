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

// claim is a lease on one key. Renewals and saves take turns: a renewal of its own would otherwise beat its commit.
type claim struct {
	journal *Journal
	key     ingest.Key
	owner   string // empty: the recording has its note, and there is nothing to hold
	hasNote bool   // it had when it was claimed

	turn     turn
	record   record
	revision uint64
	lost     bool
	ahead    time.Duration // by which Until is later here than in the record; see untilAhead

	stop context.CancelFunc // of the renewals; nil: there are none
	done chan struct{}
}

// swap is the one write of this package: a compare-and-set on the revision that was seen last.
func (c *claim) swap(ctx context.Context, r record) error {
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

// write swaps the entry, and repeats that while the cluster elects a leader. A swap that failed may still be carried
// out. The next one is for the same revision, so only one of the two succeeds. A conflict with an earlier swap of this
// write is a success. After a late renewal of this claim, the swap is repeated on the renewal's revision. Any other
// conflict is ErrTaken.
func (c *claim) write(ctx context.Context, entry ingest.Entry) error {
	entry.Key = c.key
	var beats []string // of the swaps
	due, err := c.due(ctx, entry)
	if err != nil {
		return err
	}
	for begun := time.Now(); ; {
		r := record{Owner: c.owner, Beat: rand.Text(), Due: due, Entry: entry}
		beats = append(beats, r.Beat)
		err := c.swap(ctx, r)
		if err == nil {
			return nil
		}
		if !isConflict(err) {
			if !mayRepeat(ctx, begun, c.journal.patience) {
				return unreachable(err)
			}
			continue
		}
		found, revision, err := c.journal.read(ctx, c.key)
		if err != nil {
			return err
		}
		isThisWrite := slices.Contains(beats, found.Beat)
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

// due returns the entry's Until by the engine's clock: as the record has it if Until is unchanged, else as far from now
// as it is by this machine's clock. It is zero if the recording is not unresolved.
func (c *claim) due(ctx context.Context, entry ingest.Entry) (time.Time, error) {
	switch {
	case entry.State != ingest.StateInDoubt || entry.Until.IsZero():
		return time.Time{}, nil
	case entry.Until.Equal(c.record.Entry.Until) && !c.record.Due.IsZero():
		return c.record.Due, nil
	}
	now, err := c.journal.engineTime(ctx, c.journal.records(c.key))
	return now.Add(time.Until(entry.Until)), err
}

// Entry implements [ingest.Claim].
func (c *claim) Entry() ingest.Entry {
	if c.turn.take(context.Background()) == nil {
		defer c.turn.leave()
	}
	entry := c.record.Entry
	if entry.State == ingest.StateInDoubt {
		entry.Until = entry.Until.Add(c.ahead)
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
		if err := c.mark(ctx, entry.Patient); err != nil {
			return err
		}
	}
	switch {
	case c.hasNote:
		return c.saveKnown(ctx, entry)
	case entry.State == ingest.StateCreated:
		return c.saveCreated(ctx, entry)
	case c.lost || c.owner == "":
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
	if err := c.yield(ctx, entry, decidedBy); err != nil {
		return err
	}
	if time.Since(begun) > c.journal.lease/2 {
		return fail("the journal did not confirm in time that this worker still has the recording", ingest.ErrTaken)
	}
	return nil
}

// writeOwn writes an entry while the claim is this worker's.
func (c *claim) writeOwn(ctx context.Context, entry ingest.Entry) error {
	err := c.write(ctx, entry)
	if errors.Is(err, ingest.ErrTaken) {
		c.lost = true
		return errTaken
	}
	return err
}

// yield takes back a commit if another recording of the patient with the same content is committing or unresolved.
// It returns errRival then. If both outcomes became unknown, nobody could tell which note is whose. Each worker commits
// first and reads the others' entries then, so of two that commit at the same time at least one sees the other. By is
// who decided about the recording before the commit.
func (c *claim) yield(ctx context.Context, entry ingest.Entry, by string) error {
	entries, err := c.journal.EntriesForPatient(ctx, entry.Patient, time.Time{})
	if errors.Is(err, ingest.ErrJournalDamaged) { // a damaged record holds up its own recording alone
		return nil
	}
	if err != nil {
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
	entry.By = by
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
	unchanged := entry.Until.Equal(c.record.Entry.Until.Add(c.ahead))
	if entry.State == ingest.StateInDoubt && unchanged {
		entry.Until = c.record.Entry.Until
		return entry
	}
	c.ahead = 0
	return entry
}

// mark writes the mark that leads from the patient to the recording. A mark that exists already, or leads to a
// recording that was never committed, does no harm.
func (c *claim) mark(ctx context.Context, patient uint32) error {
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
		err := c.swap(ctx, record{Beat: rand.Text(), Entry: entry})
		if err == nil {
			return nil
		}
		if !isConflict(err) {
			if !mayRepeat(ctx, begun, c.journal.patience) {
				return unreachable(err)
			}
			continue
		}
		found, revision, err := c.journal.read(ctx, c.key)
		if err != nil {
			return err
		}
		c.record, c.revision = found, revision
		if found.Owner != c.owner { // if the entry is not written in the end, the recording is the other worker's
			c.lost = true
		}
		if found.Entry.State == ingest.StateCreated {
			return nil
		}
	}
}

// saveKnown replaces the entry of a recording that has a note: by another stage of the note, or by a manual decision.
// Nobody holds such a recording. If another changed it since it was read, nothing is written, and the caller has to
// read it again.
func (c *claim) saveKnown(ctx context.Context, entry ingest.Entry) error {
	if !mayReplace(c.record.Entry, entry) {
		return errTaken
	}
	err := c.write(ctx, entry)
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

// keep starts a goroutine that writes the lease after the first duration, and renews it every third of a lease until
// the claim is released. It does so also after the context ended.
func (c *claim) keep(ctx context.Context, first time.Duration) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = cancel
	c.done = make(chan struct{})
	go func() {
		defer close(c.done)
		tick := time.NewTicker(first)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				tick.Reset(c.journal.lease / 3)
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
		return // a save does as well
	}
	defer c.turn.leave()
	if c.lost || c.record.Entry.State == ingest.StateCreated {
		return
	}
	c.lost = errors.Is(c.write(ctx, c.record.Entry), ingest.ErrTaken)
}

// Release implements [ingest.Claim].
func (c *claim) Release() {
	if c.stop == nil {
		return
	}
	c.stop()
	<-c.done
	c.stop = nil
	ctx, cancel := context.WithTimeout(context.Background(), c.journal.lease/3)
	defer cancel()
	if c.turn.take(ctx) != nil {
		return
	}
	defer c.turn.leave()
	lost := c.lost
	c.lost = true // what is saved from now on would be another's
	if lost || c.revision == 0 || c.record.Entry.State == ingest.StateCreated {
		return
	}
	// Without an owner nobody has to wait for the lease to run out.
	_ = c.swap(ctx, record{Beat: rand.Text(), Due: c.record.Due, Entry: c.record.Entry})
}
