package jetstream

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

const (
	defaultLease  = 30 * time.Second
	minLease      = 200 * time.Millisecond
	defaultQuick  = 100 * time.Millisecond
	singleBuckets = 8 // of one replica: where each write is synced, several can be at once
	// requestTimeout is for one request: what was sent to a server that died then has no response.
	requestTimeout  = 5 * time.Second
	defaultPatience = 20 * time.Second
	patientlyEach   = 100 * time.Millisecond
)

// Journal is an [ingest.Journal] in key-value buckets, for any number of concurrent processes. It belongs to a
// [Fleet].
type Journal struct {
	store       *store
	buckets     []*bucket // each has a part of the keys
	lease       time.Duration
	quickUpload time.Duration // an upload that ends within it is not leased
	renewEach   time.Duration // how often a worker shows that it still has a recording
	lookEach    time.Duration // how often another worker looks whether it does

	bindTurn turn
	bindings map[ingest.Owner]ingest.Binding
}

// bucket is a part of the journal. Subjects of its stream begin with its prefix.
type bucket struct {
	jetstream.KeyValue
	stream jetstream.Stream
	prefix string
}

func newJournal(ctx context.Context, s *store, lease time.Duration) (*Journal, error) {
	j := &Journal{
		store: s, lease: lease, quickUpload: min(defaultQuick, lease/3), renewEach: lease / 3, lookEach: lease / 4,
		bindTurn: newTurn(), bindings: map[ingest.Owner]ingest.Binding{},
	}
	for n := range s.header.Buckets {
		name := s.bucketName(n)
		kv, err := s.js.KeyValue(ctx, name)
		if err != nil {
			return nil, unreachable(err)
		}
		stream, err := s.js.Stream(ctx, "KV_"+name)
		if err != nil {
			return nil, unreachable(err)
		}
		j.buckets = append(j.buckets, &bucket{KeyValue: kv, stream: stream, prefix: "$KV." + name + "."})
	}
	return j, nil
}

// record is what a bucket holds of a key.
type record struct {
	Owner         string       `json:"owner,omitempty"` // who has the claim; empty: nobody
	WriteID       string       `json:"beat,omitempty"`  // of this write alone, by which its writer recognizes it
	UntilByEngine time.Time    `json:"due,omitzero"`    // unresolved: Entry.Until by the engine's clock
	Entry         ingest.Entry `json:"entry"`
}

// A recording's record, and a mark that leads from its patient to it, which holds nothing.
func recordKey(key ingest.Key) string              { return "r." + key.String() }
func patientKey(patient uint32, key string) string { return fmt.Sprintf("p.%08x.%s", patient, key) }

func (j *Journal) records(key ingest.Key) *bucket { return j.buckets[int(key[0])%len(j.buckets)] }

func (j *Journal) patients(patient uint32) *bucket {
	lowest := patient & 0xff
	return j.buckets[int(lowest)%len(j.buckets)]
}

// Bind implements [ingest.Journal].
func (j *Journal) Bind(ctx context.Context, owner ingest.Owner) (ingest.Binding, error) {
	if err := j.bindTurn.take(ctx); err != nil {
		return ingest.Binding{}, err
	}
	defer j.bindTurn.leave()
	if err := j.store.check(ctx); err != nil {
		return ingest.Binding{}, err
	}
	if binding, ok := j.bindings[owner]; ok {
		return binding, nil
	}
	var binding ingest.Binding
	err := untilAnswered(ctx, j.store.patience, func(ctx context.Context) (err error) {
		binding, err = j.store.bind(ctx, owner)
		return err
	})
	if err != nil {
		return ingest.Binding{}, err
	}
	j.bindings[owner] = binding
	return binding, nil
}

// Claim implements [ingest.Journal]. While another worker's lease on the key is running it waits, for one lease at
// most, to see whether that worker lives. The lease on a new key is written only when its upload takes a while.
// Until then another worker may begin it too, and the commit decides which of them finishes.
func (j *Journal) Claim(ctx context.Context, key ingest.Key) (ingest.Claim, error) {
	if err := j.store.check(ctx); err != nil {
		return nil, err
	}
	for {
		r, revision, err := j.read(ctx, key)
		if err != nil {
			return nil, err
		}
		c := &claim{journal: j, key: key, record: r, revision: revision, turn: newTurn()}
		if r.Entry.State == ingest.StateCreated { // nobody has to hold it
			c.hasNote = true
			return c, nil
		}
		c.owner = rand.Text()
		if !mayHaveNote(r.Entry.State) {
			c.record.Entry = claimedEntry(key, r.Entry)
		}
		if c.untilShift, err = j.untilShift(ctx, r); err != nil {
			return nil, err
		}
		if revision == 0 { // a quick upload needs no lease: its first write is the commit
			c.startRenewals(ctx, j.quickUpload)
			return c, nil
		}
		if r.Owner != "" {
			if err := j.awaitSilence(ctx, key, revision); err != nil {
				return nil, err
			}
		}
		err = c.writeRepeatedly(ctx, c.record.Entry)
		switch {
		case err == nil:
			c.startRenewals(ctx, j.renewEach)
			return c, nil
		case !errors.Is(err, ingest.ErrTaken):
			return nil, err
		} // another worker was faster: read its record
	}
}

// claimedEntry is the entry of a recording without a note that a worker has. Manual decisions and earlier notes stay,
// and so does the time by which EntriesForPatient finds them.
func claimedEntry(key ingest.Key, known ingest.Entry) ingest.Entry {
	return ingest.Entry{
		Key: key, State: ingest.StateClaimed, At: time.Now(), By: known.By, Patient: known.Patient,
		SentAt: known.SentAt, Replaced: known.Replaced, Excluded: known.Excluded,
	}
}

// EntriesForPatient implements [ingest.Journal]. It asks the leaders of the buckets, so it sees everything that was
// saved before. If a record is damaged, it returns the other entries, and an error matching [ingest.ErrJournalDamaged].
func (j *Journal) EntriesForPatient(ctx context.Context, patient uint32, since time.Time) ([]ingest.Entry, error) {
	b := j.patients(patient)
	filter := b.prefix + patientKey(patient, "*")
	var marks map[string]uint64
	err := patiently(ctx, j.store.patience, func(ctx context.Context) error {
		info, err := b.stream.Info(ctx, jetstream.WithSubjectFilter(filter))
		if err == nil {
			marks = info.State.Subjects
		}
		return err
	})
	if err != nil {
		return nil, unreachable(err)
	}
	var entries []ingest.Entry
	var damage error
	for mark := range marks {
		r, err := j.readMarked(ctx, mark)
		switch {
		case errors.Is(err, ingest.ErrJournalDamaged):
			damage = err
		case err != nil:
			return nil, err
		case r.Entry.Patient == patient && mayHaveNoteSince(r.Entry, since):
			entries = append(entries, r.Entry)
		}
	}
	return entries, damage
}

// readMarked reads the record of the recording to which a patient's mark leads. The mark is a subject that ends with
// the key of the recording.
func (j *Journal) readMarked(ctx context.Context, mark string) (record, error) {
	var key ingest.Key
	if err := key.UnmarshalText([]byte(mark[strings.LastIndexByte(mark, '.')+1:])); err != nil {
		return record{}, errDamaged
	}
	r, _, err := j.read(ctx, key)
	return r, err
}

// mayHaveNoteSince reports whether an entry may have a note, or had one that was replaced, that was sent or created at
// or after a time. If the time is zero, it does not count, even if the note's own time is not known.
func mayHaveNoteSince(e ingest.Entry, since time.Time) bool {
	if !mayHaveNote(e.State) && len(e.Replaced) == 0 {
		return false
	}
	if !e.SentAt.Before(since) || !e.NoteCreatedAt.Before(since) {
		return true
	}
	isSince := func(note ingest.NoteRef) bool { return !note.CreatedAt.Before(since) }
	return slices.ContainsFunc(e.Replaced, isSince)
}

// mayHaveNote reports whether a recording in that state was sent completely, so a note may exist.
func mayHaveNote(state ingest.State) bool {
	return state == ingest.StateCommitting || state == ingest.StateCreated || state == ingest.StateInDoubt
}

// untilShift returns by how much the Until of an unresolved recording is later on this machine's clock than in its
// record, which another machine may have written. It is zero if it is not later.
func (j *Journal) untilShift(ctx context.Context, r record) (time.Duration, error) {
	if r.Entry.State != ingest.StateInDoubt || r.UntilByEngine.IsZero() {
		return 0, nil
	}
	now, err := j.engineTime(ctx, j.records(r.Entry.Key))
	untilHere := time.Now().Add(r.UntilByEngine.Sub(now))
	return max(untilHere.Sub(r.Entry.Until), 0), err
}

// engineTime is the time by the clock of the bucket's leader.
func (j *Journal) engineTime(ctx context.Context, b *bucket) (now time.Time, err error) {
	err = patiently(ctx, j.store.patience, func(ctx context.Context) error {
		info, err := b.stream.Info(ctx)
		if err == nil {
			now = info.TimeStamp
		}
		return err
	})
	if err != nil {
		return now, unreachable(err)
	}
	return now, nil
}

// patiently repeats a request while the engine does not respond, until patience has passed or the context ends. A key
// that is not found and a conflict are responses. The request must do no harm if it is carried out more than once.
func patiently(ctx context.Context, patience time.Duration, request func(ctx context.Context) error) error {
	for begun := time.Now(); ; {
		err := within(ctx, request)
		if err == nil || errors.Is(err, jetstream.ErrKeyNotFound) || isConflict(err) {
			return err
		}
		if ctx.Err() != nil || !mayRepeat(ctx, begun, patience) {
			return err
		}
	}
}

// mayRepeat waits a moment. It reports whether a request that was begun then may be repeated: patience has not passed,
// and the context has not ended.
func mayRepeat(ctx context.Context, begun time.Time, patience time.Duration) bool {
	return time.Since(begun) <= patience && sleep(ctx, patientlyEach)
}

// untilAnswered is patiently, except that every error that does not match errEngine is a response.
func untilAnswered(ctx context.Context, patience time.Duration, request func(ctx context.Context) error) error {
	var answer error
	err := patiently(ctx, patience, func(ctx context.Context) error {
		err := request(ctx)
		if err != nil && !errors.Is(err, errEngine) {
			answer = err
			return nil // so patiently does not repeat the request
		}
		return err
	})
	if answer != nil {
		return answer
	}
	return err
}

// within makes a request that ends after requestTimeout.
func within(ctx context.Context, request func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return request(ctx)
}

// turn is a mutex. A goroutine that takes it waits only until its context ends.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) leave() { <-t }

// sleep reports whether the time passed before the context ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// read returns the record of a key, and its revision. Both are zero if the key is new.
func (j *Journal) read(ctx context.Context, key ingest.Key) (record, uint64, error) {
	var entry jetstream.KeyValueEntry
	err := patiently(ctx, j.store.patience, func(ctx context.Context) (err error) {
		entry, err = j.records(key).Get(ctx, recordKey(key))
		return err
	})
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

// readOf returns the record of a recording, and the hash under which the journal keeps it; see [ingest.Binding.Keys].
// The record is zero if the recording is new.
func (j *Journal) readOf(
	ctx context.Context, binding ingest.Binding, recording ingest.Recording,
) (record, ingest.Key, error) {
	var anyTime time.Time
	var current record
	keys := binding.Keys(recording)
	for i, key := range keys {
		r, _, err := j.read(ctx, key)
		if err != nil || mayHaveNoteSince(r.Entry, anyTime) {
			return r, key, err
		}
		if i == 0 {
			current = r
		}
	}
	return current, keys[0], nil
}

// awaitSilence waits until the owner of a recording has written nothing for the time of a lease, or has released the
// recording. It returns errTaken if the owner, or another one, still writes. Only this machine's clock counts.
func (j *Journal) awaitSilence(ctx context.Context, key ingest.Key, revision uint64) error {
	timer := time.NewTimer(j.lease)
	defer timer.Stop()
	tick := time.NewTicker(j.lookEach)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		case <-tick.C:
			r, latest, err := j.read(ctx, key)
			if err != nil {
				return err
			}
			if latest == revision {
				continue // nothing was written
			}
			isHeld := r.Owner != "" && r.Entry.State != ingest.StateCreated
			if isHeld {
				return errTaken
			}
			return nil // it was released, or has its note
		}
	}
}

var (
	errDamaged = fail("the recording's record in the journal is damaged", ingest.ErrJournalDamaged)
	errTaken   = fail("another worker has the recording", ingest.ErrTaken)
)

// isConflict reports whether another write came first.
func isConflict(err error) bool {
	return errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch)
}
