package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/fileheader"
	"github.com/clinicaldoc/clinicaldoc-go/internal/nfc"
)

// Journal records what became of each recording, so none becomes two notes. [FileJournal] serves one machine.
//
// A journal sees neither keys nor names nor patients, only hashes of them. Its methods must be safe for concurrent
// use.
type Journal interface {
	// Bind sets the owner of the recordings. It is called before all other methods. If the journal belongs to another
	// service, or to a client with other headers, the error matches [ErrOtherService]; for another user it matches
	// [ErrOtherUser].
	Bind(ctx context.Context, owner Owner) (Binding, error)
	// Claim reserves a key for the caller until Release. While another worker has it, the error matches [ErrTaken]. Two
	// workers may begin the same recording if a journal learns of claims with a delay; Save then lets only one of them
	// commit. If the entry of the key is damaged, the error matches [ErrJournalDamaged]. That recording is unresolved,
	// and others continue.
	Claim(ctx context.Context, key Key) (Claim, error)
	// EntriesForPatient returns the patient's entries that are committing, created or unresolved, or that have
	// Replaced notes, in any order. It returns those that were sent at or after that time, and those with a note that
	// was created at or after it. (The sender's clock may have been wrong; the time of a note is the service's.) If an
	// entry is damaged, it returns the others with an error matching [ErrJournalDamaged]. Its duration must not depend
	// on the number of other patients.
	EntriesForPatient(ctx context.Context, patient uint32, since time.Time) ([]Entry, error)
}

// Owner identifies the service and the user whose recordings a journal holds.
type Owner struct {
	Service string // as [ServiceName] returns it
	UserID  int64  // 0: not known

	// Headers identifies the headers that the client sends with every request ([clinicaldoc.WithHeaders]), as [OwnerOf]
	// returns it. They may select a tenant. Empty: not known.
	Headers string
}

// Binding is what a journal reports about itself.
type Binding struct {
	// Origin is the name of the service that keys are hashed with: the one under which the journal was begun.
	Origin string
	// Gaps reports that entries of the journal were lost. A recording that it does not know may have a note anyway.
	Gaps bool
}

// Claim is the reservation of a key by one worker.
type Claim interface {
	// Entry returns what is known of the key. Its state is [StateClaimed] if nothing is known or the recording has no
	// note. By, Replaced and Excluded are then as they were saved last.
	Entry() Entry
	// Save replaces the entry. If Save returns nil, the caller still had the claim, and the entry is durable from
	// [StateCommitting] on. If another worker took over the claim, Save writes nothing and the error matches
	// [ErrTaken]. After any error the caller must not send the recording's last bytes. [StateCreated] is saved even
	// without the claim, unless the journal already knows a note.
	//
	// A journal of several processes must not let two recordings of a patient with the same SHA256 be committing or
	// unresolved at the same time. Nobody could tell their notes apart. The error of the second one matches
	// [ErrTaken], and its entry says that nothing was sent.
	Save(ctx context.Context, entry Entry) error
	// Release gives the key back. The entry stays as it was saved last.
	Release()
}

// Entry is what a journal knows of one recording. It holds nothing that names a patient.
type Entry struct {
	Key     Key
	State   State
	At      time.Time // when this state began
	Patient uint32    // hash of the patient's id
	Name    uint32    // hash of the patient's id and the note's name
	Size    int64     // of the recording in bytes; -1: not known
	SentAt  time.Time // when the upload began
	Until   time.Time // unresolved: from then on FindCreated can say that no note was created
	NoteID  int64     // of the note; unresolved: as the response contained it, else 0
	Found   bool      // created: a search or a person found the note; Create did not return it
	Why     string    // refused, unresolved: the reason, safe to print; a journal may forget it
	SHA256  string    `json:",omitempty"` // of what was sent, in hexadecimal digits; empty: not known
	// Loss is what else is known of an unresolved recording. It is an OutcomeUnknownError in JSON, without the params
	// that the recording has. While the recording is committing, Loss reports that its user is not known. A journal
	// keeps Loss unchanged.
	Loss json.RawMessage `json:",omitempty"`
	// NoteCreatedAt distinguishes the note from a later one with the same ID. It is zero if it is not known.
	NoteCreatedAt time.Time `json:",omitzero"`
	// By names the person who decided what became of the recording. It is empty without a manual decision.
	By string `json:",omitempty"`
	// Stage is the note's stage when it was last read. It is zero if the run waited only for the note to exist. An
	// entry can be saved again with another Stage. If the note failed, Why contains the reason.
	Stage clinicaldoc.Stage `json:",omitzero"`
	// Replaced lists earlier notes of the recording. The service could not process them, or they were deleted, and a
	// person decided to send the recording again. They belong to this recording only.
	Replaced []NoteRef `json:",omitempty"`
	// Excluded are the ids of notes that a person decided are not the recording's.
	Excluded []int64 `json:",omitempty"`
}

// NoteRef names a note. CreatedAt distinguishes it from a later note with the same ID. It is zero if it is not
// known.
type NoteRef struct {
	ID        int64
	CreatedAt time.Time `json:",omitzero"`
}

// ProcessingJournal is a [Journal] that can list the notes that the service had not finished when they were last read.
// An [Uploader] with such a journal also follows the notes of earlier runs, whose recordings it does not get again.
type ProcessingJournal interface {
	Journal
	// Processing returns the entries in [StateCreated] whose Stage is set, not failed, and below
	// [clinicaldoc.StageComplete], in any order.
	Processing(ctx context.Context) ([]Entry, error)
}

// isProcessing reports whether the service had begun with the note and not ended when it was last read.
func (e Entry) isProcessing() bool {
	return e.State == StateCreated && e.Stage > 0 && e.Stage < clinicaldoc.StageComplete
}

// State is how far a recording has come; see the picture in the package's documentation.
type State uint8

// The states. The zero value is not a state.
const (
	StateClaimed    State = iota + 1 // a worker has it; certainly no note exists
	StateCommitting                  // its last bytes may be sent; only FindCreated knows its outcome
	StateCreated                     // the note exists
	StateRefused                     // certainly no note exists; the next run tries once more
	StateInDoubt                     // a note may exist; see Entry.Until
)

var stateNames = [...]string{"none", "claimed", "committing", "created", "refused", "in-doubt"}

// String returns the state's name.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// mayHaveNote reports whether a note may exist.
func (s State) mayHaveNote() bool {
	return s == StateCommitting || s == StateCreated || s == StateInDoubt
}

// Key is the hash of a recording's key and its service.
type Key [16]byte

// String returns the key in hexadecimal digits.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// MarshalText returns the key in hexadecimal digits.
func (k Key) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, k[:]), nil }

// UnmarshalText reads what MarshalText wrote.
func (k *Key) UnmarshalText(text []byte) error {
	if hex.DecodedLen(len(text)) != len(k) {
		return fail("the text is not a key", clinicaldoc.ErrInvalidArgument)
	}
	_, err := hex.Decode(k[:], text)
	return err
}

// hashOf returns the hash of several texts. Each is hashed with its length, so that ("ab", "c") and ("a", "bc") differ.
func hashOf(parts ...string) [sha256.Size]byte {
	h := sha256.New()
	for _, part := range parts {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		_, _ = h.Write(length[:])
		_, _ = h.Write([]byte(part))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func keyOf(service, key string) Key { return hashKey(service, nfc.String(key)) }

// hashKey returns the hash of a key as it is spelled.
func hashKey(service, key string) Key {
	sum := hashOf("key", service, key)
	return Key(sum[:len(Key{})])
}

func shortHash(parts ...string) uint32 {
	sum := hashOf(parts...)
	return binary.BigEndian.Uint32(sum[:])
}

func patientHash(service string, patient int64) uint32 {
	return shortHash("patient", service, strconv.FormatInt(patient, 10))
}

// describe sets the hashes of the patient and of the name, and the size. They identify the recording without naming the
// patient.
func (e *Entry) describe(service string, params clinicaldoc.CreateNoteParams) {
	e.Patient = patientHash(service, params.PatientID)
	patient := strconv.FormatInt(params.PatientID, 10)
	e.Name = shortHash("name", service, patient, nfc.String(strings.TrimSpace(params.Name)))
	e.Size = 0
	if params.Audio != nil {
		e.Size = params.Audio.Size()
	}
}

// isOtherRecording reports whether the key was used before, in this entry, for a recording of another patient or of
// another size. A recording that cannot have a note does not count.
func (e Entry) isOtherRecording(now Entry) bool {
	if !e.State.mayHaveNote() {
		return false
	}
	areSizesKnown := e.Size >= 0 && now.Size >= 0
	isOtherSize := areSizesKnown && e.Size != now.Size
	return isOtherSize || e.Patient != now.Patient
}

// maxCandidates is how many notes an entry names for a person to compare.
const maxCandidates = 100

// candidateIDs is the member of a loss that names the notes which may be it.
type candidateIDs struct {
	Candidates []int64 `json:"candidates"`
}

// Candidates returns the IDs of the notes that a person should compare, because the recording may have been made into
// one of them. The likeliest are first, and there are at most 100. Only unresolved recordings have any.
func (e Entry) Candidates() []int64 {
	var kept candidateIDs
	if e.State != StateInDoubt || json.Unmarshal(e.Loss, &kept) != nil {
		return nil
	}
	return kept.Candidates
}

// note returns the entry's note with its ID and CreatedAt.
func (e Entry) note() *clinicaldoc.ProgressNote {
	return &clinicaldoc.ProgressNote{ID: e.NoteID, CreatedAt: e.NoteCreatedAt}
}

// hasNote reports whether this recording has that note, as far as is known.
func (e Entry) hasNote(id int64, created time.Time) bool {
	return e.State == StateCreated && creates.NewRef(e.NoteID, e.NoteCreatedAt, "").Is(creates.NewRef(id, created, ""))
}

// OwnerOf returns the owner of a client's recordings: its service, the user of its token, and its headers. The user is
// 0 if the service does not report it. OwnerOf returns an error if the service cannot be reached or refuses the token.
func OwnerOf(ctx context.Context, client *clinicaldoc.Client) (Owner, error) {
	return askOwner(ctx, client)
}

// askOwner is OwnerOf with options for its request.
func askOwner(ctx context.Context, client *clinicaldoc.Client, opts ...clinicaldoc.CallOption) (Owner, error) {
	owner := Owner{Service: ServiceName(client.BaseURL()), Headers: fileheader.Fingerprint(client)}
	user, err := client.Users.Me(ctx, opts...)
	switch {
	case err == nil:
		owner.UserID = user.ID
	case ctx.Err() != nil || errors.Is(err, clinicaldoc.ErrUnauthorized) || clinicaldoc.Retryable(err):
		return Owner{}, err
	}
	return owner, nil // after another error, without its user: the service may not have this endpoint
}

// ServiceName returns the canonical name of the service at a base URL: it is the same for localhost, LOCALHOST:80/ and
// 127.0.0.1. Use it to name what belongs to a service, such as a journal's file.
func ServiceName(baseURL string) string { return exchange.Service(baseURL) }

// anyTime is for [Journal].EntriesForPatient: it returns the entries of all times.
var anyTime time.Time

var errNoClaim = errors.New("ingest: the claim was released")
