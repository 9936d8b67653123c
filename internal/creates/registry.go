package creates

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"
)

// MaxUnresolved is how many lost creates are remembered; the oldest makes room for the next one.
const MaxUnresolved = 4096

// apart is how far from each other two creates were sent of which neither can have made the other's note.
const apart = 26 * time.Hour

// Create is what can tell one create from another by the note it makes. Of patient and name only hashes are kept: whoever
// prints a client must not see them.
type Create struct {
	patient, name uint64
	size          int64 // not positive: not known
}

var seed = maphash.MakeSeed()

// NewCreate describes a create. White space at the ends of a name is nothing to tell it by.
func NewCreate(patientID int64, name string, size int64) Create {
	return Create{maphash.Comparable(seed, patientID), maphash.String(seed, strings.TrimSpace(name)), max(size, 0)}
}

// equal reports whether the two may make notes that nothing tells apart; where the service tells no sizes, they do not count.
func (c Create) equal(other Create, sized bool) bool {
	sized = sized && c.size > 0 && other.size > 0
	return c.patient == other.patient && c.name == other.name && (!sized || c.size == other.size)
}

// Loss is one create whose response was lost.
type Loss struct {
	create Create
	sent   int64 // in nanoseconds
}

// Lost names the create that was sent at that time.
func (c Create) Lost(sent time.Time) Loss { return Loss{c, sent.UnixNano()} }

// Registry is what a client remembers. The zero value is empty and ready to use, by any number of goroutines.
type Registry struct {
	mu       sync.Mutex
	underWay map[*Create]bool
	lost     []entry // the oldest first
	forgot   int64   // when the latest one that was forgotten had been sent
}

type entry struct {
	Loss
	note int64 // found for it; 0: none
}

// Begin remembers that a create is under way, until end is called.
func (m *Registry) Begin(c Create) (end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.underWay == nil {
		m.underWay = map[*Create]bool{}
	}
	m.underWay[&c] = true
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.underWay, &c)
	}
}

// Add remembers a loss, once, until it is known that its note was not created.
func (m *Registry) Add(l Loss) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(l)
}

func (m *Registry) entry(l Loss) *entry {
	at := slices.IndexFunc(m.lost, func(e entry) bool { return e.Loss == l })
	if at < 0 {
		if len(m.lost) == MaxUnresolved {
			m.forgot = max(m.forgot, m.lost[0].sent)
			m.lost = slices.Delete(m.lost, 0, 1)
		}
		m.lost = append(m.lost, entry{Loss: l})
		at = len(m.lost) - 1
	}
	return &m.lost[at]
}

// Remove forgets a loss of which it is known that its note was not created.
func (m *Registry) Remove(l Loss) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost = slices.DeleteFunc(m.lost, func(e entry) bool { return e.Loss == l })
}

// Claim remembers that a note was found for a loss, and reports false if it was found for another.
func (m *Registry) Claim(l Loss, note int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.ContainsFunc(m.lost, func(e entry) bool { return e.note == note && e.Loss != l }) {
		return false
	}
	m.entry(l).note = note
	return true
}

// View is what a client remembers, as far as it concerns one loss.
type View struct {
	Note     int64          // found for it before; 0: none
	Claimed  map[int64]bool // notes found for others
	Forgot   bool           // others that were sent since are forgotten
	UnderWay bool           // a create for the same patient is under way

	// Creates that may have made the same note: where the service tells sizes, and where it does not.
	EqualUnderWay, AlikeUnderWay, EqualLost, AlikeLost bool
}

// View returns what is remembered concerning the loss.
func (m *Registry) View(l Loss) View {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := View{Claimed: map[int64]bool{}, Forgot: m.forgot != 0 && m.forgot >= l.sent-int64(apart)}
	for c := range m.underWay {
		v.UnderWay = v.UnderWay || c.patient == l.create.patient
		v.EqualUnderWay = v.EqualUnderWay || c.equal(l.create, true)
		v.AlikeUnderWay = v.AlikeUnderWay || c.equal(l.create, false)
	}
	for _, e := range m.lost {
		switch {
		case e.Loss == l:
			v.Note = e.note
		case e.note != 0:
			v.Claimed[e.note] = true
		case max(e.sent-l.sent, l.sent-e.sent) < int64(apart):
			v.EqualLost = v.EqualLost || e.create.equal(l.create, true)
			v.AlikeLost = v.AlikeLost || e.create.equal(l.create, false)
		}
	}
	return v
}
