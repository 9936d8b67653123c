package main

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// sessions knows who is logged in. It is the client's TokenSource: only the context of a call says in whose name it is
// made.
type sessions struct {
	open sync.Map // *session by the value of its cookie

	// renew returns a new token for a refused one, as an identity provider does. If it is nil or fails, the clinician
	// has to log in again.
	renew func(refused string) (string, error)
}

// session is a clinician who is logged in, and the patients whose notes the queue shows.
type session struct {
	user   *clinicaldoc.User
	expiry *time.Timer

	mu       sync.Mutex
	token    string // empty once the session has ended
	patients []int64
}

const (
	sessionLife = 8 * time.Hour
	maxPatients = 50 // of a session: the queue reads the notes of each
)

var errNotLoggedIn = errors.New("not logged in")

type sessionKey struct{}

// as returns a context whose calls are made in the name of the session's clinician.
func as(ctx context.Context, s *session) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

// who returns the session of a context, or nil.
func who(ctx context.Context) *session {
	s, _ := ctx.Value(sessionKey{}).(*session)
	return s
}

// Token returns the token of the context's session. A call without a session fails before anything is sent.
func (*sessions) Token(ctx context.Context) (string, error) {
	s := who(ctx)
	if s == nil {
		return "", errNotLoggedIn
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token == "" {
		return "", errNotLoggedIn
	}
	return s.token, nil
}

// Invalidate receives a token that the service refused. The client then repeats the refused call with what Token
// returns.
func (s *sessions) Invalidate(refused string) {
	for _, value := range s.open.Range {
		open, _ := value.(*session)
		open.renew(refused, s.renew)
	}
}

func (s *session) renew(refused string, renew func(string) (string, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token != refused {
		return
	}
	s.token = ""
	if renew != nil {
		s.token, _ = renew(refused)
	}
}

// begin begins a session for a token that the service accepted, and returns the value of its cookie.
func (s *sessions) begin(token string, user *clinicaldoc.User, patients []int64) (cookie string) {
	cookie = rand.Text()
	expiry := time.AfterFunc(sessionLife, func() { s.end(cookie) })
	s.open.Store(cookie, &session{user: user, expiry: expiry, token: token, patients: patients})
	return cookie
}

// end ends a session. Calls that are under way in its name fail at their next request.
func (s *sessions) end(cookie string) {
	value, ok := s.open.LoadAndDelete(cookie)
	if !ok {
		return
	}
	ended, _ := value.(*session)
	ended.mu.Lock()
	defer ended.mu.Unlock()
	ended.token = ""
	ended.expiry.Stop()
}

// find returns the session that the request's cookie names, or nil.
func (s *sessions) find(r *http.Request) *session {
	value, _ := s.open.Load(cookieOf(r))
	found, _ := value.(*session)
	return found
}

func cookieOf(r *http.Request) string {
	cookie, err := r.Cookie("session")
	if err != nil {
		return ""
	}
	return cookie.Value
}

// listed returns the patients of the queue, in the order in which they were added.
func (s *session) listed() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.patients)
}

// add puts a patient on the queue. It reports whether there is room.
func (s *session) add(patient int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.patients, patient) {
		return true
	}
	if len(s.patients) >= maxPatients {
		return false
	}
	s.patients = append(s.patients, patient)
	return true
}

// remove takes a patient off the queue. It changes nothing at the service.
func (s *session) remove(patient int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.patients = slices.DeleteFunc(s.patients, func(listed int64) bool { return listed == patient })
}
