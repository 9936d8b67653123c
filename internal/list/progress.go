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
	known     int // rows that were shown before this walk
	before    int // rows of the walk before this one
	announced int // the total with which this walk began

	seen   *IDSet // rows of this walk; in the first the same as shown
	pages  int    // of this walk that were used
	latest Page   // the page used last
	stale  int    // pages in a row without a new row

	edge Page // whose rows were left
	// The page before the edge was read again, and the list had not grown meanwhile: then nothing unseen lies before it, even if
	// the list shrinks once more. Without it, deletions behind the reader could hold it up for ever.
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
		Page:   p,
		Gap:    w.gap(p),
		Before: p.Number > w.start,
		New:    slices.ContainsFunc(p.Rows, func(id int64) bool { return !w.seen.Has(id) }),
		Stale:  w.stale+1 >= maxStale,
	})
	if step == Back {
		w.edge, w.sure = p, false
		return step, nil
	}
	fresh = w.use(p)
	// A walk that was made only to find missing rows ends with them; a total that falls meanwhile may be that of rows which were shown.
	foundMissing := w.walks > 1 && w.rule == Complete && !w.short() && w.latest.Total >= w.announced
	if foundMissing || w.rule == AsGiven && step != Next {
		step = Whole
	}
	return step, fresh
}

// Before is the number of the page to read after Back: the one before p, or the last if there are fewer by now.
func (w *Progress) Before(p Page) int {
	number := p.Number - 1
	return max(w.start, min(number, cmp.Or(p.Last, number)))
}

// Finish says what the end of a walk means, which came early if no row after it matters: Whole, Again or why the list is not
// whole. After Again it is the progress of a new walk.
func (w *Progress) Finish(early bool) Step {
	short, foundNew := !early && w.short(), w.shown.Len() > w.known
	verify := w.rule == Verified || w.rule == Twice && w.walks == 1 && w.pages > 1
	exhausted := w.walks == maxWalks || w.rule == Twice && w.walks == 2
	switch {
	case !short && (!verify || !foundNew && w.seen.Len() >= w.before):
		return Whole
	case short && (exhausted || !foundNew):
		return TooFew
	case exhausted:
		return Unstable
	}
	*w = Progress{
		start: w.start, rule: w.rule, shown: w.shown, walks: w.walks + 1, known: w.shown.Len(), before: w.seen.Len(),
		announced: w.latest.Total, seen: new(IDSet), latest: Page{Total: w.latest.Total, Size: w.latest.Size},
	}
	return Again
}

// short reports whether the service announces more rows than were shown. Rows before the start do not count.
func (w *Progress) short() bool {
	total, size := w.latest.Total, w.latest.Size
	switch {
	case w.rule == Twice:
		return min(cmp.Or(w.announced, total), total) > w.seen.Len()
	case w.start == 0, w.start > 1 && (size < 1 || w.start-1 > total/size):
		return false // how many lie before the start is not known, or all do
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
	w.sure = w.edge.Number == p.Number+1 && p.Total <= w.edge.Total && p.Last <= w.edge.Last
	if w.pages++; w.pages == 1 && w.rule == Twice {
		w.announced = p.Total
	}
	if p.Total == 0 && len(p.Rows) > 0 {
		p.Total = w.latest.Total // not known here; of an empty page it may be the truth
	}
	p.Last = cmp.Or(p.Last, w.latest.Last)
	w.latest = p
	return fresh
}

// gap reports whether rows that were not seen may lie between those that were and this page.
func (w *Progress) gap(p Page) bool {
	joined := w.seen.Has(p.first()) || w.sure && w.edge.first() == p.first()
	movable := p.Number > 1 && w.latest.Number > 0 // else it is the first, or a cursor said behind which row it stands
	return w.rule != AsGiven && !joined && movable && (p.Number != w.latest.Number+1 || w.shrunk(p))
}

// shrunk reports whether the list has become shorter since the page used last.
func (w *Progress) shrunk(p Page) bool {
	fewer := func(now, then int) bool { return now > 0 && now < then }
	promised := w.latest.SaysIfMore && w.latest.More
	return fewer(p.Total, w.latest.Total) || fewer(p.Last, w.latest.Last) || promised && len(p.Rows) == 0 && !p.More
}
