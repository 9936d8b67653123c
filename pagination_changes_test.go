package clinicaldoc_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jarcoal/httpmock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// The tests of this file read lists that change meanwhile, or of which nothing tells whether they are whole.

// filledBox is a box with notes 1 to n, a minute apart.
func filledBox(t *testing.T, n int, variant clinicaldoctest.Variant) *clinicaldoctest.Server {
	t.Helper()
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithVariant(variant))
	t.Cleanup(srv.Close)
	for i := range n {
		srv.AddNote(clinicaldoctest.Note{PatientID: 4711, CreatedAt: srv.Now().Add(time.Duration(i-n) * time.Minute)})
	}
	return srv
}

// upTo is 1 to n.
func upTo(n int) []int64 {
	ids := make([]int64, n)
	for i := range ids {
		ids[i] = int64(i + 1)
	}
	return ids
}

var everySort = []clinicaldoc.Sort{"", clinicaldoc.SortLatest, clinicaldoc.SortOldest}

func TestAllYieldsEveryNoteWhileTheLoopDeletesThem(t *testing.T) {
	t.Parallel()
	for name, variant := range map[string]clinicaldoctest.Variant{
		"length-aware":    {},
		"flat":            {Pagination: clinicaldoctest.PaginationFlat},
		"cursor":          {Pagination: clinicaldoctest.PaginationCursor},
		"cursor in links": {Pagination: clinicaldoctest.PaginationCursorInLinks},
		"all at once":     {Pagination: clinicaldoctest.PaginationNone},
	} {
		for _, sort := range everySort {
			for _, perPage := range []int{0, 10} {
				for _, prefetch := range []int{0, 2} {
					t.Run(fmt.Sprint(name, "/", sort, perPage, prefetch), func(t *testing.T) {
						t.Parallel()
						srv := filledBox(t, 40, variant)
						client := srv.Client()
						var ids []int64
						params := clinicaldoc.ListNotesParams{PatientID: 4711, Sort: sort, PerPage: perPage, Prefetch: prefetch}
						for note, err := range client.Notes.All(t.Context(), params) {
							require.NoError(t, err)
							ids = append(ids, note.ID)
							_, err = client.Notes.Delete(t.Context(), note.ID)
							require.NoError(t, err)
						}
						assert.ElementsMatch(t, upTo(40), ids)
						assert.Empty(t, srv.Notes())
					})
				}
			}
		}
	}
}

func TestAllYieldsEveryNoteThatSomeoneElseLeaves(t *testing.T) {
	t.Parallel()
	for _, sort := range everySort {
		for _, prefetch := range []int{0, 2} {
			for _, victim := range []int64{1, 7, 15, 16, 31, 40} {
				for _, when := range []int{1, 10, 11, 25} {
					t.Run(fmt.Sprint(sort, prefetch, "/", victim, "at", when), func(t *testing.T) {
						t.Parallel()
						srv := filledBox(t, 40, clinicaldoctest.Variant{})
						someone := srv.Client()
						var ids []int64
						for note, err := range srv.Client().Notes.All(t.Context(), clinicaldoc.ListNotesParams{Sort: sort, PerPage: 10, Prefetch: prefetch}) {
							require.NoError(t, err)
							if ids = append(ids, note.ID); len(ids) == when {
								_, err := someone.Notes.Delete(t.Context(), victim)
								require.NoError(t, err)
							}
						}
						ids = slices.DeleteFunc(ids, func(id int64) bool { return id == victim })
						want := slices.DeleteFunc(upTo(40), func(id int64) bool { return id == victim })
						if sort != clinicaldoc.SortOldest {
							slices.Reverse(want)
						}
						assert.Equal(t, want, ids, "every note once, and in order")
					})
				}
			}
		}
	}
}

func TestAllYieldsEveryNoteWhileOthersAreCreated(t *testing.T) {
	t.Parallel()
	for name, variant := range map[string]clinicaldoctest.Variant{
		"length-aware": {}, "simple": {Pagination: clinicaldoctest.PaginationSimple}, "cursor": {Pagination: clinicaldoctest.PaginationCursor},
		"bare": {Pagination: clinicaldoctest.PaginationBare},
	} {
		for _, sort := range everySort {
			for _, prefetch := range []int{0, 2} {
				t.Run(fmt.Sprint(name, "/", sort, prefetch), func(t *testing.T) {
					t.Parallel()
					srv := filledBox(t, 40, variant)
					var ids []int64
					for note, err := range srv.Client().Notes.All(t.Context(), clinicaldoc.ListNotesParams{Sort: sort, PerPage: 10, Prefetch: prefetch}) {
						require.NoError(t, err)
						if ids = append(ids, note.ID); len(ids)%4 == 0 && len(ids) <= 40 {
							srv.AddNote(clinicaldoctest.Note{PatientID: 4711})
						}
					}
					old := slices.DeleteFunc(slices.Clone(ids), func(id int64) bool { return id > 40 })
					assert.ElementsMatch(t, upTo(40), old, "each once")
					slices.Sort(ids)
					assert.Len(t, slices.Compact(ids), len(ids), "nor is a new one yielded twice")
				})
			}
		}
	}
}

func TestVerifyFindsWhatSilentPagesHide(t *testing.T) {
	t.Parallel()
	for name, variant := range map[string]clinicaldoctest.Variant{
		"simple": {Pagination: clinicaldoctest.PaginationSimple}, "bare": {Pagination: clinicaldoctest.PaginationBare},
	} {
		for _, sort := range everySort {
			for _, prefetch := range []int{0, 2} {
				t.Run(fmt.Sprint(name, "/", sort, prefetch), func(t *testing.T) {
					t.Parallel()
					srv := filledBox(t, 40, variant)
					client := srv.Client()
					params := clinicaldoc.ListNotesParams{Sort: sort, Prefetch: prefetch, Verify: true}
					before := params
					var ids []int64
					for note, err := range client.Notes.All(t.Context(), params) {
						require.NoError(t, err)
						ids = append(ids, note.ID)
						_, err = client.Notes.Delete(t.Context(), note.ID)
						require.NoError(t, err)
					}
					assert.ElementsMatch(t, upTo(40), ids)
					assert.Equal(t, before, params)
				})
			}
		}
	}
}

func TestVerifyWalksUntilNothingIsNew(t *testing.T) {
	t.Parallel()
	page := func(ids ...int) call {
		return pagedCall("?per_page=5", `{"data":`+rows(ids...)+`,"links":{"next":null}}`)
	}
	params := clinicaldoc.ListNotesParams{PerPage: 5, Verify: true}
	for name, tt := range map[string]struct {
		calls []call
		ids   []int64
		match error
	}{
		"unchanged":        {[]call{page(1, 2), page(1, 2)}, []int64{1, 2}, nil},
		"empty":            {[]call{page()}, nil, nil},
		"a row more":       {[]call{page(1, 2), page(3, 1), page(3, 1)}, []int64{1, 2, 3}, nil},
		"new in the fifth": {[]call{page(1), page(2), page(3), page(4), page(5)}, []int64{1, 2, 3, 4, 5}, clinicaldoc.ErrIncompleteList},
		"none in the fifth": {
			[]call{page(1), page(2), page(3), page(4), page(2, 4)}, []int64{1, 2, 3, 4}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ids, err := collect(t, serve(t, tt.calls...).Notes.All(t.Context(), params))
			require.ErrorIs(t, err, tt.match)
			assert.Equal(t, tt.ids, ids)
		})
	}
}

// silent is a service that tells nothing of its pages and does not know the page parameter, as a list made for cursors
// does. The other names are left to the test.
func silent(names clinicaldoctest.QueryNames) clinicaldoctest.Variant {
	names.Page = "not[page]"
	return clinicaldoctest.Variant{Pagination: clinicaldoctest.PaginationBare, Query: names}
}

func TestAllNeverTakesAPartForTheWhole(t *testing.T) {
	t.Parallel()
	unknownSize := clinicaldoctest.QueryNames{PerPage: "not[size]"}
	unknownSort := clinicaldoctest.QueryNames{Sort: "not[sort]"}
	unknown := clinicaldoctest.QueryNames{PerPage: "not[size]", Sort: "not[sort]"}
	all := clinicaldoctest.Variant{Pagination: clinicaldoctest.PaginationNone}
	for name, tt := range map[string]struct {
		variant clinicaldoctest.Variant
		notes   int
		whole   map[int]bool // by page size asked for
	}{
		"page unknown":                         {silent(clinicaldoctest.QueryNames{}), 40, map[int]bool{0: false, 10: false, 100: true}},
		"page and size unknown":                {silent(unknownSize), 40, map[int]bool{0: false, 10: false, 100: false}},
		"page and sort unknown":                {silent(unknownSort), 40, map[int]bool{0: false, 10: false, 100: true}},
		"nothing known":                        {silent(unknown), 40, map[int]bool{0: false, 10: false, 100: false}},
		"page unknown, one page":               {silent(clinicaldoctest.QueryNames{}), 12, map[int]bool{0: true, 10: false, 100: true}},
		"page unknown, exactly one page":       {silent(clinicaldoctest.QueryNames{}), 15, map[int]bool{0: true, 15: true, 100: true}},
		"page and size unknown, one page":      {silent(unknownSize), 12, map[int]bool{0: true, 10: true, 100: true}},
		"page unknown, one row":                {silent(unknown), 1, map[int]bool{0: true, 100: true}},
		"everything at once":                   {all, 40, map[int]bool{0: true, 10: true, 100: true}},
		"everything at once, more than a page": {all, 120, map[int]bool{0: true, 10: true, 100: true}},
	} {
		for perPage, whole := range tt.whole {
			for _, sort := range everySort {
				for _, prefetch := range []int{0, 2} {
					t.Run(fmt.Sprint(name, "/", perPage, sort, prefetch), func(t *testing.T) {
						t.Parallel()
						srv := filledBox(t, tt.notes, tt.variant)
						client, err := clinicaldoc.NewClient(srv.URL, srv.Token) // which knows none of the box's names
						require.NoError(t, err)
						ids, err := collect(t, client.Notes.All(t.Context(), clinicaldoc.ListNotesParams{PerPage: perPage, Sort: sort, Prefetch: prefetch}))
						if !whole {
							require.ErrorIs(t, err, clinicaldoc.ErrIncompleteList)
							require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
							require.ErrorContains(t, err, "WithQueryNames")
							return
						}
						require.NoError(t, err)
						assert.ElementsMatch(t, upTo(tt.notes), ids)
					})
				}
			}
		}
	}
}

func TestATotalAboveTheRowsIsAnIncompleteList(t *testing.T) {
	t.Parallel()
	page := func(query string, total int, ids ...int) call {
		return pagedCall(query, fmt.Sprintf(`{"data":%s,"meta":{"current_page":1,"last_page":1,"total":%d}}`, rows(ids...), total))
	}
	// One more look finds what moved to the front, or that there is nothing.
	ids, err := collect(t, serve(t, page("", 3, 2, 1), page("", 3, 3, 2, 1)).Notes.All(t.Context(), clinicaldoc.ListNotesParams{}))
	require.NoError(t, err)
	assert.Equal(t, []int64{2, 1, 3}, ids)

	ids, err = collect(t, serve(t, page("", 3, 2, 1), page("", 3, 2, 1)).Notes.All(t.Context(), clinicaldoc.ListNotesParams{}))
	require.ErrorIs(t, err, clinicaldoc.ErrIncompleteList)
	require.NotErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	assert.Equal(t, "clinicaldoc: Notes.List (GET /v1/progress-notes): the list may be incomplete: the service tells of more rows than it gives", err.Error())
	assert.Equal(t, []int64{2, 1}, ids)
}

// moving is a list that changes between one request and the next: by deletions or by insertions, never by both at once,
// which would cancel out in its total.
type moving struct {
	mu      sync.Mutex
	random  *rand.Rand
	ids     []int64 // in the list's order
	kept    map[int64]bool
	nextID  int64
	size    int
	only    string // what changes; empty: now this, now that
	changes int    // how many are left
}

func newMoving(random *rand.Rand, only string) *moving {
	m := &moving{random: random, kept: map[int64]bool{}, size: 1 + random.IntN(5), only: only, changes: random.IntN(12)}
	m.ids = upTo(random.IntN(30))
	m.nextID = int64(len(m.ids) + 1)
	for _, id := range m.ids {
		m.kept[id] = true
	}
	return m
}

func (m *moving) change() {
	if m.changes == 0 || m.random.IntN(2) == 0 {
		return
	}
	m.changes--
	deletes := m.only == "deletions" || m.only == "" && m.random.IntN(2) == 0
	for range 1 + m.random.IntN(m.size+1) {
		switch place := m.random.IntN(len(m.ids) + 1); {
		case !deletes:
			m.ids = slices.Insert(m.ids, place, m.nextID)
			m.nextID++
		case place < len(m.ids):
			delete(m.kept, m.ids[place])
			m.ids = slices.Delete(m.ids, place, place+1)
		}
	}
}

func (m *moving) respond(req *http.Request) (*http.Response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.change()
	number, _ := strconv.Atoi(req.URL.Query().Get("page"))
	number = max(number, 1)
	from, to := min((number-1)*m.size, len(m.ids)), min(number*m.size, len(m.ids))
	var page []int
	for _, id := range m.ids[from:to] {
		page = append(page, int(id))
	}
	return httpmock.NewStringResponse(http.StatusOK, fmt.Sprintf(`{"data":%s,"meta":{"current_page":%d,"last_page":%d,"per_page":%d,"total":%d}}`,
		rows(page...), number, max(1, (len(m.ids)+m.size-1)/m.size), m.size, len(m.ids))), nil
}

func TestAllYieldsWhatWasThereThroughoutOrSaysThatItCannot(t *testing.T) {
	t.Parallel()
	for _, only := range []string{"", "deletions", "insertions"} {
		for _, prefetch := range []int{0, 3} {
			if only == "" && prefetch > 0 {
				continue // between pages that are under way together, deletions and insertions cancel out
			}
			t.Run(fmt.Sprint(only, prefetch), func(t *testing.T) {
				t.Parallel()
				incomplete := 0
				for seed := range uint64(300) {
					m := newMoving(rand.New(rand.NewPCG(seed, 1)), only)
					transport := httpmock.NewMockTransport()
					transport.RegisterResponder(http.MethodGet, testBase+notesPath, m.respond)
					ids, err := collect(t, clientOn(t, &http.Client{Transport: transport}).Notes.All(t.Context(), clinicaldoc.ListNotesParams{Prefetch: prefetch}))
					slices.Sort(ids)
					require.Len(t, slices.Compact(slices.Clone(ids)), len(ids), "seed %d: a row twice", seed)
					if err != nil {
						require.ErrorIs(t, err, clinicaldoc.ErrIncompleteList, "seed %d", seed)
						incomplete++
						continue
					}
					m.mu.Lock() // a request that was given up may still be at work
					for id := range m.kept {
						assert.Contains(t, ids, id, "seed %d", seed)
					}
					m.mu.Unlock()
				}
				assert.Less(t, incomplete, 30, "nearly all lists can be read in spite of changes")
			})
		}
	}
}

// In a goroutine of the SDK, a panic could not be recovered by anybody.
func TestWhatPanicsUnderPrefetchPanicsInTheLoop(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]func(strike func()) clinicaldoc.Option{
		"transport": func(strike func()) clinicaldoc.Option {
			return clinicaldoc.WithHTTPClient(&http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
				strike()
				return numberedPages(req)
			})})
		},
		"observer": func(strike func()) clinicaldoc.Option {
			return clinicaldoc.WithObserver(func(context.Context, clinicaldoc.Attempt) { strike() })
		},
		"limiter": func(strike func()) clinicaldoc.Option {
			return clinicaldoc.WithLimiter(limiterFunc(func(context.Context) error { strike(); return nil }))
		},
		"token source": func(strike func()) clinicaldoc.Option {
			return clinicaldoc.WithTokenSource(tokenFunc(func(context.Context) (string, error) { strike(); return testToken, nil }))
		},
	} {
		for _, prefetch := range []int{0, 1, 3} {
			for _, exits := range []bool{false, true} {
				t.Run(fmt.Sprint(name, prefetch, exits), func(t *testing.T) {
					t.Parallel()
					failure := errors.New("the caller's own")
					var calls atomic.Int32
					strike := option(func() {
						switch third := calls.Add(1) == 3; {
						case third && exits:
							runtime.Goexit()
						case third:
							panic(failure)
						}
					})
					token := testToken
					if name == "token source" {
						token = ""
					}
					client, err := clinicaldoc.NewClient(testBase, token, clinicaldoc.WithHTTPClient(&http.Client{Transport: roundTripper(numberedPages)}), once, strike)
					require.NoError(t, err)
					recovered, finished := ranging(client.Notes.All(t.Context(), clinicaldoc.ListNotesParams{Prefetch: prefetch}))
					assert.False(t, finished)
					if exits {
						assert.Nil(t, recovered)
						return
					}
					assert.Equal(t, failure, recovered)
				})
			}
		}
	}
}

// numberedPages serves nine pages of a row each.
func numberedPages(req *http.Request) (*http.Response, error) {
	number, _ := strconv.Atoi(req.URL.Query().Get("page"))
	number = max(number, 1)
	body := fmt.Sprintf(`{"data":%s,"meta":{"current_page":%d,"last_page":9,"total":9}}`, rows(number), number)
	return answerWith(http.StatusOK, "application/json", []byte(body))(req)
}

// ranging ranges in a goroutine of its own, and tells what it recovered and whether the loop came to its end.
func ranging(notes iter.Seq2[*clinicaldoc.ProgressNote, error]) (recovered any, finished bool) {
	type end struct {
		recovered any
		finished  bool
	}
	ended := make(chan end, 1)
	go func() {
		var e end
		defer func() {
			e.recovered = recover()
			ended <- e
		}()
		for range notes {
		}
		e.finished = true
	}()
	e := <-ended
	return e.recovered, e.finished
}

func TestCollect(t *testing.T) {
	t.Parallel()
	first, second := errors.New("first"), errors.New("second")
	sequence := func(items ...any) iter.Seq2[*string, error] {
		return func(yield func(*string, error) bool) {
			for _, item := range items {
				text, isText := item.(string)
				err, _ := item.(error)
				if isText && !yield(&text, nil) || !isText && !yield(new("beside an error"), err) {
					panic("it ranges to the end")
				}
			}
		}
	}
	all, err := clinicaldoc.Collect(sequence())
	require.NoError(t, err)
	assert.Nil(t, all)

	all, err = clinicaldoc.Collect(sequence("a", "b"))
	require.NoError(t, err)
	assert.Equal(t, []*string{new("a"), new("b")}, all)

	all, err = clinicaldoc.Collect(sequence("a", first))
	assert.Equal(t, first, err, "as it came")
	assert.Equal(t, []*string{new("a")}, all)

	all, err = clinicaldoc.Collect(sequence("a", first, "b", second, "c"))
	require.ErrorIs(t, err, first)
	require.ErrorIs(t, err, second)
	assert.Equal(t, []*string{new("a"), new("b"), new("c")}, all)

	srv := filledBox(t, 40, clinicaldoctest.Variant{})
	notes, err := clinicaldoc.Collect(srv.Client().Notes.All(t.Context(), clinicaldoc.ListNotesParams{}))
	require.NoError(t, err)
	assert.Len(t, notes, 40)
}
