// Package walk judges the pages of a list while somebody goes through it: whether rows can have slipped by unseen,
// whether more follow, and in the end whether all were seen. It knows rows by their ids alone.
//
// A list may change while it is read. Where pages are numbered, rows move to the front when one before them is deleted,
// and what crosses a page's edge at that moment is never shown. So a page's rows are used only if nothing unseen can lie
// before them: it is the first page, or it begins with a row that was seen, or it follows the page used last and the list
// did not shrink in between. Otherwise the page before it is read again. Insertions only make rows come twice.
package walk

import (
	"slices"

	"github.com/clinicaldoc/clinicaldoc-go/internal/idset"
)

const (
	// maxBarren is how many pages in a row may bring no new row: a few can, when rows are inserted.
	maxBarren = 3
	maxWalks  = 5
)

// Page is what matters of a page.
type Page struct {
	Number int     // from 1; 0: it stands at a cursor
	Rows   []int64 // their ids, from 1
	Told   bool    // the service says whether another page follows
	More   bool    // another page follows, or may follow where nothing is told
	Stuck  bool    // the page said to follow is this one
	Total  int     // rows of the list; 0: not told
	Last   int     // number of the last page; 0: not told
	Size   int     // rows of a full page; 0: not told
}

// Trail remembers what a walk saw.
type Trail struct {
	start  int  // number of the first page to read; 0: it stands at a cursor
	verify bool // walk again until a walk brings nothing new

	shown   idset.Set // rows of all walks
	walks   int
	brought bool

	seen   idset.Set // rows of this walk
	latest Page      // the page used last
	barren int       // pages in a row without a new row
	edge   edge
}

// edge is where a page began whose rows were left. Once the page before it was read again, and the list had not grown
// meanwhile, nothing unseen lies before the edge, even if the list shrinks once more: without it, deletions behind the
// reader could hold him up for ever.
type edge struct {
	page  int   // number of the page that was left; 0: none
	row   int64 // its first row; 0: it was empty
	total int   // as that page told
	last  int
	sure  bool
}

// New returns the trail of a walk that starts at the page of that number, 0 for a cursor. With verify it ends when a
// whole walk brought nothing new.
func New(start int, verify bool) *Trail { return &Trail{start: start, verify: verify, walks: 1} }

// Judge says how to go on after a page that was read.
func (t *Trail) Judge(p Page) Step {
	step := Decide(Observation{
		Gap:    t.gap(p),
		Before: p.Number > max(t.start, 1),
		New:    slices.ContainsFunc(p.Rows, func(id int64) bool { return !t.seen.Has(id) }),
		Told:   p.Told, More: p.More, Stuck: p.Stuck,
		Barren: t.barren+1 >= maxBarren,
	})
	if step == Back {
		t.edge = edge{page: p.Number, row: p.first(), total: p.Total, last: p.Last}
	} else {
		t.use(p)
	}
	return step
}

// Before is the number of the page to read after Back: the one before p, or the last if there are fewer by now.
func (t *Trail) Before(p Page) int {
	number := p.Number - 1
	if p.Last > 0 {
		number = min(number, p.Last)
	}
	return max(number, t.start, 1)
}

// Show reports whether a row is to be shown: no walk did so yet.
func (t *Trail) Show(id int64) bool {
	isNew := t.shown.Add(id)
	t.brought = t.brought || isNew
	return isNew
}

// Seen reports whether a row was on a page of this walk whose rows were used.
func (t *Trail) Seen(id int64) bool { return t.seen.Has(id) }

// Count is how many rows this walk has seen.
func (t *Trail) Count() int { return t.seen.Len() }

// Enough reports whether a walk that was made only to find missing rows has found them.
func (t *Trail) Enough() bool { return t.walks > 1 && !t.verify && !t.short() }

// Finish says what the end of a walk means. After Again the trail is that of a new walk.
func (t *Trail) Finish() Ending {
	ending := Conclude(Findings{Short: t.short(), Verify: t.verify, Brought: t.brought, Spent: t.walks == maxWalks})
	if ending == Again {
		told := Page{Total: t.latest.Total, Size: t.latest.Size}
		*t = Trail{start: t.start, verify: t.verify, shown: t.shown, walks: t.walks + 1, latest: told}
	}
	return ending
}

// short reports whether the service tells of more rows than were shown. Rows before the start do not count.
func (t *Trail) short() bool {
	skipped := (t.start - 1) * t.latest.Size
	unknown := t.start == 0 || t.start > 1 && t.latest.Size == 0
	return !unknown && t.latest.Total-skipped > t.shown.Len()
}

func (t *Trail) use(p Page) {
	if p.Number == 0 && t.shrunk(p) {
		t.verify = true // a cursor may be a number in disguise
	}
	t.barren++
	for _, id := range p.Rows {
		if t.seen.Add(id) {
			t.barren = 0
		}
	}
	t.edge.sure = t.edge.page == p.Number+1 && p.Total <= t.edge.total && p.Last <= t.edge.last
	p.Rows = nil // not held on to
	if p.Total == 0 {
		p.Total = t.latest.Total
	}
	if p.Last == 0 {
		p.Last = t.latest.Last
	}
	t.latest = p
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
	promised := t.latest.Told && t.latest.More
	return fewer(p.Total, t.latest.Total) || fewer(p.Last, t.latest.Last) || promised && len(p.Rows) == 0 && !p.More
}

// first is the page's first row, 0 if it has none.
func (p Page) first() int64 {
	if len(p.Rows) == 0 {
		return 0
	}
	return p.Rows[0]
}
