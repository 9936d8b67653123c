package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// operation is something that callers do.
type operation struct {
	name   string
	weight int // how often it comes up, of a hundred times
	run    func(*caller, context.Context, draw) error
}

var operations = []operation{
	{"create", 24, (*caller).create},
	{"update", 22, (*caller).update},
	{"get", 10, (*caller).get},
	{"wait", 6, (*caller).wait},
	{"download", 12, (*caller).download},
	{"list", 10, (*caller).list},
	{"sign", 8, (*caller).sign},
	{"delete", 8, (*caller).remove},
}

func named(name string) operation {
	return operations[slices.IndexFunc(operations, func(o operation) bool { return o.name == name })]
}

// draw is what chance says of one operation. It is drawn whole, so that the sequence does not depend on outcomes.
type draw struct {
	operation, note, form int
	size                  int
	hasty                 bool // gives up soon
	patience              time.Duration
}

// caller is one goroutine with a patient of its own, whose notes only clinicians change besides.
type caller struct {
	client    *clinicaldoc.Client
	patientID int64
	rng       *rand.Rand
	dir       string        // for recordings
	mayHurry  bool          // gives up on some calls
	maxNotes  int           // keeps a long run from measuring the box's list only
	maxSize   int           // of a recording
	sized     bool          // only recordings of known size: after the others the SDK closes the connection
	onLost    func(*record) // nil: nobody wants to know
	tidy      bool          // keeps no record of deleted notes, so that its own memory stays flat
	sameName  bool          // calls all its notes alike
	unruly    bool          // brings a transport that retries by itself
	ward      *ward         // nil: no clinicians

	serial    int
	records   []*record // every note it tried to create
	live      []*record // those it knows to be there
	forgotten int       // notes without a record
	editing   int       // edits begun
	edits     map[string]*call
	told      int // lists that ended with the word that they may not be whole
	conflicts int
	found     findings
	calls     map[string]int
	failed    map[string]int
}

func newCaller(client *clinicaldoc.Client, patientID int64, seed uint64, dir string) *caller {
	return &caller{
		client: client, patientID: patientID, dir: dir, maxNotes: 30, maxSize: 2 << 20,
		rng:   rand.New(rand.NewPCG(seed, uint64(patientID))),
		calls: map[string]int{}, failed: map[string]int{}, edits: map[string]*call{},
	}
}

func (c *caller) draw() draw {
	d := draw{note: c.rng.IntN(1 << 20), form: c.rng.IntN(1 << 20), size: 1<<10 + c.rng.IntN(32<<10)}
	switch kind := c.rng.IntN(100); {
	case kind < 10:
		d.size *= 4
	case kind < 12:
		d.size += 1 << 20 // announced to the service before it is sent
	}
	at := c.rng.IntN(100)
	for at >= operations[d.operation].weight {
		at -= operations[d.operation].weight
		d.operation++
	}
	d.hasty = c.rng.IntN(10) == 0
	d.patience = time.Duration(10+c.rng.IntN(300)) * time.Millisecond
	return d
}

// step makes one call. With creating false it works on the notes there are.
func (c *caller) step(ctx context.Context, creating bool) {
	d := c.draw()
	c.live = slices.DeleteFunc(c.live, func(r *record) bool { return c.ward.removed(r.id) })
	op := operations[d.operation]
	switch {
	case op.name == "create" && !creating:
		op = named("update")
	case op.name == "create" && len(c.live) >= c.maxNotes:
		op = named("delete")
	}
	switch needsNote := op.name != "create" && op.name != "list"; {
	case needsNote && len(c.live) == 0 && creating:
		op = named("create")
	case needsNote && len(c.live) == 0:
		op = named("list")
	}
	patience := time.Minute
	switch {
	case c.mayHurry && d.hasty:
		patience = d.patience
	case c.mayHurry:
		patience = 5 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c.calls[op.name]++
	if err := op.run(c, ctx, d); err != nil {
		c.failed[op.name]++
	}
}

// judge finds errors that neither a fault of the network nor a clinician excuses.
func (c *caller) judge(operation string, id int64, err error) error {
	var answered *clinicaldoc.Error
	var conflict *clinicaldoc.ConflictError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &conflict) && conflict.Current != nil && conflict.Current.ID == id && c.ward != nil: // or an update of its own came late
		c.conflicts++
		return err
	case errors.Is(err, clinicaldoc.ErrNotFound) && (c.ward.removing(id) || operation == "delete" && c.unruly):
		return err
	case errors.As(err, &answered) && answered.StatusCode == http.StatusGatewayTimeout && c.ward != nil:
		return err
	}
	if errors.As(err, &answered) || errors.Is(err, clinicaldoc.ErrInvalidArgument) || errors.Is(err, clinicaldoc.ErrPatientMismatch) ||
		errors.Is(err, clinicaldoc.ErrUnexpectedResponse) || errors.Is(err, clinicaldoc.ErrNoteIncomplete) {
		c.found.untrue("patient %d: %s: %v", c.patientID, operation, err)
	}
	return err
}

func (c *caller) pick(d draw) *record { return c.live[d.note%len(c.live)] }

func (c *caller) forget(r *record) {
	same := func(other *record) bool { return other == r }
	c.live = slices.DeleteFunc(c.live, same)
	if c.tidy && r.deleted == done {
		c.records = slices.DeleteFunc(c.records, same)
		c.forgotten++
	}
}

// compare checks a note that was received against what the caller knows of it.
func (c *caller) compare(r *record, note *clinicaldoc.ProgressNote) {
	id, told := note.Patient.ID()
	if note.ID != r.id || note.Name != r.title || !told || id != c.patientID || note.Audio == nil || note.Audio.Size != r.size {
		c.found.untrue("%s: received another note", r.name)
	}
	if latest := r.latest(); latest >= 0 && r.settled() && !c.ward.edited(r.id) && note.Analysis != r.texts[latest].value {
		c.found.loss("%s: received without its last successful update", r.name)
	}
	if r.signed == done && !note.Has.Signed {
		c.found.loss("%s: received unsigned after it was signed", r.name)
	}
}
