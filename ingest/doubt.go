package ingest

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

const (
	defaultSettle = 10 * time.Minute // as FindCreated's
	maxResolvers  = 32               // searches at a time
	maxDoubts     = 10_000           // unresolved recordings at a time; what comes then is left to the next run
	relatedWindow = 27 * time.Hour   // FindCreated looks at the notes of about a day
	maxAsks       = 6                // in vain about one recording in one run
	maxAskTime    = 2 * time.Minute  // after it was first asked about in vain
	firstPause    = 2 * time.Second  // after it was asked about in vain; doubled each time
)

// lost makes a recording unresolved: it was sent, and the response is missing or did not show its note.
func (r *run) lost(t *task, unknown *clinicaldoc.OutcomeUnknownError) {
	lostAt := time.Now()
	var took time.Duration
	if !unknown.LostAt.IsZero() {
		lostAt = unknown.LostAt
		took = max(lostAt.Sub(unknown.SentAt), 0)
		t.entry.SentAt = unknown.SentAt
	}
	if unknown.AudioSize != 0 { // the size of a stream is known only after it was read
		t.entry.Size = unknown.AudioSize
	}
	t.entry.Loss = lossOf(unknown, map[string]any{"audio_sha256": t.entry.SHA256})
	t.entry.NoteID = namedNote(t.entry.Loss)
	r.enterDoubt(t, lostAt.Add(max(r.settle(), took)), redact.Opaque(unknown).Error())
}

// recover makes a recording unresolved that an earlier process or run had committed. Nobody knows when that one ended,
// so the time until it can be decided begins now.
func (r *run) recover(t *task, known Entry) {
	t.entry = known
	if r.resumeUnsaved(t) {
		return
	}
	took := max(t.entry.At.Sub(t.entry.SentAt), 0)
	more := map[string]any{"id": rand.Text(), "audio_sha256": t.entry.SHA256, "took": int64(took)}
	if !t.entry.isOfUnknownUser() {
		more["service"] = r.owner.Service
		more["user_id"] = r.owner.UserID
	}
	t.entry.Loss = lossOf(&clinicaldoc.OutcomeUnknownError{SentAt: t.entry.SentAt, AudioSize: t.entry.Size}, more)
	r.enterDoubt(t, time.Now().Add(max(r.settle(), took)), "the process ended before the response came")
}

// ofUnknownUser is the Loss of a recording that is committed by a run which does not know its user. The journal may get
// an owner later, who did not send the recording and may not see its note.
var ofUnknownUser = json.RawMessage(`{"user_unknown":true}`)

func (e Entry) isOfUnknownUser() bool {
	return e.State == StateCommitting && bytes.Equal(e.Loss, ofUnknownUser)
}

// explain adds to FindCreated's error what a person can do if the journal does not know who sent the recording. An
// older version did not keep that.
func (t *task) explain(err error) error {
	if t.unknown().Service != "" {
		return err
	}
	const why = "the journal does not know which user sent it; compare it with the patient's notes and decide " +
		"which note is its own, or that none is (Uploader.Resolve): "
	return fail(why+redact.Opaque(err).Error(), err)
}

// keepLearned adds to the entry's Loss what FindCreated's error contains: the service's clock, with which Settle counts
// in the next process too, and the notes that a person should compare. It reports whether Loss has changed.
func (t *task) keepLearned(err error) bool {
	unknown, ok := errors.AsType[*clinicaldoc.OutcomeUnknownError](err)
	if !ok || len(t.entry.Loss) == 0 {
		return false
	}
	before := t.entry.Loss
	t.entry.Loss = lossOf(unknown, map[string]any{"took": int64(t.took())})
	return !bytes.Equal(before, t.entry.Loss)
}

// lossOf returns the JSON of a lost create for [Entry].Loss. It leaves out the params, which name a patient and which
// the recording has. More members replace those of the same name, except zero values.
func lossOf(unknown *clinicaldoc.OutcomeUnknownError, more map[string]any) json.RawMessage {
	loss := *unknown
	loss.Params = clinicaldoc.CreateNoteParams{}
	text, err := json.Marshal(loss)
	members := map[string]json.RawMessage{}
	if err != nil || json.Unmarshal(text, &members) != nil {
		return nil
	}
	for name, value := range more {
		if value != "" && value != int64(0) {
			members[name], _ = json.Marshal(value)
		}
	}
	delete(members, "params")
	delete(members, "error")
	text, _ = json.Marshal(members)
	return text
}

// namedNote returns the id that the response contained, or 0 if nothing shows that it is a note's: a job has one too.
func namedNote(loss json.RawMessage) int64 {
	var kept struct {
		NoteID   int64 `json:"note_id"`
		Unproven bool  `json:"note_id_unproven"`
	}
	if err := json.Unmarshal(loss, &kept); err != nil || kept.Unproven {
		return 0
	}
	return kept.NoteID
}

func (r *run) settle() time.Duration { return cmp.Or(r.uploader.Find.Settle, defaultSettle) }

// enterDoubt saves that the recording is unresolved, and from when on it can be said that there is no note. That time
// is saved once, so that no restart postpones it.
func (r *run) enterDoubt(t *task, until time.Time, why string) {
	e := t.entry
	e.State = StateInDoubt
	e.At = time.Now()
	e.Until = until
	e.Why = why
	if err := r.saveDoubt(t, e); err != nil {
		r.done(t, t.inDoubt(), err)
		return
	}
	r.doubt(t)
}

// doubt leaves an unresolved recording to a resolver, so that the worker can go on. If too many are unresolved, it
// leaves the recording to the next run.
func (r *run) doubt(t *task) {
	if t.entry.SHA256 != "" {
		r.reserve(t, t.entry.SHA256)
	}
	r.mu.Lock()
	isNew := !t.doubted
	isFull := isNew && r.doubts >= maxDoubts
	if isNew && !isFull {
		t.doubted = true
		r.doubts++
	}
	if t.entry.Until.After(r.decidedBy) {
		r.decidedBy = t.entry.Until
	}
	r.mu.Unlock()
	if isFull {
		const why = "too many recordings are unresolved; the next run searches for this one"
		t.err = cmp.Or(t.err, fail(why, clinicaldoc.ErrOutcomeUnknown))
		r.done(t, t.inDoubt(), nil)
		return
	}
	r.event(Event{Recording: t.recording, JournalKey: t.own.Key, State: StateInDoubt, Until: t.entry.Until})
	r.resolve(t)
}

// resolve leaves the recording to a resolver, and begins another resolver if there are not too many.
func (r *run) resolve(t *task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = append(r.pending, t)
	if r.resolvers < maxResolvers {
		r.resolvers++
		r.workers.Go(r.resolveAll)
	}
}

// resolveAll is a resolver. It ends when nothing is pending.
func (r *run) resolveAll() {
	returned := false
	defer func() {
		if !returned { // the caller's own code ended the goroutine
			r.workers.Go(r.resolveAll)
		}
	}()
	for t := r.nextPending(); t != nil; t = r.nextPending() {
		r.guard(t, r.ask)
	}
	returned = true
}

// nextPending returns the next task for a resolver. If there is none, it returns nil and no longer counts the resolver.
func (r *run) nextPending() *task {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) == 0 {
		r.resolvers--
		return nil
	}
	t := r.pending[0]
	r.pending = slices.Delete(r.pending, 0, 1)
	return t
}

// ask waits for FindCreated's verdict on an unresolved recording. If there is none, it asks again as long as the
// journal knows more of the patient's notes than before.
func (r *run) ask(t *task) {
	knownBefore := math.MinInt
	for {
		related, err := r.related(t)
		if err != nil {
			r.journalFailed(t, err)
			return
		}
		params := r.findParams(t, related)
		known := len(params.Exclude) - len(params.Unresolved)
		if known <= knownBefore {
			r.undecided(t)
			return
		}
		knownBefore = known
		if r.askOnce(t, params) {
			return
		}
	}
}

// askOnce asks FindCreated once. It reports true if the task is over or goes on elsewhere, and false if there was no
// verdict.
func (r *run) askOnce(t *task, params clinicaldoc.FindCreatedParams) (over bool) {
	before := t.err
	note, err := r.findCreated(t, params)
	switch {
	case err == nil:
		return r.found(t, note)
	case errors.Is(err, clinicaldoc.ErrNotCreated):
		r.notCreated(t, err)
		return true
	}
	t.err = t.explain(err)
	learned := t.keepLearned(err)
	if r.resolving.Err() == nil {
		return false
	}
	t.err = cmp.Or(before, err) // the end of the run is not why the recording is unresolved
	var broken error
	if learned {
		broken = r.save(t, t.entry)
	}
	r.done(t, t.inDoubt(), broken)
	return true
}

// findCreated calls FindCreated, first by a unique name if the recording has one. A name that contains the key proves
// that a note is the recording's. If no note has it, that proves nothing, because a service or a person may change
// names: then the content of the notes has to decide.
func (r *run) findCreated(t *task, params clinicaldoc.FindCreatedParams) (*clinicaldoc.ProgressNote, error) {
	notes := r.uploader.Client.Notes
	note, err := notes.FindCreated(r.resolving, t.unknown(), params)
	namesUnchanged := r.uploader.Find.UniqueName || r.uploader.Client.Assumptions().NamesUnchanged
	if !params.UniqueName || namesUnchanged || !errors.Is(err, clinicaldoc.ErrNotCreated) {
		return note, err
	}
	params.UniqueName = false
	return notes.FindCreated(r.resolving, t.unknown(), params)
}

// related returns what the journal knows of the patient from about the time of the upload; if a name identifies the
// note, from any time.
func (r *run) related(t *task) ([]Entry, error) {
	since := t.entry.SentAt.Add(-relatedWindow)
	if r.isNameUnique(t) {
		since = time.Time{}
	}
	return r.uploader.Journal.EntriesForPatient(r.resolving, t.own.Patient, since)
}

// journalFailed ends an unresolved task because the journal cannot be read. That also ends the run, unless only one
// record is damaged.
func (r *run) journalFailed(t *task, err error) {
	if r.resolving.Err() != nil { // it is the run that ended
		r.done(t, t.inDoubt(), nil)
		return
	}
	t.err = err
	if errors.Is(err, ErrJournalDamaged) {
		err = nil
	}
	r.done(t, t.inDoubt(), err)
}

// found takes the note that FindCreated returned, unless another recording of the journal has it or may have made it
// since the search began. One at a time, so that no two take the same. It reports false if it has to be asked again.
func (r *run) found(t *task, note *clinicaldoc.ProgressNote) (over bool) {
	r.finding <- struct{}{}
	defer func() { <-r.finding }()
	related, err := r.related(t)
	if err != nil {
		r.journalFailed(t, err)
		return true
	}
	for _, e := range related {
		if e.Key != t.own.Key && r.mayClaim(e, t, note) {
			const why = "a note was found, but it is or may be that of another recording"
			t.err = fail(why, clinicaldoc.ErrOutcomeUnknown)
			return false
		}
	}
	e := r.createdEntry(t, note, true)
	result := Result{Status: Created, NoteID: note.ID, Note: note, Stage: note.Stage(), Replaced: e.replacedIDs()}
	r.done(t, result, r.save(t, e))
	return true
}

// mayClaim reports whether another recording of the journal has the note, or may have made it.
func (r *run) mayClaim(e Entry, t *task, note *clinicaldoc.ProgressNote) bool {
	named := note.ID == t.entry.NoteID // by the response
	switch {
	case e.claims(note.ID, note.CreatedAt):
		return true
	case named || !e.isOpen():
		return false
	case r.isNameUnique(t):
		return e.Name == t.own.Name
	}
	return e.mayHaveContent(t.entry.Size, t.entry.SHA256)
}

// undecided saves why FindCreated cannot decide, and lets it be asked again after a pause: meanwhile the journal may
// learn of other notes of the patient. After some tries the recording is left to the next run.
func (r *run) undecided(t *task) {
	e := t.entry
	e.At = time.Now()
	e.Why = redact.Opaque(t.err).Error()
	err := r.save(t, e)
	t.asks++
	if t.asks == 1 {
		t.askUntil = time.Now().Add(maxAskTime)
	}
	isEnough := t.asks >= maxAsks || time.Now().After(t.askUntil)
	if err != nil || isEnough {
		r.done(t, t.inDoubt(), err)
		return
	}
	t.due = time.Now().Add(firstPause << (t.asks - 1))
	r.send(askLater{t})
}

// notCreated uploads a recording once more that certainly has no note. After maxUploads the recording is refused.
func (r *run) notCreated(t *task, verdict error) {
	if r.unsaved(t) != nil { // another run of this process knows better
		r.saveAgain(t)
		return
	}
	if t.uploads >= maxUploads {
		cause := redact.Opaque(cmp.Or(t.err, verdict)).Error()
		why := "the service accepted it several times without creating a note: " + cause
		r.refused(t, fail(why, clinicaldoc.ErrNotCreated, t.err))
		return
	}
	t.err = verdict
	r.send(uploadAgain{t})
}

// findParams returns the caller's params for FindCreated with what the journal knows of the patient: the notes of other
// recordings, and other recordings that are unresolved.
func (r *run) findParams(t *task, related []Entry) clinicaldoc.FindCreatedParams {
	params := r.uploader.Find
	params.OnProgress = nil // several searches at once would call it
	params.UniqueName = r.hasUniqueName(t, related)
	params.Settle = max(r.settle(), t.took())
	if len(t.entry.Loss) == 0 {
		// An entry of an earlier version has no Loss, so its Settle counts from SentAt.
		params.Settle = max(t.entry.Until.Sub(t.entry.SentAt), 1)
	}
	params.Exclude = slices.Clone(params.Exclude)
	params.Unresolved = slices.Clone(params.Unresolved)
	for _, id := range t.entry.Excluded {
		params.Exclude = append(params.Exclude, &clinicaldoc.ProgressNote{ID: id})
	}
	for _, e := range related {
		for _, replaced := range e.Replaced {
			note := &clinicaldoc.ProgressNote{ID: replaced.ID, CreatedAt: replaced.CreatedAt}
			params.Exclude = append(params.Exclude, note)
		}
		switch {
		case e.Key == t.own.Key:
		case e.State == StateCreated:
			params.Exclude = append(params.Exclude, e.note())
		case e.isOpen():
			params.Unresolved = append(params.Unresolved, t.unresolved(e))
		}
	}
	return params
}

// unresolved describes the lost create of another recording of the patient. Its name is not known, unless it is the
// same.
func (t *task) unresolved(e Entry) *clinicaldoc.OutcomeUnknownError {
	other := &clinicaldoc.OutcomeUnknownError{}
	if len(e.Loss) > 0 {
		_ = json.Unmarshal(e.Loss, other) // for its ID
	}
	other.Params = clinicaldoc.CreateNoteParams{PatientID: t.recording.Params.PatientID}
	if e.Name == t.own.Name {
		other.Params.Name = t.recording.Params.Name
	}
	other.SentAt = e.SentAt
	other.AudioSize = e.Size
	other.AudioSHA256 = e.SHA256
	return other
}

// took returns how long an upload took whose process ended before the response came. It is 0 for other uploads.
func (t *task) took() time.Duration {
	var loss struct {
		Took time.Duration `json:"took"`
	}
	_ = json.Unmarshal(t.entry.Loss, &loss)
	return loss.Took
}

// unknown is the error that FindCreated is asked with.
func (t *task) unknown() *clinicaldoc.OutcomeUnknownError {
	unknown := &clinicaldoc.OutcomeUnknownError{SentAt: t.entry.SentAt, LostAt: t.entry.SentAt, AudioSize: t.entry.Size}
	if len(t.entry.Loss) > 0 {
		_ = json.Unmarshal(t.entry.Loss, unknown)
	}
	unknown.Params = t.recording.Params
	unknown.NoteID = t.entry.NoteID
	unknown.Err = t.err
	return unknown
}

// inDoubt returns the result of a recording that is unresolved, with the latest error and the notes to compare.
func (t *task) inDoubt() Result {
	err := t.err
	if err == nil {
		err = fail("it is not known yet whether its note was created", clinicaldoc.ErrOutcomeUnknown)
	}
	result := Result{
		Status: InDoubt, NoteID: t.entry.NoteID, Until: t.entry.Until, Candidates: t.entry.Candidates(), Err: err,
	}
	if unknown, ok := errors.AsType[*clinicaldoc.OutcomeUnknownError](err); ok && len(unknown.Candidates) > 0 {
		result.Candidates = slices.Clone(unknown.Candidates)
	}
	return result
}
