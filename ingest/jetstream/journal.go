package jetstream

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// Params says where the journal is kept. The zero value is for one server.
type Params struct {
	Bucket   string // its name; empty: clinicaldoc-ingest. One replica is spread over several, with numbers after that name
	Replicas int    // of the bucket; 0: 1. Three survive the loss of a server
	// Lease is how long a recording stays with a worker that shows no sign of life; 0: 30 seconds. It must outlast the
	// election of a new leader, which takes some six seconds: at least 15 seconds in a cluster.
	Lease time.Duration
}

const (
	defaultBucket = "clinicaldoc-ingest"
	defaultLease  = 30 * time.Second
	minLease      = 200 * time.Millisecond
	defaultQuick  = 100 * time.Millisecond
	singleBuckets = 8 // of one replica
	// requestTimeout is for one request: what was sent to a server that died then has no response.
	requestTimeout  = 5 * time.Second
	defaultPatience = 20 * time.Second
	patientlyEach   = 100 * time.Millisecond
)

// Journal is an [ingest.Journal] in a key-value bucket, for any number of processes at once.
type Journal struct {
	buckets  []*bucket // each has a part of the keys
	lease    time.Duration
	quick    time.Duration // an upload that takes no longer needs no lease
	patience time.Duration // how long a cluster may be without a leader
	reading  chan struct{} // holds one while the buckets are read for EntriesForPatient
}

// Open opens the journal and makes its bucket if there is none. An unreachable server is an error that names the address.
func Open(ctx context.Context, conn *nats.Conn, params Params) (*Journal, error) {
	lease := cmp.Or(params.Lease, defaultLease)
	if lease < minLease {
		return nil, fail("Lease must be at least 200 ms", clinicaldoc.ErrInvalidArgument)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fail(err.Error(), err)
	}
	j := &Journal{lease: lease, quick: min(defaultQuick, lease/3), patience: defaultPatience, reading: make(chan struct{}, 1)}
	err = patiently(ctx, j.patience, func(ctx context.Context) error { return j.open(ctx, js, params) })
	if err != nil {
		return nil, fail("the bucket "+cmp.Or(params.Bucket, defaultBucket)+" cannot be opened: "+err.Error(), err)
	}
	return j, nil
}

// open opens the buckets. The first one knows how many there are: where each write is synced, several can be at once.
func (j *Journal) open(ctx context.Context, js jetstream.JetStream, params Params) error {
	name, count := cmp.Or(params.Bucket, defaultBucket), singleBuckets
	if params.Replicas > 1 {
		count = 1
	}
	first, err := openBucket(ctx, js, name, params.Replicas, jetstream.FileStorage)
	if err != nil {
		return err
	}
	if _, err = first.Create(ctx, countKey, []byte(strconv.Itoa(count))); isConflict(err) {
		var entry jetstream.KeyValueEntry
		if entry, err = first.Get(ctx, countKey); err == nil {
			count, err = strconv.Atoi(string(entry.Value()))
		}
	}
	j.buckets = []*bucket{first}
	for n := 1; n < count && err == nil; n++ {
		var next *bucket
		next, err = openBucket(ctx, js, fmt.Sprintf("%s-%d", name, n), params.Replicas, jetstream.FileStorage)
		j.buckets = append(j.buckets, next)
	}
	return err
}

func openBucket(ctx context.Context, js jetstream.JetStream, name string, replicas int, storage jetstream.StorageType) (*bucket, error) {
	_, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: name, Replicas: max(replicas, 1), Storage: storage})
	if err != nil && !errors.Is(err, jetstream.ErrBucketExists) {
		return nil, err
	}
	stream, err := js.Stream(ctx, "KV_"+name)
	if err != nil {
		return nil, err
	}
	// Replicas that lag behind must not be read.
	if config := stream.CachedInfo().Config; config.AllowDirect && config.Replicas > 1 {
		config.AllowDirect = false
		if stream, err = js.UpdateStream(ctx, config); err != nil {
			return nil, err
		}
	}
	kv, err := js.KeyValue(ctx, name) // only now: it remembers whom to ask
	return &bucket{KeyValue: kv, stream: stream, records: "$KV." + name + "." + recordPrefix}, err
}

// record is what the bucket holds of a key.
type record struct {
	Owner string       `json:"owner,omitempty"` // who has the claim; empty: nobody
	Beat  string       `json:"beat,omitempty"`  // of this write alone, so that its writer knows it
	Entry ingest.Entry `json:"entry"`
}

const (
	serviceKey = "service"
	countKey   = "buckets"
)

// records is the bucket that has the key's record.
func (j *Journal) records(key ingest.Key) *bucket {
	return j.buckets[int(key[0])%len(j.buckets)]
}

const recordPrefix = "r."

func recordKey(key ingest.Key) string { return recordPrefix + key.String() }

// Bind implements [ingest.Journal].
func (j *Journal) Bind(ctx context.Context, owner ingest.Owner) (ingest.Binding, error) {
	service := owner.Service
	err := patiently(ctx, j.patience, func(ctx context.Context) error {
		_, err := j.buckets[0].Create(ctx, serviceKey, []byte(service))
		return err
	})
	if err == nil {
		return ingest.Binding{Origin: service}, nil
	}
	if !isConflict(err) {
		return ingest.Binding{}, unreachable(err)
	}
	entry, err := j.get(ctx, j.buckets[0], serviceKey)
	if err != nil {
		return ingest.Binding{}, unreachable(err)
	}
	bound := string(entry.Value())
	if ingest.ServiceName(bound) != ingest.ServiceName(service) {
		return ingest.Binding{}, fail("the journal belongs to "+bound+"; "+service+" needs a bucket of its own", ingest.ErrOtherService)
	}
	return ingest.Binding{Origin: bound}, nil
}

// Claim implements [ingest.Journal]. While another worker's lease on the key is running it waits, for one lease at most, to see
// whether that worker lives. The lease on a new key is written only when its upload takes a while: until then another worker
// may begin it too, and which of them finishes is decided when they commit.
func (j *Journal) Claim(ctx context.Context, key ingest.Key) (ingest.Claim, error) {
	for {
		r, revision, err := j.read(ctx, key)
		if err != nil {
			return nil, err
		}
		c := &claim{journal: j, key: key, record: r, revision: revision}
		if r.Entry.State == ingest.StateCreated {
			return c, nil
		}
		c.owner = rand.Text()
		if r.Entry.State == 0 || r.Entry.State == ingest.StateRefused {
			c.record.Entry = ingest.Entry{Key: key, State: ingest.StateClaimed, At: time.Now()}
		}
		if revision == 0 {
			c.keep(ctx, j.quick)
			return c, nil
		}
		if r.Owner != "" {
			if err := j.awaitSilence(ctx, key, revision); err != nil {
				return nil, err
			}
		}
		err = c.write(ctx, c.record.Entry)
		switch {
		case err == nil:
			c.keep(ctx, j.lease/3)
			return c, nil
		case !errors.Is(err, ingest.ErrTaken):
			return nil, err
		}
	}
}

// patiently does something that cannot do harm, until it succeeds, its error is an answer, or patience is at its end.
func patiently(ctx context.Context, patience time.Duration, do func(ctx context.Context) error) error {
	for begun := time.Now(); ; {
		err := within(ctx, do)
		if err == nil || errors.Is(err, jetstream.ErrKeyNotFound) || isConflict(err) {
			return err
		}
		if ctx.Err() != nil || time.Since(begun) > patience || !pause(ctx) {
			return err
		}
	}
}

// within bounds one request.
func within(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return do(ctx)
}

func pause(ctx context.Context) bool {
	timer := time.NewTimer(patientlyEach)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// read returns what the bucket holds of a key: nothing, and revision 0, if it is new.
func (j *Journal) read(ctx context.Context, key ingest.Key) (record, uint64, error) {
	entry, err := j.get(ctx, j.records(key), recordKey(key))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return record{}, 0, nil
	}
	if err != nil {
		return record{}, 0, unreachable(err)
	}
	var r record
	if err := json.Unmarshal(entry.Value(), &r); err != nil || r.Entry.Key != key {
		return record{}, 0, errDamaged
	}
	return r, entry.Revision(), nil
}

func (j *Journal) get(ctx context.Context, from *bucket, name string) (entry jetstream.KeyValueEntry, err error) {
	err = patiently(ctx, j.patience, func(ctx context.Context) error {
		entry, err = from.Get(ctx, name)
		return err
	})
	return entry, err
}

// awaitSilence waits until a revision has not moved for a lease, by this machine's clock alone.
func (j *Journal) awaitSilence(ctx context.Context, key ingest.Key, revision uint64) error {
	timer := time.NewTimer(j.lease)
	defer timer.Stop()
	look := time.NewTicker(j.lease / 4)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		case <-look.C:
			r, now, err := j.read(ctx, key)
			if err != nil {
				return err
			}
			if now != revision && r.Owner != "" && r.Entry.State != ingest.StateCreated {
				return fail("another worker has the recording", ingest.ErrTaken)
			}
			if now != revision {
				return nil
			}
		}
	}
}

var errDamaged = fail("a record of the journal is damaged", ingest.ErrJournalDamaged)

// isConflict reports whether another write came first.
func isConflict(err error) bool {
	return errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch)
}
