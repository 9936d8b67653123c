package clinicaldoctest

import (
	"time"
)

// Variant returns the current switches with their defaults filled in.
func (s *Server) Variant() Variant { return s.state().variant().clone() }

// SetVariant changes the switches while the server runs. Requests in progress
// may see some of the old ones. The base path does not change, because
// [Server.URL] contains it.
func (s *Server) SetVariant(v Variant) {
	v.BasePath = s.initial.variant.BasePath
	st := s.state()
	st.rules.Store(new(v.clone().withDefaults()))
	st.silence.Store(nil) // another variant may store it otherwise
}

// SetDelays changes how long notes stay in each stage, including notes in
// progress. Stages that they have passed do not change.
func (s *Server) SetDelays(d Delays) {
	st := s.state()
	now := st.now()
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, e := range st.notes.all {
		n := e.note()
		settled := n.settled(now, st.delays)
		if !n.deletes && settled.stage != n.stage {
			st.addVersion(settled, now)
		}
	}
	st.delays = d
}

// SetTime sets the server's clock, forward or back, running or frozen.
func (s *Server) SetTime(t time.Time) { s.Advance(t.Sub(s.Now())) }

// Freeze stops the server's clock. Only [Server.Advance] and [Server.SetTime]
// move it then.
func (s *Server) Freeze() { s.state().clock.freeze() }

// Unfreeze lets the server's clock run again from its current time.
func (s *Server) Unfreeze() { s.state().clock.unfreeze() }
