package ingest

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Sentinels for [errors.Is].
var (
	// ErrJournalDamaged: a line of the journal is not what was written there. Nothing is uploaded; restore the file, or have a
	// person find out which recordings have notes.
	ErrJournalDamaged = redact.New("journal is damaged")
	// ErrJournalInUse: another process, or another [FileJournal] of this one, has the journal open.
	ErrJournalInUse = redact.New("journal is in use")
	// ErrJournalVersion: the file is no journal, or one that a later version of this package wrote.
	ErrJournalVersion = redact.New("not a journal of this version")
	// ErrOtherService: the journal holds another service's recordings. Each service needs a journal of its own.
	ErrOtherService = redact.New("journal of another service")
	// ErrKeyReused: the key was used before for another patient's recording, or for one of another size.
	ErrKeyReused = redact.New("key was used for another recording")
	// ErrTaken: another worker has the recording at this moment, or took it over.
	ErrTaken = redact.New("recording is in other hands")
)

// failure is an error with a text that is safe to print.
type failure struct {
	text   string
	causes []error // for errors.Is and errors.As; not printed
}

func fail(text string, causes ...error) error {
	f := &failure{text: "ingest: " + text}
	for _, cause := range causes {
		if cause != nil {
			f.causes = append(f.causes, redact.Opaque(cause))
		}
	}
	return f
}

func (f *failure) Error() string              { return f.text }
func (f *failure) SafeText() string           { return f.text }
func (f *failure) Unwrap() []error            { return f.causes }
func (f *failure) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, f.text) }
func (f *failure) LogValue() slog.Value       { return slog.StringValue(f.text) }
