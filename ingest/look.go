package ingest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// An empty journal proves nothing: it may have been lost, or begun in another place. So the notes of the patient are
// searched for a recording that the journal does not know, before it is uploaded.

const (
	maxReads    = 30          // recordings that are read for one
	maxPatients = 256         // whose lists are kept
	freshFor    = time.Minute // a list, at least
)

// patientNotes is what a list of a patient's notes showed.
type patientNotes struct {
	ready      chan struct{} // closed when it is known
	freshUntil time.Time
	rows       []noteRow
	err        error
}

type noteRow struct {
	id      int64
	size    int64 // of its recording; 0 if the service does not report it
	created time.Time
	name    string
	stage   clinicaldoc.Stage
}

type notesCache map[int64]*patientNotes

// notesOf lists the patient's notes, once for all recordings that come together. A long list is kept for longer:
// listing takes a hundredth of the time at most.
func (r *run) notesOf(ctx context.Context, patient int64) ([]noteRow, error) {
	r.mu.Lock()
	n := r.notes[patient]
	if n != nil && !n.isOutdated() {
		r.mu.Unlock()
		select {
		case <-n.ready:
			return n.rows, n.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if len(r.notes) >= maxPatients {
		clear(r.notes)
	}
	n = &patientNotes{ready: make(chan struct{})}
	r.notes[patient] = n
	r.mu.Unlock()
	begun := time.Now()
	n.rows, n.err = r.list(ctx, patient)
	n.freshUntil = time.Now().Add(max(freshFor, 100*time.Since(begun)))
	close(n.ready)
	return n.rows, n.err
}

// isOutdated reports whether the notes have to be listed again: the list is old, or it failed in a way that may pass.
func (n *patientNotes) isOutdated() bool {
	select {
	case <-n.ready:
	default:
		return false // it is on its way
	}
	mayPass := n.err != nil && !isLastingListFailure(n.err)
	return mayPass || time.Now().After(n.freshUntil)
}

// list returns all notes of the patient.
func (r *run) list(ctx context.Context, patient int64) (rows []noteRow, err error) {
	params := clinicaldoc.ListNotesParams{PatientID: patient, PerPage: 100, TrustPatientFilter: true}
	for note, err := range r.uploader.Client.Notes.All(ctx, params) {
		if err != nil {
			return nil, err
		}
		if of, named := note.PatientID(); named && of != patient {
			continue // a recording without a patient gets the list of all patients
		}
		row := noteRow{id: note.ID, created: note.CreatedAt, name: note.Name, stage: note.Stage()}
		if note.Audio != nil {
			row.size = note.Audio.Size
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// searchThenUpload searches the patient's notes for the recording and uploads it if it has none. The notes are listed
// before the journal is read: a recording of this journal that made one of them is at least committing by then.
func (r *run) searchThenUpload(t *task) {
	rows, err := r.notesOf(r.ctx, t.recording.Params.PatientID)
	if err != nil {
		r.listFailed(t, err)
		return
	}
	entries, err := r.patientEntries(t)
	if err != nil {
		r.entriesFailed(t, err)
		return
	}
	seen := r.search(t, rows, entries)
	switch {
	case r.ctx.Err() != nil:
		r.drop(t)
	case seen.rival != nil:
		r.waitForRival(t, *seen.rival)
	case seen.found != nil:
		r.takeExistingNote(t, *seen.found, seen.sha256)
	case seen.undecidedWhy != nil:
		r.saveUndecided(t, seen.undecidedWhy, seen.candidates)
	default:
		t.keepExcluded(rows)
		r.upload(t)
	}
}

// keepExcluded drops the IDs of excluded notes that do not exist any more. The service may give such an ID to the note
// of the upload that follows, and that note is not excluded.
func (t *task) keepExcluded(rows []noteRow) {
	t.own.Excluded = slices.DeleteFunc(slices.Clone(t.own.Excluded), func(id int64) bool {
		return !slices.ContainsFunc(rows, func(row noteRow) bool { return row.id == id })
	})
}

// uploadNew uploads a recording that certainly has no note yet. If another one with the same content is unresolved, the
// recording waits for that first: only a unique name could tell their notes apart.
func (r *run) uploadNew(t *task, _ Entry) {
	entries, err := r.patientEntries(t)
	if err != nil {
		r.entriesFailed(t, err)
		return
	}
	if rival := t.rival(entries); rival != nil && !r.hasUniqueName(t, entries) {
		r.waitForRival(t, *rival)
		return
	}
	r.upload(t)
}

// listFailed decides what to do with a recording if the patient's notes cannot be listed. If the failure may pass, the
// recording is begun once more later; after too many tries, or if the request is invalid, it is refused. After any
// other failure it is uploaded if a person has decided that, and is otherwise unresolved.
func (r *run) listFailed(t *task, err error) {
	if r.ctx.Err() != nil {
		r.drop(t)
		return
	}
	health, mayTryLater := r.failureOf(t, err)
	switch {
	case mayTryLater && r.mayTryAgain(t):
		r.putBack(t, Result{Status: Refused, Err: err})
		return
	case mayTryLater || errors.Is(err, clinicaldoc.ErrInvalidArgument): // it was tried often enough, or cannot be sent
		r.refused(t, err)
		return
	}
	r.send(health) // putBack and refused report it themselves
	if t.decidedBy != "" {
		r.upload(t)
		return
	}
	const why = "the patient's notes cannot be listed, so it is not known whether it has a note already" +
		"; AllNew uploads without this check: "
	r.saveUndecided(t, fail(why+redact.Opaque(err).Error(), err), nil)
}

// patientEntries returns what the journal knows of the task's patient. It ignores damaged records, because notes are
// told apart by their recordings.
func (r *run) patientEntries(t *task) ([]Entry, error) {
	entries, err := r.uploader.Journal.EntriesForPatient(r.ctx, t.own.Patient, anyTime)
	if errors.Is(err, ErrJournalDamaged) {
		err = nil
	}
	return t.withCurrentNames(entries), err
}

// entriesFailed ends a task whose journal cannot be read.
func (r *run) entriesFailed(t *task, err error) {
	if r.ctx.Err() != nil {
		r.drop(t)
		return
	}
	r.endTaskWithJournal(t, Result{Status: Refused, Err: err}, err)
}

// sighting is what the patient's notes show of a recording. The zero value shows that it has no note.
type sighting struct {
	found        *noteRow
	sha256       string    // of the recording of found; empty: not known, because its name alone is the proof
	rival        *Entry    // another recording with this content, which has to be resolved first
	undecidedWhy error     // why it cannot be decided; nil: it can
	candidates   []noteRow // then, the notes that a person should compare
}

// search looks for the recording among the patient's notes. Only equal bytes, or a unique name, prove that a note is
// its own.
func (r *run) search(t *task, rows []noteRow, entries []Entry) sighting {
	rows = unexplained(t, rows, entries)
	if r.hasUniqueName(t, entries) {
		seen, decided := r.searchName(t, rows)
		if decided || r.uploader.Find.UniqueName { // with UniqueName, no note with another name can be its own
			return seen
		}
	}
	if rival := t.rival(entries); rival != nil {
		return sighting{rival: rival}
	}
	named, others := t.candidates(rows)
	if len(named)+len(others) == 0 {
		return sighting{}
	}
	sum, err := t.hash()
	if err != nil {
		return undecidedUnread(slices.DeleteFunc(named, t.isExcluded), err)
	}
	c := comparison{run: r, size: t.own.Size, sha256: sum}
	if seen, decided := c.searchNamed(t, named); decided {
		return seen
	}
	return c.searchOthers(t, others, entries)
}

// unexplained returns the notes that may be the recording's, as far as the journal knows: no other recording has or had
// them, and this one did not have them before it was sent again.
func unexplained(t *task, rows []noteRow, entries []Entry) []noteRow {
	byNote := map[int64][]*Entry{} // other recordings by their notes; a patient may have thousands of both
	for i := range entries {
		e := &entries[i]
		if e.Key == t.own.Key {
			continue
		}
		for _, id := range append(e.replacedIDs(), e.NoteID) {
			byNote[id] = append(byNote[id], e)
		}
	}
	return slices.DeleteFunc(slices.Clone(rows), func(row noteRow) bool {
		isOthers := func(e *Entry) bool { return e.ownsNote(row.id, row.created) }
		return t.own.hasReplacedNote(row.id, row.created) || slices.ContainsFunc(byNote[row.id], isOthers)
	})
}

// searchName looks for a note with the unique name of the recording. It reports false if no name of a note is like it.
func (r *run) searchName(t *task, rows []noteRow) (seen sighting, decided bool) {
	var equal, similar []noteRow
	for _, row := range rows {
		if t.isExcluded(row) && !r.hasSameContent(t, row) { // equal content overrides the decision
			continue
		}
		switch creates.CompareNames(t.recording.Params.Name, row.name) {
		case creates.NameEqual:
			equal = append(equal, row)
		case creates.NameUnclear:
			similar = append(similar, row)
		case creates.NameOther:
		}
	}
	all := slices.Concat(equal, similar)
	switch {
	case len(all) == 0:
		return sighting{}, false
	case len(all) > 1 || len(equal) == 0:
		return undecidedBecause("several notes may have its unique name", all, nil), true
	case r.hasOtherRecording(t, equal[0]):
		return undecidedBecause("a note has its unique name, but another recording", equal, nil), true
	}
	return sighting{found: &equal[0]}, true
}

// isExcluded reports whether a person decided that the note is not the recording's. Equal content overrides that.
func (t *task) isExcluded(row noteRow) bool { return slices.Contains(t.own.Excluded, row.id) }

// hasSameContent reports whether the note is known to have the recording.
func (r *run) hasSameContent(t *task, row noteRow) bool {
	sum, err := t.hash()
	if err != nil {
		return false
	}
	c := comparison{run: r, size: t.own.Size, sha256: sum}
	return c.compare(row) == creates.Equal
}

// hasOtherRecording reports whether the note is known to have another recording. That can be known only where the
// service stores recordings unchanged.
func (r *run) hasOtherRecording(t *task, row noteRow) bool {
	if !r.uploader.Client.Assumptions().RecordingsUnchanged {
		return false
	}
	sum, err := t.hash()
	if err != nil {
		return false
	}
	c := comparison{run: r, size: t.own.Size, sha256: sum}
	return c.compare(row) == creates.Differs
}

// candidates returns the notes that may be the recording's, the likeliest first: those with its name, and others whose
// size is the same or not reported. A note with another name counts, because a person may have changed the name.
func (t *task) candidates(rows []noteRow) (named, others []noteRow) {
	for _, row := range rows {
		switch {
		case isNamed(t.recording.Params.Name, row.name):
			named = append(named, row)
		case row.size == t.own.Size, row.size == 0 && t.own.Size > 0:
			others = append(others, row)
		}
	}
	likeliestFirst := func(a, b noteRow) int {
		return cmp.Or(t.unlikeliness(a)-t.unlikeliness(b), cmp.Compare(a.id, b.id))
	}
	slices.SortFunc(named, likeliestFirst)
	slices.SortFunc(others, likeliestFirst)
	return named, others
}

// unlikeliness ranks a note among the candidates: 0 is the likeliest. Notes that the service could not process come
// last, because their recordings may have been sent again.
func (t *task) unlikeliness(row noteRow) int {
	unlikely := 0
	if row.size != t.own.Size {
		unlikely++
	}
	if row.stage == clinicaldoc.StageFailed {
		unlikely += 2
	}
	return unlikely
}

// isNamed reports whether a note may have the name that was sent. A service may change its spaces, or its letters to
// others of the same kind.
func isNamed(sent, got string) bool {
	if strings.TrimSpace(sent) == "" {
		return false
	}
	return creates.CompareNames(plainName(sent), plainName(got)) != creates.NameOther
}

func plainName(name string) string { return strings.ToLower(strings.Join(strings.Fields(name), " ")) }

// undecidedUnread returns what is known of a recording that can be read only once, so that it cannot be compared: it
// may have one of the notes with its name. If there are none, it has no note.
func undecidedUnread(named []noteRow, err error) sighting {
	if len(named) == 0 {
		return sighting{}
	}
	return undecidedBecause("a note has its name, and the recording cannot be read before it is sent", named, err)
}

// undecidedBecause returns a sighting that asks a person to compare these notes. The cause is added to the reason,
// unless it is nil.
func undecidedBecause(reason string, rows []noteRow, cause error) sighting {
	why := "cannot determine whether the recording already has a note: " + reason
	causes := []error{clinicaldoc.ErrOutcomeUnknown}
	if cause != nil {
		why += " (" + redact.Opaque(cause).Error() + ")"
		causes = append(causes, cause)
	}
	why += "; compare it with " + describe(rows) +
		" and decide which note is its own, or that none is (Uploader.Resolve)"
	return sighting{undecidedWhy: fail(why, causes...), candidates: rows}
}

// describe names a few notes by their id and when they were created.
func describe(rows []noteRow) string {
	const most = 5
	var names []string
	for _, row := range rows[:min(len(rows), most)] {
		name := fmt.Sprintf("note %d", row.id)
		if !row.created.IsZero() {
			name += " of " + row.created.UTC().Format(time.RFC3339)
		}
		names = append(names, name)
	}
	if more := len(rows) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// takeExistingNote saves that the recording has a note already, and the SHA-256 of the note's recording, if that is
// known. It runs for one recording at a time, so that no two of a run take the same note. Other runs can share the
// journal. So the recording announces the note in the journal first, and then reads what others have announced: of two
// that do so at the same time, at least one sees the other. If another recording has the note, or is taking it, this
// one is begun again later.
func (r *run) takeExistingNote(t *task, found noteRow, sha256 string) {
	r.takeLock <- struct{}{}
	defer func() { <-r.takeLock }()
	taker, err := r.takerOf(t, found)
	if err == nil && taker == nil {
		if err := r.announce(t, found, sha256); err != nil {
			r.notJournaled(t, err)
			return
		}
		taker, err = r.takerOf(t, found)
	}
	switch {
	case err != nil:
		r.entriesFailed(t, err)
		return
	case taker != nil:
		r.leaveNote(t, found, *taker)
		return
	}
	e := t.own
	e.State = StateCreated
	e.At = time.Now()
	e.SentAt = e.At // the upload is not known; EntriesForPatient has to find the entry also if the note has no time
	e.NoteID = found.id
	e.NoteCreatedAt = found.created
	e.Found = true
	e.SHA256 = sha256
	e.Excluded = nil
	result := Result{Status: AlreadyThere, NoteID: e.NoteID, Replaced: e.replacedIDs()}
	if r.follower.isNeeded() {
		e.Stage = found.stage
		result.Stage = found.stage
	}
	r.endTaskWith(t, result, taskEnded{health: serviceAnswered, journalErr: r.save(t, e)})
}

// takerOf returns the entry of another recording that has the note or, if there is none, the one with the lowest key
// that has announced it. It returns nil if there is neither.
func (r *run) takerOf(t *task, found noteRow) (taker *Entry, err error) {
	entries, err := r.patientEntries(t)
	if err != nil {
		return nil, err
	}
	for i := range entries {
		e := &entries[i]
		switch {
		case e.Key == t.own.Key:
		case e.ownsNote(found.id, found.created):
			return e, nil
		case e.hasAnnounced(found.id) && (taker == nil || e.Key.isBelow(taker.Key)):
			taker = e
		}
	}
	return taker, nil
}

// isBelow reports whether a key comes before another one.
func (k Key) isBelow(other Key) bool { return bytes.Compare(k[:], other[:]) < 0 }

// announce saves that the recording is about to take a note that was found. If the process ends now, the next run
// searches again.
func (r *run) announce(t *task, found noteRow, sha256 string) error {
	e := t.own
	e.State = StateInDoubt
	e.At = time.Now()
	e.NoteID = found.id
	e.SHA256 = sha256
	e.By = t.decidedBy
	e.Why = "its note was found, and the process ended before that was saved"
	return r.write(t, e)
}

// hasAnnounced reports whether the recording is about to take this note.
func (e Entry) hasAnnounced(id int64) bool {
	return e.State == StateInDoubt && e.SentAt.IsZero() && e.NoteID == id
}

// leaveNote leaves a note that was found to another recording for now, and takes back what the task has announced. Of
// two that have only announced it, the one with the lower key keeps its announcement and gets the note later.
func (r *run) leaveNote(t *task, found noteRow, taker Entry) {
	isFirst := taker.hasAnnounced(found.id) && t.own.Key.isBelow(taker.Key)
	if t.claim.Entry().hasAnnounced(found.id) && !isFirst {
		e := t.own
		e.State = StateRefused
		e.At = time.Now()
		e.By = t.decidedBy
		e.Why = "the note that was found for it is another recording's"
		if err := r.write(t, e); err != nil {
			r.notJournaled(t, err)
			return
		}
	}
	taker.State = StateCreated // it has the note, or will have it in a moment
	r.waitForRival(t, taker)
}

// saveUndecided saves that the recording may have a note already, and the notes that a person should compare. It was
// not sent: the next run searches again.
func (r *run) saveUndecided(t *task, why error, candidates []noteRow) {
	ids := make([]int64, 0, maxCandidates)
	for _, row := range candidates[:min(len(candidates), maxCandidates)] {
		ids = append(ids, row.id)
	}
	e := t.own
	e.State = StateInDoubt
	e.At = time.Now()
	e.Why = redact.Opaque(why).Error()
	e.SHA256 = t.sha256
	if len(ids) > 0 {
		e.Loss, _ = json.Marshal(candidateIDs{ids})
	}
	err := r.save(t, e)
	r.endTaskWithJournal(t, Result{Status: InDoubt, Candidates: e.Candidates(), Err: why}, err)
}

// hash returns the recording's SHA-256, which it computes once.
func (t *task) hash() (string, error) {
	if t.sha256 != "" {
		return t.sha256, nil
	}
	var err error
	t.sha256, err = t.recording.Params.Audio.SHA256()
	return t.sha256, err
}
