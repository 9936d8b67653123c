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

// note is one version of a note: as a change left it, at a time. It is never
// changed itself. Processing goes on without changes; see [note.settled].
type note struct {
	id, userID, teamID, patientID, promptID int64

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
	createdAt, updatedAt                         time.Time

	requestID string    // of the request that created it; "": seeded
	at        time.Time // when this version came, by the server's clock
	deleted   bool      // by this version
	version   int       // how many are remembered before it
	before    *note     // the version before; nil: none is remembered
}

// noteLog holds every note by the last of its versions. The server's mutex
// guards it; the notes themselves can be read without.
type noteLog struct {
	all   []*note             // in the order of their ids, deleted ones too
	lists map[listKey][]*note // those that are there, in the order of their creation
	gone  int                 // of all, how many are deleted

	byPatient bool // lists has those of single patients: only once one was asked for, so that many notes are added quickly
}

// listKey names the notes that a team sees, of one patient or, with 0, of all.
type listKey struct{ teamID, patientID int64 }

func compareIDs(a, b *note) int { return cmp.Compare(a.id, b.id) }
func compareCreated(a, b *note) int {
	return cmp.Or(a.createdAt.Compare(b.createdAt), compareIDs(a, b))
}

// put places a note in an order where it is, or where it belongs.
func put(notes []*note, n *note, compare func(a, b *note) int) []*note {
	if len(notes) > 0 && compare(notes[len(notes)-1], n) < 0 {
		return append(notes, n) // nearly always
	}
	i, found := slices.BinarySearchFunc(notes, n, compare)
	if found {
		notes[i] = n
		return notes
	}
	return slices.Insert(notes, i, n)
}

// add appends the next version of a note, or its first.
func (l *noteLog) add(n *note) {
	l.all = put(l.all, n, compareIDs)
	l.update(listKey{n.teamID, 0}, n)
	if l.byPatient {
		l.update(listKey{n.teamID, n.patientID}, n)
	}
	if n.deleted {
		l.gone++
	}
	if n.version >= maxVersions {
		n.forgetOldVersions()
	}
	if l.gone > maxGone {
		l.all = slices.DeleteFunc(l.all, func(old *note) bool {
			forget := old.deleted && l.gone > maxGone*9/10
			if forget {
				l.gone--
			}
			return forget
		})
	}
}

// update puts the last version of a note into a list, or takes it out.
func (l *noteLog) update(key listKey, n *note) {
	list := l.lists[key]
	if !n.deleted {
		list = put(list, n, compareCreated)
	} else if i, found := slices.BinarySearchFunc(list, n, compareCreated); found {
		list = slices.Delete(list, i, i+1)
	}
	if len(list) == 0 {
		delete(l.lists, key)
		return
	}
	l.lists[key] = list
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

// get returns the last version of a note, also of a deleted one, or nil.
func (l *noteLog) get(id int64) *note {
	if i, found := slices.BinarySearchFunc(l.all, &note{id: id}, compareIDs); found {
		return l.all[i]
	}
	return nil
}

// next returns the id for a new note.
func (l *noteLog) next() int64 {
	if len(l.all) == 0 {
		return 1
	}
	return l.all[len(l.all)-1].id + 1
}

// asOf returns the version of a note that was there at a time, or nil.
func (n *note) asOf(at time.Time) *note {
	for ; n != nil; n = n.before {
		if !n.at.After(at) {
			break
		}
	}
	if n == nil || n.deleted {
		return nil
	}
	return n
}

// list returns the notes that a request reads, oldest first: what is there, or
// what a replica knows that is so far behind.
func (l *noteLog) list(key listKey, now time.Time, lag time.Duration) []*note {
	if lag == 0 {
		if key.patientID != 0 && !l.byPatient {
			l.byPatient = true
			for _, n := range l.all {
				l.update(listKey{n.teamID, n.patientID}, n)
			}
		}
		return l.lists[key]
	}
	var known []*note
	for _, last := range l.all {
		if n := last.asOf(now.Add(-lag)); n != nil && n.teamID == key.teamID && (key.patientID == 0 || n.patientID == key.patientID) {
			known = append(known, n)
		}
	}
	slices.SortFunc(known, compareCreated)
	return known
}

// order is how a list is sorted. A database with whole seconds has rows of the
// same second come in its own order, either way.
type order struct{ oldestFirst, wholeSeconds bool }

func (o order) compareTimes(a, b *note) int {
	from, to := a.createdAt, b.createdAt
	if o.wholeSeconds {
		from, to = from.Truncate(time.Second), to.Truncate(time.Second)
	}
	if o.oldestFirst {
		return from.Compare(to)
	}
	return to.Compare(from)
}

func (o order) compare(a, b *note) int {
	byID := compareIDs(a, b)
	if !o.oldestFirst && !o.wholeSeconds {
		byID = -byID
	}
	return cmp.Or(o.compareTimes(a, b), byID)
}

// rows returns up to count notes of a list from a position on. The list is
// sorted by creation, so that only what is shown is looked at.
func (o order) rows(list []*note, start, count int) []*note {
	start = min(start, len(list))
	end := start + min(count, len(list)-start)
	from, to := start, end
	if !o.oldestFirst {
		from, to = len(list)-end, len(list)-start
	}
	first, last := from, to
	if o.wholeSeconds && from < to { // all of the seconds at both ends
		first = sort.Search(from, func(i int) bool { return o.compareTimes(list[i], list[from]) == 0 })
		last = to + sort.Search(len(list)-to, func(i int) bool { return o.compareTimes(list[to+i], list[to-1]) != 0 })
	}
	shown := slices.Clone(list[first:last])
	slices.SortFunc(shown, o.compare)
	skip := from - first
	if !o.oldestFirst {
		skip = last - to
	}
	return shown[skip : skip+to-from]
}

// after returns how many notes of a list come up to one that need not be there.
func (o order) after(list []*note, last *note) int {
	at := func(i int) *note {
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

// lagOf returns how old what a request reads is.
func lagOf(r *http.Request) time.Duration {
	lag, _ := r.Context().Value(lagKey{}).(time.Duration)
	return lag
}

// isRead tells whether a request changes nothing.
func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }
