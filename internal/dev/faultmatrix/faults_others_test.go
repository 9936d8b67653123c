package faultmatrix

import (
	"errors"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// carriesNote tells whether the conflict hands over what the colleague wrote.
func carriesNote(err error) bool {
	var conflict *clinicaldoc.ConflictError
	return errors.As(err, &conflict) && conflict.Current != nil && conflict.Current.Analysis == otherAnalysis
}

// otherEdits are a colleague's, made while an edit is under way. They stay as they are, and nothing else is signed or deleted
// than what was read.
func otherEdits() []fault {
	unsure := unknown(1, clinicaldoc.ErrConflict).thatIs(carriesNote)
	nothingSent := fails(1, clinicaldoc.ErrConflict).thatIs(carriesNote)
	surprise := breaks(1, clinicaldoc.ErrConflict).thatIs(carriesNote)
	guards := []string{"Update=", "Sign=", "Delete="}
	between := promises{}.with(unsure, "Update", "Sign", "Update=", "Sign=", "Delete=")
	refused := promises{}.with(nothingSent, guards...)
	edited := func(end func(*strike)) func(*strike) {
		return func(s *strike) { s.take(); editAll(s.front.world); end(s) }
	}
	return []fault{
		{name: "edited before a guarded edit", edits: true, afterRead: editAll, promises: promises{}.with(fails(0, clinicaldoc.ErrConflict).thatIs(carriesNote), guards...)},
		{
			name: "edited between a guard's look and the edit", edits: true, commits: true, inWindow: editRest,
			promises: promises{}.with(surprise, "Update=", "Sign="),
		},
		{name: "answer lost, not carried out, edited since", edits: true, strike: edited((*strike).reset), promises: between},
		{name: "503, not carried out, edited since", edits: true, strike: edited(says(503, refusal)), promises: between},
		{
			name: "no answer, not carried out, edited since", edits: true, setting: setting{policy: onceAgain, stall: stallAfter},
			strike: edited((*strike).untilClosed), promises: between,
		},
		{
			// The signature was given to what was read, and is there; who guards it learns of the edit.
			name: "answer lost, carried out, edited since", edits: true, commits: true,
			strike:   func(s *strike) { s.carryOut(); editAll(s.front.world); s.reset() },
			promises: promises{}.with(succeeds(1), "Sign").with(surprise, "Sign="),
		},
		{
			// Nobody can tell from the note that the update was there in between.
			name: "answer lost, carried out, overwritten since", edits: true,
			strike:   func(s *strike) { s.carryOut(); editAll(s.front.world); s.reset() },
			promises: promises{}.with(unsure, "Update", "Update="),
		},
		{name: "429, edited since", edits: true, strike: edited(says(429, refusal)), promises: refused},
	}
}

// vanishing are rows that go, or come, while a list is walked through.
func vanishing() []fault {
	whole := promised(wholeOrTold, 1, nil).upTo(40)
	told := promises{}.with(whole, "All", "AllAhead", "AllVerify")
	verified := promises{}.with(whole, "AllVerify")
	const rows = 9
	// The rows of these numbers vanish before a page. The first row of a list has been seen when the second page is made.
	before := func(page int, gone ...int) func(*world, int) {
		return func(w *world, number int) {
			for _, row := range gone {
				if number == page {
					w.vanish(w.notes[row])
				}
			}
		}
	}
	every := func(w *world, page int) {
		if page > 1 && page < 6 {
			w.vanish(w.notes[rows+1-page])
		}
	}
	swap := func(w *world, page int) {
		if page == 2 {
			w.vanish(w.notes[0])
			w.appear()
		}
	}
	var all []fault
	for _, v := range []struct {
		name string
		kind clinicaldoctest.Pagination
		promises
	}{
		{"pages with a total", clinicaldoctest.PaginationLengthAware, told},
		{"flat pages", clinicaldoctest.PaginationFlat, told},
		{"cursors", clinicaldoctest.PaginationCursor, told},
		{"simple pages", clinicaldoctest.PaginationSimple, verified},
		{"bare pages", clinicaldoctest.PaginationBare, verified},
	} {
		set := setting{rows: rows, sort: clinicaldoc.SortLatest, variant: func(string) clinicaldoctest.Variant { return clinicaldoctest.Variant{Pagination: v.kind} }}
		oldest := set
		oldest.sort = clinicaldoc.SortOldest
		all = append(all,
			fault{name: "a row vanishes, " + v.name, setting: set, onPage: before(2, rows-1), promises: v.promises},
			fault{name: "a row vanishes before every page, " + v.name, setting: set, onPage: every, promises: v.promises},
			fault{name: "several rows vanish, " + v.name, setting: set, onPage: before(3, rows-3, rows-2, rows-1), promises: v.promises},
			fault{name: "an unseen row vanishes, " + v.name, setting: set, onPage: before(2, 0), promises: told},
			// The total stays the same, so that only a second walk can show it.
			fault{name: "a row vanishes and one comes, " + v.name, setting: oldest, onPage: swap, promises: verified},
		)
	}
	short := `{"data":[],"meta":{"current_page":2,"last_page":2,"total":3}}`
	return append(all, fault{name: "a page comes empty although more rows are told", strike: says(200, short), promises: promises{}.with(succeeds(3), "All")})
}
