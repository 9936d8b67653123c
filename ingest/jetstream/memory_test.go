package jetstream

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// engine is an engine in memory: it knows no network, so that a test can have a time of its own.
type engine struct {
	jetstream.JetStream
	mu      sync.Mutex
	buckets map[string]*memory
	ahead   time.Duration // of its clock
	infos   []time.Time   // when streams were asked for
	before  func(ctx context.Context, op, key string) error
	pauses  map[string]time.Time // of consumers
	store   *store
}

func newEngine() *engine {
	e := &engine{buckets: map[string]*memory{}, pauses: map[string]time.Time{}}
	e.store = &store{js: e, name: "memory", header: storeHeader{Format: format, ID: "id", Replicas: 1, Buckets: 2}, sequences: map[string]uint64{}}
	value, _ := json.Marshal(e.store.header)
	_, _ = e.bucket(e.store.name).Create(context.Background(), headerKey, value)
	return e
}

// fleet joins the fleet that is in the engine.
func (e *engine) fleet(lease time.Duration) *Fleet {
	s := &store{js: e, name: e.store.name, header: e.store.header, sequences: map[string]uint64{}}
	j, _ := newJournal(context.Background(), s, lease)
	kv, _ := e.KeyValue(context.Background(), s.liveName())
	stream, _ := e.Stream(context.Background(), "KV_"+s.liveName())
	q, _ := e.Stream(context.Background(), s.queueName())
	e.infos = nil
	return &Fleet{store: s, journal: j, queue: &queue{store: s, journal: j, ackWait: lease, stream: q}, live: live{s, kv, stream}, logger: discard}
}

func (e *engine) bucket(name string) *memory {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.buckets[name] == nil {
		e.buckets[name] = &memory{engine: e, name: name, entries: map[string]*memoryEntry{}}
	}
	return e.buckets[name]
}

func (e *engine) KeyValue(_ context.Context, name string) (jetstream.KeyValue, error) {
	return e.bucket(name), nil
}

func (e *engine) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	if e.before != nil {
		if err := e.before(ctx, "stream", name); err != nil {
			return nil, err
		}
	}
	e.mu.Lock()
	e.infos = append(e.infos, time.Now())
	e.mu.Unlock()
	return &memoryStream{memory: e.bucket(strings.TrimPrefix(name, "KV_")), name: name}, nil
}

// Publish keeps the latest place of a limit.
func (e *engine) Publish(ctx context.Context, _ string, value []byte, _ ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	_, err := e.bucket(e.store.limitName()).Put(ctx, "place", value)
	return &jetstream.PubAck{}, err
}

// memory is a bucket.
type memory struct {
	jetstream.KeyValue
	engine  *engine
	name    string
	entries map[string]*memoryEntry
	last    uint64
	writes  []time.Time
}

type memoryEntry struct {
	jetstream.KeyValueEntry
	value    []byte
	revision uint64
	created  time.Time
}

func (e *memoryEntry) Value() []byte      { return e.value }
func (e *memoryEntry) Revision() uint64   { return e.revision }
func (e *memoryEntry) Created() time.Time { return e.created }

func (m *memory) request(ctx context.Context, op, key string) error {
	if m.engine.before != nil {
		if err := m.engine.before(ctx, op, key); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (m *memory) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	if err := m.request(ctx, "get", key); err != nil {
		return nil, err
	}
	m.engine.mu.Lock()
	defer m.engine.mu.Unlock()
	if e := m.entries[key]; e != nil {
		return e, nil
	}
	return nil, jetstream.ErrKeyNotFound
}

func (m *memory) swap(ctx context.Context, op, key string, value []byte, fits func(*memoryEntry) error) (uint64, error) {
	if err := m.request(ctx, op, key); err != nil {
		return 0, err
	}
	m.engine.mu.Lock()
	defer m.engine.mu.Unlock()
	if err := fits(m.entries[key]); err != nil {
		return 0, err
	}
	m.last++
	m.writes = append(m.writes, time.Now())
	m.entries[key] = &memoryEntry{value: value, revision: m.last, created: time.Now().Add(m.engine.ahead)}
	return m.last, nil
}

func (m *memory) Create(ctx context.Context, key string, value []byte, _ ...jetstream.KVCreateOpt) (uint64, error) {
	return m.swap(ctx, "create", key, value, func(e *memoryEntry) error {
		if e != nil {
			return jetstream.ErrKeyExists
		}
		return nil
	})
}

func (m *memory) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return m.swap(ctx, "update", key, value, func(e *memoryEntry) error {
		if e == nil || e.revision != revision {
			return jetstream.ErrKeyRevisionMismatch
		}
		return nil
	})
}

func (m *memory) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	return m.swap(ctx, "put", key, value, func(*memoryEntry) error { return nil })
}

func (m *memory) Purge(_ context.Context, key string, _ ...jetstream.KVDeleteOpt) error {
	m.engine.mu.Lock()
	defer m.engine.mu.Unlock()
	delete(m.entries, key)
	return nil
}

// memoryStream is the stream below it, or another one.
type memoryStream struct {
	jetstream.Stream
	memory *memory
	name   string
}

func (s *memoryStream) CachedInfo() *jetstream.StreamInfo {
	s.memory.engine.mu.Lock()
	defer s.memory.engine.mu.Unlock()
	info := &jetstream.StreamInfo{TimeStamp: time.Now().Add(s.memory.engine.ahead), State: jetstream.StreamState{LastSeq: s.memory.last}}
	for _, config := range s.memory.engine.store.streams() {
		if config.Name == s.name {
			info.Config = config
		}
	}
	return info
}

// Info lists what leads from patients and what workers say, whatever is asked for.
func (s *memoryStream) Info(ctx context.Context, _ ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	if err := s.memory.request(ctx, "info", ""); err != nil {
		return nil, err
	}
	info := s.CachedInfo()
	s.memory.engine.mu.Lock()
	defer s.memory.engine.mu.Unlock()
	info.State.Subjects = map[string]uint64{}
	for key := range maps.Keys(s.memory.entries) {
		if key[0] == 'p' || key[0] == 'w' {
			info.State.Subjects["$KV."+s.memory.name+"."+key] = 1
		}
	}
	return info, nil
}

func (s *memoryStream) GetMsg(context.Context, uint64, ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	s.memory.engine.mu.Lock()
	defer s.memory.engine.mu.Unlock()
	return &jetstream.RawStreamMsg{Data: s.memory.entries["place"].value}, nil
}

func (s *memoryStream) PauseConsumer(_ context.Context, name string, until time.Time) (*jetstream.ConsumerPauseResponse, error) {
	s.memory.engine.mu.Lock()
	defer s.memory.engine.mu.Unlock()
	s.memory.engine.pauses[name] = until
	return nil, nil //nolint:nilnil // nobody reads it
}

func (s *memoryStream) ResumeConsumer(_ context.Context, name string) (*jetstream.ConsumerPauseResponse, error) {
	s.memory.engine.mu.Lock()
	defer s.memory.engine.mu.Unlock()
	delete(s.memory.engine.pauses, name)
	return nil, nil //nolint:nilnil // nobody reads it
}

// paused returns until when the fleet's consumers rest.
func (e *engine) paused() map[string]time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.pauses)
}

// writesOf are the times, since then, at which a key's bucket was written.
func (e *engine) writesOf(j *Journal, key ingest.Key, since time.Time) (after []time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, at := range j.records(key).KeyValue.(*memory).writes {
		after = append(after, at.Sub(since))
	}
	return after
}
