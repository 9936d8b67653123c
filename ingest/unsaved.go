package ingest

import (
	"slices"
	"sync"
	"time"
	"weak"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// unsavedNotes are notes that Create returned and the journal could not save. The client knows that such a note belongs
// to this create, so FindCreated would report that a lost create of the recording has none. Later runs of the process
// find it here.
var unsavedNotes sync.Map // of unsavedKey to *clinicaldoc.ProgressNote

// unsavedDoubts are lost creates that the journal could not save. The client knows them. If the next run constructed
// the error again from the journal, the client would take that for a second lost create, and a note could belong to
// either.
var unsavedDoubts sync.Map // of unsavedKey to unsavedDoubt

type unsavedDoubt struct {
	committedAt time.Time // Entry.At of the upload's last entry in the journal
	entry       Entry
}

type unsavedKey struct {
	client weak.Pointer[clinicaldoc.Client]
	key    Key
}

func (r *run) unsavedKey(t *task) unsavedKey {
	return unsavedKey{weak.Make(r.uploader.Client), t.own.Key}
}

// unsavedNote returns the note of a recording that an earlier run of this process could not save, with only its ID and
// CreatedAt. It returns nil if there is none, or if the recording was sent again because of that note: then another
// process had saved it.
func (r *run) unsavedNote(t *task) *clinicaldoc.ProgressNote {
	value, _ := unsavedNotes.Load(r.unsavedKey(t))
	note, _ := value.(*clinicaldoc.ProgressNote)
	if note != nil && slices.Contains(t.own.replacedIDs(), note.ID) {
		return nil
	}
	return note
}

// saveCreated saves a note that a response named. If the journal does not save it, for example because another worker
// took the recording over, later runs of this process know the note from unsavedNotes.
func (r *run) saveCreated(t *task, e Entry) error {
	err := r.write(t, e)
	if err != nil {
		unsavedNotes.Store(r.unsavedKey(t), e.note())
	} else {
		unsavedNotes.Delete(r.unsavedKey(t))
	}
	return unlessTaken(err)
}

// saveAgain saves the note that an earlier run could not save, and ends the task.
func (r *run) saveAgain(t *task) {
	e := r.createdEntry(t, r.unsavedNote(t))
	result := Result{Status: AlreadyThere, NoteID: e.NoteID, Replaced: e.replacedIDs()}
	r.endTaskWithJournal(t, result, r.saveCreated(t, e))
}

// saveDoubt saves that the recording is unresolved. If it cannot, later runs of this process know that from
// unsavedDoubts.
func (r *run) saveDoubt(t *task, e Entry) error {
	lost := unsavedDoubt{t.entry.At, e}
	err := r.save(t, e)
	if err != nil {
		unsavedDoubts.Store(r.unsavedKey(t), lost)
	} else {
		unsavedDoubts.Delete(r.unsavedKey(t))
	}
	return err
}

// resumeUnsaved continues with a lost create of this upload that an earlier run could not save. It reports whether
// there is one.
func (r *run) resumeUnsaved(t *task) bool {
	kept, _ := unsavedDoubts.Load(r.unsavedKey(t))
	lost, ok := kept.(unsavedDoubt)
	if !ok || !lost.committedAt.Equal(t.entry.At) { // there is none, or it is of another upload
		return false
	}
	t.entry = lost.entry
	t.entry.At = lost.committedAt // if saving fails once more, the next run finds it by this time
	r.saveUnresolved(t, lost.entry.Until, lost.entry.Why)
	return true
}
