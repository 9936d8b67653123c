package walk_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/clinicaldoc/clinicaldoc-go/internal/walk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shelf serves pages by position and notes which were asked for.
type shelf struct {
	mu    sync.Mutex
	asked []walk.Position
	serve func(at walk.Position) (walk.Page, error)
}

func (s *shelf) fetch(_ context.Context, at walk.Position, responded func()) (walk.Page, string, error) {
	s.mu.Lock()
	s.asked = append(s.asked, at)
	s.mu.Unlock()
	page, err := s.serve(at)
	if err == nil {
		responded()
	}
	return page, fmt.Sprintf("%+v", at), err
}

// through walks to the end and returns the rows that were to be shown.
func (s *shelf) through(t *testing.T, list walk.List[string]) (rows []int64, failure error) {
	t.Helper()
	list.Fetch, list.MaxSize, list.Orders = s.fetch, 100, [2]string{"other", "own"}
	for visit, err := range walk.Through(t.Context(), list) {
		require.NoError(t, failure, "nothing comes after an error")
		if failure = err; err != nil {
			assert.Empty(t, visit.New)
			continue
		}
		var at walk.Position
		_, err := fmt.Sscanf(visit.Value, "{Number:%d ", &at.Number)
		require.NoError(t, err)
		page, err := s.serve(at)
		require.NoError(t, err)
		for _, i := range visit.New {
			rows = append(rows, page.Rows[i])
		}
	}
	return rows, failure
}

func at(numbers ...int) []walk.Position {
	var positions []walk.Position
	for _, n := range numbers {
		positions = append(positions, walk.Position{Number: n})
	}
	return positions
}

func TestNothingIsRequestedBeyondTheEnd(t *testing.T) {
	t.Parallel()
	rows := func(number int) []int64 { return []int64{int64(2*number - 1), int64(2 * number)} }
	tests := map[string]struct {
		serve func(at walk.Position) (walk.Page, error)
		asked []walk.Position
	}{
		"last page known": {
			func(at walk.Position) (walk.Page, error) {
				n := max(at.Number, 1)
				return walk.Page{Rows: rows(n), SaysIfMore: true, More: n < 4, Last: 4}, nil
			}, at(0, 2, 3, 4),
		},
		"last page known, next not": {
			func(at walk.Position) (walk.Page, error) {
				return walk.Page{Rows: rows(max(at.Number, 1)), More: true, Last: 2}, nil
			}, at(0, 2),
		},
		"next page told": {
			func(at walk.Position) (walk.Page, error) {
				n := max(at.Number, 1)
				return walk.Page{Rows: rows(n), SaysIfMore: true, More: n < 3}, nil
			}, at(0, 2, 3),
		},
		"nothing told": {
			func(at walk.Position) (walk.Page, error) {
				if n := max(at.Number, 1); n < 3 {
					return walk.Page{Rows: rows(n), More: true}, nil
				}
				return walk.Page{}, nil
			}, at(0, 1, 2, 3),
		},
		"nothing told, counted from 0": {
			func(at walk.Position) (walk.Page, error) {
				if at.Number < 3 {
					return walk.Page{Rows: rows(at.Number + 1), More: true}, nil
				}
				return walk.Page{}, nil
			}, at(0, 1, 2, 3),
		},
		"everything at once": {
			func(at walk.Position) (walk.Page, error) {
				page := walk.Page{Rows: []int64{1, 2, 3}, More: true}
				if at.Order == "other" {
					slices.Reverse(page.Rows)
				}
				return page, nil
			}, append(at(0, 1, 2), walk.Position{Order: "other", Size: 4}),
		},
	}
	for name, tt := range tests {
		for _, ahead := range []int{0, 1, 2, 64} {
			t.Run(fmt.Sprint(name, ahead), func(t *testing.T) {
				t.Parallel()
				s := &shelf{serve: tt.serve}
				_, err := s.through(t, walk.List[string]{Ahead: ahead})
				require.NoError(t, err)
				assert.ElementsMatch(t, tt.asked, s.asked)
			})
		}
	}
}

func TestPagesCountedFromZeroAreAllRead(t *testing.T) {
	t.Parallel()
	s := &shelf{serve: func(at walk.Position) (walk.Page, error) {
		if at.Number > 2 {
			return walk.Page{}, nil
		}
		return walk.Page{Rows: []int64{int64(at.Number + 1)}, More: true}, nil
	}}
	rows, err := s.through(t, walk.List[string]{})
	require.NoError(t, err)
	assert.Equal(t, []int64{1, 2, 3}, rows)
	s.asked = nil
	_, err = s.through(t, walk.List[string]{Start: walk.Position{Number: 1}})
	require.NoError(t, err)
	assert.Equal(t, at(1, 2, 3), s.asked, "who names the first page is not asked twice")
}

func TestPagesAheadWaitForTheDecision(t *testing.T) {
	t.Parallel()
	// Where the last page is not known, a page is requested only when the one before it has said that it follows.
	s := &shelf{serve: func(at walk.Position) (walk.Page, error) {
		n := int64(max(at.Number, 1))
		return walk.Page{Rows: []int64{n}, SaysIfMore: true, More: n < 2}, nil
	}}
	rows, err := s.through(t, walk.List[string]{Ahead: 8})
	require.NoError(t, err)
	assert.Equal(t, []int64{1, 2}, rows)
	assert.Equal(t, at(0, 2), s.asked)
}

func TestThroughStartsWhereItIsTold(t *testing.T) {
	t.Parallel()
	s := &shelf{serve: func(at walk.Position) (walk.Page, error) {
		return walk.Page{Rows: []int64{int64(at.Number)}, SaysIfMore: true, More: at.Number < 5, Last: 5}, nil
	}}
	rows, err := s.through(t, walk.List[string]{Start: walk.Position{Number: 4}})
	require.NoError(t, err)
	assert.Equal(t, []int64{4, 5}, rows)

	cursors := map[string]walk.Page{
		"a": {Rows: []int64{1}, SaysIfMore: true, More: true, Cursor: "b"},
		"b": {Rows: []int64{2}, SaysIfMore: true, More: true, Cursor: "c"},
		"c": {Rows: []int64{3}}, // says nothing, which without a cursor is the end
	}
	s = &shelf{serve: func(at walk.Position) (walk.Page, error) { return cursors[at.Cursor], nil }}
	for _, err := range walk.Through(t.Context(), walk.List[string]{Fetch: s.fetch, Start: walk.Position{Cursor: "a"}, Ahead: 2}) {
		require.NoError(t, err)
	}
	assert.Equal(t, []walk.Position{{Cursor: "a"}, {Cursor: "b"}, {Cursor: "c"}}, s.asked)
}

func TestWhatASilentServiceHides(t *testing.T) {
	t.Parallel()
	failure := errors.New("synthetic")
	// A list of 40 rows of which every page shows the first 15. What else the service heeds differs.
	cut := func(rows []int64, n int) []int64 { return rows[:min(n, len(rows))] }
	list := func(n int, reversed bool) []int64 {
		rows := make([]int64, n)
		for i := range rows {
			rows[i] = int64(i + 1)
		}
		if reversed {
			slices.Reverse(rows)
		}
		return rows
	}
	tests := map[string]struct {
		rows         int
		size, order  bool // heeded
		fails        error
		reason       walk.Reason // empty: whole
		looks, shown int
	}{
		"40, heeds the size":        {rows: 40, size: true, reason: walk.Hidden, looks: 1, shown: 15},
		"40, heeds the order":       {rows: 40, order: true, reason: walk.Hidden, looks: 1, shown: 15},
		"40, heeds both":            {rows: 40, size: true, order: true, reason: walk.Hidden, looks: 1, shown: 15},
		"40, heeds nothing":         {rows: 40, reason: walk.Untold, looks: 2, shown: 15},
		"40, refuses to be asked":   {rows: 40, fails: failure, reason: walk.Untold, looks: 1, shown: 15},
		"15, heeds the size":        {rows: 15, size: true, looks: 2, shown: 15},
		"15, heeds the order":       {rows: 15, order: true, looks: 1, shown: 15},
		"16, heeds the order":       {rows: 16, order: true, reason: walk.Hidden, looks: 1, shown: 15},
		"16, heeds the size":        {rows: 16, size: true, reason: walk.Hidden, looks: 1, shown: 15},
		"15, heeds nothing":         {rows: 15, reason: walk.Untold, looks: 2, shown: 15},
		"a single row":              {rows: 1, looks: 1, shown: 1},
		"emptied in the meantime":   {rows: 0, size: true, order: true, looks: 1, shown: 15},
		"100 pages, heeds the size": {rows: 1500, size: true, reason: walk.Hidden, looks: 1, shown: 15},
	}
	for name, tt := range tests {
		for _, ahead := range []int{0, 2} {
			t.Run(fmt.Sprint(name, ahead), func(t *testing.T) {
				t.Parallel()
				s := &shelf{serve: func(at walk.Position) (walk.Page, error) {
					rows := cut(list(tt.rows, false), 15)
					if tt.rows == 0 {
						rows = list(15, false)
					}
					if at.Order != "" {
						size := 15
						if tt.size {
							size = at.Size
						}
						rows = cut(list(tt.rows, tt.order && at.Order == "other"), size)
						if tt.fails != nil {
							return walk.Page{}, tt.fails
						}
					}
					return walk.Page{Rows: rows, More: len(rows) > 0}, nil
				}}
				rows, err := s.through(t, walk.List[string]{Ahead: ahead})
				assert.Len(t, rows, tt.shown)
				assert.Len(t, s.asked, 3+tt.looks)
				if tt.reason == "" {
					require.NoError(t, err)
					return
				}
				var incomplete *walk.IncompleteError
				require.ErrorAs(t, err, &incomplete)
				assert.Equal(t, tt.reason, incomplete.Reason)
				assert.Equal(t, string(tt.reason), err.Error())
				assert.Equal(t, tt.fails, incomplete.Err)
				assert.True(t, incomplete.Odd())
			})
		}
	}
}

func TestASecondWalkEndsWhenNothingIsMissing(t *testing.T) {
	t.Parallel()
	list := []int64{1, 2, 3, 4, 5, 6}
	s := &shelf{}
	s.serve = func(at walk.Position) (walk.Page, error) {
		n := max(at.Number, 1)
		page := numbered(n, len(list), list[3*(n-1):min(3*n, len(list))]...)
		if n == 1 && len(s.asked) == 1 {
			list = slices.Insert(list, 0, 7) // pushes 6 to a third page
		}
		return page, nil
	}
	var shown int
	for visit, err := range walk.Through(t.Context(), walk.List[string]{Fetch: s.fetch}) {
		require.NoError(t, err)
		shown += len(visit.New)
	}
	assert.Equal(t, 7, shown)
	assert.Equal(t, at(0, 2, 3, 0), s.asked, "the first page is enough to find what was inserted")
}

func TestASingleRowProvesNothingUnlessItWasAskedFor(t *testing.T) {
	t.Parallel()
	s := &shelf{serve: func(at walk.Position) (walk.Page, error) {
		if at.Order != "" {
			return walk.Page{Rows: []int64{1}, More: true}, nil
		}
		return walk.Page{Rows: []int64{1, 2, 3}, More: true}, nil
	}}
	_, err := s.through(t, walk.List[string]{})
	require.NoError(t, err)
	assert.Equal(t, append(at(0, 1, 2), walk.Position{Order: "other", Size: 4}, walk.Position{Order: "own", Size: 1}), s.asked)
}

func TestASizeProvesNothingBeyondItsLimit(t *testing.T) {
	t.Parallel()
	// 150 rows, all pages the first 100, which is the most that can be asked for; the order is not heeded.
	s := &shelf{serve: func(at walk.Position) (walk.Page, error) {
		n := 100
		if at.Size > 0 {
			n = at.Size
		}
		rows := make([]int64, n)
		for i := range rows {
			rows[i] = int64(i + 1)
		}
		return walk.Page{Rows: rows, More: true}, nil
	}}
	rows, err := s.through(t, walk.List[string]{})
	assert.Len(t, rows, 100)
	var incomplete *walk.IncompleteError
	require.ErrorAs(t, err, &incomplete)
	assert.Equal(t, walk.Untold, incomplete.Reason)
	assert.Equal(t, []walk.Position{{}, {Number: 1}, {Number: 2}, {Order: "other", Size: 100}, {Order: "own", Size: 1}}, s.asked)
}

func TestEveryReasonOfAnIncompleteList(t *testing.T) {
	t.Parallel()
	once := func(pages ...walk.Page) func(walk.Position) (walk.Page, error) {
		next := 0
		return func(walk.Position) (walk.Page, error) {
			page := pages[min(next, len(pages)-1)]
			next++
			return page, nil
		}
	}
	tests := map[walk.Reason]struct {
		serve func(walk.Position) (walk.Page, error)
		list  walk.List[string]
		odd   bool
	}{
		walk.NoProgress: {once(walk.Page{Rows: []int64{1}, SaysIfMore: true, More: true}), walk.List[string]{}, true},
		walk.BeforeStart: {
			once(numbered(2, 12, 4, 5, 6), numbered(3, 6), numbered(2, 6, 10, 11, 12)), walk.List[string]{Start: walk.Position{Number: 2}}, false,
		},
		walk.TooFew: {once(walk.Page{Rows: []int64{1}, SaysIfMore: true, Total: 2}), walk.List[string]{}, false},
		walk.Restless: {
			once(walk.Page{Rows: []int64{1}, SaysIfMore: true}, walk.Page{Rows: []int64{2}, SaysIfMore: true}, walk.Page{Rows: []int64{3}, SaysIfMore: true},
				walk.Page{Rows: []int64{4}, SaysIfMore: true}, walk.Page{Rows: []int64{5}, SaysIfMore: true}),
			walk.List[string]{Verify: true}, false,
		},
	}
	for reason, tt := range tests {
		s := &shelf{serve: tt.serve}
		tt.list.Fetch = s.fetch
		var failure error
		for _, err := range walk.Through(t.Context(), tt.list) {
			failure = err
		}
		var incomplete *walk.IncompleteError
		require.ErrorAs(t, failure, &incomplete, reason)
		assert.Equal(t, reason, incomplete.Reason)
		assert.Equal(t, tt.odd, incomplete.Odd(), reason)
	}
}

func TestAnErrorEndsTheWalk(t *testing.T) {
	t.Parallel()
	failure := errors.New("synthetic")
	for ahead := range 3 {
		s := &shelf{serve: func(at walk.Position) (walk.Page, error) {
			if at.Number == 3 {
				return walk.Page{}, failure
			}
			return walk.Page{Rows: []int64{int64(max(at.Number, 1))}, SaysIfMore: true, More: true, Last: 9}, nil
		}}
		list := walk.List[string]{Fetch: s.fetch, Ahead: ahead}
		var values []string
		var errs []error
		for visit, err := range walk.Through(t.Context(), list) {
			values, errs = append(values, visit.Value), append(errs, err)
		}
		require.Equal(t, []error{nil, nil, failure}, errs)
		assert.Contains(t, values[2], "Number:3", "what was fetched beside the error")
	}
}
