package clinicaldoctest

import (
	"context"
	"fmt"
	"net/http"
)

// Vanish deletes up to n of the notes that a list shows, the first rows first,
// before the list's client can ask for the next page: somebody else was
// quicker. It means something on [RouteListNotes].
func Vanish(n int) Fault {
	return newFault(fmt.Sprintf("vanish=%d", n), func(s *Server, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
		serveChurning(w, r, serve, func(c *churn) { s.deleteNotes(c.shown[:min(n, len(c.shown))]) })
	})
}

// Arrive adds n notes of the patient whose notes are listed, or of patient 1,
// before the list's client can ask for the next page. It means something on
// [RouteListNotes].
func Arrive(n int) Fault {
	return newFault(fmt.Sprintf("arrive=%d", n), func(s *Server, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
		serveChurning(w, r, serve, func(c *churn) {
			for range n {
				s.AddNote(Note{PatientID: max(c.patientID, 0), Name: "Arrived"})
			}
		})
	})
}

// churn is what a list has shown.
type churn struct {
	patientID int64
	shown     []int64
}

// churnKey is where a request's context holds its churn.
type churnKey struct{}

// serveChurning serves a list and changes the notes before the response leaves.
func serveChurning(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc, change func(*churn)) {
	c := &churn{}
	serve(&lateWriter{ResponseWriter: w, before: func() { change(c) }}, r.WithContext(context.WithValue(r.Context(), churnKey{}, c)))
}

// lateWriter does something before a response leaves.
type lateWriter struct {
	http.ResponseWriter
	before func()
}

func (w *lateWriter) WriteHeader(status int) {
	w.before()
	w.ResponseWriter.WriteHeader(status)
}

// deleteNotes deletes notes as nobody's request does.
func (s *Server) deleteNotes(ids []int64) {
	now := s.Now()
	var orphans []*audio
	s.mu.Lock()
	for _, id := range ids {
		if n := s.notes[id]; n != nil {
			s.bury(n, now)
			orphans = append(orphans, n.audio)
		}
	}
	s.mu.Unlock()
	for _, orphan := range orphans {
		s.removeAudio(orphan)
	}
}
