package clinicaldoctest

import (
	"cmp"
	"net/http"
	"slices"
	"sort"
	"time"
)

const (
	maxGone     = 100_000 // deleted notes that a long-running server remembers
	maxVersions = 1_000   // of one note
)

// entry is a note in the log: what all of its versions share, and the last one.
type entry struct {
	id, teamID, patientID int64
	createdAt             time.Time
	last                  *note     // nil: it is still as it was planted
	planted               *planting // nil: it was not
}

// note is one version of a note: as a change left it, at a time. It is never
// changed itself. Processing goes on without changes; see [note.settled].
type note struct {
	*entry
	userID, promptID int64

	name, transcription, analysis       string
	transcriptionEdited, analysisEdited bool

	audio *audio // nil: created without one

	stage      Stage
	stageSince time.Time
	stuck      bool
	script     *Script
	errorState string

	transcriptionStarted, transcriptionCompleted time.Time
	analysisStarted, analysisCompleted           time.Time
	updatedAt                                    time.Time

	requestID string    // of the request that created it; "": seeded
	at        time.Time // when this version came, by the server's clock
	deletes   bool      // with this version the note is gone
	version   int       // how many are remembered before it
	before    *note     // the version before; nil: none is remembered
}

// noteLog holds every note. The server's mutex guards it and the entries; the
// notes themselves can be read without.
type noteLog struct {
	all   []*entry             // in the order of their ids, deleted ones too
	lists map[listKey][]*entry // those that are there, in the order of their creation
	gone  int                  // of all, how many are deleted

	free   []int64  // IDs that reuse may return: of deleted notes, that of the last one at the end
	former []*entry // deleted notes whose IDs other notes have by now
}

// listKey names the notes that a team sees, of one patient who was asked for
// or, with 0, of all.
type listKey struct{ teamID, patientID int64 }

func compareIDs(a, b *entry) int { return cmp.Compare(a.id, b.id) }
func compareCreated(a, b *entry) int {
	return cmp.Or(a.createdAt.Compare(b.createdAt), compareIDs(a, b))
}

// put inserts an entry into a sorted list, unless the list has it.
func put(entries []*entry, e *entry, compare func(a, b *entry) int) []*entry {
	if len(entries) > 0 && compare(entries[len(entries)-1], e) < 0 {
		return append(entries, e) // nearly always
	}
	i, found := slices.BinarySearchFunc(entries, e, compare)
	if found {
		return entries
	}
	return slices.Insert(entries, i, e)
}

// deleted reports whether the note was deleted.
func (e *entry) deleted() bool { return e.last != nil && e.last.deletes }

// add appends the next version of a note, or its first. It forgets old versions and deleted notes if there are too
// many.
func (l *noteLog) add(n *note) {
	n.last = n // of its entry
	l.all = put(l.all, n.entry, compareIDs)
	l.update(listKey{n.teamID, 0}, n.entry)
	l.updatePatient(n.entry)
	if n.deletes {
		l.gone++
		l.free = append(l.free, n.id)
	}
	if n.version >= maxVersions {
		n.forgetOldVersions()
	}
	if l.gone > maxGone {
		l.forgetDeleted()
	}
}

// forgetDeleted removes the deleted notes with the lowest IDs until nine tenths of maxGone are left, so it is not
// called for each further one. Of the IDs that can be used again it keeps as many, those deleted last.
func (l *noteLog) forgetDeleted() {
	const remembered = maxGone * 9 / 10
	l.all = slices.DeleteFunc(l.all, func(e *entry) bool {
		forget := e.deleted() && l.gone > remembered
		if forget {
			l.gone--
		}
		return forget
	})
	l.free = l.free[max(len(l.free)-l.gone, 0):]
}

// update puts a note into a list, or takes it out.
func (l *noteLog) update(key listKey, e *entry) {
	list := l.lists[key]
	if !e.deleted() {
		list = put(list, e, compareCreated)
	} else if i, found := slices.BinarySearchFunc(list, e, compareCreated); found {
		list = slices.Delete(list, i, i+1)
	}
	if len(list) == 0 {
		delete(l.lists, key)
		return
	}
	l.lists[key] = list
}

// updatePatient updates the list of the note's patient, if there is one.
func (l *noteLog) updatePatient(e *entry) {
	key := listKey{e.teamID, e.patientID}
	if l.lists[key] != nil {
		l.update(key, e)
	}
}

// forgetOldVersions keeps the newer half.
func (n *note) forgetOldVersions() {
	n.version = maxVersions / 2
	kept := n
	for range n.version {
		kept = kept.before
	}
	kept.before = nil
}

// get returns a note, also a deleted one, or nil.
func (l *noteLog) get(id int64) *entry {
	if i, found := slices.BinarySearchFunc(l.all, &entry{id: id}, compareIDs); found {
		return l.all[i]
	}
	return nil
}

// reuse returns an ID for a new note: that of the note that was deleted last.
// It moves the deleted note to former. It returns 0 if no ID is free.
func (l *noteLog) reuse() int64 {
	for len(l.free) > 0 {
		last := len(l.free) - 1
		id := l.free[last]
		l.free = l.free[:last]
		i, found := slices.BinarySearchFunc(l.all, &entry{id: id}, compareIDs)
		if !found || !l.all[i].deleted() {
			continue
		}
		l.former = append(l.former, l.all[i])
		l.all = slices.Delete(l.all, i, i+1)
		l.gone--
		return id
	}
	return 0
}

// next returns the id for a new note.
func (l *noteLog) next() int64 {
	if len(l.all) == 0 {
		return 1
	}
	return l.all[len(l.all)-1].id + 1
}

// note returns the last version.
func (e *entry) note() *note {
	if e.last == nil {
		return e.planted.note(e)
	}
	return e.last
}

// current returns the last version of a note, or nil if the note was deleted or does not exist.
func (e *entry) current() *note { return e.read(time.Time{}, 0) }

// read returns the version that a replica with that lag has of a note, or nil if it has none or the note is deleted
// there. Without a lag it is the last version, whatever the time.
func (e *entry) read(now time.Time, lag time.Duration) *note {
	if e == nil {
		return nil
	}
	n := e.note()
	for lag > 0 && n != nil && n.at.After(now.Add(-lag)) {
		n = n.before
	}
	if n == nil || n.deletes {
		return nil
	}
	return n
}

// list returns the notes that exist on a replica with that lag, oldest first. Without a lag it returns those that
// exist.
func (l *noteLog) list(key listKey, now time.Time, lag time.Duration) []*entry {
	if lag == 0 {
		if l.lists[key] == nil {
			l.makePatientList(key)
		}
		return l.lists[key]
	}
	var known []*entry
	for _, e := range l.all {
		isPatients := key.patientID == 0 || e.patientID == key.patientID
		if isPatients && e.teamID == key.teamID && e.read(now, lag) != nil {
			known = append(known, e)
		}
	}
	slices.SortFunc(known, compareCreated)
	return known
}

// makePatientList makes the list of a patient, when it is requested for the first time.
func (l *noteLog) makePatientList(key listKey) {
	for _, e := range l.lists[listKey{key.teamID, 0}] {
		if e.patientID == key.patientID {
			l.lists[key] = append(l.lists[key], e)
		}
	}
}

// order is how a list is sorted. In a database with whole seconds, rows of the same second are in the order of their
// IDs, whichever comes first.
type order struct{ oldestFirst, wholeSeconds bool }

// compareTimes compares two rows by their times only.
func (o order) compareTimes(a, b *entry) int {
	result := o.time(a).Compare(o.time(b))
	if o.oldestFirst {
		return result
	}
	return -result
}

// time returns when a note was created, as the database knows it.
func (o order) time(e *entry) time.Time {
	if o.wholeSeconds {
		return e.createdAt.Truncate(time.Second)
	}
	return e.createdAt
}

func (o order) compare(a, b *entry) int {
	byID := compareIDs(a, b)
	if !o.oldestFirst && !o.wholeSeconds {
		byID = -byID
	}
	return cmp.Or(o.compareTimes(a, b), byID)
}

// rows returns a page of a list in this order: up to count notes, of which the first one is at position first. The list
// itself begins with the oldest note, by exact times.
//
// If the order knows only whole seconds, it may exchange notes of one second, also across the ends of the page. So rows
// sorts the page together with the notes around it that are of its first or last second, and cuts the page out of that.
func (o order) rows(list []*entry, first, count int) []*entry {
	first = min(first, len(list))
	count = min(count, len(list)-first)
	start := first // of the page in the list
	if !o.oldestFirst {
		start = len(list) - first - count
	}
	end := start + count
	sortFrom := start
	sortTo := end
	if o.wholeSeconds && count > 0 {
		inFirstSecond := func(i int) bool { return o.compareTimes(list[i], list[start]) == 0 }
		afterLastSecond := func(i int) bool { return o.compareTimes(list[end+i], list[end-1]) != 0 }
		sortFrom = sort.Search(start, inFirstSecond)
		sortTo = end + sort.Search(len(list)-end, afterLastSecond)
	}
	sorted := slices.Clone(list[sortFrom:sortTo])
	slices.SortFunc(sorted, o.compare)
	beforePage := start - sortFrom
	if !o.oldestFirst { // sorted begins with the newest
		beforePage = sortTo - end
	}
	return sorted[beforePage : beforePage+count]
}

// countUpTo returns how many notes of the list come up to and including the cursor in this order. The cursor is the
// last note of a page, which may have been deleted since. The list is sorted by exact times. If the order knows only
// whole seconds, each note of the cursor's second is compared.
func (o order) countUpTo(list []*entry, last *entry) int {
	at := func(i int) *entry {
		if o.oldestFirst {
			return list[i]
		}
		return list[len(list)-1-i]
	}
	before := sort.Search(len(list), func(i int) bool { return o.compareTimes(at(i), last) >= 0 })
	count := before
	for i := before; i < len(list) && o.compareTimes(at(i), last) == 0; i++ {
		if o.compare(at(i), last) <= 0 {
			count++
		}
	}
	return count
}

// lagKey is where a request's context holds how old what it reads is.
type lagKey struct{}

// lagOf returns how old what a request reads is. Writes go to the primary: one
// to an old version would take back what came since.
func lagOf(r *http.Request) time.Duration {
	if !isRead(r) {
		return 0
	}
	lag, _ := r.Context().Value(lagKey{}).(time.Duration)
	return lag
}

// isRead reports whether a request changes nothing.
func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }
