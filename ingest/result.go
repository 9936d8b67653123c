package ingest

import (
	"fmt"
	"log/slog"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Result is what became of one recording.
type Result struct {
	Recording Recording // with the key that was used
	// JournalKey is what the journal knows it by, for [Uploader.Resolve]; zero: it was refused before.
	JournalKey Key
	Status     Status
	NoteID     int64                     // of the note: created, already there; in doubt when the response named one
	Note       *clinicaldoc.ProgressNote // created: as the service gave it; else nil
	Until      time.Time                 // in doubt: from then on it can be said that no note was created
	// Candidates are the ids of the notes that a person should compare, if it is in doubt: the likeliest first. Pass the
	// right one to [Uploader.Resolve].
	Candidates []int64
	// Err is why: refused, in doubt. It is the error of Create or FindCreated, or one of this package;
	// [clinicaldoc.Retryable] tells whether the next run may succeed by itself.
	Err  error
	Took time.Duration // since it was begun
}

// Status is how a recording ended.
type Status int

// How a recording can end.
const (
	Created      Status = iota + 1 // its note was created, or found to be
	AlreadyThere                   // an earlier run, or an equal recording of this one, created it
	Refused                        // no note exists; see Result.Err. The next run tries once more
	InDoubt                        // a note may exist; see Result.Err and Until. The next run asks once more and never just uploads
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
		return "in doubt"
	}
	return fmt.Sprintf("Status(%d)", int(s))
}

// LogValue lists what may be logged of the result.
func (r Result) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("status", r.Status.String())}
	if r.NoteID != 0 {
		attrs = append(attrs, slog.Int64("note_id", r.NoteID))
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

// Format prints what LogValue lists for every verb.
func (r Result) Format(s fmt.State, _ rune) { redact.Format(s, "ingest.Result", r) }
