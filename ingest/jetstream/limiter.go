package jetstream

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// LimiterParams says how many requests a fleet may make.
type LimiterParams struct {
	Bucket    string  // its name; empty: clinicaldoc-limit
	PerSecond float64 // requests of the whole fleet
}

// Limiter is a [clinicaldoc.Limiter] that a fleet shares: one key of a bucket says when the next request may go. Workers take a
// few places at a time; those of one that dies are lost, which does no harm. It relies on the workers' clocks.
type Limiter struct {
	kv       jetstream.KeyValue
	interval time.Duration

	mu    sync.Mutex
	next  time.Time // of the places that this worker has
	count int
}

const (
	defaultLimit = "clinicaldoc-limit"
	places       = 10 // at a time
	placeKey     = "next"
)

// OpenLimiter opens the limiter. All workers must give the same params.
func OpenLimiter(ctx context.Context, conn *nats.Conn, params LimiterParams) (*Limiter, error) {
	if !(params.PerSecond > 0) {
		return nil, fail("PerSecond must be positive", clinicaldoc.ErrInvalidArgument)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fail(err.Error(), err)
	}
	bucket := params.Bucket
	if bucket == "" {
		bucket = defaultLimit
	}
	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: bucket, Storage: jetstream.MemoryStorage})
	if errors.Is(err, jetstream.ErrBucketExists) {
		kv, err = js.KeyValue(ctx, bucket)
	}
	if err != nil {
		return nil, fail("the bucket "+bucket+" cannot be opened: "+err.Error(), err)
	}
	return &Limiter{kv: kv, interval: time.Duration(float64(time.Second) / params.PerSecond)}, nil
}

// Wait returns when the next request may go.
func (l *Limiter) Wait(ctx context.Context) error {
	at, err := l.take(ctx)
	if err != nil {
		return err
	}
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take returns the time of this worker's next place.
func (l *Limiter) take(ctx context.Context) (time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Places of the past would go all at once.
	if l.count > 0 && time.Since(l.next) > places*l.interval {
		l.count = 0
	}
	if l.count == 0 {
		first, err := l.reserve(ctx)
		if err != nil {
			return time.Time{}, err
		}
		l.next, l.count = first, places
	}
	at := l.next
	l.next = at.Add(l.interval)
	l.count--
	return at, nil
}

// reserve takes places for this worker, from the first that is free on.
func (l *Limiter) reserve(ctx context.Context) (time.Time, error) {
	for {
		var free time.Time
		var revision uint64
		entry, err := l.kv.Get(ctx, placeKey)
		switch {
		case err == nil && len(entry.Value()) == 8:
			free, revision = time.Unix(0, int64(binary.BigEndian.Uint64(entry.Value()))), entry.Revision() //nolint:gosec // as it was written
		case err != nil && !errors.Is(err, jetstream.ErrKeyNotFound):
			return time.Time{}, fail("the limiter cannot be reached: "+err.Error(), err)
		}
		if now := time.Now(); free.Before(now) {
			free = now
		}
		after := binary.BigEndian.AppendUint64(nil, uint64(free.Add(places*l.interval).UnixNano()))
		if revision == 0 {
			_, err = l.kv.Create(ctx, placeKey, after)
		} else {
			_, err = l.kv.Update(ctx, placeKey, after, revision)
		}
		if err == nil {
			return free, nil
		}
		if !isConflict(err) {
			return time.Time{}, fail("the limiter cannot be reached: "+err.Error(), err)
		}
	}
}
