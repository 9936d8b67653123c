package jetstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// queue hands out recordings. The journal decides what is done with each, so a recording that is handed out twice does
// no harm. Recordings that failed wait in a lane of their own, so they never hold up new ones.
type queue struct {
	store   *store
	journal *Journal // which keeps the counts of tries
	stream  jetstream.Stream
	dead    jetstream.Stream
	ackWait time.Duration // how long a worker that shows no sign of life keeps a recording

	mu    sync.Mutex
	fresh jetstream.Consumer
	again jetstream.Consumer
}

// lane is one of the two parts of the queue.
type lane string

const (
	freshLane lane = "q" // new recordings
	againLane lane = "r" // recordings that failed before
)

// laneNames are those of the lanes' consumers.
var laneNames = [...]string{"fresh", "again"}

const (
	firstDelay = 2 * time.Second  // of a recording that failed; doubled each time
	maxDelay   = 10 * time.Minute // and of one unresolved, which another worker may be able to decide
	shortDelay = time.Second      // of one that was put back because of its worker, and not counted
	maxTries   = 10               // of what is refused in a way that may be a mistake of the service's
)

// delay returns how long a recording rests after its tries failed: twice as long each time, and spread, so that what
// failed together does not come back together. The random number is from 0 to 1.
func delay(tries int, random float64) time.Duration {
	const maxDoublings = 20 // far more than lead to maxDelay
	doublings := min(max(tries-1, 0), maxDoublings)
	rest := min(firstDelay<<doublings, maxDelay)
	return time.Duration(float64(rest) * (0.5 + random))
}

func newQueue(ctx context.Context, j *Journal) (*queue, error) {
	s := j.store
	q := &queue{store: s, journal: j, ackWait: j.lease}
	var err error
	if q.stream, err = s.js.Stream(ctx, s.queueName()); err == nil {
		q.dead, err = s.js.Stream(ctx, s.deadName())
	}
	if err == nil {
		err = q.openConsumers(ctx)
	}
	switch {
	case errors.Is(err, ErrStore):
		return nil, err
	case err != nil:
		return nil, unreachable(err)
	}
	q.ackWait = q.fresh.CachedInfo().Config.AckWait // of the worker that made the consumer
	return q, nil
}

// openConsumers opens the consumers of both lanes, and makes those that do not exist. A new one does not know how long
// recordings should rest: they come early, and the journal says that it is too early.
func (q *queue) openConsumers(ctx context.Context) error {
	for _, l := range []struct {
		name     string
		lane     lane
		consumer *jetstream.Consumer
	}{{laneNames[0], freshLane, &q.fresh}, {laneNames[1], againLane, &q.again}} {
		consumer, err := q.stream.Consumer(ctx, l.name)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			consumer, err = q.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
				Durable: l.name, FilterSubject: q.store.subject(string(l.lane)) + "*",
				AckPolicy: jetstream.AckExplicitPolicy, AckWait: q.ackWait,
				MaxDeliver: -1, MaxAckPending: -1, // what rests counts as pending: a limit would hold up all others
			})
		}
		if err != nil {
			return err
		}
		config := consumer.CachedInfo().Config
		isLimited := config.MaxAckPending > 0 || config.MaxDeliver > 0
		if isLimited || config.AckPolicy != jetstream.AckExplicitPolicy {
			return fail("the consumer "+l.name+" of the stream "+q.store.queueName()+
				" was changed: max deliver and max pending acks must be unlimited, acks explicit", ErrStore)
		}
		q.mu.Lock()
		*l.consumer = consumer
		q.mu.Unlock()
	}
	return nil
}

func (q *queue) consumer(l lane) jetstream.Consumer {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l == freshLane {
		return q.fresh
	}
	return q.again
}

// queuedRecording is a recording in the queue, or a dead letter, as JSON in a message.
type queuedRecording struct {
	Key       string `json:"key"`
	File      string `json:"file"`
	Name      string `json:"name,omitempty"`
	PatientID int64  `json:"patient_id,omitempty"`
	PromptID  int64  `json:"prompt_id,omitempty"`
	SHA256    string `json:"sha256,omitempty"` // that the key was made of; empty: it was not

	FirstRest time.Duration `json:"rest,omitempty"` // how long it rests when it comes into againLane

	Reason string `json:"reason,omitempty"` // of a dead letter
	Tries  int    `json:"tries,omitempty"`
	Size   int64  `json:"size,omitempty"` // of its file; 0: not known
	Raw    []byte `json:"raw,omitempty"`  // what could not be read
}

func newQueuedRecording(r ingest.Recording) queuedRecording {
	p := r.Params
	return queuedRecording{
		Key: r.Key, SHA256: r.SHA256, File: r.File, Name: p.Name, PatientID: p.PatientID, PromptID: p.PromptID,
	}
}

// letterKey returns the last part of the subject of the recording's dead letter. It is the same each time that the
// recording dies. Recordings that share a key by mistake have a letter each.
func (w queuedRecording) letterKey() (string, error) {
	w.FirstRest = 0
	whole, err := json.Marshal(w)
	return subjectOf(string(whole)), err
}

func (w queuedRecording) recording() ingest.Recording {
	params := clinicaldoc.CreateNoteParams{Name: w.Name, PatientID: w.PatientID, PromptID: w.PromptID}
	return ingest.Recording{Key: w.Key, SHA256: w.SHA256, File: w.File, Params: params}
}

// subjectOf is the last part of a recording's subject.
func subjectOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// publish puts a recording into freshLane, unless it waits there already. The error matches ErrKeyReused if a recording
// of another patient or size waits there under its key.
func (q *queue) publish(ctx context.Context, recording ingest.Recording) error {
	if err := checkRecording(recording); err != nil {
		return err
	}
	recording, err := recording.WithKey()
	if err != nil {
		return err
	}
	w := newQueuedRecording(recording)
	payload, err := json.Marshal(w)
	if err != nil {
		return err
	}
	return q.put(ctx, freshLane, subjectOf(w.Key), payload)
}

// checkRecording returns an error if a recording cannot be in a queue: another process has to find its file, and the
// message would not contain it unchanged.
func checkRecording(recording ingest.Recording) error {
	p := recording.Params
	texts := recording.Key + "\n" + recording.File + "\n" + p.Name
	switch {
	case recording.File == "" || p.Audio != nil:
		return fail("a recording in a queue must be in a file", clinicaldoc.ErrInvalidArgument)
	case !filepath.IsAbs(recording.File):
		return fail("File must be an absolute path: workers run in other folders", clinicaldoc.ErrInvalidArgument)
	case p.BeforeCommit != nil || p.OnProgress != nil:
		return fail("a recording in a queue cannot have callbacks", clinicaldoc.ErrInvalidArgument)
	case len(p.Extra) > 0:
		return fail("a recording in a queue cannot have Params.Extra", clinicaldoc.ErrInvalidArgument)
	case !utf8.ValidString(texts): // JSON replaces other bytes, so two different texts would become the same
		return fail("Key, File and the note's name must be UTF-8", clinicaldoc.ErrInvalidArgument)
	}
	return nil
}

// put stores a message, unless one with its subject waits already. That one must be of the same recording. A request
// without a response may have been carried out. It is repeated, and then finds its own message waiting.
func (q *queue) put(ctx context.Context, l lane, key string, payload []byte) error {
	err := patiently(ctx, q.store.patience, func(ctx context.Context) error {
		subject := q.store.subject(string(l)) + key
		// 0: no message with this subject waits.
		_, err := q.store.js.Publish(ctx, subject, payload, jetstream.WithExpectLastSequencePerSubject(0))
		return asRefusal(err)
	})
	var refused *engineRefusalError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &refused):
		return fail("it is not known whether the recording was stored; publish it again: "+err.Error(), err)
	case refused.code == jetstream.JSErrCodeStreamWrongLastSequence,
		refused.code == jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		return q.checkQueued(ctx, l, key, payload)
	case refused.code == codeFull || refused.code == codeNoResources:
		return fail("the recording was not stored: "+refused.Error(), ErrQueueFull, refused.err)
	}
	return fail("the recording was not stored: "+refused.Error(), refused.err)
}

// checkQueued returns an error matching ErrKeyReused if another recording waits under the same key: the new one would
// be forgotten. If nothing waits any more, it calls put again.
func (q *queue) checkQueued(ctx context.Context, l lane, key string, payload []byte) error {
	var message *jetstream.RawStreamMsg
	err := patiently(ctx, q.store.patience, func(ctx context.Context) (err error) {
		message, err = q.stream.GetLastMsgForSubject(ctx, q.store.subject(string(l))+key)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		return asRefusal(err)
	})
	if err != nil {
		return fail("it is not known whether the recording was stored; publish it again: "+err.Error(), err)
	}
	if message == nil { // what waited has come to its end since
		return q.put(ctx, l, key, payload)
	}
	if !isSameRecording(payload, message.Data) {
		return fail("another recording with its key is waiting, of another patient or size; "+
			"give each recording its own key", ingest.ErrKeyReused)
	}
	return nil
}

// isSameRecording reports whether two messages with one key are of the same patient, and of files of the same size.
func isSameRecording(a, b []byte) bool {
	var one, other queuedRecording
	if json.Unmarshal(a, &one) != nil || json.Unmarshal(b, &other) != nil {
		return false
	}
	return one.PatientID == other.PatientID && !otherSize(one.File, other.File)
}

// otherSize reports whether two files have different sizes. It is false if one of them cannot be read from here.
func otherSize(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && one.Size() != other.Size()
}

const (
	codeFull        = 10077 // a limit of the stream
	codeNoResources = 10023 // of the server or the account
)

// engineRefusalError is a response of the engine that refuses a request. It would refuse the same request again.
type engineRefusalError struct {
	err  error
	code jetstream.ErrorCode
}

func (r *engineRefusalError) Error() string { return r.err.Error() }

// asRefusal returns err as an engineRefusalError if the engine refused the request. Other errors, such as a
// timeout, are returned as they are: the request may be repeated.
func asRefusal(err error) error {
	var refused *jetstream.APIError
	switch {
	case errors.As(err, &refused):
		return &engineRefusalError{err: err, code: refused.ErrorCode}
	case errors.Is(err, nats.ErrMaxPayload):
		return &engineRefusalError{err: err}
	}
	return err
}

// Is makes a refusal match ErrKeyExists, so that patiently takes it for a response and does not repeat the request.
func (*engineRefusalError) Is(target error) bool { return target == jetstream.ErrKeyExists }

// delivery is a recording that was handed to this process.
type delivery struct {
	queue     *queue
	lane      lane
	message   jetstream.Msg
	queued    queuedRecording
	isDamaged bool // it cannot be read
	tries     int  // this one included
}

// next waits for a recording of a lane. It returns nil without an error if there is none, or if the recording has to
// rest first: a message that is published is delivered immediately, so its first delivery only begins the rest.
func (q *queue) next(ctx context.Context, l lane, wait time.Duration) (*delivery, error) {
	message, err := q.consumer(l).Next(jetstream.FetchMaxWait(wait))
	switch {
	case errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrNoMessages):
		return nil, nil //nolint:nilnil // documented
	case err != nil:
		return nil, err
	}
	d := &delivery{queue: q, lane: l, message: message, tries: 1}
	err = json.Unmarshal(message.Data(), &d.queued)
	d.isDamaged = err != nil || d.queued.Key == ""
	if l == freshLane || d.isDamaged {
		return d, nil
	}
	delivered, err := message.Metadata()
	isFirstDelivery := err == nil && delivered.NumDelivered == 1
	if isFirstDelivery {
		return nil, message.NakWithDelay(d.queued.FirstRest)
	}
	d.tries += q.failedTries(ctx, d.queued.Key)
	return d, nil
}

// failedTries returns how often a recording failed, or 0 if that cannot be read. The engine's number of deliveries does
// not show it, because it also counts deliveries to workers that stopped before they tried.
func (q *queue) failedTries(ctx context.Context, key string) (tries int) {
	_ = within(ctx, func(ctx context.Context) error {
		entry, err := q.triesBucket(key).Get(ctx, triesKey(key))
		if err == nil {
			tries, err = strconv.Atoi(string(entry.Value()))
		}
		return err
	})
	return tries
}

// setTries writes how often a recording failed. If that fails, the recording is tried more often.
func (q *queue) setTries(ctx context.Context, key string, tries int) {
	_ = within(ctx, func(ctx context.Context) error {
		_, err := q.triesBucket(key).Put(ctx, triesKey(key), []byte(strconv.Itoa(tries)))
		return err
	})
}

func triesKey(key string) string { return "t." + subjectOf(key) }

func (q *queue) triesBucket(key string) *bucket {
	return q.journal.buckets[int(subjectOf(key)[0])%len(q.journal.buckets)]
}

// keepAlive shows the engine that this worker is alive, until the context ends, so no other worker gets the recording.
func (d *delivery) keepAlive(ctx context.Context) {
	tick := time.NewTicker(d.queue.ackWait / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = d.message.InProgress() // if it fails, the next one comes in time
		}
	}
}

// remove takes the recording out of the queue, because there is a note or a dead letter. It waits for the engine's
// response.
func (d *delivery) remove(ctx context.Context) error {
	return within(ctx, d.message.DoubleAck)
}

// putBack leaves the recording to the next worker, as if this one had not had it.
func (d *delivery) putBack(rest time.Duration) error { return d.message.NakWithDelay(rest) }

// later lets the recording rest in the lane of those that failed. It is put there first, and then leaves its own lane.
func (d *delivery) later(ctx context.Context, rest time.Duration) error {
	d.queue.setTries(ctx, d.queued.Key, d.tries)
	if d.lane == againLane { // it is there already
		return d.message.NakWithDelay(rest)
	}
	w := d.queued
	w.FirstRest = rest
	payload, err := json.Marshal(w)
	if err != nil {
		return err
	}
	if err := d.queue.put(ctx, againLane, subjectOf(w.Key), payload); err != nil {
		return errors.Join(err, d.message.NakWithDelay(rest)) // a full queue keeps it where it is
	}
	return d.remove(ctx)
}

// bury makes a dead letter of the recording: first the letter, then it leaves the queue.
func (d *delivery) bury(ctx context.Context, reason string) error {
	letter := d.queued
	if d.isDamaged {
		letter = queuedRecording{Raw: d.message.Data()}
	}
	key, err := letter.letterKey()
	if err != nil {
		return err
	}
	letter.FirstRest = 0
	letter.Reason = reason
	letter.Tries = d.tries
	info, err := os.Stat(letter.File)
	if err == nil {
		letter.Size = info.Size()
	}
	payload, err := json.Marshal(letter)
	if err != nil {
		return err
	}
	err = patiently(ctx, d.queue.store.patience, func(ctx context.Context) error {
		_, err := d.queue.store.js.Publish(ctx, d.queue.store.subject("dead")+key, payload)
		return asRefusal(err)
	})
	if err != nil {
		return errors.Join(err, d.putBack(maxDelay)) // there is no room for it
	}
	return d.remove(ctx)
}

// DeadLetter is a recording that no worker tries any more, with the reason: the refusal is permanent, or it cannot
// be determined whether the recording has a note.
type DeadLetter struct {
	Recording ingest.Recording
	Reason    string // safe to print
	Tries     int
	At        time.Time // by the server's clock

	size     int64 // of its file; 0: not known
	sequence uint64
	store    string // the id of the fleet's
}

// LogValue lists what may be logged of the letter.
func (d DeadLetter) LogValue() slog.Value {
	return slog.GroupValue(slog.String("reason", d.Reason), slog.Int("tries", d.Tries), slog.Time("at", d.At))
}

// Format implements [fmt.Formatter]. It prints the same fields as LogValue.
func (d DeadLetter) Format(s fmt.State, _ rune) { redact.Format(s, "jetstream.DeadLetter", d) }

// letters lists the dead letters that exist now. It removes those whose recordings have notes; see sweep.
func (q *queue) letters(ctx context.Context) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		var last uint64 // later letters do not count: the caller may send letters again, and they may come back
		err := patiently(ctx, q.store.patience, func(ctx context.Context) error {
			info, err := q.dead.Info(ctx)
			if err == nil {
				last = info.State.LastSeq
			}
			return err
		})
		if err != nil {
			yield(DeadLetter{}, unreachable(err))
			return
		}
		binding, err := q.journal.binding(ctx)
		if err != nil {
			yield(DeadLetter{}, err)
			return
		}
		for sequence := uint64(1); ; {
			letter, err := q.letter(ctx, sequence)
			if err != nil {
				yield(DeadLetter{}, err)
				return
			}
			isEnd := letter.sequence == 0 || letter.sequence > last
			if isEnd {
				return
			}
			isSwept := q.sweep(ctx, binding, letter)
			if !isSwept && !yield(letter, nil) {
				return
			}
			sequence = letter.sequence + 1
		}
	}
}

const unreadableLetter = "the dead letter cannot be read"

// letter reads the first dead letter from a sequence on. It returns the zero letter if there is none.
func (q *queue) letter(ctx context.Context, sequence uint64) (DeadLetter, error) {
	var raw *jetstream.RawStreamMsg
	err := patiently(ctx, q.store.patience, func(ctx context.Context) (err error) {
		raw, err = q.dead.GetMsg(ctx, sequence, jetstream.WithGetMsgSubject(q.store.subject("dead")+"*"))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			raw = nil
			return nil
		}
		return err
	})
	switch {
	case err != nil:
		return DeadLetter{}, unreachable(err)
	case raw == nil:
		return DeadLetter{}, nil
	}
	var w queuedRecording
	if err := json.Unmarshal(raw.Data, &w); err != nil {
		w = queuedRecording{Reason: unreadableLetter}
	}
	return DeadLetter{
		Recording: w.recording(), Reason: w.Reason, Tries: w.Tries, At: raw.Time,
		size: w.Size, sequence: raw.Sequence, store: q.store.header.ID,
	}, nil
}

// redrive puts a dead letter back into the queue: first there, then it is taken out.
func (q *queue) redrive(ctx context.Context, letter DeadLetter) error {
	r := letter.Recording
	switch {
	case letter.store != q.store.header.ID:
		return errOtherFleet
	case r.Key == "":
		const why = "the dead letter cannot be read: publish its recording again, then discard it"
		return fail(why, clinicaldoc.ErrInvalidArgument)
	}
	if err := q.publish(ctx, r); err != nil {
		return err
	}
	return q.remove(ctx, letter)
}

var errOtherFleet = fail("the dead letter belongs to another fleet", clinicaldoc.ErrInvalidArgument)

// remove removes a dead letter. It is not an error if the letter is gone already.
func (q *queue) remove(ctx context.Context, letter DeadLetter) error {
	if letter.store != q.store.header.ID {
		return errOtherFleet
	}
	sequence := letter.sequence
	err := within(ctx, func(ctx context.Context) error { return q.dead.DeleteMsg(ctx, sequence) })
	if err == nil {
		return nil
	}
	_, readErr := q.dead.GetMsg(ctx, sequence)
	if errors.Is(readErr, jetstream.ErrMsgNotFound) {
		return nil // another took it out
	}
	return unreachable(err)
}

// random returns a number from 0 to 1, to spread delays.
func random() float64 { return rand.Float64() } //nolint:gosec // nobody gains by guessing a delay
