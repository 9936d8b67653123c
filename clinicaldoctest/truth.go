package clinicaldoctest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Creation describes a note that a request created, whatever response the client
// got.
type Creation struct {
	NoteID    int64
	RequestID string // of the [Request] that made it
	Time      time.Time
	DeletedAt time.Time // zero if it still exists

	UserID    int64
	PatientID int64
	PromptID  int64
	Name      string // as the server stored it
	// AudioSHA256 is the SHA-256 of the recording as received, or "" if the note
	// has none.
	AudioSHA256 string
	AudioSize   int64
}

// Created returns every creation of a note by a request, oldest first, including
// notes that were deleted since. It keeps at least the last 90,000 deleted ones.
// Notes of [Server.AddNote] are not included.
func (s *Server) Created() []Creation {
	st := s.state()
	st.commitDue(st.now())
	st.mu.Lock()
	defer st.mu.Unlock()
	var created []Creation
	for _, e := range slices.Concat(st.notes.former, st.notes.all) {
		if e.last != nil && e.last.requestID != "" {
			created = append(created, e.last.creation())
		}
	}
	slices.SortStableFunc(created, func(a, b Creation) int { return a.Time.Compare(b.Time) })
	return created
}

func (n *note) creation() Creation {
	first := n
	for first.before != nil {
		first = first.before
	}
	c := Creation{
		NoteID: n.id, RequestID: n.requestID, Time: n.createdAt,
		UserID: n.userID, PatientID: n.patientID, PromptID: n.promptID, Name: first.name,
	}
	if n.deletes {
		c.DeletedAt = n.at
	}
	if n.audio != nil {
		c.AudioSHA256 = n.audio.sha256
		c.AudioSize = n.audio.size
	}
	return c
}

// CreatedFrom returns the creations with that recording, as [Server.Created].
func (s *Server) CreatedFrom(recording []byte) []Creation {
	fingerprint := fingerprintOf(recording)
	return slices.DeleteFunc(s.Created(), func(c Creation) bool { return c.AudioSHA256 != fingerprint })
}

// CreatedOnce returns nil if each of the recordings became exactly one note, and
// requests created no other note. Notes that were deleted since count, too. A
// recording that is passed twice must have become two notes.
//
// Otherwise the error lists, by their position in the arguments, the recordings
// that have too few or too many notes. It also lists the notes that have other
// recordings or none.
func (s *Server) CreatedOnce(recordings ...[]byte) error {
	wantedNotes := map[string]int{} // how many, by the SHA-256 of the recording
	for _, recording := range recordings {
		wantedNotes[fingerprintOf(recording)]++
	}
	noteIDs := map[string][]int64{} // by the same
	var problems, others []string
	for _, c := range s.Created() {
		noteIDs[c.AudioSHA256] = append(noteIDs[c.AudioSHA256], c.NoteID)
		if wantedNotes[c.AudioSHA256] == 0 {
			others = append(others, strconv.FormatInt(c.NoteID, 10))
		}
	}
	reported := map[string]bool{}
	for i, recording := range recordings {
		fingerprint := fingerprintOf(recording)
		notes := noteIDs[fingerprint]
		wanted := wantedNotes[fingerprint]
		if len(notes) == wanted || reported[fingerprint] {
			continue
		}
		reported[fingerprint] = true
		problem := fmt.Sprintf("recording %d should have %d and has %d notes %v", i, wanted, len(notes), notes)
		problems = append(problems, problem)
	}
	if len(others) > 0 {
		problems = append(problems, "notes of other recordings: "+strings.Join(others, ", "))
	}
	if len(problems) > 0 {
		return fmt.Errorf("clinicaldoctest: %s", strings.Join(problems, "; "))
	}
	return nil
}

// fingerprintOf returns the SHA-256 of a recording, as in Creation.AudioSHA256.
func fingerprintOf(recording []byte) string {
	sum := sha256.Sum256(recording)
	return hex.EncodeToString(sum[:])
}

// pendingCommit is the effect of a request that is carried out later.
type pendingCommit struct {
	due    time.Time
	effect effect
}

// commitLater carries out an effect after d, by the server's clock; see commitDue.
func (s *state) commitLater(e effect, d time.Duration) {
	now := s.now()
	s.mu.Lock()
	s.pending = append(s.pending, pendingCommit{now.Add(d), e})
	s.mu.Unlock()
	s.commitDue(now)
}

// commitDue carries out the effects that are due, in the order of time. It runs before each read of the notes, so
// waiting needs neither timers nor goroutines.
func (s *state) commitDue(now time.Time) {
	s.committing.Lock() // a read must not miss an effect that another goroutine is carrying out
	defer s.committing.Unlock()
	for {
		s.mu.Lock()
		slices.SortStableFunc(s.pending, func(a, b pendingCommit) int { return a.due.Compare(b.due) })
		if len(s.pending) == 0 || s.pending[0].due.After(now) {
			s.mu.Unlock()
			return
		}
		next := s.pending[0]
		s.pending = slices.Delete(s.pending, 0, 1)
		s.mu.Unlock()
		next.effect(next.due)
	}
}
