package jetstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
)

func TestBegin_Concurrent_SucceedsOnce(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	conn := connect(t, s)
	_, err := joinStore(t.Context(), patientStore(t, conn), Params{})
	require.ErrorIs(t, err, ErrNoFleet, "joining makes nothing, and does not wait for what is not there")
	names, err := jetstream.New(conn)
	require.NoError(t, err)
	assert.Empty(t, streamNames(t, names))

	var mu sync.Mutex
	var begun int
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			err := patientStore(t, connect(t, s)).begin(t.Context(), 0)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				begun++
			} else {
				assert.ErrorIs(t, err, ErrFleetExists)
			}
		})
	}
	all.Wait()
	assert.Equal(t, 1, begun, "whoever is faster")
	f, err := Join(t.Context(), conn, Params{})
	require.NoError(t, err)
	want := []string{"KV_" + f.store.liveName()}
	for _, config := range f.store.streams() {
		want = append(want, config.Name)
	}
	assert.ElementsMatch(t, want, streamNames(t, names), "nothing is left of the others")
	for _, name := range []string{"a b", "a.b", "*", strings.Repeat("x", 101)} {
		_, err = Begin(t.Context(), conn, Params{Name: name})
		require.Error(t, err, name)
	}
}

func streamNames(t *testing.T, js jetstream.JetStream) (names []string) {
	t.Helper()
	list := js.StreamNames(t.Context())
	for name := range list.Name() {
		names = append(names, name)
	}
	require.NoError(t, list.Err())
	return names
}

// If a store may have lost records, it is rejected before anything is uploaded, with an error that says what to do. No
// bucket is created again until Repair is called.
func TestJoin_HarmedStore_IsRejectedUntilRepaired(t *testing.T) {
	t.Parallel()
	change := func(which int, edit func(*jetstream.StreamConfig)) func(*testing.T, *Fleet) {
		return func(t *testing.T, f *Fleet) {
			t.Helper()
			config := f.store.streams()[which]
			edit(&config)
			_, err := f.store.js.UpdateStream(t.Context(), config)
			require.NoError(t, err)
		}
	}
	remove := func(which int) func(*testing.T, *Fleet) {
		return func(t *testing.T, f *Fleet) {
			t.Helper()
			require.NoError(t, f.store.js.DeleteStream(t.Context(), f.store.streams()[which].Name))
		}
	}
	anew := func(which int, edit func(*jetstream.StreamConfig)) func(*testing.T, *Fleet) {
		return func(t *testing.T, f *Fleet) {
			t.Helper()
			remove(which)(t, f)
			config := f.store.streams()[which]
			edit(&config)
			_, err := f.store.js.CreateStream(t.Context(), config)
			require.NoError(t, err)
		}
	}
	const header, bucket, queue, dead = 0, 3, singleBuckets + 1, singleBuckets + 2 // indexes of store.streams
	for name, c := range map[string]struct {
		harm func(*testing.T, *Fleet)
		says string
	}{
		"a bucket is gone":             {remove(bucket), "is gone"},
		"the first bucket is gone":     {remove(1), "is gone"},
		"the queue is gone":            {remove(queue), "is gone"},
		"the dead letters are gone":    {remove(dead), "is gone"},
		"a bucket expires":             {change(bucket, func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }), "deletes messages older"},
		"the header's expires":         {change(header, func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }), "deletes messages older"},
		"the queue expires":            {change(queue, func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }), "deletes messages older"},
		"messages may expire":          {change(bucket, func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true }), "expire"},
		"a full queue forgets":         {change(queue, func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }), "deletes the oldest"},
		"a full bucket forgets":        {change(bucket, func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }), "deletes the oldest"},
		"replicas are read":            {change(bucket, func(c *jetstream.StreamConfig) { c.AllowDirect = true }), "lag behind"},
		"metadata are gone":            {change(bucket, func(c *jetstream.StreamConfig) { c.Metadata = nil }), "made again"},
		"other subjects":               {change(dead, func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "more") }), "subjects"},
		"a bucket anew in memory":      {anew(bucket, func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }), "memory"},
		"a bucket anew, unmarked":      {anew(bucket, func(c *jetstream.StreamConfig) { c.Metadata = nil }), "made again"},
		"a bucket that can be emptied": {anew(bucket, func(c *jetstream.StreamConfig) { c.DenyPurge = false }), "purged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			f := openFleet(t, connect(t, s), Params{})
			c.harm(t, f)
			_, refusal := Join(t.Context(), connect(t, s), Params{})
			require.ErrorIs(t, refusal, ErrStore)
			assert.Contains(t, refusal.Error(), c.says)
			_, err := Begin(t.Context(), connect(t, s), Params{})
			require.ErrorIs(t, err, ErrFleetExists)

			// A worker that had joined before notices too, at the next claim.
			f.store.verified = time.Time{}
			_, err = f.Journal().Claim(t.Context(), key(1))
			require.ErrorIs(t, err, ErrStore)
			_, err = f.Journal().Bind(t.Context(), ingest.Owner{Service: service})
			require.ErrorIs(t, err, ErrStore)

			// The error names Repair. Repair makes the store usable, and the journal remembers that entries are
			// missing.
			assert.Contains(t, refusal.Error(), "Repair")
			if slices.Contains([]string{"memory", "expire"}, c.says) {
				require.ErrorContains(t, Repair(t.Context(), connect(t, s), Params{}), "Delete it and repair again")
				half, err := f.store.readHeader(t.Context())
				require.NoError(t, err)
				assert.True(t, half.Gaps, "the gaps are saved before anything is changed")
				// NATS does not change such a stream, so the operator has to delete it.
				require.NoError(t, f.store.js.DeleteStream(t.Context(), f.store.streams()[bucket].Name))
			}
			require.NoError(t, Repair(t.Context(), connect(t, s), Params{}))
			repaired := openFleet(t, connect(t, s), Params{})
			binding, err := repaired.Journal().Bind(t.Context(), ingest.Owner{Service: service})
			require.NoError(t, err)
			assert.True(t, binding.Gaps)
			claimed(t, repaired.Journal(), 1).Release()
			_, err = f.Journal().Claim(t.Context(), key(1))
			require.ErrorIs(t, err, ErrStore, "a worker that joined before the repair has to join again")
		})
	}
}

// Each setting of a stream that could lose or hide a record is compared.
func TestFirstDifference_NamesEachDangerousSetting(t *testing.T) {
	t.Parallel()
	s := &store{name: "fleet", header: storeHeader{ID: "id", Replicas: 3, Buckets: 1}}
	list := s.streams()
	for _, config := range list {
		assert.Empty(t, firstDifference(config, config))
		more := config
		more.Replicas, more.MaxBytes = 5, 1<<30
		assert.Empty(t, firstDifference(more, config), "an administrator's own")
	}
	bucket := list[1]
	for says, edit := range map[string]func(*jetstream.StreamConfig){
		"was made again":     func(c *jetstream.StreamConfig) { c.Metadata = map[string]string{idLabel: "another"} },
		"is in memory":       func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"older than 1h":      func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"lets messages":      func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true },
		"messages expire":    func(c *jetstream.StreamConfig) { c.SubjectDeleteMarkerTTL = time.Hour },
		"has 2 replicas":     func(c *jetstream.StreamConfig) { c.Replicas = 2 },
		"deletes the oldest": func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		"refuses new values": func(c *jetstream.StreamConfig) { c.DiscardNewPerSubject = true },
		"retention policy":   func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy },
		"keeps 2 messages":   func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 2 },
		"is a copy":          func(c *jetstream.StreamConfig) { c.Mirror = &jetstream.StreamSource{} },
		"copy of another":    func(c *jetstream.StreamConfig) { c.Sources = []*jetstream.StreamSource{{}} },
		"lag behind":         func(c *jetstream.StreamConfig) { c.AllowDirect = true },
		"rolled up":          func(c *jetstream.StreamConfig) { c.AllowRollup = true },
		"can be purged":      func(c *jetstream.StreamConfig) { c.DenyPurge = false },
		"purged: that":       func(c *jetstream.StreamConfig) { c.DenyDelete = false },
		"other subjects":     func(c *jetstream.StreamConfig) { c.Subjects = nil },
		"is sealed":          func(c *jetstream.StreamConfig) { c.Sealed = true },
		"before it has":      func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode },
	} {
		is := bucket
		edit(&is)
		assert.Contains(t, firstDifference(is, bucket), says)
	}
}

// Limits that make a stream refuse new messages are set by an administrator, and do not harm the store. They are kept.
func TestJoin_AdministratorsLimits_Stay(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	f := openFleet(t, connect(t, s), Params{})
	config := f.store.streams()[singleBuckets+1]
	config.MaxMsgs, config.MaxBytes, config.MaxMsgSize, config.Description = 10, 1<<20, 1<<10, "ours"
	_, err := f.store.js.UpdateStream(t.Context(), config)
	require.NoError(t, err)
	again := openFleet(t, connect(t, s), Params{})
	got := again.queue.stream.CachedInfo().Config
	assert.Equal(t, []any{int64(10), int64(1 << 20), int32(1 << 10), "ours"}, []any{got.MaxMsgs, got.MaxBytes, got.MaxMsgSize, got.Description})
}

// A consumer with limits could hold up or drop recordings.
func TestJoin_LimitedConsumer_IsRejected(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	f := openFleet(t, connect(t, s), Params{})
	for _, edit := range []func(*jetstream.ConsumerConfig){
		func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 10 },
		func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 10 },
	} {
		for _, name := range laneNames {
			consumer, err := f.queue.stream.Consumer(t.Context(), name)
			require.NoError(t, err)
			before := consumer.CachedInfo().Config
			changed := before
			edit(&changed)
			_, err = f.queue.stream.UpdateConsumer(t.Context(), changed)
			require.NoError(t, err)
			_, err = Join(t.Context(), connect(t, s), Params{})
			require.ErrorIs(t, err, ErrStore)
			require.ErrorContains(t, err, name)
			_, err = f.queue.stream.UpdateConsumer(t.Context(), before)
			require.NoError(t, err)
		}
	}
	openFleet(t, connect(t, s), Params{})
}

func TestParams_OutOfRange_AreRejected(t *testing.T) {
	t.Parallel()
	conn := connect(t, startServer(t))
	for replicas, ok := range map[int]bool{-1: false, 0: true, 5: true, 6: false} {
		_, err := newStore(conn, Params{Replicas: replicas})
		assert.Equal(t, !ok, errors.Is(err, clinicaldoc.ErrInvalidArgument), replicas)
	}
	for _, name := range []string{"a.b", "a b", "*", strings.Repeat("a", 101)} {
		_, err := newStore(conn, Params{Name: name})
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument, name)
	}
	s, err := newStore(conn, Params{})
	require.NoError(t, err)
	require.ErrorContains(t, s.begin(t.Context(), 3), "cannot be made", "on one server")
	assert.Equal(t, []int{3, 1}, []int{s.header.Replicas, s.header.Buckets}, "writes of a cluster are not synced one by one")
}

// A commit verifies the store, so nothing becomes a note after a bucket was deleted.
func TestSave_BucketDeleted_CommitFails(t *testing.T) {
	t.Parallel()
	for name, bucket := range map[string]int{"the recording's bucket": 1, "another bucket": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := openFleet(t, connect(t, startServer(t)), Params{})
			c := claimed(t, f.Journal(), 1)
			defer c.Release()
			require.NoError(t, f.store.js.DeleteStream(t.Context(), "KV_"+f.store.bucketName(bucket)))
			f.store.verified = time.Now().Add(-verifyEvery) // so the commit verifies again
			require.ErrorIs(t, c.Save(t.Context(), entry(1, ingest.StateCommitting)), ErrStore)
		})
	}
}

// A store of another format is rejected and not changed, and programs of the earlier format reject a store of this one.
func TestJoin_StoreOfAnotherVersion_IsRejected(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	conn := connect(t, s)
	js, err := jetstream.New(conn)
	require.NoError(t, err)

	// As the format before this one began: buckets with numbers, and the first one knows how many.
	older, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "older"})
	require.NoError(t, err)
	_, err = older.Create(t.Context(), "buckets", []byte("8"))
	require.NoError(t, err)
	for _, open := range []func() (*Fleet, error){
		func() (*Fleet, error) { return Join(t.Context(), conn, Params{Name: "older"}) },
		func() (*Fleet, error) { return Begin(t.Context(), conn, Params{Name: "older"}) },
	} {
		_, err := open()
		require.ErrorIs(t, err, ingest.ErrJournalVersion)
		require.ErrorIs(t, err, ErrStore)
	}
	require.NoError(t, js.DeleteKeyValue(t.Context(), "older"))
	var rest jetstream.KeyValue
	require.Eventually(t, func() bool { // a busy server may refuse to begin a store that soon after it deleted one
		rest, err = js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "older-3"})
		return err == nil
	}, untilTestEnds, 10*time.Millisecond)
	_, err = rest.Put(t.Context(), "r.1", nil)
	require.NoError(t, err)
	_, err = Begin(t.Context(), conn, Params{Name: "older"})
	require.ErrorIs(t, err, ErrStore, "what is left of it is no new fleet")

	// Its programs read how many buckets there are, and end where that is no number.
	openFleet(t, conn, Params{Name: "today"})
	today, err := js.KeyValue(t.Context(), "today")
	require.NoError(t, err)
	_, err = today.Create(t.Context(), "buckets", []byte("8"))
	require.ErrorIs(t, err, jetstream.ErrKeyExists)
	value, err := today.Get(t.Context(), "buckets")
	require.NoError(t, err)
	_, err = strconv.Atoi(string(value.Value()))
	require.Error(t, err)

	for _, header := range []string{
		`{"format":4,"id":"a","buckets":1}`, `{"format":1,"id":"a","buckets":1}`, `{"id":"a","buckets":1}`,
		`{"format":2,"buckets":1}`, `{"format":2,"id":"a"}`, `{"format":3,"buckets":1}`, `{"format":3,"id":"a"}`, `{`, ``,
	} {
		_, err = today.Put(t.Context(), headerKey, []byte(header))
		require.NoError(t, err)
		_, err = Join(t.Context(), conn, Params{Name: "today"})
		require.ErrorIs(t, err, ingest.ErrJournalVersion, header)
	}
}

// hasty is an engine with a header that the first read does not find yet.
type hasty struct {
	jetstream.JetStream

	looks int
}

type hastyBucket struct {
	jetstream.KeyValue

	engine *hasty
}

func (h *hasty) KeyValue(ctx context.Context, name string) (jetstream.KeyValue, error) {
	bucket, err := h.JetStream.KeyValue(ctx, name)
	return hastyBucket{bucket, h}, err
}

func (b hastyBucket) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	if key == headerKey {
		if b.engine.looks++; b.engine.looks == 1 {
			return nil, jetstream.ErrKeyNotFound
		}
	}
	return b.KeyValue.Get(ctx, key)
}

// A store whose header is written between two reads of a process is not mistaken for one of another version.
func TestReadHeader_FleetBeingBegun_IsOfThisVersion(t *testing.T) {
	t.Parallel()
	f := openFleet(t, connect(t, startServer(t)), Params{})
	found, err := (&store{js: &hasty{JetStream: f.store.js}, name: f.store.name}).readHeader(t.Context())
	require.NoError(t, err)
	assert.Equal(t, f.store.header, found)
}

// A store that lost its first bucket does not count as new.
func TestBegin_PartOfAFleetExists_IsRejected(t *testing.T) {
	t.Parallel()
	conn := connect(t, startServer(t))
	f := openFleet(t, conn, Params{})
	c := claimed(t, f.Journal(), 1)
	require.NoError(t, c.Save(t.Context(), entry(1, ingest.StateCommitting)))
	c.Release()
	require.NoError(t, f.store.js.DeleteStream(t.Context(), f.store.streams()[0].Name))
	_, err := Join(t.Context(), conn, Params{})
	require.ErrorIs(t, err, ErrNoFleet)
	_, err = Begin(t.Context(), conn, Params{})
	require.ErrorIs(t, err, ErrStore)
	openFleet(t, conn, Params{Name: defaultName + "-other"})
	openFleet(t, conn, Params{Name: "ward-2"})
	openFleet(t, conn, Params{Name: "ward"}) // of which that one is no part

	// A store whose beginning was cut off counts as new, because it contains nothing.
	cut, err := newStore(conn, Params{Name: "cut"})
	require.NoError(t, err)
	_, err = cut.js.CreateStream(t.Context(), cut.rootConfig())
	require.NoError(t, err)
	root, err := cut.js.KeyValue(t.Context(), "cut")
	require.NoError(t, err)
	_, err = root.Put(t.Context(), blockKey, []byte(blockValue))
	require.NoError(t, err)
	_, err = Join(t.Context(), conn, Params{Name: "cut"})
	require.ErrorIs(t, err, ErrNoFleet)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Begin(ended, conn, Params{Name: "cut"})
	require.ErrorIs(t, err, errEngine, "nobody knows what is there")
	openFleet(t, conn, Params{Name: "cut"})
}

func TestBind_OtherServiceOrUser_IsRejected(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	bind := func(owner ingest.Owner) (ingest.Binding, error) {
		return openFleet(t, connect(t, s), Params{}).Journal().Bind(t.Context(), owner)
	}
	for _, owner := range []ingest.Owner{{Service: service}, {Service: service, UserID: 17}, {Service: strings.ToUpper(service) + "/", UserID: 17}, {Service: service}} {
		binding, err := bind(owner)
		require.NoError(t, err, fmt.Sprint(owner))
		assert.Equal(t, service, binding.Origin)
	}
	// The fleet's patience does not end, so a refusal is not waited for.
	_, err := bind(ingest.Owner{Service: service, UserID: 18})
	require.ErrorIs(t, err, ingest.ErrOtherUser)
	_, err = bind(ingest.Owner{Service: "https://other.example.test", UserID: 17})
	require.ErrorIs(t, err, ingest.ErrOtherService)
}

// The headers of a client may select a tenant, so a fleet belongs to the headers that it was first used with.
func TestFleet_BelongsToTheHeadersOfItsClients(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	bind := func(fleet string, owner ingest.Owner) error {
		_, err := openFleet(t, connect(t, s), Params{Name: fleet}).Journal().Bind(t.Context(), owner)
		return err
	}
	plain := ingest.Owner{Service: service, UserID: 17, Headers: "none"}
	north := ingest.Owner{Service: service, UserID: 17, Headers: "0123456789abcdef"}
	south := ingest.Owner{Service: service, UserID: 17, Headers: "fedcba9876543210"}
	require.NoError(t, bind("tenant", north))
	require.NoError(t, bind("tenant", north))
	require.ErrorIs(t, bind("tenant", south), ingest.ErrOtherService)
	require.ErrorIs(t, bind("tenant", plain), ingest.ErrOtherService)

	require.NoError(t, bind("without", plain))
	require.ErrorIs(t, bind("without", north), ingest.ErrOtherService)

	earlier := ingest.Owner{Service: service, UserID: 17} // as the version before wrote it
	require.NoError(t, bind("earlier", earlier))
	require.NoError(t, bind("earlier", plain))
	require.NoError(t, bind("earlier", ingest.Owner{Service: service, Headers: north.Headers}), "its user stays known")
	require.ErrorIs(t, bind("earlier", south), ingest.ErrOtherService)
	require.ErrorIs(t, bind("earlier", ingest.Owner{Service: service, UserID: 18, Headers: north.Headers}), ingest.ErrOtherUser)
}

// A bucket is deleted between two runs. The second run is rejected, so nothing is uploaded twice.
func TestRun_BucketDeletedBefore_UploadsNothing(t *testing.T) {
	t.Parallel()
	srv, s := clinicaldoctest.NewServer(), startServer(t)
	t.Cleanup(srv.Close)
	f := openFleet(t, connect(t, s), Params{})
	u := &ingest.Uploader{Client: srv.Client(), Journal: f.Journal()}
	for result, err := range u.Run(t.Context(), recordings(40)) {
		require.NoError(t, err)
		require.Equal(t, ingest.Created, result.Status, result)
	}
	require.NoError(t, f.store.js.DeleteStream(t.Context(), f.store.streams()[4].Name))
	_, err := Join(t.Context(), connect(t, s), Params{})
	require.ErrorIs(t, err, ErrStore)
	f.store.verified = time.Time{}
	var failure error
	for _, err := range u.Run(t.Context(), recordings(40)) {
		failure = err
	}
	require.ErrorIs(t, failure, ErrStore)
	assert.Len(t, srv.Notes(), 40)
}

// A worker that opened a bucket before it was deleted and created again cannot write to the new one.
func TestRepair_NewBucket_RejectsOldWorkers(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	f := openFleet(t, connect(t, s), Params{})
	require.NoError(t, Repair(t.Context(), connect(t, s), Params{}), "it is whole")
	binding, err := f.Journal().Bind(t.Context(), ingest.Owner{Service: service})
	require.NoError(t, err)
	assert.False(t, binding.Gaps)
	j := f.Journal()
	j.store.patience = 0
	c := claimed(t, j, 0)
	require.NoError(t, f.store.js.DeleteStream(t.Context(), f.store.streams()[1].Name))
	require.NoError(t, Repair(t.Context(), connect(t, s), Params{}))
	require.Error(t, c.Save(t.Context(), entry(0, ingest.StateCommitting)), "within the ten seconds in which it did not look")
	c.Release()
	_, err = Join(t.Context(), connect(t, s), Params{})
	require.NoError(t, err)
	require.ErrorIs(t, Repair(t.Context(), connect(t, s), Params{Name: "none"}), ErrNoFleet)
}

// The journal depends on some options of the connection. The caller's options cannot override them.
func TestConnect_CallersOptions_KeepTheSafeOnes(t *testing.T) {
	t.Parallel()
	conn, err := Connect(startServer(t).ClientURL(), nats.ReconnectBufSize(1000), nats.MaxReconnects(1))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	assert.Equal(t, -1, conn.Opts.ReconnectBufSize)
	assert.Equal(t, -1, conn.Opts.MaxReconnect)
}

func TestEmbed_SyncsEachWriteAndListensOnNoPort(t *testing.T) {
	t.Parallel()
	s, err := Embed(t.Context(), t.TempDir())
	require.NoError(t, err)
	assert.True(t, s.server.JetStreamConfig().SyncAlways)
	assert.Equal(t, -1, s.Conn.Opts.ReconnectBufSize, "nor is anything kept to be sent later")
	assert.Nil(t, s.server.Addr(), "it listens on no port")
	var running strings.Builder
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&running, 1))
	assert.NotContains(t, running.String(), "handleSignals", "it does not end the process when that is told to end")
	require.NoError(t, s.Close())
}

// noticing is told what a server notices.
type noticing struct {
	*logger
	notice func(text string)
}

func (n noticing) Noticef(format string, _ ...any) { n.notice(format) }

// Two servers must never write to one folder, so a server keeps its lock until it has ended.
func TestEmbed_Closing_KeepsItsLockToTheEnd(t *testing.T) {
	t.Parallel()
	dir, ended := t.TempDir(), false
	s, err := Embed(t.Context(), dir)
	require.NoError(t, err)
	s.server.SetLoggerV2(noticing{&logger{}, func(text string) {
		lock, err := disk.Take(filepath.Join(dir, "clinicaldoc.lock"))
		if err == nil {
			_ = disk.Close(lock)
		}
		assert.Equal(t, disk.ErrHeld.Error(), fmt.Sprint(err), text)
		ended = ended || strings.Contains(text, "Exiting")
	}}, false, false, false)
	require.NoError(t, s.Close())
	assert.True(t, ended)
}

// A consumer that limits pending messages would stop when that many recordings rest.
func TestConsumers_Limited_AreRejected(t *testing.T) {
	t.Parallel()
	e := newEngine()
	q := e.fleet(defaultLease).queue
	require.NoError(t, q.openConsumers(t.Context()))
	e.mostPending = 1000
	require.ErrorIs(t, q.openConsumers(t.Context()), ErrStore)
}

// Keys are hashed with the name of the service under which the fleet was begun. That stays so if the user becomes known
// while the service has another name.
func TestBind_UserBecomesKnown_KeepsTheOrigin(t *testing.T) {
	t.Parallel()
	e := newEngine()
	root := e.bucket(e.store.name)
	reads := 0
	e.before = func(_ context.Context, op, key string) error {
		if op == "get" && key == headerKey {
			reads++
		}
		return nil
	}
	for _, c := range []struct {
		owner  ingest.Owner
		writes int // of the header, of which the first made the fleet
	}{
		{ingest.Owner{Service: "http://127.0.0.1:80"}, 2}, {ingest.Owner{Service: "http://localhost"}, 2},
		{ingest.Owner{Service: "http://LOCALHOST", UserID: 7}, 3}, {ingest.Owner{Service: "http://localhost", UserID: 7}, 3}, {ingest.Owner{Service: "http://localhost"}, 3},
	} {
		j := e.fleet(defaultLease).Journal()
		for range 2 {
			reads = 0
			binding, err := j.Bind(t.Context(), c.owner)
			require.NoError(t, err)
			assert.Equal(t, "http://127.0.0.1:80", binding.Origin)
		}
		assert.Zero(t, reads, "it is known")
		assert.Len(t, root.writes, c.writes, c.owner)
	}
	user := ingest.Owner{Service: "http://localhost", UserID: 8}
	_, err := e.fleet(defaultLease).Journal().Bind(t.Context(), user)
	require.ErrorIs(t, err, ingest.ErrOtherUser)

	// A process that joins a repaired fleet learns that the journal has gaps.
	entry, err := root.Get(t.Context(), headerKey)
	require.NoError(t, err)
	_, err = root.Put(t.Context(), headerKey, bytes.Replace(entry.Value(), []byte(`{`), []byte(`{"gaps":true,`), 1))
	require.NoError(t, err)
	user.UserID = 7
	binding, err := e.fleet(defaultLease).Journal().Bind(t.Context(), user)
	require.NoError(t, err)
	assert.True(t, binding.Gaps)
}

// Bind adds only the owner to the header. It keeps what a repair has written since the header was read.
func TestBind_RepairedMeanwhile_KeepsTheGaps(t *testing.T) {
	t.Parallel()
	e := newEngine()
	f := e.fleet(defaultLease)
	repaired := f.store.header
	repaired.Gaps, repaired.Renamed = true, map[int]string{1: "-synthetic"}
	value, err := json.Marshal(repaired)
	require.NoError(t, err)
	_, err = e.bucket(e.store.name).Put(t.Context(), headerKey, value)
	require.NoError(t, err)
	binding, err := f.store.bind(t.Context(), ingest.Owner{Service: service, UserID: 7})
	require.NoError(t, err)
	assert.True(t, binding.Gaps)
	now, err := f.store.readHeader(t.Context())
	require.NoError(t, err)
	repaired.Owner = now.Owner
	assert.NotEmpty(t, now.Owner)
	assert.Equal(t, repaired, now)
}

// A store is rejected if it has fewer replicas than requested, or if another fleet has taken the place of the one that
// was joined.
func TestStore_FewerReplicasOrAnotherFleet_IsRejected(t *testing.T) {
	t.Parallel()
	e := newEngine()
	f := e.fleet(defaultLease)
	require.NoError(t, f.store.open(t.Context(), 1))
	require.ErrorIs(t, f.store.open(t.Context(), 2), ErrStore)
	for _, header := range []storeHeader{{Format: format, ID: "other", Replicas: 1, Buckets: 2}, {Format: format + 1, ID: f.store.header.ID, Replicas: 1, Buckets: 2}} {
		value, err := json.Marshal(header)
		require.NoError(t, err)
		_, err = e.bucket(e.store.name).Put(t.Context(), headerKey, value)
		require.NoError(t, err)
		_, err = f.Journal().Bind(t.Context(), ingest.Owner{Service: service})
		require.ErrorIs(t, err, ErrStore, header)
	}
}
