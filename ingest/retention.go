package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Retention finds out which recordings a program may delete on its own machine, and when the service deletes its
// copies. It reads the journal, the recordings and their notes, and deletes nothing. Client and Journal must be set.
// It is safe for concurrent use.
type Retention struct {
	Client  *clinicaldoc.Client
	Journal JournalReader
	// Within is how long before its expiry a recording at the service counts as [ExpiresSoon]. If zero, none does.
	Within time.Duration
}

// JournalReader is the part of a [Journal] that [Retention] reads. Every Journal is a JournalReader. A
// [ReadOnlyJournal] is one too, and lets other processes use the journal meanwhile.
type JournalReader interface {
	Bind(ctx context.Context, owner Owner) (Binding, error)
	EntriesForPatient(ctx context.Context, patient uint32, since time.Time) ([]Entry, error)
}

// entryLister is a journal that can list all its entries, each as it was saved.
type entryLister interface {
	entries(ctx context.Context) ([]Entry, error)
}

// RetentionStatus is what [Retention] found out about one recording.
type RetentionStatus struct {
	Recording  Recording // with its key, and its SHA256 if it could be read
	JournalKey Key       // zero if the recording has no key and cannot be read
	// Deletable reports that the program no longer needs the recording: its note is complete, and so is every other
	// note that is made of it. The service's copy may have expired; see Expiry.
	Deletable bool
	// Err is why the recording has to be kept; nil if it is Deletable. It matches [clinicaldoc.ErrNotFound] if the
	// note was deleted, [clinicaldoc.ErrProcessingFailed] if its processing failed, and
	// [clinicaldoc.ErrOutcomeUnknown] if it is not known whether there is a note.
	Err       error
	NoteID    int64             // of its note; 0: the journal knows none
	Stage     clinicaldoc.Stage // of the note, as the service reports it now; zero: it was not read
	Expiry    Expiry            // of the service's copy
	ExpiresAt time.Time         // when the service deletes its copy; zero: it does not report that
}

// LogValue lists what may be logged of the status.
func (s RetentionStatus) LogValue() slog.Value {
	attrs := appendIdentity([]slog.Attr{slog.Bool("deletable", s.Deletable)}, s.JournalKey, 0)
	if s.NoteID != 0 {
		attrs = append(attrs, slog.Int64("note_id", s.NoteID))
	}
	if s.Stage != 0 {
		attrs = append(attrs, slog.String("stage", s.Stage.String()))
	}
	attrs = append(attrs, slog.String("expiry", s.Expiry.String()))
	if !s.ExpiresAt.IsZero() {
		attrs = append(attrs, slog.Time("expires_at", s.ExpiresAt))
	}
	if s.Err != nil {
		attrs = append(attrs, slog.String("error", redact.Opaque(s.Err).Error()))
	}
	return slog.GroupValue(attrs...)
}

// Format implements [fmt.Formatter]. It prints the same fields as LogValue.
func (s RetentionStatus) Format(f fmt.State, _ rune) { redact.Format(f, "ingest.RetentionStatus", s) }

// Expiry is how soon the service deletes its copy of a recording.
type Expiry int

// The values of Expiry.
const (
	ExpiryUnknown Expiry = iota // the service does not report it, or the note was not read
	ExpiresLater                // not within the time that the caller asked for
	ExpiresSoon                 // within that time
	Expired                     // the time has passed
)

// String returns the expiry in words.
func (e Expiry) String() string {
	switch e {
	case ExpiryUnknown:
		return "unknown"
	case ExpiresLater:
		return "later"
	case ExpiresSoon:
		return "soon"
	case Expired:
		return "expired"
	}
	return fmt.Sprintf("Expiry(%d)", int(e))
}

// ExpiryOf returns how soon the service deletes the recording of a note, from its Audio. It is ExpiryUnknown if
// audio is nil, and if the time is missing or not after the upload. To check all notes, range over
// [clinicaldoc.NotesService.All].
func ExpiryOf(audio *clinicaldoc.AudioInfo, now time.Time, within time.Duration) Expiry {
	switch {
	case audio == nil || audio.ExpiresAt.IsZero() || !audio.ExpiresAt.After(audio.UploadedAt):
		return ExpiryUnknown
	case !now.Before(audio.ExpiresAt):
		return Expired
	case within > 0 && !audio.ExpiresAt.After(now.Add(within)):
		return ExpiresSoon
	}
	return ExpiresLater
}

// Check returns the status of each recording, in their order. Pass every recording that is to become a note: one
// file may be wanted as several notes, and is needed until all of them are complete.
//
// Only proof makes a recording Deletable. The recording has to be byte for byte what was uploaded under its key.
// Its note is read, and has to exist, to be the patient's, and to be complete. The same is required of all notes
// of the same recording that the journal knows. Other journals are not considered. With a [FileJournal] or a
// [ReadOnlyJournal] the notes of all patients count; with another journal those of the patients of the recordings.
//
// A status applies to the bytes whose SHA-256 is in Recording.SHA256, at the time of the check. Each note is read once,
// one after the other, and reported to the function of [clinicaldoc.WithAudit].
//
// If the service cannot be reached or rejects the token, Check returns an error and no status. It returns an error
// matching [ErrOtherService] or [ErrOtherUser] if the journal belongs to another service, tenant or user. A note that
// cannot be read for another reason concerns only its own recordings.
func (q *Retention) Check(ctx context.Context, recordings []Recording) ([]RetentionStatus, error) {
	switch {
	case q.Client == nil || q.Journal == nil:
		return nil, fail("a Retention needs a Client and a Journal", clinicaldoc.ErrInvalidArgument)
	case q.Within < 0:
		return nil, fail("Within must not be negative", clinicaldoc.ErrInvalidArgument)
	}
	owner, err := OwnerOf(ctx, q.Client)
	if err != nil {
		return nil, err
	}
	binding, err := q.Journal.Bind(ctx, owner)
	if err != nil {
		return nil, err
	}
	c := &retentionCheck{
		query: q, origin: binding.Origin,
		byKey: map[Key]Entry{}, bySum: map[string][]Entry{}, notes: map[int64]*noteRead{},
	}
	for _, recording := range recordings {
		if ctx.Err() != nil {
			return nil, contextFailure(ctx)
		}
		c.files = append(c.files, c.readFile(recording))
	}
	entries, err := c.listEntries(ctx)
	if err != nil {
		return nil, err
	}
	c.index(entries)
	for _, f := range c.files {
		if err := c.findReasons(ctx, f); err != nil {
			return nil, err
		}
	}
	statuses := make([]RetentionStatus, len(c.files))
	keepers := c.keptForOwnNotes()
	for i, f := range c.files {
		statuses[i] = c.status(f, keepers)
	}
	return statuses, nil
}

// retentionCheck is one Check.
type retentionCheck struct {
	query          *Retention
	origin         string // that keys are hashed with
	files          []*localFile
	byKey          map[Key]Entry
	bySum          map[string][]Entry // by SHA-256
	unknownContent []Entry
	notes          map[int64]*noteRead
}

// localFile is a recording on this machine.
type localFile struct {
	recording     Recording
	own           Entry  // its key and what describes it
	keys          []Key  // under which the journal may keep it
	sum           string // SHA-256 of its bytes; empty: they cannot be read
	keyFromBytes  bool   // the key was made of these bytes
	noteID        int64
	keptForOwn    error // why it has to be kept for its own note; nil: it does not
	keptForOthers error // the same for other notes that the journal knows
}

// noteRead is a note as the service has it now.
type noteRead struct {
	note   *clinicaldoc.ProgressNote
	readAt time.Time // by the service's clock or by ours, whichever is later
	err    error
}

// readFile reads the recording's bytes and computes its key and its hash. If it cannot, the file has to be kept, and
// keptForOwn is why.
func (c *retentionCheck) readFile(recording Recording) *localFile {
	prepared, err := recording.prepare() // also if it fails, prepared has what is known
	f := &localFile{recording: recording}
	f.recording.Key = prepared.Key
	if prepared.Key != "" {
		f.setKeys(c.origin, prepared)
	}
	f.own.describe(c.origin, prepared.Params)
	if err == nil {
		f.sum, err = sumOf(prepared.Params.Audio)
	}
	if err != nil {
		f.own.Size = -1
		f.keptForOwn = fail("the recording cannot be read: "+redact.Opaque(err).Error(), err)
		return f
	}
	if recording.SHA256 != "" && recording.SHA256 != f.sum {
		f.keptForOwn = errOtherBytes
	}
	f.recording.SHA256 = f.sum
	prepared.SHA256 = f.sum
	f.setKeys(c.origin, prepared)
	key, _ := prepared.keys()
	f.keyFromBytes = key == contentKey(f.sum, recording.File, recording.Params)
	return f
}

// setKeys sets the hashes under which the journal may keep the recording.
func (f *localFile) setKeys(origin string, recording Recording) {
	f.keys = Binding{Origin: origin}.Keys(recording)
	f.own.Key = f.keys[0]
}

// knownKey returns the hash under which the journal keeps the recording; see [Binding.Keys].
func (c *retentionCheck) knownKey(f *localFile) Key {
	for _, key := range f.keys {
		e := c.byKey[key]
		if e.State.mayHaveNote() || len(e.Replaced) > 0 {
			return key
		}
	}
	return f.own.Key
}

// listEntries returns the entries of the journal: all if the journal can list them, otherwise those of the recordings'
// patients.
func (c *retentionCheck) listEntries(ctx context.Context) ([]Entry, error) {
	if lister, ok := c.query.Journal.(entryLister); ok {
		return lister.entries(ctx)
	}
	var entries []Entry
	listed := map[uint32]bool{}
	for _, f := range c.files {
		patient := f.own.Patient
		if listed[patient] {
			continue
		}
		listed[patient] = true
		more, err := c.query.Journal.EntriesForPatient(ctx, patient, anyTime)
		if err != nil {
			return nil, err
		}
		entries = append(entries, more...)
	}
	return entries, nil
}

// index makes entries findable by their key and by their content.
func (c *retentionCheck) index(entries []Entry) {
	for _, e := range entries {
		c.byKey[e.Key] = e
		if e.SHA256 == "" {
			c.unknownContent = append(c.unknownContent, e)
			continue
		}
		c.bySum[e.SHA256] = append(c.bySum[e.SHA256], e)
	}
}

// findReasons sets why a recording has to be kept: for its own note, or for other notes that the journal knows. It
// returns an error that ends the check.
func (c *retentionCheck) findReasons(ctx context.Context, f *localFile) error {
	f.own.Key = c.knownKey(f)
	reason := errNotKnown
	if e, isKnown := c.byKey[f.own.Key]; isKnown {
		why, end := c.whyNeeded(ctx, e)
		if end != nil {
			return end
		}
		reason = cmp.Or(f.whyMismatch(e), why)
		if e.State == StateCreated {
			f.noteID = e.NoteID
		}
	}
	f.keptForOwn = cmp.Or(f.keptForOwn, reason) // that it cannot be read comes first
	for _, e := range slices.Concat(c.bySum[f.sum], c.unknownContent) {
		if e.Key == f.own.Key || !e.mayNeed(f) {
			continue
		}
		why, end := c.whyNeeded(ctx, e)
		if end != nil {
			return end
		}
		if why != nil {
			f.keptForOthers = neededFor(e.Key, why)
		}
	}
	return nil
}

// mayNeed reports whether the entry is, or may be, another note of the same recording.
func (e Entry) mayNeed(f *localFile) bool {
	if f.sum == "" {
		return false
	}
	sameBytes := e.SHA256 == f.sum
	switch e.State {
	case StateCommitting, StateInDoubt:
		return e.mayHaveContent(f.own.Size, f.sum)
	case StateCreated:
		mayBeSame := e.SHA256 == "" && e.Patient == f.own.Patient && e.Size == f.own.Size
		return sameBytes || mayBeSame
	case StateRefused:
		return sameBytes
	default:
		return false
	}
}

// whyMismatch returns why the recording cannot be shown to be what was uploaded for the entry, or nil if it is that, or
// if the entry cannot have a note.
func (f *localFile) whyMismatch(e Entry) error {
	switch {
	case !e.State.mayHaveNote():
		return nil
	case e.isOtherRecording(f.own):
		return fail("the key was used for another patient's recording, or one of another size", ErrKeyReused)
	case e.SHA256 == f.sum && f.sum != "", e.SHA256 == "" && f.keyFromBytes && !e.Found:
		return nil
	case e.SHA256 == "" && e.Found:
		return fail("its note was found without comparing recordings, so the service may have another one")
	case e.SHA256 == "":
		return fail("the journal does not know the content that was uploaded under the key")
	}
	return errOtherBytes
}

var (
	errOtherBytes = fail("the recording is not what was uploaded: it has changed since")
	errNotKnown   = fail("the journal does not know the recording, or it has changed since the upload")
	errNoNote     = fail("the recording has no note; the next run uploads it")
	errUnresolved = fail("it is not known whether the recording has a note", clinicaldoc.ErrOutcomeUnknown)
)

// neededFor returns the error of a recording that is kept for the note of another key.
func neededFor(key Key, why error) error {
	return fail("another note of the same recording is missing or not complete, that of recording "+key.String(), why)
}

// whyNeeded reads the note of an entry, once in a check. It returns why the recording is still needed, or nil if the
// note is complete. The second error ends the check: reading other notes would probably fail too.
func (c *retentionCheck) whyNeeded(ctx context.Context, e Entry) (why, end error) {
	switch {
	case e.State == StateCommitting || e.State == StateInDoubt:
		return errUnresolved, nil
	case e.State != StateCreated || e.NoteID < 1:
		return errNoNote, nil
	}
	read := c.notes[e.NoteID]
	if read == nil {
		read = c.readNote(ctx, e.NoteID)
		c.notes[e.NoteID] = read
	}
	isPassing := ctx.Err() != nil || clinicaldoc.Retryable(read.err)
	isRefused := errors.Is(read.err, clinicaldoc.ErrUnauthorized) || errors.Is(read.err, clinicaldoc.ErrNotAudited)
	if isPassing || isRefused {
		return nil, cmp.Or(read.err, ctx.Err())
	}
	return c.whyIncomplete(e, read), nil
}

// readNote reads a note, and when that was: by the service's clock or by ours, whichever is later.
func (c *retentionCheck) readNote(ctx context.Context, id int64) *noteRead {
	var response clinicaldoc.Response
	note, err := c.query.Client.Notes.Get(ctx, id, clinicaldoc.WithResponse(&response))
	now := time.Now()
	byService := exchange.ServerTime(response.Header, now)
	if byService.After(now) {
		now = byService
	}
	return &noteRead{note: note, readAt: now, err: err}
}

// whyIncomplete returns why the note, as it was read, does not show that the recording is no longer needed. It returns
// nil if the note shows it.
func (c *retentionCheck) whyIncomplete(e Entry, read *noteRead) error {
	name := "note " + strconv.FormatInt(e.NoteID, 10)
	switch {
	case errors.Is(read.err, clinicaldoc.ErrNotFound):
		return fail(name+" of the recording no longer exists at the service", read.err)
	case read.err != nil:
		return fail(name+" cannot be read: "+redact.Opaque(read.err).Error(), read.err)
	}
	note := read.note
	patient, _ := note.PatientID()
	stage := note.Stage()
	switch {
	case e.NoteCreatedAt.IsZero() || note.CreatedAt.IsZero():
		return fail(name + " cannot be distinguished from a later one with the same ID")
	case !e.hasNote(note.ID, note.CreatedAt):
		return fail(name+" of the recording no longer exists: another note has its ID", clinicaldoc.ErrNotFound)
	case patientHash(c.origin, patient) != e.Patient:
		return fail(name+" belongs to another patient, or names none", clinicaldoc.ErrPatientMismatch)
	case stage == clinicaldoc.StageFailed:
		const why = "the service could not process the recording; its note contains the error state"
		return fail(why, clinicaldoc.ErrProcessingFailed)
	case !stage.AtLeast(clinicaldoc.StageComplete):
		return fail(name + " is not complete yet: it is " + stage.String())
	}
	return nil
}

// status puts together what is known of a recording. Recordings that have to be kept for their own notes are in
// keepers, each under its content and under its path. If one of them has the same content or path as this recording,
// this one has to be kept too.
func (c *retentionCheck) status(f *localFile, keepers map[string][]*localFile) RetentionStatus {
	s := RetentionStatus{Recording: f.recording, JournalKey: f.own.Key, NoteID: f.noteID}
	s.Err = cmp.Or(f.keptForOwn, f.keptForOthers)
	for _, other := range slices.Concat(keepers[f.sum], keepers[f.recording.File]) {
		if other.own.Key != f.own.Key {
			s.Err = cmp.Or(s.Err, neededFor(other.own.Key, other.keptForOwn))
		}
	}
	s.Deletable = s.Err == nil
	if read := c.notes[f.noteID]; read != nil && read.note != nil {
		s.Stage = read.note.Stage()
		s.Expiry = ExpiryOf(read.note.Audio, read.readAt, c.query.Within)
		if s.Expiry != ExpiryUnknown {
			s.ExpiresAt = read.note.Audio.ExpiresAt
		}
	}
	return s
}

// keptForOwnNotes returns the recordings that have to be kept for their own notes, each under the SHA-256 of its
// content and under the path of its file.
func (c *retentionCheck) keptForOwnNotes() map[string][]*localFile {
	kept := map[string][]*localFile{}
	for _, f := range c.files {
		if f.keptForOwn != nil {
			kept[f.sum] = append(kept[f.sum], f)
			kept[f.recording.File] = append(kept[f.recording.File], f)
		}
	}
	delete(kept, "") // recordings without a file, or that cannot be read, are not the same recording
	return kept
}
