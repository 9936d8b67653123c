package list_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/clinicaldoc/clinicaldoc-go/internal/list"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pageSource serves pages by position and notes which were requested.
type pageSource struct {
	mu    sync.Mutex
	asked []list.Position
	serve func(at list.Position) (list.Page, error)
}

func (s *pageSource) fetch(_ context.Context, at list.Position) (list.Page, string, error) {
	s.mu.Lock()
	s.asked = append(s.asked, at)
	s.mu.Unlock()
	page, err := s.serve(at)
	return page, fmt.Sprintf("%+v", at), err
}

// through walks to the end and returns the rows that were to be shown.
func (s *pageSource) through(t *testing.T, l list.List[string]) (rows []int64, failure error) {
	t.Helper()
	l.Fetch = s.fetch
	for visit, err := range list.Through(t.Context(), l) {
		require.NoError(t, failure, "nothing comes after an error")
		if failure = err; err != nil {
			assert.Empty(t, visit.New)
			continue
		}
		var at list.Position
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

func at(numbers ...int) []list.Position {
	var positions []list.Position
	for _, n := range numbers {
		positions = append(positions, list.Position{Number: n})
	}
	return positions
}

func TestThrough_RequestsNothingAfterTheEnd(t *testing.T) {
	t.Parallel()
	rows := func(number int) []int64 { return []int64{int64(2*number - 1), int64(2 * number)} }
	tests := map[string]struct {
		serve func(at list.Position) (list.Page, error)
		asked []list.Position
	}{
		"last page known": {
			func(at list.Position) (list.Page, error) {
				n := max(at.Number, 1)
				return list.Page{Rows: rows(n), SaysIfMore: true, More: n < 4, Last: 4}, nil
			}, at(0, 2, 3, 4),
		},
		"last page known, next not": {
			func(at list.Position) (list.Page, error) {
				return list.Page{Rows: rows(max(at.Number, 1)), More: true, Last: 2}, nil
			}, at(0, 2),
		},
		"next page told": {
			func(at list.Position) (list.Page, error) {
				n := max(at.Number, 1)
				return list.Page{Rows: rows(n), SaysIfMore: true, More: n < 3}, nil
			}, at(0, 2, 3),
		},
		"nothing told": {
			func(at list.Position) (list.Page, error) {
				if n := max(at.Number, 1); n < 3 {
					return list.Page{Rows: rows(n), More: true}, nil
				}
				return list.Page{}, nil
			}, at(0, 1, 2, 3),
		},
		"nothing told, counted from 0": {
			func(at list.Position) (list.Page, error) {
				if at.Number < 3 {
					return list.Page{Rows: rows(at.Number + 1), More: true}, nil
				}
				return list.Page{}, nil
			}, at(0, 1, 2, 3),
		},
		"everything at once": {
			func(at list.Position) (list.Page, error) {
				page := list.Page{Rows: []int64{1, 2, 3}, More: true}
				if at.Reversed {
					slices.Reverse(page.Rows)
				}
				return page, nil
			}, append(at(0, 1, 2), list.Position{Reversed: true, Size: 4}),
		},
	}
	for name, tt := range tests {
		for _, ahead := range []int{0, 1, 2, 64} {
			t.Run(fmt.Sprint(name, ahead), func(t *testing.T) {
				t.Parallel()
				s := &pageSource{serve: tt.serve}
				_, err := s.through(t, list.List[string]{Ahead: ahead})
				require.NoError(t, err)
				assert.ElementsMatch(t, tt.asked, s.asked)
			})
		}
	}
}

func TestThrough_PagesCountedFromZero_AreAllRead(t *testing.T) {
	t.Parallel()
	s := &pageSource{serve: func(at list.Position) (list.Page, error) {
		if at.Number > 2 {
			return list.Page{}, nil
		}
		return list.Page{Rows: []int64{int64(at.Number + 1)}, More: true}, nil
	}}
	rows, err := s.through(t, list.List[string]{})
	require.NoError(t, err)
	assert.Equal(t, []int64{1, 2, 3}, rows)
	s.asked = nil
	_, err = s.through(t, list.List[string]{Start: list.Position{Number: 1}})
	require.NoError(t, err)
	assert.Equal(t, at(1, 2, 3), s.asked, "who names the first page is not asked twice")
}

// A service that counts pages from 0 and reports what follows is asked for page 1 after the first page. A row that moves
// to the first page, because one of that page is deleted, is not missed.
func TestThrough_ReportedPagesCountedFromZero_AreAllRead(t *testing.T) {
	t.Parallel()
	for _, isDeleted := range []bool{false, true} {
		rows := []int64{1, 2, 3, 4, 5, 6}
		fetch := func(_ context.Context, at list.Position) (list.Page, []int64, error) {
			first := min(2*at.Number, len(rows))
			end := min(first+2, len(rows))
			page := list.Page{
				Rows: rows[first:end], SaysIfMore: true, More: end < len(rows), Total: len(rows), FromZero: at.Number == 0,
			}
			if isDeleted {
				isDeleted = false
				rows = rows[1:]
			}
			return page, page.Rows, nil
		}
		var shown []int64
		for visit, err := range list.Through(t.Context(), list.List[[]int64]{Fetch: fetch}) {
			require.NoError(t, err)
			for _, i := range visit.New {
				shown = append(shown, visit.Value[i])
			}
		}
		assert.Equal(t, []int64{1, 2, 3, 4, 5, 6}, shown)
	}
}

func TestThrough_UnknownLastPage_WaitsForEachPage(t *testing.T) {
	t.Parallel()
	// Where the last page is not known, a page is requested only when the one before it has said that it follows.
	s := &pageSource{serve: func(at list.Position) (list.Page, error) {
		n := int64(max(at.Number, 1))
		return list.Page{Rows: []int64{n}, SaysIfMore: true, More: n < 2}, nil
	}}
	rows, err := s.through(t, list.List[string]{Ahead: 8})
	require.NoError(t, err)
	assert.Equal(t, []int64{1, 2}, rows)
	assert.Equal(t, at(0, 2), s.asked)
}

// The next page is requested while this one is read, whether the last page is known or only that one follows, by
// number or by cursor.
func TestThrough_NextPage_IsRequestedAhead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		first list.Page
		next  list.Position
	}{
		"last page known": {list.Page{Rows: []int64{1}, SaysIfMore: true, More: true, Last: 2}, list.Position{Number: 2}},
		"next page told":  {list.Page{Rows: []int64{1}, SaysIfMore: true, More: true}, list.Position{Number: 2}},
		"a cursor": {
			list.Page{Rows: []int64{1}, SaysIfMore: true, More: true, Last: 2, Cursor: "next"}, list.Position{Cursor: "next"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &pageSource{serve: func(at list.Position) (list.Page, error) {
					if at != tt.next {
						return tt.first, nil
					}
					return list.Page{Rows: []int64{2}, SaysIfMore: true, Last: tt.first.Last}, nil
				}}
				for _, err := range list.Through(t.Context(), list.List[string]{Fetch: s.fetch, Ahead: 1}) {
					require.NoError(t, err)
					synctest.Wait()
					assert.Equal(t, []list.Position{{}, tt.next}, s.asked)
				}
			})
		})
	}
}

func TestThrough_StartsAtItsPosition(t *testing.T) {
	t.Parallel()
	s := &pageSource{serve: func(at list.Position) (list.Page, error) {
		return list.Page{Rows: []int64{int64(at.Number)}, SaysIfMore: true, More: at.Number < 5, Last: 5}, nil
	}}
	rows, err := s.through(t, list.List[string]{Start: list.Position{Number: 4}})
	require.NoError(t, err)
	assert.Equal(t, []int64{4, 5}, rows)

	cursors := map[string]list.Page{
		"a": {Rows: []int64{1}, SaysIfMore: true, More: true, Cursor: "b"},
		"b": {Rows: []int64{2}, SaysIfMore: true, More: true, Cursor: "c"},
		"c": {Rows: []int64{3}}, // says nothing, which without a cursor is the end
	}
	s = &pageSource{serve: func(at list.Position) (list.Page, error) { return cursors[at.Cursor], nil }}
	for _, err := range list.Through(
		t.Context(), list.List[string]{Fetch: s.fetch, Start: list.Position{Cursor: "a"}, Ahead: 2},
	) {
		require.NoError(t, err)
	}
	assert.Equal(t, []list.Position{{Cursor: "a"}, {Cursor: "b"}, {Cursor: "c"}}, s.asked)
}

func TestThrough_ServiceReportsNothing_ConfirmsTheEnd(t *testing.T) {
	t.Parallel()
	failure := errors.New("synthetic")
	// A list of 40 rows, of which every page shows the first 15. The cases differ in what else the service follows.
	cut := func(rows []int64, n int) []int64 { return rows[:min(n, len(rows))] }
	upTo := func(n int, reversed bool) []int64 {
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
		size, order  bool // followed by the service
		fails        error
		reason       list.Step // empty: whole
		looks, shown int
	}{
		"40, heeds the size":        {rows: 40, size: true, reason: list.MoreExist, looks: 1, shown: 15},
		"40, heeds the order":       {rows: 40, order: true, reason: list.MoreExist, looks: 1, shown: 15},
		"40, heeds both":            {rows: 40, size: true, order: true, reason: list.MoreExist, looks: 1, shown: 15},
		"40, heeds nothing":         {rows: 40, reason: list.NotKnown, looks: 2, shown: 15},
		"40, refuses to be asked":   {rows: 40, fails: failure, reason: list.NotKnown, looks: 1, shown: 15},
		"15, heeds the size":        {rows: 15, size: true, looks: 2, shown: 15},
		"15, heeds the order":       {rows: 15, order: true, looks: 1, shown: 15},
		"16, heeds the order":       {rows: 16, order: true, reason: list.MoreExist, looks: 1, shown: 15},
		"16, heeds the size":        {rows: 16, size: true, reason: list.MoreExist, looks: 1, shown: 15},
		"15, heeds nothing":         {rows: 15, reason: list.NotKnown, looks: 2, shown: 15},
		"a single row":              {rows: 1, looks: 1, shown: 1},
		"emptied in the meantime":   {rows: 0, size: true, order: true, looks: 1, shown: 15},
		"100 pages, heeds the size": {rows: 1500, size: true, reason: list.MoreExist, looks: 1, shown: 15},
	}
	for name, tt := range tests {
		for _, ahead := range []int{0, 2} {
			t.Run(fmt.Sprint(name, ahead), func(t *testing.T) {
				t.Parallel()
				s := &pageSource{serve: func(at list.Position) (list.Page, error) {
					rows := cut(upTo(tt.rows, false), 15)
					if tt.rows == 0 {
						rows = upTo(15, false)
					}
					if at.Size > 0 {
						size := 15
						if tt.size {
							size = at.Size
						}
						rows = cut(upTo(tt.rows, tt.order && at.Reversed), size)
						if tt.fails != nil {
							return list.Page{}, tt.fails
						}
					}
					return list.Page{Rows: rows, More: len(rows) > 0}, nil
				}}
				rows, err := s.through(t, list.List[string]{Ahead: ahead})
				assert.Len(t, rows, tt.shown)
				assert.Len(t, s.asked, 3+tt.looks)
				if tt.reason == "" {
					require.NoError(t, err)
					return
				}
				var incomplete *list.IncompleteError
				require.ErrorAs(t, err, &incomplete)
				assert.Equal(t, tt.reason, incomplete.Reason)
				assert.Equal(t, string(tt.reason), err.Error())
				assert.Equal(t, tt.fails, incomplete.Err)
			})
		}
	}
}

func TestThrough_SecondWalk_EndsWhenNothingIsMissing(t *testing.T) {
	t.Parallel()
	rows := []int64{1, 2, 3, 4, 5, 6}
	s := &pageSource{}
	s.serve = func(at list.Position) (list.Page, error) {
		n := max(at.Number, 1)
		page := numbered(n, len(rows), rows[3*(n-1):min(3*n, len(rows))]...)
		if n == 1 && len(s.asked) == 1 {
			rows = slices.Insert(rows, 0, 7) // pushes 6 to a third page
		}
		return page, nil
	}
	var shown int
	for visit, err := range list.Through(t.Context(), list.List[string]{Fetch: s.fetch}) {
		require.NoError(t, err)
		shown += len(visit.New)
	}
	assert.Equal(t, 7, shown)
	assert.Equal(t, at(0, 2, 3, 0), s.asked, "the first page is enough to find what was inserted")
}

func TestThrough_SingleRow_ProvesTheEndOnlyIfRequested(t *testing.T) {
	t.Parallel()
	s := &pageSource{serve: func(at list.Position) (list.Page, error) {
		if at.Size > 0 {
			return list.Page{Rows: []int64{1}, More: true}, nil
		}
		return list.Page{Rows: []int64{1, 2, 3}, More: true}, nil
	}}
	_, err := s.through(t, list.List[string]{})
	require.NoError(t, err)
	assert.Equal(t, append(at(0, 1, 2), list.Position{Reversed: true, Size: 4}, list.Position{Size: 1}), s.asked)
}

func TestThrough_SizeAboveTheLimit_ProvesNothing(t *testing.T) {
	t.Parallel()
	// 150 rows, all pages the first 100, which is the largest size; the order is not followed.
	s := &pageSource{serve: func(at list.Position) (list.Page, error) {
		n := 100
		if at.Size > 0 {
			n = at.Size
		}
		rows := make([]int64, n)
		for i := range rows {
			rows[i] = int64(i + 1)
		}
		return list.Page{Rows: rows, More: true}, nil
	}}
	rows, err := s.through(t, list.List[string]{})
	assert.Len(t, rows, 100)
	var incomplete *list.IncompleteError
	require.ErrorAs(t, err, &incomplete)
	assert.Equal(t, list.NotKnown, incomplete.Reason)
	assert.Equal(t, []list.Position{{}, {Number: 1}, {Number: 2}, {Reversed: true, Size: 100}, {Size: 1}}, s.asked)
}

func TestThrough_EveryIncompleteList_HasItsReason(t *testing.T) {
	t.Parallel()
	once := func(pages ...list.Page) func(list.Position) (list.Page, error) {
		next := 0
		return func(list.Position) (list.Page, error) {
			page := pages[min(next, len(pages)-1)]
			next++
			return page, nil
		}
	}
	tests := map[list.Step]struct {
		serve func(list.Position) (list.Page, error)
		list  list.List[string]
	}{
		// The same page again and again.
		list.NoProgress: {once(list.Page{Rows: []int64{1}, SaysIfMore: true, More: true}), list.List[string]{}},
		// The walk starts at page 2, and the list becomes shorter. Page 2 then begins with an unknown row, so unseen
		// rows may be on page 1 by now.
		list.BeforeStart: {
			once(numbered(2, 12, 4, 5, 6), numbered(3, 6), numbered(2, 6, 10, 11, 12)),
			list.List[string]{Start: list.Position{Number: 2}},
		},
		// The total says that there are two rows.
		list.TooFew: {once(list.Page{Rows: []int64{1}, SaysIfMore: true, Total: 2}), list.List[string]{}},
		// Each walk has one page, and each time it has another row.
		list.Unstable: {
			once(
				list.Page{Rows: []int64{1}, SaysIfMore: true}, list.Page{Rows: []int64{2}, SaysIfMore: true},
				list.Page{Rows: []int64{3}, SaysIfMore: true},
				list.Page{Rows: []int64{4}, SaysIfMore: true}, list.Page{Rows: []int64{5}, SaysIfMore: true},
			),
			list.List[string]{Rule: list.Verified},
		},
	}
	for reason, tt := range tests {
		s := &pageSource{serve: tt.serve}
		tt.list.Fetch = s.fetch
		var failure error
		for _, err := range list.Through(t.Context(), tt.list) {
			failure = err
		}
		var incomplete *list.IncompleteError
		require.ErrorAs(t, failure, &incomplete, reason)
		assert.Equal(t, reason, incomplete.Reason)
	}
}

func TestThrough_Error_EndsTheWalk(t *testing.T) {
	t.Parallel()
	failure := errors.New("synthetic")
	for ahead := range 3 {
		s := &pageSource{serve: func(at list.Position) (list.Page, error) {
			if at.Number == 3 {
				return list.Page{}, failure
			}
			return list.Page{Rows: []int64{int64(max(at.Number, 1))}, SaysIfMore: true, More: true, Last: 9}, nil
		}}
		l := list.List[string]{Fetch: s.fetch, Ahead: ahead}
		var values []string
		var errs []error
		for visit, err := range list.Through(t.Context(), l) {
			values, errs = append(values, visit.Value), append(errs, err)
		}
		require.Equal(t, []error{nil, nil, failure}, errs)
		assert.Contains(t, values[2], "Number:3", "what was fetched beside the error")
	}
}

func TestThrough_Enough_EndsTheWalk(t *testing.T) {
	t.Parallel()
	s := &pageSource{serve: func(at list.Position) (list.Page, error) {
		n := max(at.Number, 1)
		return numbered(n, 30, int64(3*n), int64(3*n+1), int64(3*n+2)), nil
	}}
	for stop, asked := range map[string][]list.Position{
		fmt.Sprintf("%+v", list.Position{}):          at(0),
		fmt.Sprintf("%+v", list.Position{Number: 3}): at(0, 2, 3, 0, 2, 3),
	} {
		s.asked = nil
		for visit, err := range list.Through(t.Context(), list.List[string]{Fetch: s.fetch, Rule: list.Twice}) {
			require.NoError(t, err)
			*visit.Enough = visit.Value == stop
		}
		assert.Equal(t, asked, s.asked, "the second walk ends likewise")
	}
}

// The caller can end the walk early, by Enough, at a page whose rows are used and after which another page is read. The
// second page is rejected, because the total fell. The fifth is the last.
func TestThrough_Enough_IsNilOnRejectedAndLastPages(t *testing.T) {
	t.Parallel()
	pages := []list.Page{
		numbered(1, 9, 1, 2, 3), numbered(2, 8, 5, 6, 7), numbered(1, 8, 2, 3, 4), numbered(2, 8, 5, 6, 7),
		numbered(3, 8, 8, 9),
	}
	var asked []int
	s := &pageSource{}
	s.serve = func(list.Position) (list.Page, error) { return pages[(len(s.asked)-1)%5], nil }
	for visit, err := range list.Through(t.Context(), list.List[string]{Fetch: s.fetch, Rule: list.Complete}) {
		require.NoError(t, err)
		if visit.Enough != nil {
			asked = append(asked, len(s.asked))
		}
	}
	assert.Equal(t, []int{1, 3, 4}, asked)
}

func TestThrough_RuleAsGiven_EndsWithoutAnError(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(list.Position) (list.Page, error){
		"the same page for ever": func(list.Position) (list.Page, error) {
			return list.Page{Rows: []int64{1}, SaysIfMore: true, More: true}, nil
		},
		"a cursor that leads to itself": func(list.Position) (list.Page, error) {
			return list.Page{Rows: []int64{1}, SaysIfMore: true, More: true, Cursor: "c"}, nil
		},
		"everything at once": func(list.Position) (list.Page, error) {
			return list.Page{Rows: []int64{1, 2}, More: true}, nil
		},
		"too few rows": func(list.Position) (list.Page, error) { return numbered(1, 9, 1), nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &pageSource{serve: serve}
			for _, err := range list.Through(t.Context(), list.List[string]{Fetch: s.fetch, Rule: list.AsGiven}) {
				require.NoError(t, err)
			}
			assert.LessOrEqual(t, len(s.asked), 5)
		})
	}
}
