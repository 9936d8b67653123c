package ingest

import (
	"fmt"
	"log/slog"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Result is the outcome of one recording.
type Result struct {
	Recording Recording // with the key that was used
	// JournalKey is the key of its entry in the journal, for [Uploader.Resolve]. It is zero if the recording was
	// refused before it got one.
	JournalKey Key
	// Position is the place of the recording in the run: 1 for the first that was drawn. In a fleet, and if Earlier is
	// set, it is 0.
	Position int
	Status   Status
	NoteID   int64 // of the note, if it has one; unresolved: as the response contained it, else 0
	// Note is the note as the service returned it last, if the status is created, complete or failed. It is nil if the
	// note was not read.
	Note  *clinicaldoc.ProgressNote
	Stage clinicaldoc.Stage // of the note, as far as it is known; zero: it is not
	Until time.Time         // unresolved: from then on FindCreated can decide that no note was created
	// Earlier reports that the recording is not one of this run's: an earlier run left its note in processing. Its
	// Recording is zero, because the journal does not know it.
	Earlier bool
	// Replaced are the ids of earlier notes of the recording, which a person decided to send again.
	Replaced []int64
	// Candidates are the ids of the notes that a person should compare, if it is unresolved: the likeliest first. Pass
	// the right one to [Uploader.Resolve].
	Candidates []int64
	// Err explains the statuses refused, unresolved, processing and failed. It is the error of Create, FindCreated or
	// WaitAll, or one of this package; [clinicaldoc.Retryable] reports whether the next run may succeed. It matches
	// [clinicaldoc.ErrProcessingFailed] if the service reports an error state, which is in Note.ErrorState. It matches
	// [clinicaldoc.ErrNotFound] if the note was deleted, and [clinicaldoc.ErrPatientMismatch] if the note now belongs
	// to another patient.
	Err  error
	Took time.Duration // since it was begun
}

// Status is how a recording ended.
type Status int

// How a recording can end. If [Uploader].Until is [clinicaldoc.StageUploaded], a recording that has a note is Created
// or AlreadyThere. Otherwise it is Complete, Processing or Failed.
const (
	Created      Status = iota + 1 // this run created its note, as the response or a search showed
	AlreadyThere                   // an earlier run, or an equal recording of this one, created it
	Refused                        // no note exists; see Result.Err. The next run tries once more
	InDoubt                        // a note may exist; see Result.Err and Until. The next run searches again
	Complete                       // its note has reached Uploader.Until; the recording may be moved or deleted
	Processing                     // its note has not; the next run reads it again, without an upload
	Failed                         // not processed, or its note was deleted or moved; see Uploader.Resolve
)

// String returns the status in words.
func (s Status) String() string {
	switch s {
	case Created:
		return "created"
	case AlreadyThere:
		return "already there"
	case Refused:
		return "refused"
	case InDoubt:
		return "unresolved"
	case Complete:
		return "complete"
	case Processing:
		return "processing"
	case Failed:
		return "failed"
	}
	return fmt.Sprintf("Status(%d)", int(s))
}

// appendIdentity appends what tells of which recording a line of a log is, as far as it is known.
func appendIdentity(attrs []slog.Attr, key Key, position int) []slog.Attr {
	if key != (Key{}) {
		attrs = append(attrs, slog.String("journal_key", key.String()))
	}
	if position > 0 {
		attrs = append(attrs, slog.Int("position", position))
	}
	return attrs
}

// LogValue lists what may be logged of the result.
func (r Result) LogValue() slog.Value {
	attrs := appendIdentity([]slog.Attr{slog.String("status", r.Status.String())}, r.JournalKey, r.Position)
	if r.NoteID != 0 {
		attrs = append(attrs, slog.Int64("note_id", r.NoteID))
	}
	if r.Stage != 0 {
		attrs = append(attrs, slog.String("stage", r.Stage.String()))
	}
	if r.Earlier {
		attrs = append(attrs, slog.Bool("earlier", true))
	}
	if len(r.Replaced) > 0 {
		attrs = append(attrs, slog.Any("replaced", r.Replaced))
	}
	if !r.Until.IsZero() {
		attrs = append(attrs, slog.Time("until", r.Until))
	}
	if len(r.Candidates) > 0 {
		attrs = append(attrs, slog.Any("candidates", r.Candidates))
	}
	if r.Err != nil {
		attrs = append(attrs, slog.String("error", redact.Opaque(r.Err).Error()))
	}
	return slog.GroupValue(attrs...)
}

// Format implements [fmt.Formatter]. It prints the same fields as LogValue.
func (r Result) Format(s fmt.State, _ rune) { redact.Format(s, "ingest.Result", r) }
