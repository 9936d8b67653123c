package list

import "cmp"

// Rule is what ends a walk.
type Rule int

// The rules.
const (
	// Complete ends a walk when everything that the service reports agrees that all rows were seen.
	Complete Rule = iota
	// Verified also requires a complete walk that finds nothing new, and no fewer rows than the walk before.
	Verified
	// Twice ends after two walks to the end, or one if the list has a single page. One is not enough: a row that is
	// inserted can hide that another was deleted and moved the rest. More would never end on a busy list. For the same
	// reason, rows that are inserted after the start of a walk need not be seen.
	Twice
	// AsGiven ends where the service gives no further page. It proves nothing.
	AsGiven
)

const (
	maxStale = 3 // pages in a row that may have no new row: a few can, when rows are inserted
	maxWalks = 5
)

// Progress is what the walks through a list have seen.
type Progress struct {
	start int // number of the first page to read; 0 if it has a cursor
	rule  Rule

	shown     *IDSet // rows of all walks
	walks     int
	announced int // the total with which this walk began

	shownBefore  int // rows that were shown before this walk
	previousRows int // rows of the walk before this one

	seen   *IDSet // rows of this walk; in the first walk the same set as shown
	pages  int    // of this walk whose rows were used
	latest Page   // whose rows were used
	stale  int    // pages in a row without a new row

	rejected Page // the page at which the walk went back; its rows were not used
	// rejectedIsNext is set if the page before the rejected one was read again, and the list had not grown in between.
	// Then no unseen row lies before the rejected page, even if the list shrinks once more. Without it, deletions could
	// hold up the walk forever.
	rejectedIsNext bool
}

// NewProgress returns the progress of a walk that starts at the page with that number, or at a cursor if it is 0.
func NewProgress(start int, rule Rule) *Progress {
	rows := new(IDSet)
	return &Progress{start: start, rule: rule, walks: 1, shown: rows, seen: rows}
}

// Classify returns how to continue after a page, and the indexes of its rows that no walk has shown yet.
func (w *Progress) Classify(p Page) (step Step, fresh []int) {
	step = Decide(Observation{
		Page:        p,
		MayMissRows: w.mayMissRows(p),
		CanGoBack:   p.Number > w.start,
		HasNewRow:   !w.seen.HasAll(p.Rows),
		LastChance:  w.stale+1 >= maxStale,
	})
	if step == Back {
		w.rejected = p
		w.rejectedIsNext = false
		return step, nil
	}
	fresh = w.use(p)
	switch {
	case w.foundMissing():
		step = Whole
	case w.rule == AsGiven && step != Next:
		step = Whole
	}
	return step, fresh
}

// foundMissing reports whether this walk was made only to find missing rows, and found them. If the total has fallen
// since, rows that were shown may have been deleted instead.
func (w *Progress) foundMissing() bool {
	if w.walks == 1 || w.rule != Complete {
		return false
	}
	return !w.isShort() && w.latest.Total >= w.announced
}

// Before is the number of the page to read after Back: the one before p, or the last one if there are fewer now.
func (w *Progress) Before(p Page) int {
	number := p.Number - 1
	return max(w.start, min(number, cmp.Or(p.Last, number)))
}

// Finish is called at the end of a walk. It returns Whole, Again, or why the list is not complete. The end came early
// if no row after it matters. After Again, the progress is that of a new walk.
func (w *Progress) Finish(early bool) Step {
	foundNew := w.shown.Len() > w.shownBefore
	mayFindMissing := foundNew && !w.isLastWalk()
	isShort := !early && w.isShort()
	switch {
	case isShort && mayFindMissing:
		return w.beginNextWalk()
	case isShort:
		return TooFew
	case !w.mustVerify() || w.verified():
		return Whole
	case w.isLastWalk():
		return Unstable
	}
	return w.beginNextWalk()
}

// mustVerify reports whether a complete walk has to be confirmed by another one.
func (w *Progress) mustVerify() bool {
	switch w.rule {
	case Verified:
		return true
	case Twice:
		return w.walks == 1 && w.pages > 1
	case Complete, AsGiven:
	}
	return false
}

// verified reports whether this walk found nothing new, and no fewer rows than the walk before.
func (w *Progress) verified() bool {
	return w.shown.Len() == w.shownBefore && w.seen.Len() >= w.previousRows
}

// isLastWalk reports whether no walk may follow this one.
func (w *Progress) isLastWalk() bool {
	if w.rule == Twice && w.walks == 2 {
		return true
	}
	return w.walks == maxWalks
}

// beginNextWalk resets the progress to the start of another walk, and returns Again.
func (w *Progress) beginNextWalk() Step {
	*w = Progress{
		start:        w.start,
		rule:         w.rule,
		shown:        w.shown,
		walks:        w.walks + 1,
		announced:    w.latest.Total,
		shownBefore:  w.shown.Len(),
		previousRows: w.seen.Len(),
		seen:         new(IDSet),
		latest:       Page{Total: w.latest.Total, Size: w.latest.Size},
	}
	return Again
}

// isShort reports whether the service announces more rows than were shown. Rows before the start do not count. With
// the rule Twice, it compares the smaller of the totals at the start and at the end with the rows of this walk.
func (w *Progress) isShort() bool {
	total := w.latest.Total
	if w.rule == Twice {
		return min(cmp.Or(w.announced, total), total) > w.seen.Len()
	}
	rows, known := w.rowsBeforeStart()
	return known && total-rows > w.shown.Len()
}

// rowsBeforeStart returns how many rows lie before the first page to read. That is not known if this page has a cursor,
// or if it has a later number and the service reports no page size, or ends the list before it.
func (w *Progress) rowsBeforeStart() (rows int, known bool) {
	hasCursor := w.start == 0
	pagesBefore := w.start - 1
	size := w.latest.Size
	switch {
	case hasCursor:
		return 0, false
	case pagesBefore == 0:
		return 0, true
	case size < 1:
		return 0, false
	case pagesBefore > w.latest.Total/size: // a division, because the product could overflow
		return 0, false
	}
	return pagesBefore * size, true
}

// use records a page whose rows are used, and returns the indexes of the rows that no walk has shown yet. If a list
// with cursors has become shorter, the rule becomes Verified.
func (w *Progress) use(p Page) (fresh []int) {
	if w.cursorShrank(p) {
		w.rule = Verified
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
	w.rejectedIsNext = w.leadsToRejected(p)
	w.pages++
	if w.pages == 1 && w.rule == Twice {
		w.announced = p.Total
	}
	if p.Total == 0 && len(p.Rows) > 0 {
		p.Total = w.latest.Total // not reported here; of an empty page it may be the truth
	}
	p.Last = cmp.Or(p.Last, w.latest.Last)
	w.latest = p
	return fresh
}

// cursorShrank reports whether a list with cursors has become shorter. A cursor may be a page number in disguise.
func (w *Progress) cursorShrank(p Page) bool {
	hasCursor := p.Number == 0
	return hasCursor && w.rule == Complete && w.shrunk(p)
}

// leadsToRejected reports whether p is the page before the rejected one, and the list has not grown since that was
// read.
func (w *Progress) leadsToRejected(p Page) bool {
	grown := p.Total > w.rejected.Total || p.Last > w.rejected.Last
	return w.rejected.Number == p.Number+1 && !grown
}

// mayMissRows reports whether unseen rows may lie between those that were seen and this page.
func (w *Progress) mayMissRows(p Page) bool {
	isNumbered := p.Number > 1 && w.latest.Number > 0
	overlaps := w.seen.Has(p.first())
	beginsLikeRejected := w.rejected.first() == p.first()
	switch {
	case w.rule == AsGiven:
		return false
	case !isNumbered: // it is the first page, or its cursor names the row before it
		return false
	case overlaps:
		return false
	case w.rejectedIsNext && beginsLikeRejected:
		return false
	case p.Number != w.latest.Number+1:
		return true
	}
	return w.shrunk(p)
}

// shrunk reports whether the list has become shorter since the page that was used last: its total or the number of its
// last page has fallen, or a page that the service announced is empty.
func (w *Progress) shrunk(p Page) bool {
	if fewer(p.Total, w.latest.Total) {
		return true
	}
	if fewer(p.Last, w.latest.Last) {
		return true
	}
	wasAnnounced := w.latest.SaysIfMore && w.latest.More
	isEmptyEnd := len(p.Rows) == 0 && !p.More
	return wasAnnounced && isEmptyEnd
}

// fewer reports whether a number is known and smaller than before.
func fewer(now, before int) bool { return now > 0 && now < before }
