// Package list goes through a list page by page and does not end before it can say that all rows were seen, or that this
// cannot be said. It knows rows by their ids alone.
//
// A list may change while it is read. Where pages are numbered, rows move to the front when one before them is deleted,
// and what crosses a page's edge at that moment is never shown. So a page's rows are used only if nothing unseen can lie
// before them: it is the first page, or it begins with a row that was seen, or it follows the page used last and the list
// did not shrink in between. Otherwise the page before it is read again. Insertions only make rows come twice.
package list

import (
	"cmp"
	"context"
	"iter"
	"slices"
)

// MaxSize is how many rows a page can have at most.
const MaxSize = 100

// List is a list to walk through.
type List[V any] struct {
	Fetch func(ctx context.Context, at Position) (Page, V, error) // requests a page and returns what it says
	Start Position                                                // of the first page to read
	Ahead int                                                     // how many pages may be requested before they are needed
	Rule  Rule                                                    // what ends the walk
}

// Position says where a page stands: at a cursor, or else at a number, of which 0 is the first.
type Position struct {
	Number   int
	Cursor   string
	Size     int  // of its list's pages, if that is another than wanted
	Reversed bool // its list is in the other order than wanted
}

// Page is what a page says of itself and of its list.
type Page struct {
	Rows       []int64 // their ids, from 1
	SaysIfMore bool    // the service says whether another page follows
	More       bool    // another page follows, or may follow where nothing is known
	Cursor     string  // of the page that follows; empty: it stands at the next number
	Total      int     // rows of the list; 0: not known
	Last       int     // number of the last page; 0: not known
	Size       int     // rows of a full page; 0: not known

	// What the walk adds.
	Number int  // from 1; 0: it stands at a cursor
	Stuck  bool // there is no way to the page that follows
}

// Visit is a page that was read.
type Visit[V any] struct {
	At     Position
	Value  V
	New    []int // indexes of its rows that are to be shown; no row is shown twice
	Enough *bool // to be set if no row after it matters; nil: no page follows

	page Page
}

// IncompleteError says why a list cannot be shown to be whole.
type IncompleteError struct {
	Reason Step
	Err    error // of a request that would have shown it; else nil
}

func (e *IncompleteError) Error() string { return string(e.Reason) }

// Through walks through a list. An error is yielded once, with what was fetched beside it, and ends the walk. Nothing is
// under way any more when it has ended, however it did.
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
	latest   Visit[V] // the page read last
}

// walk gets a page, decides from what it says, yields its new rows and goes on. It returns nil at the end and after a break.
func (w *walker[V]) walk(yield func(Visit[V], error) bool) (err error) {
	defer w.pages.Stop()
	for at := w.list.Start; ; {
		if w.latest, err = w.pages.Get(at); err != nil {
			return err
		}
		visit, early := w.latest, false
		step, fresh := w.progress.Classify(visit.page)
		if step == Next {
			w.pages.LookAhead() // not earlier: the page may have shown that there is nothing to look for
			visit.Enough = &early
		}
		visit.New = fresh
		if !yield(visit, nil) {
			return nil
		}
		if step == Check {
			step, err = w.confirm(visit.page)
		}
		if step == Last || early {
			step = w.progress.Finish(early)
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

// confirm is for a list of which nothing is known, where a page repeats what was seen: because everything came at once, or
// because the service does not know how pages are selected. Proof of the first is that the list in its other order begins
// with the row at which the walk ended; or that more rows than were seen are requested and none comes, from a service that
// follows the size.
func (w *walker[V]) confirm(repeated Page) (_ Step, err error) {
	seen, last := w.progress.seen, repeated.Rows[len(repeated.Rows)-1]
	for _, look := range []Position{{Reversed: true, Size: min(seen.Len()+1, MaxSize)}, {Size: 1}} {
		w.latest, err = w.pages.Get(look)
		switch page := w.latest.page; {
		case err != nil:
			return NotKnown, err
		case slices.ContainsFunc(page.Rows, func(id int64) bool { return !seen.Has(id) }):
			return MoreExist, nil
		case page.first() == 0, page.first() == last, len(page.Rows) == 1 && look.Size == 1 && seen.Len() < MaxSize:
			return Last, nil
		}
	}
	return NotKnown, nil
}

// fetch requests a page and completes what it says.
func (w *walker[V]) fetch(ctx context.Context, at Position) (Visit[V], error) {
	page, value, err := w.list.Fetch(ctx, at)
	page.Number = at.number()
	page.Stuck = at.Cursor != "" && (page.Cursor == "" || page.Cursor == at.Cursor)
	switch {
	case at.Cursor != "" && page.Cursor == "":
		page.More = page.SaysIfMore && page.More // without a cursor there is no way on
	case !page.SaysIfMore && page.Last > 0:
		page.SaysIfMore, page.More = true, page.Number < page.Last
	}
	return Visit[V]{At: at, Value: value, page: page}, err
}

// next is the page after another as far as the page read last tells: any up to the last, or else only the one right after it.
func (w *walker[V]) next(at Position) (Position, bool) {
	next := at.after(w.latest.page)
	return next, at == w.latest.At || next.Number > 0 && next.Number <= w.latest.page.Last
}

// number is the number of the page, 0 at a cursor.
func (p Position) number() int {
	if p.Cursor != "" {
		return 0
	}
	return max(p.Number, 1)
}

// after is the position of the page that follows, at a cursor if there is one. Where nothing is known, the first page is
// requested once more, as page 1: if the service counts from 0, that is the second one.
func (p Position) after(page Page) Position {
	switch {
	case page.Cursor != "":
		return Position{Cursor: page.Cursor}
	case p == Position{} && !page.SaysIfMore:
		return Position{Number: 1}
	}
	return Position{Number: p.number() + 1}
}

// first is the page's first row, 0 if it has none.
func (p Page) first() int64 { return cmp.Or(p.Rows...) }
