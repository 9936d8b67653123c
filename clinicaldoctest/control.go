package clinicaldoctest

import (
	"time"
)

// Variant returns the switches in force, the defaults filled in.
func (s *Server) Variant() Variant { return *s.variant() }

// SetVariant changes the switches while the server runs. Requests that are
// being served may see some of the old ones. The base path stays as it was at
// the start, since [Server.URL] holds it.
func (s *Server) SetVariant(v Variant) {
	v.BasePath = s.variant().BasePath
	s.rules.Store(new(v.withDefaults()))
}

// SetDelays changes how long notes stay in each stage, also those that are
// being processed.
func (s *Server) SetDelays(d Delays) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delays = d
}

// SetTime sets the server's clock, forward or back, running or standing.
func (s *Server) SetTime(t time.Time) { s.Advance(t.Sub(s.Now())) }

// Freeze makes the server's time stand still; only [Server.Advance] and
// [Server.SetTime] move it then.
func (s *Server) Freeze() { s.clock.freeze() }

// Unfreeze makes the server's time run again, on from where it stands.
func (s *Server) Unfreeze() { s.clock.unfreeze() }

// Reset brings the server back to its start: the first user with its token, the
// options it was started with, and nothing else, neither notes nor faults nor
// requests.
func (s *Server) Reset() {
	s.faults.clear()
	s.faults.setSeed(s.initial.seed)
	s.requests.forget()
	s.limits.forget()
	s.clock.set(s.initial.frozen)
	s.rules.Store(new(s.initial.variant.withDefaults()))
	s.mu.Lock()
	old := s.notes
	s.state = newState()
	s.delays = s.initial.delays
	s.mu.Unlock()
	for _, n := range old {
		s.removeAudio(n.audio)
	}
	s.AddUser(User{Token: s.Token})
}
