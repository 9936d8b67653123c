package ingest

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
	"github.com/clinicaldoc/clinicaldoc-go/internal/nfc"
)

// One recording may be wanted as several notes of its patient, such as a progress note and a letter. If the responses
// of two of them are lost, their recordings cannot tell the notes apart. So such recordings are sent one after the
// other: the next one waits until the one before is resolved.

// content identifies what was recorded of a patient.
type content struct {
	patient uint32
	sha256  string
}

// reserve makes the task the only one of this run that may have an unresolved note with this content, if no other task
// is that already. It returns the key of the task that is.
func (r *run) reserve(t *task, sum string) (holder Key) {
	wanted := content{t.own.Patient, sum}
	r.mu.Lock()
	defer r.mu.Unlock()
	holder, isReserved := r.reservedBy[wanted]
	if isReserved {
		return holder
	}
	r.reservedBy[wanted] = t.own.Key
	t.reservedContents = append(t.reservedContents, wanted)
	return t.own.Key
}

// freeReserved lets other tasks reserve the contents of this one. The caller holds r.mu.
func (r *run) freeReserved(t *task) {
	for _, c := range t.reservedContents {
		delete(r.reservedBy, c)
	}
	t.reservedContents = nil
}

// rival returns another recording of the patient that may have the same content, and that may have made a note which is
// not known. It returns nil if there is none, or if the task's recording cannot be read before it is sent.
func (t *task) rival(entries []Entry) *Entry {
	for i := range entries {
		e := &entries[i]
		const anySum = "" // the recording is read only if another one has its size
		if e.Key == t.own.Key || !e.mayHaveUnknownNote() || !e.mayHaveContent(t.own.Size, anySum) {
			continue
		}
		sum, err := t.hash()
		if err == nil && e.mayHaveContent(t.own.Size, sum) {
			return e
		}
	}
	return nil
}

// mayHaveUnknownNote reports whether the recording may have made a note that is not known yet.
func (e Entry) mayHaveUnknownNote() bool {
	wasSent := !e.SentAt.IsZero() // it may be unresolved because of a note that was there before
	return e.State == StateCommitting || e.State == StateInDoubt && wasSent
}

// mayHaveContent reports whether the recording may have this size and SHA-256. An empty sum and a negative size are not
// known, so they fit. If both sums are known, the size does not count.
func (e Entry) mayHaveContent(size int64, sum string) bool {
	if e.SHA256 != "" && sum != "" {
		return e.SHA256 == sum
	}
	sizeUnknown := e.Size < 0 || size < 0
	return sizeUnknown || e.Size == size
}

// ownsNote reports whether the note is this recording's: it is known to be or to have been, or the response to the
// upload contained its id.
func (e Entry) ownsNote(id int64, created time.Time) bool {
	isNamedByResponse := e.mayHaveUnknownNote() && e.NoteID == id
	return e.hasNote(id, created) || isNamedByResponse || e.hasReplacedNote(id, created)
}

// hasReplacedNote reports whether the note was the recording's before the recording was sent again.
func (e Entry) hasReplacedNote(id int64, created time.Time) bool {
	is := creates.NewRef(id, created, "").Is
	return slices.ContainsFunc(e.Replaced, func(note NoteRef) bool {
		return is(creates.NewRef(note.ID, note.CreatedAt, ""))
	})
}

// rivalError is why a recording is not sent now: another one with the same content has to be resolved first, or has
// taken the note that was found for this one.
type rivalError struct{ rival Entry }

func (e *rivalError) Error() string {
	switch e.rival.State {
	case StateInDoubt:
		return "ingest: not sent, because the outcome of another recording with the same content for the patient is " +
			"unknown; resolve recording " + e.rival.Key.String() + " first (Uploader.Resolve)"
	case StateCommitting:
		return "ingest: not sent, because another recording with the same content for the patient is being sent, or " +
			"was sent and its outcome is not known yet; try again later, in one run with recording " +
			e.rival.Key.String()
	default:
		return "ingest: not sent, because the note that was found for it belongs to another recording of the " +
			"patient; try again later"
	}
}

// Unwrap makes errors.Is find [clinicaldoc.ErrOutcomeUnknown]. It also finds [ErrTaken], unless the other recording is
// unresolved.
func (e *rivalError) Unwrap() []error {
	if e.rival.State == StateInDoubt {
		return []error{clinicaldoc.ErrOutcomeUnknown}
	}
	return []error{clinicaldoc.ErrOutcomeUnknown, ErrTaken}
}

// waitForRival begins the recording again when its rival has its result, or after a pause. The rival has the same
// content and may have made a note that is not known yet, or it has taken the note that was found for this recording.
//
// If the rival is not under way in this run, the recording waits about a minute in all. Then it is unresolved.
func (r *run) waitForRival(t *task, rival Entry) {
	r.mu.Lock()
	isInThisRun := rival.mayHaveUnknownNote() && r.activeTasks[rival.Key] != nil
	r.mu.Unlock()
	isWorthIt := isInThisRun || t.job.rivalWaits < maxAsks
	mayWait := r.uploader.MaxPause >= 0 && isWorthIt
	why := &rivalError{rival}
	switch {
	case mayWait:
		if !isInThisRun {
			t.job.rivalWaits++
		}
		r.block(t, rival.Key)
	case rival.State == StateInDoubt:
		r.saveUndecided(t, why, nil)
	default:
		r.endTask(t, Result{Status: InDoubt, Until: rival.Until, Err: why})
	}
}

// unblock makes recordings due that have waited for another one, which has its result now.
func (r *run) unblock(key Key) {
	for i := range r.backlog {
		if r.backlog[i].waitsFor == key {
			r.backlog[i].due = time.Time{}
		}
	}
}

// hasUniqueName reports whether the recording's name identifies its note, as isNameUnique has it, and no other
// recording of the journal has that name.
func (r *run) hasUniqueName(t *task, entries []Entry) bool {
	if !r.isNameUnique(t) {
		return false
	}
	for _, e := range entries {
		if e.Key != t.own.Key && e.Name == t.own.Name {
			return false
		}
	}
	return true
}

// isNameUnique reports whether the caller states that names are unique, or the name contains the key.
func (r *run) isNameUnique(t *task) bool {
	return r.uploader.Find.UniqueName || containsKey(t.recording.Params.Name, t.recording.Key)
}

const minKeyInName = 8 // characters; a shorter key may stand in a name by accident

// containsKey reports whether a name contains a key that is not a part of a longer word or number.
func containsKey(name, key string) bool {
	name = nfc.String(name)
	key = nfc.String(key)
	if utf8.RuneCountInString(key) < minKeyInName || !strings.ContainsFunc(key, isWord) {
		return false
	}
	_, firstWidth := utf8.DecodeRuneInString(key)
	for searched := 0; ; {
		i := strings.Index(name[searched:], key)
		if i < 0 {
			return false
		}
		start := searched + i
		end := start + len(key)
		last, _ := utf8.DecodeLastRuneInString(name[:start])
		next, _ := utf8.DecodeRuneInString(name[end:])
		if !isWord(last) && !isWord(next) {
			return true
		}
		searched = start + firstWidth // the next one may overlap this one
	}
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) }
