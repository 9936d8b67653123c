package clinicaldoc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jarcoal/httpmock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestAll_EveryFormOfPages_IsFollowed(t *testing.T) {
	t.Parallel()
	tests := map[string][]call{
		"length-aware": {
			pagedCall("",
				`{"data":`+rows(1,
					2)+`,"links":{"next":"http://internal/?page=2"},"meta":{"current_page":1,"last_page":2,"per_page":2,"total":3}}`),
			pagedCall("?page=2", `{"data":`+rows(
				3)+`,"links":{"next":null},"meta":{"current_page":2,"last_page":2,"per_page":2,"total":3}}`),
		},
		"length-aware, numbers as texts": {
			pagedCall("", `{"data":`+rows(1,
				2)+`,"links":[],"meta":{"current_page":"1","last_page":"2","per_page":"2","total":"3"}}`),
			pagedCall("?page=2",
				`{"data":`+rows(3)+`,"meta":{"current_page":"2","last_page":"2","per_page":"2","total":"3"}}`),
		},
		"length-aware, meta first": {
			pagedCall("", `{"meta":{"current_page":1,"last_page":2},"data":`+rows(1, 2)+`}`),
			pagedCall("?page=2", `{"meta":{"current_page":2,"last_page":2},"data":`+rows(3)+`}`),
		},
		"simple": {
			pagedCall("",
				`{"data":`+rows(1,
					2)+`,"links":{"first":"x","last":null,"prev":null,"next":"http://internal/?page=2"},"meta":{"current_page":1,"per_page":2}}`),
			pagedCall("?page=2", `{"data":`+rows(
				3)+`,"links":{"first":"x","last":null,"prev":"x","next":null},"meta":{"current_page":2,"per_page":2}}`),
		},
		"cursor": {
			pagedCall("", `{"data":`+rows(
				1)+`,"links":{"next":"x"},"meta":{"per_page":1,"next_cursor":"a+b=","prev_cursor":null}}`),
			pagedCall("?cursor=a%2Bb%3D", `{"data":`+rows(2)+`,"links":{"next":"x"},"meta":{"next_cursor":"c"}}`),
			pagedCall("?cursor=c", `{"data":`+rows(3)+`,"links":{"next":null},"meta":{"next_cursor":null}}`),
		},
		"cursor in the link alone": {
			pagedCall("",
				`{"data":`+rows(1,
					2)+`,"links":{"first":null,"last":null,"prev":null,"next":"http:\/\/internal\/notes?cursor=a%2Bb"},"meta":{"path":"x","per_page":2}}`),
			pagedCall("?cursor=a%2Bb", `{"data":`+rows(3)+`,"links":{"next":null},"meta":{"path":"x","per_page":2}}`),
		},
		"flat": {
			pagedCall("",
				`{"current_page":1,"data":`+rows(1,
					2)+`,"last_page":2,"links":[{"url":null,"label":"x"}],"next_page_url":"http://internal/?page=2","per_page":2,"total":3}`),
			pagedCall("?page=2",
				`{"current_page":2,"data":`+rows(3)+`,"last_page":2,"next_page_url":null,"per_page":2,"total":3}`),
		},
		"flat and simple": {
			pagedCall("", `{"current_page":1,"data":`+rows(1, 2)+`,"next_page_url":"http://internal/?page=2"}`),
			pagedCall("?page=2", `{"current_page":2,"data":`+rows(3)+`,"next_page_url":null}`),
		},
		"flat with a cursor": {
			pagedCall("", `{"data":`+rows(1, 2)+`,"next_cursor":"a","next_page_url":"x"}`),
			pagedCall("?cursor=a", `{"data":`+rows(3)+`,"next_cursor":null,"next_page_url":null}`),
		},
		// Where nothing is told, page 1 shows whether the service counts from 0 or from 1.
		"bare data": {
			pagedCall("", `{"data":`+rows(1, 2)+`}`),
			pagedCall("?page=1", `{"data":`+rows(1, 2)+`}`),
			pagedCall("?page=2", `{"data":`+rows(3)+`}`),
			pagedCall("?page=3", `{"data":[]}`),
		},
		"bare data, empty meta": {
			pagedCall("", `{"data":`+rows(1, 2)+`,"links":{},"meta":{}}`),
			pagedCall("?page=1", `{"data":`+rows(1, 2)+`,"links":{},"meta":{}}`),
			pagedCall("?page=2", `{"data":`+rows(3)+`,"links":[],"meta":[]}`),
			pagedCall("?page=3", `{"data":[],"links":null,"meta":null}`),
		},
		"bare array": {
			pagedCall("", rows(1, 2)),
			pagedCall("?page=1", rows(1, 2)),
			pagedCall("?page=2", rows(3)),
			pagedCall("?page=3", `[]`),
		},
		"bare array, counted from 0": {
			pagedCall("", rows(1)),
			pagedCall("?page=1", rows(2)),
			pagedCall("?page=2", rows(3)),
			pagedCall("?page=3", `[]`),
		},
		// A service without pages gives everything again. Its other order, or a size that it heeds, shows that this is
		// all.
		"all at once": {
			pagedCall("", rows(1, 2, 3)),
			pagedCall("?page=1", rows(1, 2, 3)),
			pagedCall("?page=2", rows(1, 2, 3)),
			pagedCall("?per_page=4&sort=oldest", rows(3, 2, 1)),
		},
		"all at once, by itself the oldest first": {
			pagedCall("", rows(1, 2, 3)),
			pagedCall("?page=1", rows(1, 2, 3)),
			pagedCall("?page=2", rows(1, 2, 3)),
			pagedCall("?per_page=4&sort=oldest", rows(1, 2, 3)),
			pagedCall("?per_page=1&sort=latest", rows(3, 2, 1)),
		},
		"all on a page of the default size, order and page not known": {
			pagedCall("", rows(1, 2, 3)),
			pagedCall("?page=1", rows(1, 2, 3)),
			pagedCall("?page=2", rows(1, 2, 3)),
			pagedCall("?per_page=4&sort=oldest", rows(1, 2, 3)),
			pagedCall("?per_page=1&sort=latest", rows(1)),
		},
		"the last page again for every page after it": {
			pagedCall("", rows(1, 2)),
			pagedCall("?page=1", rows(1, 2)),
			pagedCall("?page=2", rows(3)),
			pagedCall("?page=3", rows(3)),
			pagedCall("?per_page=4&sort=oldest", rows(3, 2, 1)),
		},
		"one page": {pagedCall("", `{"data":`+rows(1, 2, 3)+`,"meta":{"current_page":1,"last_page":1}}`)},
	}
	for name, calls := range tests {
		for prefetch := range 3 {
			t.Run(fmt.Sprint(name, prefetch), func(t *testing.T) {
				t.Parallel()
				client := serve(t, calls...)
				ids := must(collect(t, client.Notes.All(t.Context(), listParams{Prefetch: prefetch})))(t)
				assert.Equal(t, []int64{1, 2, 3}, ids)
			})
		}
	}
}

func TestAll_EmptyList_YieldsNothing(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{`[]`, `{"data":[]}`, `{"data":null}`,
		`{"data":[],"meta":{"current_page":1,"last_page":1,"from":null}}`, `{"data":[],"links":{"next":null}}`} {
		ids, err := collect(t, serve(t, pagedCall("", answer)).Notes.All(t.Context(), listParams{}))
		require.NoError(t, err, answer)
		assert.Empty(t, ids)
	}
}

func TestList_OtherResponse_IsRejected(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		`{}`, `null`, `{"notes":[]}`, `{"data":{}}`, `{"data":{"id":1}}`, `{"data":"secret"}`, `"secret"`, `[5]`,
		`["secret"]`, `{"data":[{"name":"secret"}]}`, `{"data":[{"id":0}]}`,
		`{"data":[null]}`, `{"data":[{"id":1,"name":["secret"]}]}`, `{"data":[]`, `[] secret`,
	} {
		page, err := serve(t, pagedCall("", answer)).Notes.List(t.Context(), listParams{})
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse, answer)
		assert.NotContains(t, err.Error(), "secret")
		require.ErrorContains(t, err, "Notes.List")
		assert.Nil(t, page)
	}
}

func TestList_OddMeta_IsTolerated(t *testing.T) {
	t.Parallel()
	// What the service says about its pages is not described, so that nothing in it makes a list fail.
	for _, meta := range []string{
		`"meta":5,"links":7`, `"meta":"x","links":"x"`,
		`"meta":{"current_page":{"a":1},"last_page":[1],"per_page":true,"total":"x","next_cursor":5}`,
		`"links":{"next":{"href":"x"}}`, `"total":{"value":3}`, `"links":{"next":"%zz"}`,
	} {
		page, err := serve(t, pagedCall("", `{"data":`+rows(1)+`,`+meta+`}`)).Notes.List(t.Context(), listParams{})
		require.NoError(t, err, meta)
		assert.Len(t, page.Items, 1)
		assert.False(t, page.Meta.Extra.IsZero(), "what cannot be read is kept: %s", meta)
		page.Meta.Extra = clinicaldoc.Object{}
		assert.Equal(t, clinicaldoc.PageMeta{}, page.Meta, meta)
	}
}

func TestAll_BeforeTheRange_SendsNothing(t *testing.T) {
	t.Parallel()
	for prefetch := range 2 {
		s, httpClient := newScript(t)
		notes := clientOn(t, httpClient).Notes.All(t.Context(), listParams{Prefetch: prefetch})
		assert.NotNil(t, notes)
		assert.Zero(t, s.count())
	}
}

func TestAll_RangedTwice_StartsAnew(t *testing.T) {
	t.Parallel()
	first := pagedCall("?per_page=2", `{"data":`+rows(1, 2)+`,"meta":{"current_page":1,"last_page":2}}`)
	second := pagedCall("?page=2&per_page=2", `{"data":`+rows(3)+`,"meta":{"current_page":2,"last_page":2}}`)
	notes := serve(t, first, second, first, first, second).Notes.All(t.Context(), listParams{PerPage: 2})
	ids := must(collect(t, notes))(t)
	assert.Equal(t, []int64{1, 2, 3}, ids)
	for range notes {
		break
	}
	ids = must(collect(t, notes))(t)
	assert.Equal(t, []int64{1, 2, 3}, ids, "rows seen in an earlier range are not missing in a later one")
}

func TestAll_PageOrCursor_StartsThere(t *testing.T) {
	t.Parallel()
	for query, params := range map[string]listParams{"?page=3": {Page: 3}, "?cursor=c": {Cursor: "c"}} {
		meta := `{"current_page":3,"last_page":4}`
		next := "?page=4"
		if params.Cursor != "" {
			meta, next = `{"next_cursor":"d"}`, "?cursor=d"
		}
		before := params
		client := serve(t, pagedCall(query, `{"data":`+rows(5)+`,"meta":`+meta+`}`),
			pagedCall(next, `{"data":`+rows(6)+`,"links":{"next":null}}`))
		ids := must(collect(t, client.Notes.All(t.Context(), params)))(t)
		assert.Equal(t, []int64{5, 6}, ids)
		assert.Equal(t, before, params)
	}
}

func TestAll_Break_SendsNothingMore(t *testing.T) {
	t.Parallel()
	// With the page read to its last row, the next one is still not asked for.
	client := serve(t, pagedCall("", `{"data":`+rows(1, 2)+`,"meta":{"current_page":1,"last_page":9}}`))
	seen := 0
	for _, err := range client.Notes.All(t.Context(), listParams{}) {
		require.NoError(t, err)
		if seen++; seen == 2 {
			break
		}
	}
	assert.Equal(t, 2, seen)
}

func TestAll_Error_IsYieldedOnce(t *testing.T) {
	t.Parallel()
	for prefetch := range 3 {
		client := serve(t,
			pagedCall("", `{"data":`+rows(1)+`,"links":{"next":"x"}}`),
			call{url: notesPath + "?page=2", status: http.StatusForbidden, response: `{"message":"m"}`},
		)
		ids, err := collect(t, client.Notes.All(t.Context(), listParams{Prefetch: prefetch}))
		require.ErrorIs(t, err, clinicaldoc.ErrForbidden)
		assert.Equal(t, []int64{1}, ids)
	}
}

func TestAll_ContextEnds_Ends(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	client := serve(t, pagedCall("", `{"data":`+rows(1, 2)+`,"links":{"next":"x"}}`))
	var ids []int64
	var failure error
	for note, err := range client.Notes.All(ctx, listParams{}) {
		if failure = err; err == nil {
			ids = append(ids, note.ID)
			cancel()
		}
	}
	require.ErrorIs(t, failure, context.Canceled)
	assert.Equal(t, []int64{1, 2}, ids, "what has arrived is handed out")
}

func TestAll_WithResponse_IsOfThePageBeingRead(t *testing.T) {
	t.Parallel()
	for prefetch := range 3 {
		first := pagedCall("", `{"data":`+rows(1, 2)+`,"meta":{"current_page":1,"last_page":2}}`)
		first.answerHeader = map[string]string{"X-Request-Id": "page-1"}
		second := pagedCall("?page=2", `{"data":`+rows(3)+`,"meta":{"current_page":2,"last_page":2}}`)
		second.answerHeader = map[string]string{"X-Request-Id": "page-2"}
		client := serve(t, first, second)
		var response clinicaldoc.Response
		var seen []string
		for _, err := range client.Notes.All(t.Context(), listParams{Prefetch: prefetch},
			clinicaldoc.WithResponse(&response)) {
			require.NoError(t, err)
			seen = append(seen, response.RequestID)
		}
		assert.Equal(t, []string{"page-1", "page-1", "page-2"}, seen)
	}
}

// A page that fails is the one being read: its response says why.
func TestAll_WithResponse_IsOfThePageThatFails(t *testing.T) {
	t.Parallel()
	failed := pagedCall("?page=2", `{}`)
	failed.status, failed.answerHeader = http.StatusForbidden, map[string]string{"X-Request-Id": "page-2"}
	client := serve(t, pagedCall("", `{"data":`+rows(1)+`,"meta":{"current_page":1,"last_page":2}}`), failed)
	var response clinicaldoc.Response
	_, err := collect(t, client.Notes.All(t.Context(), listParams{}, clinicaldoc.WithResponse(&response)))
	require.ErrorIs(t, err, clinicaldoc.ErrForbidden)
	assert.Equal(t, http.StatusForbidden, response.StatusCode)
	assert.Equal(t, "page-2", response.RequestID)
}

// How many rows lie before a page is known by the size of pages: from there on a total can be missed too.
func TestAll_TotalFromALaterPage_IsCompared(t *testing.T) {
	t.Parallel()
	second := pagedCall("?page=2&per_page=2",
		`{"data":`+rows(3, 4)+`,"meta":{"current_page":2,"last_page":2,"per_page":2,"total":10}}`)
	ids, err := collect(t, serve(t, second, second).Notes.All(t.Context(), listParams{Page: 2, PerPage: 2}))
	require.ErrorIs(t, err, clinicaldoc.ErrIncompleteList)
	assert.Equal(t, []int64{3, 4}, ids)
}

// Why it could not be found out whether the list is whole is kept.
func TestAll_RequestFails_YieldsTheCause(t *testing.T) {
	t.Parallel()
	client := serve(t,
		pagedCall("", rows(1, 2, 3)),
		pagedCall("?page=1", rows(1, 2, 3)), // in case pages are counted from 0
		pagedCall("?page=2", rows(1, 2, 3)),
		call{url: notesPath + "?per_page=4&sort=oldest", status: http.StatusForbidden, response: `{}`},
	)
	ids, err := collect(t, client.Notes.All(t.Context(), listParams{}))
	require.ErrorIs(t, err, clinicaldoc.ErrIncompleteList)
	require.ErrorIs(t, err, clinicaldoc.ErrForbidden)
	assert.Len(t, ids, 3)
}

func TestAll_CallersOptions_AreNotChanged(t *testing.T) {
	t.Parallel()
	client := serve(t, pagedCall("", `{"data":`+rows(1)+`,"meta":{"current_page":1,"last_page":1}}`))
	opts := append(make([]clinicaldoc.CallOption, 0, 8), clinicaldoc.WithoutRetry())
	must(collect(t, client.Notes.All(t.Context(), listParams{}, opts...)))(t)
	assert.Nil(t, opts[:2][1], "what is behind them is the caller's")
}

// A caller may use a slice of options again for the next user, before the first iterator is ranged over.
func TestIterators_OptionsChangedLater_HaveNoEffect(t *testing.T) {
	t.Parallel()
	subtests(t, map[string]func(*clinicaldoc.Client, ...clinicaldoc.CallOption) iter.Seq2[*clinicaldoc.ProgressNote,
		error]{
		"All": func(c *clinicaldoc.Client, opts ...clinicaldoc.CallOption) iter.Seq2[*clinicaldoc.ProgressNote, error] {
			return c.Notes.All(t.Context(), listParams{}, opts...)
		},
		"Watch": func(c *clinicaldoc.Client, opts ...clinicaldoc.CallOption) iter.Seq2[*clinicaldoc.ProgressNote,
			error] {
			return c.Notes.Watch(t.Context(), 7, waitParams{}, opts...)
		},
		"WaitAll": func(c *clinicaldoc.Client, opts ...clinicaldoc.CallOption) iter.Seq2[*clinicaldoc.ProgressNote,
			error] {
			return c.Notes.WaitAll(t.Context(), []int64{7}, waitParams{}, opts...)
		},
	}, func(t *testing.T,
		ranged func(*clinicaldoc.Client, ...clinicaldoc.CallOption) iter.Seq2[*clinicaldoc.ProgressNote, error]) {
		token := ""
		client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			token = r.Header.Get("Authorization")
			return httpmock.NewStringResponse(http.StatusUnauthorized, "{}"), nil
		}))
		opts := []clinicaldoc.CallOption{clinicaldoc.WithToken("synthetic-first")}
		notes := ranged(client, opts...)
		opts[0] = clinicaldoc.WithToken("synthetic-second")
		_, err := clinicaldoc.Collect(notes)
		require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized)
		assert.Equal(t, "Bearer synthetic-first", token)
	})
}

func TestAll_RepeatedRow_IsYieldedOnce(t *testing.T) {
	t.Parallel()
	// A note that is created while the list is read pushes a row from one page to the next.
	client := serve(t,
		pagedCall("", `{"data":`+rows(9, 8, 8)+`,"meta":{"current_page":1,"last_page":2}}`),
		pagedCall("?page=2", `{"data":`+rows(8, 7)+`,"meta":{"current_page":2,"last_page":2}}`),
	)
	ids := must(collect(t, client.Notes.All(t.Context(), listParams{})))(t)
	assert.Equal(t, []int64{9, 8, 7}, ids)
}

// endless is a service that answers every list with what the function gives, and counts.
func endless(t *testing.T, answer func(n int, req *http.Request) string) (client *clinicaldoc.Client,
	requests func() int) {
	t.Helper()
	var mu sync.Mutex
	n := 0
	transport := httpmock.NewMockTransport()
	transport.RegisterNoResponder(func(req *http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, "api.clinic.test", req.URL.Host, "no other host is asked")
		assert.Equal(t, notesPath, req.URL.Path)
		if n++; n > 50 {
			return nil, errors.New("this would go on for ever")
		}
		return httpmock.NewStringResponse(http.StatusOK, answer(n, req)), nil
	})
	client = clientOver(t, transport)
	return client, func() int { mu.Lock(); defer mu.Unlock(); return n }
}

func TestAll_HostileService_Ends(t *testing.T) {
	t.Parallel()
	page := func(req *http.Request) int {
		number, err := strconv.Atoi(req.URL.Query().Get("page"))
		if err != nil {
			return 1
		}
		return number
	}
	tests := map[string]struct {
		answer func(n int, req *http.Request) string
		ids    []int64
		match  error // nil: the list ends well
		atMost int   // requests
	}{
		"same page for ever, nothing told": {
			answer: func(int, *http.Request) string { return `{"data":` + rows(1, 2) + `}` },
			ids:    []int64{1, 2}, match: clinicaldoc.ErrIncompleteList, atMost: 5,
		},
		"the only row for ever, nothing told": {
			answer: func(int, *http.Request) string { return `{"data":` + rows(1) + `}` },
			ids:    []int64{1}, atMost: 4,
		},
		"current page stuck": {
			answer: func(int, *http.Request) string {
				return `{"data":` + rows(1, 2) + `,"meta":{"current_page":1,"last_page":9}}`
			},
			ids: []int64{1, 2}, match: clinicaldoc.ErrUnexpectedResponse, atMost: 2,
		},
		"same rows on every page": {
			answer: func(_ int, req *http.Request) string {
				return fmt.Sprintf(`{"data":%s,"meta":{"current_page":%d,"last_page":100000}}`, rows(1, 2), page(req))
			},
			ids: []int64{1, 2}, match: clinicaldoc.ErrUnexpectedResponse, atMost: 5,
		},
		"empty pages without end": {
			answer: func(_ int, req *http.Request) string {
				return fmt.Sprintf(`{"data":[],"meta":{"current_page":%d,"last_page":100000}}`, page(req))
			},
			match: clinicaldoc.ErrUnexpectedResponse, atMost: 5,
		},
		"always a next link": {
			answer: func(int, *http.Request) string { return `{"data":` + rows(1) + `,"links":{"next":"x"}}` },
			ids:    []int64{1}, match: clinicaldoc.ErrUnexpectedResponse, atMost: 5,
		},
		"repeated cursor": {
			answer: func(n int, _ *http.Request) string {
				return `{"data":` + rows(n) + `,"meta":{"next_cursor":"again"}}`
			},
			ids: []int64{1, 2}, match: clinicaldoc.ErrUnexpectedResponse, atMost: 2,
		},
		"cursors in a circle": {
			answer: func(n int, _ *http.Request) string {
				return fmt.Sprintf(`{"data":%s,"meta":{"next_cursor":"c%d"}}`, rows(n%3+1), n%3)
			},
			ids: []int64{2, 3, 1}, match: clinicaldoc.ErrUnexpectedResponse, atMost: 7,
		},
		"new cursors without rows": {
			answer: func(n int, _ *http.Request) string {
				return fmt.Sprintf(`{"data":[],"meta":{"next_cursor":"c%d"}}`, n)
			},
			match: clinicaldoc.ErrUnexpectedResponse, atMost: 5,
		},
		"links to another host": {
			answer: func(n int, _ *http.Request) string {
				if n > 3 {
					return `{"data":[],"links":{"next":null}}`
				}
				links := []string{"https://evil.test/v1/progress-notes?cursor=c1", "//evil.test/x?cursor=c2",
					"https://api.clinic.test@evil.test/?cursor=c3"}
				return fmt.Sprintf(`{"data":%s,"links":{"next":%q}}`, rows(n), links[n-1])
			},
			// a promised page is empty: the list has shrunk, and is looked at until it is the same
			ids: []int64{1, 2, 3}, atMost: 6,
		},
		"a total that shrinks for ever": {
			answer: func(n int, req *http.Request) string {
				if page(req) == 1 {
					return fmt.Sprintf(`{"data":%s,"meta":{"current_page":1,"last_page":9,"total":%d}}`, rows(1, 2),
						1000-n)
				}
				return fmt.Sprintf(`{"data":%s,"meta":{"current_page":2,"last_page":9,"total":%d}}`, rows(1000+n),
					1000-n)
			},
			ids: []int64{1, 2}, match: clinicaldoc.ErrIncompleteList, atMost: 7,
		},
		"a total of rows that never come": {
			answer: func(int, *http.Request) string {
				return `{"data":` + rows(1, 2) + `,"meta":{"current_page":1,"last_page":1,"total":3}}`
			},
			ids: []int64{1, 2}, match: clinicaldoc.ErrIncompleteList, atMost: 2,
		},
		"a cursor without a way on": {
			answer: func(n int, _ *http.Request) string {
				if n == 1 {
					return `{"data":` + rows(1) + `,"meta":{"next_cursor":"c"}}`
				}
				return `{"data":` + rows(2) + `,"links":{"next":"x"}}`
			},
			ids: []int64{1, 2}, match: clinicaldoc.ErrIncompleteList, atMost: 2,
		},
		"a cursor and then nothing told": {
			answer: func(n int, _ *http.Request) string {
				if n == 1 {
					return `{"data":` + rows(1) + `,"meta":{"next_cursor":"c"}}`
				}
				return `{"data":` + rows(2) + `}`
			},
			ids: []int64{1, 2}, atMost: 2,
		},
	}
	for name, tt := range tests {
		for _, prefetch := range []int{0, 1, 4} {
			t.Run(fmt.Sprint(name, prefetch), func(t *testing.T) {
				t.Parallel()
				client, requests := endless(t, tt.answer)
				ids, err := collect(t, client.Notes.All(t.Context(), listParams{Prefetch: prefetch}))
				if tt.match == nil {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, tt.match)
					require.True(t, errors.Is(err, clinicaldoc.ErrIncompleteList) || name == "current page stuck",
						"it says so")
					require.ErrorContains(t, err, "Notes.List")
				}
				assert.Equal(t, tt.ids, ids)
				assert.LessOrEqual(t, requests(), tt.atMost*(1+2*prefetch))
			})
		}
	}
}

func TestList_AnotherPage_IsRejected(t *testing.T) {
	t.Parallel()
	for asked, query := range []string{"", "?page=1", "?page=2"} {
		client := serve(t, pagedCall(query, `{"data":`+rows(1)+`,"meta":{"current_page":3,"last_page":3}}`))
		page, err := client.Notes.List(t.Context(), listParams{Page: asked})
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
		require.ErrorContains(t, err, "WithQueryNames")
		assert.Nil(t, page)
	}
}

// What a service calls the number of a page at a cursor is its own affair.
func TestList_Cursor_AcceptsAnyPage(t *testing.T) {
	t.Parallel()
	client := serve(t, pagedCall("?cursor=c2", `{"data":`+rows(1)+`,"meta":{"current_page":2}}`))
	page := must(client.Notes.List(t.Context(), listParams{Cursor: "c2"}))(t)
	assert.Len(t, page.Items, 1)
}

func TestList_PatientOfEveryRow_IsChecked(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		row   string // the second of the page
		trust bool
		ok    bool
	}{
		"the patient":               {`{"id":2,"name":"n","patient":{"id":4711}}`, false, true},
		"the patient as text":       {`{"id":2,"name":"n","patient":{"id":"4711"}}`, false, true},
		"the patient beside":        {`{"id":2,"name":"n","patient_id":4711}`, false, true},
		"another":                   {`{"id":2,"name":"n","patient":{"id":4712}}`, false, false},
		"another beside":            {`{"id":2,"name":"n","patient_id":4712}`, false, false},
		"none":                      {`{"id":2,"name":"n"}`, false, false},
		"null":                      {`{"id":2,"name":"n","patient":null}`, false, false},
		"empty":                     {`{"id":2,"name":"n","patient":[]}`, false, false},
		"a name alone":              {`{"id":2,"name":"n","patient":{"name":"Jane"}}`, false, false},
		"trusted, none":             {`{"id":2,"name":"n"}`, true, true},
		"trusted, a name alone":     {`{"id":2,"name":"n","patient":{"name":"Jane"}}`, true, true},
		"trusted, but another":      {`{"id":2,"name":"n","patient":{"id":4712}}`, true, false},
		"trusted, another beside":   {`{"id":2,"name":"n","patient_id":"4712"}`, true, false},
		"another beside a nameless": {`{"id":2,"name":"n","patient":{"name":"Jane"},"patient_id":4712}`, true, false},
	}
	for name, tt := range tests {
		for prefetch := range 2 {
			t.Run(fmt.Sprint(name, prefetch), func(t *testing.T) {
				t.Parallel()
				answer := pagedCall("?patient_id=4711",
					`{"data":[{"id":1,"name":"n","patient":{"id":4711}},`+tt.row+`],"links":{"next":null}}`)
				params := listParams{PatientID: 4711, TrustPatientFilter: tt.trust}
				client := serve(t, answer, answer)
				page, err := client.Notes.List(t.Context(), params)
				params.Prefetch = prefetch
				ids, allErr := collect(t, client.Notes.All(t.Context(), params))
				if tt.ok {
					require.NoError(t, err)
					require.NoError(t, allErr)
					assert.Len(t, page.Items, 2)
					assert.Equal(t, []int64{1, 2}, ids)
					return
				}
				for _, err := range []error{err, allErr} {
					require.ErrorIs(t, err, clinicaldoc.ErrPatientMismatch)
					assert.NotContains(t, err.Error(), "471")
					assert.NotContains(t, err.Error(), "Jane")
				}
				assert.Nil(t, page)
				assert.NotContains(t, ids, int64(2))
			})
		}
	}
}

func TestList_WithoutPatientFilter_ChecksNoPatient(t *testing.T) {
	t.Parallel()
	client := serve(t, pagedCall("",
		`[{"id":1,"name":"n","patient":{"id":1}},{"id":2,"name":"n","patient":{"id":2}},{"id":3,"name":"n"}]`))
	page := must(client.Notes.List(t.Context(), listParams{}))(t)
	assert.Len(t, page.Items, 3)
}

func TestList_PerPageIgnored_IsLogged(t *testing.T) {
	t.Parallel()
	for answer, ignored := range map[string]bool{
		`{"data":` + rows(1, 2) + `,"meta":{"current_page":1,"per_page":2}}`:    false,
		`{"data":` + rows(1, 2) + `,"meta":{"current_page":1,"per_page":"2"}}`:  false,
		`{"data":` + rows(1) + `,"meta":{"current_page":1,"per_page":15}}`:      true,
		`{"data":` + rows(1, 2, 3) + `}`:                                        true,
		`{"data":` + rows(1, 2, 3) + `,"meta":{"current_page":1,"per_page":2}}`: true,
		rows(1, 2): false,
		rows(1):    false,
	} {
		client := serve(t, pagedCall("?per_page=2", answer), pagedCall("", answer))
		page := must(client.Notes.List(t.Context(), listParams{PerPage: 2}))(t)
		assert.Equal(t, ignored, page.Meta.PerPageIgnored, answer)
		page = must(client.Notes.List(t.Context(), listParams{}))(t)
		assert.False(t, page.Meta.PerPageIgnored, "nothing was asked for")
	}
}

func TestQueryNames_AreUsed(t *testing.T) {
	t.Parallel()
	client := serveWith(t, []clinicaldoc.Option{clinicaldoc.WithQueryNames(clinicaldoc.QueryNames{
		PatientID: "filter[patient_id]", PerPage: "page[size]", Page: "page[number]", Cursor: "after",
	})},
		pagedCall("?filter%5Bpatient_id%5D=4711&page%5Bsize%5D=1&sort=oldest",
			`{"data":`+rows(1)+`,"meta":{"current_page":1,"last_page":2}}`),
		pagedCall("?filter%5Bpatient_id%5D=4711&page%5Bnumber%5D=2&page%5Bsize%5D=1&sort=oldest",
			`{"data":`+rows(2)+`,"links":{"next":"x?cursor=wrong&after=right"}}`),
		pagedCall("?after=right&filter%5Bpatient_id%5D=4711&page%5Bsize%5D=1&sort=oldest",
			`{"data":`+rows(3)+`,"links":{"next":null}}`),
	)
	ids, err := collect(t,
		client.Notes.All(t.Context(), listParams{PatientID: 4711, PerPage: 1, Sort: clinicaldoc.SortOldest}))
	require.NoError(t, err)
	assert.Equal(t, []int64{1, 2, 3}, ids)
}

// Who names one of them leaves the others as they are.
func TestQueryNames_Empty_HaveDefaults(t *testing.T) {
	t.Parallel()
	for names, query := range map[clinicaldoc.QueryNames]string{
		{PatientID: "patient"}: "?page=2&patient=4711&per_page=10&sort=latest",
		{PerPage: "size"}:      "?page=2&patient_id=4711&size=10&sort=latest",
		{Sort: "order"}:        "?order=latest&page=2&patient_id=4711&per_page=10",
		{Page: "number"}:       "?number=2&patient_id=4711&per_page=10&sort=latest",
	} {
		client := serveWith(t, []clinicaldoc.Option{clinicaldoc.WithQueryNames(names)}, pagedCall(query, `[]`),
			pagedCall("?cursor=c", `[]`))
		_, err := client.Notes.List(t.Context(),
			listParams{PatientID: 4711, PerPage: 10, Sort: clinicaldoc.SortLatest, Page: 2})
		require.NoError(t, err)
		must(client.Notes.List(t.Context(), listParams{Cursor: "c"}))(t)
	}
}

func TestQueryNames_Swapped_AreUsed(t *testing.T) {
	t.Parallel()
	client := serveWith(t, []clinicaldoc.Option{clinicaldoc.WithQueryNames(clinicaldoc.QueryNames{Page: "cursor",
		Cursor: "page", Sort: "order"})},
		pagedCall("?cursor=2&order=latest", `[]`), pagedCall("?page=c", `[]`))
	must(client.Notes.List(t.Context(), listParams{Page: 2, Sort: clinicaldoc.SortLatest}))(t)
	must(client.Notes.List(t.Context(), listParams{Cursor: "c"}))(t)
}

func TestQueryNames_Odd_AreEscaped(t *testing.T) {
	t.Parallel()
	client := serveWith(t, []clinicaldoc.Option{clinicaldoc.WithQueryNames(clinicaldoc.QueryNames{Page: "-",
		Sort: `so"rt`, PerPage: `size: "x"`})},
		pagedCall("?-=2&patient_id=4711&size%3A+%22x%22=1&so%22rt=latest", `[]`))
	must(client.Notes.List(t.Context(), listParams{
		PatientID: 4711, Page: 2, PerPage: 1, Sort: clinicaldoc.SortLatest, TrustPatientFilter: true,
	}))(t)
}

// latency is a service of numbered pages, one row each, that takes a second of virtual time for an answer.
type latency struct {
	t        *testing.T
	last     int
	untold   bool // whether it keeps its last page to itself
	mu       sync.Mutex
	inFlight int
	most     int
	begun    atomic.Int32 // attempts
	ended    atomic.Int32
	asked    []int
}

func (l *latency) client(t *testing.T) *clinicaldoc.Client {
	t.Helper()
	transport := httpmock.NewMockTransport()
	transport.RegisterResponder(http.MethodGet, testBase+notesPath, l.respond)
	return clientOver(t, transport,
		clinicaldoc.WithLimiter(limiterFunc(func(context.Context) error { l.begun.Add(1); return nil })),
		onAttempt(func(context.Context, clinicaldoc.Attempt) { l.ended.Add(1) }))
}

func (l *latency) respond(req *http.Request) (*http.Response, error) {
	page, _ := strconv.Atoi(req.URL.Query().Get("page"))
	page = max(page, 1)
	l.mu.Lock()
	l.asked = append(l.asked, page)
	l.inFlight++
	l.most = max(l.most, l.inFlight)
	l.mu.Unlock()
	defer func() { l.mu.Lock(); l.inFlight--; l.mu.Unlock() }()
	select {
	case <-time.After(time.Duration(1+page%2) * time.Second): // later pages overtake earlier ones
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	if l.untold {
		if page > l.last {
			return httpmock.NewStringResponse(http.StatusOK, `[]`), nil
		}
		return httpmock.NewStringResponse(http.StatusOK, rows(page)), nil
	}
	return httpmock.NewStringResponse(http.StatusOK,
		fmt.Sprintf(`{"data":%s,"meta":{"current_page":%d,"last_page":%d}}`, rows(page), page, l.last)), nil
}

func TestPrefetch_KeepsOrderAndItsLimit(t *testing.T) {
	t.Parallel()
	for _, prefetch := range []int{0, 1, 2, 5, 64} {
		synctest.Test(t, func(t *testing.T) {
			service := &latency{t: t, last: 12}
			begin := time.Now()
			ids, err := collect(t, service.client(t).Notes.All(t.Context(), listParams{Prefetch: prefetch}))
			took := time.Since(begin)
			require.NoError(t, err)
			assert.Equal(t, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, ids)
			assert.Len(t, service.asked, 12, "each page once")
			assert.Equal(t, min(max(prefetch, 1), 11), service.most, "%d ahead", prefetch)
			if prefetch > 1 {
				assert.Less(t, took, 18*time.Second, "what twelve pages take one after the other")
			} else {
				assert.Equal(t, 18*time.Second, took)
			}
		})
	}
}

// heldLog is a log that lets a test hold up whoever writes to it.
type heldLog func(line string)

func (f heldLog) Write(p []byte) (int, error) { f(string(p)); return len(p), nil }

func TestPrefetch_NextPage_IsRequestedBeforeDecoding(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		third := make(chan struct{})
		transport := roundTripper(func(req *http.Request) (*http.Response, error) {
			number, _ := strconv.Atoi(req.URL.Query().Get("page"))
			number = max(number, 1)
			row := fmt.Sprintf(`{"id":%d,"name":"n"}`, number)
			switch number {
			case 2:
				// of which the log is told in the middle of decoding
				row = `{"id":2,"name":"n","has":{"signed":"nobody knows"}}`
			case 3:
				close(third)
			}
			body := fmt.Sprintf(`{"data":[%s],"meta":{"current_page":%d,"last_page":5,"total":5}}`, row, number)
			return answerWith(http.StatusOK, "application/json", []byte(body))(req)
		})
		held := 0
		log := slog.New(slog.NewTextHandler(heldLog(func(line string) {
			if strings.Contains(line, "cannot be read") {
				held++
				<-third // or for ever, which the bubble reports
			}
		}), &slog.HandlerOptions{Level: slog.LevelWarn}))
		client := clientOver(t, transport, clinicaldoc.WithLogger(log))
		ids := must(collect(t, client.Notes.All(t.Context(), listParams{Prefetch: 2})))(t)
		assert.Equal(t, []int64{1, 2, 3, 4, 5}, ids)
		assert.Equal(t, 1, held)
	})
}

func TestPrefetch_UnknownEnd_RequestsOnePageAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service := &latency{t: t, last: 3, untold: true}
		ids := must(collect(t, service.client(t).Notes.All(t.Context(), listParams{Prefetch: 8})))(t)
		assert.Equal(t, []int64{1, 2, 3}, ids)
		assert.Equal(t, []int{1, 1, 2, 3, 4}, service.asked)
		assert.Equal(t, 1, service.most)
	})
}

func TestPrefetch_WorksWhileTheReaderDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service := &latency{t: t, last: 4}
		for note, err := range service.client(t).Notes.All(t.Context(), listParams{Prefetch: 1}) {
			require.NoError(t, err)
			synctest.Wait()
			service.mu.Lock()
			want := 1
			if note.ID == 4 {
				want = 0
			}
			assert.Equal(t, want, service.inFlight, "while row %d is being read", note.ID)
			service.mu.Unlock()
		}
	})
}

func TestPrefetch_Break_LeavesNothingBehind(t *testing.T) {
	t.Parallel()
	// The bubble fails the test when a goroutine is left at its end.
	for _, leave := range []string{"break", "panic", "cancel"} {
		synctest.Test(t, func(t *testing.T) {
			service := &latency{t: t, last: 12}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			notes := service.client(t).Notes.All(ctx, listParams{Prefetch: 4})
			func() {
				defer func() { assert.Equal(t, leave == "panic", recover() != nil) }()
				for _, err := range notes {
					if leave == "cancel" && err != nil {
						require.ErrorIs(t, err, context.Canceled)
						continue
					}
					require.NoError(t, err)
					synctest.Wait()
					assert.EqualValues(t, 5, service.begun.Load(), "one page read, four on their way")
					if leave == "panic" {
						panic("the reader's own")
					}
					if leave == "cancel" {
						cancel()
						continue
					}
					break
				}
			}()
			assert.Equal(t, service.begun.Load(), service.ended.Load(), "the loop is left when all requests have ended")
			time.Sleep(time.Minute) // of virtual time, in which nothing more is asked
			assert.EqualValues(t, 5, service.begun.Load())
			service.mu.Lock()
			assert.Zero(t, service.inFlight)
			service.mu.Unlock()
		})
	}
}

func TestAll_ManyGoroutines_ShareOneClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service := &latency{t: t, last: 5}
		client := service.client(t)
		notes := client.Notes.All(t.Context(), listParams{Prefetch: 2})
		var workers sync.WaitGroup
		for range 20 {
			workers.Go(func() {
				count := 0
				for _, err := range notes {
					if err != nil {
						t.Errorf("range: %v", err)
					}
					count++
				}
				assert.Equal(t, 5, count)
			})
		}
		workers.Wait()
		assert.Len(t, service.asked, 100)
	})
}

func TestPage_HasNext(t *testing.T) {
	t.Parallel()
	for answer, more := range map[string]bool{
		`{"data":` + rows(1) + `,"meta":{"current_page":1,"last_page":2}}`:                      true,
		`{"data":` + rows(1) + `,"meta":{"current_page":1,"last_page":1},"links":{"next":"x"}}`: false,
		`{"data":` + rows(1) + `,"links":{"next":"x"}}`:                                         true,
		`{"data":` + rows(1) + `,"links":{"next":""}}`:                                          false,
		`{"data":` + rows(1) + `,"links":{"next":null}}`:                                        false,
		`{"data":` + rows(1) + `,"meta":{"next_cursor":"c"}}`:                                   true,
		`{"data":` + rows(1) + `,"meta":{"next_cursor":null}}`:                                  false,
		`{"data":` + rows(1) + `}`:                                                              true,
		`{"data":[]}`:                                                                           false,
		rows(1):                                                                                 true,
		`[]`:                                                                                    false,
	} {
		page, err := serve(t, pagedCall("", answer)).Notes.List(t.Context(), listParams{})
		require.NoError(t, err, answer)
		assert.Equal(t, more, page.HasNext(), answer)
	}
	assert.False(t, new(clinicaldoc.Page[clinicaldoc.ProgressNote]).HasNext())
}

func FuzzPages(f *testing.F) {
	for _, seed := range []string{
		"", "[]", "null", `{"data":null}`, `{"data":[` + fullNote + `]}`,
		`[{"id":1,"name":"n"},{"id":2,"name":"n","patient":{"id":4711}}]`,
		`{"data":[{"id":1,"name":"n"}],"links":{"next":"https://other.test/?cursor=c"},"meta":{"current_page":1,"last_page":"2","per_page":15,"total":16}}`,
		`{"data":[{"id":1,"name":"n"}],"meta":{"next_cursor":"abc"},"next_page_url":null}`,
		`{"data":[{"id":1,"name":"n"}],"next_page_url":"?cursor=%zz"}`,
		`{"data":[{"id":1,"name":"n"}],"current_page":9223372036854775807,"last_page":-1}`,
		`{"data":[],"data":[{"id":1,"name":"n"}],"meta":[],"links":7}`,
		`{"tokens":[{"id":1,"name":"label","created_at":"2024-05-01T10:11:12Z","last_used_at":""}]}`,
		`{"data":[{"id":0}]}`, `[{"id":1,"has":{"signed":2}}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		client := clientOver(t, answerWith(http.StatusOK, "application/json", document))
		tokens, err := client.Tokens.List(t.Context())
		if err != nil {
			checkDecoding(t, nil, err)
		}
		for _, token := range tokens {
			require.Positive(t, token.ID)
			checkStored(t, token)
		}
		for _, params := range []listParams{{}, {PerPage: 1}, {Page: 2}, {Cursor: "c"}, {PatientID: 4711}} {
			page, err := client.Notes.List(t.Context(), params)
			if err != nil {
				require.Nil(t, page)
				checkListError(t, err)
				continue
			}
			for _, note := range page.Items {
				require.Positive(t, note.ID)
				checkStored(t, note)
				if params.PatientID != 0 {
					id, named := note.PatientID()
					require.True(t, named)
					require.Equal(t, params.PatientID, id)
				}
			}
			require.False(t, page.Meta.NextCursor != "" && !page.HasNext(), "a cursor leads on")
		}
	})
}

// checkListError is checkDecoding for a list, whose rows and position are judged too.
func checkListError(t *testing.T, err error) {
	t.Helper()
	if _, judgement, _ := strings.Cut(err.Error(), "): "); listErrors.MatchString(judgement) {
		return
	}
	checkDecoding(t, nil, err)
}

var listErrors = regexp.MustCompile(`^(it is not the requested page; check the page parameter in WithQueryNames` +
	`|the list may be incomplete: (several pages in a row contain no new row; check the page, size and sort parameters in WithQueryNames` +
	`|the service announces more rows than it sends|(it is not known whether more rows exist|more rows exist than its pages show); check the page, size and sort parameters in WithQueryNames)` +
	`|the service returned a note of another patient, or with an unreadable patient; check the patient parameter in WithQueryNames` +
	`|the service returned a note without a patient, so its patient cannot be checked; TrustPatientFilter accepts such rows)$`)

// FuzzPageWalk lets a service say anything about its pages: the walk ends, and shows every row once.
func FuzzPageWalk(f *testing.F) {
	f.Add([]byte{1, 2, 0, 3}, `"current_page":$,"last_page":2`, "", byte(0))
	f.Add([]byte{1, 0, 1, 0, 1}, `"current_page":$,"last_page":1000000`, "", byte(3))
	f.Add([]byte{1, 2, 0, 2, 3}, `"next_cursor":"c$"`, "", byte(1))
	f.Add([]byte{1, 2, 0, 2, 3}, `"next_cursor":"same"`, "", byte(2))
	f.Add([]byte{1, 0, 2, 0, 3}, `"per_page":1`, "https://other.test/?cursor=c$", byte(1))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 2}, `"current_page":9223372036854775807,"last_page":9223372036854775807`, "?page=$",
		byte(64))
	f.Add([]byte{}, `"total":-1`, "%zz", byte(0))
	f.Add([]byte{1, 0, 2, 0, 3, 0, 1, 0, 4, 0, 5, 0, 1}, `"current_page":$,"last_page":9,"total":~`, "", byte(2))
	f.Add([]byte{1, 2, 0, 3, 0, 0, 4}, `"current_page":$,"last_page":~,"per_page":2`, "", byte(0))
	f.Add([]byte{1, 2, 0, 3, 4}, `"next_cursor":"c~","total":~`, "", byte(1))
	f.Add([]byte{5}, `"current_page":"$","last_page":"9","next_cursor":null`, "", byte(9))
	f.Fuzz(func(t *testing.T, rows []byte, meta, link string, prefetch byte) {
		// The n-th response contains the n-th piece of rows, separated by zeros. After all were shown, the last
		// piece repeats. $ is the page's number, and ~ falls with each response.
		pieces := bytes.Split(rows, []byte{0})
		distinct := len(slices.Compact(slices.Sorted(slices.Values(rows))))
		quoted, err := json.Marshal(link)
		require.NoError(t, err)
		requests := make(chan struct{}, 10_000)
		var page int
		serving := make(chan struct{}, 1) // one at a time
		client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			serving <- struct{}{}
			defer func() { <-serving }()
			select {
			case requests <- struct{}{}:
			default:
				return nil, errors.New("too many requests")
			}
			page++
			number := strconv.Itoa(page)
			if asked := r.URL.Query().Get("page"); asked != "" {
				number = asked
			}
			var ids []string
			for _, id := range pieces[min(page, len(pieces))-1] {
				ids = append(ids, fmt.Sprintf(`{"id":%d,"name":"n"}`, id))
			}
			body := `{"data":[` + strings.Join(ids, ",") + `],"links":{"next":` +
				strings.ReplaceAll(string(quoted), "$", number) + `},"meta":{` +
				strings.NewReplacer("$", number, "~", strconv.Itoa(900-page)).Replace(meta) + `}}`
			return answerWith(http.StatusOK, "application/json", []byte(body))(r)
		}))
		params := listParams{Prefetch: int(prefetch) % 65}
		seen := map[int64]bool{}
		ended := false
		for note, err := range client.Notes.All(t.Context(), params) {
			require.False(t, ended, "nothing follows an error")
			if err != nil {
				ended = true
				require.Nil(t, note)
				checkListError(t, err)
				continue
			}
			require.False(t, seen[note.ID], "a row twice")
			seen[note.ID] = true
		}
		// Three pages in a row may contain nothing new. Each may lead back over all pages before it, with pages
		// requested ahead, and there may be five walks.
		pages := 3*(distinct+1) + 1
		require.LessOrEqual(t, len(requests), 5*pages*pages*(1+params.Prefetch))
	})
}

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

func TestAll_LoopDeletes_YieldsEveryNote(t *testing.T) {
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
						params := listParams{PatientID: 4711, Sort: sort, PerPage: perPage, Prefetch: prefetch}
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

func TestAll_OthersDelete_YieldsEveryNoteThatIsLeft(t *testing.T) {
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
						for note, err := range srv.Client().Notes.All(t.Context(),
							listParams{Sort: sort, PerPage: 10, Prefetch: prefetch}) {
							require.NoError(t, err)
							if ids = append(ids, note.ID); len(ids) == when {
								must(someone.Notes.Delete(t.Context(), victim))(t)
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

func TestAll_OthersCreate_YieldsEveryNote(t *testing.T) {
	t.Parallel()
	for name, variant := range map[string]clinicaldoctest.Variant{
		"length-aware": {}, "simple": {Pagination: clinicaldoctest.PaginationSimple},
		"cursor": {Pagination: clinicaldoctest.PaginationCursor},
		"bare":   {Pagination: clinicaldoctest.PaginationBare},
	} {
		for _, sort := range everySort {
			for _, prefetch := range []int{0, 2} {
				t.Run(fmt.Sprint(name, "/", sort, prefetch), func(t *testing.T) {
					t.Parallel()
					srv := filledBox(t, 40, variant)
					var ids []int64
					for note, err := range srv.Client().Notes.All(t.Context(),
						listParams{Sort: sort, PerPage: 10, Prefetch: prefetch}) {
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

func TestVerify_SilentPages_FindsWhatTheyHide(t *testing.T) {
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
					params := listParams{Sort: sort, Prefetch: prefetch, Verify: true}
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
	params := listParams{PerPage: 5, Verify: true}
	type test struct {
		calls []call
		ids   []int64
		match error
	}
	subtests(t, map[string]test{
		"unchanged":  {[]call{page(1, 2), page(1, 2)}, []int64{1, 2}, nil},
		"empty":      {[]call{page()}, nil, nil},
		"a row more": {[]call{page(1, 2), page(3, 1), page(3, 1)}, []int64{1, 2, 3}, nil},
		"new in the fifth": {[]call{page(1), page(2), page(3), page(4), page(5)}, []int64{1, 2, 3, 4, 5},
			clinicaldoc.ErrIncompleteList},
		"none in the fifth": {
			[]call{page(1), page(2), page(3), page(4), page(2, 4)}, []int64{1, 2, 3, 4}, nil,
		},
	}, func(t *testing.T, tt test) {
		ids, err := collect(t, serve(t, tt.calls...).Notes.All(t.Context(), params))
		require.ErrorIs(t, err, tt.match)
		require.NotErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse, "the service knows its parameters")
		assert.Equal(t, tt.ids, ids)
	})
}

// silent is a service that tells nothing of its pages and does not know the page parameter, as a list made for cursors
// does. The other names are left to the test.
func silent(names clinicaldoctest.QueryNames) clinicaldoctest.Variant {
	names.Page = "not[page]"
	return clinicaldoctest.Variant{Pagination: clinicaldoctest.PaginationBare, Query: names}
}

func TestAll_PartOfAList_IsNotComplete(t *testing.T) {
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
		"page unknown": {silent(clinicaldoctest.QueryNames{}), 40,
			map[int]bool{0: false, 10: false, 100: true}},
		"page and size unknown": {silent(unknownSize), 40,
			map[int]bool{0: false, 10: false, 100: false}},
		"page and sort unknown": {silent(unknownSort), 40, map[int]bool{0: false, 10: false, 100: true}},
		"nothing known":         {silent(unknown), 40, map[int]bool{0: false, 10: false, 100: false}},
		"page unknown, one page": {silent(clinicaldoctest.QueryNames{}), 12,
			map[int]bool{0: true, 10: false, 100: true}},
		"page unknown, exactly one page": {silent(clinicaldoctest.QueryNames{}), 15,
			map[int]bool{0: true, 15: true, 100: true}},
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
						ids, err := collect(t,
							client.Notes.All(t.Context(), listParams{PerPage: perPage, Sort: sort, Prefetch: prefetch}))
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

func TestAll_TotalAboveTheRows_IsIncomplete(t *testing.T) {
	t.Parallel()
	page := func(query string, total int, ids ...int) call {
		return pagedCall(query,
			fmt.Sprintf(`{"data":%s,"meta":{"current_page":1,"last_page":1,"total":%d}}`, rows(ids...), total))
	}
	// One more look finds what moved to the front, or that there is nothing.
	ids := must(collect(t, serve(t, page("", 3, 2, 1), page("", 3, 3, 2, 1)).Notes.All(t.Context(), listParams{})))(t)
	assert.Equal(t, []int64{2, 1, 3}, ids)

	ids, err := collect(t, serve(t, page("", 3, 2, 1), page("", 3, 2, 1)).Notes.All(t.Context(), listParams{}))
	require.ErrorIs(t, err, clinicaldoc.ErrIncompleteList)
	require.NotErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	assert.Equal(t,
		"clinicaldoc: Notes.List (GET /v1/progress-notes): the list may be incomplete: the service announces more rows than it sends", err.Error())
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
	return httpmock.NewStringResponse(http.StatusOK,
		fmt.Sprintf(`{"data":%s,"meta":{"current_page":%d,"last_page":%d,"per_page":%d,"total":%d}}`,
			rows(page...), number, max(1, (len(m.ids)+m.size-1)/m.size), m.size, len(m.ids))), nil
}

func TestAll_ChangingList_YieldsEverythingOrAnError(t *testing.T) {
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
					ids, err := collect(t,
						clientOver(t, transport).Notes.All(t.Context(), listParams{Prefetch: prefetch}))
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
func TestPrefetch_Panic_ReachesTheLoop(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]func(strike func()) clinicaldoc.Option{
		"transport": func(strike func()) clinicaldoc.Option {
			return clinicaldoc.WithHTTPClient(
				&http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
					strike()
					return numberedPages(req)
				})})
		},
		"hook": func(strike func()) clinicaldoc.Option {
			return onAttempt(func(context.Context, clinicaldoc.Attempt) { strike() })
		},
		"limiter": func(strike func()) clinicaldoc.Option {
			return clinicaldoc.WithLimiter(limiterFunc(func(context.Context) error { strike(); return nil }))
		},
		"token source": func(strike func()) clinicaldoc.Option {
			return clinicaldoc.WithTokenSource(
				tokenFunc(func(context.Context) (string, error) { strike(); return testToken, nil }))
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
					client, err := clinicaldoc.NewClient(testBase, token, over(roundTripper(numberedPages)), once,
						strike)
					require.NoError(t, err)
					recovered, finished := ranging(client.Notes.All(t.Context(), listParams{Prefetch: prefetch}))
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

func TestCollect_ReturnsNotesAndErrors(t *testing.T) {
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
	all := must(clinicaldoc.Collect(sequence()))(t)
	assert.Nil(t, all)

	all = must(clinicaldoc.Collect(sequence("a", "b")))(t)
	assert.Equal(t, []*string{new("a"), new("b")}, all)

	all, err := clinicaldoc.Collect(sequence("a", first))
	assert.Equal(t, first, err, "as it came")
	assert.Equal(t, []*string{new("a")}, all)

	all, err = clinicaldoc.Collect(sequence("a", first, "b", second, "c"))
	require.ErrorIs(t, err, first)
	require.ErrorIs(t, err, second)
	assert.Equal(t, []*string{new("a"), new("b"), new("c")}, all)

	srv := filledBox(t, 40, clinicaldoctest.Variant{})
	notes := must(clinicaldoc.Collect(srv.Client().Notes.All(t.Context(), listParams{})))(t)
	assert.Len(t, notes, 40)
}

// Many errors are joined once, and only some of them are in the text.
func TestCollect_ManyErrors_AreJoined(t *testing.T) {
	t.Parallel()
	errs := make([]error, 10_000)
	for i := range errs {
		errs[i] = fmt.Errorf("synthetic %d", i)
	}
	all, err := clinicaldoc.Collect(failing(errs))
	assert.Empty(t, all)
	for _, one := range []error{errs[0], errs[5000], errs[9999]} {
		require.ErrorIs(t, err, one)
	}
	assert.Equal(t, "synthetic 0\nsynthetic 1\nsynthetic 2\nsynthetic 3\nsynthetic 4\n9995 more errors", err.Error())
	assert.Equal(t, err.Error(), fmt.Sprintf("%+v", err))
	var joined interface{ Unwrap() []error }
	require.ErrorAs(t, err, &joined)
	assert.Equal(t, errs, joined.Unwrap())

	_, err = clinicaldoc.Collect(failing(errs[:6]))
	assert.Equal(t, "synthetic 0\nsynthetic 1\nsynthetic 2\nsynthetic 3\nsynthetic 4\nsynthetic 5", err.Error())
}

func failing(errs []error) iter.Seq2[*string, error] {
	return func(yield func(*string, error) bool) {
		for _, err := range errs {
			if !yield(nil, err) {
				return
			}
		}
	}
}

// BenchmarkTextOfManyErrors measures the error of 10,000 notes that failed. The bar is 50 ms.
func BenchmarkTextOfManyErrors(b *testing.B) {
	errs := make([]error, 10_000)
	for i := range errs {
		errs[i] = &clinicaldoc.WaitError{ID: int64(i + 1), Err: clinicaldoc.ErrUnauthorized}
	}
	for b.Loop() {
		_, err := clinicaldoc.Collect(failing(errs))
		if len(err.Error()) > 1000 {
			b.Fatal(len(err.Error()))
		}
	}
}

func TestExtra_OfAPage(t *testing.T) {
	t.Parallel()
	const rows = `[{"id":1,"name":"n"}]`
	for answer, want := range map[string]string{
		`{"data":` + rows + `}`: `null`,
		rows:                    `null`,
		`{"data":` + rows + `,"meta":{"current_page":1,"last_page":1,"per_page":"15","total":1},"links":[]}`: `null`,
		`{"data":` + rows + `,"links":{"first":"https://a.test/?page=1","last":null,"prev":null,"next":"https://a.test/?page=2"},
		"meta":{"current_page":1,"from":1,"last_page":1,"links":[{"url":null,"label":"&laquo;","active":false}],"path":"https://a.test","to":1,"total":1}}`: `{"first":"https://a.test/?page=1",
		"last":null,"prev":null,"next":"https://a.test/?page=2","from":1,"links":[{"url":null,"label":"&laquo;","active":false}],"path":"https://a.test","to":1}`,
		`{"data":` + rows +
			`,"meta":{"path":"p","next_cursor":null,"prev_cursor":"abc"}}`: `{"path":"p","prev_cursor":"abc"}`,
		`{"current_page":1,"data":` + rows +
			`,"from":1,"next_page_url":null,"to":1,"warnings":["synthetic"]}`: `{"from":1,"to":1,"warnings":["synthetic"]}`,
		`{"data":` + rows +
			`,"meta":{"total":"many"}}`: `{"total":"many"}`,
	} {
		client := serve(t, call{url: "/v1/progress-notes", response: answer})
		page, err := client.Notes.List(t.Context(), listParams{})
		require.NoError(t, err, answer)
		encoded := must(json.Marshal(page.Meta.Extra))(t)
		assert.JSONEq(t, want, string(encoded), answer)
		assertRoundTrip(t, page.Meta)
	}
}

func TestAll_LimitOf60AMinute_YieldsAll(t *testing.T) {
	t.Parallel()
	for _, prefetch := range []int{0, 4} {
		synctest.Test(t, func(t *testing.T) {
			srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess())
			defer srv.Close()
			for range 150 {
				srv.AddNote(clinicaldoctest.Note{Name: "synthetic", PatientID: 7})
			}
			service := newLaravelLimit(srv.Transport().RoundTrip)
			client := srv.Client(over(service))
			start := time.Now()
			params := listParams{PatientID: 7, PerPage: 1, Prefetch: prefetch}
			notes := must(clinicaldoc.Collect(client.Notes.All(t.Context(), params)))(t)
			assert.Len(t, notes, 150)
			all, most := service.refusals()
			assert.LessOrEqual(t, most, 1)
			assert.LessOrEqual(t, service.requests, 150+all)
			assert.Less(t, time.Since(start), 3*time.Minute)
		})
	}
}
