package jetstream

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
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
	asked   map[lane]int         // how often
	watched chan jetstream.KeyValueEntry
	waiting []*memoryMessage // of the queue, and dead letters
	store   *store
}

func newEngine() *engine {
	e := &engine{buckets: map[string]*memory{}, pauses: map[string]time.Time{}, asked: map[lane]int{}}
	e.store = &store{js: e, name: "memory", header: storeHeader{Format: format, ID: "id", Replicas: 1, Buckets: 2}, sequences: map[string]uint64{}, turn: newTurn()}
	value, _ := json.Marshal(e.store.header)
	_, _ = e.bucket(e.store.name).Create(context.Background(), headerKey, value)
	return e
}

// fleet joins the fleet that is in the engine.
func (e *engine) fleet(lease time.Duration) *Fleet {
	s := &store{js: e, name: e.store.name, header: e.store.header, sequences: map[string]uint64{}, turn: newTurn()}
	j, _ := newJournal(context.Background(), s, lease)
	kv, _ := e.KeyValue(context.Background(), s.liveName())
	stream, _ := e.Stream(context.Background(), "KV_"+s.liveName())
	q := &queue{store: s, journal: j, ackWait: lease}
	q.stream, _ = e.Stream(context.Background(), s.queueName())
	q.dead, _ = e.Stream(context.Background(), s.deadName())
	_ = q.consumers(context.Background())
	e.infos = nil
	return &Fleet{store: s, journal: j, queue: q, live: live{s, kv, stream}, logger: discard}
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

func (e *engine) CreateKeyValue(ctx context.Context, config jetstream.KeyValueConfig) (jetstream.KeyValue, error) {
	return e.bucket(config.Bucket), e.bucket(config.Bucket).request(ctx, "bucket", config.Bucket)
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

// Publish keeps the latest place of a limit, and messages: one of each subject, the first of the lanes and the last dead letter.
func (e *engine) Publish(ctx context.Context, subject string, value []byte, _ ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if strings.HasPrefix(subject, e.store.subject("limit")) {
		_, err := e.bucket(e.store.limitName()).Put(ctx, "place", value)
		return &jetstream.PubAck{}, err
	}
	queue := e.bucket(e.store.queueName())
	if err := queue.request(ctx, "publish", subject); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range e.waiting {
		if m.subject == subject && !strings.HasPrefix(subject, e.store.subject("dead")) {
			return nil, &jetstream.APIError{ErrorCode: jetstream.JSErrCodeStreamWrongLastSequence}
		}
	}
	e.waiting = slices.DeleteFunc(e.waiting, func(m *memoryMessage) bool { return m.subject == subject })
	queue.last++
	e.waiting = append(e.waiting, &memoryMessage{engine: e, subject: subject, data: value, sequence: queue.last})
	return &jetstream.PubAck{}, nil
}

// count is how many messages there are of a kind.
func (e *engine) count(kinds ...string) (count int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range e.waiting {
		for _, kind := range kinds {
			if strings.HasPrefix(m.subject, e.store.subject(kind)) {
				count++
			}
		}
	}
	return count
}

// memoryMessage is a recording in the queue.
type memoryMessage struct {
	jetstream.Msg
	engine    *engine
	subject   string
	data      []byte
	sequence  uint64
	delivered uint64
	due       time.Time
}

func (m *memoryMessage) Data() []byte { return m.data }

func (m *memoryMessage) Metadata() (*jetstream.MsgMetadata, error) {
	return &jetstream.MsgMetadata{NumDelivered: m.delivered}, nil
}

func (m *memoryMessage) NakWithDelay(rest time.Duration) error {
	m.engine.mu.Lock()
	defer m.engine.mu.Unlock()
	for _, waiting := range m.engine.waiting {
		if waiting.sequence == m.sequence {
			waiting.due = time.Now().Add(rest)
		}
	}
	return nil
}

func (m *memoryMessage) InProgress() error { return m.NakWithDelay(defaultLease) }

func (m *memoryMessage) DoubleAck(ctx context.Context) error {
	if err := m.engine.bucket(m.engine.store.queueName()).request(ctx, "ack", m.subject); err != nil {
		return err
	}
	m.engine.mu.Lock()
	defer m.engine.mu.Unlock()
	m.engine.waiting = slices.DeleteFunc(m.engine.waiting, func(other *memoryMessage) bool { return other.sequence == m.sequence })
	return nil
}

// memoryConsumer is one of a lane.
type memoryConsumer struct {
	jetstream.Consumer
	engine *engine
	name   string
}

func (c *memoryConsumer) CachedInfo() *jetstream.ConsumerInfo {
	return &jetstream.ConsumerInfo{Config: jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, AckWait: defaultLease}}
}

func (c *memoryConsumer) lane() lane {
	if c.name == laneNames[0] {
		return freshLane
	}
	return againLane
}

// Next waits as long as the engine does for a worker: what is asked for cannot be seen here.
func (c *memoryConsumer) Next(...jetstream.FetchOpt) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	c.engine.mu.Lock()
	c.engine.asked[c.lane()]++
	c.engine.mu.Unlock()
	if err := c.engine.bucket(c.engine.store.queueName()).request(ctx, "next", c.name); err != nil {
		return nil, err
	}
	for {
		m, due := c.take()
		if m != nil {
			return m, nil
		}
		if !pause(ctx, min(due, time.Second)) {
			return nil, nats.ErrTimeout
		}
	}
}

// take returns the first message that is due, or in what time one is.
func (c *memoryConsumer) take() (*memoryMessage, time.Duration) {
	c.engine.mu.Lock()
	defer c.engine.mu.Unlock()
	if rest := time.Until(c.engine.pauses[c.name]); rest > 0 {
		return nil, rest
	}
	soonest := time.Hour
	for _, m := range c.engine.waiting {
		if !strings.HasPrefix(m.subject, c.engine.store.subject(string(c.lane()))) {
			continue
		}
		if rest := time.Until(m.due); rest > 0 {
			soonest = min(soonest, rest)
			continue
		}
		m.delivered++
		m.due = time.Now().Add(defaultLease)
		delivery := *m
		return &delivery, 0
	}
	return nil, soonest
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

// Watch brings what the test has for it.
func (m *memory) Watch(context.Context, string, ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	return m, nil
}

func (m *memory) Updates() <-chan jetstream.KeyValueEntry { return m.engine.watched }
func (m *memory) Stop() error                             { return nil }
func (m *memory) Error() <-chan error                     { return nil }

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
	info.State.Msgs = uint64(s.memory.engine.count(string(freshLane), string(againLane)))
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

func (s *memoryStream) Consumer(ctx context.Context, name string) (jetstream.Consumer, error) {
	return &memoryConsumer{engine: s.memory.engine, name: name}, s.memory.request(ctx, "consumer", name)
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
