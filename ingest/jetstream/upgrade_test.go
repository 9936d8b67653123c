package jetstream

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// The format before this one, as its programs wrote and read it.
const (
	earlierOwner  = "clinicaldoc-fleet 2 " + service + " user=17"
	earlierRecord = `{"entry":{"Key":"%s","State":%d,"At":"2000-01-01T00:00:01Z","Patient":7,"Name":1,"Size":3,` +
		`"SentAt":"2000-01-01T00:00:00Z","Until":"0001-01-01T00:00:00Z","NoteID":%d,"Found":false,"Why":""}}`
)

// earlierStore begins a fleet as a program of the format before did.
func earlierStore(t *testing.T, js jetstream.JetStream, name string) storeHeader {
	t.Helper()
	s := &store{js: js, name: name, header: storeHeader{Format: formatBefore, ID: "0a1b2c3d", Replicas: 1, Buckets: 2}}
	for _, config := range s.streams() {
		if config.Name != "KV_"+name {
			config.Metadata[idLabel] = s.header.ID
		}
		_, err := js.CreateStream(t.Context(), config)
		require.NoError(t, err)
	}
	s.header.Owner = earlierOwner
	require.NoError(t, s.writeHeader(t.Context()))
	for n, state := range map[int]ingest.State{1: ingest.StateCreated, 2: ingest.StateRefused} {
		bucket, err := js.KeyValue(t.Context(), s.bucketName(n%s.header.Buckets))
		require.NoError(t, err)
		value := fmt.Sprintf(earlierRecord, key(n), state, 10*n)
		_, err = bucket.Put(t.Context(), recordKey(key(n)), []byte(value))
		require.NoError(t, err)
	}
	return s.header
}

// earlierProgram reports what a program of the format before sees when it joins, and every ten seconds after that.
func earlierProgram(t *testing.T, js jetstream.JetStream, name string, h storeHeader) (joins, goesOn bool) {
	t.Helper()
	root, err := js.KeyValue(t.Context(), name)
	require.NoError(t, err)
	value, err := root.Get(t.Context(), headerKey)
	require.NoError(t, err)
	var now storeHeader
	require.NoError(t, json.Unmarshal(value.Value(), &now))
	s := &store{js: js, name: name, header: h}
	goesOn = true
	for _, config := range s.streams()[1:] {
		stream, err := js.Stream(t.Context(), config.Name)
		require.NoError(t, err)
		goesOn = goesOn && stream.CachedInfo().Config.Metadata[idLabel] == h.ID
	}
	return goesOn && now.Format == formatBefore, goesOn
}

// joinUpgraded joins a fleet. If that upgrades the store, it does not wait for older programs.
func joinUpgraded(t *testing.T, conn *nats.Conn) (*Fleet, error) {
	t.Helper()
	s := patientStore(t, conn)
	s.upgradeWait = 0
	return joinStore(t.Context(), s, Params{})
}

// Programs of the format before do not know the stage of a note or its earlier notes, and drop them when they save a
// record. After an upgrade none of them joins, and those that had joined end.
func TestJoin_StoreOfTheFormatBefore_KeepsItsProgramsOut(t *testing.T) {
	t.Parallel()
	conn := connect(t, startServer(t))
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	h := earlierStore(t, js, defaultName)
	joins, goesOn := earlierProgram(t, js, defaultName, h)
	require.True(t, joins)
	require.True(t, goesOn)
	queue, err := js.Stream(t.Context(), defaultName+"-"+h.ID+"-queue")
	require.NoError(t, err)
	config := queue.CachedInfo().Config
	config.MaxMsgs = 10
	_, err = js.UpdateStream(t.Context(), config)
	require.NoError(t, err)

	f, err := joinUpgraded(t, conn)
	require.NoError(t, err)
	joins, goesOn = earlierProgram(t, js, defaultName, h)
	assert.False(t, joins)
	assert.False(t, goesOn)
	_, err = f.Journal().Bind(t.Context(), ingest.Owner{Service: service, UserID: 18})
	require.ErrorIs(t, err, ingest.ErrOtherUser, "its owner stays")
	assert.Equal(t, int64(10), claimed(t, f.Journal(), 1).Entry().NoteID, "and what it knows")
	assert.Equal(t, int64(10), f.queue.stream.CachedInfo().Config.MaxMsgs, "and an administrator's limit")

	// The next one finds a store of today's format.
	begun := time.Now()
	_, err = Join(t.Context(), conn, Params{})
	require.NoError(t, err)
	assert.Less(t, time.Since(begun), upgradeWait)
}

// earlierEngine is an engine in memory with a store of the format before.
func earlierEngine(t *testing.T) (*engine, *store) {
	t.Helper()
	e := newEngine()
	s := e.store
	s.upgradeWait = upgradeWait
	s.header.Format = formatBefore
	for _, config := range s.streams() {
		e.configs[config.Name] = config
	}
	require.NoError(t, s.writeHeader(t.Context()))
	return e, s
}

// formatOf returns the format in the store's header.
func formatOf(t *testing.T, s *store) int {
	t.Helper()
	h, err := s.readHeader(t.Context())
	require.NoError(t, err)
	return h.Format
}

// Programs of the format before verify the store every ten seconds. The upgrade is complete only after each of them had
// time to notice that it must end.
func TestUpgrade_WaitsUntilOlderProgramsHaveEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, s := earlierEngine(t)
		begun := time.Now()
		var relabeled time.Duration
		e.before = func(_ context.Context, op, _ string) error {
			if op == "change" {
				relabeled = time.Since(begun)
				time.Sleep(time.Second)
			}
			if op == "update" {
				assert.GreaterOrEqual(t, time.Since(begun)-relabeled, verifyEvery+requestTimeout)
			}
			return nil
		}
		require.NoError(t, s.upgrade(t.Context()))
		assert.Equal(t, format, formatOf(t, s))
		require.NoError(t, s.open(t.Context(), 1))
	})
}

// An upgrade would end a worker of the format before during its work. So it is refused, with the worker's host, until
// an operator has stopped the worker.
func TestUpgrade_WorkerOfTheFormatBefore_IsRefusedWithItsHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, s := earlierEngine(t)
		before := maps.Clone(e.configs)
		l, err := newLive(t.Context(), s)
		require.NoError(t, err)
		for n, host := range []string{"ward-2", "ward-1", "ward-2"} {
			require.NoError(t, l.beat(t.Context(), fmt.Sprint(n), liveWorker{Worker: Worker{Host: host}}))
		}
		err = s.upgrade(t.Context())
		require.ErrorIs(t, err, ErrOlderWorkers)
		require.NotErrorIs(t, err, ErrStore, "which Repair is for")
		require.ErrorContains(t, err, "(ward-1, ward-2). End all of them and join again")
		assert.Equal(t, formatBefore, formatOf(t, s))
		assert.Equal(t, before, e.configs, "nothing was changed")
		time.Sleep(aliveFor)
		require.NoError(t, s.upgrade(t.Context()))
		assert.Equal(t, format, formatOf(t, s))
	})
}

// An upgrade may be interrupted, and several processes may upgrade at the same time.
func TestUpgrade_CutOffOrDoneTwice_IsDoneOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, s := earlierEngine(t)
		ctx, cancel := context.WithTimeout(t.Context(), upgradeWait/2)
		defer cancel()
		require.ErrorIs(t, s.upgrade(ctx), context.DeadlineExceeded)
		assert.Equal(t, formatBefore, formatOf(t, s))
		queue := e.configs[s.queueName()]
		assert.NotEqual(t, s.header.ID, queue.Metadata[idLabel], "older programs are kept out already")
		require.ErrorIs(t, s.open(t.Context(), 1), ingest.ErrJournalVersion, "and it is not used yet")

		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				mine := &store{
					js: e.another(), name: s.name, sequences: map[string]uint64{}, turn: newTurn(),
					patience: defaultPatience, upgradeWait: upgradeWait,
				}
				assert.NoError(t, mine.upgrade(t.Context()))
				assert.NoError(t, mine.open(t.Context(), 1))
			})
		}
		all.Wait()
		assert.Equal(t, format, formatOf(t, s))
	})
}

// An upgrade keeps what another process writes to the header meanwhile, such as the owner.
func TestUpgrade_OwnerBoundMeanwhile_Stays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, s := earlierEngine(t)
		var once sync.Once
		e.before = func(ctx context.Context, op, key string) (err error) {
			if op == "update" && key == headerKey {
				once.Do(func() {
					h := s.header
					h.Owner = earlierOwner
					other := &store{js: e.another(), name: s.name, header: h}
					err = other.writeHeader(ctx)
				})
			}
			return err
		}
		require.NoError(t, s.upgrade(t.Context()))
		h, err := s.readHeader(t.Context())
		require.NoError(t, err)
		assert.Equal(t, format, h.Format)
		assert.Equal(t, earlierOwner, h.Owner)
	})
}

// A store of the format before that lacks a part has to be repaired before it is upgraded.
func TestUpgrade_StoreThatIsNotWhole_IsRefused(t *testing.T) {
	t.Parallel()
	conn := connect(t, startServer(t))
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	h := earlierStore(t, js, defaultName)
	require.NoError(t, js.DeleteStream(t.Context(), "KV_"+defaultName+"-"+h.ID+"-1"))
	_, err = joinUpgraded(t, conn)
	require.ErrorIs(t, err, ErrStore)
	joins, _ := earlierProgram(t, js, defaultName, storeHeader{ID: h.ID})
	assert.True(t, joins, "it has its format")
	require.NoError(t, Repair(t.Context(), conn, Params{}))
	f, err := joinUpgraded(t, conn)
	require.NoError(t, err)
	binding, err := f.Journal().Bind(t.Context(), ingest.Owner{Service: service, UserID: 17})
	require.NoError(t, err)
	assert.True(t, binding.Gaps)
}

// If a later version upgrades the store, a worker of this format gets an error that says so.
func TestVerify_StoreUpgradedByALaterVersion_NamesTheVersion(t *testing.T) {
	t.Parallel()
	e := newEngine()
	f := e.fleet(defaultLease)
	queue := e.configs[f.store.queueName()]
	queue.Metadata[idLabel] = f.store.queueLabel(format + 1)
	_, err := f.Journal().Claim(t.Context(), key(1))
	require.ErrorIs(t, err, ingest.ErrJournalVersion)
	require.ErrorContains(t, err, "another version")
}
