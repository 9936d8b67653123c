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

// engine is a connection to an engine in memory, which knows no network, so that a test can have a time of its own.
type engine struct {
	jetstream.JetStream
	*cluster
	before func(ctx context.Context, op, key string) error
	carry  func(ctx context.Context, op string, effect func() error) error // is the way of each request; nil: at once, and safe
	wrote  func(key string, value []byte)                                  // is told of each write, under the cluster's mutex; nil: nobody
	clock  skew                                                            // of the machine
}

// cluster is what all who are connected share.
type cluster struct {
	mu          sync.Mutex
	buckets     map[string]*shelf
	ahead       time.Duration              // of its clock
	infos       []time.Time                // when streams were asked for
	pauses      map[string]time.Time       // of consumers
	consumers   []jetstream.ConsumerConfig // that were created
	signs       int                        // of life, of recordings in hand
	asked       map[lane]int               // how often
	watched     chan jetstream.KeyValueEntry
	waiting     []*memoryMessage // of the queue, and dead letters
	store       *store
	configs     map[string]jetstream.StreamConfig // of its streams
	mostPending int                               // messages that were handed out and not taken back; 0: any number
	longer      time.Duration                     // for which consumers wait for a message, beyond what is asked for
	bucketAsked jetstream.KeyValueConfig          // for last
}

// another is another machine's connection.
func (e *engine) another() *engine { return &engine{cluster: e.cluster} }

// do carries out a request.
func (e *engine) do(ctx context.Context, op, key string, effect func() error) error {
	if e.before != nil {
		if err := e.before(ctx, op, key); err != nil {
			return err
		}
	}
	if e.carry != nil {
		return e.carry(ctx, op, effect)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return effect()
}

// tell sends what has no response.
func (e *engine) tell(effect func()) error {
	if e.carry == nil {
		effect()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = e.carry(ctx, "tell", func() error { effect(); return nil })
	return nil
}

// now is the engine's time, by the machine's clock.
func (e *engine) now() time.Time { return e.clock.inward(time.Now().Add(e.ahead)) }

func newEngine() *engine {
	e := &engine{cluster: &cluster{buckets: map[string]*shelf{}, pauses: map[string]time.Time{}, asked: map[lane]int{}}}
	e.store = &store{js: e, name: "memory", header: storeHeader{Format: format, ID: "id", Replicas: 1, Buckets: 2}, sequences: map[string]uint64{}, turn: newTurn(), patience: defaultPatience}
	e.configs = map[string]jetstream.StreamConfig{}
	for _, config := range e.store.streams() {
		e.configs[config.Name] = config
	}
	value, _ := json.Marshal(e.store.header)
	_, _ = e.bucket(e.store.name).Create(context.Background(), headerKey, value)
	return e
}

// fleet joins the fleet that is in the engine.
func (e *engine) fleet(lease time.Duration) *Fleet {
	s := &store{js: e, name: e.store.name, header: e.store.header, sequences: map[string]uint64{}, turn: newTurn(), patience: defaultPatience}
	j, _ := newJournal(context.Background(), s, lease)
	kv, _ := e.KeyValue(context.Background(), s.liveName())
	stream, _ := e.Stream(context.Background(), "KV_"+s.liveName())
	q := &queue{store: s, journal: j, ackWait: lease}
	q.stream, _ = e.Stream(context.Background(), s.queueName())
	q.dead, _ = e.Stream(context.Background(), s.deadName())
	_ = q.openConsumers(context.Background())
	e.mu.Lock()
	defer e.mu.Unlock()
	e.infos = nil
	return &Fleet{store: s, journal: j, queue: q, live: live{s, kv, stream}, logger: discard}
}

func (e *engine) bucket(name string) *memory {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.buckets[name] == nil {
		e.buckets[name] = &shelf{name: name, entries: map[string]*memoryEntry{}}
	}
	return &memory{engine: e, shelf: e.buckets[name]}
}

func (e *engine) KeyValue(_ context.Context, name string) (jetstream.KeyValue, error) {
	return e.bucket(name), nil
}

func (e *engine) CreateKeyValue(ctx context.Context, config jetstream.KeyValueConfig) (jetstream.KeyValue, error) {
	return e.bucket(config.Bucket), e.do(ctx, "bucket", config.Bucket, func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.bucketAsked = config
		return nil
	})
}

func (e *engine) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	s := &memoryStream{memory: e.bucket(strings.TrimPrefix(name, "KV_")), name: name}
	return s, e.do(ctx, "stream", name, func() error {
		e.mu.Lock()
		e.infos = append(e.infos, time.Now())
		e.mu.Unlock()
		s.cached = s.info()
		return nil
	})
}

func (e *engine) UpdateStream(ctx context.Context, config jetstream.StreamConfig) (jetstream.Stream, error) {
	return nil, e.do(ctx, "change", config.Name, func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.configs[config.Name] = config
		return nil
	})
}

func nothing() error { return nil }

// Publish keeps the latest place of a limit, and messages: one of each subject, the first of the lanes and the last
// dead letter.
func (e *engine) Publish(ctx context.Context, subject string, value []byte, _ ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if strings.HasPrefix(subject, e.store.subject("limit")) {
		_, err := e.bucket(e.store.limitName()).Put(ctx, "place", value)
		return &jetstream.PubAck{}, err
	}
	queue := e.bucket(e.store.queueName())
	return &jetstream.PubAck{}, e.do(ctx, "publish", subject, func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, m := range e.waiting {
			if m.subject == subject && !strings.HasPrefix(subject, e.store.subject("dead")) {
				return &jetstream.APIError{ErrorCode: jetstream.JSErrCodeStreamWrongLastSequence}
			}
		}
		e.waiting = slices.DeleteFunc(e.waiting, func(m *memoryMessage) bool { return m.subject == subject })
		queue.last++
		e.waiting = append(e.waiting, &memoryMessage{engine: e, subject: subject, data: value, sequence: queue.last})
		return nil
	})
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
	return m.engine.tell(func() {
		m.engine.mu.Lock()
		defer m.engine.mu.Unlock()
		for _, waiting := range m.engine.waiting {
			if waiting.sequence == m.sequence {
				waiting.due = time.Now().Add(rest)
			}
		}
	})
}

func (m *memoryMessage) InProgress() error {
	m.engine.mu.Lock()
	m.engine.signs++
	m.engine.mu.Unlock()
	return m.NakWithDelay(defaultLease)
}

// DoubleAck takes out the message, whoever has it by now.
func (m *memoryMessage) DoubleAck(ctx context.Context) error {
	return m.engine.do(ctx, "ack", m.subject, func() error {
		m.engine.mu.Lock()
		defer m.engine.mu.Unlock()
		m.engine.waiting = slices.DeleteFunc(m.engine.waiting, func(other *memoryMessage) bool { return other.sequence == m.sequence })
		return nil
	})
}

// memoryConsumer is one of a lane.
type memoryConsumer struct {
	jetstream.Consumer
	engine *engine
	name   string
}

func (c *memoryConsumer) CachedInfo() *jetstream.ConsumerInfo {
	config := jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, AckWait: defaultLease, MaxAckPending: c.engine.mostPending}
	return &jetstream.ConsumerInfo{Config: config}
}

func (c *memoryConsumer) lane() lane {
	if c.name == laneNames[0] {
		return freshLane
	}
	return againLane
}

// Next waits as long as the engine does for a worker: what is asked for cannot be seen here.
func (c *memoryConsumer) Next(...jetstream.FetchOpt) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond+c.engine.longer)
	defer cancel()
	c.engine.mu.Lock()
	c.engine.asked[c.lane()]++
	c.engine.mu.Unlock()
	var m *memoryMessage
	due := time.Duration(0)
	err := c.engine.do(ctx, "next", c.name, func() error { m, due = c.take(); return nil })
	for err == nil && m == nil {
		if !sleep(ctx, min(due, time.Second+c.engine.longer/4)) {
			return nil, nats.ErrTimeout
		}
		if c.engine.longer > 0 {
			return nil, nats.ErrTimeout // the other lane may have something
		}
		m, due = c.take()
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// take returns the first message that is due, or in what time one is.
func (c *memoryConsumer) take() (*memoryMessage, time.Duration) {
	c.engine.mu.Lock()
	defer c.engine.mu.Unlock()
	if rest := c.engine.pauses[c.name].Sub(time.Now().Add(c.engine.ahead)); rest > 0 {
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
		delivery.engine = c.engine
		return &delivery, 0
	}
	return nil, soonest
}

// memory is a bucket, in the hands of a machine.
type memory struct {
	jetstream.KeyValue
	*shelf
	engine *engine
}

// shelf is what a bucket holds.
type shelf struct {
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

func (m *memory) Get(ctx context.Context, key string) (entry jetstream.KeyValueEntry, err error) {
	err = m.engine.do(ctx, "get", key, func() error {
		m.engine.mu.Lock()
		defer m.engine.mu.Unlock()
		e := m.entries[key]
		if e == nil {
			return jetstream.ErrKeyNotFound
		}
		entry = &memoryEntry{value: m.engine.clock.read(e.value), revision: e.revision, created: m.engine.clock.inward(e.created)}
		return nil
	})
	return entry, err
}

func (m *memory) swap(ctx context.Context, op, key string, value []byte, fits func(*memoryEntry) error) (uint64, error) {
	var revision uint64
	value = m.engine.clock.write(value)
	err := m.engine.do(ctx, op, key, func() error {
		m.engine.mu.Lock()
		defer m.engine.mu.Unlock()
		if err := fits(m.entries[key]); err != nil {
			return err
		}
		m.last++
		m.writes = append(m.writes, time.Now())
		m.entries[key] = &memoryEntry{value: value, revision: m.last, created: time.Now().Add(m.engine.ahead)}
		revision = m.last
		if m.engine.wrote != nil {
			m.engine.wrote(key, value)
		}
		return nil
	})
	m.engine.mu.Lock()
	now := revision // it may be carried out later
	m.engine.mu.Unlock()
	return now, err
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

func (m *memory) Purge(ctx context.Context, key string, _ ...jetstream.KVDeleteOpt) error {
	return m.engine.do(ctx, "purge", key, func() error {
		m.engine.mu.Lock()
		defer m.engine.mu.Unlock()
		delete(m.entries, key)
		return nil
	})
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
	cached *jetstream.StreamInfo
}

func (s *memoryStream) CachedInfo() *jetstream.StreamInfo { return s.cached }

func (s *memoryStream) GetLastMsgForSubject(_ context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	s.memory.engine.mu.Lock()
	defer s.memory.engine.mu.Unlock()
	for _, m := range s.memory.engine.waiting {
		if m.subject == subject {
			return &jetstream.RawStreamMsg{Subject: subject, Data: m.data}, nil
		}
	}
	return nil, jetstream.ErrMsgNotFound
}

func (s *memoryStream) info() *jetstream.StreamInfo {
	s.memory.engine.mu.Lock()
	defer s.memory.engine.mu.Unlock()
	info := &jetstream.StreamInfo{TimeStamp: s.memory.engine.now(), State: jetstream.StreamState{LastSeq: s.memory.last}}
	info.Config = s.memory.engine.configs[s.name]
	info.Config.Metadata = maps.Clone(info.Config.Metadata) // each response has its own
	return info
}

// Info lists what leads from patients, what workers say and what waits, whatever is asked for.
func (s *memoryStream) Info(ctx context.Context, _ ...jetstream.StreamInfoOpt) (info *jetstream.StreamInfo, err error) {
	err = s.memory.engine.do(ctx, "info", s.name, func() error {
		info = s.info()
		info.State.Msgs = uint64(s.memory.engine.count(string(freshLane), string(againLane)))
		s.memory.engine.mu.Lock()
		defer s.memory.engine.mu.Unlock()
		info.State.Subjects = map[string]uint64{}
		for key := range maps.Keys(s.memory.entries) {
			if key[0] == 'p' || key[0] == 'w' {
				info.State.Subjects["$KV."+s.memory.name+"."+key] = 1
			}
		}
		for _, m := range s.memory.engine.waiting {
			isDead := strings.HasPrefix(m.subject, s.memory.engine.store.subject("dead"))
			if s.name == s.memory.engine.store.queueName() && !isDead {
				info.State.Subjects[m.subject] = 1
			}
		}
		return nil
	})
	return info, err
}

func (s *memoryStream) GetMsg(context.Context, uint64, ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	s.memory.engine.mu.Lock()
	defer s.memory.engine.mu.Unlock()
	return &jetstream.RawStreamMsg{Data: s.memory.entries["place"].value}, nil
}

func (s *memoryStream) Consumer(ctx context.Context, name string) (jetstream.Consumer, error) {
	return &memoryConsumer{engine: s.memory.engine, name: name}, s.memory.engine.do(ctx, "consumer", name, nothing)
}

func (s *memoryStream) CreateConsumer(ctx context.Context, config jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	e := s.memory.engine
	return &memoryConsumer{engine: e, name: config.Durable}, e.do(ctx, "create consumer", config.Durable, func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.consumers = append(e.consumers, config)
		return nil
	})
}

func (s *memoryStream) PauseConsumer(_ context.Context, name string, until time.Time) (*jetstream.ConsumerPauseResponse, error) {
	e := s.memory.engine
	return nil, e.tell(func() { //nolint:contextcheck // it has no response
		e.mu.Lock()
		defer e.mu.Unlock()
		e.pauses[name] = e.clock.outward(until)
	})
}

func (s *memoryStream) ResumeConsumer(ctx context.Context, name string) (*jetstream.ConsumerPauseResponse, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, s.memory.engine.tell(func() { //nolint:contextcheck // it has no response
		s.memory.engine.mu.Lock()
		defer s.memory.engine.mu.Unlock()
		delete(s.memory.engine.pauses, name)
	})
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
