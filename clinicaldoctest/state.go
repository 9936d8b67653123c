package clinicaldoctest

import (
	"sync"
	"sync/atomic"
	"time"
)

// state is all that the service remembers and goes by. [Server.Reset] replaces
// it whole, its first user included. A request works on the state that it
// found: what began before a reset does nothing after it.
type state struct {
	srv      *Server // its addresses, folder and keys stay
	rules    atomic.Pointer[Variant]
	clock    clock
	requests recorder
	faults   faultList
	limits   limiter
	silence  atomic.Pointer[audio] // of the note seeded last

	committing sync.Mutex // held while pending requests are done

	mu       sync.Mutex // guards what follows
	delays   Delays
	users    map[int64]*user
	tokens   map[string]*token // by secret
	patients map[int64]Patient
	prompts  map[int64]Prompt
	notes    noteLog
	audio    map[string]*audio // by key
	scripts  []Script
	pending  []pendingCommit
	lastID   struct{ user, token, patient, prompt int64 }
	planted  int64 // patients from 1 on that came with planted notes
	wasReset bool  // nobody will ask for its audio
}

type user struct {
	id, teamID  int64
	name, email string
	createdAt   time.Time
}

type token struct {
	id, userID            int64
	name                  string
	createdAt, lastUsedAt time.Time
}

// newState returns the state in which a server starts.
func newState(srv *Server, cfg config) *state {
	s := &state{
		srv: srv, clock: clock{frozen: cfg.frozen}, delays: cfg.delays,
		users: map[int64]*user{}, tokens: map[string]*token{},
		patients: map[int64]Patient{}, prompts: map[int64]Prompt{},
		notes: noteLog{lists: map[listKey][]*entry{}}, audio: map[string]*audio{},
	}
	s.lastID.prompt = firstPrompts
	s.faults.setSeed(cfg.seed)
	s.rules.Store(new(cfg.variant.withDefaults()))
	s.addUser(User{Token: cfg.token})
	return s
}

// variant returns the switches in force.
func (s *state) variant() *Variant { return s.rules.Load() }

// now is the service's time.
func (s *state) now() time.Time { return s.clock.now().Add(s.variant().ClockOffset) }

// Reset returns the server to its start: the first user with its token, and the options that it was started with. It
// removes notes, faults and requests. Requests in progress end as if they had come before it.
func (s *Server) Reset() {
	old := s.current.Swap(newState(s, s.initial))
	old.mu.Lock()
	old.wasReset = true
	orphans := old.audio
	old.audio = map[string]*audio{}
	old.mu.Unlock()
	for _, orphan := range orphans {
		s.removeFile(orphan)
	}
}
