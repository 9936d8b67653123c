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
//     seconds. The upgrade first changes those of the queue. Then it waits until all programs have read them, and
//     ended.
//   - The header comes last. What is cut off before that is done again by the next Join.

// formatBefore is the format that Join upgrades.
const formatBefore = 2

// upgradeWait is how long programs of the format before may go on after the queue's metadata were changed.
const upgradeWait = verifyEvery + requestTimeout

// queueLabel returns the ID in the metadata of the queue of a store with that format. In the format before it is the
// store's ID; later formats append theirs, and programs of other formats reject it.
func (s *store) queueLabel(format int) string {
	if format == formatBefore {
		return s.header.ID
	}
	return s.formatPrefix() + strconv.Itoa(format)
}

func (s *store) formatPrefix() string { return s.header.ID + "-format-" }

// isUpgradedBeyond reports whether a later version has begun to upgrade the store to its own format.
func (s *store) isUpgradedBeyond(is jetstream.StreamConfig) bool {
	label := is.Metadata[idLabel]
	isKnown := label == s.queueLabel(s.header.Format) || label == s.queueLabel(format)
	return strings.HasPrefix(label, s.formatPrefix()) && !isKnown
}

// differenceOf is firstDifference, but accepts the label that an upgrade of a store of the format before has written
// before it was cut off.
func (s *store) differenceOf(is, want jetstream.StreamConfig) string {
	if s.header.Format == formatBefore && is.Metadata[idLabel] == s.queueLabel(format) {
		want.Metadata = map[string]string{idLabel: s.queueLabel(format), nameLabel: s.name}
	}
	return firstDifference(is, want)
}

// upgrade makes a store of the format before one of this format. It returns an error matching ErrOlderWorkers while
// workers of that format run.
func (s *store) upgrade(ctx context.Context) error {
	isNeeded := false
	err := untilAnswered(ctx, s.patience, func(ctx context.Context) (err error) {
		isNeeded, err = s.beginUpgrade(ctx)
		return err
	})
	if err != nil || !isNeeded {
		return err
	}
	if !sleep(ctx, s.upgradeWait) { // programs of the format before end meanwhile
		return fail("the upgrade of the fleet's store was ended; join again", ctx.Err())
	}
	return untilAnswered(ctx, s.patience, s.endUpgrade)
}

// beginUpgrade keeps programs of the format before out of the store. It reports false, and changes nothing, if the
// store has this format already.
func (s *store) beginUpgrade(ctx context.Context) (isNeeded bool, err error) {
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
	return true, s.relabelQueue(ctx)
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
		if h.Format != formatBefore { // another program was faster
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

// mustHaveNoWorkers returns an error matching ErrOlderWorkers, with their hosts, if workers run in the fleet.
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

// relabelQueue changes the ID in the queue's metadata, and nothing else: limits are an administrator's own.
func (s *store) relabelQueue(ctx context.Context) error {
	stream, err := s.js.Stream(ctx, s.queueName())
	if err != nil {
		return unreachable(err)
	}
	config := stream.CachedInfo().Config
	config.Metadata[idLabel] = s.queueLabel(format)
	if _, err := s.js.UpdateStream(ctx, config); err != nil {
		return unreachable(err)
	}
	return nil
}
