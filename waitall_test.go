package clinicaldoc_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// ward is a service with many notes, listed newest (highest id) first.
type ward struct {
	notes  []int64                                                  // ids
	stage  func(id int64, at time.Duration) clinicaldoc.Stage       // how far a note is
	list   func(n int, r *http.Request) *reply                      // answers the n-th list call instead; nil: as usual
	get    func(id int64, at time.Duration, r *http.Request) *reply // answers reads instead; nil: as usual
	row    func(id int64, stage clinicaldoc.Stage) string           // how a row looks; nil: as the note
	cursor bool

	lists, gets int
	reads       map[int64]int
	perTick     map[time.Duration]int
}

func (w *ward) answer(_ int, at time.Duration, r *http.Request) *reply {
	w.perTick[at]++
	if id, ok := strings.CutPrefix(r.URL.Path, "/v1/progress-notes/"); ok {
		w.gets++
		n, _ := strconv.ParseInt(id, 10, 64)
		w.reads[n]++
		if w.get != nil {
			if resp := w.get(n, at, r); resp != nil {
				return resp
			}
		}
		if !slices.Contains(w.notes, n) {
			return made(r, 404, `{"message":"Resource not found"}`)
		}
		return made(r, 200, noteAt(n, w.stage(n, at), int(w.stage(n, at))))
	}
	w.lists++
	if w.list != nil {
		if resp := w.list(w.lists, r); resp != nil {
			return resp
		}
	}
	query := r.URL.Query()
	perPage, _ := strconv.Atoi(query.Get("per_page"))
	page, _ := strconv.Atoi(query.Get("page") + query.Get("cursor"))
	page = max(page, 1)
	ids := slices.Clone(w.notes)
	slices.Sort(ids)
	slices.Reverse(ids)
	from, to := min((page-1)*perPage, len(ids)), min(page*perPage, len(ids))
	rows := []string{}
	for _, id := range ids[from:to] {
		row := w.row
		if row == nil {
			row = func(id int64, stage clinicaldoc.Stage) string { return noteAt(id, stage, int(stage)) }
		}
		rows = append(rows, row(id, w.stage(id, at)))
	}
	meta := fmt.Sprintf(`{"current_page":%d,"last_page":%d,"per_page":%d}`, page, (len(ids)+perPage-1)/perPage, perPage)
	if w.cursor {
		meta = `{"next_cursor":null}`
		if to < len(ids) {
			meta = fmt.Sprintf(`{"next_cursor":"%d"}`, page+1)
		}
	}
	return made(r, 200, `{"data":[`+strings.Join(rows, ",")+`],"meta":`+meta+`}`)
}

// newWard opens a ward with the notes 1 to n. Each is transcribing and completes after so many seconds as its id says.
func newWard(t *testing.T, n int) (*ward, *polled, *clinicaldoc.Client) {
	t.Helper()
	w := &ward{reads: map[int64]int{}, perTick: map[time.Duration]int{}}
	for id := range n {
		w.notes = append(w.notes, int64(id+1))
	}
	w.stage = func(id int64, at time.Duration) clinicaldoc.Stage {
		if at >= time.Duration(id)*time.Second {
			return clinicaldoc.StageComplete
		}
		return clinicaldoc.StageTranscribing
	}
	service, client := newPolled(t, w.answer)
	return w, service, client
}

// outcome is how WaitAll's notes ended: nil for success.
func outcome(ctx context.Context, t *testing.T, client *clinicaldoc.Client, ids []int64, params clinicaldoc.WaitParams) map[int64]error {
	t.Helper()
	ends := map[int64]error{}
	for note, err := range client.Notes.WaitAll(ctx, ids, params) {
		var id int64
		if err == nil {
			id = note.ID
			assert.Equal(t, clinicaldoc.StageComplete, note.Stage())
			assert.Equal(t, "Synthetic analysis.", note.Analysis, "the whole note is yielded")
		} else {
			var waited *clinicaldoc.WaitError
			require.ErrorAs(t, err, &waited)
			id = waited.ID
			assert.Equal(t, waited.Note, note, "the last note comes with the error")
		}
		assert.NotContains(t, ends, id, "every note ends once")
		ends[id] = err
	}
	return ends
}

// ticks is the number of different times at which requests came.
func (w *ward) ticks() int { return len(w.perTick) }

func (w *ward) busiestTick() int { return slices.Max(slices.Collect(maps.Values(w.perTick))) }

func TestWaitAllListsOncePerTick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, client := newWard(t, 60)
		ids := slices.Clone(w.notes)
		ids = append(ids, 1, 2, 3) // a note given twice counts once
		ends := outcome(t.Context(), t, client, ids, clinicaldoc.WaitParams{})
		assert.Len(t, ends, 60)
		for id, err := range ends {
			require.NoError(t, err, id)
		}
		assert.LessOrEqual(t, w.lists, w.ticks())
		assert.LessOrEqual(t, w.gets, 3, "only the last note, where a list is no cheaper")
		assert.Len(t, ids, 63, "the caller's ids are not changed")
	})
}

func TestWaitAllYieldsEachNoteAsItEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, _, client := newWard(t, 30)
		started := time.Now()
		last := int64(0)
		for note, err := range client.Notes.WaitAll(t.Context(), []int64{30, 3, 17, 9, 24}, clinicaldoc.WaitParams{}) {
			require.NoError(t, err)
			assert.Greater(t, note.ID, last, "in the order in which they end")
			assert.Less(t, time.Since(started), time.Duration(note.ID+7)*time.Second, "soon after")
			last = note.ID
		}
		assert.Equal(t, int64(30), last)
	})
}

func TestWaitAllCoversSeveralPages(t *testing.T) {
	t.Parallel()
	for _, cursor := range []bool{false, true} {
		t.Run(fmt.Sprint("cursor ", cursor), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, _, client := newWard(t, 450)
				w.cursor = cursor
				w.stage = func(id int64, at time.Duration) clinicaldoc.Stage {
					if at > 10*time.Minute {
						return clinicaldoc.StageComplete
					}
					return clinicaldoc.StageTranscribing
				}
				// The newest 250 fill two pages and a half.
				ends := outcome(t.Context(), t, client, w.notes[200:], clinicaldoc.WaitParams{})
				assert.Len(t, ends, 250)
				assert.Equal(t, 3*w.ticks(), w.lists)
				assert.Zero(t, w.gets)
			})
		})
	}
}

func TestWaitAllFindsOldNotes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, client := newWard(t, 450)
		w.stage = func(_ int64, at time.Duration) clinicaldoc.Stage {
			if at > 10*time.Minute {
				return clinicaldoc.StageComplete
			}
			return clinicaldoc.StageTranscribing
		}
		// All fifty stand on the fourth page.
		ends := outcome(t.Context(), t, client, w.notes[60:110], clinicaldoc.WaitParams{})
		assert.Len(t, ends, 50)
		assert.Equal(t, 4*w.ticks(), w.lists)
		assert.Zero(t, w.gets)
	})
}

func TestWaitAllReadsSinglyWhereThatIsCheaper(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, client := newWard(t, 450)
		w.stage = func(_ int64, at time.Duration) clinicaldoc.Stage {
			if at > 10*time.Minute {
				return clinicaldoc.StageComplete
			}
			return clinicaldoc.StageTranscribing
		}
		// Two notes on different pages, both beyond the first.
		ends := outcome(t.Context(), t, client, []int64{10, 200}, clinicaldoc.WaitParams{})
		assert.Len(t, ends, 2)
		assert.LessOrEqual(t, w.lists, 2, "one look, no more than reading would have cost")
		assert.LessOrEqual(t, w.gets, 2*w.ticks())
		w.lists, w.gets = 0, 0
		outcome(t.Context(), t, client, []int64{450}, clinicaldoc.WaitParams{})
		assert.Zero(t, w.lists, "a single note is read")
	})
}

func TestWaitAllBoundsSingleReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, client := newWard(t, 100)
		w.list = func(_ int, r *http.Request) *reply { return made(r, 403, `{}`) }
		w.stage = func(_ int64, at time.Duration) clinicaldoc.Stage {
			if at > time.Hour {
				return clinicaldoc.StageComplete
			}
			return clinicaldoc.StageTranscribing
		}
		ends := outcome(t.Context(), t, client, w.notes, clinicaldoc.WaitParams{})
		assert.Len(t, ends, 100)
		for id, err := range ends {
			require.NoError(t, err, id)
		}
		assert.Equal(t, 3, w.lists, "a list that fails three times is not asked again")
		assert.LessOrEqual(t, w.busiestTick(), 21)
		fewest, most := slices.Min(slices.Collect(maps.Values(w.reads))), slices.Max(slices.Collect(maps.Values(w.reads)))
		assert.LessOrEqual(t, most-fewest, 1, "all take their turn")
	})
}

func TestWaitAllGoesOnWithTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, client := newWard(t, 40)
		w.notes = slices.DeleteFunc(w.notes, func(id int64) bool { return id == 5 }) // it vanished
		w.get = func(id int64, _ time.Duration, r *http.Request) *reply {
			if id == 41 {
				return made(r, 403, `{}`) // it is somebody else's
			}
			return nil
		}
		usual := w.stage
		w.stage = func(id int64, at time.Duration) clinicaldoc.Stage {
			if id == 8 && at > 8*time.Second {
				return clinicaldoc.StageFailed
			}
			return usual(id, at)
		}
		ends := outcome(t.Context(), t, client, []int64{3, 5, 8, 30, 40, 41}, clinicaldoc.WaitParams{})
		assert.Len(t, ends, 6)
		for _, id := range []int64{3, 30, 40} {
			require.NoError(t, ends[id], id)
		}
		require.ErrorIs(t, ends[5], clinicaldoc.ErrNotFound)
		require.ErrorIs(t, ends[41], clinicaldoc.ErrForbidden)
		require.ErrorIs(t, ends[8], clinicaldoc.ErrProcessingFailed)
	})
}

func TestWaitAllWorksWithoutTheList(t *testing.T) {
	t.Parallel()
	for name, list := range map[string]func(int, *http.Request) *reply{
		"not there":  func(_ int, r *http.Request) *reply { return made(r, 404, `{}`) },
		"HTML":       func(_ int, r *http.Request) *reply { return made(r, 200, `<html>`) },
		"no rows":    func(_ int, r *http.Request) *reply { return made(r, 200, `{"message":"ok"}`) },
		"broken row": func(_ int, r *http.Request) *reply { return made(r, 200, `{"data":[{"name":"x"}]}`) },
		"other page": func(_ int, r *http.Request) *reply {
			return made(r, 200, `{"data":[],"meta":{"current_page":9}}`)
		},
		"500":   func(_ int, r *http.Request) *reply { return made(r, 500, `{}`) },
		"empty": func(_ int, r *http.Request) *reply { return made(r, 200, `{"data":[]}`) },
		"others' row": func(_ int, r *http.Request) *reply {
			return made(r, 200, `{"data":[{"id":99}],"links":{"next":"x"}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, _, client := newWard(t, 9)
				w.list = list
				ends := outcome(t.Context(), t, client, w.notes, clinicaldoc.WaitParams{})
				assert.Len(t, ends, 9)
				for id, err := range ends {
					require.NoError(t, err, id)
				}
				assert.LessOrEqual(t, w.lists, 10)
			})
		})
	}
}

func TestWaitAllSurvivesAListThatFailsForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, client := newWard(t, 30)
		w.list = func(n int, r *http.Request) *reply {
			if n%3 != 0 {
				return made(r, 502, `<html>`)
			}
			return nil
		}
		ends := outcome(t.Context(), t, client, w.notes[10:], clinicaldoc.WaitParams{})
		assert.Len(t, ends, 20)
		for id, err := range ends {
			require.NoError(t, err, id)
		}
		assert.LessOrEqual(t, w.gets, 4, "no stampede of single reads while the service is in trouble")
	})
}

func TestWaitAllDoesNotTrustShortenedLists(t *testing.T) {
	t.Parallel()
	t.Run("rows without flags", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w, _, client := newWard(t, 10)
			w.row = func(id int64, stage clinicaldoc.Stage) string {
				return fmt.Sprintf(`{"id":%d,"name":"Synthetic","team_id":1,"user_id":1,"updated_at":%q}`, id, fmt.Sprintf("2026-01-02T03:04:%02dZ", 5+int(stage)))
			}
			ends := outcome(t.Context(), t, client, w.notes, clinicaldoc.WaitParams{})
			assert.Len(t, ends, 10)
			assert.LessOrEqual(t, w.lists, 2)
		})
	})
	t.Run("rows without texts", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w, _, client := newWard(t, 10)
			w.row = func(id int64, stage clinicaldoc.Stage) string {
				return strings.NewReplacer(`"Synthetic words."`, `""`, `"Synthetic analysis."`, `""`).Replace(noteAt(id, stage, int(stage)))
			}
			ends := outcome(t.Context(), t, client, w.notes, clinicaldoc.WaitParams{})
			assert.Len(t, ends, 10)
			assert.LessOrEqual(t, w.gets, 10+3, "each is read once, at its end")
		})
	})
	t.Run("rows that really are untouched cost one read per tick", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w, _, client := newWard(t, 50)
			w.stage = func(_ int64, at time.Duration) clinicaldoc.Stage {
				if at > 5*time.Minute {
					return clinicaldoc.StageComplete
				}
				return clinicaldoc.StageUploaded
			}
			ends := outcome(t.Context(), t, client, w.notes, clinicaldoc.WaitParams{})
			assert.Len(t, ends, 50)
			assert.Equal(t, w.ticks(), w.lists)
			assert.LessOrEqual(t, w.gets, w.ticks())
		})
	})
}

func TestWaitAllRefusesBadIDsBeforeAnyRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, service, client := newWard(t, 5)
		for _, ids := range [][]int64{{0}, {1, -1}, {1, 2, 0}} {
			yields := 0
			for note, err := range client.Notes.WaitAll(t.Context(), ids, clinicaldoc.WaitParams{}) {
				yields++
				assert.Nil(t, note)
				require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
			}
			assert.Equal(t, 1, yields)
		}
		assert.Empty(t, outcome(t.Context(), t, client, nil, clinicaldoc.WaitParams{}))
		assert.Empty(t, service.polls)
		assert.Zero(t, w.lists)
	})
}

func TestWaitAllEndsAllThatAreLeft(t *testing.T) {
	t.Parallel()
	t.Run("deadline", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w, _, client := newWard(t, 40)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			started := time.Now()
			ends := outcome(ctx, t, client, w.notes, clinicaldoc.WaitParams{})
			assert.Len(t, ends, 40)
			assert.Equal(t, 20*time.Second, time.Since(started))
			require.NoError(t, ends[10])
			for id := int64(21); id <= 40; id++ {
				require.ErrorIs(t, ends[id], context.DeadlineExceeded)
			}
		})
	})
	t.Run("revoked token", func(t *testing.T) {
		for _, n := range []int{1, 40} {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w, service, client := newWard(t, n)
					usual := service.answer
					service.answer = func(n int, at time.Duration, r *http.Request) *reply {
						if n > 1 {
							return made(r, 401, `{}`)
						}
						return usual(n, at, r)
					}
					ends := outcome(t.Context(), t, client, w.notes, clinicaldoc.WaitParams{})
					assert.Len(t, ends, n)
					for id, err := range ends {
						if id > 2 {
							require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized)
						}
					}
					assert.LessOrEqual(t, len(service.polls), 2)
				})
			})
		}
	})
	t.Run("too many failures", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			_, service, client := newWard(t, 5)
			service.answer = always(500, `{}`)
			ends := outcome(t.Context(), t, client, []int64{1, 2, 3, 4, 5}, clinicaldoc.WaitParams{MaxFailures: 4})
			assert.Len(t, ends, 5)
			for _, err := range ends {
				require.ErrorIs(t, err, clinicaldoc.ErrServer)
			}
			assert.LessOrEqual(t, len(service.polls), 3+2*5)
		})
	})
}

func TestWaitAllPausesWhenTheServiceAsksForIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, service, client := newWard(t, 10)
		w.stage = func(_ int64, at time.Duration) clinicaldoc.Stage {
			if at > time.Minute {
				return clinicaldoc.StageComplete
			}
			return clinicaldoc.StageTranscribing
		}
		w.get = func(id int64, at time.Duration, r *http.Request) *reply { // 77 is not in the list
			return made(r, 200, noteAt(id, w.stage(id, at), 1))
		}
		var refused []time.Duration
		w.list = func(n int, r *http.Request) *reply {
			if n != 2 && n != 3 {
				return nil
			}
			refused = append(refused, time.Since(service.started))
			return made(r, 429, `{}`, "Retry-After", "600")
		}
		ends := outcome(t.Context(), t, client, append(slices.Clone(w.notes), 77), clinicaldoc.WaitParams{})
		assert.Len(t, ends, 11)
		require.Len(t, refused, 2)
		assert.Equal(t, 600*time.Second, refused[1]-refused[0])
		for _, at := range refused {
			assert.Equal(t, 1, w.perTick[at], "no other request follows a refusal")
		}
		assert.Equal(t, 4, w.ticks())
	})
}

func TestWaitAllStopsWithTheLoop(t *testing.T) {
	t.Parallel()
	t.Run("break", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			_, service, client := newWard(t, 30)
			all := client.Notes.WaitAll(t.Context(), []int64{1, 2, 3, 30}, clinicaldoc.WaitParams{})
			assert.Empty(t, service.polls)
			for range all {
				break
			}
			polls := len(service.polls)
			time.Sleep(time.Hour)
			assert.Len(t, service.polls, polls)
			count := 0
			for range all { // it can be ranged over again
				count++
			}
			assert.Equal(t, 4, count)
		})
	})
	t.Run("panic", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			_, service, client := newWard(t, 30)
			assert.Panics(t, func() {
				for range client.Notes.WaitAll(t.Context(), []int64{1, 2, 3, 30}, clinicaldoc.WaitParams{}) {
					panic("synthetic")
				}
			})
			polls := len(service.polls)
			time.Sleep(time.Hour)
			assert.Len(t, service.polls, polls)
		})
	})
}

func TestWaitingForManyNotesIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, service, client := newWard(t, 120)
		w.stage = func(int64, time.Duration) clinicaldoc.Stage { return clinicaldoc.StageTranscribing }
		ids := append(slices.Clone(w.notes[:5]), w.notes[110:]...)
		for id := int64(1000); id < 1030; id++ {
			ids = append(ids, id) // not in the list
		}
		w.get = func(id int64, _ time.Duration, r *http.Request) *reply {
			return made(r, 200, noteAt(id, clinicaldoc.StageUploaded, 1))
		}
		updates := 0
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		ends := outcome(ctx, t, client, ids, clinicaldoc.WaitParams{OnUpdate: func(*clinicaldoc.ProgressNote) { updates++ }})
		assert.Len(t, ends, 45)
		for id, err := range ends {
			require.ErrorIs(t, err, context.DeadlineExceeded, id)
		}
		assert.LessOrEqual(t, w.ticks(), 200, "the schedule is that of Wait")
		assert.Equal(t, 2*w.ticks(), w.lists)
		assert.LessOrEqual(t, w.busiestTick(), 22)
		assert.Equal(t, 45, updates)
		t.Logf("%d requests in %d ticks", len(service.polls), w.ticks())
	})
}
