package ingest

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

const (
	defaultSettle = 10 * time.Minute // as FindCreated's
	maxResolvers  = 32               // searches at a time
	maxDoubts     = 10_000           // recordings in doubt at a time; what comes then is left to the next run
	relatedWindow = 27 * time.Hour   // FindCreated looks at the notes of about a day
	maxAsks       = 6                // in vain about one recording in one run
	firstPause    = 2 * time.Second  // after it was asked about in vain; doubled each time
)

// lost takes in that the response of an upload is missing.
func (r *run) lost(t *task, unknown *clinicaldoc.OutcomeUnknownError) {
	took := max(unknown.LostAt.Sub(unknown.SentAt), 0)
	if !unknown.LostAt.IsZero() {
		t.entry.SentAt = unknown.SentAt
	}
	t.entry.NoteID = unknown.NoteID
	if unknown.AudioSize != 0 { // a stream tells its size only when it was read
		t.entry.Size = unknown.AudioSize
	}
	lostAt := unknown.LostAt
	if lostAt.IsZero() {
		lostAt, took = time.Now(), 0
	}
	t.entry.Loss = lossOf(unknown, map[string]any{"audio_sha256": t.entry.SHA256})
	r.enterDoubt(t, lostAt.Add(max(r.settle(), took)), redact.Opaque(unknown).Error())
}

// recover takes in that an earlier process, or run, ended, nobody knows when, after the recording may have left. From now on nothing
// more of it leaves.
func (r *run) recover(t *task) {
	if r.doubtAgain(t) {
		return
	}
	took := max(t.entry.At.Sub(t.entry.SentAt), 0)
	t.entry.Loss = lossOf(&clinicaldoc.OutcomeUnknownError{SentAt: t.entry.SentAt, AudioSize: t.entry.Size}, map[string]any{
		"id": rand.Text(), "service": r.owner.Service, "user_id": r.owner.UserID, "audio_sha256": t.entry.SHA256, "took": int64(took),
	})
	r.enterDoubt(t, time.Now().Add(max(r.settle(), took)), "the process ended before the response came")
}

// keepClock adds to a loss what FindCreated read of the service's clock. From then on Settle counts, in the next process too;
// without it each would count from its own beginning. It reports whether there is something to be saved.
func (t *task) keepClock(seen error) bool {
	const read, clock = "clock_read_at", "service_clock"
	unknown, ok := errors.AsType[*clinicaldoc.OutcomeUnknownError](seen)
	var kept, now map[string]json.RawMessage
	if !ok || json.Unmarshal(t.entry.Loss, &kept) != nil || json.Unmarshal(lossOf(unknown, nil), &now) != nil || kept[clock] != nil || now[clock] == nil {
		return false
	}
	kept[read], kept[clock] = now[read], now[clock]
	t.entry.Loss, _ = json.Marshal(kept)
	return true
}

// lossOf is all that is known of a loss, without its params, which name a patient: the recording tells them whenever it is
// asked about. What is known besides takes the place of members of the same name, unless it is zero.
func lossOf(unknown *clinicaldoc.OutcomeUnknownError, besides map[string]any) json.RawMessage {
	loss := *unknown
	loss.Params = clinicaldoc.CreateNoteParams{}
	text, err := json.Marshal(loss)
	members := map[string]json.RawMessage{}
	if err != nil || json.Unmarshal(text, &members) != nil {
		return nil
	}
	for name, value := range besides {
		if value != "" && value != int64(0) {
			members[name], _ = json.Marshal(value)
		}
	}
	delete(members, "params")
	delete(members, "error")
	text, _ = json.Marshal(members)
	return text
}

func (r *run) settle() time.Duration { return cmp.Or(r.uploader.Find.Settle, defaultSettle) }

// enterDoubt writes down until when it cannot be said that there is no note: once, so that no restart puts it off.
func (r *run) enterDoubt(t *task, until time.Time, why string) {
	e := t.entry
	e.State, e.At, e.Until, e.Why = StateInDoubt, time.Now(), until, why
	if err := r.saveDoubt(t, e); err != nil {
		r.done(t, t.inDoubt(), err)
		return
	}
	r.doubt(t)
}

// doubt leaves the recording to a resolver, so that the worker can go on.
func (r *run) doubt(t *task) {
	r.mu.Lock()
	full := r.doubts >= maxDoubts && !t.doubted
	if !full && !t.doubted {
		t.doubted = true
		r.doubts++
	}
	if t.entry.Until.After(r.until) {
		r.until = t.entry.Until
	}
	r.mu.Unlock()
	if full {
		t.err = cmp.Or(t.err, fail("too many recordings are in doubt; the next run asks about this one", clinicaldoc.ErrOutcomeUnknown))
		r.done(t, t.inDoubt(), nil)
		return
	}
	r.event(Event{Recording: t.recording, State: StateInDoubt, Until: t.entry.Until})
	r.resolve(t)
}

// resolve leaves the recording to a resolver.
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
	normal := false
	defer func() {
		if !normal { // the caller's own code ended the goroutine
			r.mu.Lock()
			defer r.mu.Unlock()
			r.workers.Go(r.resolveAll)
		}
	}()
	for {
		r.mu.Lock()
		if len(r.pending) == 0 {
			r.resolvers--
			r.mu.Unlock()
			normal = true
			return
		}
		t := r.pending[0]
		r.pending = slices.Delete(r.pending, 0, 1)
		r.mu.Unlock()
		r.guard(t, r.ask)
	}
}

// ask waits for FindCreated's word on a recording in doubt. Without one it asks once more if the journal explains more of the
// patient's notes than before.
func (r *run) ask(t *task) {
	explained := -1
	for {
		related, err := r.related(t)
		if err != nil {
			r.journalFailed(t, err)
			return
		}
		params := r.find(t, related)
		if len(params.ExcludeNotes) == explained {
			r.undecided(t)
			return
		}
		explained = len(params.ExcludeNotes)
		note, err := r.uploader.Client.Notes.FindCreated(r.resolving, t.unknown(), params)
		switch {
		case err == nil:
			if r.found(t, note) {
				continue
			}
			return
		case errors.Is(err, clinicaldoc.ErrNotCreated):
			r.notCreated(t, err)
			return
		}
		t.err = err
		learned := t.keepClock(err)
		if r.resolving.Err() != nil {
			var broken error
			if learned {
				broken = r.save(t, t.entry)
			}
			r.done(t, t.inDoubt(), broken)
			return
		}
	}
}

func (r *run) related(t *task) ([]Entry, error) {
	return r.uploader.Journal.EntriesForPatient(r.resolving, t.own.Patient, t.entry.SentAt.Add(-relatedWindow))
}

// journalFailed ends a task whose journal cannot be read. Where one record is damaged, the others go on.
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

// found takes a note that fits, if no other recording of the journal has it or may have made it: what had made a note before
// the list was read is committing in the journal by now, at least. One at a time, so that no two take the same. If another may
// have made it, the note's recording decides; if that is the other's, it is asked once more.
func (r *run) found(t *task, note *clinicaldoc.ProgressNote) (again bool) {
	r.finding <- struct{}{}
	defer func() { <-r.finding }()
	related, err := r.related(t)
	if err != nil {
		r.journalFailed(t, err)
		return false
	}
	taken := slices.ContainsFunc(related, func(e Entry) bool { return e.Key != t.own.Key && e.has(note.ID, note.CreatedAt) })
	rivals := slices.DeleteFunc(related, func(e Entry) bool { return !t.mayBeOf(note, e) })
	sum := ""
	if len(rivals) > 0 && !taken {
		sum, _ = r.read(r.resolving, note.ID, t.entry.Size)
	}
	switch {
	case taken:
		t.err = fail("the note that fits was found for another recording before; a person has to look", clinicaldoc.ErrOutcomeUnknown)
	case len(rivals) == 0, sum != "" && sum == t.entry.SHA256:
		r.done(t, Result{Status: Created, NoteID: note.ID, Note: note}, r.save(t, t.createdEntry(note, true)))
		return false
	case sum != "" && t.entry.SHA256 != "" && slices.ContainsFunc(rivals, func(e Entry) bool { return e.SHA256 == sum }):
		t.others = append(t.others, note)
		return true
	default:
		t.err = fail("a note fits, but may be that of a recording in doubt with the same patient, name and size; a person has to look (Uploader.Resolve)", clinicaldoc.ErrOutcomeUnknown)
	}
	r.undecided(t)
	return false
}

// undecided writes down why, and lets the recording be asked about some more times: others may be creating notes of the same
// patient, which explain themselves only when they are in the journal.
func (r *run) undecided(t *task) {
	e := t.entry
	e.At, e.Why = time.Now(), redact.Opaque(t.err).Error()
	err := r.save(t, e)
	t.asks++
	if err != nil || t.asks >= maxAsks {
		r.done(t, t.inDoubt(), err)
		return
	}
	t.due = time.Now().Add(firstPause << (t.asks - 1))
	r.send(message{waiting: t})
}

// mayBeOf reports whether nothing tells this recording's note from that of another one in doubt: the client knows what it lost
// itself, not what an earlier process lost.
func (t *task) mayBeOf(note *clinicaldoc.ProgressNote, other Entry) bool {
	if note.ID == t.entry.NoteID || other.Key == t.own.Key || other.Name != t.own.Name || other.State == StateCreated {
		return false // the response named it, or there is no other
	}
	told := note.Audio != nil && note.Audio.Size > 0 && other.Size > 0 && t.entry.Size > 0
	return !told || other.Size == t.entry.Size
}

// notCreated uploads once more what surely has no note, unless that was in vain often enough.
func (r *run) notCreated(t *task, verdict error) {
	if r.unsaved(t) != nil { // another run of this process knows better
		r.saveAgain(t)
		return
	}
	if t.uploads >= maxUploads {
		r.refused(t, fail("the service took it several times and made no note: "+redact.Opaque(cmp.Or(t.err, verdict)).Error(), clinicaldoc.ErrNotCreated, t.err))
		return
	}
	t.err = verdict
	r.send(message{again: t, contact: answered})
}

// find adds what the journal knows of the patient's other notes to what explains them. A note that was found for another
// recording explains it only if that had another name, or is what the note was made of: else it may be this one's.
func (r *run) find(t *task, related []Entry) clinicaldoc.FindCreatedParams {
	params := r.uploader.Find
	params.Result = nil // several searches at once would write to it
	params.Settle = max(r.settle(), t.took())
	if len(t.entry.Loss) == 0 { // of the version before: counted from when it was sent, the time is the same whenever it is asked
		params.Settle = max(t.entry.Until.Sub(t.entry.SentAt), 1)
	}
	params.ExcludeNotes = slices.Concat(params.ExcludeNotes, t.others)
	for _, e := range related {
		other := slices.ContainsFunc(t.others, func(n *clinicaldoc.ProgressNote) bool { return e.has(n.ID, n.CreatedAt) })
		if e.State == StateCreated && e.NoteID != t.entry.NoteID && !other && (!e.Found || e.Name != t.own.Name || r.madeOf(t, e)) {
			params.ExcludeNotes = append(params.ExcludeNotes, e.note())
		}
	}
	return params
}

// madeOf reports whether the note that was found for another recording is that one's, and not this one's.
func (r *run) madeOf(t *task, e Entry) bool {
	if e.SHA256 == "" || t.entry.SHA256 == "" || e.SHA256 == t.entry.SHA256 {
		return false
	}
	content, _ := r.compare(r.resolving, e.NoteID, e.Size, e.SHA256)
	if content == contentEqual {
		t.others = append(t.others, e.note())
	}
	return content == contentEqual
}

// took is how long an upload took of whose end no time is known.
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
	unknown.Params, unknown.NoteID, unknown.Err = t.recording.Params, t.entry.NoteID, t.err
	return unknown
}

func (t *task) inDoubt() Result {
	err := t.err
	if err == nil {
		err = fail("nobody knows yet whether its note was created", clinicaldoc.ErrOutcomeUnknown)
	}
	return Result{Status: InDoubt, NoteID: t.entry.NoteID, Until: t.entry.Until, Err: err}
}
