package disktest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/clinicaldoc/clinicaldoc-go/internal/disk/durable"
)

// ErrCut is what a process hears of the disk after a power cut: nothing that it does from then on is done.
var ErrCut = errors.New("the power is cut")

// Machine is what a process runs on until the power is cut.
type Machine struct {
	durable.FS
	Alive func() bool // what is said when it is not is never heard
}

// Cuts runs a process on a copy of the disk once for each operation that changes something, and cuts the power before
// that and all that would follow. Each disk that can be left, and what the process returned, goes to after, with the
// place of the cut in words. The last of them is the disk after all operations. It returns how many disks there were.
func Cuts[T any](before *Disk, run func(Machine) T, after func(d *Disk, said T, place string)) (count int) {
	for last := 0; ; last++ {
		d := before.Clone()
		var done []string
		cut := false
		said := run(Machine{Alive: func() bool { return !cut }, FS: d.Mount(func(op string) error {
			if cut = cut || changes(op) && len(done) == last; cut {
				return ErrCut
			}
			if changes(op) {
				done = append(done, op)
			}
			return nil
		})})
		for choices := new(Choices); ; {
			left := d.Clone()
			left.PowerCut(choices.Choose)
			latest := done[max(len(done)-4, 0):]
			const form = "cut after %d operations, the last of them %v, left %v"
			what := fmt.Sprintf(form, len(done), latest, choices.path)
			after(left, said, what)
			count++
			if !choices.Next() {
				break
			}
		}
		if !cut {
			return count
		}
	}
}

func changes(op string) bool { return !slices.Contains([]string{Open, Read, IsAt, Lock}, op) }

// Choices goes through all paths of choices, without knowing beforehand which will be asked for: only those are walked
// that there really are.
type Choices struct {
	path, widths []int
	at           int
}

// Choose returns a number below n: the one of the path, or 0 where the path has ended.
func (c *Choices) Choose(n int) int {
	if c.at == len(c.path) {
		c.path, c.widths = append(c.path, 0), append(c.widths, n)
	}
	c.widths[c.at] = n
	c.at++
	return c.path[c.at-1]
}

// Next advances to the next path, like an odometer, and reports false if there is none. Choices that the last path
// did not make are dropped.
func (c *Choices) Next() bool {
	c.path, c.widths = c.path[:c.at], c.widths[:c.at]
	c.at = 0
	for i := len(c.path) - 1; i >= 0; i-- {
		if c.path[i]+1 < c.widths[i] {
			c.path[i]++
			c.path, c.widths = c.path[:i+1], c.widths[:i+1]
			return true
		}
	}
	return false
}

// Path is that of the choices so far.
func (c *Choices) Path() []int { return slices.Clone(c.path[:c.at]) }
