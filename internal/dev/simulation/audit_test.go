package simulation

import (
	"context"
	"errors"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// audited is a record in the trail.
type audited struct {
	note      int64
	recording bool
}

// audit is the audit function of every program: it writes down what its call disclosed, read or changed.
func audit(ctx context.Context, access clinicaldoc.Access) error {
	c, asked := ctx.Value(callKey{}).(*call)
	if !asked {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trail = append(c.trail, access)
	return nil
}

// gets takes in that the program got the note, which must be in the trail by then.
func (c *call) gets(note *clinicaldoc.ProgressNote) {
	if note != nil {
		c.getsRecord(audited{note: note.ID})
	}
}

func (c *call) getsRecording(id int64) { c.getsRecord(audited{id, true}) }

func (c *call) getsRecord(record audited) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got[record] = true
	for _, access := range c.trail {
		if access.Outcome == clinicaldoc.AccessDisclosed && (audited{access.NoteID, access.Recording}) == record {
			return
		}
	}
	c.program.world.violate("not audited", "%s gives out note %d (recording %t), which the trail does not have", c.op, record.note, record.recording)
}

// checkTrail compares the trail of a call that is over with what the program got, and with what the service did.
func (c *call) checkTrail(err error) {
	if conflict, ok := errors.AsType[*clinicaldoc.ConflictError](err); ok {
		c.gets(conflict.Current)
	}
	if ended, ok := errors.AsType[*clinicaldoc.WaitError](err); ok {
		c.gets(ended.Note)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.program.world
	changed := false
	for _, access := range c.trail {
		w.count("accesses", 1)
		disclosed := access.Outcome == clinicaldoc.AccessDisclosed
		if disclosed && !c.got[audited{access.NoteID, access.Recording}] {
			w.violate("not disclosed", "%s tells that note %d was disclosed, which nobody got", c.op, access.NoteID)
		}
		changed = changed || access.Changed
		certain := access.Changed && !access.OutcomeUnknown
		if certain && err != nil && !errors.Is(err, clinicaldoc.ErrConflict) {
			w.violate("not changed", "%s tells of a change, and ends with %v", c.op, err)
		}
	}
	isNotes := c.op == "create" || c.note != 0
	if len(c.acts) > 0 && !changed && isNotes {
		w.violate("not audited", "%s has changed note %d, which the trail does not tell", c.op, c.note)
	}
}
