package clinicaldoc_test

import (
	"bytes"
	"cmp"
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
	"testing"
	"testing/synctest"
	"time"

	"github.com/jarcoal/httpmock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// pageWith expects a request for one page, which has these rows and further members.
func pageWith(query, members string, ids ...int) call {
	return pagedCall(query, `{"data":`+rows(ids...)+`,`+members+`}`)
}

func TestAll_EveryFormOfPages_IsFollowed(t *testing.T) {
	t.Parallel()
	const toPage2 = `"http://internal/?page=2"`
	tests := map[string][]call{
		"length-aware": {
			pageWith("", `"links":{"next":`+toPage2+`},"meta":{"current_page":1,"last_page":2,"per_page":2,"total":3}`,
				1, 2),
			pageWith("?page=2", `"links":{"next":null},"meta":{"current_page":2,"last_page":2,"per_page":2,"total":3}`,
				3),
		},
		"length-aware, numbers as texts": {
			pageWith("", `"links":[],"meta":{"current_page":"1","last_page":"2","per_page":"2","total":"3"}`, 1, 2),
			pageWith("?page=2", `"meta":{"current_page":"2","last_page":"2","per_page":"2","total":"3"}`, 3),
		},
		"length-aware, meta first": {
			pagedCall("", `{"meta":{"current_page":1,"last_page":2},"data":`+rows(1, 2)+`}`),
			pagedCall("?page=2", `{"meta":{"current_page":2,"last_page":2},"data":`+rows(3)+`}`),
		},
		"simple": {
			pageWith("", `"links":{"first":"x","last":null,"prev":null,"next":`+toPage2+`},`+
				`"meta":{"current_page":1,"per_page":2}`, 1, 2),
			pageWith("?page=2", `"links":{"first":"x","last":null,"prev":"x","next":null},`+
				`"meta":{"current_page":2,"per_page":2}`, 3),
		},
		"cursor": {
			pageWith("", `"links":{"next":"x"},"meta":{"per_page":1,"next_cursor":"a+b=","prev_cursor":null}`, 1),
			pageWith("?cursor=a%2Bb%3D", `"links":{"next":"x"},"meta":{"next_cursor":"c"}`, 2),
			pageWith("?cursor=c", `"links":{"next":null},"meta":{"next_cursor":null}`, 3),
		},
		"cursor in the link alone": {
			pageWith("", `"links":{"first":null,"last":null,"prev":null,`+
				`"next":"http:\/\/internal\/notes?cursor=a%2Bb"},"meta":{"path":"x","per_page":2}`, 1, 2),
			pageWith("?cursor=a%2Bb", `"links":{"next":null},"meta":{"path":"x","per_page":2}`, 3),
		},
		"flat": {
			pageWith("", `"current_page":1,"last_page":2,"links":[{"url":null,"label":"x"}],"next_page_url":`+toPage2+
				`,"per_page":2,"total":3`, 1, 2),
			pageWith("?page=2", `"current_page":2,"last_page":2,"next_page_url":null,"per_page":2,"total":3`, 3),
		},
		"flat and simple": {
			pageWith("", `"current_page":1,"next_page_url":`+toPage2, 1, 2),
			pageWith("?page=2", `"current_page":2,"next_page_url":null`, 3),
		},
		"flat with a cursor": {
			pageWith("", `"next_cursor":"a","next_page_url":"x"`, 1, 2),
			pageWith("?cursor=a", `"next_cursor":null,"next_page_url":null`, 3),
		},
		"a cursor that is a number": {
			pageWith("", `"meta":{"next_cursor":17}`, 1, 2),
			pageWith("?cursor=17", `"meta":{"next_cursor":0}`, 3),
		},
		"links that are objects": {
			pageWith("", `"links":{"next":{"href":`+toPage2+`}}`, 1, 2),
			pageWith("?page=2", `"links":{"next":{}}`, 3),
		},
		"a cursor in a link that is an object": {
			pageWith("", `"links":{"next":{"href":"http://internal/?cursor=a"}}`, 1, 2),
			pageWith("?cursor=a", `"links":{"next":[]}`, 3),
		},
		"next is a flag": {
			pageWith("", `"links":{"next":true}`, 1, 2),
			pageWith("?page=2", `"links":{"next":false}`, 3),
		},
		"next is a number": {
			pageWith("", `"links":{"next":2}`, 1, 2),
			pageWith("?page=2", `"links":{"next":0}`, 3),
		},
		"links counted from 0": {
			pageWith("", `"links":{"next":"http://internal/?page=1"}`, 1),
			pageWith("?page=1", `"links":{"next":"http://internal/?page=2"}`, 2),
			pageWith("?page=2", `"links":{"next":null}`, 3),
		},
		"length-aware, counted from 0": {
			pageWith("", `"meta":{"current_page":0,"last_page":2,"total":3}`, 1),
			pageWith("?page=1", `"meta":{"current_page":1,"last_page":2,"total":3}`, 2),
			pageWith("?page=2", `"meta":{"current_page":2,"last_page":2,"total":3}`, 3),
		},
		"length-aware, counted from 0, numbers as texts": {
			pageWith("", `"meta":{"current_page":"0","last_page":"1"}`, 1, 2),
			pageWith("?page=1", `"meta":{"current_page":"1","last_page":"1"}`, 3),
		},
		// If the service does not describe its pages, page 1 shows whether it counts from 0 or from 1.
		"bare data, empty meta": {
			pageWith("", `"links":{},"meta":{}`, 1, 2),
			pageWith("?page=1", `"links":{},"meta":{}`, 1, 2),
			pageWith("?page=2", `"links":[],"meta":[]`, 3),
			pageWith("?page=3", `"links":null,"meta":null`),
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
		// A service without pages returns everything again. Its other order, or a size that it honors, shows that this
		// is all.
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
	// The service does not describe what it reports about its pages, so nothing in it makes a list fail.
	for _, meta := range []string{
		`"meta":5,"links":7`, `"meta":"x","links":"x"`,
		`"meta":{"current_page":{"a":1},"last_page":[1],"per_page":true,"total":"x","next_cursor":{"a":1}}`,
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

// Each range over an iterator reads the list from its beginning, and nothing is requested before a range.
func TestAll_RangedTwice_StartsAnew(t *testing.T) {
	t.Parallel()
	first := pagedCall("?per_page=2", `{"data":`+rows(1, 2)+`,"meta":{"current_page":1,"last_page":2}}`)
	second := pagedCall("?page=2&per_page=2", `{"data":`+rows(3)+`,"meta":{"current_page":2,"last_page":2}}`)
	s, httpClient := newScript(t, first, second, first, first, second)
	client := clientOn(t, httpClient)
	_ = client.Notes.All(t.Context(), listParams{PerPage: 2, Prefetch: 1})
	notes := client.Notes.All(t.Context(), listParams{PerPage: 2})
	assert.Zero(t, s.count(), "requests before a range")
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

// A page that fails is the one being read: its response says why.
func TestAll_WithResponse_IsOfThePageBeingRead(t *testing.T) {
	t.Parallel()
	for prefetch := range 3 {
		first := pageWith("", `"meta":{"current_page":1,"last_page":2}`, 1, 2)
		first.answerHeader = map[string]string{"X-Request-Id": "page-1"}
		second := call{url: notesPath + "?page=2", status: http.StatusForbidden, response: `{}`}
		second.answerHeader = map[string]string{"X-Request-Id": "page-2"}
		var response clinicaldoc.Response
		var seen []string
		var failure error
		client := serve(t, first, second)
		params := listParams{Prefetch: prefetch}
		for _, err := range client.Notes.All(t.Context(), params, clinicaldoc.WithResponse(&response)) {
			failure = err
			seen = append(seen, response.RequestID)
		}
		require.ErrorIs(t, failure, clinicaldoc.ErrForbidden)
		assert.Equal(t, []string{"page-1", "page-1", "page-2"}, seen)
		assert.Equal(t, http.StatusForbidden, response.StatusCode)
	}
}

// The size of pages shows how many rows precede a page, so a total is compared also from there on.
func TestAll_TotalFromALaterPage_IsCompared(t *testing.T) {
	t.Parallel()
	second := pagedCall("?page=2&per_page=2",
		`{"data":`+rows(3, 4)+`,"meta":{"current_page":2,"last_page":2,"per_page":2,"total":10}}`)
	ids, err := collect(t, serve(t, second, second).Notes.All(t.Context(), listParams{Page: 2, PerPage: 2}))
	require.ErrorIs(t, err, clinicaldoc.ErrIncompleteList)
	assert.Equal(t, []int64{3, 4}, ids)
}

// The error includes why the client could not find out whether the list is complete.
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
		"same page for ever, not described": {
			answer: func(int, *http.Request) string { return `{"data":` + rows(1, 2) + `}` },
			ids:    []int64{1, 2}, match: clinicaldoc.ErrIncompleteList, atMost: 5,
		},
		"the only row for ever, not described": {
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
		"a cursor and then a page that is not described": {
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

// A page that was selected by a cursor may report any number.
func TestList_Cursor_AcceptsAnyPage(t *testing.T) {
	t.Parallel()
	client := serve(t, pagedCall("?cursor=c2", `{"data":`+rows(1)+`,"meta":{"current_page":2}}`))
	page := must(client.Notes.List(t.Context(), listParams{Cursor: "c2"}))(t)
	assert.Len(t, page.Items, 1)
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

// A name that is set leaves the others as they are. Any text can be a name, also that of another parameter.
func TestQueryNames_OneIsSet_OthersKeepTheirDefaults(t *testing.T) {
	t.Parallel()
	for names, query := range map[clinicaldoc.QueryNames]string{
		{PatientID: "patient"}:           "?page=2&patient=4711&per_page=10&sort=latest",
		{PerPage: "size"}:                "?page=2&patient_id=4711&size=10&sort=latest",
		{Sort: "order"}:                  "?order=latest&page=2&patient_id=4711&per_page=10",
		{Page: "cursor", Cursor: "page"}: "?cursor=2&patient_id=4711&per_page=10&sort=latest",
		{Page: "-", Sort: `so"rt: x`}:    "?-=2&patient_id=4711&per_page=10&so%22rt%3A+x=latest",
	} {
		cursor := cmp.Or(names.Cursor, "cursor")
		client := serveWith(t, []clinicaldoc.Option{clinicaldoc.WithQueryNames(names)},
			pagedCall(query, `[]`), pagedCall("?"+cursor+"=c", `[]`))
		params := listParams{PatientID: 4711, PerPage: 10, Sort: clinicaldoc.SortLatest, Page: 2}
		must(client.Notes.List(t.Context(), params))(t)
		must(client.Notes.List(t.Context(), listParams{Cursor: "c"}))(t)
	}
}

// All requests up to Prefetch pages ahead, and yields their rows in order although later pages overtake earlier ones.
func TestPrefetch_KeepsOrderAndItsLimit(t *testing.T) {
	t.Parallel()
	timedSubtests(t, named(0, 1, 2, 5, 64), func(t *testing.T, prefetch int) {
		const pages = 12
		var mu sync.Mutex
		requests, underWay, most := 0, 0, 0
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			requests += max(n, 0)
			underWay += n
			most = max(most, underWay)
		}
		client := clientOver(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			count(1)
			defer count(-1)
			page := max(pageOf(r), 1)
			time.Sleep(time.Duration(1+page%2) * time.Second)
			return madeResponse(r, http.StatusOK,
				fmt.Sprintf(`{"data":%s,"meta":{"current_page":%d,"last_page":%d}}`, rows(page), page, pages)), nil
		}))
		begin := time.Now()
		ids := must(collect(t, client.Notes.All(t.Context(), listParams{Prefetch: prefetch})))(t)
		took := time.Since(begin)
		assert.Equal(t, upTo(pages), ids)
		assert.Equal(t, pages, requests, "each page once")
		assert.Equal(t, min(max(prefetch, 1), pages-1), most, "under way together")
		const oneByOne = 18 * time.Second // what twelve pages take one after the other
		if prefetch > 1 {
			assert.Less(t, took, oneByOne)
		} else {
			assert.Equal(t, oneByOne, took)
		}
	})
}

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
				// which is logged in the middle of decoding
				row = `{"id":2,"name":"n","has":{"signed":"nobody knows"}}`
			case 3:
				close(third)
			}
			body := fmt.Sprintf(`{"data":[%s],"meta":{"current_page":%d,"last_page":5,"total":5}}`, row, number)
			return answerWith(http.StatusOK, "application/json", []byte(body))(req)
		})
		waited := 0
		log := slog.New(slog.NewTextHandler(writerFunc(func(line []byte) (int, error) {
			if bytes.Contains(line, []byte("cannot be read")) {
				waited++
				<-third // or for ever, which the bubble reports
			}
			return len(line), nil
		}), &slog.HandlerOptions{Level: slog.LevelWarn}))
		client := clientOver(t, transport, clinicaldoc.WithLogger(log))
		ids := must(collect(t, client.Notes.All(t.Context(), listParams{Prefetch: 2})))(t)
		assert.Equal(t, []int64{1, 2, 3, 4, 5}, ids)
		assert.Equal(t, 1, waited)
	})
}

// Ranging over a list holds the page that is read and those requested ahead, not all of them.
func TestAll_ManyPages_TakeFlatMemory(t *testing.T) { //nolint:paralleltest // it measures the process' heap
	const pages, size = 300, 100 << 10
	name := strings.Repeat("x", size)
	transport := roundTripper(func(req *http.Request) (*http.Response, error) {
		number := cmp.Or(req.URL.Query().Get("page"), "1")
		return httpmock.NewStringResponse(http.StatusOK, fmt.Sprintf(
			`{"data":[{"id":%s,"name":%q}],"meta":{"current_page":%s,"last_page":%d,"per_page":1}}`,
			number, name, number, pages)), nil
	})
	client := must(clinicaldoc.NewClient(testBase, testToken, over(transport)))(t)
	var first, growth int64
	for note, err := range client.Notes.All(t.Context(), listParams{Prefetch: 2}) {
		require.NoError(t, err)
		if note.ID%50 != 0 {
			continue
		}
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		first = cmp.Or(first, int64(stats.HeapAlloc))
		growth = max(growth, int64(stats.HeapAlloc)-first)
	}
	assert.Less(t, growth, int64(20*size))
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
		`{"data":` + rows(1) + `,"meta":{"next_cursor":0}}`:                                     false,
		`{"data":` + rows(1) + `,"meta":{"next_cursor":{"after":7}}}`:                           true,
		`{"data":` + rows(1) + `,"links":{"next":{"url":"x"}}}`:                                 true,
		`{"data":` + rows(1) + `,"links":{"next":false}}`:                                       false,
		`{"data":` + rows(1) + `,"meta":{"current_page":0,"last_page":1}}`:                      true,
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

// FuzzPageWalk lets a service report anything about its pages. The walk ends, and yields every row once.
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

// filledBox is a box with notes 1 to n, a minute apart.
func filledBox(t *testing.T, n int, variant clinicaldoctest.Variant) *clinicaldoctest.Server {
	t.Helper()
	srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess(), clinicaldoctest.WithVariant(variant))
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

// Pages that do not describe themselves can hide rows that a deletion moved. Verify finds those.
func TestAll_LoopDeletes_YieldsEveryNote(t *testing.T) {
	t.Parallel()
	for name, pagination := range map[string]clinicaldoctest.Pagination{
		"length-aware":     clinicaldoctest.PaginationLengthAware,
		"flat":             clinicaldoctest.PaginationFlat,
		"cursor":           clinicaldoctest.PaginationCursor,
		"cursor in links":  clinicaldoctest.PaginationCursorInLinks,
		"all at once":      clinicaldoctest.PaginationNone,
		"simple, verified": clinicaldoctest.PaginationSimple,
		"bare, verified":   clinicaldoctest.PaginationBare,
	} {
		verify := strings.HasSuffix(name, "verified")
		for _, sort := range everySort {
			for _, perPage := range []int{0, 10} {
				for _, prefetch := range []int{0, 2} {
					t.Run(fmt.Sprint(name, "/", sort, perPage, prefetch), func(t *testing.T) {
						t.Parallel()
						srv := filledBox(t, 40, clinicaldoctest.Variant{Pagination: pagination})
						client := srv.Client()
						params := listParams{
							PatientID: 4711, Sort: sort, PerPage: perPage, Prefetch: prefetch, Verify: verify,
						}
						var ids []int64
						for note, err := range client.Notes.All(t.Context(), params) {
							require.NoError(t, err)
							ids = append(ids, note.ID)
							must(client.Notes.Delete(t.Context(), note.ID))(t)
						}
						assert.ElementsMatch(t, upTo(40), ids)
						assert.Empty(t, srv.Notes())
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
	// One more walk finds rows that moved to the front, or shows that there are none.
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

// respond takes another time for each page, so pages that are under way together come in the same order each time, but
// not in theirs.
func (m *moving) respond(req *http.Request) (*http.Response, error) {
	number, _ := strconv.Atoi(req.URL.Query().Get("page"))
	number = max(number, 1)
	time.Sleep(time.Duration(number*7%11) * time.Millisecond)
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.change()
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
			timedSubtest(t, fmt.Sprint(only, prefetch), func(t *testing.T) {
				incomplete := 0
				for seed := range uint64(100) {
					m := newMoving(rand.New(rand.NewPCG(seed, 1)), only)
					client := timedClient(t, m.respond)
					ids, err := collect(t, client.Notes.All(t.Context(), listParams{Prefetch: prefetch}))
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
				assert.Less(t, incomplete, 10, "nearly all lists can be read in spite of changes")
			})
		}
	}
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

// Many errors are joined, and the text contains only some of them.
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

// Extra has each member of the response, except the rows, that the fields of Meta and HasNext do not fully describe. If
// a next_cursor, a next_page_url or the next of links is null, HasNext describes it. Other nulls are in Extra.
func TestExtra_OfAPage(t *testing.T) {
	t.Parallel()
	const rows = `[{"id":1,"name":"n"}]`
	type test struct{ answer, want string }
	subtests(t, map[string]test{
		"no members":    {`{"data":` + rows + `}`, `null`},
		"only an array": {rows, `null`},
		"only numbers, and no links": {
			`{"data":` + rows + `,"meta":{"current_page":1,"last_page":1,"per_page":"15","total":1},"links":[]}`,
			`null`,
		},
		"a page follows": {
			`{"data":` + rows + `,
				"links":{"first":"https://a.test/?page=1","last":null,"prev":null,"next":"https://a.test/?page=2"},
				"meta":{"current_page":1,"from":1,"last_page":1,
					"links":[{"url":null,"label":"&laquo;","active":false}],"path":"https://a.test","to":1,"total":1}}`,
			`{"first":"https://a.test/?page=1","last":null,"prev":null,"next":"https://a.test/?page=2","from":1,
				"links":[{"url":null,"label":"&laquo;","active":false}],"path":"https://a.test","to":1}`,
		},
		"no page follows": {
			`{"data":` + rows + `,"links":{"last":null,"next":null}}`,
			`{"last":null}`,
		},
		"next is not a link outside of links": {
			`{"data":` + rows + `,"meta":{"next":null}}`,
			`{"next":null}`,
		},
		"the last page by cursor": {
			`{"data":` + rows + `,"meta":{"path":"p","next_cursor":null,"prev_cursor":"abc"}}`,
			`{"path":"p","prev_cursor":"abc"}`,
		},
		"the first page by cursor": {
			`{"data":` + rows + `,"meta":{"next_cursor":"def","prev_cursor":null}}`,
			`{"prev_cursor":null}`,
		},
		"the only page, members next to the rows": {
			`{"current_page":1,"data":` + rows +
				`,"from":1,"next_page_url":null,"prev_page_url":null,"to":1,"warnings":["synthetic"]}`,
			`{"from":1,"prev_page_url":null,"to":1,"warnings":["synthetic"]}`,
		},
		"the first page, members next to the rows": {
			`{"data":` + rows + `,"next_page_url":"https://a.test/?page=2"}`,
			`{"next_page_url":"https://a.test/?page=2"}`,
		},
		"a total that is not a number": {
			`{"data":` + rows + `,"meta":{"total":"many"}}`,
			`{"total":"many"}`,
		},
	}, func(t *testing.T, tt test) {
		client := serve(t, call{url: "/v1/progress-notes", response: tt.answer})
		page, err := client.Notes.List(t.Context(), listParams{})
		require.NoError(t, err)
		encoded := must(json.Marshal(page.Meta.Extra))(t)
		assert.JSONEq(t, tt.want, string(encoded))
		assertRoundTrip(t, page.Meta)
	})
}

func TestAll_LimitOf60AMinute_YieldsAll(t *testing.T) {
	t.Parallel()
	const pages = 150 // of one row each
	for _, prefetch := range []int{0, 4} {
		synctest.Test(t, func(t *testing.T) {
			srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess())
			defer srv.Close()
			var want []int64
			for range pages {
				want = append(want, srv.AddNote(clinicaldoctest.Note{Name: "synthetic", PatientID: 7}))
			}
			service := newLaravelLimit(srv.Transport().RoundTrip)
			client := srv.Client(over(service))
			start := time.Now()
			params := listParams{PatientID: 7, PerPage: 1, Prefetch: prefetch}
			notes := must(clinicaldoc.Collect(client.Notes.All(t.Context(), params)))(t)
			var ids []int64
			for _, note := range notes {
				ids = append(ids, note.ID)
			}
			slices.Reverse(ids) // the service lists the newest first
			assert.Equal(t, want, ids, "each row once, in the order of the service")
			refused, mostInAMinute := service.refusals()
			assert.LessOrEqual(t, mostInAMinute, 1)
			assert.LessOrEqual(t, service.requests, pages+refused)
			assert.Less(t, time.Since(start), 3*time.Minute)
		})
	}
}
