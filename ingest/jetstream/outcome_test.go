package jetstream

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

func outcomeOf(t *testing.T, f *Fleet, recording ingest.Recording) Result {
	t.Helper()
	result, err := f.Outcome(t.Context(), recording)
	require.NoError(t, err)
	return result
}

func TestOutcome_IsKnownToTheMachineThatPublished(t *testing.T) {
	t.Parallel()
	srv, s, dir := clinicaldoctest.NewServer(), startServer(t), t.TempDir()
	t.Cleanup(srv.Close)
	publisher, worker := openFleet(t, connect(t, s), Params{}), openFleet(t, connect(t, s), Params{})
	publish(t, publisher, dir, 2)
	assert.Equal(t, Later, outcomeOf(t, publisher, filed(t, dir, 1)).Ending, "before any run")
	assert.Zero(t, outcomeOf(t, publisher, filed(t, dir, 2)).Ending, "it was not published")
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, `{"message":"CANARY"}`))
	assert.Equal(t, map[Ending]int{Done: 1, Dead: 1}, drain(t, worker, &ingest.Uploader{Client: srv.Client(), Workers: 1}))

	endings := map[Ending]Result{}
	for n := range 2 {
		result := outcomeOf(t, publisher, filed(t, dir, n))
		endings[result.Ending] = result
		assert.Equal(t, filed(t, dir, n).Key, result.Recording.Key)
		assert.NotZero(t, result.JournalKey)
	}
	done, dead := endings[Done], endings[Dead]
	assert.Equal(t, ingest.Complete, done.Status)
	assert.Equal(t, clinicaldoc.StageComplete, done.Stage)
	assert.Equal(t, srv.Notes()[0].ID, done.NoteID)
	assert.Equal(t, ingest.Refused, dead.Status)
	require.ErrorIs(t, dead.Err, ErrDeadLetter)
	assert.Contains(t, dead.Err.Error(), "422")
	assert.NotContains(t, dead.Err.Error(), "CANARY")

	require.NoError(t, publisher.Discard(t.Context(), letters(t, publisher)[0]))
	assert.Zero(t, outcomeOf(t, publisher, dead.Recording).Ending, "it was discarded")
}

func TestOutcome_UnresolvedDeadLetterSaysSo(t *testing.T) {
	t.Parallel()
	srv, s, dir := clinicaldoctest.NewServer(), startServer(t), t.TempDir()
	t.Cleanup(srv.Close)
	f := openFleet(t, connect(t, s), Params{})
	recording := filed(t, dir, 1)
	require.NoError(t, f.Publish(t.Context(), recording))
	binding, err := f.Journal().Bind(t.Context(), ingest.Owner{Service: srv.URL})
	require.NoError(t, err)
	saveEntry(t, f, binding, recording, ingest.StateInDoubt)
	require.NoError(t, nextOf(t, f, freshLane).bury(t.Context(), "synthetic reason"))
	result := outcomeOf(t, f, recording)
	assert.Equal(t, Dead, result.Ending)
	assert.Equal(t, ingest.InDoubt, result.Status)
	assert.False(t, result.Until.IsZero())
	assert.Contains(t, result.Err.Error(), "synthetic reason")
}

// saveEntry writes down that the recording came to a state.
func saveEntry(t *testing.T, f *Fleet, binding ingest.Binding, recording ingest.Recording, state ingest.State) {
	t.Helper()
	e := binding.Describe(recording)
	e.State = state
	e.At = time.Now()
	e.SentAt = time.Now()
	c, err := f.Journal().Claim(t.Context(), e.Key)
	require.NoError(t, err)
	defer c.Release()
	if state == ingest.StateCreated {
		e.NoteID = 17
	}
	if state == ingest.StateInDoubt {
		e.Until = time.Now().Add(time.Minute)
	}
	require.NoError(t, c.Save(t.Context(), e))
}

// An earlier version hashed a key as it was spelled, unless its letters were Latin. Its entries still count.
func TestOutcome_EntryWithEarlierKey_IsFound(t *testing.T) {
	t.Parallel()
	srv, s, dir := clinicaldoctest.NewServer(), startServer(t), t.TempDir()
	t.Cleanup(srv.Close)
	f := openFleet(t, connect(t, s), Params{})
	binding, err := f.Journal().Bind(t.Context(), ingest.Owner{Service: srv.URL})
	require.NoError(t, err)
	recording := filed(t, dir, 1)
	recording.Key = "\u30ab\u3099"
	keys := binding.Keys(recording)
	require.Len(t, keys, 2)
	e := binding.Describe(recording)
	e.State = ingest.StateCreated
	e.SentAt = time.Now()
	e.NoteID = 17
	c, err := f.Journal().Claim(t.Context(), keys[1])
	require.NoError(t, err)
	require.NoError(t, c.Save(t.Context(), e))
	c.Release()

	require.NoError(t, f.Publish(t.Context(), recording))
	recording.Key = "\u30ac" // the same letter, composed
	result := outcomeOf(t, f, recording)
	assert.Equal(t, Done, result.Ending)
	assert.Equal(t, int64(17), result.NoteID)
	assert.Equal(t, keys[1], result.JournalKey)
	u := &ingest.Uploader{Client: srv.Client(), AllNew: true, Until: clinicaldoc.StageUploaded}
	assert.Equal(t, map[Ending]int{Done: 1}, drain(t, f, u))
	assert.Empty(t, srv.Notes(), "it is already there")

	recording.Key = "\u30ad"
	result = outcomeOf(t, f, recording)
	assert.Zero(t, result.Ending)
	assert.Equal(t, binding.Key(recording.Key), result.JournalKey)
}

// A recording may get a note after it became a dead letter: by a manual decision, or because it was published again.
// Then its dead letter is removed.
func TestDeadLetter_GoesWhenItsNoteExists(t *testing.T) {
	t.Parallel()
	srv, s, dir := clinicaldoctest.NewServer(), startServer(t), t.TempDir()
	t.Cleanup(srv.Close)
	f := openFleet(t, connect(t, s), Params{})
	u := &ingest.Uploader{Client: srv.Client()}
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, "synthetic").Times(2))
	publish(t, f, dir, 2)
	assert.Equal(t, map[Ending]int{Dead: 2}, drain(t, f, u))
	require.NoError(t, f.Publish(t.Context(), filed(t, dir, 0)))
	assert.Equal(t, map[Ending]int{Done: 1}, drain(t, f, u))

	status, err := f.Status(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, status.DeadLetters)
	left := letters(t, f)
	require.Len(t, left, 1)
	assert.Equal(t, filed(t, dir, 1).Key, left[0].Recording.Key)
	info, err := f.queue.dead.Info(t.Context())
	require.NoError(t, err)
	assert.Equal(t, uint64(1), info.State.Msgs, "it is taken away, and not only hidden")
}

// The dead letter of a recording that the service could not process stays, although the recording has a note.
func TestDeadLetter_StaysWhileProcessingFailed(t *testing.T) {
	t.Parallel()
	srv, s, dir := clinicaldoctest.NewServer(), startServer(t), t.TempDir()
	t.Cleanup(srv.Close)
	f := openFleet(t, connect(t, s), Params{})
	u := &ingest.Uploader{Client: srv.Client()}
	srv.ScriptNext(failedScript())
	publish(t, f, dir, 1)
	assert.Equal(t, map[Ending]int{Dead: 1}, drain(t, f, u))
	left := letters(t, f)
	require.Len(t, left, 1)
	assert.Contains(t, left[0].Reason, "could not process")
	status, err := f.Status(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, status.DeadLetters)

	u.Journal = f.Journal()
	key := outcomeOf(t, f, filed(t, dir, 0)).JournalKey
	require.NoError(t, u.Resolve(t.Context(), key, ingest.Resolution{SendAgain: true, By: "synthetic"}))
	require.NoError(t, f.Redrive(t.Context(), left[0]))
	assert.Equal(t, map[Ending]int{Done: 1}, drain(t, f, u))
	assert.Empty(t, letters(t, f))
	assert.Len(t, srv.Created(), 2)
}

// If another recording with the same key has the note, this one has none, so its dead letter stays.
func TestDeadLetter_StaysWhenAnotherRecordingHasTheNote(t *testing.T) {
	t.Parallel()
	srv, s, dir := clinicaldoctest.NewServer(), startServer(t), t.TempDir()
	t.Cleanup(srv.Close)
	f := openFleet(t, connect(t, s), Params{})
	binding, err := f.Journal().Bind(t.Context(), ingest.Owner{Service: srv.URL})
	require.NoError(t, err)
	for n, change := range []func(*ingest.Recording){
		func(r *ingest.Recording) { r.Params.PatientID += 100 },
		func(r *ingest.Recording) { // of another size, and removed since
			r.File = filepath.Join(dir, "longer.wav")
			require.NoError(t, os.WriteFile(r.File, []byte("RIFF a longer synthetic recording"), 0o600))
		},
	} {
		first := filed(t, dir, n)
		second := first
		change(&second)
		require.NoError(t, f.Publish(t.Context(), second))
		require.NoError(t, nextOf(t, f, freshLane).bury(t.Context(), "synthetic reason"))
		saveEntry(t, f, binding, first, ingest.StateCreated)
		if second.File != first.File {
			require.NoError(t, os.Remove(second.File))
		}
		assert.Len(t, letters(t, f), n+1)
		assert.Equal(t, Dead, outcomeOf(t, f, second).Ending)
		assert.Equal(t, Done, outcomeOf(t, f, first).Ending)
	}
}

// A dead letter is told to have failed in processing only if its note did.
func TestDeadResult_NoteDidNotFail_IsNotNamed(t *testing.T) {
	t.Parallel()
	for _, stage := range []clinicaldoc.Stage{0, clinicaldoc.StageUploaded, clinicaldoc.StageComplete} {
		known := ingest.Entry{State: ingest.StateCreated, NoteID: 17, Stage: stage}
		dead := deadResult(Result{}, known, "synthetic reason")
		assert.Equal(t, Dead, dead.Ending)
		assert.Equal(t, ingest.Refused, dead.Status, stage)
		assert.Zero(t, dead.NoteID)
		assert.Zero(t, dead.Stage)
	}
}

// Another recording with the same key has a note that failed, or is unresolved. A dead letter's outcome names no such
// note.
func TestOutcome_KeyIsOfAnotherRecording_NamesNoNoteOfIt(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*ingest.Entry){
		"its note failed": func(e *ingest.Entry) {
			e.State = ingest.StateCreated
			e.Stage = clinicaldoc.StageFailed
		},
		"it is unresolved": func(e *ingest.Entry) {
			e.State = ingest.StateInDoubt
			e.Until = time.Now().Add(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			inBubble(t, func(t *testing.T, e *engine, srv *clinicaldoctest.Server) {
				f := e.fleet(defaultLease)
				first := filed(t, dir, 0)
				second := first
				second.Params.PatientID += 100
				require.NoError(t, f.Publish(t.Context(), second))
				require.NoError(t, nextOf(t, f, freshLane).bury(t.Context(), "synthetic reason"))
				binding, err := f.Journal().Bind(t.Context(), ingest.Owner{Service: srv.URL})
				require.NoError(t, err)
				entry := binding.Describe(first)
				entry.NoteID = 17
				change(&entry)
				c, err := f.Journal().Claim(t.Context(), entry.Key)
				require.NoError(t, err)
				defer c.Release()
				require.NoError(t, c.Save(t.Context(), entry))

				told := outcomeOf(t, f, second)
				assert.Equal(t, Dead, told.Ending)
				assert.Equal(t, ingest.Refused, told.Status)
				assert.Zero(t, told.NoteID)
				assert.Zero(t, told.Until)
				assert.Contains(t, told.Err.Error(), "synthetic reason")
			})
		})
	}
}
