package jetstream

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// Params says which fleet it is. The zero value is for one server.
type Params struct {
	Name     string // of the fleet, and how its streams' names begin; empty: clinicaldoc-ingest
	Replicas int    // of its streams; 0: 1 when it begins. Three survive the loss of a server
	// Lease is how long a recording stays with a worker that shows no sign of life, the same for all; 0: 30
	// seconds. It must outlast the election of a new leader, which takes some six seconds: at least 15 seconds in
	// a cluster.
	Lease time.Duration
	// Logger receives a line with the reason when this worker or the fleet pauses, and a line when it continues. If
	// nil, nothing is logged.
	Logger *slog.Logger
}

const defaultName = "clinicaldoc-ingest"

// Fleet is a queue of recordings, the journal of what became of each, and a rate limit, which any number of
// machines share. It is safe for concurrent use, and does not need to be closed; close the connection.
type Fleet struct {
	store   *store
	journal *Journal
	queue   *queue
	live    live
	logger  *slog.Logger
}

// Begin makes a fleet and joins it. Do this once, manually: a new fleet does not know what was uploaded before.
// Begin returns an error matching [ErrFleetExists] if the fleet exists, and [ErrStore] if only parts of it exist.
func Begin(ctx context.Context, conn *nats.Conn, params Params) (*Fleet, error) {
	s, err := newStore(conn, params)
	if err != nil {
		return nil, err
	}
	if err := s.begin(ctx, params.Replicas); err != nil {
		return nil, err
	}
	return Join(ctx, conn, params)
}

// Repair makes a fleet usable again whose store is rejected with [ErrStore]. It makes missing streams again, and
// corrects the settings of others. The journal remembers its gaps: recordings that it does not know are searched
// for among the patient's notes before an upload. If the queue was lost, publish its recordings again. A complete
// store is not changed. End all workers first.
func Repair(ctx context.Context, conn *nats.Conn, params Params) error {
	s, err := newStore(conn, params)
	if err != nil {
		return err
	}
	return s.repair(ctx)
}

// Join joins an existing fleet. It returns an error matching [ErrNoFleet] if the fleet does not exist, and
// [ErrStore] if its store is incomplete, may lose messages, or was written by a later version.
//
// Join upgrades a store that the version before wrote, which takes 15 seconds. It returns an error matching
// [ErrOlderWorkers] while workers of that version run, and changes nothing then. After the upgrade no program of that
// version joins the fleet.
func Join(ctx context.Context, conn *nats.Conn, params Params) (*Fleet, error) {
	s, err := newStore(conn, params)
	if err != nil {
		return nil, err
	}
	return joinStore(ctx, s, params)
}

func joinStore(ctx context.Context, s *store, params Params) (*Fleet, error) {
	f := &Fleet{store: s, logger: params.Logger}
	if f.logger == nil {
		f.logger = slog.New(slog.DiscardHandler)
	}
	if err := s.upgrade(ctx); err != nil {
		return nil, err
	}
	err := untilAnswered(ctx, s.patience, func(ctx context.Context) error { return f.join(ctx, params) })
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (f *Fleet) join(ctx context.Context, params Params) (err error) {
	if err := f.store.open(ctx, params.Replicas); err != nil {
		return err
	}
	if f.journal, err = newJournal(ctx, f.store, cmp.Or(params.Lease, defaultLease)); err != nil {
		return err
	}
	if f.queue, err = newQueue(ctx, f.journal); err != nil {
		return err
	}
	f.live, err = newLive(ctx, f.store)
	return err
}

// Journal returns the fleet's journal, for an [ingest.Uploader] with its own list. Use [Fleet.Work] for recordings
// in the queue.
func (f *Fleet) Journal() *Journal { return f.journal }

// Limiter returns a limiter for the requests per second of all workers together. Pass it to
// [clinicaldoc.WithLimiter]. All workers must pass the same number.
func (f *Fleet) Limiter(perSecond float64) (*Limiter, error) { return newLimiter(f.store, perSecond) }

// Publish puts a recording into the queue. It returns nil if the recording is in the queue, also if it already was.
// The recording must be a file that all workers reach by the same absolute path. Params.Audio, Params.Extra and
// callbacks are rejected with [clinicaldoc.ErrInvalidArgument]. If Key is empty, it is computed from the file.
//
// If the queue is full, the error matches [ErrQueueFull], and the recording is not stored. If a recording of
// another patient or size waits under its key, the error matches [ingest.ErrKeyReused]. Without a response, Publish
// tries again for some seconds and then returns an error. Publishing the recording again is safe.
func (f *Fleet) Publish(ctx context.Context, recording ingest.Recording) error {
	return f.queue.publish(ctx, recording)
}

// DeadLetters lists the recordings that no worker tries any more. They contain patient data. A letter whose
// recording has a note by now, because it was published again or by a manual decision, is removed and not listed.
func (f *Fleet) DeadLetters(ctx context.Context) iter.Seq2[DeadLetter, error] {
	return f.queue.letters(ctx)
}

// Redrive puts the recording of a dead letter into the queue once more. Another fleet's letter is
// [clinicaldoc.ErrInvalidArgument], also for Discard.
func (f *Fleet) Redrive(ctx context.Context, letter DeadLetter) error {
	return f.queue.redrive(ctx, letter)
}

// Discard removes a dead letter, after a manual decision that its recording shall not become a note. The journal
// keeps its entry.
func (f *Fleet) Discard(ctx context.Context, letter DeadLetter) error {
	return f.queue.remove(ctx, letter)
}

// Status is how a fleet stands.
type Status struct {
	Waiting     int // recordings that nobody had yet
	Uploading   int // new ones in workers' hands
	Later       int // that failed or are unresolved, and rest until they are tried again
	Doubts      int // recordings of the journal of which nobody knows whether they have a note
	Processing  int // that have a note which the service has not finished; they also count as Uploading or Later
	DeadLetters int
	Workers     []Worker
	Pause       *Pause // of the whole fleet; nil: there is none
}

// Worker is a process that works, or did so in the last half minute.
type Worker struct {
	Host      string        `json:"host"`
	Process   int           `json:"process"`
	Since     time.Time     `json:"since"`
	Uploading int           `json:"uploading"`
	Done      int           `json:"done"`              // recordings whose notes have reached Uploader.Until
	Ahead     time.Duration `json:"ahead"`             // of its clock, before the server's
	Failing   string        `json:"failing,omitempty"` // all that it tries fails this way; empty: not so
	// Processing is how many recordings it has whose notes it waits for.
	Processing int `json:"processing,omitempty"`
}

// Pause is a pause of all workers, because everything failed in the same way.
type Pause struct {
	Reason string    `json:"reason"` // safe to print
	Until  time.Time `json:"until"`  // when it is tried again, by the server's clock
}

// Status asks how the fleet stands. It reads the complete journal: about a second for a hundred thousand
// recordings.
func (f *Fleet) Status(ctx context.Context) (Status, error) {
	var s Status
	fresh, err := f.queue.consumer(freshLane).Info(ctx)
	if err != nil {
		return s, unreachable(err)
	}
	again, err := f.queue.consumer(againLane).Info(ctx)
	if err != nil {
		return s, unreachable(err)
	}
	s.Waiting = int(fresh.NumPending) //nolint:gosec // a count
	s.Uploading = fresh.NumAckPending
	s.Later = int(again.NumPending) + again.NumAckPending //nolint:gosec // a count
	for _, err := range f.DeadLetters(ctx) {
		if err != nil {
			return s, err
		}
		s.DeadLetters++
	}
	for entry, err := range f.journal.Entries(ctx) {
		if err != nil {
			return s, err
		}
		s.count(entry)
	}
	workers, err := f.live.workers(ctx)
	if err != nil {
		return s, unreachable(err)
	}
	for _, w := range workers {
		s.Workers = append(s.Workers, w.Worker)
	}
	slices.SortFunc(s.Workers, func(a, b Worker) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), a.Since.Compare(b.Since))
	})
	p, _, err := f.live.pause(ctx)
	if err != nil {
		return s, unreachable(err)
	}
	if again.Paused && p != nil && !p.Over {
		s.Pause = &p.Pause
	}
	return s, nil
}

// count counts an entry of the journal.
func (s *Status) count(entry ingest.Entry) {
	switch {
	case entry.State == ingest.StateInDoubt:
		s.Doubts++
	case isProcessing(entry):
		s.Processing++
	}
}

// LogValue lists what may be logged of the status: all of it.
func (s Status) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.Int("waiting", s.Waiting), slog.Int("uploading", s.Uploading), slog.Int("later", s.Later),
		slog.Int("doubts", s.Doubts), slog.Int("processing", s.Processing),
		slog.Int("dead_letters", s.DeadLetters), slog.Int("workers", len(s.Workers)),
	}
	if s.Pause != nil {
		attrs = append(attrs, slog.String("pause", s.Pause.Reason), slog.Time("until", s.Pause.Until))
	}
	return slog.GroupValue(attrs...)
}

// String returns the counts.
func (s Status) String() string {
	text := fmt.Sprintf("%d waiting, %d uploading, %d later, %d unresolved, %d processing, %d dead letters, %d workers",
		s.Waiting, s.Uploading, s.Later, s.Doubts, s.Processing, s.DeadLetters, len(s.Workers))
	if s.Pause != nil {
		text += "; paused: " + s.Pause.Reason
	}
	return text
}
