package ingest

import "time"

// record is an Entry in little memory. What only a doubt needs is in fileIndex.details.
type record struct {
	key              Key
	note, size, sent int64
	until            int64 // committing: when that was written; created: when the note was
	latest           int64 // the latest time of this and of all earlier records of the patient
	patient, name    uint32
	line             uint32 // its latest
	earlier          uint32 // the patient's record before this one; 0: there is none
	state            State
	found            bool
	seen             bool // it was claimed or written since the journal was opened
}

// details is what is known of a recording in doubt, or that a person spoke about, beyond its record.
type details struct {
	sha256, by string
	loss       []byte
}

// fileIndex finds entries by their key and by their patient. Record 0 is none.
type fileIndex struct {
	records  []record
	byKey    map[Key]uint32
	patients map[uint32]uint32 // the latest record of each
	details  map[Key]details
	live     uint32 // records that are of use
}

func newFileIndex() fileIndex {
	return fileIndex{records: make([]record, 1), byKey: map[Key]uint32{}, patients: map[uint32]uint32{}, details: map[Key]details{}}
}

// get returns the record of a key, nil if nothing is known of it.
func (x *fileIndex) get(key Key) *record {
	if n := x.byKey[key]; n != 0 {
		return &x.records[n]
	}
	return nil
}

// entry returns what is known of a key.
func (x *fileIndex) entry(r *record) Entry {
	e := Entry{
		Key: r.key, State: r.state, Patient: r.patient, Name: r.name, Size: r.size, SentAt: fromNano(r.sent), NoteID: r.note, Found: r.found,
		SHA256: x.details[r.key].sha256, Loss: x.details[r.key].loss, By: x.details[r.key].by,
	}
	switch r.state {
	case StateCommitting:
		e.At = fromNano(r.until)
	case StateCreated:
		e.NoteCreatedAt = fromNano(r.until)
	default:
		e.Until = fromNano(r.until)
	}
	return e
}

// put remembers an entry. Each time that a recording is sent it comes last of its patient's, so that these are in the order of
// time.
func (x *fileIndex) put(e Entry, line uint32) {
	x.drop(e.Key, e.Patient, e.State == StateCommitting)
	n := x.byKey[e.Key]
	if n == 0 {
		n = uint32(len(x.records)) //nolint:gosec // lines are counted so
		earlier := x.patients[e.Patient]
		x.records = append(x.records, record{key: e.Key, earlier: earlier, latest: x.records[earlier].latest})
		x.byKey[e.Key], x.patients[e.Patient] = n, n
	}
	r := &x.records[n]
	if r.state == 0 {
		x.live++
	}
	until := e.Until
	switch e.State {
	case StateCommitting:
		until = e.At
	case StateCreated:
		until = e.NoteCreatedAt
	default:
	}
	r.note, r.size, r.sent, r.until, r.latest = e.NoteID, e.Size, toNano(e.SentAt), toNano(until), max(r.latest, toNano(e.At), toNano(e.SentAt), toNano(e.NoteCreatedAt))
	r.patient, r.name, r.line, r.state, r.found = e.Patient, e.Name, line, e.State, e.Found
	doubtful := e.State == StateCommitting || e.State == StateInDoubt || e.Found // the note that was found may be another's
	if e.By != "" || doubtful && (e.SHA256 != "" || e.Loss != nil) {
		x.details[e.Key] = details{e.SHA256, e.By, e.Loss}
	} else {
		delete(x.details, e.Key)
	}
}

// drop forgets a key's record if it stands in the wrong place: with another patient, or before what was sent later.
func (x *fileIndex) drop(key Key, patient uint32, anew bool) {
	if r := x.get(key); r != nil && (anew || r.patient != patient) {
		x.forget(key)
	}
}

// forget makes a key unknown. Its record stays in the patient's chain.
func (x *fileIndex) forget(key Key) {
	if r := x.get(key); r != nil {
		r.state = 0
		x.live--
		delete(x.byKey, key)
		delete(x.details, key)
	}
}

// ofPatient returns the patient's entries that were sent, or whose notes were created, at or after a time.
func (x *fileIndex) ofPatient(patient uint32, since time.Time) []Entry {
	var entries []Entry
	from := since.UnixNano()
	if since.Before(time.Unix(0, 0)) {
		from = 0
	}
	for n := x.patients[patient]; n != 0 && x.records[n].latest >= from; n = x.records[n].earlier {
		if r := &x.records[n]; r.state.sent() && (r.sent >= from || r.state == StateCreated && r.until >= from) {
			entries = append(entries, x.entry(r))
		}
	}
	return entries
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
