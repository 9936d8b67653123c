package jetstream

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/fileheader"
)

// Outcome returns what became of a published recording, whichever machine uploaded it. Pass it as it was published.
//
// Its Ending is Done if the recording has a note that is complete, or that nobody waited for. It is Dead if the
// recording is a dead letter, and Later while it waits, is being uploaded, or its note is in processing. The error of
// a dead letter matches [ErrDeadLetter]. Ending is zero if the fleet does not have the recording: it was not
// published, or its dead letter was discarded.
func (f *Fleet) Outcome(ctx context.Context, recording ingest.Recording) (Result, error) {
	recording, err := recording.WithKey()
	if err != nil {
		return Result{}, err
	}
	binding, err := f.journal.binding(ctx)
	if err != nil {
		return Result{}, err
	}
	for range 2 { // a recording that moves from one place to the next meanwhile is found the second time
		result, err := f.findOutcome(ctx, binding, recording)
		if err != nil || result.Ending != 0 {
			return result, err
		}
	}
	return Result{Result: ingest.Result{Recording: recording, JournalKey: binding.Key(recording.Key)}}, nil
}

// findOutcome searches for a recording in the journal, among the dead letters and in the queue. The result has no
// Ending if it is in none of them.
func (f *Fleet) findOutcome(ctx context.Context, binding ingest.Binding, recording ingest.Recording) (Result, error) {
	known, key, err := f.journal.readOf(ctx, binding, recording)
	result := Result{Result: ingest.Result{Recording: recording, JournalKey: key}}
	if err != nil && !errors.Is(err, ingest.ErrJournalDamaged) {
		return Result{}, err
	}
	letter, err := f.queue.letterOf(ctx, recording)
	if err != nil {
		return Result{}, err
	}
	own := binding.Describe(recording)
	own.Key = key
	if letter != nil {
		own.Size = letterSizeOr(letter.Size, own)
	}
	if hasNote(known.Entry, own) && known.Entry.Stage != clinicaldoc.StageFailed {
		return notedResult(result, known.Entry), nil
	}
	if letter != nil {
		var ownEntry ingest.Entry
		if isOf(known.Entry, own) {
			ownEntry = known.Entry
		}
		return deadResult(result, ownEntry, letter.Reason), nil
	}
	waits, err := f.queue.isQueued(ctx, recording.Key)
	if waits {
		result.Ending = Later
	}
	return result, err
}

// notedResult completes the result of a recording whose note exists, by the note's stage.
func notedResult(result Result, known ingest.Entry) Result {
	result.NoteID = known.NoteID
	result.Stage = known.Stage
	for _, note := range known.Replaced {
		result.Replaced = append(result.Replaced, note.ID)
	}
	result.Ending = Done
	result.Status = ingest.AlreadyThere
	switch {
	case isProcessing(known):
		result.Ending = Later
		result.Status = ingest.Processing
		result.Err = errProcessing
	case known.Stage.AtLeast(clinicaldoc.StageComplete):
		result.Status = ingest.Complete
	}
	return result
}

// deadResult completes the result of a dead letter by the entry of its recording, which is zero if it has none. It may
// be one because the recording was refused, because nobody can find out whether it has a note, or because the service
// could not process it.
func deadResult(result Result, known ingest.Entry, reason string) Result {
	result.Ending = Dead
	result.Err = fail("the recording is a dead letter: "+reason, ErrDeadLetter)
	result.Status = ingest.Refused
	if known.State == ingest.StateCreated && known.Stage == clinicaldoc.StageFailed {
		result.Status = ingest.Failed
		result.NoteID = known.NoteID
		result.Stage = known.Stage
	}
	if known.State == ingest.StateInDoubt || known.State == ingest.StateCommitting {
		result.Status = ingest.InDoubt
		result.NoteID = known.NoteID
		result.Until = known.Until
		result.Candidates = known.Candidates()
	}
	return result
}

// hasNote reports whether the entry shows that the recording has a note. An entry of another recording with the same
// key does not.
func hasNote(entry, recording ingest.Entry) bool {
	return entry.State == ingest.StateCreated && isOf(entry, recording)
}

// isOf reports whether the entry is of the recording, and not of another one with the same key.
func isOf(entry, recording ingest.Entry) bool {
	isOtherSize := entry.Size >= 0 && recording.Size >= 0 && entry.Size != recording.Size
	return entry.Key == recording.Key && entry.Patient == recording.Patient && !isOtherSize
}

// letterSizeOr returns the size that a recording had when it became a dead letter. If that is not known, it returns the
// size that the recording has now.
func letterSizeOr(letterSize int64, now ingest.Entry) int64 {
	if letterSize > 0 {
		return letterSize
	}
	return now.Size
}

// binding returns the journal's binding. It is zero if no worker has bound the journal yet.
func (j *Journal) binding(ctx context.Context) (ingest.Binding, error) {
	h, err := j.store.readHeader(ctx)
	if err != nil || h.Owner == "" {
		return ingest.Binding{}, err
	}
	owner, err := fileheader.Parse(ownerKind, h.Owner)
	if err != nil {
		return ingest.Binding{}, errFormat
	}
	return ingest.Binding{Origin: owner.Service, Gaps: h.Gaps}, nil
}

// letterOf returns the dead letter of a recording, or nil if it has none.
func (q *queue) letterOf(ctx context.Context, recording ingest.Recording) (*queuedRecording, error) {
	key, err := newQueuedRecording(recording).letterKey()
	if err != nil {
		return nil, err
	}
	message, err := q.lastMessage(ctx, q.dead, q.store.subject("dead")+key)
	if message == nil || err != nil {
		return nil, err
	}
	var letter queuedRecording
	if err := json.Unmarshal(message.Data, &letter); err != nil {
		letter = queuedRecording{Reason: unreadableLetter}
	}
	return &letter, nil
}

// isQueued reports whether a recording with that key is in the queue, or in a worker's hands.
func (q *queue) isQueued(ctx context.Context, key string) (bool, error) {
	for _, l := range []lane{freshLane, againLane} {
		message, err := q.lastMessage(ctx, q.stream, q.store.subject(string(l))+subjectOf(key))
		if message != nil || err != nil {
			return message != nil, err
		}
	}
	return false, nil
}

// allWaiting reports whether the journal's entries of all recordings in the queue fulfil a condition.
func (f *Fleet) allWaiting(ctx context.Context, condition func(ingest.Entry) bool) (bool, error) {
	binding, err := f.journal.binding(ctx)
	if err != nil {
		return false, err
	}
	info, err := f.queue.stream.Info(ctx, jetstream.WithSubjectFilter(">"))
	if err != nil {
		return false, unreachable(err)
	}
	for subject := range info.State.Subjects {
		message, err := f.queue.lastMessage(ctx, f.queue.stream, subject)
		switch {
		case err != nil:
			return false, err
		case message == nil: // it has ended since
			continue
		}
		var left queuedRecording
		if json.Unmarshal(message.Data, &left) != nil {
			return false, nil //nolint:nilerr // it will become a dead letter
		}
		known, _, err := f.journal.readOf(ctx, binding, left.recording())
		if err != nil || !condition(known.Entry) {
			return false, err
		}
	}
	return true, nil
}

// lastMessage returns the message of a subject, or nil if there is none.
func (q *queue) lastMessage(
	ctx context.Context, stream jetstream.Stream, subject string,
) (*jetstream.RawStreamMsg, error) {
	var message *jetstream.RawStreamMsg
	err := patiently(ctx, q.store.patience, func(ctx context.Context) error {
		found, err := stream.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		message = found
		return err
	})
	if err != nil {
		return nil, unreachable(err)
	}
	return message, nil
}

// sweep removes a dead letter whose recording has a note by now, by a manual decision or because it was published
// again. It reports whether it did. A letter of which that cannot be found out stays, and so does one whose note the
// service could not process.
func (q *queue) sweep(ctx context.Context, binding ingest.Binding, letter DeadLetter) bool {
	if binding.Origin == "" || letter.Recording.Key == "" {
		return false
	}
	own := binding.Describe(letter.Recording)
	own.Size = letterSizeOr(letter.size, own)
	known, key, err := q.journal.readOf(ctx, binding, letter.Recording)
	own.Key = key
	isFailed := known.Entry.Stage == clinicaldoc.StageFailed
	if err != nil || isFailed || !hasNote(known.Entry, own) {
		return false
	}
	return q.remove(ctx, letter) == nil
}
