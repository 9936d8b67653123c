package faultmatrix

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

const (
	otherName     = "canary name by a colleague"
	otherAnalysis = "canary thoughts of a colleague"
)

// edit is a colleague's change of some texts, past the fronts.
func edit(w *world, texts ...string) {
	w.change(http.MethodPut, w.note, "{"+strings.Join(texts, ",")+"}")
}

// editAll changes what the caller is about to change, and what it is not.
func editAll(w *world) { edit(w, `"name":"`+otherName+`"`, `"analysis":"`+otherAnalysis+`"`) }

// editRest changes only what the caller leaves alone.
func editRest(w *world) { edit(w, `"analysis":"`+otherAnalysis+`"`) }

// change acts on a note as a colleague with the same rights.
func (w *world) change(method string, id int64, body string) {
	header := http.Header{"Authorization": {"Bearer " + w.secret}, "Accept": {"application/json"}, "Content-Type": {"application/json"}}
	if a := w.forward(method, fmt.Sprint("/v1/progress-notes/", id), header, []byte(body)); a.status != http.StatusOK {
		panic(fmt.Sprintf("the box refuses a colleague with %d", a.status))
	}
}

// vanish deletes a note while a list is walked through.
func (w *world) vanish(id int64) {
	w.change(http.MethodDelete, id, "")
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.vanished == nil {
		w.vanished = map[int64]bool{}
	}
	w.vanished[id] = true
}

// heldThroughout tells whether all notes were seen that were there from the first page to the last.
func (w *world) heldThroughout(seen map[int64]bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(w.notes, func(id int64) bool { return !seen[id] && !w.vanished[id] })
}

// appear adds a note while a list is walked through.
func (w *world) appear() {
	w.box.AddNote(clinicaldoctest.Note{UserID: w.user.ID, PatientID: patientID, Name: canary + " newcomer"})
}

// created are the notes that this user's creates made.
func (w *world) created() []clinicaldoctest.Note {
	return slices.DeleteFunc(w.box.Notes(), func(n clinicaldoctest.Note) bool { return n.Name != createdName || n.UserID != w.user.ID })
}

// holdsRecording tells whether the note is this user's and has the recording that was sent, by its fingerprint.
func (w *world) holdsRecording(id, size int64) bool {
	sum := sha256.Sum256(tape()[:size])
	return slices.ContainsFunc(w.created(), func(n clinicaldoctest.Note) bool {
		return n.ID == id && n.AudioSHA256 == hex.EncodeToString(sum[:])
	})
}

var errRefused = errors.New("synthetic refusal")

// agree and refuse are what BeforeCommit does. Neither may run when a note can be there.
func (w *world) agree() error {
	w.agreed.Add(1)
	if len(w.created()) > 0 {
		w.premature.Store(true)
	}
	return nil
}

func (w *world) refuse() error {
	_ = w.agree()
	return errRefused
}

// beforeAnswer is where others come in between: when a read is done, and before its answer is out.
func (w *world) beforeAnswer(r *http.Request) {
	if !w.op.guarded || r.Method != http.MethodGet || r.URL.Path != ofNote("")(w) {
		return
	}
	w.mu.Lock()
	first := !w.armed
	w.armed = true
	w.mu.Unlock()
	if first && w.fault.inWindow != nil {
		w.fault.inWindow(w)
	}
}
