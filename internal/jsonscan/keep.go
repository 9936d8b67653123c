package jsonscan

import "sync"

// scratch is memory that a decoder borrows when it first needs some.
type scratch struct {
	block []byte // the texts that wait for Flush, and behind them the last one that differs from its literal
	kept  []kept // where they belong
}

type kept struct {
	to  *string
	end int // in block; it starts where the one before ends
}

// scratches keeps them from one document to the next; huge ones are not kept.
var scratches = sync.Pool{New: func() any { return &scratch{kept: make([]kept, 0, maxKept)} }}

const (
	maxKeptScratch = 1 << 20
	maxKept        = 16 // texts of a block; notes have fewer, and a document that repeats its keys has no end of them
)

func (d *Decoder) borrow() *scratch {
	if d.scratch == nil {
		d.scratch, _ = scratches.Get().(*scratch)
	}
	return d.scratch
}

// Intern makes *to hold what add appends, once Flush was called. What is kept between two calls of Flush shares one allocation:
// the texts of a record cost one, and live as long as any of them.
func (d *Decoder) Intern(to *string, add func([]byte) []byte) {
	s := d.borrow()
	if len(s.kept) == maxKept {
		d.Flush()
	}
	s.block = add(s.block)
	s.kept = append(s.kept, kept{to, len(s.block)})
}

// AppendText consumes the next value, which must be a string, and appends it.
func (d *Decoder) AppendText(b []byte) []byte {
	if !d.expect(String) {
		return b
	}
	return d.scanRuns(b, true)
}

// Flush stores what Intern was given. A text that was kept twice is the later one. End does it too.
func (d *Decoder) Flush() {
	if d.scratch == nil || len(d.scratch.kept) == 0 {
		return
	}
	s := d.scratch
	block, start := string(s.block), 0
	for _, k := range s.kept {
		*k.to, start = block[start:k.end], k.end
	}
	clear(s.kept) // or the pool would hold on to records
	s.kept, s.block = s.kept[:0], s.block[:0]
}
