package list_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/list"
)

// numbered is a page of a list that reports its total, in pages of three rows.
func numbered(number, total int, rows ...int64) list.Page {
	last := max(1, (total+2)/3)
	return list.Page{Number: number, Rows: rows, SaysIfMore: true, More: number < last, Total: total, Last: last, Size: 3}
}

// visit is a page read, and what is to come of it.
type visit struct {
	page list.Page
	step list.Step
}

func classify(t *testing.T, progress *list.Progress, visits ...visit) {
	t.Helper()
	for i, v := range visits {
		step, fresh := progress.Classify(v.page)
		assert.Equal(t, v.step, step, "visit %d, page %d", i, v.page.Number)
		if step == list.Back {
			assert.Empty(t, fresh)
		}
	}
}

func TestProgress_ShrunkList_GoesBackAPage(t *testing.T) {
	t.Parallel()
	first := visit{numbered(1, 9, 1, 2, 3), list.Next}
	tests := map[string][]visit{
		"nothing happened": {first, {numbered(2, 9, 4, 5, 6), list.Next}, {numbered(3, 9, 7, 8, 9), list.Last}},
		"a row before was deleted": {
			first, {numbered(2, 8, 5, 6, 7), list.Back}, {numbered(1, 8, 2, 3, 4), list.Next},
			{numbered(2, 8, 5, 6, 7), list.Next}, {numbered(3, 8, 8, 9), list.Last},
		},
		"a row was deleted and one is shown twice": {
			first, {numbered(2, 9, 4, 5, 6), list.Next}, {numbered(3, 8, 6, 7), list.Last},
		},
		"a whole page was deleted": {
			first, {numbered(2, 9, 4, 5, 6), list.Next}, {numbered(3, 6), list.Back},
			{numbered(2, 6, 7, 8, 9), list.Back}, {numbered(1, 6, 4, 5, 6), list.Next}, {numbered(2, 6, 7, 8, 9), list.Last},
		},
		"all was deleted": {first, {numbered(2, 0), list.Back}, {numbered(1, 0), list.Last}},
		"only what follows was deleted": {
			first, {numbered(2, 8, 4, 5, 6), list.Back}, {numbered(1, 8, 1, 2, 3), list.Next},
			{numbered(2, 8, 4, 5, 6), list.Next},
			{numbered(3, 8, 7, 8), list.Last},
		},
		"what follows is deleted all the time": {
			first, {numbered(2, 8, 4, 5, 6), list.Back}, {numbered(1, 7, 1, 2, 3), list.Next},
			{numbered(2, 6, 4, 5, 6), list.Last},
		},
		"an insertion hides that a row moved": {
			first, {numbered(2, 9, 4, 5, 6), list.Next}, {numbered(3, 8, 8, 9), list.Back}, // row 7 is on page 2 now
			{numbered(2, 9, 4, 5, 6), list.Next}, // and back on page 3
			{numbered(3, 8, 8, 9), list.Back}, {numbered(2, 8, 5, 6, 7), list.Next}, {numbered(3, 8, 8, 9), list.Last},
		},
		"rows were inserted before": {
			first, {numbered(2, 10, 3, 4, 5), list.Next}, {numbered(3, 10, 6, 7, 8), list.Next}, {numbered(4, 10, 9), list.Last},
		},
	}
	for name, visits := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			classify(t, list.NewProgress(1, list.Complete), visits...)
		})
	}
}

func TestProgress_LastPageFalls_GoesBackAPage(t *testing.T) {
	t.Parallel()
	page := func(number, last int, rows ...int64) list.Page {
		return list.Page{Number: number, Rows: rows, SaysIfMore: true, More: number < last, Last: last}
	}
	classify(t, list.NewProgress(1, list.Complete),
		visit{page(1, 3, 1, 2, 3), list.Next}, visit{page(2, 2, 5, 6), list.Back},
		visit{page(1, 2, 2, 3, 4), list.Next}, visit{page(2, 2, 5, 6), list.Last})

	classify(t, list.NewProgress(1, list.Complete),
		visit{page(1, 3, 1, 2, 3), list.Next}, visit{page(2, 3, 4, 5, 6), list.Next}, visit{page(3, 2), list.Back},
		visit{page(2, 3, 4, 5, 6), list.Next}, // it has grown, so that a row may have moved away before it was seen here
		visit{page(3, 2), list.Back}, visit{page(2, 2, 5, 6, 7), list.Last})

	silent := list.Page{Number: 2, Rows: []int64{4, 5, 6}, SaysIfMore: true, More: true}
	classify(t,
		list.NewProgress(1, list.Complete), visit{page(1, 4, 1, 2, 3), list.Next}, visit{silent, list.Next},
		visit{page(3, 3, 8, 9), list.Back},
	)
}

// A page that the page before announced, and that is empty, may mean that rows were deleted. The walk goes back one
// page, to see whether rows have moved there.
func TestProgress_AnnouncedPageIsEmpty(t *testing.T) {
	t.Parallel()
	page := func(number int, more bool, rows ...int64) list.Page {
		return list.Page{Number: number, Rows: rows, SaysIfMore: true, More: more}
	}
	// Rows 1 to 3 were deleted, so 4 and 5 have moved to page 1.
	classify(t, list.NewProgress(1, list.Complete),
		visit{page(1, true, 1, 2, 3), list.Next},
		visit{page(2, false), list.Back},
		visit{page(1, false, 4, 5), list.Last})

	// Nothing has moved: the service hides some rows of each page, and all of page 2.
	classify(t, list.NewProgress(1, list.Complete),
		visit{page(1, true, 1, 2, 3), list.Next},
		visit{page(2, false), list.Back},
		visit{page(1, true, 1, 2, 3), list.Next},
		visit{page(2, false), list.Last})
}

// If a service does not report numbers, several pages may be gone. Earlier pages are read until a row is known, or
// from the start.
func TestProgress_SeveralPagesGone_GoesBackToAKnownRow(t *testing.T) {
	t.Parallel()
	page := func(number int, more bool, rows ...int64) list.Page {
		return list.Page{Number: number, Rows: rows, SaysIfMore: true, More: more}
	}
	progress := list.NewProgress(1, list.Complete)
	classify(t, progress,
		visit{page(1, true, 1, 2), list.Next}, visit{page(2, true, 3, 4), list.Next}, visit{page(3, true, 5, 6), list.Next},
		visit{page(4, false), list.Back}, // all of these were deleted
		visit{page(3, false), list.Back}, visit{page(2, false, 9, 10), list.Back},
		visit{page(1, true, 7, 8), list.Next}, visit{page(2, false, 9, 10), list.Last})
	assert.Equal(t, 10, progress.Count())
}

func TestProgressBefore_FewerPages_ReturnsTheLast(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 4, list.NewProgress(1, list.Complete).Before(list.Page{Number: 5}))
	assert.Equal(t, 4, list.NewProgress(1, list.Complete).Before(list.Page{Number: 5, Last: 9}))
	assert.Equal(t,
		2, list.NewProgress(1, list.Complete).Before(list.Page{Number: 5, Last: 2}), "pages that are gone are not read",
	)
	assert.Equal(t,
		3, list.NewProgress(3, list.Complete).Before(list.Page{Number: 5, Last: 2}), "nor those before the start",
	)
}

func TestProgress_StartInTheMiddle_DoesNotGoBeforeIt(t *testing.T) {
	t.Parallel()
	progress := list.NewProgress(2, list.Complete)
	classify(t, progress,
		visit{numbered(2, 12, 4, 5, 6), list.Next}, visit{numbered(3, 11, 8, 9, 10), list.Back},
		visit{numbered(2, 11, 5, 6, 7), list.Next},
		visit{numbered(3, 6), list.Back}, visit{numbered(2, 6, 10, 11, 12), list.BeforeStart})
}

// A walk ends at the third page in a row without a new row. Otherwise a service that returns the same rows for every
// page would keep it going.
func TestProgress_ThirdPageWithoutANewRow_EndsTheWalk(t *testing.T) {
	t.Parallel()
	sameRows := func(number int) list.Page { return numbered(number, 300, 1, 2, 3) }
	classify(t, list.NewProgress(1, list.Complete),
		visit{sameRows(1), list.Next},
		visit{sameRows(2), list.Next},
		visit{sameRows(3), list.Next},
		visit{sameRows(4), list.NoProgress})

	// Each time page 2 is read, the list has become shorter, and the page begins with an unknown row. So the walk goes
	// back to page 1. Only the repeated reads of page 1 count as pages without a new row.
	first := func(total int) list.Page { return numbered(1, total, 1, 2, 3) }
	second := func(total int) list.Page { return numbered(2, total, int64(1000+total), 5, 6) }
	classify(t, list.NewProgress(1, list.Complete),
		visit{first(100), list.Next},
		visit{second(99), list.Back},
		visit{first(99), list.Next},
		visit{second(98), list.Back},
		visit{first(98), list.Next},
		visit{second(97), list.Back},
		visit{first(97), list.NoProgress})
}

func TestProgress_Cursors_DoNotGoBack(t *testing.T) {
	t.Parallel()
	page := func(total int, more bool, rows ...int64) list.Page {
		return list.Page{Rows: rows, SaysIfMore: true, More: more, Total: total}
	}
	progress := list.NewProgress(1, list.Complete)
	classify(t,
		progress, visit{numbered(1, 9, 1, 2, 3), list.Next}, visit{page(9, true, 4, 5, 6), list.Next},
		visit{page(9, false, 7, 8, 9), list.Last},
	)
	assert.Equal(t, list.Whole, progress.Finish(false))

	// Some cursors are numbers in disguise: a list that shrank is walked again.
	progress = list.NewProgress(0, list.Complete)
	classify(t, progress, visit{page(9, true, 1, 2, 3), list.Next}, visit{page(8, false, 5, 6, 7), list.Last})
	assert.Equal(t, list.Again, progress.Finish(false))
	classify(t, progress, visit{page(8, true, 2, 3, 4), list.Next}, visit{page(8, false, 5, 6, 7), list.Last})
	assert.Equal(t, list.Again, progress.Finish(false), "it brought a row")
	classify(t, progress, visit{page(8, true, 2, 3, 4), list.Next}, visit{page(8, false, 5, 6, 7), list.Last})
	assert.Equal(t, list.Whole, progress.Finish(false))
}

func TestProgress_TotalAboveRows_WalksAgain(t *testing.T) {
	t.Parallel()
	progress := list.NewProgress(1, list.Complete)
	classify(t, progress, visit{numbered(1, 4, 1, 2, 3), list.Next}, visit{numbered(2, 5, 3, 4), list.Last})
	assert.Equal(t, list.Again, progress.Finish(false), "a row was inserted before")
	assert.Zero(t, progress.Count())
	classify(t, progress, visit{numbered(1, 5, 9, 1, 2), list.Whole})
	assert.Equal(t, list.Whole, progress.Finish(false))

	progress = list.NewProgress(1, list.Complete)
	classify(t, progress, visit{numbered(1, 3, 1, 2), list.Last})
	assert.Equal(t, list.Again, progress.Finish(false))
	classify(t, progress, visit{list.Page{Number: 1, Rows: []int64{1, 2}, SaysIfMore: true}, list.Last})
	assert.Equal(t, list.TooFew, progress.Finish(false), "what was told still holds")

	for name, tt := range map[string]struct {
		start  int
		page   list.Page
		ending list.Step
	}{
		"from the second page":       {2, numbered(2, 6, 4, 5, 6), list.Whole},
		"short from the second page": {2, numbered(2, 6, 4, 5), list.Again},
		"from the second of unknown size": {
			2, list.Page{Number: 2, Rows: []int64{4}, SaysIfMore: true, Total: 6}, list.Whole,
		},
		"short from the second of one row": {
			2, list.Page{Number: 2, Rows: []int64{2}, SaysIfMore: true, Total: 6, Size: 1}, list.Again,
		},
		"short from an empty last page":    {3, numbered(3, 7), list.TooFew},
		"from a cursor nobody knows where": {0, list.Page{Rows: []int64{4}, SaysIfMore: true, Total: 6}, list.Whole},
	} {
		progress := list.NewProgress(tt.start, list.Complete)
		classify(t, progress, visit{tt.page, list.Last})
		assert.Equal(t, tt.ending, progress.Finish(false), name)
	}
}

// The reader deletes a row that was shown, while another one is missing. The total then fits, but the row is still
// missing.
func TestProgress_FallingTotal_DoesNotFindAMissingRow(t *testing.T) {
	t.Parallel()
	progress := list.NewProgress(1, list.Complete)
	classify(t, progress, visit{numbered(1, 6, 1, 2, 3), list.Next}, visit{numbered(2, 6, 4, 5), list.Last})
	assert.Equal(t, list.Again, progress.Finish(false))
	classify(t, progress, visit{numbered(1, 5, 1, 2, 3), list.Next})
	classify(t, progress, visit{numbered(2, 5, 4, 6), list.Last})
	assert.Equal(t, list.Whole, progress.Finish(false))
}

func TestProgress_RuleVerified_WalksUntilNothingIsNew(t *testing.T) {
	t.Parallel()
	page := func(rows ...int64) list.Page { return list.Page{Number: 1, Rows: rows, SaysIfMore: true} }
	progress := list.NewProgress(1, list.Verified)
	classify(t, progress, visit{page(1), list.Last})
	assert.Equal(t, list.Again, progress.Finish(false))
	classify(t, progress, visit{page(1, 2), list.Last})
	assert.Equal(t, list.Again, progress.Finish(false))
	classify(t, progress, visit{page(2), list.Last})
	assert.Equal(t, list.Again, progress.Finish(false), "where rows went, others may have moved unseen")
	classify(t, progress, visit{page(2), list.Last})
	assert.Equal(t, list.Whole, progress.Finish(false))

	progress = list.NewProgress(1, list.Verified)
	for n := range int64(5) {
		classify(t, progress, visit{page(n + 1), list.Last})
		assert.True(t, progress.Seen(n+1))
		assert.False(t, progress.Seen(n), "a row of an earlier walk")
		want := list.Again
		if n == 4 {
			want = list.Unstable
		}
		assert.Equal(t, want, progress.Finish(false))
	}

	progress = list.NewProgress(1, list.Verified)
	classify(t, progress, visit{page(), list.Last})
	assert.Equal(t, list.Whole, progress.Finish(false), "an empty list has nothing to be looked for again")
}

// A start far after the end of the list is not short of rows, however large its number.
func TestProgress_StartAfterAllRows_IsNotShort(t *testing.T) {
	t.Parallel()
	const start = 1 << (strconv.IntSize - 2)
	progress := list.NewProgress(start, list.Complete)
	step, _ := progress.Classify(list.Page{Number: start, SaysIfMore: true, Total: 10, Size: 4})
	assert.Equal(t, list.Last, step)
	assert.Equal(t, list.Whole, progress.Finish(false))
}

// An empty page without a total shows that no row is left. The total of an earlier page no longer counts.
func TestProgress_EmptiedList_IsNotShort(t *testing.T) {
	t.Parallel()
	progress := list.NewProgress(1, list.Complete)
	for _, tc := range []struct {
		page list.Page
		want list.Step
	}{
		{numbered(1, 6, 1, 2, 3), list.Next},
		{list.Page{Number: 2, SaysIfMore: true}, list.Back},
		{list.Page{Number: 1, SaysIfMore: true}, list.Last},
	} {
		step, _ := progress.Classify(tc.page)
		assert.Equal(t, tc.want, step)
	}
	assert.Equal(t, list.Whole, progress.Finish(false))
}

// With the rule Twice a list of several pages is walked twice, even if the second walk finds new rows. A walk must show
// the rows that were announced when it began, and need not show those that were inserted since.
func TestProgress_RuleTwice_EndsAfterTwoWalks(t *testing.T) {
	t.Parallel()
	withoutTotal := list.Page{Number: 1, Rows: []int64{1}, SaysIfMore: true, More: true}
	missing := []visit{{numbered(1, 5, 1, 2, 3), list.Next}, {numbered(2, 5, 4), list.Last}} // 4 rows of 5
	lateTotal := []visit{{withoutTotal, list.Next}, {numbered(2, 6, 2, 3), list.Last}}       // 3 rows of 6
	grown := visit{numbered(2, 6, 3, 4), list.Last}                                          // page 1 told a total of 5
	type walk struct {
		visits []visit
		early  bool // no row after the last visit matters
		want   list.Step
	}
	for name, walks := range map[string][]walk{
		"a single page": {{visits: []visit{{numbered(1, 2, 1, 2), list.Last}}, want: list.Whole}},
		"a row is inserted before each walk, and one after its first page": {
			{visits: []visit{{numbered(1, 5, 10, 1, 2), list.Next}, grown}, want: list.Again},
			{visits: []visit{{numbered(1, 5, 20, 1, 2), list.Next}, grown}, want: list.Whole},
		},
		"a row is missing in each walk": {
			{visits: missing, want: list.Again}, {visits: missing, want: list.TooFew},
		},
		"only the last page tells the total, and rows are missing": {
			{visits: lateTotal, want: list.Again}, {visits: lateTotal, want: list.TooFew},
		},
		"the end comes early, after one page": {
			{visits: []visit{{numbered(1, 9, 1, 2, 3), list.Next}}, early: true, want: list.Whole},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			progress := list.NewProgress(1, list.Twice)
			for _, walk := range walks {
				classify(t, progress, walk.visits...)
				assert.Equal(t, walk.want, progress.Finish(walk.early))
			}
		})
	}
}

// An inserted row hides that another was deleted, so nothing shows that the other rows have moved.
func TestProgress_RuleTwice_FindsWhatAnInsertionHides(t *testing.T) {
	t.Parallel()
	for rule, found := range map[list.Rule]bool{list.Twice: true, list.Complete: false} {
		progress := list.NewProgress(1, rule)
		// Row 1 was deleted and row 7 inserted in between.
		classify(t, progress, visit{numbered(1, 6, 1, 2, 3), list.Next}, visit{numbered(2, 6, 5, 6, 7), list.Last})
		if progress.Finish(false) == list.Again {
			classify(t, progress, visit{numbered(1, 6, 2, 3, 4), list.Next}, visit{numbered(2, 6, 5, 6, 7), list.Last})
		}
		assert.Equal(t, found, progress.Seen(4), rule)
	}
}

// With the rule AsGiven a walk never goes back, and never reports missing rows.
func TestProgress_RuleAsGiven_NeverGoesBack(t *testing.T) {
	t.Parallel()
	progress := list.NewProgress(1, list.AsGiven)
	classify(t, progress, visit{numbered(1, 9, 1, 2, 3), list.Next}, visit{numbered(2, 4, 6), list.Whole})
}
