package creates

import (
	"sync"
	"time"
)

// MaxReturned is how many ids are remembered; the oldest makes room for the next one.
const MaxReturned = 4096

// Returned is a set of notes with the times at which they were returned. The zero value is empty and ready to use, by any number of goroutines.
type Returned struct {
	mu     sync.Mutex
	times  map[int64]returnedNote
	ring   []int64 // in the order of adding; once full, oldest is overwritten next
	oldest int
	forgot time.Time
}

type returnedNote struct {
	Ref
	at      time.Time
	expired bool
}

// Add remembers a note together with the time. An id that is there already gets the new time and keeps its place.
func (s *Returned) Add(note Ref, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.times == nil {
		s.times = make(map[int64]returnedNote)
	}
	if _, ok := s.times[note.ID]; !ok {
		s.push(note.ID)
	}
	s.times[note.ID] = returnedNote{Ref: note, at: at}
}

func (s *Returned) push(id int64) {
	if len(s.ring) < MaxReturned {
		s.ring = append(s.ring, id)
		return
	}
	if dropped := s.times[s.ring[s.oldest]].at; dropped.After(s.forgot) {
		s.forgot = dropped
	}
	delete(s.times, s.ring[s.oldest])
	s.ring[s.oldest] = id
	s.oldest = (s.oldest + 1) % MaxReturned
}

// Expire keeps id, if it is remembered, but lets Time say zero: it does not count as new any more.
func (s *Returned) Expire(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.times[id]; ok {
		e.expired = true
		s.times[id] = e
	}
}

// Time returns when id was last added, and whether it is remembered.
func (s *Returned) Time(id int64) (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.times[id]
	if e.expired {
		return time.Time{}, ok
	}
	return e.at, ok
}

// Has reports whether id is remembered.
func (s *Returned) Has(id int64) bool {
	_, ok := s.Ref(id)
	return ok
}

// Ref returns the note of that id as it was added, and whether it is remembered.
func (s *Returned) Ref(id int64) (Ref, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.times[id]
	return e.Ref, ok
}

// Forgot returns the latest time of an id that had to make room: what was added before or at it may be unknown. It is zero
// while all are remembered.
func (s *Returned) Forgot() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forgot
}
