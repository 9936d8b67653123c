package list

import (
	"slices"
)

const (
	// maxBarren is how many pages in a row may bring no new row: a few can, when rows are inserted.
	maxBarren = 3
	maxWalks  = 5
)

// Trail remembers what a walk saw.
type Trail struct {
	start  int  // number of the first page to read; 0: it stands at a cursor
	verify bool // walk again until a walk brings nothing new

	shown   *IDSet // rows of all walks
	walks   int
	told    int // the total with which this walk began
	brought bool

	seen   *IDSet // rows of this walk; in the first the same as shown
	latest Page   // the page used last
	barren int    // pages in a row without a new row
	edge   edge
}

// edge is where a page began whose rows were left. Once the page before it was read again, and the list had not grown
// meanwhile, nothing unseen lies before the edge, even if the list shrinks once more: without it, deletions behind the
// reader could hold him up for ever.
type edge struct {
	page  int   // number of the page that was left; 0: none
	row   int64 // its first row; 0: it was empty
	total int   // as that page said
	last  int
	sure  bool
}

// NewTrail returns the trail of a walk that starts at the page of that number, 0 for a cursor. With verify it ends when
// a whole walk brought nothing new.
func NewTrail(start int, verify bool) *Trail {
	rows := new(IDSet)
	return &Trail{start: start, verify: verify, walks: 1, shown: rows, seen: rows}
}

// Judge says how to go on after a page that was read, and which of its rows no walk has shown yet.
func (t *Trail) Judge(p Page) (step Step, fresh []int) {
	step = Decide(Observation{
		Gap:        t.gap(p),
		Before:     p.Number > max(t.start, 1),
		New:        slices.ContainsFunc(p.Rows, func(id int64) bool { return !t.seen.Has(id) }),
		SaysIfMore: p.SaysIfMore, More: p.More, Stuck: p.Stuck, Recount: p.Recount,
		Barren: t.barren+1 >= maxBarren,
	})
	if step == Back {
		t.edge = edge{page: p.Number, row: p.first(), total: p.Total, last: p.Last}
		return step, nil
	}
	return step, t.use(p)
}

// Before is the number of the page to read after Back: the one before p, or the last if there are fewer by now.
func (t *Trail) Before(p Page) int {
	number := p.Number - 1
	if p.Last > 0 {
		number = min(number, p.Last)
	}
	return max(number, t.start, 1)
}

// Seen reports whether a row was on a page of this walk that was used.
func (t *Trail) Seen(id int64) bool { return t.seen.Has(id) }

// Count is how many rows this walk has seen.
func (t *Trail) Count() int { return t.seen.Len() }

// Enough reports whether a walk that was made only to find missing rows has found them. A total that falls meanwhile may be
// that of rows which were shown.
func (t *Trail) Enough() bool {
	return t.walks > 1 && !t.verify && !t.short() && t.latest.Total >= t.told
}

// Finish says what the end of a walk means. After Again the trail is that of a new walk.
func (t *Trail) Finish() Ending {
	ending := Conclude(Findings{Short: t.short(), Verify: t.verify, Brought: t.brought, Spent: t.walks == maxWalks})
	if ending == Again {
		known := Page{Total: t.latest.Total, Size: t.latest.Size}
		*t = Trail{start: t.start, verify: t.verify, walks: t.walks + 1, told: known.Total, shown: t.shown, seen: new(IDSet), latest: known}
	}
	return ending
}

// short reports whether the service tells of more rows than were shown. Rows before the start do not count.
func (t *Trail) short() bool {
	total, size := t.latest.Total, t.latest.Size
	switch {
	case t.start == 0, t.start > 1 && size < 1:
		return false // how many lie before the start is not known
	case t.start > 1 && t.start-1 > total/size:
		return false
	}
	return total-(t.start-1)*size > t.shown.Len()
}

func (t *Trail) use(p Page) (fresh []int) {
	if p.Number == 0 && t.shrunk(p) {
		t.verify = true // a cursor may be a number in disguise
	}
	t.barren++
	for i, id := range p.Rows {
		if !t.seen.Add(id) {
			continue
		}
		t.barren = 0
		if t.walks == 1 || t.shown.Add(id) {
			fresh = append(fresh, i)
		}
	}
	t.brought = t.brought || len(fresh) > 0
	t.edge.sure = t.edge.page == p.Number+1 && p.Total <= t.edge.total && p.Last <= t.edge.last
	if p.Total == 0 && len(p.Rows) > 0 {
		p.Total = t.latest.Total // not known here; of an empty page it may be the truth
	}
	if p.Last == 0 {
		p.Last = t.latest.Last
	}
	p.Rows = nil // not held on to
	t.latest = p
	return fresh
}

// gap reports whether rows that were not seen may lie between those that were and this page.
func (t *Trail) gap(p Page) bool {
	switch {
	case p.Number < 2:
		return false // a cursor says behind which row it stands, and before the first page is nothing
	case t.seen.Has(p.first()):
		return false
	case t.edge.sure && t.edge.row == p.first():
		return false
	case t.latest.Number == 0:
		return false // nothing was seen before it
	}
	return p.Number != t.latest.Number+1 || t.shrunk(p)
}

// shrunk reports whether the list has become shorter since the page used last.
func (t *Trail) shrunk(p Page) bool {
	fewer := func(now, then int) bool { return now > 0 && now < then }
	promised := t.latest.SaysIfMore && t.latest.More
	return fewer(p.Total, t.latest.Total) || fewer(p.Last, t.latest.Last) || promised && len(p.Rows) == 0 && !p.More
}
