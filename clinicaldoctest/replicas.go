package clinicaldoctest

import (
	"net/http"
	"slices"
	"time"
)

// replicas is what reads of the past need; see [Lagging].
type replicas struct {
	horizon time.Duration   // how far back a read may look; 0: nothing is kept
	deleted map[int64]*note // within the horizon
}

// version is a note as it was left by a change.
type version struct {
	at      time.Time // zero: since ever
	deleted bool
	note    note
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

// keepHistory has changes remembered for that long from now on.
func (s *Server) keepHistory(lag time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicas.horizon = max(s.replicas.horizon, lag)
}

// remember keeps a note's new version, and what was before it if that is the
// first one kept; the caller holds the lock.
func (s *Server) remember(before note, n *note, now time.Time) {
	if s.replicas.horizon == 0 || s.notes[n.id] != n {
		return // a deleted note has its last version
	}
	if len(n.history) == 0 {
		n.history = []version{{note: before}}
	}
	s.keepVersion(n, version{at: now, note: *n})
}

// keepVersion adds a version and drops those that no read can reach any more.
func (s *Server) keepVersion(n *note, v version) {
	v.note.history = nil
	n.history = append(n.history, v)
	oldest := v.at.Add(-s.replicas.horizon)
	for len(n.history) > 1 && !n.history[1].at.After(oldest) {
		n.history = slices.Delete(n.history, 0, 1)
	}
}

// bury deletes a note; the caller holds the lock.
func (s *Server) bury(n *note, now time.Time) {
	delete(s.notes, n.id)
	s.recordDeletion(n.id, now)
	if s.replicas.horizon == 0 {
		return
	}
	s.keepVersion(n, version{at: now, deleted: true, note: *n})
	s.replicas.deleted[n.id] = n
	for id, gone := range s.replicas.deleted {
		if last := gone.history[len(gone.history)-1]; !last.at.After(now.Add(-s.replicas.horizon)) {
			delete(s.replicas.deleted, id)
		}
	}
}

// noteAsOf returns a copy of a note as it was, or nil if it was not there; the
// caller holds the lock.
func (s *Server) noteAsOf(id int64, at time.Time) *note {
	n := s.notes[id]
	if n == nil {
		n = s.replicas.deleted[id]
	}
	if n == nil {
		return nil
	}
	for _, v := range slices.Backward(n.history) {
		if !v.at.After(at) {
			if v.deleted {
				return nil
			}
			v.note.settle(at, s.delays)
			return &v.note
		}
	}
	if len(n.history) > 0 {
		return nil
	}
	old := *n // unchanged since before anything was kept
	return &old
}

// everID returns the ids of all notes that a read of the past may find; the
// caller holds the lock.
func (s *Server) everID() []int64 {
	ids := make([]int64, 0, len(s.notes)+len(s.replicas.deleted))
	for id := range s.notes {
		ids = append(ids, id)
	}
	for id := range s.replicas.deleted {
		ids = append(ids, id)
	}
	return ids
}
