// Package list walks through a list page by page. It ends when it can say that all rows were seen, or that this cannot
// be known. It identifies rows by their ids only.
//
// A list may change while it is read. If pages are numbered, a deletion moves all later rows forward, and a row
// that crosses the edge of a page at that moment is never shown. The rows of a page are therefore used only if no
// unseen row can be before them. This is the case for the first page, and for a page that begins with a known row.
// It is also the case for the page after the last used one, if the list has not become shorter in between.
// Otherwise the page before it is read again. After an insertion, a row merely appears twice.
package list

import (
	"cmp"
	"context"
	"iter"
)

// MaxSize is the most rows that a page can have.
const MaxSize = 100

// List is a list to walk through.
type List[V any] struct {
	Fetch func(ctx context.Context, at Position) (Page, V, error) // requests a page
	Start Position                                                // of the first page to read
	Ahead int                                                     // how many pages may be requested ahead
	Rule  Rule                                                    // what ends the walk
}

// Position selects a page: by its cursor, or else by its number, where 0 selects the first page.
type Position struct {
	Number   int
	Cursor   string
	Size     int  // of the pages, if it differs from the list's
	Reversed bool // the opposite order
}

// Page is what a page reports about itself and its list.
type Page struct {
	Rows       []int64 // their ids, from 1
	SaysIfMore bool    // the service reports whether another page follows
	More       bool    // another page follows, or may follow if that is not reported
	Cursor     string  // of the following page; if empty, that has the next number
	Total      int     // rows of the list; 0 if not known
	Last       int     // number of the last page; 0 if not known
	Size       int     // rows of a full page; 0 if not known
	FromZero   bool    // of the first page: the service counts pages from 0

	// Added by the walk.
	Number int  // from 1; 0 if the page was selected by a cursor
	Stuck  bool // the following page cannot be selected
}

// Visit is a page that was read.
type Visit[V any] struct {
	At     Position
	Value  V
	New    []int // indexes of the rows that were not shown before
	Enough *bool // set it to true if no later row matters; nil if no page follows

	page Page
}

// IncompleteError is returned if a list cannot be shown to be complete.
type IncompleteError struct {
	Reason Step
	Err    error // of a request that would have shown it; otherwise nil
}

func (e *IncompleteError) Error() string { return string(e.Reason) }

// Through walks through a list. An error ends the walk and is yielded once, together with what was fetched last. When
// the walk has ended, for whatever reason, no request is running.
func Through[V any](ctx context.Context, list List[V]) iter.Seq2[Visit[V], error] {
	return func(yield func(Visit[V], error) bool) {
		w := &walker[V]{list: list, progress: NewProgress(list.Start.number(), list.Rule)}
		w.pages = &Line[Position, Visit[V]]{ctx: ctx, depth: list.Ahead, fetch: w.fetch, next: w.next}
		if err := w.walk(yield); err != nil {
			yield(w.latest, err)
		}
	}
}

type walker[V any] struct {
	list     List[V]
	progress *Progress
	pages    *Line[Position, Visit[V]]
	latest   Visit[V] // the page that was read last
	fromZero bool     // the service counts pages from 0; set by the first page, before any page is requested ahead
}

// walk reads page after page and yields each. It returns nil if all rows were seen or the caller stops, the error of a
// request for a page, and otherwise an *IncompleteError.
func (w *walker[V]) walk(yield func(Visit[V], error) bool) error {
	defer w.pages.Stop()
	for at := w.list.Start; ; {
		var err error
		w.latest, err = w.pages.Get(at)
		if err != nil {
			return err
		}
		visit := w.latest
		step, stopped, err := w.visit(visit, yield)
		if stopped {
			return nil
		}
		switch step {
		case Next:
			at = at.after(visit.page)
		case Back:
			at = Position{Number: w.progress.Before(visit.page)}
		case Again:
			at = w.list.Start
		case Whole:
			return nil
		default:
			return &IncompleteError{step, err}
		}
	}
}

// visit yields a page and returns how to continue. It reports stopped if the caller wants no further page. The error is
// that of a request that would have shown whether the list is complete.
func (w *walker[V]) visit(visit Visit[V], yield func(Visit[V], error) bool) (step Step, stopped bool, err error) {
	enough := false
	step, visit.New = w.progress.Classify(visit.page)
	if step == Next {
		w.pages.LookAhead() // not earlier: the page may have shown that nothing follows
		visit.Enough = &enough
	}
	if !yield(visit, nil) {
		return step, true, nil
	}
	if step == Check {
		step, err = w.confirm(visit.page)
	}
	if step == Last || enough {
		step = w.progress.Finish(enough)
	}
	return step, false, err
}

// confirm finds out whether more rows exist if the service reports nothing and a page only repeats rows. Either the
// first page had all rows, or the service ignores how pages are selected. All rows were seen if the list in the
// opposite order begins with the row at which the walk ended. They were also seen if a page of one row more than were
// seen has no new row, and the service does follow the size of a page. It returns Last if all rows were seen.
func (w *walker[V]) confirm(repeated Page) (Step, error) {
	seen := w.progress.seen
	lastRow := repeated.Rows[len(repeated.Rows)-1]
	oneMoreFromTheEnd := Position{Reversed: true, Size: min(seen.Len()+1, MaxSize)}
	couldShowOneMore := seen.Len() < MaxSize
	oneRow := Position{Size: 1} // shows whether the service follows the size
	for _, probe := range []Position{oneMoreFromTheEnd, oneRow} {
		var err error
		w.latest, err = w.pages.Get(probe)
		if err != nil {
			return NotKnown, err
		}
		page := w.latest.page
		followsSize := probe == oneRow && len(page.Rows) == 1
		switch {
		case !seen.HasAll(page.Rows):
			return MoreExist, nil
		case page.first() == 0, page.first() == lastRow: // the list is empty by now, or this is its other end
			return Last, nil
		case followsSize && couldShowOneMore: // so the page before had room for a new row, and had none
			return Last, nil
		}
	}
	return NotKnown, nil
}

// fetch requests a page. It adds its number, whether it is stuck, and, from other members, whether another page
// follows.
func (w *walker[V]) fetch(ctx context.Context, at Position) (Visit[V], error) {
	page, value, err := w.list.Fetch(ctx, w.asCounted(at))
	page.Number = at.number()
	byCursor := at.Cursor != ""
	page.Stuck = byCursor && (page.Cursor == "" || page.Cursor == at.Cursor)
	switch {
	case byCursor && page.Cursor == "":
		page.More = page.SaysIfMore && page.More // without a cursor, no page can follow
	case !page.SaysIfMore && page.Last > 0:
		page.SaysIfMore = true
		page.More = page.Number < page.Last
	}
	if at == (Position{}) {
		w.fromZero = page.FromZero && page.SaysIfMore // otherwise page 1 shows it; see after
	}
	return Visit[V]{At: at, Value: value, page: page}, err
}

// asCounted returns the position of a page as the service counts pages. Numbers in this package begin with 1.
func (w *walker[V]) asCounted(at Position) Position {
	if w.fromZero && at.Number > 0 {
		at.Number-- // page 0 is requested without a number
	}
	return at
}

// next returns the position after another, if its page is known to exist: any page up to the last, or else the one
// after the page that was read last.
func (w *walker[V]) next(at Position) (Position, bool) {
	next := at.after(w.latest.page)
	if at == w.latest.At {
		return next, true
	}
	return next, next.Number > 0 && next.Number <= w.latest.page.Last
}

// number is the number of the page; 0 if it is selected by a cursor.
func (p Position) number() int {
	if p.Cursor != "" {
		return 0
	}
	return max(p.Number, 1)
}

// after is the position of the page that follows. If the service reports nothing, the first page is requested once
// more, as page 1: if the service counts from 0, that is the second page.
func (p Position) after(page Page) Position {
	isFirst := p == Position{}
	switch {
	case page.Cursor != "":
		return Position{Cursor: page.Cursor}
	case isFirst && !page.SaysIfMore:
		return Position{Number: 1}
	}
	return Position{Number: p.number() + 1}
}

// first is the id of the page's first row; 0 if it has none.
func (p Page) first() int64 { return cmp.Or(p.Rows...) }
