package jetstream

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// Entries lists what the journal knows of all recordings, in any order. A recording whose record is damaged is
// unresolved, and has only its key and no error. If the journal cannot be read, an error is yielded last. Listing a
// hundred thousand recordings takes about a second.
func (j *Journal) Entries(ctx context.Context) iter.Seq2[ingest.Entry, error] {
	return func(yield func(ingest.Entry, error) bool) {
		for _, b := range j.buckets {
			isMoreWanted, err := b.entries(ctx, j.store.patience, yield)
			if err != nil {
				yield(ingest.Entry{}, unreachable(err))
				return
			}
			if !isMoreWanted {
				return
			}
		}
	}
}

// Doubts lists the unresolved recordings. A recording whose record is damaged is among them, with only its key and no
// error. If the journal cannot be read, an error is yielded last.
func (j *Journal) Doubts(ctx context.Context) iter.Seq2[ingest.Entry, error] {
	return func(yield func(ingest.Entry, error) bool) {
		for entry, err := range j.Entries(ctx) {
			wanted := err != nil || entry.State == ingest.StateInDoubt
			if wanted && !yield(entry, err) {
				return
			}
		}
	}
}

// Processing implements [ingest.ProcessingJournal].
func (j *Journal) Processing(ctx context.Context) ([]ingest.Entry, error) {
	var entries []ingest.Entry
	for entry, err := range j.Entries(ctx) {
		if err != nil {
			return nil, err
		}
		if isProcessing(entry) {
			entries = append(entries, entry)
		}
	}
	return entries, nil
}

// isProcessing reports whether the service had begun with the note and not ended when it was last read.
func isProcessing(e ingest.Entry) bool {
	return e.State == ingest.StateCreated && e.Stage > 0 && e.Stage < clinicaldoc.StageComplete
}

// entries yields what the bucket holds, and reports whether the caller wants more. It fails if nothing arrives for
// patience.
func (b *bucket) entries(
	ctx context.Context, patience time.Duration, yield func(ingest.Entry, error) bool,
) (isMoreWanted bool, err error) {
	watcher, err := b.Watch(ctx, "r.>", jetstream.IgnoreDeletes())
	if err != nil {
		return false, err
	}
	defer func() { _ = watcher.Stop() }()
	silence := time.NewTimer(patience)
	defer silence.Stop()
	for {
		var value jetstream.KeyValueEntry
		var isOpen bool
		select {
		case value, isOpen = <-watcher.Updates():
		case <-silence.C: // a watcher is not told when its server is gone
			return false, nats.ErrTimeout
		case <-ctx.Done():
			return false, ctx.Err()
		}
		switch {
		case !isOpen:
			return false, nats.ErrConnectionClosed
		case value == nil: // nil marks the end of the existing values
			return true, nil
		}
		var r record
		if err := json.Unmarshal(value.Value(), &r); err != nil { // it is damaged
			r.Entry = ingest.Entry{State: ingest.StateInDoubt}
			_ = r.Entry.Key.UnmarshalText([]byte(strings.TrimPrefix(value.Key(), "r.")))
		}
		if !yield(r.Entry, nil) {
			return false, nil
		}
		silence.Reset(patience)
	}
}
