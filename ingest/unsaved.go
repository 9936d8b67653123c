package ingest

import (
	"sync"
	"weak"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// unsaved are notes that Create returned and the journal could not write down. For its client such a note is explained, so
// that FindCreated would say that the recording has none: as long as the process lives, it has to be known here.
var unsaved sync.Map // of unsavedKey to the note's id

type unsavedKey struct {
	client weak.Pointer[clinicaldoc.Client]
	key    Key
}

func (r *run) unsavedKey(t *task) unsavedKey {
	return unsavedKey{weak.Make(r.uploader.Client), t.own.Key}
}

// unsaved returns the id of a recording's note that an earlier run could not write down; 0: there is none.
func (r *run) unsaved(t *task) int64 {
	id, _ := unsaved.Load(r.unsavedKey(t))
	note, _ := id.(int64)
	return note
}

// saveCreated writes down a note that a response named.
func (r *run) saveCreated(t *task, e Entry) error {
	err := r.save(t, e)
	if err != nil {
		unsaved.Store(r.unsavedKey(t), e.NoteID)
	} else {
		unsaved.Delete(r.unsavedKey(t))
	}
	return err
}

// saveAgain writes down what an earlier run could not.
func (r *run) saveAgain(t *task) {
	e := t.createdEntry(&clinicaldoc.ProgressNote{ID: r.unsaved(t)}, false)
	r.done(t, Result{Status: AlreadyThere, NoteID: e.NoteID}, r.saveCreated(t, e))
}
