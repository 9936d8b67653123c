package creates

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/maphash"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// MaxRemembered is how many entries of each kind a registry keeps. The oldest makes room for the next one.
	MaxRemembered = 4096
	// farApart is how far apart two creates were sent if neither can have made the other's note, in milliseconds.
	farApart = slack * 1000
	// replacedWithin is how soon after a create returned its note another note with the same ID may appear to be
	// created: somebody deleted the first note, and the service used its ID again.
	replacedWithin = 2 * time.Second
)

// Create identifies a create, under way or lost. It keeps only hashes of patient and name, so printing a client
// shows neither.
type Create struct {
	// Note is the id of the note that the create's own response named, or 0.
	Note int64

	patient, name uint64
	size          int64  // of the recording; 0 if it is not known, or there is none
	id            string // of a lost create; empty if the caller constructed it
	sent          int64  // in milliseconds
	sha256        string // of the recording; empty if not known
}

var seed = maphash.MakeSeed()

// Hash stands for a value within this process.
func Hash[T comparable](v T) uint64 { return maphash.Comparable(seed, v) }

// NewCreate returns the identity of a create. Size is that of the recording; zero or less means that it is not known,
// or that there is none. Names are the same if they differ only in white space at their ends, or in how characters
// are composed.
func NewCreate(patientID int64, name string, size int64, id string, sent time.Time, sha256 string) Create {
	return Create{
		patient: Hash(patientID),
		name:    Hash(trimmed(name)),
		size:    max(size, 0),
		id:      id,
		sent:    sent.UnixMilli(),
		sha256:  sha256,
	}
}

// isSame reports whether both are the same create. Their ids decide if both have one. Otherwise it compares what was
// sent and when. If one of the times has no fraction, it may have been stored in whole seconds, so only these are
// compared.
func (c *Create) isSame(other *Create) bool {
	if c.id != "" && other.id != "" {
		return c.id == other.id
	}
	const second = 1000
	isSameTime := c.sent == other.sent
	if c.sent%second == 0 || other.sent%second == 0 {
		isSameTime = c.sent/second == other.sent/second
	}
	if !isSameTime || c.patient != other.patient {
		return false
	}
	return c.name == other.name && c.size == other.size
}

// mayBeTwin reports whether the other create may have made the note that was found for this one. If byName is set, the
// note was found by its unique name, otherwise by its recording.
func (c *Create) mayBeTwin(other *Create, byName bool) bool {
	switch {
	case c.patient != other.patient:
		return false
	case byName:
		return c.name == other.name
	case c.sha256 != "" && other.sha256 != "":
		return c.sha256 == other.sha256
	}
	return c.size == 0 || other.size == 0 || c.size == other.size
}

// Ref identifies a note by its id and its time of creation, because a service may use an id again.
type Ref struct {
	ID     int64
	MadeAt int64  // in seconds; 0 if not known
	Tenant string // the token and the tenant it was seen with; another tenant may have ids of its own
}

// NewRef returns the reference of a note.
func NewRef(id int64, created time.Time, where string) Ref {
	return Ref{id, max(created.Unix(), 0), where}
}

// Is reports whether both are the same note. The service may round its times.
func (r Ref) Is(other Ref) bool {
	if r.ID != other.ID {
		return false
	}
	between := max(r.MadeAt-other.MadeAt, other.MadeAt-r.MadeAt)
	return r.MadeAt == 0 || other.MadeAt == 0 || between <= 1
}

// User is a user as the service named it for a token.
type User struct {
	ID int64
	// Fingerprint distinguishes users with the same ID at different tenants.
	Fingerprint string
}

// NewUser returns the user with that id and email address.
func NewUser(id int64, email string, created time.Time) User {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\n%s\n%d", id, email, created.UnixMicro()))
	return User{ID: id, Fingerprint: hex.EncodeToString(sum[:16])}
}

// Registry is what a client remembers of its creates and edits. It is safe for concurrent use.
type Registry struct {
	mu          sync.Mutex
	underWay    map[*Create]bool
	lost        []*loss // the oldest first
	forgotUntil int64   // creates sent until then may have a twin that was forgotten

	returned    map[int64]*returned // by the note's id
	returnedIDs []int64             // their ids, the oldest first

	clocks     Clocks // as the latest create showed them
	clocksRead time.Time

	Users      Memo[string, User]      // by the fingerprint of their token
	Edited     Memo[uint64, time.Time] // when an edit left a note in this state, which is a Hash
	Recordings Memo[Ref, Recording]    // what searches have read
}

// loss is a lost create, with the note that a search has claimed for it.
type loss struct {
	Create

	claimed Ref  // zero if no note was found
	deleted bool // this client deletes the claimed note, or has tried to
}

// returned is a note that a create returned.
type returned struct {
	note       Ref
	returnedAt time.Time
	deleted    bool
	withheld   bool // Create returned an error instead of the note
	// mayBeDateAlone is set if the note's time may be a date alone, which another note with its ID may have too.
	mayBeDateAlone bool
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	return &Registry{underWay: map[*Create]bool{}, returned: map[int64]*returned{}}
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

// AddLost remembers a lost create until it is resolved.
func (m *Registry) AddLost(c Create) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lossOf(c)
}

// lossOf returns the entry of a lost create, with its recording if that is known now. It adds an entry if there is
// none, and forgets the oldest one if there are too many. The caller holds the lock.
func (m *Registry) lossOf(c Create) *loss {
	for _, l := range m.lost {
		if l.isSame(&c) {
			if c.sha256 != "" {
				l.sha256 = c.sha256
			}
			return l
		}
	}
	if len(m.lost) == MaxRemembered {
		oldest := m.lost[0]
		m.forgotUntil = max(m.forgotUntil, oldest.sent+farApart) // it may be a twin of creates sent until then
		m.lost = slices.Delete(m.lost, 0, 1)
	}
	added := &loss{Create: c}
	m.lost = append(m.lost, added)
	return added
}

// LearnRecording adds the hash of its recording to a lost create that is remembered. It ignores other creates, and an
// empty hash.
func (m *Registry) LearnRecording(c Create) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.lost {
		if c.sha256 != "" && l.isSame(&c) {
			l.sha256 = c.sha256
		}
	}
}

// Resolve forgets a lost create whose note was not created.
func (m *Registry) Resolve(c Create) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost = slices.DeleteFunc(m.lost, func(l *loss) bool { return l.isSame(&c) })
}

// Claim remembers the note found for a lost create. It returns false, and remembers nothing, if another lost create has
// claimed that note.
func (m *Registry) Claim(c Create, note Ref) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.lost {
		if !l.isSame(&c) && l.hasClaimed(note) {
			return false
		}
	}
	own := m.lossOf(c)
	own.claimed = note
	own.deleted = false
	return true
}

// Unclaim forgets the note found for a lost create.
func (m *Registry) Unclaim(c Create) {
	m.mu.Lock()
	defer m.mu.Unlock()
	own := m.lossOf(c)
	own.claimed = Ref{}
}

// hasClaimed reports whether the note was claimed for the lost create.
func (l *loss) hasClaimed(note Ref) bool { return l.claimed.ID != 0 && l.claimed.Is(note) }

// ClaimedNote returns the note that Claim remembers for a lost create. It returns the zero Ref if there is none, or if
// the create is not remembered.
func (m *Registry) ClaimedNote(c Create) Ref {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.lost {
		if l.isSame(&c) {
			return l.claimed
		}
	}
	return Ref{}
}

// View is what a client remembers of other creates that concerns one lost create.
type View struct {
	Twin            Twin     // another create that may have made its note
	AnotherUnderWay bool     // another create for the patient is under way
	Recordings      []string // SHA-256 of what other lost creates for the patient sent
}

// View returns what other creates mean for a lost create c. In addition to the creates that are remembered, it
// considers the others, which are lost creates that the caller knows of. If byName is set, c's note is identified by
// its unique name, otherwise by its recording.
func (m *Registry) View(c Create, others []Create, byName bool) View {
	m.mu.Lock()
	defer m.mu.Unlock()
	var v View
	mayHaveForgottenTwin := m.forgotUntil >= c.sent
	if mayHaveForgottenTwin {
		v.Twin = TwinLost
	}
	for _, l := range m.lost {
		if l.isSame(&c) {
			continue
		}
		isFound := l.claimed.ID != 0
		v.addLost(c, l.Create, isFound, byName)
	}
	for _, other := range others {
		if other.isSame(&c) || m.isResolved(other) {
			continue
		}
		const isFound = false
		v.addLost(c, other, isFound, byName)
	}
	for other := range m.underWay {
		if other.patient != c.patient {
			continue
		}
		v.AnotherUnderWay = true
		if v.Twin == NoTwin && c.mayBeTwin(other, byName) {
			v.Twin = TwinUnderWay
		}
	}
	return v
}

// isResolved reports whether a note was found for the lost create. The caller holds the lock.
func (m *Registry) isResolved(c Create) bool {
	return slices.ContainsFunc(m.lost, func(l *loss) bool { return l.isSame(&c) && l.claimed.ID != 0 })
}

// addLost adds to the view of c what another lost create means for it. That is nothing if the other create is of
// another patient, or was sent 26 hours or more before or after c. It is not a twin if its own note was found.
func (v *View) addLost(c, other Create, isFound, byName bool) {
	tooFarApart := max(other.sent-c.sent, c.sent-other.sent) >= farApart
	if other.patient != c.patient || tooFarApart {
		return
	}
	if other.sha256 != "" {
		v.Recordings = append(v.Recordings, other.sha256)
	}
	if !isFound && c.mayBeTwin(&other, byName) {
		v.Twin = TwinLost
	}
}

// Explains reports whether the note is known to come from another create than c: this client's Create returned it, or
// it was found for another lost create. The time is when c was sent.
func (m *Registry) Explains(c Create, sent time.Time, note Ref) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.returned[note.ID]; r != nil && r.explains(c, sent, note) {
		return true
	}
	return slices.ContainsFunc(m.lost, func(l *loss) bool {
		return !l.isSame(&c) && l.hasClaimed(note) && !l.deleted && l.claimed.Tenant == note.Tenant
	})
}

// explains reports whether the note is the returned one, and not a later one with its id. It is false for the create c
// whose own response named this note, but whose caller got an error. The time is when c was sent.
func (r *returned) explains(c Create, sent time.Time, note Ref) bool {
	if r.withheld && c.Note == note.ID {
		return false
	}
	if r.deleted || r.note.Tenant != note.Tenant || !r.note.Is(note) {
		return false
	}
	sentAfter := sent.Sub(r.returnedAt)
	// Somebody may have deleted the returned note, and c may have made one with its ID; see replacedWithin.
	isLater := note.MadeAt > r.note.MadeAt && sentAfter < replacedWithin
	mayBeReplaced := sentAfter > 0 && (isLater || r.mayBeDateAlone)
	return !mayBeReplaced
}

// Returned remembers a note that Create returned, when its request was sent and when it returned. The note also shows
// how far the service's times are off.
func (m *Registry) Returned(note Ref, sent, returnedAt time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mayBeDateAlone := false
	if note.MadeAt != 0 {
		mayBeDateAlone = m.clocks.tryTimes(sent, note)
	}
	if m.returned[note.ID] == nil {
		m.returnedIDs = append(m.returnedIDs, note.ID)
	}
	m.returned[note.ID] = &returned{note: note, returnedAt: returnedAt, mayBeDateAlone: mayBeDateAlone}
	if len(m.returnedIDs) > MaxRemembered {
		delete(m.returned, m.returnedIDs[0])
		m.returnedIDs = m.returnedIDs[1:]
	}
}

// tryTimes notes how much earlier than its create was sent a note appears to have been made. A time that may be a date
// alone shows nothing about the next note; tryTimes reports whether it is such a time.
func (c *Clocks) tryTimes(sent time.Time, note Ref) (mayBeDateAlone bool) {
	if !c.Known {
		c.NoteTimesVerified = true
		return false
	}
	backdatedBy := sent.Unix() + c.ServiceAhead - note.MadeAt // sent, by the service's clock
	const tolerance = 2                                       // of two clocks in whole seconds
	differs := max(backdatedBy, -backdatedBy) > tolerance
	mayBeDateAlone = note.MadeAt%quarterHour == 0 && differs
	c.NoteTimesVerified = !mayBeDateAlone
	c.NotesBackdatedBy = max(c.NotesBackdatedBy, backdatedBy)
	return mayBeDateAlone
}

// Withhold remembers that Create made the note of that id but returned an error instead. The note counts as returned
// for every other create. A search for the create itself may still find it.
func (m *Registry) Withhold(id int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.returned[id]; r != nil {
		r.withheld = true
	}
}

// SetDeleted remembers that this client deletes a note, or tries to. Another note may have its id from then on, made
// in the same second, so nothing that is known of it explains a note any more.
func (m *Registry) SetDeleted(id int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.returned[id]; r != nil {
		r.deleted = true
	}
	for _, l := range m.lost {
		if l.claimed.ID == id {
			l.deleted = true
		}
	}
	m.Recordings.mu.Lock()
	defer m.Recordings.mu.Unlock()
	maps.DeleteFunc(m.Recordings.values, func(note Ref, _ Recording) bool { return note.ID == id })
}

// ReturnedAt returns when Create returned the note of that id, and whether one is remembered. The time is zero if this
// client has deleted the note since.
func (m *Registry) ReturnedAt(id int64) (at time.Time, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.returned[id]
	switch {
	case r == nil:
		return time.Time{}, false
	case r.deleted:
		return time.Time{}, true
	}
	return r.returnedAt, true
}

// SawClock remembers the time that the response of a create reported.
func (m *Registry) SawClock(h http.Header, now time.Time) {
	sent := now.Add(-time.Second) // a response may take a second
	c := ReadClocks(h, sent, now)
	if !c.Known {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c.NotesBackdatedBy = m.clocks.NotesBackdatedBy
	c.NoteTimesVerified = m.clocks.NoteTimesVerified
	m.clocks = c
	m.clocksRead = now
}

// Clocks returns what the responses of creates have shown of the clocks, at a time of ours. If our clock was set back
// since, the service's is further ahead. A clock that appears to be set forward may be that of a machine that slept,
// so it is not corrected.
func (m *Registry) Clocks(at time.Time) Clocks {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.clocks
	byWallClock := at.Round(0).Sub(m.clocksRead.Round(0)) // Round(0) removes the monotonic reading
	setBack := at.Sub(m.clocksRead) - byWallClock
	c.ServiceAhead += int64(max(setBack, 0).Round(time.Second) / time.Second)
	return c
}

// Memo remembers values that can be learned again. When it is full, it forgets all of them. The zero value is ready
// to use, and safe for concurrent use.
type Memo[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]V
}

// Get returns the value of a key, or the zero value.
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
