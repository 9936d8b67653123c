package creates

import (
	"cmp"
	"hash/maphash"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// MaxRemembered is how many there are of each kind. Of lost creates and of notes the oldest makes room for the next one.
	MaxRemembered = 4096
	// apart is how far from each other two creates were sent of which neither can have made the other's note, in milliseconds.
	apart = slack * 1000
	// replaced is how soon after a create returned a note the next one is sent whose note may seem to be the same, a second younger:
	// somebody deleted the first, and the service uses its id again.
	replaced = 2 * time.Second
)

// Create is what can tell one create from another, under way or lost, by the note it makes. Of patient and name only hashes are
// kept: whoever prints a client must not see them.
type Create struct {
	patient, name uint64
	size          int64  // 0: not known
	id            string // of a lost one, random; empty for one that was put together: it is known by when it was sent
	sent          int64  // in milliseconds, as some journals keep it
	sha256        string // of the recording; empty: not known
}

var seed = maphash.MakeSeed()

// Hash stands for a value in this process.
func Hash[T comparable](v T) uint64 { return maphash.Comparable(seed, v) }

// NewCreate describes a create. White space at the ends of a name is nothing to tell it by.
func NewCreate(patientID int64, name string, size int64, id string, sent time.Time, sha256 string) Create {
	return Create{Hash(patientID), Hash(strings.TrimSpace(name)), max(size, 0), id, sent.UnixMilli(), sha256}
}

// is reports whether both are the same.
func (c *Create) is(other *Create) bool {
	if c.id != "" && other.id != "" {
		return c.id == other.id
	}
	return c.sent == other.sent && c.patient == other.patient && c.name == other.name && c.size == other.size
}

// Ref names a note: by its id and by when it was made, since a service may use an id again.
type Ref struct {
	ID    int64  `json:"id"`
	Made  int64  `json:"made"` // in seconds; 0: not known
	Where string `json:"-"`    // it was seen: a tenant may have ids of its own
}

// NewRef names the note of that id and time, as it was seen there. Before 1970 there were none.
func NewRef(id int64, created time.Time, where string) Ref {
	return Ref{id, max(created.Unix(), 0), where}
}

// Is reports whether both are the same note. The service may round its times.
func (r Ref) Is(other Ref) bool {
	return r.ID == other.ID && (r.Made == 0 || other.Made == 0 || max(r.Made-other.Made, other.Made-r.Made) <= 1)
}

// Registry is what a client remembers of creates and edits, for any number of goroutines.
type Registry struct {
	mu       sync.Mutex
	underWay map[*Create]bool
	lost     []*entry // the oldest first
	forgot   int64    // losses that were sent until then may have to do with what is forgotten

	returned map[int64]*entry // by the note
	order    []int64          // of them, the oldest first

	clocks     Clocks    // as a create last showed them
	clocksRead time.Time // then

	Users      Memo[string, int64]     // by their token
	Edited     Memo[uint64, time.Time] // when an edit left a note in this state, which is a Hash
	Controls   Memo[string, Control]   // by media type; see SetControl
	Recordings Memo[Ref, Recording]    // what searches have read
}

// entry is a create that was lost, or that returned its note.
type entry struct {
	Create
	note    Ref       // found for it, or returned; zero: none
	at      time.Time // when it was returned
	content bool      // it was found by its recording
	deleted bool
}

// NewRegistry returns an empty one.
func NewRegistry() *Registry {
	return &Registry{underWay: map[*Create]bool{}, returned: map[int64]*entry{}}
}

// Begin remembers that a create is under way, until end is called.
func (m *Registry) Begin(c Create) (end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.underWay[&c] = true
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.underWay, &c)
	}
}

// Lost remembers a loss, once, until it is resolved.
func (m *Registry) Lost(l Create) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(l)
}

func (m *Registry) entry(l Create) *entry {
	at := slices.IndexFunc(m.lost, func(e *entry) bool { return e.is(&l) })
	if at < 0 {
		if len(m.lost) == MaxRemembered {
			m.forgot = max(m.forgot, m.lost[0].sent+apart)
			m.lost = slices.Delete(m.lost, 0, 1)
		}
		at, m.lost = len(m.lost), append(m.lost, &entry{Create: l})
	}
	if l.sha256 != "" {
		m.lost[at].sha256 = l.sha256
	}
	return m.lost[at]
}

// Resolve forgets a loss of which it is known that its note was not created.
func (m *Registry) Resolve(l Create) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost = slices.DeleteFunc(m.lost, func(e *entry) bool { return e.is(&l) })
}

// Claim remembers the note found for a loss, zero for none after all, and whether by its recording; false: it is another's.
func (m *Registry) Claim(l Create, note Ref, content bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.ContainsFunc(m.lost, func(e *entry) bool { return e.note.ID != 0 && e.note.Is(note) && !e.is(&l) }) {
		return false
	}
	e := m.entry(l)
	e.note, e.content, e.deleted = note, content, false
	return true
}

// View is what a client remembers, as far as it concerns one loss.
type View struct {
	Note    Ref    // found for it before; zero: none
	Forgot  bool   // others that were sent since, or notes that were returned since, are forgotten
	Sized   Others // creates for the same patient that may have made its note, where the service tells sizes
	Unsized Others // and where it does not
	Same    Others // those that may have sent the same recording
}

// View returns what is remembered concerning the loss.
func (m *Registry) View(l Create) View {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := View{Forgot: m.forgot >= l.sent}
	for c := range m.underWay {
		v.add(l, *c, OthersUnderWay, EqualUnderWay)
	}
	for _, e := range m.lost {
		switch {
		case e.is(&l):
			v.Note = e.note
		case e.note.ID == 0 && max(e.sent-l.sent, l.sent-e.sent) < apart:
			v.add(l, e.Create, NoOthers, EqualLost)
		}
	}
	return v
}

// add takes another create into account, which counts for this much if it can be told apart from the loss, or cannot.
func (v *View) add(l, other Create, apart, equal Others) {
	if l.patient != other.patient {
		return
	}
	sameSize := Compare(l.size, other.size) != Differs
	counts := map[bool]Others{false: apart, true: equal}
	v.Sized = max(v.Sized, counts[l.name == other.name && sameSize])
	v.Unsized = max(v.Unsized, counts[l.name == other.name])
	v.Same = max(v.Same, counts[sameSize && Compare(l.sha256, other.sha256) != Differs])
}

// Knows returns what is known of a note that may be that of the loss, which was sent then. The caller's word excludes some.
func (m *Registry) Knows(l Create, sent time.Time, excluded []Ref, note Ref) Known {
	m.mu.Lock()
	defer m.mu.Unlock()
	sameID := func(r Ref) bool { return r.ID == note.ID }
	r := cmp.Or(m.returned[note.ID], &entry{})
	reused := r.note.ID != 0 || slices.ContainsFunc(excluded, sameID)
	var c entry // of another loss, for which it was found
	for _, e := range m.lost {
		if sameID(e.note) && !e.is(&l) {
			if reused = true; e.note.Is(note) {
				c = *e
			}
		}
	}
	same, claimed := r.note.Is(note), c.note.ID != 0
	perhaps := same && (r.deleted || r.note.Where != note.Where) || claimed && (c.deleted || c.note.Where != note.Where)
	named := slices.Contains(excluded, Ref{ID: note.ID})
	timed := func(r Ref) bool { return r.Made != 0 && r.Is(note) }
	after := sent.Sub(r.at)
	mayBeNext := same && note.Made > r.note.Made && after > 0 && after < replaced
	switch {
	case !r.deleted && !mayBeNext && (!perhaps && (same || claimed && (named || c.content)) || slices.ContainsFunc(excluded, timed)):
		return Explained
	case named, perhaps, mayBeNext:
		return Excluded
	case claimed:
		return Claimed
	case reused:
		return Reused
	}
	return Unexplained
}

// Returned remembers a note that a create, which was sent at that time, returned.
func (m *Registry) Returned(note Ref, sent, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if note.Made != 0 && m.clocks.Known {
		m.clocks.Late = max(m.clocks.Late, sent.Unix()+m.clocks.Ahead-note.Made)
	}
	if _, known := m.returned[note.ID]; !known {
		m.order = append(m.order, note.ID)
	}
	m.returned[note.ID] = &entry{note: note, at: at}
	if len(m.order) > MaxRemembered {
		m.forgot = max(m.forgot, m.returned[m.order[0]].at.UnixMilli())
		delete(m.returned, m.order[0])
		m.order = m.order[1:]
	}
}

// SetDeleted takes in that this client deletes a note, or tries to: another may have its id from then on, made in the same second. So
// what was returned, found or read of it explains nothing any more.
func (m *Registry) SetDeleted(id int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.returned[id]; r != nil {
		r.deleted = true
	}
	for _, e := range m.lost {
		e.deleted = e.deleted || e.note.ID == id
	}
	m.Recordings.mu.Lock()
	defer m.Recordings.mu.Unlock()
	maps.DeleteFunc(m.Recordings.values, func(note Ref, _ Recording) bool { return note.ID == id })
}

// Note returns when a create returned the note of that id, zero if it was to be deleted since, and whether one is remembered.
func (m *Registry) Note(id int64) (at time.Time, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, known := m.returned[id]
	if known && !r.deleted {
		at = r.at
	}
	return at, known
}

// Memo remembers what can be done without: when there is too much of it, all is forgotten. The zero value is ready to use.
type Memo[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]V
}

// Get returns what is remembered; zero: nothing.
func (m *Memo[K, V]) Get(key K) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values[key]
}

// Put remembers a value.
func (m *Memo[K, V]) Put(key K, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil || len(m.values) >= MaxRemembered {
		m.values = map[K]V{}
	}
	m.values[key] = value
}

// SawClock takes in the time that the response of a create gave.
func (m *Registry) SawClock(h http.Header, now time.Time) {
	if c := ReadClocks(h, now.Add(-time.Second), now); c.Known {
		m.mu.Lock()
		defer m.mu.Unlock()
		c.Late = m.clocks.Late
		m.clocks, m.clocksRead = c, now
	}
}

// Clocks returns what the responses of creates have shown of the clocks, and of the times that the service gives, at a time of
// ours. If our clock was set back since, the service's is further ahead; one that seems to be set forward may be that of a machine
// that slept.
func (m *Registry) Clocks(at time.Time) Clocks {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.clocks
	setBack := at.Sub(m.clocksRead) - at.Round(0).Sub(m.clocksRead.Round(0))
	c.Ahead += int64(max(setBack, 0).Round(time.Second) / time.Second)
	return c
}
