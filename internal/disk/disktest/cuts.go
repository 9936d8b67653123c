package disktest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/clinicaldoc/clinicaldoc-go/internal/disk/durable"
)

// ErrCut is returned by each operation after a power cut. The operation is not done.
var ErrCut = errors.New("the power is cut")

// Machine is what a process runs on until the power is cut.
type Machine struct {
	durable.FS
	Alive func() bool // reports whether the power is on; what the process returns later never arrives
}

// Cuts runs a process on a copy of the disk once for each operation that changes something, and cuts the power before
// that operation. It calls after for each disk that the cut can leave, with what the process returned and a
// description of the cut. In the last run, the power is cut after all operations. It returns how many disks there
// were.
func Cuts[T any](before *Disk, run func(Machine) T, after func(d *Disk, said T, place string)) (count int) {
	for allowed := 0; ; allowed++ {
		d := before.Clone()
		p := &cutProcess{allowed: allowed}
		said := run(Machine{Alive: func() bool { return !p.isCut }, FS: d.Mount(p.operate)})
		for choices := new(Choices); ; {
			left := d.Clone()
			left.PowerCut(choices.Choose)
			latest := p.done[max(len(p.done)-4, 0):]
			const form = "cut after %d operations, the last of them %v, left %v"
			after(left, said, fmt.Sprintf(form, len(p.done), latest, choices.path))
			count++
			if !choices.Next() {
				break
			}
		}
		if !p.isCut {
			return count
		}
	}
}

// cutProcess is a process whose power is cut after some operations that change something.
type cutProcess struct {
	allowed int      // so many operations
	done    []string // those that changed something
	isCut   bool
}

// operate is the [Process].
func (p *cutProcess) operate(op string) error {
	if p.isCut {
		return ErrCut
	}
	if !changes(op) {
		return nil
	}
	if len(p.done) == p.allowed {
		p.isCut = true
		return ErrCut
	}
	p.done = append(p.done, op)
	return nil
}

// changes reports whether an operation changes the disk.
func changes(op string) bool { return !slices.Contains([]string{Open, Read, IsAt, Lock}, op) }

// Choices walks through all sequences of choices. It learns which choices there are, and between how many, as they are
// made.
type Choices struct {
	path   []int // what was chosen
	widths []int // between how many
	at     int   // the next choice
}

// Choose returns the next choice, a number below n. While a path is repeated, it is the path's next number. After the
// end of the path it is 0, which Choose adds to the path.
func (c *Choices) Choose(n int) int {
	if c.at == len(c.path) {
		c.path = append(c.path, 0)
		c.widths = append(c.widths, 0)
	}
	c.widths[c.at] = n // also while a path is repeated: n may be another one than before
	c.at++
	return c.path[c.at-1]
}

// Next advances to the next path, like an odometer, and reports false if there is none. Choices that the last path
// did not make are dropped.
func (c *Choices) Next() bool {
	c.shorten(c.at)
	c.at = 0
	for i := len(c.path) - 1; i >= 0; i-- {
		if c.path[i]+1 < c.widths[i] {
			c.path[i]++
			c.shorten(i + 1)
			return true
		}
	}
	return false
}

// shorten keeps only the first n choices.
func (c *Choices) shorten(n int) {
	c.path = c.path[:n]
	c.widths = c.widths[:n]
}

// Path returns the choices so far.
func (c *Choices) Path() []int { return slices.Clone(c.path[:c.at]) }
