package clinicaldoc_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// bare is a list that tells nothing of its pages, of which the first has that number.
func bare(size, first int) func([]string, *http.Request) string {
	return func(rows []string, r *http.Request) string {
		page := 0
		if r.URL.Query().Has("page") {
			page = pageOf(r) - first
		}
		return `{"data":[` + cut(rows, page, size) + `],"links":{},"meta":{}}`
	}
}

// deaf is a list that does not know the page parameter.
func deaf(size int) func([]string, *http.Request) string {
	return func(rows []string, _ *http.Request) string { return `{"data":[` + cut(rows, 0, size) + `]}` }
}

func simple(rows []string, r *http.Request) string {
	page := max(pageOf(r), 1)
	next := "null"
	if page*100 < len(rows) {
		next = fmt.Sprintf("%q", fmt.Sprintf("http://elsewhere.test/?page=%d", page+1))
	}
	return fmt.Sprintf(`{"data":[%s],"links":{"next":%s},"meta":{"current_page":%d}}`, cut(rows, page-1, 100), next, page)
}

func cursors(rows []string, r *http.Request) string {
	page := 0
	_, _ = fmt.Sscanf(r.URL.Query().Get("cursor"), "c%d", &page)
	next := "null"
	if (page+1)*100 < len(rows) {
		next = fmt.Sprintf(`"c%d"`, page+1)
	}
	return fmt.Sprintf(`{"data":[%s],"meta":{"next_cursor":%s}}`, cut(rows, page, 100), next)
}

// "Not created" rests on a list that was seen to its end, or newest first to before the window, and on nothing else.
func TestFindCreatedNeedsAListWithAProvenEnd(t *testing.T) {
	t.Parallel()
	hourly := func(n int) func(*shelf) {
		return func(s *shelf) {
			for i := range n {
				s.keep(visited().named("Earlier").sized(6).by(5).ago(time.Duration(n-i) * time.Hour))
			}
		}
	}
	together := func(s *shelf) { // all in one second, so that no order shows
		for range 250 {
			s.keep(visited().named("Earlier").sized(6).by(5).ago(20 * time.Hour))
		}
	}
	for name, tt := range map[string]struct {
		list   func([]string, *http.Request) string
		fill   func(*shelf)
		oldest bool
		pages  int    // of one look
		reason string // "": proven
	}{
		"numbered, one page":              {nil, hourly(20), false, 1, ""},
		"numbered, empty":                 {nil, hourly(0), false, 1, ""},
		"numbered, past the window":       {nil, hourly(250), false, 1, ""},
		"numbered, oldest first":          {nil, hourly(250), true, 6, ""},
		"numbered, no order":              {nil, together, false, 6, ""},
		"simple":                          {simple, together, false, 6, ""},
		"cursors":                         {cursors, together, false, 6, ""},
		"bare, empty":                     {bare(100, 1), hourly(0), false, 1, ""},
		"bare, one page":                  {bare(100, 1), hourly(20), false, 6, ""},
		"bare, small pages":               {bare(15, 1), hourly(20), false, 8, ""},
		"bare, past the window":           {bare(100, 1), hourly(50), false, 1, ""},
		"bare, counted from 0":            {bare(15, 0), hourly(20), false, 6, ""},
		"everything at once":              {deaf(1000), hourly(20), false, 3, "cannot be shown to be whole"},
		"everything, past the window":     {deaf(1000), hourly(50), false, 1, ""},
		"the first rows only":             {deaf(15), hourly(20), false, 3, "cannot be shown to be whole"},
		"the first rows, oldest first":    {deaf(15), hourly(50), true, 3, "cannot be shown to be whole"},
		"a total that was not reached":    {short, hourly(20), false, 1, "cannot be shown to be whole"},
		"too many, oldest first":          {nil, hourly(5100), true, 50, "too many notes to search"},
		"pages that bring nothing new":    {stuck, hourly(20), false, 2, "cannot be shown to be whole"},
		"another page than the one asked": {stubborn, together, false, 2, "another page than the one asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newShelf(t)
				s.list, s.oldest = tt.list, tt.oldest
				client := s.client()
				tt.fill(s)
				lost := lose(t, client, visit())
				ago(lost, defaultSettle)
				begin := time.Now()
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
				if tt.reason == "" {
					require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
				} else {
					requireUndecided(t, note, err, tt.reason)
				}
				assert.Equal(t, tt.pages, s.lists)
				assert.Zero(t, time.Since(begin), "waiting cannot help")
			})
		})
	}
}

// short tells of more rows than it gives.
func short(rows []string, _ *http.Request) string {
	return fmt.Sprintf(`{"data":[%s],"meta":{"current_page":1,"last_page":1,"total":%d}}`, strings.Join(rows, ","), len(rows)+1)
}

// stuck always says that more follows.
func stuck(rows []string, r *http.Request) string {
	return fmt.Sprintf(`{"data":[%s],"meta":{"current_page":%d,"last_page":9}}`, strings.Join(rows, ","), max(pageOf(r), 1))
}

// stubborn gives its first page, whatever is asked for.
func stubborn(rows []string, _ *http.Request) string {
	return fmt.Sprintf(`{"data":[%s],"meta":{"current_page":1,"last_page":3}}`, cut(rows, 0, 100))
}

// A note that is deleted between two pages moves the lost one to the page that was read before.
func TestFindCreatedIsNotFooledByRowsThatMove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		s.oldest = true
		client := s.client()
		first := s.keep(visited().named("Earlier").sized(6).by(5).ago(20 * time.Hour))
		for range 99 {
			s.keep(visited().named("Earlier").sized(6).by(5).ago(20 * time.Hour))
		}
		lost := lose(t, s.client(), visit())
		ago(lost, defaultSettle) // so that one look decides
		id := s.keep(visited())  // the first row of the second page
		s.keep(visited().named("Later").sized(6).by(5))
		s.onList = func() {
			if s.lists == 1 {
				s.change(first, func(n *shelved) { n.id = 0 })
				s.keep(visited().named("Later").sized(6).by(5)) // so that the total does not tell
			}
		}
		note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
		require.NoError(t, err)
		assert.Equal(t, id, note.ID)
	})
}

// Notes that are made between two pages, as by a folder that is being uploaded, raise the total beyond what can be seen.
func TestFindCreatedSeesAllThatWasThereWhenRowsComeIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		client := s.client()
		for range 150 {
			s.keep(visited().named("Earlier").sized(6).by(5).ago(20 * time.Hour))
		}
		lost := lose(t, client, visit())
		ago(lost, defaultSettle)
		s.onList = func() {
			s.keep(visited().named("Later").sized(6).by(5), visited().named("Later").sized(6).by(5)) // at every page
		}
		_, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
	})
}

func TestFindCreatedReadsOnWhereTheOrderIsNotKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		client := s.client()
		lost := lose(t, client, visit())
		for i := range 150 {
			s.keep(visited().named("Earlier").by(5).ago(time.Duration(i+1) * time.Hour))
		}
		id := s.keep(visited())
		s.list = func(rows []string, r *http.Request) string {
			rows[50], rows[51] = rows[51], rows[50]
			return numbered(append(rows[1:len(rows):len(rows)], rows[0]), r) // the newest one last
		}
		note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
		require.NoError(t, err)
		assert.Equal(t, id, note.ID)
	})
}

func TestFindCreatedNeedsRowsOfThePatient(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		patient int64
		params  findParams
		found   bool
	}{
		"another patient's":           {patient: 5},
		"another patient's, trusting": {patient: 5, params: findParams{TrustPatientFilter: true}},
		"naming none":                 {patient: 0},
		"naming none, trusting":       {patient: 0, params: findParams{TrustPatientFilter: true}, found: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newShelf(t)
				client := s.client(clinicaldoc.WithQueryNames(clinicaldoc.QueryNames{PatientID: "filter"})) // which it does not know
				lost := lose(t, client, visit())
				n := visited()
				n.patient = tt.patient
				id := s.keep(n)
				note, err := client.Notes.FindCreated(t.Context(), lost, tt.params)
				assert.Equal(t, 1, s.lists, "waiting cannot help")
				if tt.found {
					require.NoError(t, err)
					assert.Equal(t, id, note.ID)
					return
				}
				requireUndecided(t, note, err, "the notes could not be read: the service returned a")
				require.ErrorIs(t, err, clinicaldoc.ErrPatientMismatch)
			})
		})
	}
}

func TestFindCreatedSurvivesAListThatFails(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status, times int
		want          error // nil: found
		lists         int
	}{
		"for a while":       {http.StatusBadGateway, 5, nil, 6},
		"too many requests": {http.StatusTooManyRequests, 2, nil, 3},
		"for good":          {http.StatusBadGateway, 1000, clinicaldoc.ErrServer, 10},
		"not allowed":       {http.StatusForbidden, 1000, clinicaldoc.ErrForbidden, 1},
		"token revoked":     {http.StatusUnauthorized, 1000, clinicaldoc.ErrUnauthorized, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newShelf(t)
				s.fail = func(list int) int {
					if list <= tt.times {
						return tt.status
					}
					return 0
				}
				client := s.client()
				lost := lose(t, client, visit())
				id := s.keep(visited())
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
				assert.Equal(t, tt.lists, s.lists)
				if tt.status == http.StatusTooManyRequests {
					assert.GreaterOrEqual(t, time.Since(lost.LostAt), 2*shelfRetryAfter)
				}
				if tt.want == nil {
					require.NoError(t, err)
					assert.Equal(t, id, note.ID)
					return
				}
				requireUndecided(t, note, err, "the notes could not be read")
				require.ErrorIs(t, err, tt.want)
				assert.NotContains(t, err.Error(), "Canary")
			})
		})
	}
}

// Ten failures in a row are enough, however many there are in all.
func TestFindCreatedSurvivesAListThatFailsNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		failures := 0
		s.fail = func(list int) int {
			if list%3 == 0 {
				return 0
			}
			failures++
			return http.StatusBadGateway
		}
		client := s.client()
		params := findParams{Settle: 3 * time.Hour}
		_, err := client.Notes.FindCreated(t.Context(), lose(t, client, visit()), params)
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		assert.Greater(t, failures, 20)
	})
}

// It fitted while another create could explain it, and is gone when nothing can.
func TestFindCreatedReturnsNothingThatIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		client := s.client()
		lost := lose(t, client, visit())
		id := s.keep(visited())
		s.post = func(r *http.Request, _ shelved) (*http.Response, error) {
			time.Sleep(20 * time.Second)
			s.change(id, func(n *shelved) { n.id = 0 })
			return s.respond(r, http.StatusUnprocessableEntity, `{"message":"The given data was invalid"}`), nil
		}
		var workers sync.WaitGroup
		workers.Go(func() {
			_, err := client.Notes.Create(t.Context(), visit())
			assert.ErrorIs(t, err, clinicaldoc.ErrValidation)
		})
		synctest.Wait()
		note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
		workers.Wait()
		requireUndecided(t, note, err, "resembles")
	})
}

func TestFindCreatedEndsWithAListThatNeverWorks(t *testing.T) {
	t.Parallel()
	lists := 0
	client := clientOn(t, &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == notesPath {
			lists++
		}
		return nil, x509.UnknownAuthorityError{}
	})})
	note, err := client.Notes.FindCreated(t.Context(), &lostCreate{Params: visit(), SentAt: time.Now()}, findParams{})
	requireUndecided(t, note, err, "the notes could not be read: no response: the server's certificate is signed by an authority unknown here")
	assert.Equal(t, 1, lists)
}

// Only failures in a row end it.
func TestFindCreatedCountsFailedListsAnewAfterOneThatWorks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		sent, lists := time.Now(), 0
		client := s.client(clinicaldoc.WithHTTPClient(&http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path != notesPath {
				return s.respond(r, http.StatusOK, fmt.Sprintf(`{"id":%d}`, shelfUser)), nil
			}
			if lists++; lists%10 != 0 {
				return s.respond(r, http.StatusBadGateway, `{}`), nil
			}
			return s.page(r)
		})}))
		_, err := client.Notes.FindCreated(t.Context(), &lostCreate{Params: visit(), SentAt: sent, LostAt: sent}, findParams{})
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		assert.GreaterOrEqual(t, lists, 20, "nine in a row failed twice")
	})
}

// The service's own pause counts, up to a minute.
func TestFindCreatedWaitsAsLongAsTheListAsks(t *testing.T) {
	t.Parallel()
	for asked, want := range map[string]time.Duration{"40": 40 * time.Second, "3600": time.Minute} {
		t.Run(asked, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newShelf(t)
				sent := time.Now()
				id := s.keep(visited())
				lists := 0
				client := s.client(clinicaldoc.WithHTTPClient(&http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
					if r.URL.Path != notesPath {
						return s.respond(r, http.StatusOK, fmt.Sprintf(`{"id":%d}`, shelfUser)), nil
					}
					if lists++; lists > 1 {
						return s.page(r)
					}
					refusal := s.respond(r, http.StatusTooManyRequests, `{}`)
					refusal.Header.Set("Retry-After", asked)
					return refusal, nil
				})}))
				note, err := client.Notes.FindCreated(t.Context(), &lostCreate{Params: visit(), SentAt: sent, LostAt: sent}, findParams{})
				require.NoError(t, err)
				assert.Equal(t, id, note.ID)
				assert.Equal(t, want, time.Since(sent))
			})
		})
	}
}

// A response from a cache tells how things were.
func TestFindCreatedKnowsThatACacheIsOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		s.age = 2 * time.Minute
		client := s.client()
		lost := lose(t, client, visit())
		_, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		assert.GreaterOrEqual(t, time.Since(lost.LostAt), defaultSettle+s.age)
		assert.Less(t, time.Since(lost.LostAt), defaultSettle+s.age+time.Minute)
	})
}

func TestFindCreatedGoesByTheOldestPage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		client := s.client()
		for range 101 {
			s.keep(visited().named("Other").sized(9).by(5))
		}
		s.list = func(rows []string, r *http.Request) string {
			s.age = 0
			if pageOf(r) < 2 {
				s.age = 2 * time.Minute
			}
			return numbered(rows, r)
		}
		lost := lose(t, client, visit())
		_, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		assert.GreaterOrEqual(t, time.Since(lost.LostAt), defaultSettle+2*time.Minute)
	})
}

func TestFindCreatedAsksForNothingFromACache(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost := &lostCreate{Params: visit(), SentAt: time.Now(), LostAt: time.Now()}
		fresh := map[string]string{"Cache-Control": "no-cache"}
		now := map[string]string{"Date": time.Now().UTC().Format(http.TimeFormat)}
		s := newShelf(t)
		n := visited()
		n.id = 7
		client := serve(t,
			call{url: "/user", header: fresh, response: `{"id":2}`},
			call{url: notesPath + "?patient_id=4711&per_page=100&sort=latest", header: fresh, response: `{"data":[` + s.json(n) + `],"meta":{"current_page":1,"last_page":1}}`, answerHeader: now},
		)
		note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
		require.NoError(t, err)
		assert.EqualValues(t, 7, note.ID)
	})
}

func TestFindCreatedNeedsAClockOnlyOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		ahead time.Duration
		found bool
	}{
		"ahead":          {3 * time.Hour, true},
		"a little ahead": {2 * time.Second, true},
		"the same":       {0, true},
		"behind":         {-3 * time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newShelf(t)
				s.ahead = tt.ahead
				client := s.client()
				lost := lose(t, client, visit())
				s.keep(visited())
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
				if tt.found {
					require.NoError(t, err)
					assert.EqualValues(t, 1, note.ID)
					return
				}
				requireUndecided(t, note, err, "check the clocks")
			})
		})
	}
}

// The user whom a note names twice, differently, is nobody.
func TestFindCreatedHoldsBothNamesOfTheUserAgainstTheTokens(t *testing.T) {
	t.Parallel()
	for user, found := range map[string]bool{
		`"user_id":2`: true, `"user":{"id":2}`: true, `"user_id":2,"user":{"id":2}`: true, `"user_id":2,"user":{"name":"x"}`: true,
		`"user_id":2,"user":{"id":5}`: false, `"user_id":5,"user":{"id":2}`: false, `"user_id":5`: false, `"user_id":0`: false,
	} {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newShelf(t)
				client := s.client()
				lost := lose(t, client, visit())
				s.keep(visited())
				s.list = func(rows []string, r *http.Request) string {
					return numbered([]string{strings.Replace(rows[0], `"user_id":2`, user, 1)}, r)
				}
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
				if found {
					require.NoError(t, err)
					return
				}
				requireUndecided(t, note, err, "")
			})
		})
	}
}

func TestFindCreatedWithoutAPatientTakesNoRowThatNamesOne(t *testing.T) {
	t.Parallel()
	for patient, found := range map[string]bool{
		`"x":1`: true, `"patient":null`: true, `"patient":[]`: true, `"patient":{}`: true,
		`"patient":{"name":"x"}`: false, `"patient":{"id":"?"}`: false, `"patient_id":5`: false, `"patient":5`: false,
	} {
		t.Run(patient, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newShelf(t)
				client := s.client()
				params := visit()
				params.PatientID = 0
				lost := lose(t, client, params)
				s.keep(visited())
				s.list = func(rows []string, r *http.Request) string {
					return numbered([]string{strings.Replace(rows[0], `"patient":{"id":4711}`, patient, 1)}, r)
				}
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
				if found {
					require.NoError(t, err)
					return
				}
				requireUndecided(t, note, err, "resembles")
			})
		})
	}
}

func TestFindCreatedWithoutAPatientTakesNoNamedNoteOfOne(t *testing.T) {
	t.Parallel()
	fresh := map[string]string{"Cache-Control": "no-cache"}
	client := serve(t, call{url: notesPath + "/1", header: fresh, response: `{"id":1,"name":"Visit","patient":{"name":"x"}}`})
	lost := &lostCreate{Params: visit(), SentAt: time.Now(), LostAt: time.Now(), NoteID: 1}
	lost.Params.PatientID = 0
	note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
	requireUndecided(t, note, err, "names another patient than the create did")
	require.ErrorIs(t, err, clinicaldoc.ErrPatientMismatch)
}

func TestFindCreatedAfterMoreLossesThanItRemembers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		client := s.client()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		lost := &lostCreate{Params: visit(), SentAt: time.Now(), LostAt: time.Now()}
		for i := range 4097 {
			other := *lost
			other.Params.PatientID = int64(i + 1e6)
			_, err := client.Notes.FindCreated(over, &other, findParams{})
			require.ErrorIs(t, err, context.Canceled)
		}
		s.keep(visited())
		note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
		requireUndecided(t, note, err, "this client has made too many since")
	})
}

// What it no longer knows it does not take for granted.
func TestFindCreatedAfterMoreCreatesThanItRemembers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		made, lost int
		found      bool
	}{
		"as many as it remembers": {4096, 0, true}, "one more": {4097, 0, false}, "as many lost": {0, 4095, true}, "one more lost": {0, 4096, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newShelf(t)
				client := s.client()
				lost := lose(t, client, visit())
				other := visit()
				other.PatientID = 5
				for range tt.lost {
					time.Sleep(time.Microsecond)
					lose(t, client, other)
				}
				s.post = func(r *http.Request, sent shelved) (*http.Response, error) { return s.commit(r, sent), nil }
				for range tt.made {
					_, err := client.Notes.Create(t.Context(), other)
					require.NoError(t, err)
				}
				id := s.keep(visited())
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
				if tt.found {
					require.NoError(t, err)
					assert.Equal(t, id, note.ID)
					return
				}
				requireUndecided(t, note, err, "this client has made too many since")
			})
		})
	}
}

// A renamed and re-encoded note is known by its time alone, and a time without a zone may be that of any place.
func TestANoteOfATimeWithoutAZoneMayBeIt(t *testing.T) {
	t.Parallel()
	for format, notCreated := range map[string]bool{"2006-01-02 15:04:05": false, "2006-01-02T15:04:05.000000": false, "2006-01-02T15:04:05Z": true} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				made := time.Now().Add(-5 * time.Hour).UTC().Format(format)
				c := timedClient(t, func(r *http.Request) (*http.Response, error) {
					if r.URL.Path == "/user" {
						return madeResponse(r, http.StatusOK, `{"id":1,"name":"n","email":"e"}`), nil
					}
					row := fmt.Sprintf(`{"id":5,"name":"renamed","user_id":1,"patient":{"id":7},"audio":{"size":999},"created_at":%q}`, made)
					return madeResponse(r, http.StatusOK, `{"data":[`+row+`],"meta":{"current_page":1,"last_page":1,"total":1}}`), nil
				})
				lost := &clinicaldoc.OutcomeUnknownError{
					Params: clinicaldoc.CreateNoteParams{Name: "Synthetic note", PatientID: 7}, AudioSize: 100,
					SentAt: time.Now().Add(-20 * time.Minute), LostAt: time.Now().Add(-20 * time.Minute),
				}
				_, err := c.Notes.FindCreated(t.Context(), lost, clinicaldoc.FindCreatedParams{})
				require.Error(t, err)
				assert.Equal(t, notCreated, errors.Is(err, clinicaldoc.ErrNotCreated), err)
			})
		})
	}
}

// A service is three seconds behind, and its Date seems to say two: its own note looks a little too old, and another's does not.
func TestFindCreatedDoesNotTrustAFewSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		s.ahead = -3 * time.Second
		client := s.client()
		time.Sleep(950 * time.Millisecond)
		lost := lose(t, client, visit())
		s.keep(visited())
		time.Sleep(20 * time.Second)
		s.keep(visited())
		s.onList = func() { time.Sleep(100 * time.Millisecond) } // into the next second
		note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
		requireUndecided(t, note, err, "several notes fit")
	})
}
