package jetstream

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// claim is a lease on one key. Renewals and saves take turns: a renewal of its own would otherwise beat its commit.
type claim struct {
	journal *Journal
	key     ingest.Key
	owner   string // empty: the recording has its note, and there is nothing to hold

	mu       sync.Mutex
	record   record
	revision uint64
	lost     bool

	stop context.CancelFunc // of the renewals; nil: there are none
	done chan struct{}
}

// swap is the one write of this package: a compare-and-set on the revision that was seen.
func (c *claim) swap(ctx context.Context, entry ingest.Entry, seen uint64) error {
	r := record{Owner: c.owner, Beat: rand.Text(), Entry: entry}
	r.Entry.Key = c.key
	if entry.State == ingest.StateCreated {
		r.Owner = ""
	}
	value, err := json.Marshal(r)
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var revision uint64
	if seen == 0 {
		revision, err = c.journal.kv.Create(within, recordKey(c.key), value)
	} else {
		revision, err = c.journal.kv.Update(within, recordKey(c.key), value, seen)
	}
	if err != nil && !isConflict(err) {
		return c.settle(ctx, r, seen, err)
	}
	if err == nil {
		c.record, c.revision = r, revision
	}
	return err
}

// settle finds out what became of a write whose outcome is unknown: an error does not mean that it was not, or will not be,
// applied. Only its own beat in the bucket says that it was.
func (c *claim) settle(ctx context.Context, r record, seen uint64, failure error) error {
	now, revision, err := c.journal.read(ctx, c.key)
	if err != nil || revision == seen {
		return failure // it may still be applied
	}
	if now.Beat == r.Beat {
		c.record, c.revision = now, revision
		return nil
	}
	return ingest.ErrTaken
}

// write swaps the entry. A conflict with a write of its own, whose outcome had been unknown, is none.
func (c *claim) write(ctx context.Context, entry ingest.Entry) error {
	err := c.swap(ctx, entry, c.revision)
	if err == nil || !isConflict(err) {
		return err
	}
	now, revision, readErr := c.journal.read(ctx, c.key)
	if readErr != nil {
		return readErr
	}
	if now.Owner != c.owner {
		return ingest.ErrTaken
	}
	if err := c.swap(ctx, entry, revision); !isConflict(err) {
		return err
	}
	return ingest.ErrTaken
}

// Entry implements [ingest.Claim].
func (c *claim) Entry() ingest.Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.record.Entry
}

// Save implements [ingest.Claim].
func (c *claim) Save(ctx context.Context, entry ingest.Entry) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if entry.State == ingest.StateCreated {
		return c.saveCreated(ctx, entry)
	}
	if c.lost || c.owner == "" {
		return fail("another worker has the recording", ingest.ErrTaken)
	}
	begun := time.Now()
	if entry.State == ingest.StateCommitting {
		// Where kin are looked for, before there can be a note.
		within, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		if _, err := c.journal.kv.Put(within, patientKey(entry.Patient, c.key), nil); err != nil {
			return unreachable(err)
		}
		begun = time.Now()
	}
	err := c.write(ctx, entry)
	switch {
	case errors.Is(err, ingest.ErrTaken):
		c.lost = true
		return fail("another worker has the recording", ingest.ErrTaken)
	case err != nil:
		return unreachable(err)
	case entry.State == ingest.StateCommitting && time.Since(begun) > c.journal.lease/2:
		return fail("the journal took too long to say that the recording is still this worker's", ingest.ErrTaken)
	}
	return nil
}

// saveCreated writes what the service said, whoever has the claim by now. A note that is there stays.
func (c *claim) saveCreated(ctx context.Context, entry ingest.Entry) error {
	for {
		err := c.swap(ctx, entry, c.revision)
		switch {
		case err == nil:
			return nil
		case !isConflict(err) && !errors.Is(err, ingest.ErrTaken):
			return unreachable(err)
		}
		now, revision, err := c.journal.read(ctx, c.key)
		if err != nil {
			return err
		}
		if now.Entry.State == ingest.StateCreated {
			return nil
		}
		c.revision = revision
	}
}

// keep renews the lease until the claim is released.
func (c *claim) keep() {
	ctx, cancel := context.WithCancel(context.Background())
	c.stop, c.done = cancel, make(chan struct{})
	go func() {
		defer close(c.done)
		tick := time.NewTicker(c.journal.lease / 3)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				c.renew(ctx)
			}
		}
	}()
}

func (c *claim) renew(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost || c.record.Entry.State == ingest.StateCreated {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.journal.lease/3)
	defer cancel()
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
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost || c.record.Entry.State == ingest.StateCreated {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.journal.lease/3)
	defer cancel()
	c.owner = "" // so that nobody has to wait for the lease to run out
	_ = c.swap(ctx, c.record.Entry, c.revision)
}
