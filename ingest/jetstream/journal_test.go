package jetstream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

const service = "https://service.example.test"

// startServer starts a server with a port.
func startServer(tb testing.TB) *server.Server {
	tb.Helper()
	return startServerIn(tb, tb.TempDir(), 0)
}

// startServerIn starts a server whose disk has this much space; 0 means all that there is.
func startServerIn(tb testing.TB, dir string, room int64) *server.Server {
	tb.Helper()
	return startServerWith(tb, &server.Options{Port: server.RANDOM_PORT, StoreDir: dir, JetStreamMaxStore: room})
}

func startServerWith(tb testing.TB, options *server.Options) *server.Server {
	tb.Helper()
	options.Host, options.JetStream, options.NoSigs, options.NoLog = "127.0.0.1", true, true, true
	s, err := server.NewServer(options)
	require.NoError(tb, err)
	s.Start()
	require.True(tb, s.ReadyForConnections(20*time.Second))
	tb.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return s
}

func connect(t *testing.T, s *server.Server) *nats.Conn {
	t.Helper()
	conn, err := Connect(s.ClientURL())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

func openJournal(t *testing.T, conn *nats.Conn, lease time.Duration) *Journal {
	t.Helper()
	j := openFleet(t, conn, Params{Lease: lease}).Journal()
	_, err := j.Bind(t.Context(), ingest.Owner{Service: service})
	require.NoError(t, err)
	return j
}

// openFleet joins a fleet, and begins it if there is none. The server of a busy machine may be slow, so this is tried
// again, and so is all that the fleet asks of it.
func openFleet(tb testing.TB, conn *nats.Conn, params Params) *Fleet {
	tb.Helper()
	for {
		f, err := joinPatiently(tb.Context(), conn, params)
		if errors.Is(err, ErrNoFleet) {
			f, err = Begin(tb.Context(), conn, params)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			continue
		}
		require.NoError(tb, err)
		f.store.patience = untilTestEnds
		return f
	}
}

// joinPatiently joins a fleet, however slow its server is.
func joinPatiently(ctx context.Context, conn *nats.Conn, params Params) (*Fleet, error) {
	for {
		f, err := Join(ctx, conn, params)
		if !errors.Is(err, context.DeadlineExceeded) {
			return f, err
		}
	}
}

// patientStore is the store of a fleet that waits for its server until the test ends.
func patientStore(t *testing.T, conn *nats.Conn) *store {
	t.Helper()
	s, err := newStore(conn, Params{})
	require.NoError(t, err)
	s.patience = untilTestEnds
	return s
}

// untilTestEnds is for conditions that a busy machine may fulfill late. Only the timeout of all tests ends the wait.
const untilTestEnds = time.Hour

func key(n int) ingest.Key { return ingest.Key{byte(n), byte(n >> 8), 0xff} }

func entry(n int, state ingest.State) ingest.Entry {
	e := ingest.Entry{Key: key(n), State: state, At: time.Now().UTC(), Patient: 7, Name: uint32(n), Size: 3, SentAt: time.Now().UTC()}
	if state == ingest.StateCreated {
		e.NoteID = int64(n) + 1
	}
	return e
}

func claimed(t *testing.T, j *Journal, n int) *claim {
	t.Helper()
	c, err := j.Claim(t.Context(), key(n))
	require.NoError(t, err)
	return c.(*claim)
}

// leased returns a claim whose lease is written, as of an upload that takes a while.
func leased(t *testing.T, j *Journal, n int) *claim {
	t.Helper()
	c := claimed(t, j, n)
	c.renew(t.Context())
	return c
}

func recordings(count int) iter.Seq2[ingest.Recording, error] {
	return func(yield func(ingest.Recording, error) bool) {
		for n := range count {
			params := clinicaldoc.CreateNoteParams{Name: fmt.Sprintf("Encounter #%d.", n), PatientID: int64(1 + n%3), PromptID: 1, Audio: clinicaldoc.AudioBytes("a.wav", content(n))}
			if !yield(ingest.Recording{Key: fmt.Sprint(n), Params: params}, nil) {
				return
			}
		}
	}
}

func content(n int) []byte { return fmt.Appendf(nil, "RIFF synthetic %05d", n) }

func TestEmbed_SecondRun_UploadsNothingAgain(t *testing.T) {
	t.Parallel()
	srv, dir := clinicaldoctest.NewServer(), filepath.Join(t.TempDir(), "journal")
	t.Cleanup(srv.Close)
	for _, want := range []ingest.Status{ingest.Created, ingest.AlreadyThere} {
		s, err := Embed(t.Context(), dir)
		require.NoError(t, err)
		_, err = Embed(t.Context(), dir)
		require.ErrorIs(t, err, ingest.ErrJournalInUse)
		j := openFleet(t, s.Conn, Params{}).Journal()
		u := &ingest.Uploader{Client: srv.Client(), Journal: j, Workers: 8}
		count := 0
		for result, err := range u.Run(t.Context(), recordings(60)) {
			require.NoError(t, err)
			assert.Equal(t, want, result.Status, result)
			count++
		}
		assert.Equal(t, 60, count)
		require.NoError(t, s.Close())
	}
	assert.Len(t, srv.Notes(), 60)
}

func TestLease_LivingWorker_KeepsItsRecording(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	first, second := openJournal(t, connect(t, s), time.Minute), openJournal(t, connect(t, s), time.Minute)
	c := leased(t, first, 1)
	_, err := second.Claim(t.Context(), key(1))
	require.ErrorIs(t, err, ingest.ErrTaken)
	require.NoError(t, c.Save(t.Context(), entry(1, ingest.StateCommitting)))
	c.Release()
	other := claimed(t, second, 1) // without a wait: it was let go
	assert.Equal(t, ingest.StateCommitting, other.Entry().State)
	other.Release()
}

// fallSilent keeps a worker from renewing its lease, as a stop of its process does.
func fallSilent(c *claim) {
	c.stopRenewals()
	<-c.renewalsEnded
}

func TestCommit_WorkerPausedBeyondItsLease_Fails(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	first, second := openJournal(t, connect(t, s), 2*time.Second), openJournal(t, connect(t, s), 2*time.Second)
	paused := leased(t, first, 1)
	fallSilent(paused)
	c := claimed(t, second, 1)
	assert.Equal(t, ingest.StateClaimed, c.Entry().State)
	require.ErrorIs(t, paused.Save(t.Context(), entry(1, ingest.StateCommitting)), ingest.ErrTaken)
	require.NoError(t, c.Save(t.Context(), entry(1, ingest.StateCommitting)))
	require.ErrorIs(t, paused.Save(t.Context(), entry(1, ingest.StateRefused)), ingest.ErrTaken)
	paused.Release()
	assert.Equal(t, ingest.StateCommitting, c.Entry().State)
	require.NoError(t, c.Save(t.Context(), entry(1, ingest.StateCreated)))
	c.Release()
}

// Before a lease is written, two workers may begin the same recording. Only one of them can commit it.
func TestCommit_TwoWorkersBegin_OneSucceeds(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	j := openJournal(t, connect(t, s), time.Minute)
	j.quickUpload = time.Hour // however slow this machine is, no lease is written by itself
	for n, slowOneIsLeased := range []bool{false, true} {
		quick, slow := claimed(t, j, n), claimed(t, j, n)
		assert.Equal(t, ingest.StateClaimed, slow.Entry().State)
		require.NoError(t, quick.Save(t.Context(), entry(n, ingest.StateCommitting)))
		if slowOneIsLeased {
			slow.renew(t.Context())
		}
		require.ErrorIs(t, slow.Save(t.Context(), entry(n, ingest.StateCommitting)), ingest.ErrTaken)
		slow.Release()
		assert.Equal(t, ingest.StateCommitting, quick.Entry().State)
		require.NoError(t, quick.Save(t.Context(), entry(n, ingest.StateCreated)))
		quick.Release()
		assert.Equal(t, ingest.StateCreated, claimed(t, j, n).Entry().State)
	}
	claimed(t, j, 2).Release()
	_, err := j.records(key(2)).Get(t.Context(), recordKey(key(2)))
	require.ErrorIs(t, err, jetstream.ErrKeyNotFound, "what was let go before its lease left nothing")
}

// A quick upload needs only three writes, because an embedded server syncs the disk for each.
func TestJournal_QuickUpload_WritesThreeTimes(t *testing.T) {
	t.Parallel()
	srv, s := clinicaldoctest.NewServer(), startServer(t)
	t.Cleanup(srv.Close)
	j := openFleet(t, connect(t, s), Params{}).Journal()
	j.quickUpload = time.Hour
	u := &ingest.Uploader{Client: srv.Client(), Journal: j, Workers: 8}
	for result, err := range u.Run(t.Context(), recordings(40)) {
		require.NoError(t, err)
		require.Equal(t, ingest.Created, result.Status, result)
	}
	writes := uint64(0)
	for _, bucket := range j.buckets {
		status, err := bucket.Status(t.Context())
		require.NoError(t, err)
		writes += status.(*jetstream.KeyValueBucketStatus).StreamInfo().State.LastSeq
	}
	assert.Equal(t, uint64(3*40), writes, "what leads from the patient to it, committing, created")
}

// A note that the service has created is saved even if another worker has the claim by now.
func TestSave_WorkerPausedBeyondItsLease_WritesItsNote(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	first, second := openJournal(t, connect(t, s), 2*time.Second), openJournal(t, connect(t, s), 2*time.Second)
	paused := claimed(t, first, 1)
	require.NoError(t, paused.Save(t.Context(), entry(1, ingest.StateCommitting)))
	fallSilent(paused)
	c := claimed(t, second, 1)
	require.Equal(t, ingest.StateCommitting, c.Entry().State, "it is never just uploaded")
	require.NoError(t, c.Save(t.Context(), entry(1, ingest.StateInDoubt)))
	require.NoError(t, paused.Save(t.Context(), entry(1, ingest.StateCreated)))
	require.ErrorIs(t, c.Save(t.Context(), entry(1, ingest.StateRefused)), ingest.ErrTaken)
	c.Release()
	assert.Equal(t, ingest.StateCreated, claimed(t, second, 1).Entry().State)
}

// Renewals of the lease never prevent the same worker from saving.
func TestClaim_RenewalsAndSaves_TakeTurns(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	j := openJournal(t, connect(t, s), time.Minute)
	for n := range 5 {
		c := claimed(t, j, n)
		var renewals sync.WaitGroup
		for range 4 {
			renewals.Go(func() {
				for range 20 {
					c.renew(t.Context())
				}
			})
		}
		for range 20 {
			require.NoError(t, c.Save(t.Context(), entry(n, ingest.StateCommitting)))
		}
		require.NoError(t, c.Save(t.Context(), entry(n, ingest.StateCreated)))
		renewals.Wait()
		assert.Equal(t, ingest.StateCreated, c.Entry().State)
		c.Release()
	}
}

// uploadUntil runs an uploader, does something after a few results, and returns what ended it.
func uploadUntil(t *testing.T, u *ingest.Uploader, after func()) (failure error) {
	t.Helper()
	taken := 0
	for _, err := range u.Run(t.Context(), recordings(uploaded)) {
		if failure = err; err != nil {
			break
		}
		if taken++; taken == 5 {
			after()
		}
	}
	return failure
}

// uploadAll runs an uploader until nothing is unresolved. Recordings of the same size may make each other unresolved
// while they are uploaded.
func uploadAll(t *testing.T, u *ingest.Uploader) {
	t.Helper()
	for doubts := 1; doubts > 0; {
		doubts = 0
		for result, err := range u.Run(t.Context(), recordings(uploaded)) {
			require.NoError(t, err)
			require.NotEqual(t, ingest.Refused, result.Status, result)
			if result.Status == ingest.InDoubt {
				doubts++
			}
		}
	}
}

// journalAfter opens the journal of workers that died. It waits for their leases, and its own do not end.
func journalAfter(t *testing.T, s *server.Server) *Journal {
	t.Helper()
	impatient := openFleet(t, connect(t, s), Params{Lease: minLease}).Journal()
	var keys []ingest.Key
	for e, err := range impatient.Entries(t.Context()) {
		require.NoError(t, err)
		keys = append(keys, e.Key)
	}
	for _, key := range keys {
		for isHeld := true; isHeld; { // on a busy machine a release may be late
			c, err := impatient.Claim(t.Context(), key)
			require.NoError(t, err)
			c.Release()
			r, _, err := impatient.read(t.Context(), key)
			require.NoError(t, err)
			isHeld = r.Owner != "" && r.Entry.State != ingest.StateCreated
		}
	}
	return openFleet(t, connect(t, s), Params{Lease: untilTestEnds}).Journal()
}

const uploaded = 60

func assertOneNoteEach(t *testing.T, srv *clinicaldoctest.Server) {
	t.Helper()
	notes := map[string][]int64{}
	for _, note := range srv.Notes() {
		notes[note.Name] = append(notes[note.Name], note.ID)
	}
	assert.Equal(t, uploaded, len(notes)) //nolint:testifylint // the notes need not be printed
	for name, ids := range notes {
		assert.Len(t, ids, 1, name)
	}
}

func TestJournal_ServerUnreachable_LosesNothing(t *testing.T) {
	t.Parallel()
	_, err := Connect("nats://127.0.0.1:1")
	require.Error(t, err)
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	s := startServerIn(t, dir, 0)
	j := openFleet(t, connect(t, s), Params{}).Journal()
	j.store.patience = time.Second
	u := &ingest.Uploader{Client: srv.Client(), Journal: j, Find: clinicaldoc.FindCreatedParams{Settle: time.Second}}
	failure := uploadUntil(t, u, s.Shutdown)
	require.Error(t, failure)
	assert.Contains(t, failure.Error(), "cannot be reached")
	assert.Less(t, len(srv.Notes()), uploaded)

	s.Shutdown() // unless it ended before, because the machine is busy
	s.WaitForShutdown()
	s = startServerIn(t, dir, 0)
	u.Journal = journalAfter(t, s)
	uploadAll(t, u)
	assertOneNoteEach(t, srv)
}

func TestJournal_DiskFull_LosesNothing(t *testing.T) {
	t.Parallel()
	srv, dir := clinicaldoctest.NewServer(), t.TempDir()
	t.Cleanup(srv.Close)
	s := startServerIn(t, dir, 32<<10)
	j := openFleet(t, connect(t, s), Params{}).Journal()
	j.store.patience = time.Second
	u := &ingest.Uploader{Client: srv.Client(), Journal: j, Find: clinicaldoc.FindCreatedParams{Settle: time.Second}}
	failure := uploadUntil(t, u, func() {})
	require.Error(t, failure)
	assert.Contains(t, failure.Error(), "resource", "the engine's own words")
	assert.Less(t, len(srv.Notes()), uploaded)

	s.Shutdown()
	s.WaitForShutdown()
	u.Journal = journalAfter(t, startServerIn(t, dir, 0))
	uploadAll(t, u)
	assertOneNoteEach(t, srv)
}

func TestJournal_DamagedRecord_IsReported(t *testing.T) {
	t.Parallel()
	j := openJournal(t, connect(t, startServer(t)), time.Minute)
	for n, damaged := range []string{"", "{", `{"entry":{"Key":"00000000000000000000000000000000"}}`} {
		c := claimed(t, j, n)
		require.NoError(t, c.Save(t.Context(), entry(n, ingest.StateCommitting)))
		fallSilent(c)
		_, err := j.records(key(n)).Put(t.Context(), recordKey(key(n)), []byte(damaged))
		require.NoError(t, err)
		_, err = j.Claim(t.Context(), key(n))
		require.ErrorIs(t, err, ingest.ErrJournalDamaged)
		require.ErrorIs(t, c.Save(t.Context(), entry(n, ingest.StateCreated)), ingest.ErrJournalDamaged)
		_, err = j.EntriesForPatient(t.Context(), 7, time.Time{})
		require.ErrorIs(t, err, ingest.ErrJournalDamaged)
	}
	_, err := j.patients(8).Put(t.Context(), patientKey(8, "synthetic"), nil)
	require.NoError(t, err)
	_, err = j.EntriesForPatient(t.Context(), 8, time.Time{})
	require.ErrorIs(t, err, ingest.ErrJournalDamaged, "a mark that leads nowhere may have led to a note")
}

// failing is a journal that lets its lease run out after the note was created, and then cannot save the note.
type failing struct {
	*Journal
	fail <-chan struct{} // closed when Save should fail
}

func (f failing) Claim(ctx context.Context, key ingest.Key) (ingest.Claim, error) {
	c, err := f.Journal.Claim(ctx, key)
	if err != nil {
		return nil, err
	}
	return failingClaim{c.(*claim), f}, nil
}

type failingClaim struct {
	*claim
	failing
}

func (c failingClaim) Save(ctx context.Context, e ingest.Entry) error {
	if e.State != ingest.StateCreated {
		return c.claim.Save(ctx, e)
	}
	fallSilent(c.claim)
	<-c.fail
	return fail("synthetic")
}

func (c failingClaim) Release() {}

// Two runs of a process share a client. The first run gets its note, loses its lease and cannot save the note. The
// second run takes the recording over. The client takes the note for the first run's, so FindCreated would report that
// the recording has none. The process must remember the note, so that the second run does not create another one.
func TestRun_NoteUnsavedByAnother_IsKnown(t *testing.T) {
	t.Parallel()
	srv, s := clinicaldoctest.NewServer(), startServer(t)
	t.Cleanup(srv.Close)
	client := srv.Client()
	isUnresolved := make(chan struct{}) // in the second run
	first := &ingest.Uploader{Client: client, Journal: failing{openUnbound(t, s), isUnresolved}}
	second := &ingest.Uploader{
		Client: client, Journal: openUnbound(t, s), Find: clinicaldoc.FindCreatedParams{Settle: 2 * time.Second},
		OnEvent: func(e ingest.Event) {
			if e.State == ingest.StateInDoubt {
				close(isUnresolved)
			}
		},
	}
	firstEnd := make(chan error, 1)
	go func() {
		var failure error
		for _, err := range first.Run(t.Context(), recordings(1)) {
			failure = errors.Join(failure, err)
		}
		firstEnd <- failure
	}()
	require.Eventually(t, func() bool { return len(srv.Notes()) == 1 }, untilTestEnds, time.Millisecond)
	var statuses []ingest.Status
	for result, err := range second.Run(t.Context(), recordings(1)) {
		require.NoError(t, err)
		statuses = append(statuses, result.Status)
	}
	assert.Equal(t, []ingest.Status{ingest.AlreadyThere}, statuses)
	require.ErrorContains(t, <-firstEnd, "synthetic", "the first run could not save its note")
	assert.Len(t, srv.Notes(), 1)
}

func openUnbound(t *testing.T, s *server.Server) *Journal {
	t.Helper()
	return openFleet(t, connect(t, s), Params{Lease: 5 * time.Second}).Journal()
}
