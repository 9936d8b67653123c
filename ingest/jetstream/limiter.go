package jetstream

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// Limiter is a [clinicaldoc.Limiter] that a fleet shares. It uses only the server's clock. No worker reserves a
// place in advance, so a worker that dies takes none from the others.
//
// A message of a stream records the latest place that was taken. A worker takes the next one, when it is due, by a
// compare-and-set.
type Limiter struct {
	store        *store
	interval     time.Duration // between two requests
	placesAtOnce int64         // how many are taken at once: more than one if the interval is short

	waitTurn   turn      // lets one waiter at a time take places
	placesLeft int64     // places that were taken and not used yet
	nextPlace  time.Time // when the next of them is due, by this process's clock
}

const (
	// together is the time for which places are taken at once; a worker that dies wastes no more.
	together = 50 * time.Millisecond
	// horizon is by how much the latest place can be ahead of the server's clock, beyond the places themselves.
	// More than that means that the clock was set back, as a new leader's may be.
	horizon = time.Second
	// limitTimeout is for one request of the limiter. Without a response no request goes.
	limitTimeout = 2 * time.Second
	// spread keeps workers that wait for the same place from looking at the same moment, as a part of the interval.
	spread = 0.1
)

func newLimiter(s *store, perSecond float64) (*Limiter, error) {
	if !(perSecond > 0) || math.IsInf(perSecond, 0) {
		return nil, fail("the requests per second must be positive", clinicaldoc.ErrInvalidArgument)
	}
	interval := max(time.Duration(float64(time.Second)/perSecond), 1)
	placesAtOnce := max(int64(together/interval), 1)
	return &Limiter{store: s, interval: interval, placesAtOnce: placesAtOnce, waitTurn: newTurn()}, nil
}

// Wait returns when the next request may go. If the server does not respond, no request goes, and Wait returns an
// error after some seconds.
func (l *Limiter) Wait(ctx context.Context) error {
	if err := l.waitTurn.take(ctx); err != nil {
		return err
	}
	defer l.waitTurn.leave()
	isLate := time.Since(l.nextPlace) > together // the places left are of the past, and would all be used at once
	if l.placesLeft == 0 || isLate {
		if err := l.take(ctx); err != nil {
			return err
		}
	}
	if !sleep(ctx, time.Until(l.nextPlace)) {
		return ctx.Err()
	}
	l.placesLeft--
	l.nextPlace = l.nextPlace.Add(l.interval)
	return nil
}

// take waits until the next places are due, and takes them.
func (l *Limiter) take(ctx context.Context) error {
	for begun := time.Now(); ; {
		wait, err := l.tryTake(ctx)
		switch {
		case err == nil && wait == 0:
			l.placesLeft = l.placesAtOnce
			l.nextPlace = time.Now()
			return nil
		case err == nil:
			if !sleep(ctx, wait+time.Duration(random()*spread*float64(l.interval))) {
				return ctx.Err()
			}
			begun = time.Now() // the server responds
		case !mayRepeat(ctx, begun, l.store.patience):
			return unreachable(err)
		}
	}
}

// tryTake takes the next places if they are due, and returns 0. Otherwise it returns how long to wait before the next
// try: until they are due, or for an interval if another worker was faster.
func (l *Limiter) tryTake(ctx context.Context) (wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, limitTimeout)
	defer cancel()
	stream, err := l.store.js.Stream(ctx, l.store.limitName())
	if errors.Is(err, jetstream.ErrStreamNotFound) { // a server that keeps it in memory was restarted
		config := l.store.config(l.store.limitName(), l.store.subject("limit")+"*")
		config.Storage = jetstream.MemoryStorage
		stream, err = l.store.js.CreateStream(ctx, config)
	}
	if err != nil {
		return 0, err
	}
	info := stream.CachedInfo()
	last := info.State.LastSeq
	var latest time.Time
	if last > 0 {
		message, err := stream.GetMsg(ctx, last)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound): // another worker took a place meanwhile
			return l.interval, nil
		case err != nil:
			return 0, err
		}
		latest = placeOf(message.Data)
	}
	place, wait := l.place(latest, info.TimeStamp)
	if wait > 0 {
		return wait, nil
	}
	value := binary.BigEndian.AppendUint64(nil, uint64(place.UnixNano()))
	_, err = l.store.js.Publish(ctx, l.store.subject("limit")+"place", value, jetstream.WithExpectLastSequence(last))
	var refused *jetstream.APIError
	if errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
		return l.interval, nil
	}
	return 0, err
}

// placeOf returns the place in a message, or the zero time if the message cannot be read.
func placeOf(data []byte) time.Time {
	if len(data) != 8 {
		return time.Time{}
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(data))) //nolint:gosec // as it was written
}

// place returns the last of the places that a worker takes at once, if the first of them is due now. A place is the
// time of one request. The first one follows the latest place that was taken. If it is not due, place returns only how
// long to wait for it. A worker that takes places up to an interval late does not make the others late.
func (l *Limiter) place(latest, now time.Time) (last time.Time, wait time.Duration) {
	first := latest.Add(l.interval)
	fromFirstToLast := time.Duration(l.placesAtOnce-1) * l.interval
	isClockSetBack := first.Sub(now) > fromFirstToLast+l.interval+horizon
	if isClockSetBack {
		first = now
	}
	if first.After(now) {
		return time.Time{}, first.Sub(now)
	}
	earliest := now.Add(-l.interval)
	if first.Before(earliest) { // nobody took the places before, and they are lost
		first = earliest
	}
	return first.Add(fromFirstToLast), 0
}
