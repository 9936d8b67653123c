package jetstream

import (
	"cmp"
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
	Replicas  int     // of the bucket; 0: 1. Give it as many as the journal has: without it no request is made
	PerSecond float64 // requests of the whole fleet
}

// Limiter is a [clinicaldoc.Limiter] that a fleet shares: one key of a bucket says when the next request may go. Workers take a
// few places at a time; those of one that dies are lost, which does no harm. It relies on the workers' clocks.
type Limiter struct {
	kv       *bucket
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
	name := cmp.Or(params.Bucket, defaultLimit)
	var kv *bucket
	err = patiently(ctx, defaultPatience, func(ctx context.Context) error {
		kv, err = openBucket(ctx, js, name, params.Replicas, jetstream.MemoryStorage)
		return err
	})
	if err != nil {
		return nil, fail("the bucket "+name+" cannot be opened: "+err.Error(), err)
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

// reserve takes places for this worker, from the first that is free on. A cluster may be electing a leader; places that were
// taken without an answer are lost.
func (l *Limiter) reserve(ctx context.Context) (free time.Time, err error) {
	for {
		err = patiently(ctx, defaultPatience, func(ctx context.Context) error {
			free, err = l.tryReserve(ctx)
			return err
		})
		if !isConflict(err) {
			break
		}
	}
	if err != nil {
		return time.Time{}, fail("the limiter cannot be reached: "+err.Error(), err)
	}
	return free, nil
}

func (l *Limiter) tryReserve(ctx context.Context) (free time.Time, err error) {
	var revision uint64
	entry, err := l.kv.Get(ctx, placeKey)
	switch {
	case err == nil && len(entry.Value()) == 8:
		free, revision = time.Unix(0, int64(binary.BigEndian.Uint64(entry.Value()))), entry.Revision() //nolint:gosec // as it was written
	case err != nil && !errors.Is(err, jetstream.ErrKeyNotFound):
		return time.Time{}, err
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
	return free, err
}
