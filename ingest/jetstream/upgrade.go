package jetstream

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A record of format 3 has the stage of its note, earlier notes and excluded notes. Programs of format 2 read it too,
// and would drop these when they save it. So no program of format 2 may work beside one of format 3:
//
//   - A store of format 2 is not upgraded while its workers run.
//   - Programs of format 2 compare the metadata of each stream with the store's id, when they join and every ten
//     seconds. The upgrade first changes those of the queue: the fence. Then it waits until all have seen it.
//   - The header comes last. What is cut off before that is done again by the next Join.

// formatBefore is the format that Join upgrades.
const formatBefore = 2

// fenceTime is how long programs of the format before may go on after the fence was raised.
const fenceTime = verifyEvery + requestTimeout

// fence is the id in the metadata of the queue of a store with that format.
func (s *store) fence(format int) string {
	if format == formatBefore {
		return s.header.ID
	}
	return s.fencePrefix() + strconv.Itoa(format)
}

func (s *store) fencePrefix() string { return s.header.ID + "-format-" }

// isFenced reports whether a later version has begun to upgrade the store.
func (s *store) isFenced(is jetstream.StreamConfig) bool {
	label := is.Metadata[idLabel]
	isKnown := label == s.fence(s.header.Format) || label == s.fence(format)
	return strings.HasPrefix(label, s.fencePrefix()) && !isKnown
}

// differs says in what a stream differs from what it has to be. A store of the format before may have the fence.
func (s *store) differs(is, want jetstream.StreamConfig) string {
	if s.header.Format == formatBefore && is.Metadata[idLabel] == s.fence(format) {
		want.Metadata = map[string]string{idLabel: s.fence(format), nameLabel: s.name}
	}
	return unlike(is, want)
}

// upgrade makes a store of the format before one of this format. It returns an error matching ErrOlderWorkers while
// workers of that format run.
func (s *store) upgrade(ctx context.Context) error {
	needed := false
	err := untilAnswered(ctx, s.patience, func(ctx context.Context) (err error) {
		needed, err = s.beginUpgrade(ctx)
		return err
	})
	if err != nil || !needed {
		return err
	}
	if !pause(ctx, s.fenceTime) {
		return fail("the upgrade of the fleet's store was ended; join again", ctx.Err())
	}
	return untilAnswered(ctx, s.patience, s.endUpgrade)
}

// beginUpgrade keeps programs of the format before out of the store. It reports false if the store has this format.
func (s *store) beginUpgrade(ctx context.Context) (needed bool, err error) {
	h, err := s.readHeader(ctx)
	if err != nil || h.Format == format {
		return false, err
	}
	s.header = h
	if err := s.verify(ctx, time.Now()); err != nil {
		return true, err
	}
	if err := s.mustHaveNoWorkers(ctx); err != nil {
		return true, err
	}
	return true, s.raiseFence(ctx)
}

// endUpgrade changes the format in the header, and nothing else.
func (s *store) endUpgrade(ctx context.Context) error {
	root, err := s.js.KeyValue(ctx, s.name)
	if err != nil {
		return unreachable(err)
	}
	for {
		entry, err := root.Get(ctx, headerKey)
		if err != nil {
			return unreachable(err)
		}
		var h storeHeader
		if err := json.Unmarshal(entry.Value(), &h); err != nil {
			return errFormat
		}
		if h.Format != formatBefore { // another was faster
			return nil
		}
		h.Format = format
		value, err := json.Marshal(h)
		if err != nil {
			return err
		}
		_, err = root.Update(ctx, headerKey, value, entry.Revision())
		switch {
		case err == nil:
			return nil
		case !isConflict(err):
			return unreachable(err)
		}
	}
}

func (s *store) mustHaveNoWorkers(ctx context.Context) error {
	l, err := newLive(ctx, s)
	if err != nil {
		return err
	}
	workers, err := l.workers(ctx)
	if err != nil {
		return unreachable(err)
	}
	var hosts []string
	for _, w := range workers {
		hosts = append(hosts, w.Host)
	}
	if len(hosts) == 0 {
		return nil
	}
	slices.Sort(hosts)
	return fail("workers of an older version run in the fleet "+s.name+" ("+strings.Join(slices.Compact(hosts), ", ")+
		"). End all of them and join again: it upgrades the store. A worker that was killed counts for 30 seconds",
		ErrOlderWorkers)
}

// raiseFence changes the queue's metadata and nothing else: limits are an administrator's own.
func (s *store) raiseFence(ctx context.Context) error {
	stream, err := s.js.Stream(ctx, s.queueName())
	if err != nil {
		return unreachable(err)
	}
	config := stream.CachedInfo().Config
	config.Metadata[idLabel] = s.fence(format)
	if _, err := s.js.UpdateStream(ctx, config); err != nil {
		return unreachable(err)
	}
	return nil
}
