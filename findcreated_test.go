package clinicaldoc_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
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

func TestFindCreatedFindsTheNote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit())
		s.keep(
			visited().ago(time.Hour),                     // an earlier one of the same name
			visited().sized(6), visited().named("Other"), // other recordings
			visited().by(5), // a colleague's
		)
		id := s.keep(visited().named(" Visit "))
		begin := time.Now()
		note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
		require.NoError(t, err)
		assert.Equal(t, id, note.ID)
		assert.Zero(t, time.Since(begin))
		assert.Equal(t, 1, s.lists)

		again, err := client.Notes.FindCreated(t.Context(), lost, likeness)
		require.NoError(t, err)
		assert.Equal(t, id, again.ID)
		// An equal one that appears later does not change what was said.
		s.keep(visited())
		again, err = client.Notes.FindCreated(t.Context(), lost, likeness)
		require.NoError(t, err)
		assert.Equal(t, id, again.ID)
	})
}

func TestFindCreatedSaysNotCreatedOnlyAfterTheSettleTime(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		params findParams
		change func(*lostCreate)
		want   time.Duration
	}{
		"default":                          {likeness, nil, defaultSettle},
		"as the caller wants it":           {findParams{WithoutAudio: true, Settle: time.Minute}, nil, time.Minute},
		"a unique name":                    {findParams{WithoutAudio: true, UniqueName: true}, nil, defaultSettle},
		"lost a while ago":                 {likeness, func(e *lostCreate) { ago(e, 4*time.Minute) }, 6 * time.Minute},
		"lost long ago":                    {likeness, func(e *lostCreate) { ago(e, time.Hour) }, 0},
		"never below the upload's time":    {likeness, func(e *lostCreate) { e.SentAt = e.SentAt.Add(-25 * time.Minute) }, 25 * time.Minute},
		"when it was lost is not known":    {likeness, func(e *lostCreate) { ago(e, time.Hour); e.LostAt = time.Time{} }, defaultSettle},
		"lost before it was sent, it says": {likeness, func(e *lostCreate) { e.LostAt = e.LostAt.Add(-time.Hour) }, defaultSettle},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				lost := lose(t, client, visit())
				if tt.change != nil {
					tt.change(lost)
				}
				s.keep(visited().ago(50*time.Hour).named("Earlier"), visited().named("Other").sized(6).by(5))
				begin := time.Now()
				note, err := client.Notes.FindCreated(t.Context(), lost, tt.params)
				require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
				require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
				require.EqualError(t, err, "clinicaldoc: Notes.FindCreated (GET /v1/progress-notes): the note was not created; creating it again is safe")
				assert.Nil(t, note)
				assert.Equal(t, tt.want, time.Since(begin))
				assert.Less(t, s.lists, 60, "in growing pauses")
				assert.Equal(t, tt.want > 0, s.lists > 1)
				if tt.params.UniqueName {
					assert.Zero(t, s.users)
				} else {
					assert.Equal(t, 1, s.users)
				}
			})
		})
	}
}

// recipe is what the README tells to do after a create.
func recipe(ctx context.Context, client *clinicaldoc.Client, params clinicaldoc.CreateNoteParams) (*clinicaldoc.ProgressNote, error) {
	note, err := client.Notes.Create(ctx, params)
	if unknown, ok := errors.AsType[*lostCreate](err); ok {
		note, err = client.Notes.FindCreated(ctx, unknown, likeness)
	}
	if errors.Is(err, clinicaldoc.ErrNotCreated) {
		note, err = client.Notes.Create(ctx, params)
	}
	return note, err
}

func TestFindCreatedSurvivesALateCommit(t *testing.T) {
	t.Parallel()
	gatewayTimeout := func(s *fakeService, r *http.Request) (*http.Response, error) {
		time.Sleep(59 * time.Second)
		return s.respond(r, http.StatusGatewayTimeout, ""), nil
	}
	silence := func(_ *fakeService, r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	reset := func(*fakeService, *http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }
	for name, tt := range map[string]struct {
		lose   func(*fakeService, *http.Request) (*http.Response, error)
		commit time.Duration
	}{
		"504 after 59 s, committed after 95 s":                {gatewayTimeout, 95 * time.Second},
		"504 after 59 s, committed after 120 s":               {gatewayTimeout, 120 * time.Second},
		"silent for a minute, committed after 95 s":           {silence, 95 * time.Second},
		"silent for a minute, committed after 120 s":          {silence, 120 * time.Second},
		"cut at once, delivered by a proxy after 36 s":        {reset, 36 * time.Second},
		"cut at once, delivered by a proxy after 9 minutes":   {reset, 9 * time.Minute},
		"cut at once, delivered at the last possible moment":  {reset, defaultSettle - time.Second},
		"504 after 59 s, committed before the response is so": {gatewayTimeout, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				s.keep(visited().ago(30 * time.Hour))
				s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) {
					time.AfterFunc(tt.commit, func() { s.commit(r, sent) }) //nolint:bodyclose // nobody reads it
					return tt.lose(s, r)
				}
				note, err := recipe(t.Context(), s.client(), visit())
				require.NoError(t, err)
				assert.EqualValues(t, 2, note.ID)
				time.Sleep(time.Hour)
				assert.Len(t, s.notes, 2, "one note for one recording")
			})
		})
	}
}

// The upload took longer than the default: a proxy may need as long to pass it on.
func TestFindCreatedGivesALongUploadItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) {
			time.AfterFunc(15*time.Minute, func() { s.commit(r, sent) }) //nolint:bodyclose // nobody reads it
			return nil, io.ErrUnexpectedEOF
		}
		params := visit()
		params.Audio = clinicaldoc.AudioReader("a.wav", &slowReader{strings.Repeat("s", 200), 50 * time.Second})
		note, err := recipe(t.Context(), s.client(clinicaldoc.WithStallTimeout(time.Hour)), params)
		require.NoError(t, err)
		assert.EqualValues(t, 1, note.ID)
		assert.Len(t, s.notes, 1)
	})
}

// The clocks of a loss are those of its end: by those of its beginning a long upload would make the service's seem to be ahead, and
// its note older than it is, to another process.
func TestTheNoteOfALongUploadIsFoundByAnotherProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) {
			s.commit(r, sent)
			time.Sleep(8 * time.Minute)
			return s.respond(r, http.StatusGatewayTimeout, ""), nil
		}
		lost := lose(t, s.client(clinicaldoc.WithStallTimeout(time.Hour)), visit())
		note, err := s.client().Notes.FindCreated(t.Context(), restored(t, lost, nil), likeness)
		require.NoError(t, err)
		assert.EqualValues(t, 1, note.ID)
	})
}

// The note exists, but something about it, or about the service, is not as it was sent: no word is said about it.
func TestFindCreatedDoesNotMissAnAlteredNote(t *testing.T) {
	t.Parallel()
	composed, decomposed := "Größe", "Gro\u0308ße"
	for name, tt := range map[string]struct {
		sent   string // the name; "" stands for Visit
		made   func(*fakeService, *lostCreate)
		reason string
	}{
		"renamed": {made: func(s *fakeService, _ *lostCreate) { s.keep(visited().named("Other")) }},
		"shortened": {sent: "Visit of Monday morning", made: func(s *fakeService, _ *lostCreate) {
			s.keep(visited().named("Visit of Mon").sized(0).by(5))
		}},
		"another case":           {made: func(s *fakeService, _ *lostCreate) { s.keep(visited().named("VISIT").sized(0).by(5)) }},
		"decomposed":             {sent: composed, made: func(s *fakeService, _ *lostCreate) { s.keep(visited().named(decomposed).sized(0).by(5)) }},
		"composed":               {sent: decomposed, made: func(s *fakeService, _ *lostCreate) { s.keep(visited().named(composed).sized(0).by(5)) }},
		"re-encoded":             {made: func(s *fakeService, _ *lostCreate) { s.keep(visited().sized(3).by(5)) }},
		"renamed and re-encoded": {made: func(s *fakeService, _ *lostCreate) { s.keep(visited().named("Other").sized(3)) }},
		"renamed, of nobody":     {made: func(s *fakeService, _ *lostCreate) { s.keep(visited().named("Other").sized(3).by(-1)) }},
		"renamed, a clock behind": {made: func(s *fakeService, _ *lostCreate) {
			s.keep(visited().named("Other").sized(3).ago(14 * time.Minute))
		}},
		"without a time": {made: func(s *fakeService, _ *lostCreate) {
			n := visited().by(5)
			n.made = time.Time{}
			s.keep(n)
		}},
		"Date 10 s ahead": {made: func(s *fakeService, _ *lostCreate) {
			s.keep(visited().ago(10 * time.Second))
			s.ahead = 10 * time.Second
		}, reason: "not enough of it is known"},
		"service behind":        {made: func(s *fakeService, _ *lostCreate) { s.keep(visited()); s.ahead = -time.Hour }, reason: "sent in the future"},
		"no Date":               {made: func(s *fakeService, _ *lostCreate) { s.keep(visited()); s.noDate = true }, reason: "not enough of it is known"},
		"local times, east":     {made: func(s *fakeService, _ *lostCreate) { s.keep(visited()); s.zone = 14 * time.Hour }, reason: "not enough of it is known"},
		"local times, west":     {made: func(s *fakeService, _ *lostCreate) { s.keep(visited()); s.zone = -12 * time.Hour }, reason: "resembles"},
		"sent by a clock ahead": {made: func(s *fakeService, e *lostCreate) { s.keep(visited()); ago(e, -time.Hour) }, reason: "sent in the future"},
		"sent by a clock ahead, asked later": {made: func(s *fakeService, e *lostCreate) {
			s.keep(visited().ago(-time.Second))
			ago(e, -time.Hour)
			time.Sleep(3 * time.Hour)
		}, reason: "resembles"},
		"user not known": {made: func(s *fakeService, _ *lostCreate) { s.keep(visited().by(-1)) }, reason: "not enough of it is known"},
		"/user fails":    {made: func(s *fakeService, _ *lostCreate) { s.keep(visited()); s.noUser = true }, reason: "not enough of it is known"},
		"found and gone": {made: func(s *fakeService, _ *lostCreate) {
			id := s.keep(visited().named("Visit 2"))
			s.onList = func() {
				if s.lists == 2 {
					s.change(id, func(n *fakeNote) { n.id = 0 })
				}
			}
		}, reason: "resembles"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				params := visit()
				params.Name = cmp.Or(tt.sent, params.Name)
				lost := lose(t, client, params)
				s.keep(visited().ago(100*time.Hour), visited().ago(50*time.Hour).named("Other"))
				tt.made(s, lost)
				note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
				requireUndecided(t, note, err, cmp.Or(tt.reason, "resembles it, or was made since"))
			})
		})
	}
}

// A note is there that is not the lost one, and the lost one is not: it is never returned.
func TestFindCreatedReturnsNoOtherNote(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		params func(*clinicaldoc.CreateNoteParams)
		made   func(*fakeService)
		reason string
	}{
		"made before it was sent": {made: func(s *fakeService) { s.keep(visited().ago(2 * time.Second)) }},
		"before, with a stale Date": {made: func(s *fakeService) {
			s.keep(visited().ago(2 * time.Second))
			s.ahead = -time.Minute
			s.zone = time.Minute
		}, reason: "not enough of it is known"},
		"before, from a cache":            {made: func(s *fakeService) { s.keep(visited().ago(2 * time.Second)); s.age = time.Minute }},
		"a colleague's":                   {made: func(s *fakeService) { s.keep(visited().by(5)) }},
		"a colleague's, no patient sent":  {params: func(p *clinicaldoc.CreateNoteParams) { p.PatientID = 0 }, made: func(s *fakeService) { s.keep(visited().by(5)) }},
		"a patient's, no patient sent":    {params: func(p *clinicaldoc.CreateNoteParams) { p.PatientID = 0 }, made: func(s *fakeService) { s.keep(visited()) }},
		"no size on either side":          {params: func(p *clinicaldoc.CreateNoteParams) { p.Audio = nil }, made: func(s *fakeService) { s.keep(visited().sized(0)) }, reason: "not enough of it is known"},
		"no recording was sent":           {params: func(p *clinicaldoc.CreateNoteParams) { p.Audio = nil }, made: func(s *fakeService) { s.keep(visited()) }, reason: "not enough of it is known"},
		"no name was sent, no size known": {params: func(p *clinicaldoc.CreateNoteParams) { p.Name = "" }, made: func(s *fakeService) { s.keep(visited().sized(0)) }, reason: "not enough of it is known"},
		"two fit":                         {made: func(s *fakeService) { s.keep(visited(), visited()) }, reason: "several notes fit"},
		"one fits, one may":               {made: func(s *fakeService) { s.keep(visited(), visited().by(-1)) }, reason: "several notes fit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				params := visit()
				if tt.params != nil {
					tt.params(&params)
				}
				lost := lose(t, client, params)
				tt.made(s)
				begin := time.Now()
				note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
				requireUndecided(t, note, err, cmp.Or(tt.reason, "resembles it, or was made since"))
				if tt.reason != "" && s.ahead == 0 {
					assert.Zero(t, time.Since(begin), "waiting cannot help")
				}
			})
		})
	}
}

func TestFindCreatedOfACreateWithoutAPatient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		params := visit()
		params.PatientID = 0
		lost := lose(t, client, params)
		s.keep(visited(), visited().by(5))
		own := visited()
		own.patient = 0
		id := s.keep(own)
		note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
		require.NoError(t, err)
		assert.Equal(t, id, note.ID)
	})
}

func TestFindCreatedOfAStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		params := visit()
		params.Audio = clinicaldoc.AudioReader("a.wav", strings.NewReader("sound"))
		lost := lose(t, client, params)
		id := s.keep(visited())
		note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
		require.NoError(t, err)
		assert.Equal(t, id, note.ID)
	})
}

// What was read of a stream tells its size, so that only one side does not.
func TestFindCreatedOfAStreamWhereTheServiceTellsNoSize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		params := visit()
		params.Audio = clinicaldoc.AudioReader("a.wav", strings.NewReader("sound"))
		lost := lose(t, client, params)
		id := s.keep(visited().sized(0))
		note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
		require.NoError(t, err)
		assert.Equal(t, id, note.ID)
	})
}

// What this client's Create returned is explained: neither returned nor in the way.
func TestFindCreatedKnowsWhatThisClientMade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		_, err := client.Users.Me(t.Context()) // which compares the clocks
		require.NoError(t, err)
		lost := lose(t, client, visit())
		s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) { return s.commit(r, sent), nil }
		_, err = client.Notes.Create(t.Context(), visit())
		require.NoError(t, err)
		_, err = client.Notes.FindCreated(t.Context(), lost, likeness)
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)

		// Another client cannot know, unless it learns of it.
		other := s.client()
		stored, err := json.Marshal(lost)
		require.NoError(t, err)
		var restored lostCreate
		require.NoError(t, json.Unmarshal(stored, &restored))
		_, err = other.Notes.FindCreated(t.Context(), &restored, findParams{WithoutAudio: true, ExcludeIDs: []int64{1}})
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		note, err := s.client().Notes.FindCreated(t.Context(), &restored, likeness)
		require.NoError(t, err)
		assert.EqualValues(t, 1, note.ID)
	})
}

func TestFindCreatedTwoEqualLostCreates(t *testing.T) {
	t.Parallel()
	for made := range 3 {
		t.Run(fmt.Sprint(made), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				first := lose(t, client, visit())
				time.Sleep(time.Millisecond)
				second := lose(t, client, visit())
				for range made {
					s.keep(visited())
				}
				for _, lost := range []*lostCreate{first, second} {
					note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
					if made == 0 {
						require.ErrorIs(t, err, clinicaldoc.ErrNotCreated, "neither was")
						continue
					}
					requireUndecided(t, note, err, map[int]string{1: "an equal create was lost too", 2: "several notes fit"}[made])
					_, err = client.Notes.FindCreated(t.Context(), lost, findParams{WithoutAudio: true, UniqueName: true})
					require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown, "the name is not unique")
				}
			})
		})
	}
}

// Of another size, which tells them apart only where the service tells sizes.
func TestFindCreatedTwoLostCreatesOfDifferentSizes(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"known": true, "unknown": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				lost := lose(t, client, visit())
				other := visit()
				other.Audio = clinicaldoc.AudioBytes("a.wav", []byte("longer sound"))
				lose(t, client, other)
				n := visited()
				if !known {
					n.size = 0
				}
				id := s.keep(n)
				note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
				if known {
					require.NoError(t, err)
					assert.Equal(t, id, note.ID)
					return
				}
				requireUndecided(t, note, err, "an equal create was lost too")
			})
		})
	}
}

// The first one was resolved before the second was sent: each gets its own.
func TestFindCreatedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) {
			s.commit(r, sent)
			return nil, io.ErrUnexpectedEOF
		}
		var ids []int64
		for range 3 {
			lost := lose(t, client, visit())
			note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
			require.NoError(t, err)
			ids = append(ids, note.ID)
			time.Sleep(3 * time.Second) // the clocks can be a second apart
		}
		assert.Equal(t, []int64{1, 2, 3}, ids)
	})
}

// It was not created, so it was created again: the first one no longer stands in the way.
func TestFindCreatedOfASecondTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		_, err := client.Notes.FindCreated(t.Context(), lose(t, client, visit()), likeness)
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) {
			s.commit(r, sent)
			return nil, io.ErrUnexpectedEOF
		}
		note, err := client.Notes.FindCreated(t.Context(), lose(t, client, visit()), likeness)
		require.NoError(t, err)
		assert.EqualValues(t, 1, note.ID)
	})
}

// Who asks is found out once the service can tell: a note that fits is not given up for that.
func TestFindCreatedWaitsForTheUser(t *testing.T) {
	t.Parallel()
	for busy, found := range map[int]bool{0: true, 1: true, 9: true, 400: false} {
		synctest.Test(t, func(t *testing.T) {
			s := newFakeService(t)
			s.busy = busy
			lost := &lostCreate{Params: visit(), SentAt: time.Now(), LostAt: time.Now()}
			s.keep(visited())
			note, err := s.client().Notes.FindCreated(t.Context(), lost, likeness)
			if !found {
				requireUndecided(t, note, err, "not enough of it is known")
				return
			}
			require.NoError(t, err, "%d failures", busy)
			assert.EqualValues(t, 1, note.ID)
		})
	}
}

// A service that gives local times as if they were UTC: an older note looks as if it was made since, once that time has come.
func TestFindCreatedHoursLaterIsNotFooledByLocalTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		s.zone = 2 * time.Hour
		s.keep(visited().ago(time.Hour))
		lost := &lostCreate{Params: visit(), SentAt: time.Now(), LostAt: time.Now()}
		for _, later := range []time.Duration{0, time.Hour, 3 * time.Hour} {
			time.Sleep(later)
			note, err := s.client().Notes.FindCreated(t.Context(), lost, likeness)
			requireUndecided(t, note, err, "a note may be it")
		}
	})
}

// Two equal losses of another process: this one knows of the first from when it was asked about it.
func TestFindCreatedRemembersWhatItWasAskedAbout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		first := &lostCreate{Params: visit(), SentAt: time.Now(), LostAt: time.Now()}
		second := &lostCreate{Params: visit(), SentAt: time.Now().Add(time.Millisecond), LostAt: time.Now()}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		note, err := client.Notes.FindCreated(ctx, first, likeness)
		requireUndecided(t, note, err, "may still be at work")
		s.keep(visited())
		note, err = client.Notes.FindCreated(t.Context(), second, likeness)
		requireUndecided(t, note, err, "an equal create was lost too")
	})
}

// Two losses of another process, of which the second is asked about only after the first has its note.
func TestFindCreatedNeverGivesOneNoteToTwo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		first := &lostCreate{Params: visit(), SentAt: time.Now(), LostAt: time.Now()}
		second := &lostCreate{Params: visit(), SentAt: time.Now().Add(time.Millisecond), LostAt: time.Now()}
		s.keep(visited())
		client := s.client()
		_, err := client.Notes.FindCreated(t.Context(), first, likeness)
		require.NoError(t, err)
		note, err := client.Notes.FindCreated(t.Context(), second, likeness)
		requireUndecided(t, note, err, "found for another create")
		s.keep(visited())
		note, err = client.Notes.FindCreated(t.Context(), second, likeness)
		requireUndecided(t, note, err, "several notes fit")
		second.NoteID = 1
		note, err = client.Notes.FindCreated(t.Context(), second, likeness)
		requireUndecided(t, note, err, "found for another create")
	})
}

// A loss that was only asked about counts as well: the note may be its.
func TestFindCreatedRemembersWhatItWasAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		first := &lostCreate{Params: visit(), SentAt: time.Now(), LostAt: time.Now()}
		second := &lostCreate{Params: visit(), SentAt: time.Now().Add(time.Millisecond), LostAt: time.Now()}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := client.Notes.FindCreated(ctx, first, likeness)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		s.keep(visited())
		note, err := client.Notes.FindCreated(t.Context(), second, likeness)
		requireUndecided(t, note, err, "an equal create was lost too")
	})
}

// Where the service tells no sizes, they do not tell two lost creates apart.
func TestFindCreatedOfAnotherSizeWhereNoneIsTold(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int64{"known": 5, "unknown": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				lost := lose(t, client, visit())
				longer := visit()
				longer.Audio = clinicaldoc.AudioBytes("a.wav", []byte("longer sound"))
				lose(t, client, longer)
				id := s.keep(visited().sized(size))
				note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
				if size == 0 {
					requireUndecided(t, note, err, "an equal create was lost too")
					return
				}
				require.NoError(t, err)
				assert.Equal(t, id, note.ID)
			})
		})
	}
}

// What is deleted while it cannot be decided is not returned, nor forgotten.
func TestFindCreatedReturnsNoNoteThatIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit())
		id := s.keep(visited())
		s.post = func(r *http.Request, _ fakeNote) (*http.Response, error) {
			time.Sleep(40 * time.Second)
			s.change(id, func(n *fakeNote) { n.id = 0 })
			return s.respond(r, http.StatusUnprocessableEntity, `{}`), nil
		}
		var workers sync.WaitGroup
		workers.Go(func() {
			_, err := client.Notes.Create(t.Context(), visit())
			assert.ErrorIs(t, err, clinicaldoc.ErrValidation)
		})
		time.Sleep(time.Second)
		note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
		workers.Wait()
		requireUndecided(t, note, err, "a note resembles it")
	})
}

// A note whose create is still under way is visible before its id is told.
func TestFindCreatedWaitsForCreatesUnderWay(t *testing.T) {
	t.Parallel()
	for name, also := range map[string]bool{"only the other was created": false, "both were": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				lost := lose(t, client, visit())
				if also {
					s.keep(visited())
				}
				s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) {
					response := s.commit(r, sent)
					time.Sleep(40 * time.Second) // the response is on its way
					return response, nil
				}
				var workers sync.WaitGroup
				workers.Go(func() {
					_, err := client.Notes.Create(t.Context(), visit())
					assert.NoError(t, err)
				})
				time.Sleep(time.Second)
				note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
				workers.Wait()
				if !also {
					require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
					return
				}
				require.NoError(t, err)
				assert.EqualValues(t, 1, note.ID)
			})
		})
	}
}

// 40 dictations of one patient under one name, at once, over a line that loses every eighth response and every ninth request.
func TestFindCreatedAmongFortyEqualDictations(t *testing.T) {
	t.Parallel()
	for name, sizes := range map[string]int64{"of one size": 0, "of different sizes": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				var posts int64
				s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) {
					s.mu.Lock()
					posts++
					n := posts
					s.mu.Unlock()
					time.Sleep(time.Duration(n) * 300 * time.Millisecond)
					if n%9 == 0 {
						return nil, io.ErrUnexpectedEOF
					}
					response := s.commit(r, sent)
					time.Sleep(2 * time.Second)
					if n%8 == 0 {
						return nil, io.ErrUnexpectedEOF
					}
					return response, nil
				}
				client := s.client()
				var mu sync.Mutex
				told := map[int64][]int64{} // sizes of the recordings, by note
				undecided := 0
				var workers sync.WaitGroup
				for i := range int64(40) {
					workers.Go(func() {
						params := visit()
						size := 5 + i*sizes
						params.Audio = clinicaldoc.AudioBytes("a.wav", bytes.Repeat([]byte("s"), int(size)))
						note, err := recipe(t.Context(), client, params)
						mu.Lock()
						defer mu.Unlock()
						if err != nil {
							assert.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
							undecided++
							return
						}
						told[note.ID] = append(told[note.ID], size)
					})
				}
				workers.Wait()
				for id, of := range told {
					assert.Equal(t, []int64{s.notes[id-1].size}, of, "one recording, its own")
				}
				assert.Equal(t, 40, len(told)+undecided)
				assert.LessOrEqual(t, len(s.notes), 40)
				if sizes == 1 {
					// The lost responses are found by their sizes; what was not created is not said to be while others explain nothing.
					assert.Len(t, told, 36)
				}
			})
		})
	}
}

// 40 equal dictations one after the other, of which two never reach the service: none of them is taken for another.
func TestFindCreatedAmongEqualDictationsInARow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		posts := 0
		s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) {
			time.Sleep(300 * time.Millisecond)
			if posts++; posts%15 == 0 {
				return nil, io.ErrUnexpectedEOF
			}
			return s.commit(r, sent), nil
		}
		client := s.client()
		told := map[int64]bool{}
		for range 40 {
			note, err := recipe(t.Context(), client, visit())
			require.NoError(t, err)
			assert.False(t, told[note.ID], "one note for one recording")
			told[note.ID] = true
		}
		assert.Len(t, s.notes, 40)
		assert.Equal(t, 42, posts)
	})
}

func TestFindCreatedByItsUniqueName(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		made   func(*fakeService)
		found  bool
		reason string // of an undecided end; "" and not found: not created
	}{
		"whatever else does not fit": {made: func(s *fakeService) { s.keep(visited().sized(3).by(5).ago(100 * time.Hour)) }, found: true},
		"no user is known":           {made: func(s *fakeService) { s.keep(visited().by(-1)); s.noUser = true }, found: true},
		"no Date":                    {made: func(s *fakeService) { s.keep(visited()); s.noDate = true }, found: true},
		"local times":                {made: func(s *fakeService) { s.keep(visited()); s.zone = -5 * time.Hour }, found: true},
		"a list without an end": {made: func(s *fakeService) {
			s.keep(visited())
			s.list = func(rows []string, _ *http.Request) string { return `{"data":[` + cut(rows, 0, 15) + `]}` }
		}, found: true},
		"others do not matter": {made: func(s *fakeService) { s.keep(visited().named("Other")) }},
		"twice":                {made: func(s *fakeService) { s.keep(visited(), visited().ago(time.Hour)) }, reason: "several notes fit"},
		"one that begins it":   {made: func(s *fakeService) { s.keep(visited().named("Vis")) }},
		"one that it begins":   {made: func(s *fakeService) { s.keep(visited().named("Visit 10")) }},
		"of another case":      {made: func(s *fakeService) { s.keep(visited().named("VISIT")) }},
		"sent in the future":   {made: func(*fakeService) {}, reason: "sent in the future"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				lost := lose(t, client, visit())
				if name == "sent in the future" {
					ago(lost, -time.Hour)
				}
				tt.made(s)
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{WithoutAudio: true, UniqueName: true})
				switch {
				case tt.found:
					require.NoError(t, err)
					assert.EqualValues(t, 1, note.ID)
				case tt.reason != "":
					requireUndecided(t, note, err, tt.reason)
				default:
					require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
				}
			})
		})
	}
}

// The response held the note's id, but nothing more of use.
// Whose token it is does not matter then, so that nobody asks.
func TestFindCreatedByItsUniqueNameNeedsNoUser(t *testing.T) {
	t.Parallel()
	client := serve(t, call{
		url: notesPath + "?patient_id=4711&per_page=100&sort=latest", header: map[string]string{"Cache-Control": "no-cache"},
		response: `{"data":[{"id":7,"name":"Visit","patient":{"id":4711}}],"meta":{"current_page":1,"last_page":1}}`,
	})
	note, err := client.Notes.FindCreated(t.Context(), &lostCreate{Params: visit(), SentAt: time.Now()}, findParams{WithoutAudio: true, UniqueName: true})
	require.NoError(t, err)
	assert.EqualValues(t, 7, note.ID)
}

func TestFindCreatedReadsTheNoteThatTheResponseNamed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		made   func() fakeNote // nil: it is gone
		params findParams
		sentTo int64 // patient
		found  bool
		reason string
		also   error
		took   time.Duration
	}{
		"there":                      {made: func() fakeNote { return visited().named("Whatever").by(5) }, sentTo: fakePatient, found: true},
		"there, naming no patient":   {made: func() fakeNote { return fakeNote{name: "Visit"} }, sentTo: fakePatient, found: true},
		"another patient's":          {made: visited, sentTo: 5, reason: "cannot be it", also: clinicaldoc.ErrPatientMismatch},
		"a patient's, none was sent": {made: visited, reason: "cannot be it", also: clinicaldoc.ErrPatientMismatch},
		"someone's, none was sent":   {made: func() fakeNote { return fakeNote{name: "Visit", patient: -1} }, reason: "cannot be it", also: clinicaldoc.ErrPatientMismatch},
		"of two patients":            {made: func() fakeNote { return fakeNote{name: "Visit", patient: -2} }, sentTo: fakePatient, reason: "cannot be it", also: clinicaldoc.ErrPatientMismatch},
		"made long before":           {made: func() fakeNote { return visited().ago(27 * time.Hour) }, sentTo: fakePatient, reason: "cannot be it"},
		"nothing like it":            {made: func() fakeNote { return visited().ago(5 * time.Hour).named("Other").sized(6) }, sentTo: fakePatient, reason: "cannot be it"},
		"excluded":                   {made: visited, sentTo: fakePatient, params: findParams{WithoutAudio: true, ExcludeIDs: []int64{1}}, reason: "cannot be it"},
		"gone":                       {sentTo: fakePatient, reason: "not there, or no longer", also: clinicaldoc.ErrNotFound, took: defaultSettle},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				if tt.made != nil {
					s.keep(tt.made())
				}
				lost := &lostCreate{Params: visit(), SentAt: time.Now(), LostAt: time.Now(), NoteID: 1}
				lost.Params.PatientID = tt.sentTo
				note, err := s.client().Notes.FindCreated(t.Context(), lost, tt.params)
				assert.Zero(t, s.lists)
				if tt.found {
					require.NoError(t, err)
					assert.EqualValues(t, 1, note.ID)
					return
				}
				requireUndecided(t, note, err, tt.reason)
				if tt.also != nil {
					require.ErrorIs(t, err, tt.also)
				}
				assert.Equal(t, tt.took, time.Since(lost.SentAt))
			})
		})
	}
}

// When a named note was made is told by the service's clock, however far that is ahead.
func TestFindCreatedReadsANamedNoteByTheServicesClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		s.ahead = 48 * time.Hour
		id := s.keep(visited())
		lost := &lostCreate{Params: visit(), SentAt: time.Now(), LostAt: time.Now(), NoteID: id}
		note, err := s.client().Notes.FindCreated(t.Context(), lost, likeness)
		require.NoError(t, err)
		assert.Equal(t, id, note.ID)
	})
}

// The id is enough where nothing else is known of the note.
func TestFindCreatedReadsANamedNoteWithoutANameAndAPatient(t *testing.T) {
	t.Parallel()
	s := newFakeService(t)
	s.keep(fakeNote{name: "Untitled"})
	note, err := s.client().Notes.FindCreated(t.Context(), &lostCreate{SentAt: time.Now(), NoteID: 1}, likeness)
	require.NoError(t, err)
	assert.EqualValues(t, 1, note.ID)
}

func TestFindCreatedReadsALaggingReplica(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		lost := &lostCreate{Params: visit(), SentAt: time.Now(), LostAt: time.Now(), NoteID: 1}
		time.AfterFunc(5*time.Second, func() { s.keep(visited()) })
		note, err := s.client().Notes.FindCreated(t.Context(), lost, likeness)
		require.NoError(t, err)
		assert.EqualValues(t, 1, note.ID)
	})
}

func TestFindCreatedEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit())
		s.keep(visited().ago(100 * time.Hour))
		gaveUp := errors.New("Canary gave up")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, gaveUp)
		defer cancel()
		note, err := client.Notes.FindCreated(ctx, lost, likeness)
		again := requireUndecided(t, note, err, "no such note yet, but the service may still be at work: the deadline passed (context deadline exceeded)"+
			"; it can be decided after 2000-01-01T00:10:00Z")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, gaveUp)
		assert.NotContains(t, err.Error(), "Canary")
		assert.Equal(t, 5*time.Second, time.Since(lost.LostAt))

		// Asked again by another process, from what the first one stored: it goes on where that one ended.
		stored, err := json.Marshal(again)
		require.NoError(t, err)
		var restored lostCreate
		require.NoError(t, json.Unmarshal(stored, &restored))
		assert.Equal(t, again.Error(), restored.Error())
		_, err = s.client().Notes.FindCreated(t.Context(), &restored, likeness)
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		assert.Equal(t, defaultSettle, time.Since(lost.LostAt))

		over, cancel := context.WithCancel(t.Context())
		cancel()
		note, err = client.Notes.FindCreated(over, lost, likeness)
		requireUndecided(t, note, err, "the notes could not be read: the call was cancelled")
		require.ErrorIs(t, err, context.Canceled)
	})
}

// One that was not made explains no other: an equal create after it is found.
func TestFindCreatedForgetsWhatWasNotCreated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		_, err := client.Notes.FindCreated(t.Context(), lose(t, client, visit()), likeness)
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		second := lose(t, client, visit())
		id := s.keep(visited())
		note, err := client.Notes.FindCreated(t.Context(), second, likeness)
		require.NoError(t, err)
		assert.Equal(t, id, note.ID)
	})
}

// Who still looks for a create that was said not to be there does not bring it back.
func TestFindCreatedForgetsWhatWasNotCreatedWhileOthersLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit())
		patient, cancel := context.WithCancel(t.Context())
		var other sync.WaitGroup
		other.Go(func() {
			_, err := client.Notes.FindCreated(patient, lost, findParams{WithoutAudio: true, Settle: time.Hour})
			assert.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		})
		_, err := client.Notes.FindCreated(t.Context(), lost, likeness)
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		time.Sleep(5 * time.Minute)
		cancel()
		other.Wait()
		second := lose(t, client, visit())
		id := s.keep(visited())
		note, err := client.Notes.FindCreated(t.Context(), second, likeness)
		require.NoError(t, err)
		assert.Equal(t, id, note.ID)
	})
}

// A note that is excluded after it was found takes nothing from what is known of its create: another is told apart by its recording.
func TestAnExcludedNoteLeavesTheRecordingOfItsCreateKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess())
		defer srv.Close()
		client := srv.Client()
		lost := func(sound string) *clinicaldoc.OutcomeUnknownError {
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
			params := clinicaldoc.CreateNoteParams{Name: "Visit", PatientID: 1, PromptID: 1, Audio: clinicaldoc.AudioBytes("a.wav", []byte(sound))}
			_, err := client.Notes.Create(t.Context(), params)
			unknown, ok := errors.AsType[*clinicaldoc.OutcomeUnknownError](err)
			require.True(t, ok, err)
			time.Sleep(5 * time.Second)
			return unknown
		}
		a := lost("sound a")
		first, err := client.Notes.FindCreated(t.Context(), a, findParams{})
		require.NoError(t, err)
		b := lost("sound b")
		_, err = client.Notes.FindCreated(t.Context(), a, findParams{WithoutAudio: true, ExcludeIDs: []int64{first.ID}})
		require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		second, err := client.Notes.FindCreated(t.Context(), b, findParams{})
		require.NoError(t, err)
		assert.NotEqual(t, first.ID, second.ID)
	})
}

// The pauses begin with a second at most and double from there.
func TestFindCreatedLooksSoonAtFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		var looks []time.Time
		s.onList = func() {
			if looks = append(looks, time.Now()); len(looks) == 4 {
				s.keep(visited())
			}
		}
		_, err := client.Notes.FindCreated(t.Context(), lose(t, client, visit()), likeness)
		require.NoError(t, err)
		require.Len(t, looks, 4)
		for i, shortest := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			pause := looks[i+1].Sub(looks[i])
			assert.LessOrEqual(t, pause, shortest*3/2)
			assert.GreaterOrEqual(t, pause, shortest)
		}
	})
}

// Why it was undecided before is told still, not that the list broke off.
func TestFindCreatedWhoseContextEndsWithinALook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		over := make(chan struct{})
		defer close(over)
		s.onList = func() {
			if s.lists == 1 {
				cancel()
				<-over
			}
		}
		note, err := client.Notes.FindCreated(ctx, lost, likeness)
		requireUndecided(t, note, err, "no such note yet, but the service may still be at work: the call was cancelled")
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestFindCreatedRefusesWhatItCannotUse(t *testing.T) {
	t.Parallel()
	s := newFakeService(t)
	client := s.client()
	good := &lostCreate{Params: visit(), SentAt: time.Now()}
	nameless := &lostCreate{Params: clinicaldoc.CreateNoteParams{Name: " ", PatientID: 7}, SentAt: time.Now()}
	for name, tt := range map[string]struct {
		lost   *lostCreate
		params findParams
		opt    clinicaldoc.CallOption
	}{
		"needs the error of a Create":         {nil, likeness, clinicaldoc.WithoutRetry()},
		"needs the error of a Create: ":       {&lostCreate{Params: visit()}, likeness, clinicaldoc.WithoutRetry()},
		"ids must not be negative":            {&lostCreate{Params: visit(), SentAt: time.Now(), NoteID: -1}, likeness, clinicaldoc.WithoutRetry()},
		"Settle: must not be negative":        {good, findParams{WithoutAudio: true, Settle: -1}, clinicaldoc.WithoutRetry()},
		"UniqueName: needs a name":            {nameless, findParams{WithoutAudio: true, UniqueName: true}, clinicaldoc.WithoutRetry()},
		"ExcludeIDs: holds an id below 1":     {good, findParams{WithoutAudio: true, ExcludeIDs: []int64{5, 0}}, clinicaldoc.WithoutRetry()},
		"ExcludeNotes: holds a note without":  {good, findParams{ExcludeNotes: []*clinicaldoc.ProgressNote{nil}}, clinicaldoc.WithoutRetry()},
		"call option: is nil":                 {good, likeness, nil},
		"WithHeader: Authorization is set by": {good, likeness, clinicaldoc.WithHeader("Authorization", "x")},
	} {
		_, err := client.Notes.FindCreated(t.Context(), tt.lost, tt.params, tt.opt)
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, name)
		require.ErrorContains(t, err, name)
		require.NotErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	}
	note, err := client.Notes.FindCreated(t.Context(), &lostCreate{SentAt: time.Now()}, likeness)
	requireUndecided(t, note, err, "nothing can tell it from others")
	assert.Zero(t, s.lists)
}

func TestFindCreatedFillsTheCallersResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit())
		s.keep(visited())
		var response clinicaldoc.Response
		_, err := client.Notes.FindCreated(t.Context(), lost, likeness, clinicaldoc.WithResponse(&response))
		require.NoError(t, err)
		assert.Contains(t, string(response.Body), `"total":1`)
	})
}

func TestOutcomeUnknownErrorInJSON(t *testing.T) {
	t.Parallel()
	s := newFakeService(t)
	client := s.client()
	lost := lose(t, client, visit())
	assert.EqualValues(t, 5, lost.AudioSize)
	assert.WithinRange(t, lost.LostAt, lost.SentAt, time.Now())
	lost.NoteID = 9
	for _, value := range []any{lost, *lost} {
		stored, err := json.Marshal(value)
		require.NoError(t, err)
		var members map[string]any
		require.NoError(t, json.Unmarshal(stored, &members))
		assert.Equal(t, map[string]any{"name": "Visit", "patient_id": float64(fakePatient), "prompt_id": 3.0}, members["params"])
		assert.Equal(t, lost.SentAt.UTC().Format(time.RFC3339Nano), members["sent_at"])
		assert.Equal(t, lost.LostAt.UTC().Format(time.RFC3339Nano), members["lost_at"])
		assert.InDelta(t, 5, members["audio_size"], 0)
		assert.InDelta(t, 9, members["note_id"], 0)
		assert.Equal(t, lost.Err.Error(), members["error"])
		assert.Equal(t, lost.ID, members["id"])
		assert.Equal(t, testBase, members["service"])
		assert.InDelta(t, 0, members["user_id"], 0, "nothing has told it yet")
		assert.Equal(t, soundSHA256, members["audio_sha256"])
		assert.Equal(t, true, members["clock_unknown"], "nothing has come back yet")
		assert.Len(t, members, 13)

		var restored lostCreate
		require.NoError(t, json.Unmarshal(stored, &restored))
		assert.Equal(t, lost.Error(), restored.Error())
		require.ErrorIs(t, &restored, clinicaldoc.ErrOutcomeUnknown)
		again, err := json.Marshal(restored)
		require.NoError(t, err)
		assert.JSONEq(t, string(stored), string(again))
		assert.True(t, restored.SentAt.Equal(lost.SentAt))
	}
}

// An id in a failure's body is nobody's note.
func TestOutcomeUnknownErrorTakesNoIDFromAFailure(t *testing.T) {
	t.Parallel()
	s := newFakeService(t)
	s.post = func(r *http.Request, _ fakeNote) (*http.Response, error) {
		return s.respond(r, http.StatusInternalServerError, `{"id":7,"name":"Visit"}`), nil
	}
	assert.Zero(t, lose(t, s.client(), visit()).NoteID)
}

func TestOutcomeUnknownErrorInJSONHoldsOnlySafeWords(t *testing.T) {
	t.Parallel()
	stored, err := json.Marshal(lostCreate{SentAt: time.Now(), Err: errors.New("Canary")})
	require.NoError(t, err)
	assert.NotContains(t, string(stored), "Canary")

	var restored lostCreate
	require.NoError(t, json.Unmarshal([]byte(`{"params":{"name":"Visit","patient_id":7},"sent_at":"2026-01-02T12:00:00Z","other":1}`), &restored))
	require.NoError(t, restored.Err)
	assert.Zero(t, restored.LostAt)
	assert.EqualValues(t, 7, restored.Params.PatientID)
	require.Error(t, json.Unmarshal([]byte(`{"sent_at":"soon"}`), &restored))
	assert.EqualValues(t, 7, restored.Params.PatientID, "what cannot be read changes nothing")
}

// A stream's size is known once it was sent to its end, which is another thing than no recording.
func TestOutcomeUnknownErrorOfAStream(t *testing.T) {
	t.Parallel()
	client := newFakeService(t).client()
	params := visit()
	params.Audio = clinicaldoc.AudioReader("a.wav", strings.NewReader("sound"))
	assert.EqualValues(t, len("sound"), lose(t, client, params).AudioSize)
	params.Audio = nil
	assert.Zero(t, lose(t, client, params).AudioSize)
}

func TestOutcomeUnknownErrorGivesOneAdvice(t *testing.T) {
	t.Parallel()
	s := newFakeService(t)
	s.post = func(r *http.Request, _ fakeNote) (*http.Response, error) {
		resp := s.respond(r, http.StatusServiceUnavailable, "")
		resp.Header.Set("Retry-After", "30")
		return resp, nil
	}
	lost := lose(t, s.client(), visit())
	assert.Equal(t, "clinicaldoc: Notes.Create (POST /v1/progress-notes): 503 Service Unavailable: the service, or a proxy before it, failed"+
		"; it may or may not have been carried out: ask Notes.FindCreated before creating again", lost.Error())

	client := serve(t, call{method: "POST", url: "/v1/teams", status: http.StatusBadGateway})
	err := client.Do(t.Context(), http.MethodPost, "/v1/teams", nil, nil)
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	require.EqualError(t, err, "clinicaldoc: Do (POST /v1/teams): 502 Bad Gateway: the service, or a proxy before it, failed"+
		"; it may or may not have been carried out: find out before sending it again")
}

// On the box, in all its variants.
func TestFindCreatedOnEveryVariant(t *testing.T) {
	t.Parallel()
	for _, variant := range clinicaldoctest.Variants() {
		t.Run(variant.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess(), clinicaldoctest.WithVariant(variant))
				defer srv.Close()
				srv.AddPatient(clinicaldoctest.Patient{ID: 7})
				params := visit()
				params.PatientID, params.PromptID = 7, 1
				find := findParams{WithoutAudio: true, TrustPatientFilter: variant.Patient == clinicaldoctest.PatientUnnamed}
				client := srv.Client()

				srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
				lost := lose(t, client, params)
				note, err := client.Notes.FindCreated(t.Context(), lost, find)
				why := ""
				switch {
				case variant.DateOffset != 0:
					why = "when it was made" // its two clocks disagree
				case variant.Audio != clinicaldoctest.AudioAsSent:
					why = "a note resembles it" // its recording has another size
				}
				if why != "" {
					requireUndecided(t, note, err, why)
					find.UniqueName = true
					note, err = client.Notes.FindCreated(t.Context(), lost, find)
				}
				require.NoError(t, err)
				assert.EqualValues(t, 1, note.ID)

				params.Name = "Another"
				time.Sleep(48 * time.Hour)
				srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
				lost = lose(t, client, params)
				_, err = client.Notes.FindCreated(t.Context(), lost, find)
				require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
				assert.Equal(t, defaultSettle, time.Since(lost.LostAt))
			})
		})
	}
}

// TestFindCreatedKnowsTheSizeOfAStream: the first create never happened; the second, alike but for its size, did. Another
// process must not take it for the first.
func TestFindCreatedKnowsTheSizeOfAStream(t *testing.T) {
	t.Parallel()
	box := clinicaldoctest.NewServer()
	t.Cleanup(box.Close)
	box.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
	create := func(words string) error {
		_, err := box.Client().Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{
			Name: "Visit", PatientID: 1, PromptID: 1, Audio: clinicaldoc.AudioReader("a.wav", strings.NewReader(words)),
		})
		return err
	}
	var lost *clinicaldoc.OutcomeUnknownError
	require.ErrorAs(t, create("first"), &lost)
	require.NoError(t, create("the second recording"))
	stored, err := json.Marshal(lost)
	require.NoError(t, err)
	read := new(clinicaldoc.OutcomeUnknownError)
	require.NoError(t, json.Unmarshal(stored, read))
	found, err := box.Client().Notes.FindCreated(t.Context(), read, clinicaldoc.FindCreatedParams{Settle: time.Nanosecond})
	require.Nil(t, found, "another recording's note was returned")
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
}

// A proxy that asks people to log in responds in the service's place for a while.
func TestFindCreatedSurvivesALoginPage(t *testing.T) {
	t.Parallel()
	page := func(s *fakeService, r *http.Request) *http.Response {
		resp := s.respond(r, http.StatusOK, "<html>")
		resp.Header.Set("Content-Type", "text/html")
		return resp
	}
	elsewhere := func(s *fakeService, r *http.Request) *http.Response {
		resp := s.respond(r, http.StatusFound, "")
		resp.Header.Set("Location", "https://login.example")
		return resp
	}
	for name, login := range map[string]func(*fakeService, *http.Request) *http.Response{"page": page, "redirect": elsewhere} {
		for looks, found := range map[int]bool{1: true, 9: true, 10: false} {
			t.Run(fmt.Sprint(name, looks), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := newFakeService(t)
					s.instead = func(list int, r *http.Request) *http.Response {
						if list > looks {
							return nil
						}
						return login(s, r)
					}
					client := s.client()
					lost := lose(t, client, visit())
					s.keep(visited())
					note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
					if !found {
						requireUndecided(t, note, err, "the notes could not be read")
						return
					}
					require.NoError(t, err)
					assert.EqualValues(t, 1, note.ID)
				})
			})
		}
	}
}

// What a cache keeps grows old as fast as time goes: it is not looked at in ever shorter pauses.
func TestFindCreatedHasPatienceWithACache(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		lost := lose(t, s.client(), visit())
		began := time.Now()
		kept := defaultSettle - time.Second
		s.onList = func() {
			s.age = max(0, time.Since(began)-kept)
			if s.age > 15*time.Minute {
				s.age = 0
			}
		}
		_, err := s.client().Notes.FindCreated(t.Context(), lost, likeness)
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		assert.Less(t, s.lists, 50)
	})
}

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
	hourly := func(n int) func(*fakeService) {
		return func(s *fakeService) {
			for i := range n {
				s.keep(visited().named("Earlier").sized(6).by(5).ago(time.Duration(n-i) * time.Hour))
			}
		}
	}
	often := func(s *fakeService) { // so that the second page of three leaves the window
		for i := range 300 {
			s.keep(visited().named("Earlier").sized(6).by(5).ago(time.Duration(300-i) * 12 * time.Minute))
		}
	}
	together := func(s *fakeService) { // all in one second, so that no order shows
		for range 250 {
			s.keep(visited().named("Earlier").sized(6).by(5).ago(20 * time.Hour))
		}
	}
	for name, tt := range map[string]struct {
		list   func([]string, *http.Request) string
		fill   func(*fakeService)
		order  func(a, b fakeNote) int // nil: as asked for
		pages  int                     // of one look
		reason string                  // "": proven
	}{
		"numbered, one page":                 {nil, hourly(20), nil, 1, ""},
		"numbered, empty":                    {nil, hourly(0), nil, 1, ""},
		"numbered, past the window":          {nil, hourly(250), nil, 2, ""},
		"numbered, past it on page 2":        {nil, often, nil, 5, ""},
		"numbered, whose order is its own":   {nil, hourly(250), newestFirst, 7, ""},
		"numbered, oldest first":             {nil, hourly(250), oldestFirst, 6, ""},
		"numbered, no order":                 {nil, together, nil, 6, ""},
		"simple":                             {simple, together, nil, 6, ""},
		"cursors":                            {cursors, together, nil, 6, ""},
		"bare, empty":                        {bare(100, 1), hourly(0), nil, 1, ""},
		"bare, one page":                     {bare(100, 1), hourly(20), nil, 6, ""},
		"bare, small pages":                  {bare(15, 1), hourly(20), nil, 8, ""},
		"bare, past the window":              {bare(100, 1), hourly(50), nil, 2, ""},
		"bare, whose order is its own":       {bare(100, 1), hourly(50), newestFirst, 7, ""},
		"bare, counted from 0":               {bare(15, 0), hourly(20), nil, 6, ""},
		"everything at once":                 {deaf(1000), hourly(20), nil, 8, ""},
		"everything, in an order of its own": {deaf(1000), hourly(20), newestFirst, 5, "cannot be shown to be whole"},
		"everything, past the window":        {deaf(1000), hourly(50), nil, 2, ""},
		"the first rows only":                {deaf(15), hourly(20), nil, 4, "cannot be shown to be whole"},
		"the first rows, oldest first":       {deaf(15), hourly(50), oldestFirst, 5, "cannot be shown to be whole"},
		"the first rows, newest first":       {deaf(15), hourly(50), newestFirst, 5, "cannot be shown to be whole"},
		"a total that was not reached":       {short, hourly(20), nil, 2, "cannot be shown to be whole"},
		"too many, oldest first":             {nil, hourly(5100), oldestFirst, 51, "too many notes to search"},
		"pages that bring nothing new":       {stuck, hourly(20), nil, 4, "cannot be shown to be whole"},
		"another page than the one asked":    {stubborn, together, nil, 2, "another page than the one asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				s.list, s.order = tt.list, tt.order
				client := s.client()
				tt.fill(s)
				lost := lose(t, client, visit())
				ago(lost, defaultSettle)
				begin := time.Now()
				note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
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

// A list by id, whatever order is asked for: 120 old notes were imported, the newest first, so that the first page happens
// to fall in time to before the window. The lost note is on the second page, which the first one announces.
func TestFindCreatedReadsOnWhereTheOrderIsByAccident(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]bool{"the note was made": true, "it was not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				s.order = func(a, b fakeNote) int { return cmp.Compare(a.id, b.id) }
				client := s.client()
				for i := range 120 {
					s.keep(visited().named("Earlier").sized(6).by(5).ago(time.Duration(i+1) * 24 * time.Hour))
				}
				lost := lose(t, s.client(), visit())
				var id int64
				if made {
					id = s.keep(visited())
				}
				ago(lost, defaultSettle)
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
				if !made {
					require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
					assert.Equal(t, 5, s.lists, "two walks of two pages, and the other order once")
					return
				}
				require.NoError(t, err)
				assert.Equal(t, id, note.ID)
			})
		})
	}
}

// A service that wants a pause when the other order is requested gets it, before the search reads on.
func TestFindCreatedPausesWhenTheOtherOrderIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		for i := range 120 {
			s.keep(visited().named("Earlier").sized(6).by(5).ago(time.Duration(120-i) * 24 * time.Hour))
		}
		lost := lose(t, s.client(), visit())
		ago(lost, defaultSettle)
		var last time.Time
		s.onList = func() {
			if s.fail(s.lists) != 0 {
				assert.GreaterOrEqual(t, time.Since(last), fakeRetryAfter, "after list %d", s.lists)
			}
			last = time.Now()
		}
		s.fail = func(list int) int {
			if list > 1 && list < 6 {
				return http.StatusTooManyRequests
			}
			return 0
		}
		_, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		assert.Equal(t, 7, s.lists, "the other order four times, and both in the next look")
	})
}

// A note that is deleted between two pages moves the lost one to the page that was read before.
func TestFindCreatedIsNotFooledByRowsThatMove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		s.order = oldestFirst
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
				s.change(first, func(n *fakeNote) { n.id = 0 })
				s.keep(visited().named("Later").sized(6).by(5)) // so that the total does not tell
			}
		}
		note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
		require.NoError(t, err)
		assert.Equal(t, id, note.ID)
	})
}

// Notes that are made between two pages, as by a folder that is being uploaded, raise the total beyond what can be seen.
func TestFindCreatedSeesAllThatWasThereWhenRowsComeIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		for range 150 {
			s.keep(visited().named("Earlier").sized(6).by(5).ago(20 * time.Hour))
		}
		lost := lose(t, client, visit())
		ago(lost, defaultSettle)
		s.onList = func() {
			s.keep(visited().named("Later").sized(6).by(5), visited().named("Later").sized(6).by(5)) // at every page
		}
		_, err := client.Notes.FindCreated(t.Context(), lost, likeness)
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
	})
}

func TestFindCreatedReadsOnWhereTheOrderIsNotKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
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
		note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
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
		"another patient's, trusting": {patient: 5, params: findParams{WithoutAudio: true, TrustPatientFilter: true}},
		"naming none":                 {patient: 0},
		"naming none, trusting":       {patient: 0, params: findParams{WithoutAudio: true, TrustPatientFilter: true}, found: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
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
				s := newFakeService(t)
				s.fail = func(list int) int {
					if list <= tt.times {
						return tt.status
					}
					return 0
				}
				client := s.client()
				lost := lose(t, client, visit())
				id := s.keep(visited())
				note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
				assert.Equal(t, tt.lists, s.lists)
				if tt.status == http.StatusTooManyRequests {
					assert.GreaterOrEqual(t, time.Since(lost.LostAt), 2*fakeRetryAfter)
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
		s := newFakeService(t)
		failures := 0
		s.fail = func(list int) int {
			if list%3 == 0 {
				return 0
			}
			failures++
			return http.StatusBadGateway
		}
		client := s.client()
		params := findParams{WithoutAudio: true, Settle: 3 * time.Hour}
		_, err := client.Notes.FindCreated(t.Context(), lose(t, client, visit()), params)
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		assert.Greater(t, failures, 20)
	})
}

// It fitted while another create could explain it, and is gone when nothing can.
func TestFindCreatedReturnsNothingThatIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit())
		id := s.keep(visited())
		s.post = func(r *http.Request, _ fakeNote) (*http.Response, error) {
			time.Sleep(20 * time.Second)
			s.change(id, func(n *fakeNote) { n.id = 0 })
			return s.respond(r, http.StatusUnprocessableEntity, `{"message":"The given data was invalid"}`), nil
		}
		var workers sync.WaitGroup
		workers.Go(func() {
			_, err := client.Notes.Create(t.Context(), visit())
			assert.ErrorIs(t, err, clinicaldoc.ErrValidation)
		})
		synctest.Wait()
		note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
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
	note, err := client.Notes.FindCreated(t.Context(), &lostCreate{Params: visit(), SentAt: time.Now()}, likeness)
	requireUndecided(t, note, err, "the notes could not be read: no response: the server's certificate is signed by an authority unknown here")
	assert.Equal(t, 1, lists)
}

// Only failures in a row end it.
func TestFindCreatedCountsFailedListsAnewAfterOneThatWorks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		sent, lists := time.Now(), 0
		client := s.client(clinicaldoc.WithHTTPClient(&http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path != notesPath {
				return s.respond(r, http.StatusOK, fmt.Sprintf(`{"id":%d}`, fakeUser)), nil
			}
			if lists++; lists%10 != 0 {
				return s.respond(r, http.StatusBadGateway, `{}`), nil
			}
			return s.page(r)
		})}))
		_, err := client.Notes.FindCreated(t.Context(), &lostCreate{Params: visit(), SentAt: sent, LostAt: sent, Service: testBase, UserID: fakeUser}, likeness)
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
				s := newFakeService(t)
				sent := time.Now()
				id := s.keep(visited())
				lists := 0
				client := s.client(clinicaldoc.WithHTTPClient(&http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
					if r.URL.Path != notesPath {
						return s.respond(r, http.StatusOK, fmt.Sprintf(`{"id":%d}`, fakeUser)), nil
					}
					if lists++; lists > 1 {
						return s.page(r)
					}
					refusal := s.respond(r, http.StatusTooManyRequests, `{}`)
					refusal.Header.Set("Retry-After", asked)
					return refusal, nil
				})}))
				note, err := client.Notes.FindCreated(t.Context(), &lostCreate{Params: visit(), SentAt: sent, LostAt: sent, Service: testBase, UserID: fakeUser}, likeness)
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
		s := newFakeService(t)
		s.age = 2 * time.Minute
		client := s.client()
		lost := lose(t, client, visit())
		_, err := client.Notes.FindCreated(t.Context(), lost, likeness)
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		assert.GreaterOrEqual(t, time.Since(lost.LostAt), defaultSettle+s.age)
		assert.Less(t, time.Since(lost.LostAt), defaultSettle+s.age+time.Minute)
	})
}

// Nor is a cache old for ever: what comes fresh is taken as it is.
func TestFindCreatedForgetsACacheThatWasOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit())
		s.onList = func() { s.age = map[bool]time.Duration{true: time.Hour}[s.lists == 0] }
		_, err := client.Notes.FindCreated(t.Context(), lost, likeness)
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		assert.Equal(t, defaultSettle, time.Since(lost.LostAt))
	})
}

func TestFindCreatedGoesByTheOldestPage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
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
		_, err := client.Notes.FindCreated(t.Context(), lost, likeness)
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		assert.GreaterOrEqual(t, time.Since(lost.LostAt), defaultSettle+2*time.Minute)
	})
}

// A failed question for the order is asked again by the next look, and no more once there is an answer.
func TestFindCreatedAsksForTheOrderUntilItIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		for i := range 101 {
			s.keep(visited().named("Other").sized(9).by(5).ago(30*time.Hour - time.Duration(i)*time.Minute))
		}
		asked, looks := 0, 0
		s.instead = func(_ int, r *http.Request) *http.Response {
			switch r.URL.Query().Get("sort") {
			case "latest":
				looks++
			case "oldest":
				if asked++; asked == 1 {
					return s.respond(r, http.StatusForbidden, "")
				}
			}
			return nil
		}
		_, err := client.Notes.FindCreated(t.Context(), lose(t, client, visit()), likeness)
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		assert.Equal(t, 2, asked)
		assert.Greater(t, looks, 4)
	})
}

func TestFindCreatedAsksForNothingFromACache(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost := &lostCreate{Params: visit(), SentAt: time.Now(), LostAt: time.Now()}
		fresh := map[string]string{"Cache-Control": "no-cache"}
		now := map[string]string{"Date": time.Now().UTC().Format(http.TimeFormat)}
		s := newFakeService(t)
		n := visited()
		n.id = 7
		client := serve(t,
			call{url: notesPath + "?patient_id=4711&per_page=100&sort=latest", header: fresh, response: `{"data":[` + s.json(n) + `],"meta":{"current_page":1,"last_page":1}}`, answerHeader: now},
			call{url: "/user", header: fresh, response: `{"id":2}`},
		)
		note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
		require.NoError(t, err)
		assert.EqualValues(t, 7, note.ID)
	})
}

// Whatever the caller thinks of caches: a list that one has kept says nothing of a create since. It is said once, at every look.
func TestFindCreatedAsksForNothingFromACacheThatTheCallerAllows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		client := clientOn(t, &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			assert.Equal(t, []string{"max-stale=3600", "no-cache"}, r.Header["Cache-Control"])
			if requests++; requests < 3 {
				return madeResponse(r, http.StatusBadGateway, `{}`), nil
			}
			return madeResponse(r, http.StatusOK, `{"data":[{"id":7,"name":"Visit","patient":{"id":4711}}],"meta":{"current_page":1,"last_page":1}}`), nil
		})})
		lost := &lostCreate{Params: visit(), SentAt: time.Now()}
		_, err := client.Notes.FindCreated(t.Context(), lost, findParams{WithoutAudio: true, UniqueName: true}, clinicaldoc.WithHeader("Cache-Control", "max-stale=3600"))
		require.NoError(t, err)
		assert.Equal(t, 3, requests)
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
				s := newFakeService(t)
				s.ahead = tt.ahead
				client := s.client()
				lost := lose(t, client, visit())
				s.keep(visited())
				note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
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
				s := newFakeService(t)
				client := s.client()
				lost := lose(t, client, visit())
				s.keep(visited())
				s.list = func(rows []string, r *http.Request) string {
					return numbered([]string{strings.Replace(rows[0], `"user_id":2`, user, 1)}, r)
				}
				note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
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
				s := newFakeService(t)
				client := s.client()
				params := visit()
				params.PatientID = 0
				lost := lose(t, client, params)
				s.keep(visited())
				s.list = func(rows []string, r *http.Request) string {
					return numbered([]string{strings.Replace(rows[0], `"patient":{"id":4711}`, patient, 1)}, r)
				}
				note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
				if found {
					require.NoError(t, err)
					return
				}
				requireUndecided(t, note, err, "resembles")
			})
		})
	}
}

// A note that names another patient than its create did is this client's all the same, and explains no other loss.
func TestANoteOfAnotherPatientExplainsNoOtherLoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit())
		s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) {
			sent.patient = fakePatient
			return s.commit(r, sent), nil
		}
		params := visit()
		params.PatientID = 5
		_, err := client.Notes.Create(t.Context(), params)
		require.ErrorIs(t, err, clinicaldoc.ErrPatientMismatch)
		_, err = client.Notes.FindCreated(t.Context(), lost, findParams{})
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
	})
}

func TestFindCreatedWithoutAPatientTakesNoNamedNoteOfOne(t *testing.T) {
	t.Parallel()
	fresh := map[string]string{"Cache-Control": "no-cache"}
	client := serve(t, call{url: notesPath + "/1", header: fresh, response: `{"id":1,"name":"Visit","patient":{"name":"x"}}`})
	lost := &lostCreate{Params: visit(), SentAt: time.Now(), LostAt: time.Now(), NoteID: 1}
	lost.Params.PatientID = 0
	note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
	requireUndecided(t, note, err, "names another patient than the create did")
	require.ErrorIs(t, err, clinicaldoc.ErrPatientMismatch)
}

func TestFindCreatedAfterMoreLossesThanItRemembers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		lost := &lostCreate{Params: visit(), SentAt: time.Now(), LostAt: time.Now()}
		for i := range 4097 {
			other := *lost
			other.Params.PatientID = int64(i + 1e6)
			_, err := client.Notes.FindCreated(over, &other, likeness)
			require.ErrorIs(t, err, context.Canceled)
		}
		s.keep(visited())
		note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
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
				s := newFakeService(t)
				client := s.client()
				lost := lose(t, client, visit())
				other := visit()
				other.PatientID = 5
				for range tt.lost {
					time.Sleep(time.Microsecond)
					lose(t, client, other)
				}
				s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) { return s.commit(r, sent), nil }
				for range tt.made {
					_, err := client.Notes.Create(t.Context(), other)
					require.NoError(t, err)
				}
				id := s.keep(visited())
				note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
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
					SentAt: time.Now().Add(-20 * time.Minute), LostAt: time.Now().Add(-20 * time.Minute), Service: testBase, UserID: 1,
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
		s := newFakeService(t)
		s.ahead = -3 * time.Second
		client := s.client()
		time.Sleep(950 * time.Millisecond)
		lost := lose(t, client, visit())
		s.keep(visited())
		time.Sleep(20 * time.Second)
		s.keep(visited())
		s.onList = func() { time.Sleep(100 * time.Millisecond) } // into the next second
		note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
		requireUndecided(t, note, err, "several notes fit")
	})
}

// soundSHA256 is that of what visit sends.
const soundSHA256 = "dd29442deca69f52c50006b831cb216edf78a7da33748f0a80ff19f2ebe57ecd"

// otherToken is a user's whose list need not show what others make.
const otherToken = "synthetic-token-of-a-clinician"

func TestNotCreatedIsSaidOnlyToWhomItWasSentBy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		_, err := client.Notes.Create(t.Context(), visit(), clinicaldoc.WithToken(otherToken))
		var lost *lostCreate
		require.ErrorAs(t, err, &lost)
		note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
		requireUndecided(t, note, err, "ask with a token of the user who sent it")
		_, err = client.Notes.FindCreated(t.Context(), lost, likeness, clinicaldoc.WithToken(otherToken))
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
	})
}

// A header or the query may pick the tenant: another one's list says nothing, whoever the user is there. What only names the
// request picks nothing.
func TestNotCreatedIsSaidOnlyWhereItWasSent(t *testing.T) {
	t.Parallel()
	type options = []clinicaldoc.CallOption
	team := func(name string) clinicaldoc.CallOption { return clinicaldoc.WithHeader("X-Team", name) }
	region := clinicaldoc.WithQuery("region", "two")
	for name, tt := range map[string]struct {
		sent, asked options
		notCreated  bool
	}{
		"the same header":         {options{team("B")}, options{team("B")}, true},
		"another header":          {options{team("B")}, options{team("A")}, false},
		"no header":               {options{team("B")}, nil, false},
		"a header where none was": {nil, options{team("B")}, false},
		"the same query":          {options{region}, options{region}, true},
		"no query":                {options{region}, nil, false},
		"another query":           {options{region}, options{clinicaldoc.WithQuery("region", "one")}, false},
		"a filter":                {nil, options{clinicaldoc.WithQuery("signed", "1")}, false},
		"names of requests": {
			options{
				clinicaldoc.WithHeader("X-Request-ID", "synthetic-1"), clinicaldoc.WithHeader("Traceparent", "synthetic-1"), clinicaldoc.WithHeader("Tracestate", "synthetic-1"),
				clinicaldoc.WithHeader("Baggage", "synthetic-1"), clinicaldoc.WithHeader("X-Amzn-Trace-ID", "synthetic-1"), clinicaldoc.WithHeader("Cache-Control", "no-store"),
			},
			options{clinicaldoc.WithHeader("X-Correlation-ID", "synthetic-2")}, true,
		},
		"conditions": {options{clinicaldoc.WithHeader("If-Match", "*")}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) { return s.commit(r, sent), nil }
				client := s.client()
				_, err := client.Notes.Create(t.Context(), visit(), tt.sent...)
				require.NoError(t, err, "from now on the user is known")
				s.post = nil
				_, err = client.Notes.Create(t.Context(), visit(), tt.sent...)
				var lost *lostCreate
				require.ErrorAs(t, err, &lost)
				for _, asker := range []*clinicaldoc.Client{client, s.client()} {
					params := findParams{WithoutAudio: true, ExcludeIDs: []int64{1}}
					note, err := asker.Notes.FindCreated(t.Context(), restored(t, lost, nil), params, tt.asked...)
					if tt.notCreated {
						require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
						continue
					}
					requireUndecided(t, note, err, "with the headers and the query of the Create")
				}
			})
		})
	}
}

// A token source may change its user while FindCreated waits: what the list of the next one lacks is not absent.
func TestNotCreatedIsNotSaidToTheNextUser(t *testing.T) {
	t.Parallel()
	want := map[string]string{"for the first page": "the token changed from one request to the next"}
	for name, next := range map[string]func(token string, page int) string{
		"between two looks": func(string, int) string { return otherToken },
		"for the first page": func(_ string, page int) string {
			return map[bool]string{true: otherToken, false: testToken}[page != 1] // that is asked for next
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				token := testToken
				s.me = func(r *http.Request) int64 {
					if r.Header.Get("Authorization") == "Bearer "+otherToken {
						return fakeUser + 1
					}
					return fakeUser
				}
				client, err := clinicaldoc.NewClient(testBase, "", clinicaldoc.WithHTTPClient(s.httpClient()), once,
					clinicaldoc.WithTokenSource(tokenFunc(func(context.Context) (string, error) { return token, nil })))
				require.NoError(t, err)
				for range 150 { // two pages, which are both looked at
					s.keep(fakeNote{name: "Synthetic, earlier", patient: fakePatient, size: 1, made: time.Now().Add(-2 * time.Hour)})
				}
				s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) { return s.commit(r, sent), nil }
				_, err = client.Notes.Create(t.Context(), visit())
				require.NoError(t, err, "from now on the user is known")
				s.post = nil
				lost := lose(t, client, visit())
				s.instead = func(_ int, r *http.Request) *http.Response {
					if time.Since(lost.LostAt) > 5*time.Minute {
						token = next(token, max(pageOf(r), 1))
					}
					return nil
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				note, err := client.Notes.FindCreated(ctx, lost, likeness)
				requireUndecided(t, note, err, want[name])
			})
		})
	}
}

// The user is known from a note that the same token made: a later token of the same user may ask.
func TestNotCreatedIsSaidToTheSameUserWithAnotherToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) { return s.commit(r, sent), nil }
		_, err := client.Notes.Create(t.Context(), visit())
		require.NoError(t, err)
		s.post = nil
		lost := lose(t, client, visit())
		assert.EqualValues(t, fakeUser, lost.UserID)
		assert.NotEmpty(t, lost.ID)
		assert.Equal(t, testBase, lost.Service)
		for _, unique := range []bool{false, true} {
			params := findParams{WithoutAudio: true, UniqueName: unique, ExcludeIDs: []int64{1}}
			_, err = s.client().Notes.FindCreated(t.Context(), restored(t, lost, nil), params, clinicaldoc.WithToken(otherToken))
			require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		}
	})
}

// A token that is renewed between two pages spoils one look, not those after it.
func TestATokenThatIsRenewedSpoilsOneLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		token := testToken
		client, err := clinicaldoc.NewClient(testBase, "", clinicaldoc.WithHTTPClient(s.httpClient()), once,
			clinicaldoc.WithTokenSource(tokenFunc(func(context.Context) (string, error) { return token, nil })))
		require.NoError(t, err)
		for range 150 { // two pages
			s.keep(visited().named("Earlier").sized(6).by(5).ago(2 * time.Hour))
		}
		s.returned(client) // from now on the user is known
		lost := lose(t, client, visit())
		id := s.keep(visited())
		s.instead = func(list int, _ *http.Request) *http.Response {
			if list == 1 {
				token = otherToken
			}
			return nil
		}
		note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
		require.NoError(t, err)
		assert.Equal(t, id, note.ID)
	})
}

// Whose create it was is learned by asking, and kept: a later token of the user may ask then.
func TestWhoSentItIsKeptOnceItIsKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit())
		require.Zero(t, lost.UserID)
		s.keep(visited().named("Other").sized(6).by(5)) // so that it matters who asks
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		note, err := client.Notes.FindCreated(ctx, lost, likeness)
		lost = requireUndecided(t, note, err, "may still be at work")
		assert.EqualValues(t, fakeUser, lost.UserID)
		_, err = s.client().Notes.FindCreated(t.Context(), restored(t, lost, nil), likeness, clinicaldoc.WithToken(otherToken))
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
	})
}

// Whose token it is with one tenant says nothing of another.
func TestATokenMayBeAnotherUsersWithAnotherTenant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		s.me = func(r *http.Request) int64 {
			return map[string]int64{"one": fakeUser, "two": 5}[r.Header.Get("X-Team")]
		}
		team := func(name string) clinicaldoc.CallOption { return clinicaldoc.WithHeader("X-Team", name) }
		client := s.client()
		s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) { return s.commit(r, sent), nil }
		other := visit()
		other.PatientID = 8
		_, err := client.Notes.Create(t.Context(), other, team("one"))
		require.NoError(t, err, "from now on the user is known there")
		s.post = nil
		_, err = client.Notes.Create(t.Context(), visit(), team("two"))
		lost, ok := errors.AsType[*lostCreate](err)
		require.True(t, ok, "%v", err)
		id := s.keep(visited().by(5))
		note, err := client.Notes.FindCreated(t.Context(), lost, likeness, team("two"))
		require.NoError(t, err)
		assert.Equal(t, id, note.ID)
	})
}

// restored is a loss as another process reads it, from JSON that may have been changed.
func restored(t *testing.T, lost *lostCreate, change func(map[string]any)) *lostCreate {
	t.Helper()
	stored, err := json.Marshal(lost)
	require.NoError(t, err)
	var members map[string]any
	require.NoError(t, json.Unmarshal(stored, &members))
	if change != nil {
		change(members)
	}
	stored, err = json.Marshal(members)
	require.NoError(t, err)
	again := new(lostCreate)
	require.NoError(t, json.Unmarshal(stored, again))
	return again
}

func TestNothingIsSaidAtAnotherService(t *testing.T) {
	t.Parallel()
	s := newFakeService(t)
	lost := lose(t, s.client(), visit())
	elsewhere, err := clinicaldoc.NewClient("https://elsewhere.clinic.test", "synthetic-token")
	require.NoError(t, err)
	note, err := elsewhere.Notes.FindCreated(t.Context(), restored(t, lost, nil), likeness)
	requireUndecided(t, note, err, "sent to another service")
	same, err := clinicaldoc.NewClient(strings.ToUpper(testBase)+":443/", "synthetic-token")
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, spelled := range []string{testBase, strings.ToUpper(testBase) + ":443/"} {
		again := restored(t, lost, func(members map[string]any) { members["service"] = spelled })
		note, err = same.Notes.FindCreated(ended, again, likeness)
		requireUndecided(t, note, err, "context canceled")
	}
}

// A journal of the version before names neither service nor user.
func TestALossWithoutIdentityIsNeverSaidNotToBeThere(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fill       func(*lostCreate)
		notCreated bool
	}{
		"as it is":         {func(*lostCreate) {}, false},
		"only a service":   {func(e *lostCreate) { e.Service = testBase }, false},
		"only a user":      {func(e *lostCreate) { e.UserID = fakeUser }, false},
		"another user":     {func(e *lostCreate) { e.Service, e.UserID = testBase, 77 }, false},
		"service and user": {func(e *lostCreate) { e.Service, e.UserID = testBase, fakeUser }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				old := restored(t, lose(t, s.client(), visit()), func(members map[string]any) {
					for _, key := range []string{"id", "service", "user_id", "audio_sha256", "token_fingerprint", "audio_type", "clock_read_at", "service_clock"} {
						delete(members, key)
					}
				})
				tt.fill(old)
				note, err := s.client().Notes.FindCreated(t.Context(), old, likeness)
				if tt.notCreated {
					require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
					return
				}
				requireUndecided(t, note, err, "need not show it")
			})
		})
	}
}

// A cache keeps its old Date and sends no Age: what it shows at the end is what it showed at the first look.
func TestFindCreatedNoticesACacheThatDoesNotSayHowOldItIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit())
		time.AfterFunc(2*time.Minute, func() { s.keep(visited()) })
		var kept string
		s.instead = func(_ int, r *http.Request) *http.Response {
			if kept == "" {
				kept = time.Now().UTC().Format(http.TimeFormat)
			}
			if time.Since(lost.LostAt) > 14*time.Minute {
				return nil
			}
			resp := s.respond(r, http.StatusOK, numbered(nil, r))
			resp.Header.Set("Date", kept)
			return resp
		}
		note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
		require.NoError(t, err)
		assert.EqualValues(t, 1, note.ID)
	})
}

// The process that lost the response is gone, and the clock of the next one is an hour ahead.
func TestSettleIsCountedByBothClocks(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		step   time.Duration // of our clock between the two processes
		known  bool          // the difference of clocks, when it was lost
		silent bool          // the service tells its time no more
		want   time.Duration
	}{
		"an hour ahead, and no time since": {time.Hour, true, true, defaultSettle},
		"an hour ahead":                    {time.Hour, true, false, defaultSettle},
		"an hour ahead, not known":         {time.Hour, false, false, defaultSettle},
		"a few seconds ahead":              {20 * time.Second, true, false, defaultSettle},
		"as it was":                        {0, true, false, defaultSettle},
		"as it was, but nobody knows it":   {0, false, false, defaultSettle},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				s.post = func(r *http.Request, _ fakeNote) (*http.Response, error) {
					return s.respond(r, http.StatusGatewayTimeout, ""), nil
				}
				lost := restored(t, lose(t, s.client(), visit()), func(members map[string]any) {
					for _, key := range []string{"sent_at", "lost_at", "clock_read_at"} {
						at, err := time.Parse(time.RFC3339Nano, members[key].(string))
						require.NoError(t, err)
						members[key] = at.Add(-tt.step).Format(time.RFC3339Nano)
					}
					if !tt.known {
						delete(members, "clock_read_at")
						delete(members, "service_clock")
					}
				})
				s.noDate = tt.silent
				begin := time.Now()
				_, err := s.client().Notes.FindCreated(t.Context(), lost, likeness)
				require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
				assert.InDelta(t, tt.want.Seconds(), time.Since(begin).Seconds(), 61)
				assert.GreaterOrEqual(t, time.Since(begin), tt.want-2*time.Second)
			})
		})
	}
}

// controlOf tells whether a lost create knows a note that shows what the service keeps of recordings.
func controlOf(t *testing.T, lost *lostCreate) bool {
	t.Helper()
	text, err := json.Marshal(lost)
	require.NoError(t, err)
	return strings.Contains(string(text), `"control":`)
}

// A client does not hold on to a large recording in memory for the sake of a comparison that may never come.
func TestALargeRecordingIsNotHeld(t *testing.T) {
	t.Parallel()
	for size, kept := range map[int]bool{1 << 20: true, 1<<20 + 1: false} {
		s := newFakeService(t)
		client := s.client()
		s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) { return s.commit(r, sent), nil }
		large := visit()
		large.Audio = clinicaldoc.AudioBytes("a.wav", make([]byte, size))
		_, err := client.Notes.Create(t.Context(), large)
		require.NoError(t, err)
		s.post = nil
		assert.Equal(t, kept, controlOf(t, lose(t, client, visit())))
	}
}

// What another service keeps of recordings says nothing of this one.
func TestTheControlOfAnotherServiceIsNotTaken(t *testing.T) {
	t.Parallel()
	s := newFakeService(t)
	s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) { return s.commit(r, sent), nil }
	client := s.client()
	_, err := client.Notes.Create(t.Context(), visit())
	require.NoError(t, err)
	s.post = nil
	lost := restored(t, lose(t, client, visit()), func(members map[string]any) { members["service"] = "https://elsewhere.clinic.test" })
	require.True(t, controlOf(t, lost))
	other := s.client()
	note, err := other.Notes.FindCreated(t.Context(), lost, findParams{})
	requireUndecided(t, note, err, "")
	assert.False(t, controlOf(t, lose(t, other, visit())))
}

// What is learned of the clocks is kept: a third process need not begin anew.
func TestTheClocksThatALookShowedAreKept(t *testing.T) {
	t.Parallel()
	for _, later := range []time.Duration{0, 5 * time.Minute} { // until then nobody knows whether our clock was set
		testTheClocksThatALookShowed(t, later)
	}
}

func testTheClocksThatALookShowed(t *testing.T, later time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		lost := restored(t, lose(t, s.client(), visit()), nil)
		time.Sleep(later)
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		note, err := s.client().Notes.FindCreated(ctx, lost, likeness)
		lost = restored(t, requireUndecided(t, note, err, "may still be at work"), nil)
		begin := time.Now()
		_, err = s.client().Notes.FindCreated(t.Context(), lost, likeness)
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		assert.InDelta(t, 360, time.Since(begin).Seconds(), 2)
	})
}

func TestFindCreatedWaitsForTheTimeOfANote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit())
		id := s.keep(visited().ago(-2 * time.Second))
		begin := time.Now()
		note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
		require.NoError(t, err)
		assert.Equal(t, id, note.ID)
		assert.LessOrEqual(t, time.Since(begin), 5*time.Second)
	})
}

// A service uses the ids of deleted notes again.
func TestFindCreatedKnowsNotesByMoreThanTheirIDs(t *testing.T) {
	t.Parallel()
	t.Run("the id of a note that this client made", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newFakeService(t)
			client := s.client()
			s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) { return s.commit(r, sent), nil }
			_, err := client.Notes.Create(t.Context(), visit())
			require.NoError(t, err)
			s.post, s.notes = nil, nil
			time.Sleep(time.Minute)
			lost := lose(t, client, visit())
			s.keep(visited())
			note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
			requireUndecided(t, note, err, "a person has to look")
		})
	})
	t.Run("the id of a note that was found", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newFakeService(t)
			client := s.client()
			lost := lose(t, client, visit())
			s.keep(visited())
			_, err := client.Notes.FindCreated(t.Context(), lost, likeness)
			require.NoError(t, err)
			time.Sleep(time.Minute)
			s.notes = nil
			s.keep(visited())
			note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
			requireUndecided(t, note, err, "cannot be it")
		})
	})
	t.Run("the id of a note that the caller excludes", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newFakeService(t)
			client := s.client()
			lost := lose(t, client, visit())
			id := s.keep(visited())
			once := []*clinicaldoc.ProgressNote{{ID: id}} // it is not known when that one was made
			note, err := client.Notes.FindCreated(t.Context(), lost, findParams{WithoutAudio: true, ExcludeNotes: once})
			requireUndecided(t, note, err, "excluded by its id")
			// Nor is another one it for sure, as long as that is not known.
			s.keep(visited())
			for _, unread := range []bool{false, true} {
				if unread {
					s.audio = fails(id, http.StatusServiceUnavailable) //nolint:bodyclose // it is the server's
				}
				for _, params := range []findParams{{ExcludeNotes: once}, {WithoutAudio: true, ExcludeNotes: once}} {
					note, err = s.client().Notes.FindCreated(t.Context(), restored(t, lost, nil), params)
					requireUndecided(t, note, err, "")
				}
			}
		})
	})
	t.Run("the id of a note that the caller excludes with its time", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newFakeService(t)
			client := s.client()
			lost := lose(t, client, visit())
			id := s.keep(visited())
			earlier := &clinicaldoc.ProgressNote{ID: id, CreatedAt: time.Now().Add(-time.Minute)}
			note, err := client.Notes.FindCreated(t.Context(), lost, findParams{WithoutAudio: true, ExcludeNotes: []*clinicaldoc.ProgressNote{earlier}})
			requireUndecided(t, note, err, "a person has to look")
			note, err = client.Notes.FindCreated(t.Context(), lost, findParams{ExcludeNotes: []*clinicaldoc.ProgressNote{earlier}})
			require.NoError(t, err)
			assert.Equal(t, id, note.ID)
		})
	})
}

// What is excluded explains itself: an id that the caller names, a note with the time at which it was made, or an id of a note that
// was made before.
func TestExcludedNotesAreInNobodysWay(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		ago  time.Duration
		made bool
	}{"made before": {ago: time.Hour}, "made since": {}, "made before, and the own": {time.Hour, true}, "made since, and the own": {made: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				lost := lose(t, client, visit())
				id := s.keep(visited().ago(tt.ago))
				excluded, err := client.Notes.Get(t.Context(), id)
				require.NoError(t, err)
				words := []findParams{{ExcludeIDs: []int64{id}}, {ExcludeNotes: []*clinicaldoc.ProgressNote{excluded}}}
				if tt.ago > 0 {
					words = append(words, findParams{ExcludeNotes: []*clinicaldoc.ProgressNote{{ID: id}}})
				}
				var own int64
				if tt.made {
					own = s.keep(visited())
				}
				for _, params := range words {
					params.WithoutAudio = true
					note, err := client.Notes.FindCreated(t.Context(), lost, params)
					if !tt.made {
						require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
						continue
					}
					require.NoError(t, err)
					assert.Equal(t, own, note.ID)
				}
			})
		})
	}
}

func TestALossIsKnownByItsID(t *testing.T) {
	t.Parallel()
	t.Run("kept with less precision", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newFakeService(t)
			client := s.client()
			time.Sleep(123456789)
			_, err := client.Users.Me(t.Context()) // which compares the clocks
			require.NoError(t, err)
			lost := lose(t, client, visit())
			kept := restored(t, lost, func(members map[string]any) {
				members["sent_at"] = lost.SentAt.Truncate(time.Second).Format(time.RFC3339)
				members["lost_at"] = lost.LostAt.Truncate(time.Second).Format(time.RFC3339)
			})
			id := s.keep(visited())
			note, err := client.Notes.FindCreated(t.Context(), kept, likeness)
			require.NoError(t, err)
			assert.Equal(t, id, note.ID)
		})
	})
	t.Run("two at one instant", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newFakeService(t)
			client := s.client()
			first, second := lose(t, client, visit()), lose(t, client, visit())
			require.Equal(t, first.SentAt, second.SentAt)
			s.keep(visited())
			for _, lost := range []*lostCreate{first, second} {
				note, err := client.Notes.FindCreated(t.Context(), lost, likeness)
				requireUndecided(t, note, err, "an equal create was lost too")
			}
		})
	})
}

// With UniqueName a name that a service may have cut forbids to say that there is no note, unless it shows longer ones.
func TestAUniqueNameThatWasCut(t *testing.T) {
	t.Parallel()
	for name, longer := range map[string]bool{"perhaps": false, "not, as another shows": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				params := visit()
				params.Name = "Encounter of Monday 10"
				lost := lose(t, client, params)
				s.keep(visited().named("Encounter of Monday 1"))
				if longer {
					s.keep(visited().named("Encounter of Monday 11"))
				}
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{WithoutAudio: true, UniqueName: true})
				if longer {
					require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
					return
				}
				requireUndecided(t, note, err, "resembles")
			})
		})
	}
}

// remade is another recording of the same length as the one that visit sends.
const remade = "noise"

// twoVisits are two notes that look the same; the second one's recording is what was sent.
func twoVisits(s *fakeService) (other, own int64) {
	other = s.keep(visited().of(remade))
	return other, s.keep(visited())
}

func TestTheRecordingProvesTheNote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit())
		_, own := twoVisits(s)
		result := clinicaldoc.FindCreatedResult{By: "name", Recordings: 9} // of a call before
		byLikeness := likeness
		byLikeness.Result = &result
		note, err := client.Notes.FindCreated(t.Context(), lost, byLikeness)
		requireUndecided(t, note, err, "several notes fit")
		assert.Zero(t, s.urls)
		assert.Zero(t, result)

		note, err = client.Notes.FindCreated(t.Context(), lost, findParams{Result: &result})
		require.NoError(t, err)
		assert.Equal(t, own, note.ID)
		assert.Equal(t, clinicaldoc.FindCreatedResult{By: "content", Recordings: 2}, result)
		assert.Equal(t, 2, s.reads)

		// Another process has only the JSON, or what somebody put together.
		for _, sum := range []string{soundSHA256, strings.ToUpper(soundSHA256)} {
			again := restored(t, lost, func(members map[string]any) { members["audio_sha256"] = sum })
			note, err = s.client().Notes.FindCreated(t.Context(), again, findParams{})
			require.NoError(t, err)
			assert.Equal(t, own, note.ID)
		}
	})
}

// Recordings are read in the name of the call, as all else.
func TestRecordingsAreReadInTheNameOfTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		var names []string
		service := s.httpClient().Transport
		client := clientOn(t, &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/audio-url") {
				names = append(names, r.Header.Get("Authorization"))
			}
			return service.RoundTrip(r)
		})})
		_, err := client.Notes.Create(t.Context(), visit(), clinicaldoc.WithToken(otherToken))
		lost, ok := errors.AsType[*lostCreate](err)
		require.True(t, ok, "%v", err)
		_, own := twoVisits(s)
		note, err := client.Notes.FindCreated(t.Context(), lost, findParams{}, clinicaldoc.WithToken(otherToken))
		require.NoError(t, err)
		assert.Equal(t, own, note.ID)
		assert.Equal(t, []string{"Bearer " + otherToken, "Bearer " + otherToken}, names)
	})
}

func TestNoRecordingIsReadWhereLikenessDecides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit())
		var result clinicaldoc.FindCreatedResult
		_, err := client.Notes.FindCreated(t.Context(), lost, findParams{Result: &result})
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		assert.Zero(t, result)
		lost = lose(t, client, visit())
		s.keep(visited())
		_, err = client.Notes.FindCreated(t.Context(), lost, findParams{Result: &result})
		require.NoError(t, err)
		assert.Equal(t, "likeness", result.By)
		_, err = client.Notes.FindCreated(t.Context(), lose(t, client, visit()), findParams{UniqueName: true, ExcludeIDs: []int64{1}})
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
		assert.Zero(t, s.urls)
	})
}

// What was found by likeness may turn out to be another's: a caller who knows can say so, also by the id alone, since it is known
// when the found one was made.
func TestANoteThatWasFoundCanBeExcludedLater(t *testing.T) {
	t.Parallel()
	for name, exclude := range map[string]func(id int64) findParams{
		"its id": func(id int64) findParams { return findParams{WithoutAudio: true, ExcludeIDs: []int64{id}} },
		"a note": func(id int64) findParams {
			return findParams{WithoutAudio: true, ExcludeNotes: []*clinicaldoc.ProgressNote{{ID: id}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				lost := lose(t, client, visit())
				s.keep(visited())
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{WithoutAudio: true})
				require.NoError(t, err)
				_, err = client.Notes.FindCreated(t.Context(), lost, exclude(note.ID))
				require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
			})
		})
	}
}

// Other bytes are another note only where the service was seen to keep recordings as they are sent.
func TestOtherBytesAreAnotherNoteOnlyWhereBytesAreKept(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		control    bool // this client has made a note before
		reencodes  bool // and the service has changed its recording
		change     func(*lostCreate)
		rival      fakeNote
		notCreated bool
	}{
		"nothing is known of the service":  {rival: visited().of(remade)},
		"another length, nothing is known": {rival: visited().of("longer than that").sized(3)},
		"it keeps bytes":                   {control: true, rival: visited().of(remade), notCreated: true},
		"it keeps bytes, another length":   {control: true, rival: visited().of("longer than that").sized(3), notCreated: true},
		"it re-encodes":                    {control: true, reencodes: true, rival: visited().of(remade)},
		"the hash may be of another recording": {control: true, rival: visited().of("sound"), change: func(e *lostCreate) {
			*e = lostCreate{Params: visit(), SentAt: e.SentAt, LostAt: e.LostAt, AudioSize: 5, Service: e.Service, UserID: fakeUser}
			e.Params.Audio = clinicaldoc.AudioBytes("a.wav", []byte("other"))
		}},
		"it keeps bytes, and somebody put the error together": {control: true, rival: visited().of(remade), notCreated: true, change: func(e *lostCreate) {
			*e = lostCreate{Params: visit(), SentAt: e.SentAt, LostAt: e.LostAt, AudioSize: 5, AudioSHA256: soundSHA256, Service: e.Service, UserID: fakeUser}
		}},
		"the bytes can be read at any place, and be any": {control: true, rival: visited().of("sound"), change: func(e *lostCreate) {
			e.Params.Audio = clinicaldoc.AudioReaderAt("a.wav", strings.NewReader("other"), 5)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				exclude := []int64{}
				if tt.control {
					note := s.returned(client)
					exclude = []int64{note.ID}
					s.change(note.ID, func(n *fakeNote) {
						if tt.reencodes {
							n.recording = "CONTROL"
						}
					})
				}
				lost := lose(t, client, visit())
				if tt.change != nil {
					tt.change(lost)
				}
				tt.rival.made = time.Now()
				s.keep(tt.rival, tt.rival) // two, so that likeness does not decide
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{ExcludeIDs: exclude})
				if tt.notCreated {
					require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
					return
				}
				requireUndecided(t, note, err, "")
			})
		})
	}
}

func TestTheRecordingAloneIsNotAlwaysProof(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		made   func(*fakeService)
		reason string
	}{
		"somebody uploads it again":           {func(s *fakeService) { s.keep(visited().by(-1), visited().by(5)) }, ""},
		"the note is renamed, another is not": {func(s *fakeService) { s.keep(visited().named("Other"), visited().by(5)) }, ""},
		"it was uploaded hours before":        {func(s *fakeService) { s.keep(visited().ago(5 * time.Hour)) }, "has the very recording"},
		"another may be it, and cannot be read": {func(s *fakeService) {
			s.keep(visited(), visited().of(remade))
			s.audio = fails(2, http.StatusServiceUnavailable) //nolint:bodyclose // it is the server's
		}, ""},
		"it is under another name":                {func(s *fakeService) { s.keep(visited().named("Other")) }, ""},
		"it is compressed, which is another form": {func(s *fakeService) { twoVisits(s); s.audio = compressed }, ""},
		"a page of a proxy": {func(s *fakeService) {
			twoVisits(s)
			s.audio = func(_ int64, r *http.Request) *http.Response {
				return madeResponse(r, http.StatusOK, "<html>welcome</html>")
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				lost := lose(t, client, visit())
				tt.made(s)
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
				requireUndecided(t, note, err, tt.reason)
				assert.NotContains(t, err.Error(), canary)
				assert.Positive(t, s.urls)
				assert.LessOrEqual(t, s.reads, 30)
			})
		})
	}
}

func fails(id int64, status int) func(int64, *http.Request) *http.Response {
	return func(asked int64, _ *http.Request) *http.Response {
		if asked != id {
			return nil
		}
		return httpmock.NewStringResponse(status, "")
	}
}

func compressed(_ int64, r *http.Request) *http.Response {
	resp := (*fakeService)(nil).stored(r, "sound")
	resp.Header.Set("Content-Encoding", "gzip")
	return resp
}

// The nearest to when it was sent is read first, each once, and a storage that fails is not flooded.
func TestRecordingsAreReadWithinBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client(clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 2, MinWait: 1, MaxWait: 1})) // looks are the retries
		lost := lose(t, client, visit())
		for i := range 6 {
			s.keep(visited().ago(-time.Duration(i) * time.Second))
		}
		time.Sleep(time.Minute)
		var asked []int64
		s.audio = func(id int64, _ *http.Request) *http.Response {
			asked = append(asked, id)
			if id == 1 {
				return nil
			}
			return httpmock.NewStringResponse(http.StatusInternalServerError, "")
		}
		begin := time.Now()
		note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
		requireUndecided(t, note, err, "several notes fit")
		assert.Equal(t, []int64{1, 2, 3, 4, 2, 3, 4}, asked[:7], "the nearest first, three failures a look, none read twice")
		assert.Len(t, asked, 11, "one read, and ten failures")
		assert.Positive(t, time.Since(begin))
	})
}

// By the service's clock, since that has given the notes their times.
func TestTheNearestRecordingIsTheNearestByTheServicesClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		s.ahead = 5 * time.Minute
		client := s.client()
		lost := lose(t, client, visit())
		for i := range 3 {
			s.keep(visited().ago(time.Duration(i) * time.Second))
		}
		var asked []int64
		s.audio = func(id int64, _ *http.Request) *http.Response {
			asked = append(asked, id)
			return httpmock.NewStringResponse(http.StatusNotFound, "")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := client.Notes.FindCreated(ctx, lost, findParams{})
		require.Error(t, err)
		assert.Equal(t, []int64{1, 2, 3}, asked)
	})
}

func TestRetryAfterOfStorageEndsTheReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit())
		_, own := twoVisits(s)
		var asked []time.Duration
		begin := time.Now()
		s.audio = func(int64, *http.Request) *http.Response {
			asked = append(asked, time.Since(begin))
			if len(asked) > 1 {
				return nil
			}
			resp := httpmock.NewStringResponse(http.StatusTooManyRequests, "")
			resp.Header.Set("Retry-After", "25")
			return resp
		}
		note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
		require.NoError(t, err)
		assert.Equal(t, own, note.ID)
		assert.Equal(t, []time.Duration{0, 25 * time.Second, 25 * time.Second}, asked)
	})
}

// Storage that lags says 404 for minutes.
func TestARecordingThatIsReadyLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit())
		_, own := twoVisits(s)
		s.audio = func(int64, *http.Request) *http.Response {
			if time.Since(lost.LostAt) < 5*time.Minute {
				return httpmock.NewStringResponse(http.StatusNotFound, "")
			}
			return nil
		}
		note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
		require.NoError(t, err)
		assert.Equal(t, own, note.ID)
	})
}

// Two lost creates of one patient, of recordings of the same length.
func TestTwinLossesAreToldApartByTheirRecordings(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ same, both bool }{"different recordings": {}, "the same recording": {same: true}, "both notes": {both: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				first := lose(t, client, visit())
				params := visit()
				if !tt.same {
					params.Audio = clinicaldoc.AudioBytes("a.wav", []byte(remade))
				}
				second := lose(t, client, params)
				own, other, reason := s.keep(visited()), int64(0), "an equal create was lost too"
				if tt.both {
					other, reason = s.keep(visited().of(remade)), "a person has to look"
				}
				note, err := client.Notes.FindCreated(t.Context(), first, findParams{})
				requireUndecided(t, note, err, reason)
				note, err = client.Notes.FindCreated(t.Context(), second, findParams{})
				if tt.same {
					requireUndecided(t, note, err, "an equal create was lost too")
					note, err = client.Notes.FindCreated(t.Context(), first, findParams{})
					requireUndecided(t, note, err, "an equal create was lost too")
					return
				}
				if tt.both {
					require.NoError(t, err)
					assert.Equal(t, other, note.ID)
				} else {
					require.ErrorIs(t, err, clinicaldoc.ErrNotCreated, "the only note is of the other recording, and recordings are kept")
				}
				note, err = client.Notes.FindCreated(t.Context(), first, findParams{})
				require.NoError(t, err)
				assert.Equal(t, own, note.ID)
			})
		})
	}
}

func TestACreateUnderWayMayHaveSentTheSameRecording(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit())
		twoVisits(s)
		s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) {
			resp := s.commit(r, sent) // its note is there, and its response under way
			time.Sleep(30 * time.Second)
			return resp, nil
		}
		var workers sync.WaitGroup
		workers.Go(func() {
			_, err := client.Notes.Create(t.Context(), visit())
			assert.NoError(t, err)
		})
		synctest.Wait()
		s.change(2, func(n *fakeNote) { n.id = 0 }) // so that the only one that has the recording is the other's
		begin := time.Now()
		_, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated, "the note that has the recording is the other's")
		assert.Greater(t, time.Since(begin), 30*time.Second)
		workers.Wait()
	})
}

// A stream cannot be read again: it is hashed while it is sent.
func TestAStreamIsKnownByItsHash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		params := visit()
		params.Audio = clinicaldoc.AudioReader("a.wav", strings.NewReader("sound"))
		lost := lose(t, client, params)
		assert.Equal(t, soundSHA256, lost.AudioSHA256)
		_, own := twoVisits(s)
		note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
		require.NoError(t, err)
		assert.Equal(t, own, note.ID)
	})
}

// A file that was made again since is not what was sent, whatever its size.
func TestAFileThatChangedIsNotWhatWasSent(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.wav")
	require.NoError(t, os.WriteFile(path, []byte("sound"), 0o600))
	s := newFakeService(t)
	client := s.client()
	params := visit()
	var err error
	params.Audio, err = clinicaldoc.AudioFile(path)
	require.NoError(t, err)
	lost := lose(t, client, params)
	assert.Equal(t, soundSHA256, restored(t, lost, nil).AudioSHA256)
	again := path + ".new"
	require.NoError(t, os.WriteFile(again, []byte("other"), 0o600))
	require.NoError(t, os.Chtimes(again, time.Time{}, modTime(t, path)))
	require.NoError(t, os.Rename(again, path))
	assert.Empty(t, restored(t, lost, nil).AudioSHA256)
}

func modTime(t *testing.T, path string) time.Time {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.ModTime()
}

// A storage without a length and without an end is left at the first byte too many.
func TestARecordingWithoutAnEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		lost := lose(t, client, visit())
		twoVisits(s)
		read := 0
		s.audio = func(_ int64, r *http.Request) *http.Response {
			resp := s.stored(r, "")
			resp.ContentLength, resp.TransferEncoding = -1, []string{"chunked"}
			resp.Body = io.NopCloser(readerFunc(func(p []byte) (int, error) {
				read += len(p)
				return copy(p, bytes.Repeat([]byte{1}, len(p))), nil
			}))
			return resp
		}
		note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
		requireUndecided(t, note, err, "")
		assert.Less(t, read, 1<<20)
	})
}

func TestAnAudioSHA256ThatIsNone(t *testing.T) {
	t.Parallel()
	s := newFakeService(t)
	lost := &lostCreate{Params: visit(), SentAt: time.Now(), AudioSHA256: "sound"}
	_, err := s.client().Notes.FindCreated(t.Context(), lost, findParams{})
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
}

// returned makes a note that this client knows, and which shows how the service keeps recordings and times.
func (s *fakeService) returned(client *clinicaldoc.Client) *clinicaldoc.ProgressNote {
	s.t.Helper()
	lost := s.post
	defer func() { s.post = lost }()
	s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) { return s.commit(r, sent), nil }
	note, err := client.Notes.Create(s.t.Context(), clinicaldoc.CreateNoteParams{Name: "Control", PatientID: 8, Audio: clinicaldoc.AudioBytes("b.wav", []byte("control"))})
	require.NoError(s.t, err)
	return note
}

// A service may give the time of its place as if it were UTC, and the clock of a machine may have been fast. What a create
// returned before, and the difference of clocks that was kept, show by how much a note can seem to be too old.
func TestANoteMaySeemOlderThanItIs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		zone     time.Duration // of the service's times
		machine  time.Duration // how far the clock was ahead that the first process lived by
		returned bool          // it has made a note before
		found    bool
	}{
		"by an unknown zone":         {zone: -5 * time.Hour},
		"by a zone that was shown":   {zone: -5 * time.Hour, returned: true, found: true},
		"by another machine's clock": {machine: time.Hour, found: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				s.zone = tt.zone
				if tt.returned {
					s.returned(client)
				}
				s.post = func(r *http.Request, _ fakeNote) (*http.Response, error) {
					return s.respond(r, http.StatusGatewayTimeout, ""), nil
				}
				lost := lose(t, client, visit())
				_, own := twoVisits(s)
				time.Sleep(2 * time.Hour)
				another := restored(t, lost, func(members map[string]any) {
					for _, key := range []string{"sent_at", "lost_at", "clock_read_at"} {
						at, err := time.Parse(time.RFC3339Nano, members[key].(string))
						require.NoError(t, err)
						members[key] = at.Add(tt.machine).Format(time.RFC3339Nano)
					}
				})
				for client, lost := range map[*clinicaldoc.Client]*lostCreate{client: lost, s.client(): another} {
					note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
					if !tt.found {
						requireUndecided(t, note, err, "has the very recording")
						continue
					}
					require.NoError(t, err)
					assert.Equal(t, own, note.ID)
				}
			})
		})
	}
}

// What a create shows that came after the loss counts as well.
func TestWhatALaterCreateShowsOfTimesCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		s.zone = -5 * time.Hour
		client := s.client()
		lost := lose(t, client, visit())
		_, own := twoVisits(s)
		s.returned(client)
		time.Sleep(2 * time.Hour)
		note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
		require.NoError(t, err)
		assert.Equal(t, own, note.ID)
	})
}

// The note that shows whether recordings are kept may be deleted: then the next one shows it. A loss carries one with it.
func TestAnotherNoteShowsThatBytesAreKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		gone := s.returned(client).ID
		lost := lose(t, client, visit())
		other := visited().of(remade)
		s.keep(other, other)
		another := restored(t, lost, nil)
		s.audio = fails(gone, http.StatusNotFound) //nolint:bodyclose // it is the server's
		note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
		requireUndecided(t, note, err, "")
		next := s.returned(client)
		_, err = client.Notes.FindCreated(t.Context(), lost, findParams{})
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)

		params := findParams{ExcludeNotes: []*clinicaldoc.ProgressNote{next}}
		note, err = s.client().Notes.FindCreated(t.Context(), another, params)
		requireUndecided(t, note, err, "") // only the deleted one is known
		failed := false
		s.audio = func(id int64, _ *http.Request) *http.Response {
			if failed || id != gone {
				return nil
			}
			failed = true // the next look can read it
			return httpmock.NewStringResponse(http.StatusServiceUnavailable, "")
		}
		_, err = s.client().Notes.FindCreated(t.Context(), another, params)
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
	})
}

// The size that a note tells may be of another form of its recording: the bytes alone are compared.
func TestARecordingIsComparedWhateverSizeItsNoteTells(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		s.returned(client) // which shows that bytes are kept
		lost := lose(t, client, visit())
		id := s.keep(visited().sized(3))
		var result clinicaldoc.FindCreatedResult
		note, err := client.Notes.FindCreated(t.Context(), lost, findParams{Result: &result})
		require.NoError(t, err)
		assert.Equal(t, id, note.ID)
		assert.Equal(t, "content", result.By)
	})
}

// What shows whether bytes are kept is read no further than it can be the same: where they are not, it may be of any length.
func TestANoteToCompareWithIsNotReadToItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		control := s.returned(client).ID
		lost := lose(t, client, visit())
		other := visited().of(remade)
		s.keep(other, other)
		longer, asked := &endlessBody{}, 0
		s.audio = func(id int64, r *http.Request) *http.Response {
			if id != control {
				return nil
			}
			resp := s.stored(r, "")
			resp.Body, resp.ContentLength = io.NopCloser(io.LimitReader(longer, 8<<20)), 8<<20
			asked++
			return resp
		}
		note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
		requireUndecided(t, note, err, "")
		assert.Equal(t, 1, asked, "its length is enough to know")
		assert.Less(t, longer.read, int64(1<<20))
	})
}

// The clock of the first process was an hour slow, so that an older note seems to have been made since.
func TestASlowClockMakesNoNoteYounger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		s.keep(visited())
		time.Sleep(55 * time.Minute) // so that it seems to be five minutes younger
		for range 2 {                // of the first one no response came: nobody has compared the clocks
			lost := restored(t, lose(t, s.client(), visit()), func(members map[string]any) {
				for _, key := range []string{"sent_at", "lost_at", "clock_read_at"} {
					if text, kept := members[key].(string); kept {
						at, err := time.Parse(time.RFC3339Nano, text)
						require.NoError(t, err)
						members[key] = at.Add(-time.Hour).Format(time.RFC3339Nano)
					}
				}
			})
			for range 2 { // asked again, it is as little known
				note, err := s.client().Notes.FindCreated(t.Context(), lost, likeness)
				lost = restored(t, requireUndecided(t, note, err, ""), nil)
			}
			s.post = func(r *http.Request, _ fakeNote) (*http.Response, error) {
				return s.respond(r, http.StatusGatewayTimeout, ""), nil
			}
		}
	})
}

// A note that has the id of an earlier one counts among those with the recording, and can be found by it.
func TestANoteWithAnEarlierIDIsKnownByItsRecording(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"alone": false, "uploaded again by others": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				earlier := s.returned(client)
				time.Sleep(time.Minute)
				lost := lose(t, client, visit())
				s.change(earlier.ID, func(n *fakeNote) {
					*n = visited()
					n.id = earlier.ID
				})
				if again {
					s.keep(visited())
				}
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
				if again {
					requireUndecided(t, note, err, "")
					return
				}
				require.NoError(t, err)
				assert.Equal(t, earlier.ID, note.ID)
			})
		})
	}
}

// Somebody deleted the note that Create had just returned, and the service gave its id to the next one, which seems to be a second
// younger: nothing but the recording can tell that from a time that was rounded.
func TestANoteMayTakeTheIDOfOneThatWasJustReturned(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		made           fakeNote
		after, younger time.Duration // the loss was sent after the note was returned; what is listed is younger than that
		notCreated     bool
	}{
		"it is the next one":                   {visited(), time.Millisecond, time.Second, false},
		"it is what was returned":              {visited(), time.Millisecond, 0, true},
		"it is that, and its time was rounded": {visited().of("control"), time.Millisecond, time.Second, true},
		"it is of another size":                {visited().sized(9), time.Millisecond, time.Second, false},
		"too much time has passed":             {visited(), 2 * time.Second, time.Second, true},
		"it was returned since":                {visited(), 0, time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				returned := s.returned(client)
				time.Sleep(tt.after)
				lost := lose(t, client, visit())
				s.change(returned.ID, func(n *fakeNote) {
					tt.made.id, tt.made.made = n.id, n.made.Add(tt.younger)
					*n = tt.made
				})
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
				if tt.notCreated {
					require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
					return
				}
				requireUndecided(t, note, err, "")
			})
		})
	}
}

// What has the id of a note that this client deleted, or tried to, may be that note or another: only a person can tell.
func TestANoteThatWasToBeDeletedMayBeAnother(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound, http.StatusBadGateway, http.StatusNoContent} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				lost := lose(t, client, visit())
				s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) { return s.commit(r, sent), nil }
				other, err := client.Notes.Create(t.Context(), visit())
				require.NoError(t, err)
				s.deleting = status
				_, err = client.Notes.Delete(t.Context(), other.ID)
				require.Equal(t, status == http.StatusNoContent, err == nil)
				note, err := client.Notes.FindCreated(t.Context(), lost, findParams{})
				requireUndecided(t, note, err, "")
				_, err = client.Notes.FindCreated(t.Context(), lost, findParams{ExcludeIDs: []int64{other.ID}})
				require.ErrorIs(t, err, clinicaldoc.ErrNotCreated, "somebody has looked")
			})
		})
	}
}

// Each tenant may have ids of its own: what one of them was given says little of a note of the same id and time with another.
func TestANoteOfAnotherTenantExplainsNothing(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]string{"the same tenant": "one", "another tenant": "two"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeService(t)
				client := s.client()
				note, err := client.Notes.Create(t.Context(), visit(), clinicaldoc.WithHeader("X-Team", "one"))
				lost, ok := errors.AsType[*lostCreate](err)
				require.True(t, ok, "%v, %v", note, err)
				s.post = func(r *http.Request, sent fakeNote) (*http.Response, error) { return s.commit(r, sent), nil }
				_, err = client.Notes.Create(t.Context(), visit(), clinicaldoc.WithHeader("X-Team", other))
				require.NoError(t, err)
				note, err = client.Notes.FindCreated(t.Context(), lost, findParams{}, clinicaldoc.WithHeader("X-Team", "one"))
				if other == "one" {
					require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
					return
				}
				requireUndecided(t, note, err, "")
			})
		})
	}
}

// A note that was found with a tenant is that tenant's, and explains itself to whoever asks there again.
func TestAFoundNoteIsItsTenants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeService(t)
		client := s.client()
		team := clinicaldoc.WithHeader("X-Team", "one")
		_, err := client.Notes.Create(t.Context(), visit(), team)
		first, ok := errors.AsType[*lostCreate](err)
		require.True(t, ok, "%v", err)
		other, own := twoVisits(s)
		note, err := client.Notes.FindCreated(t.Context(), first, findParams{}, team)
		require.NoError(t, err)
		require.Equal(t, own, note.ID, "by its recording")
		s.change(other, func(n *fakeNote) { n.id = 0 })
		_, err = client.Notes.Create(t.Context(), visit(), team)
		second, ok := errors.AsType[*lostCreate](err)
		require.True(t, ok, "%v", err)
		_, err = client.Notes.FindCreated(t.Context(), second, likeness, team)
		require.ErrorIs(t, err, clinicaldoc.ErrNotCreated)
	})
}
