package ingest

import (
	"slices"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// record is an Entry in little memory. What few entries need is in fileIndex.details.
type record struct {
	key                  Key
	noteID, size, sentAt int64
	stateTime            int64 // committing: when that was saved; created: when the note was created; else Entry.Until
	latestUpToHere       int64 // the latest time of this and of all earlier records of the patient
	lineStart            int64 // where its latest line begins
	patient, name        uint32
	earlierRecord        uint32 // the patient's record before this one; 0: there is none
	state                State
	stage                int8 // of the note; the values of clinicaldoc.Stage fit
	found                bool
	usedSinceOpen        bool // it was claimed or written since the journal was opened
}

// details is what is known beyond its record of a recording that is unresolved, that a person decided about, or whose
// note is not complete.
type details struct {
	sha256   string
	by       string
	loss     []byte
	replaced []NoteRef
	excluded []int64
}

// detailsOf returns what an entry has beyond its record, and reports whether that has to be kept in memory: if a person
// decided about the entry, or if the entry may still change. Otherwise it is enough that the file has it.
func detailsOf(e Entry) (kept details, areNeeded bool) {
	d := details{sha256: e.SHA256, by: e.By, loss: e.Loss, replaced: e.Replaced, excluded: e.Excluded}
	isDecided := e.By != "" || len(e.Replaced)+len(e.Excluded) > 0
	if isDecided {
		return d, true
	}
	isOpen := e.State == StateCommitting || e.State == StateInDoubt
	isUnfinished := e.Stage != 0 && !e.Stage.AtLeast(clinicaldoc.StageComplete)
	mayChange := isOpen || e.Found || isUnfinished // a note that was found may turn out to be another's
	hasDetails := e.SHA256 != "" || e.Loss != nil
	return d, mayChange && hasDetails
}

// fileIndex finds entries by their key and by their patient. Record 0 is none.
type fileIndex struct {
	records         []record
	byKey           map[Key]uint32
	latestOfPatient map[uint32]uint32 // the latest record of each
	details         map[Key]details
	// processing are those whose notes were not complete when they were last read.
	processing  map[Key]bool
	liveRecords uint32 // records that were not forgotten
}

func newFileIndex() fileIndex {
	return fileIndex{
		records: make([]record, 1), byKey: map[Key]uint32{}, latestOfPatient: map[uint32]uint32{},
		details: map[Key]details{}, processing: map[Key]bool{},
	}
}

// get returns the record of a key, or nil if nothing is known of the key.
func (x *fileIndex) get(key Key) *record {
	if n := x.byKey[key]; n != 0 {
		return &x.records[n]
	}
	return nil
}

// entry returns the entry that a record stands for.
func (x *fileIndex) entry(r *record) Entry {
	d := x.details[r.key]
	e := Entry{
		Key: r.key, State: r.state, Patient: r.patient, Name: r.name, Size: r.size, SentAt: fromNano(r.sentAt),
		NoteID: r.noteID, Found: r.found, Stage: clinicaldoc.Stage(r.stage),
		SHA256: d.sha256, Loss: d.loss, By: d.by, Replaced: d.replaced, Excluded: d.excluded,
	}
	switch r.state {
	case StateCommitting:
		e.At = fromNano(r.stateTime)
	case StateCreated:
		e.NoteCreatedAt = fromNano(r.stateTime)
	default:
		e.Until = fromNano(r.stateTime)
	}
	return e
}

// put remembers an entry, and where its line begins. It changes the record of the key. A recording that is sent once
// more, or that is another patient's now, gets a new record, and the old one is forgotten. So a recording that is sent
// later comes later among the records of its patient.
func (x *fileIndex) put(e Entry, line int64) {
	isSent := e.State == StateCommitting
	if r := x.get(e.Key); r != nil && (isSent || r.patient != e.Patient) {
		x.forget(e.Key)
	}
	n, hasRecord := x.byKey[e.Key]
	if !hasRecord {
		n = x.addRecord(e.Key, e.Patient)
	}
	r := &x.records[n]
	r.state = e.State
	r.patient = e.Patient
	r.name = e.Name
	r.size = e.Size
	r.sentAt = toNano(e.SentAt)
	r.stateTime = toNano(stateTimeOf(e))
	r.noteID = e.NoteID
	r.found = e.Found
	r.lineStart = line
	r.stage = int8(e.Stage) //nolint:gosec // from -10 to 60
	x.raiseLatest(n, latestOf(e))
	x.keepDetails(e)
}

// addRecord adds a record after the patient's others, and returns its number.
func (x *fileIndex) addRecord(key Key, patient uint32) uint32 {
	n := uint32(len(x.records)) //nolint:gosec // 2^32 records would need hundreds of gigabytes
	earlier := x.latestOfPatient[patient]
	x.records = append(x.records, record{
		key: key, earlierRecord: earlier, latestUpToHere: x.records[earlier].latestUpToHere,
	})
	x.byKey[key] = n
	x.latestOfPatient[patient] = n
	x.liveRecords++
	return n
}

// stateTimeOf returns the one time of an entry, besides SentAt, that its record keeps.
func stateTimeOf(e Entry) time.Time {
	switch e.State {
	case StateCommitting:
		return e.At
	case StateCreated:
		return e.NoteCreatedAt
	default:
		return e.Until
	}
}

// latestOf returns the latest time of an entry, in nanoseconds since 1970.
func latestOf(e Entry) int64 {
	at := max(toNano(e.At), toNano(e.SentAt), toNano(e.NoteCreatedAt))
	for _, note := range e.Replaced {
		at = max(at, toNano(note.CreatedAt))
	}
	return at
}

// raiseLatest raises latestUpToHere of record n, and of all later records of its patient, to this time at least.
func (x *fileIndex) raiseLatest(n uint32, to int64) {
	if to <= x.records[n].latestUpToHere { // then the later ones have it, too
		return
	}
	for later := x.latestOfPatient[x.records[n].patient]; later != 0; later = x.records[later].earlierRecord {
		r := &x.records[later]
		r.latestUpToHere = max(r.latestUpToHere, to)
		if later == n {
			return
		}
	}
}

// keepDetails remembers what an entry has beyond its record, and whether its note is in processing.
func (x *fileIndex) keepDetails(e Entry) {
	delete(x.details, e.Key)
	kept, areNeeded := detailsOf(e)
	if areNeeded {
		x.details[e.Key] = kept
	}
	delete(x.processing, e.Key)
	if e.isProcessing() {
		x.processing[e.Key] = true
	}
}

// forget makes a key unknown. Its record stays among those of the patient, with state 0.
func (x *fileIndex) forget(key Key) {
	if r := x.get(key); r != nil {
		r.state = 0
		x.liveRecords--
		delete(x.byKey, key)
		delete(x.details, key)
		delete(x.processing, key)
	}
}

// ofPatient returns the patient's entries that have or may have a note, or had one, and that were sent, or one of whose
// notes was created, at or after a time. It walks from the patient's latest record to earlier ones.
func (x *fileIndex) ofPatient(patient uint32, since time.Time) []Entry {
	var entries []Entry
	from := since.UnixNano()
	if since.Before(time.Unix(0, 0)) { // anyTime is outside the range of UnixNano
		from = 0
	}
	// latestUpToHere covers all earlier records, too. If it is before the time, none of them is wanted.
	for n := x.latestOfPatient[patient]; n != 0 && x.records[n].latestUpToHere >= from; n = x.records[n].earlierRecord {
		if r := &x.records[n]; x.isSince(r, from) {
			entries = append(entries, x.entry(r))
		}
	}
	return entries
}

// isSince reports whether ofPatient returns the entry of a record: it has or may have a note, or had one, and it was
// sent, or one of its notes was created, at or after the time.
func (x *fileIndex) isSince(r *record, from int64) bool {
	if r.state == 0 { // it was forgotten
		return false
	}
	replaced := x.details[r.key].replaced
	isNoteSince := r.state == StateCreated && r.stateTime >= from
	switch {
	case !r.state.mayHaveNote() && len(replaced) == 0:
		return false
	case r.sentAt >= from || isNoteSince:
		return true
	}
	return slices.ContainsFunc(replaced, func(note NoteRef) bool { return toNano(note.CreatedAt) >= from })
}

func toNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNano(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}
