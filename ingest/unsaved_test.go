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

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
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

// Another run of the same process works between a response and its line in the journal. The client already knows
// the note, so FindCreated reports to the second run that its recording has none. Whether it looks when it begins,
// or only after that verdict, it must know of the first run's note.
func TestRun_NoteNotSaved_IsKnownToOtherRuns(t *testing.T) {
	t.Parallel()
	failed := errors.New("synthetic")
	for _, test := range []struct {
		late    bool
		refusal error
	}{{false, failed}, {true, failed}, {false, ingest.ErrTaken}, {true, ingest.ErrTaken}} {
		late := test.late
		synctest.Test(t, func(t *testing.T) {
			srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess())
			defer srv.Close()
			word := make(chan struct{})
			journal, client := &lapsing{entries: map[ingest.Key]ingest.Entry{}, word: word, refusal: test.refusal}, srv.Client(quick())
			var runs sync.WaitGroup
			runs.Go(func() {
				_, err := collect(t.Context(), &ingest.Uploader{Client: client, Journal: journal}, recordings(0, 1))
				assert.Equal(t, errors.Is(test.refusal, failed), err != nil, "its line was refused: %v", err)
			})
			synctest.Wait() // it has its note, and waits for the word
			require.Len(t, srv.Notes(), 1)
			second := &ingest.Uploader{Client: client, Journal: journal}
			if late {
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
	}
}

// A lost create that could not be saved is the same one to the next run of the process. Its note is found, and is not
// taken for that of a second one. A later upload is another create.
func TestRun_LostCreateNotSaved_IsTheSameInTheNextRun(t *testing.T) {
	t.Parallel()
	withJournal(t, func(t *testing.T, srv *clinicaldoctest.Server, file *ingest.FileJournal) {
		client := srv.Client(quick())
		var committed, doubt ingest.Entry
		fails := true
		journal := failing(file, func(_ context.Context, e ingest.Entry) error {
			switch e.State {
			case ingest.StateCommitting:
				committed = e
				time.Sleep(time.Second)
			case ingest.StateInDoubt:
				if fails {
					doubt = e
					return errors.New("synthetic")
				}
				assert.Equal(t, lossOf(t, doubt)["id"], lossOf(t, e)["id"])
				assert.True(t, doubt.Until.Equal(e.Until))
			default:
			}
			return nil
		})
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		u := &ingest.Uploader{Client: client, Journal: journal, AllNew: true}
		for range 2 { // the second time it is the doubt of the first
			results, err := collect(t.Context(), u, recordings(0, 1))
			require.Error(t, err)
			require.Len(t, results, 1)
			assert.Equal(t, ingest.InDoubt, results[0].Status)
			assert.True(t, doubt.Until.Equal(results[0].Until), "it is told until when")
			time.Sleep(time.Minute)
		}
		fails = false
		result := uploadOne(t, u, recording(0))
		assert.Equal(t, ingest.Created, result.Status, result)
		assert.Len(t, srv.Notes(), 1)
		assert.NotZero(t, committed)

		fails = true
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		results, err := collect(t.Context(), u, recordings(1, 2))
		require.Error(t, err)
		u.Journal = dying{file}
		require.Error(t, u.Resolve(t.Context(), results[0].JournalKey, ingest.Resolution{By: "a person", Force: true}),
			"it is written down all the same")
		time.Sleep(time.Hour)
		_, err = collect(t.Context(), u, recordings(1, 2)) // is sent once more
		require.Error(t, err)
		u.Journal = file
		ctx := within(t, time.Second)
		until := time.Now().Add(10 * time.Minute)
		results, err = collect(ctx, u, recordings(1, 2))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Len(t, results, 1)
		assert.True(t, until.Equal(results[0].Until), results[0].Until)
	})
}

// hanging is a journal that hangs when more is said of a doubt, for longer than the end of a run may take.
type hanging struct {
	lapsing
	doubted  bool
	released atomic.Int32
	hangs    func()
}

type hangingClaim struct {
	ingest.Claim
	journal *hanging
}

func (j *hanging) Claim(ctx context.Context, key ingest.Key) (ingest.Claim, error) {
	c, err := j.lapsing.Claim(ctx, key)
	return hangingClaim{c, j}, err
}

func (c hangingClaim) Save(ctx context.Context, e ingest.Entry) error {
	if c.journal.doubted {
		c.journal.hangs()
		time.Sleep(time.Minute)
	}
	c.journal.doubted = e.State == ingest.StateInDoubt
	return c.Claim.Save(ctx, e)
}

func (c hangingClaim) Release() { c.journal.released.Add(1) }

// If the end of a run takes too long, its recording is released anyway. Otherwise its lease would be renewed as
// long as the process lives, and no other worker would ever get the recording.
func TestRun_TaskAfterTheEnd_ReleasesItsClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess())
		defer srv.Close()
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		ctx, cancel := context.WithCancel(t.Context())
		journal := &hanging{lapsing: lapsing{entries: map[ingest.Key]ingest.Entry{}}, hangs: cancel}
		u := &ingest.Uploader{
			Client: srv.Client(quick()), Journal: journal, Find: clinicaldoc.FindCreatedParams{Settle: time.Second},
		}
		u.OnEvent = func(e ingest.Event) {
			for range 2 { // both fit, so that nobody can tell
				if e.State == ingest.StateInDoubt {
					srv.AddNote(clinicaldoctest.Note{
						Name: e.Recording.Params.Name, PatientID: e.Recording.Params.PatientID,
					})
				}
			}
		}
		begun := time.Now()
		_, _ = collect(ctx, u, recordings(0, 1))
		assert.Less(t, time.Since(begun), 50*time.Second)
		time.Sleep(2 * time.Minute)
		require.Error(t, ctx.Err(), "it hung")
		assert.EqualValues(t, 1, journal.released.Load())
	})
}
