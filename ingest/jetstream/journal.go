package jetstream

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// Params says where the journal is kept. The zero value is a bucket of one replica.
type Params struct {
	Bucket   string // its name; empty: clinicaldoc-ingest
	Replicas int    // of the bucket; 0: 1. Three survive the loss of a server
	// Lease is how long a recording stays with a worker that shows no sign of life; 0: 30 seconds. It must outlast the
	// election of a new leader, which takes some six seconds: at least 15 seconds in a cluster.
	Lease time.Duration
}

const (
	defaultBucket = "clinicaldoc-ingest"
	defaultLease  = 30 * time.Second
	minLease      = 200 * time.Millisecond
	// requestTimeout is for one request: what was sent to a server that died then has no response.
	requestTimeout  = 5 * time.Second
	defaultPatience = 20 * time.Second
	patientlyEach   = 100 * time.Millisecond
)

// Journal is an [ingest.Journal] in a key-value bucket, for any number of processes at once.
type Journal struct {
	kv       jetstream.KeyValue
	lease    time.Duration
	patience time.Duration // how long a cluster may be without a leader
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
	j := &Journal{lease: lease, patience: defaultPatience}
	err = patiently(ctx, j.patience, func(ctx context.Context) error { return j.open(ctx, js, params) })
	if err != nil {
		return nil, fail("the bucket "+cmp.Or(params.Bucket, defaultBucket)+" cannot be opened: "+err.Error(), err)
	}
	return j, nil
}

func (j *Journal) open(ctx context.Context, js jetstream.JetStream, params Params) error {
	bucket := cmp.Or(params.Bucket, defaultBucket)
	_, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: bucket, Replicas: max(params.Replicas, 1), Storage: jetstream.FileStorage})
	if err != nil && !errors.Is(err, jetstream.ErrBucketExists) {
		return err
	}
	if err := readFromLeader(ctx, js, bucket); err != nil {
		return err
	}
	j.kv, err = js.KeyValue(ctx, bucket) // only now: it remembers whom to ask
	return err
}

// readFromLeader keeps replicas that lag behind from being read.
func readFromLeader(ctx context.Context, js jetstream.JetStream, bucket string) error {
	stream, err := js.Stream(ctx, "KV_"+bucket)
	if err != nil {
		return err
	}
	config := stream.CachedInfo().Config
	if !config.AllowDirect {
		return nil
	}
	config.AllowDirect = false
	_, err = js.UpdateStream(ctx, config)
	return err
}

// record is what the bucket holds of a key.
type record struct {
	Owner string       `json:"owner,omitempty"` // who has the claim; empty: nobody
	Beat  string       `json:"beat,omitempty"`  // of this write alone, so that its writer knows it
	Entry ingest.Entry `json:"entry"`
}

const serviceKey = "service"

func recordKey(key ingest.Key) string { return "r." + key.String() }

func patientKey(patient uint32, key ingest.Key) string {
	return fmt.Sprintf("p.%08x.%s", patient, key)
}

// Bind implements [ingest.Journal].
func (j *Journal) Bind(ctx context.Context, service string) error {
	err := patiently(ctx, j.patience, func(ctx context.Context) error {
		_, err := j.kv.Create(ctx, serviceKey, []byte(service))
		return err
	})
	if err == nil {
		return nil
	}
	if !isConflict(err) {
		return unreachable(err)
	}
	entry, err := j.get(ctx, serviceKey)
	if err != nil {
		return unreachable(err)
	}
	if bound := string(entry.Value()); bound != service {
		return fail("the journal belongs to "+bound+"; "+service+" needs a bucket of its own", ingest.ErrOtherService)
	}
	return nil
}

// Claim implements [ingest.Journal]. While another worker's lease on the key is running it waits, for one lease at most, to see
// whether that worker lives.
func (j *Journal) Claim(ctx context.Context, key ingest.Key) (ingest.Claim, error) {
	fresh := &claim{journal: j, key: key, owner: rand.Text()}
	if err := fresh.write(ctx, ingest.Entry{State: ingest.StateClaimed, At: time.Now()}); err == nil {
		fresh.keep(ctx)
		return fresh, nil
	} else if !errors.Is(err, ingest.ErrTaken) {
		return nil, err
	}
	for {
		r, revision, err := j.read(ctx, key)
		if err != nil {
			return nil, err
		}
		if r.Entry.State == ingest.StateCreated {
			return &claim{journal: j, key: key, record: r, revision: revision}, nil
		}
		if r.Owner != "" {
			if err := j.awaitSilence(ctx, key, revision); err != nil {
				return nil, err
			}
		}
		c := &claim{journal: j, key: key, record: r, owner: rand.Text(), revision: revision}
		if r.Entry.State == 0 || r.Entry.State == ingest.StateRefused {
			c.record.Entry = ingest.Entry{Key: key, State: ingest.StateClaimed, At: time.Now()}
		}
		err = c.write(ctx, c.record.Entry)
		switch {
		case err == nil:
			c.keep(ctx)
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
	entry, err := j.get(ctx, recordKey(key))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return record{}, 0, nil
	}
	if err != nil {
		return record{}, 0, unreachable(err)
	}
	var r record
	if err := json.Unmarshal(entry.Value(), &r); err != nil || r.Entry.Key != key {
		return record{}, 0, fail("a record of the journal is damaged", ingest.ErrJournalDamaged)
	}
	return r, entry.Revision(), nil
}

func (j *Journal) get(ctx context.Context, name string) (entry jetstream.KeyValueEntry, err error) {
	err = patiently(ctx, j.patience, func(ctx context.Context) error {
		entry, err = j.kv.Get(ctx, name)
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

// Kin implements [ingest.Journal].
func (j *Journal) Kin(ctx context.Context, patient uint32, since time.Time) ([]ingest.Entry, error) {
	var names []string
	err := patiently(ctx, j.patience, func(ctx context.Context) (err error) {
		names, err = j.list(ctx, fmt.Sprintf("p.%08x.*", patient))
		return err
	})
	if err != nil {
		return nil, unreachable(err)
	}
	var kin []ingest.Entry
	for _, name := range names {
		entry, err := j.get(ctx, "r."+name[strings.LastIndexByte(name, '.')+1:])
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue
		}
		var r record
		if err != nil {
			return nil, unreachable(err)
		}
		if err := json.Unmarshal(entry.Value(), &r); err != nil {
			return nil, fail("a record of the journal is damaged", ingest.ErrJournalDamaged)
		}
		if state := r.Entry.State; !r.Entry.SentAt.Before(since) && (state == ingest.StateCommitting || state == ingest.StateCreated || state == ingest.StateInDoubt) {
			kin = append(kin, r.Entry)
		}
	}
	return kin, nil
}

// list returns the keys that match, all of them or an error: a watcher can be silent for long after a server's restart.
func (j *Journal) list(ctx context.Context, filter string) ([]string, error) {
	keys, err := j.kv.ListKeysFiltered(ctx, filter)
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range keys.Keys() {
		names = append(names, name)
	}
	return names, ctx.Err()
}

// isConflict reports whether another write came first.
func isConflict(err error) bool {
	return errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch)
}
