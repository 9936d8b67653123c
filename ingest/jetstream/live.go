package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// live is a bucket in which the workers of a fleet show that they live, and the fleet's pause. Its entries expire, and
// the bucket is made again if it is gone.
type live struct {
	store  *store
	kv     jetstream.KeyValue
	stream jetstream.Stream
}

const (
	beatEvery = 10 * time.Second // a worker shows that it lives
	aliveFor  = 30 * time.Second // after its last beat a worker counts as dead
	liveFor   = 10 * time.Minute // until an entry expires
	pauseKey  = "pause"
)

// liveWorker is what a worker writes of itself.
type liveWorker struct {
	Worker
	Kind      string `json:"kind,omitempty"` // of the failure for which it pauses; empty if it does not
	writtenAt time.Time
}

// livePause is the latest pause of the fleet.
type livePause struct {
	Pause
	Kind           string `json:"kind"` // of the failure
	By             string `json:"by"`   // the ID of the worker that leads it
	ProbesWithNext int    `json:"step"` // the number of probes, with the next one
	Over           bool   `json:"over"` // its leader ended it
}

// lasts reports whether the fleet pauses: the leader has not ended the pause, and is not late with its probe, as it is
// if it died. A nil pause does not last.
func (l *livePause) lasts(now time.Time) bool {
	return l != nil && !l.Over && now.Before(l.Until.Add(pauseMargin))
}

// newLive opens the bucket, and makes it if it does not exist.
func newLive(ctx context.Context, s *store) (live, error) {
	config := jetstream.KeyValueConfig{Bucket: s.liveName(), TTL: liveFor, Replicas: s.header.Replicas}
	kv, err := s.js.CreateKeyValue(ctx, config)
	if errors.Is(err, jetstream.ErrBucketExists) {
		kv, err = s.js.KeyValue(ctx, s.liveName())
	}
	if err != nil {
		return live{}, unreachable(err)
	}
	stream, err := s.js.Stream(ctx, "KV_"+s.liveName())
	if err != nil {
		return live{}, unreachable(err)
	}
	return live{s, kv, stream}, nil
}

// now is the time by the server's clock.
func (l live) now(ctx context.Context) (time.Time, error) {
	info, err := l.stream.Info(ctx)
	if err != nil {
		return time.Time{}, err
	}
	return info.TimeStamp, nil
}

// beat writes what a worker says of itself. If that fails, it makes the bucket again, for the next beat.
func (l live) beat(ctx context.Context, id string, w liveWorker) error {
	value, err := json.Marshal(w)
	if err != nil {
		return err
	}
	if _, err = l.kv.Put(ctx, "w."+id, value); err != nil {
		_, err = newLive(ctx, l.store)
	}
	return err
}

// removeWorker removes a worker that has ended.
func (l live) removeWorker(ctx context.Context, id string) {
	_ = within(ctx, func(ctx context.Context) error { return l.kv.Purge(ctx, "w."+id) })
}

// workers returns the workers that are alive, by their IDs.
func (l live) workers(ctx context.Context) (map[string]liveWorker, error) {
	info, err := l.stream.Info(ctx, jetstream.WithSubjectFilter(">"))
	if err != nil {
		return nil, err
	}
	workers := map[string]liveWorker{}
	for subject := range info.State.Subjects {
		_, id, ok := strings.Cut(subject, ".w.")
		if !ok {
			continue
		}
		entry, err := l.kv.Get(ctx, "w."+id)
		isGone := errors.Is(err, jetstream.ErrKeyNotFound)
		isForeign := errors.Is(err, jetstream.ErrInvalidKey) // no worker writes such a key
		if isGone || isForeign {
			continue
		}
		if err != nil {
			return nil, err
		}
		w := liveWorker{writtenAt: entry.Created()}
		isAlive := info.TimeStamp.Sub(w.writtenAt) < aliveFor // by the server's clock, both
		if json.Unmarshal(entry.Value(), &w) == nil && isAlive {
			workers[id] = w
		}
	}
	return workers, nil
}

// pause returns the latest pause of the fleet and its revision, or nil and 0 if there was none. The pause may be over.
func (l live) pause(ctx context.Context) (*livePause, uint64, error) {
	entry, err := l.kv.Get(ctx, pauseKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	var p livePause
	if err := json.Unmarshal(entry.Value(), &p); err != nil {
		return nil, 0, nil //nolint:nilerr // what cannot be read is no pause
	}
	return &p, entry.Revision(), nil
}

// setPause replaces the pause that was read with that revision. It fails if another worker has replaced it since.
func (l live) setPause(ctx context.Context, p livePause, revision uint64) error {
	value, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if revision == 0 {
		_, err = l.kv.Create(ctx, pauseKey, value)
		return err
	}
	_, err = l.kv.Update(ctx, pauseKey, value, revision)
	return err
}
