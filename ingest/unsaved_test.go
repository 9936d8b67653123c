package ingest_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// lapsing is a journal whose claims can be taken over at once, as if their leases had run out. A note is written down
// only after a word, and by the one who took over.
type lapsing struct {
	mu      sync.Mutex
	entries map[ingest.Key]ingest.Entry
	owner   *lapsingClaim
	word    <-chan struct{}
	refusal error // for who does not own it
}

type lapsingClaim struct {
	journal *lapsing
	entry   ingest.Entry
}

func (*lapsing) Bind(context.Context, ingest.Owner) (ingest.Binding, error) {
	return ingest.Binding{Origin: "https://api.example.test"}, nil
}

func (*lapsing) EntriesForPatient(context.Context, uint32, time.Time) ([]ingest.Entry, error) {
	return nil, nil
}

func (j *lapsing) Claim(_ context.Context, key ingest.Key) (ingest.Claim, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, known := j.entries[key]
	if !known {
		e = ingest.Entry{Key: key, State: ingest.StateClaimed}
	}
	j.owner = &lapsingClaim{j, e}
	return j.owner, nil
}

func (c *lapsingClaim) Entry() ingest.Entry { return c.entry }

func (c *lapsingClaim) Save(_ context.Context, e ingest.Entry) error {
	if e.State == ingest.StateCreated {
		<-c.journal.word
	}
	c.journal.mu.Lock()
	defer c.journal.mu.Unlock()
	if c.journal.owner != c {
		return c.journal.refusal
	}
	c.journal.entries[c.entry.Key] = e
	return nil
}

func (*lapsingClaim) Release() {}

// The first run of a process has a note, but has not saved it in the journal yet. The client already knows the note, so
// FindCreated reports to a second run that its recording has none. The second run must know the first run's note,
// whether it searches at its beginning or only after that verdict.
func TestRun_NoteNotSaved_IsKnownToOtherRuns(t *testing.T) {
	t.Parallel()
	failed := errors.New("synthetic")
	for name, c := range map[string]struct {
		late    bool
		refusal error
	}{
		"before the search":             {false, failed},
		"after the search":              {true, failed},
		"before the search, taken over": {false, ingest.ErrTaken},
		"after the search, taken over":  {true, ingest.ErrTaken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, _ string) {
				word := make(chan struct{})
				journal := &lapsing{entries: map[ingest.Key]ingest.Entry{}, word: word, refusal: c.refusal}
				first := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal}
				second := &ingest.Uploader{Client: first.Client, Journal: journal}
				var runs sync.WaitGroup
				runs.Go(func() {
					_, err := collect(t.Context(), first, recordings(0, 1))
					assert.Equal(t, errors.Is(c.refusal, failed), err != nil, "its line was refused: %v", err)
				})
				synctest.Wait() // it has its note, and waits for the word
				require.Len(t, srv.Notes(), 1)
				if c.late {
					second.OnEvent = func(e ingest.Event) {
						if e.State == ingest.StateInDoubt { // after its first look
							close(word)
						}
					}
				} else {
					_, err := journal.Claim(t.Context(), ingest.Key{}) // the first has lost its claim
					require.NoError(t, err)
					close(word)
					runs.Wait()
				}
				result := uploadOne(t, second, recording(0))
				runs.Wait()
				assert.Equal(t, ingest.AlreadyThere, result.Status, result)
				assert.Len(t, srv.Notes(), 1)
				saved := journal.entries[result.JournalKey]
				assert.Equal(t, ingest.StateCreated, saved.State)
				assert.Equal(t, result.NoteID, saved.NoteID)
				assert.False(t, saved.Found, "a response named it")
			})
		})
	}
}

// A later run saves the note that the first one could not save. The note is deleted, and a person has the recording
// sent again. The first process must not take the first note for the second upload's.
func TestRun_NoteSavedLater_IsNotThatOfAnotherUpload(t *testing.T) {
	t.Parallel()
	for name, byAnother := range map[string]bool{"by the same process": false, "by another process": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
				journal := u.Journal
				u.Journal = failing(journal, func(_ context.Context, e ingest.Entry) error {
					if e.State == ingest.StateCreated {
						return errors.New("synthetic")
					}
					return nil
				})
				results, err := collect(t.Context(), u, recordings(0, 1))
				require.Error(t, err)
				require.Equal(t, counts{ingest.Created: 1}, statuses(results))
				u.Journal = journal
				saver := u
				if byAnother {
					saver = &ingest.Uploader{Client: srv.Client(quick()), Journal: journal}
				}
				first := uploadOne(t, saver, recording(0))
				require.Positive(t, first.NoteID, first)

				_, err = u.Client.Notes.Delete(t.Context(), first.NoteID)
				require.NoError(t, err)
				require.NoError(t, u.Resolve(t.Context(), first.JournalKey, sendAgain()))
				srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
				second := uploadOne(t, u, recording(0))
				assert.Equal(t, ingest.Created, second.Status, second)
				require.Len(t, srv.Notes(), 1)
				assert.Equal(t, srv.Notes()[0].ID, second.NoteID)
				assert.NotEqual(t, first.NoteID, second.NoteID)
			})
		})
	}
}

// A process remembers the lost create that it could not save, with its ID and the time at which it can be decided. Each
// later run continues with it. The last run can save again: it finds the note, and uploads nothing a second time.
func TestRun_LostCreateNotSaved_IsTheSameInTheNextRun(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		var unresolved []ingest.Entry // that the run now under way wanted to save
		canSaveUnresolved := false
		u.Journal = failing(u.Journal, func(_ context.Context, e ingest.Entry) error {
			switch e.State {
			case ingest.StateCommitting:
				// Virtual time stands still while the recording is sent. Without this second, both entries of the first run
				// would have the same At, and the test would not notice a run that remembers the wrong one.
				time.Sleep(time.Second)
			case ingest.StateInDoubt:
				unresolved = append(unresolved, e)
				if !canSaveUnresolved {
					return errors.New("synthetic")
				}
			default: // is saved
			}
			return nil
		})
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		var ids []any
		var untils []time.Time
		addUnresolved := func() {
			require.NotEmpty(t, unresolved)
			for _, e := range unresolved {
				ids = append(ids, lossOf(t, e)["id"])
				untils = append(untils, e.Until)
			}
			unresolved = nil
		}
		for range 2 {
			results, err := collect(t.Context(), u, recordings(0, 1))
			require.Error(t, err)
			require.Equal(t, counts{ingest.InDoubt: 1}, statuses(results))
			addUnresolved()
			untils = append(untils, results[0].Until)
			time.Sleep(time.Minute)
		}

		// The third run.
		canSaveUnresolved = true
		result := uploadOne(t, u, recording(0))
		assert.Equal(t, ingest.Created, result.Status, result)
		assert.Len(t, srv.Notes(), 1)
		addUnresolved()
		for _, id := range ids {
			assert.Equal(t, ids[0], id)
		}
		for _, until := range untils {
			assert.True(t, untils[0].Equal(until), untils)
		}
	})
}

// A later upload of a recording whose lost create could not be saved is another create, with a time of its own.
func TestRun_LostCreateNotSavedAndSentAgain_IsAnother(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		u.AllNew = true
		journal := u.Journal
		u.Journal = failing(journal, func(_ context.Context, e ingest.Entry) error {
			if e.State == ingest.StateInDoubt {
				return errors.New("synthetic")
			}
			return nil
		})
		results, err := collect(t.Context(), u, recordings(1, 2))
		require.Error(t, err)
		u.Journal = dying{journal}
		require.Error(t, u.Resolve(t.Context(), results[0].JournalKey, ingest.Resolution{By: person, Force: true}),
			"it is saved anyway")
		time.Sleep(time.Hour)
		u.Journal = journal
		killed(t, u, recording(1))
		until := time.Now().Add(10 * time.Minute)
		results, err = collect(within(t, time.Second), u, recordings(1, 2))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Len(t, results, 1)
		assert.True(t, until.Equal(results[0].Until), results[0].Until)
	})
}

// If the end of a run takes too long, its recording is released anyway. Otherwise its lease would be renewed as
// long as the process lives, and no other worker would ever get the recording.
func TestRun_TaskAfterTheEnd_ReleasesItsClaim(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, _ string) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		ctx, cancel := context.WithCancel(t.Context())
		unresolved := false
		var released atomic.Int32
		journal := hooked{Journal: &lapsing{entries: map[ingest.Key]ingest.Entry{}}}
		journal.save = func(_ context.Context, e *ingest.Entry) error {
			if unresolved { // what is learned since is saved for longer than the end of a run may take
				cancel()
				time.Sleep(time.Minute)
			}
			unresolved = e.State == ingest.StateInDoubt
			return nil
		}
		journal.release = func(ingest.Key) { released.Add(1) }
		u := &ingest.Uploader{Client: srv.Client(quick()), Journal: journal}
		u.Find.Settle = time.Second
		u.OnEvent = func(e ingest.Event) {
			for range 2 { // both may be it, so nobody can decide
				if e.State == ingest.StateInDoubt {
					addNote(srv, recording(0), nil)
				}
			}
		}
		begun := time.Now()
		_, _ = collect(ctx, u, recordings(0, 1))
		assert.Less(t, time.Since(begun), 50*time.Second)
		time.Sleep(2 * time.Minute)
		require.Error(t, ctx.Err(), "it hung")
		assert.EqualValues(t, 1, released.Load())
	})
}
