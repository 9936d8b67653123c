package clinicaldoctest

import (
	"time"
)

// Variant returns the switches in force, the defaults filled in.
func (s *Server) Variant() Variant { return *s.state().variant() }

// SetVariant changes the switches while the server runs. Requests that are
// being served may see some of the old ones. The base path stays as it was at
// the start, since [Server.URL] holds it.
func (s *Server) SetVariant(v Variant) {
	v.BasePath = s.initial.variant.BasePath
	st := s.state()
	st.rules.Store(new(v.withDefaults()))
	st.silence.Store(nil) // another variant may store it otherwise
}

// SetDelays changes how long notes stay in each stage, also those that are
// being processed. What they have gone through they keep.
func (s *Server) SetDelays(d Delays) {
	st := s.state()
	now := st.now()
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, e := range st.notes.all {
		n := e.note()
		if settled := n.settled(now, st.delays); !n.deletes && settled.stage != n.stage {
			st.addVersion(settled, now)
		}
	}
	st.delays = d
}

// SetTime sets the server's clock, forward or back, running or standing.
func (s *Server) SetTime(t time.Time) { s.Advance(t.Sub(s.Now())) }

// Freeze makes the server's time stand still; only [Server.Advance] and
// [Server.SetTime] move it then.
func (s *Server) Freeze() { s.state().clock.freeze() }

// Unfreeze makes the server's time run again, on from where it stands.
func (s *Server) Unfreeze() { s.state().clock.unfreeze() }
