package list

import (
	"cmp"
	"slices"
)

// Rule says what ends a walk.
type Rule int

// The rules.
const (
	// Complete ends when everything that the service says agrees that all rows were seen.
	Complete Rule = iota
	// Verified ends when that is so and a whole walk found nothing new, and no fewer rows than the one before.
	Verified
	// Twice ends after two walks to the end, one if the list has a single page. Two, since a row that comes in can hide that
	// another one was deleted and moved the rest; not more, since a busy list never comes to rest. For the same reason rows
	// that came in after the start of a walk need not be seen.
	Twice
	// AsGiven ends where the service gives no further page. It proves nothing.
	AsGiven
)

const (
	maxStale = 3 // pages in a row that may show no new row: a few can, when rows are inserted
	maxWalks = 5
)

// Progress remembers what a walk saw.
type Progress struct {
	start int // number of the first page to read; 0: it stands at a cursor
	rule  Rule

	shown     *IDSet // rows of all walks
	walks     int
	before    int // rows of the walk before this one
	announced int // the total with which this walk began
	foundNew  bool

	seen   *IDSet // rows of this walk; in the first the same as shown
	pages  int    // of this walk that were used
	latest Page   // the page used last
	stale  int    // pages in a row without a new row
	edge   edge
}

// edge is a page whose rows were left. Once the page before it was read again, and the list had not grown
// meanwhile, nothing unseen lies before it, even if the list shrinks once more: without it, deletions behind the
// reader could hold it up for ever.
type edge struct {
	Page
	sure bool
}

// NewProgress returns the progress of a walk that starts at the page of that number, 0 for a cursor.
func NewProgress(start int, rule Rule) *Progress {
	rows := new(IDSet)
	return &Progress{start: start, rule: rule, walks: 1, shown: rows, seen: rows}
}

// Classify says how to go on after a page that was read, and which of its rows no walk has shown yet.
func (w *Progress) Classify(p Page) (step Step, fresh []int) {
	step = Decide(Observation{
		Gap:        w.gap(p),
		Before:     p.Number > max(w.start, 1),
		New:        slices.ContainsFunc(p.Rows, func(id int64) bool { return !w.seen.Has(id) }),
		SaysIfMore: p.SaysIfMore, More: p.More, Stuck: p.Stuck, Recount: p.Recount,
		Stale: w.stale+1 >= maxStale,
	})
	if step == Back {
		w.edge = edge{Page: p}
		return step, nil
	}
	return step, w.use(p)
}

// Before is the number of the page to read after Back: the one before p, or the last if there are fewer by now.
func (w *Progress) Before(p Page) int {
	number := p.Number - 1
	if p.Last > 0 {
		number = min(number, p.Last)
	}
	return max(number, w.start, 1)
}

// FoundMissing reports whether a walk that was made only to find missing rows has found them. A total that falls meanwhile may
// be that of rows which were shown.
func (w *Progress) FoundMissing() bool {
	return w.walks > 1 && w.rule == Complete && !w.short() && w.latest.Total >= w.announced
}

// Finish says what the end of a walk means, which came early if no row after it matters: Whole, Again or why the list is not
// whole. After Again it is the progress of a new walk.
func (w *Progress) Finish(early bool) Reason {
	short := !early && w.short()
	verify := w.rule == Verified || w.rule == Twice && w.walks == 1 && w.pages > 1
	exhausted := w.walks == maxWalks || w.rule == Twice && w.walks == 2
	switch {
	case !short && (!verify || !w.foundNew && w.seen.Len() >= w.before):
		return Whole
	case short && (exhausted || !w.foundNew):
		return TooFew
	case exhausted:
		return Unstable
	}
	known := Page{Total: w.latest.Total, Size: w.latest.Size}
	*w = Progress{start: w.start, rule: w.rule, walks: w.walks + 1, before: w.seen.Len(), announced: known.Total, shown: w.shown, seen: new(IDSet), latest: known}
	return Again
}

// short reports whether the service announces more rows than were shown. Rows before the start do not count.
func (w *Progress) short() bool {
	total, size := w.latest.Total, w.latest.Size
	switch {
	case w.rule == Twice:
		return min(cmp.Or(w.announced, total), total) > w.seen.Len()
	case w.rule == AsGiven, w.start == 0, w.start > 1 && size < 1:
		return false // how many lie before the start is not known
	case w.start > 1 && w.start-1 > total/size:
		return false
	}
	return total-(w.start-1)*size > w.shown.Len()
}

func (w *Progress) use(p Page) (fresh []int) {
	if p.Number == 0 && w.rule == Complete && w.shrunk(p) {
		w.rule = Verified // a cursor may be a number in disguise
	}
	w.stale++
	for i, id := range p.Rows {
		if !w.seen.Add(id) {
			continue
		}
		w.stale = 0
		if w.walks == 1 || w.shown.Add(id) {
			fresh = append(fresh, i)
		}
	}
	w.foundNew = w.foundNew || len(fresh) > 0
	w.edge.sure = w.edge.Number == p.Number+1 && p.Total <= w.edge.Total && p.Last <= w.edge.Last
	if w.pages++; w.pages == 1 && w.rule == Twice {
		w.announced = p.Total
	}
	if p.Total == 0 && len(p.Rows) > 0 {
		p.Total = w.latest.Total // not known here; of an empty page it may be the truth
	}
	if p.Last == 0 {
		p.Last = w.latest.Last
	}
	p.Rows = nil // not held on to
	w.latest = p
	return fresh
}

// gap reports whether rows that were not seen may lie between those that were and this page.
func (w *Progress) gap(p Page) bool {
	switch {
	case w.rule == AsGiven, p.Number < 2:
		return false // a cursor says behind which row it stands, and before the first page is nothing
	case w.seen.Has(p.first()):
		return false
	case w.edge.sure && w.edge.first() == p.first():
		return false
	case w.latest.Number == 0:
		return false // nothing was seen before it
	}
	return p.Number != w.latest.Number+1 || w.shrunk(p)
}

// shrunk reports whether the list has become shorter since the page used last.
func (w *Progress) shrunk(p Page) bool {
	fewer := func(now, then int) bool { return now > 0 && now < then }
	promised := w.latest.SaysIfMore && w.latest.More
	return fewer(p.Total, w.latest.Total) || fewer(p.Last, w.latest.Last) || promised && len(p.Rows) == 0 && !p.More
}
