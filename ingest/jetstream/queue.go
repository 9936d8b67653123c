package jetstream

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// QueueParams says where recordings wait.
type QueueParams struct {
	Name     string        // of the stream; empty: clinicaldoc-recordings
	Replicas int           // of the stream; 0: 1
	AckWait  time.Duration // how long a worker that shows no sign of life keeps a recording; 0: 30 seconds
	Drain    bool          // Recordings ends when none is left, instead of waiting for more
}

// Queue hands out recordings in files that all workers can reach. It only wakes somebody: what is to be done with a recording
// the journal says, so that one handed out twice does no harm. What waits in it is a patient's data: file, name and patient.
type Queue struct {
	js       jetstream.JetStream
	stream   jetstream.Stream
	consumer jetstream.Consumer
	params   QueueParams

	mu   sync.Mutex
	held map[string]jetstream.Msg // handed out by this process, by key
}

const defaultQueue = "clinicaldoc-recordings"

// waiting is a recording in the stream.
type waiting struct {
	Key       string `json:"key"`
	File      string `json:"file"`
	Name      string `json:"name"`
	PatientID int64  `json:"patient_id"`
	PromptID  int64  `json:"prompt_id"`
}

// OpenQueue opens the queue and makes its stream if there is none.
func OpenQueue(ctx context.Context, conn *nats.Conn, params QueueParams) (*Queue, error) {
	params.Name, params.AckWait = cmp.Or(params.Name, defaultQueue), cmp.Or(params.AckWait, defaultLease)
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fail(err.Error(), err)
	}
	q := &Queue{js: js, params: params, held: map[string]jetstream.Msg{}}
	if err := patiently(ctx, defaultPatience, q.open); err != nil {
		return nil, fail("the queue "+params.Name+" cannot be opened: "+err.Error(), err)
	}
	return q, nil
}

func (q *Queue) open(ctx context.Context) (err error) {
	q.stream, err = q.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: q.params.Name, Subjects: []string{q.params.Name + ".*"}, Retention: jetstream.WorkQueuePolicy, Replicas: max(q.params.Replicas, 1),
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
	})
	if err != nil {
		return err
	}
	q.consumer, err = q.stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, AckWait: q.params.AckWait, MaxDeliver: -1,
	})
	return err
}

// Publish puts a recording into the queue; one that waits there already stays once. It must be in a file, and its params hold
// no audio and no callbacks. A missing key is made from the file.
func (q *Queue) Publish(ctx context.Context, recording ingest.Recording) error {
	if recording.File == "" || recording.Params.Audio != nil {
		return fail("a recording in a queue is in a file", clinicaldoc.ErrInvalidArgument)
	}
	w := waiting{recording.Key, recording.File, recording.Params.Name, recording.Params.PatientID, recording.Params.PromptID}
	if w.Key == "" {
		key, err := ingest.FileKey(recording.File, recording.Params)
		if err != nil {
			return err
		}
		w.Key = key
	}
	payload, err := json.Marshal(w)
	if err != nil {
		return err
	}
	subject := sha256.Sum256([]byte(w.Key))
	_, err = q.js.Publish(ctx, q.params.Name+"."+hex.EncodeToString(subject[:]), payload)
	var refused *jetstream.APIError
	if errors.As(err, &refused) && refused.ErrorCode == perSubject {
		return nil
	}
	if err != nil {
		return fail("the queue cannot be reached: "+err.Error(), err)
	}
	return nil
}

// perSubject is the code of "maximum messages per subject exceeded".
const perSubject = 10077

// Recordings hands out recordings until the context ends, none is left, or the queue cannot be reached. Give each result to
// Done.
func (q *Queue) Recordings(ctx context.Context) iter.Seq2[ingest.Recording, error] {
	return func(yield func(ingest.Recording, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go q.keep(ctx)
		for ctx.Err() == nil {
			message, err := q.consumer.Next(jetstream.FetchMaxWait(time.Second))
			switch {
			case err == nil:
				var w waiting
				if err := json.Unmarshal(message.Data(), &w); err != nil {
					_ = message.TermWithReason("unreadable")
					continue
				}
				q.mu.Lock()
				q.held[w.Key] = message
				q.mu.Unlock()
				params := clinicaldoc.CreateNoteParams{Name: w.Name, PatientID: w.PatientID, PromptID: w.PromptID}
				if !yield(ingest.Recording{Key: w.Key, File: w.File, Params: params}, nil) {
					return
				}
			case q.params.Drain && q.empty(ctx):
				return
			case !transient(err) && ctx.Err() == nil:
				yield(ingest.Recording{}, fail("the queue cannot be reached: "+err.Error(), err))
				return
			}
		}
	}
}

// transient reports whether the queue may be there a moment later: nothing waits, or a leader is being elected.
func transient(err error) bool {
	return errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrNoMessages) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, jetstream.ErrNoHeartbeat) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrReconnectBufExceeded) ||
		errors.Is(err, nats.ErrDisconnected) || errors.Is(err, jetstream.ErrConsumerLeadershipChanged) || errors.Is(err, jetstream.ErrServerShutdown)
}

func (q *Queue) empty(ctx context.Context) bool {
	info, err := q.stream.Info(ctx)
	return err == nil && info.State.Msgs == 0
}

// keep shows that this worker is alive.
func (q *Queue) keep(ctx context.Context) {
	tick := time.NewTicker(q.params.AckWait / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		q.mu.Lock()
		for _, message := range q.held {
			_ = message.InProgress()
		}
		q.mu.Unlock()
	}
}

// Done takes a recording that has ended out of the queue. One in doubt comes back when it can be decided.
func (q *Queue) Done(ctx context.Context, result ingest.Result) error {
	q.mu.Lock()
	message := q.held[result.Recording.Key]
	delete(q.held, result.Recording.Key)
	q.mu.Unlock()
	if message == nil {
		return nil
	}
	var err error
	if result.Status == ingest.InDoubt {
		err = message.NakWithDelay(max(time.Until(result.Until), q.params.AckWait))
	} else {
		err = message.DoubleAck(ctx)
	}
	if err != nil {
		return fail("the queue cannot be reached: "+err.Error(), err) // it comes back, and the journal knows of it
	}
	return nil
}
