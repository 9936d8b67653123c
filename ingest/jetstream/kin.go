package jetstream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// EntriesForPatient implements [ingest.Journal]. It is asked only about recordings in doubt, so that a journal keeps no index of patients: it
// reads what was written in the time that is asked for once, and later what is new.
func (j *Journal) EntriesForPatient(ctx context.Context, patient uint32, since time.Time) ([]ingest.Entry, error) {
	select {
	case j.reading <- struct{}{}:
		defer func() { <-j.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var kin []ingest.Entry
	for _, b := range j.buckets {
		if since.Before(b.since) || time.Since(b.begun) > forget {
			b.begun, b.since, b.next, b.entries, b.keys = time.Now(), since, 0, map[ingest.Key]ingest.Entry{}, map[uint32][]ingest.Key{}
		}
		if err := j.catchUp(ctx, b); err != nil {
			return nil, err
		}
		for _, key := range b.keys[patient] {
			if e := b.entries[key]; sent(e) && e.Patient == patient && !e.SentAt.Before(since) {
				kin = append(kin, e)
			}
		}
	}
	return kin, nil
}

// bucket is a part of the journal, and what was read of it for EntriesForPatient.
type bucket struct {
	jetstream.KeyValue
	stream  jetstream.Stream
	records string // how the subjects of records begin

	begun time.Time // when it began to be read; zero: never
	since time.Time // records that were sent before are not known
	next  uint64    // the first revision that was not read; 0: none was

	entries map[ingest.Key]ingest.Entry
	keys    map[uint32][]ingest.Key // by patient, in whatever state they are by now
}

const (
	skew   = time.Hour      // by which a worker's clock may be ahead of the server's
	forget = 24 * time.Hour // after which it is all read anew, so that a program that never ends does not keep what is long past
	atOnce = 500            // records
)

// rounds are enough: a record that is written anew moves to the end, and is overlooked in a round if it moves there just before
// it would have been read. No record is written so often in so short a time.
const rounds = 8

// catchUp reads what was written until now, as the leader of the bucket tells, and what moved meanwhile.
func (j *Journal) catchUp(ctx context.Context, b *bucket) error {
	for range rounds {
		var state jetstream.StreamState
		err := patiently(ctx, j.patience, func(ctx context.Context) error {
			info, err := b.stream.Info(ctx)
			if err == nil {
				state = info.State
			}
			return err
		})
		if err != nil {
			return unreachable(err)
		}
		if b.next == 0 && state.LastTime.Before(b.since.Add(-skew)) {
			b.next = state.LastSeq + 1
		}
		if b.next > state.LastSeq {
			return nil
		}
		if err := j.readUntil(ctx, b, state.LastSeq); err != nil {
			return err
		}
	}
	return nil
}

// readUntil reads on for as long as anything comes.
func (j *Journal) readUntil(ctx context.Context, b *bucket, last uint64) error {
	for b.next <= last {
		var damage error
		err := patiently(ctx, j.patience, func(ctx context.Context) error {
			before := b.next
			err := b.read(ctx, last)
			if errors.Is(err, ingest.ErrJournalDamaged) {
				damage, err = err, nil
			}
			if b.next > before {
				err = nil // what is left comes next
			}
			return err
		})
		switch {
		case damage != nil:
			return damage
		case err != nil:
			return unreachable(err)
		}
	}
	return nil
}

var errBehind = errors.New("a replica lags behind")

// read reads records, in the order in which they were written, up to a revision that the leader knows of.
func (b *bucket) read(ctx context.Context, last uint64) error {
	config := jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: requestTimeout,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: b.next,
	}
	switch start := b.since.Add(-skew); {
	case b.next > 0:
	case b.since.IsZero():
		config.DeliverPolicy = jetstream.DeliverAllPolicy
	default:
		config.DeliverPolicy, config.OptStartTime = jetstream.DeliverByStartTimePolicy, &start
	}
	consumer, err := b.stream.CreateConsumer(ctx, config)
	if err != nil {
		return err
	}
	info := consumer.CachedInfo()
	defer func() { _ = b.stream.DeleteConsumer(context.WithoutCancel(ctx), info.Name) }()
	delivered := uint64(0)
	for pending := info.NumPending; b.next <= last; {
		if pending == 0 {
			return errBehind
		}
		batch, err := consumer.Fetch(int(min(pending, atOnce)), jetstream.FetchMaxWait(requestTimeout))
		if err != nil {
			return err
		}
		for message := range batch.Messages() {
			delivered++
			if pending, err = b.take(message, delivered); err != nil {
				return err
			}
		}
		if err := cmp.Or(batch.Error(), ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// take remembers a record that was sent, and returns how many are left. One that got lost on the way is missed by its number.
func (b *bucket) take(message jetstream.Msg, number uint64) (pending uint64, err error) {
	meta, err := message.Metadata()
	if err != nil {
		return 0, err
	}
	if meta.Sequence.Consumer != number {
		return 0, errBehind
	}
	if key, ok := strings.CutPrefix(message.Subject(), b.records); ok {
		var r record
		if err := json.Unmarshal(message.Data(), &r); err != nil || r.Entry.Key.String() != key {
			return 0, errDamaged
		}
		b.remember(r.Entry)
	}
	b.next = meta.Sequence.Stream + 1
	return meta.NumPending, nil
}

// remember keeps an entry for EntriesForPatient. Before it was sent it is nobody's kin.
func (b *bucket) remember(e ingest.Entry) {
	known, ok := b.entries[e.Key]
	switch {
	case !ok && !sent(e):
		return
	case !ok, sent(e) && e.Patient != known.Patient && !slices.Contains(b.keys[e.Patient], e.Key):
		b.keys[e.Patient] = append(b.keys[e.Patient], e.Key)
	}
	b.entries[e.Key] = e
}

func sent(e ingest.Entry) bool {
	return e.State == ingest.StateCommitting || e.State == ingest.StateCreated || e.State == ingest.StateInDoubt
}
