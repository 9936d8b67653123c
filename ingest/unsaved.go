package ingest

import (
	"sync"
	"weak"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// unsaved are notes that Create returned and the journal could not write down. For its client such a note is explained, so
// that FindCreated would say that the recording has none: as long as the process lives, it has to be known here.
var unsaved sync.Map // of unsavedKey to *clinicaldoc.ProgressNote

type unsavedKey struct {
	client weak.Pointer[clinicaldoc.Client]
	key    Key
}

func (r *run) unsavedKey(t *task) unsavedKey {
	return unsavedKey{weak.Make(r.uploader.Client), t.own.Key}
}

// unsaved returns a recording's note that an earlier run could not write down, by its id and time; nil: there is none.
func (r *run) unsaved(t *task) *clinicaldoc.ProgressNote {
	value, _ := unsaved.Load(r.unsavedKey(t))
	note, _ := value.(*clinicaldoc.ProgressNote)
	return note
}

// saveCreated writes down a note that a response named.
func (r *run) saveCreated(t *task, e Entry) error {
	err := r.save(t, e)
	if err != nil {
		unsaved.Store(r.unsavedKey(t), e.note())
	} else {
		unsaved.Delete(r.unsavedKey(t))
	}
	return err
}

// saveAgain writes down what an earlier run could not.
func (r *run) saveAgain(t *task) {
	e := t.createdEntry(r.unsaved(t), false)
	r.done(t, Result{Status: AlreadyThere, NoteID: e.NoteID}, r.saveCreated(t, e))
}
