package ingest

import (
	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/fileheader"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Sentinels for [errors.Is].
var (
	// ErrJournalDamaged: the journal is empty, or one of its lines is damaged. Nothing is uploaded;
	// [SalvageJournal] keeps the complete lines. Do not use an older copy, which does not know later uploads. In a
	// fleet's journal only one record is damaged, and its recording is unresolved.
	ErrJournalDamaged = redact.New("journal is damaged")
	// ErrJournalMoved: the journal's path no longer names the open file. Put the file back and open it again.
	ErrJournalMoved = redact.New("journal was moved or replaced")
	// ErrJournalInUse is [clinicaldoc.ErrInUse]: the journal is already open, in this process or in another one.
	ErrJournalInUse = clinicaldoc.ErrInUse
	// ErrJournalVersion: the file is not a journal, or a later version of this package wrote it.
	ErrJournalVersion = redact.New("not a journal of this version")
	// ErrOtherService: the journal holds another service's recordings, or those of a client with other headers.
	ErrOtherService = fileheader.ErrOtherService
	// ErrOtherUser: the journal holds another user's recordings. The client's user may not see all of their notes.
	ErrOtherUser = fileheader.ErrOtherUser
	// ErrKeyReused: the key was used before for another patient's recording, or for one of another size, or it is
	// unresolved under another name.
	ErrKeyReused = redact.New("key was used for another recording")
	// ErrTooEarly: a person decided too early that a recording has no note; see [Resolution].Force.
	ErrTooEarly = redact.New("too early to decide")
	// ErrTaken: another worker has the recording at this moment, or took it over.
	ErrTaken = redact.New("another worker has the recording")
)

// fail makes an error with a text that is safe to print; causes are for errors.Is and errors.As, and not printed.
func fail(text string, causes ...error) error { return redact.Fail("ingest: "+text, causes...) }

// The texts of these errors may stand in the texts of errors around them.
func init() {
	redact.Trust((*ManifestError).Error)
	redact.Trust((*journalError).Error)
	redact.Trust((*rivalError).Error)
}
