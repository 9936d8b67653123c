package main

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync"
	"time"
)

// sessions knows who is logged in. It is the client's TokenSource: in whose name a call is made is in its context, and nowhere else.
type sessions struct {
	tokens sync.Map                             // by session
	renew  func(refused string) (string, error) // as an identity provider does; nil, or an error: the clinician has to log in again
}

var errNotLoggedIn = errors.New("not logged in")

type sessionKey struct{}

// as is a context whose calls are made in the name of who began the session.
func as(ctx context.Context, session string) context.Context {
	return context.WithValue(ctx, sessionKey{}, session)
}

// Token gives the token of the session that the context names. A call that names none fails before anything is sent.
func (s *sessions) Token(ctx context.Context) (string, error) {
	known, _ := s.tokens.Load(ctx.Value(sessionKey{}))
	if token, _ := known.(string); token != "" {
		return token, nil
	}
	return "", errNotLoggedIn
}

// Invalidate is told of a token that the service refused. The refused call is made once more with what Token gives then.
func (s *sessions) Invalidate(refused string) {
	s.tokens.Range(func(session, token any) bool {
		if token == refused {
			fresh := ""
			if s.renew != nil {
				fresh, _ = s.renew(refused)
			}
			s.tokens.CompareAndSwap(session, refused, fresh)
		}
		return true
	})
}

// begin begins a session of eight hours.
func (s *sessions) begin(token string) (session string) {
	session = rand.Text()
	s.tokens.Store(session, token)
	time.AfterFunc(8*time.Hour, func() { s.end(session) })
	return session
}

func (s *sessions) end(session string) { s.tokens.Delete(session) }

// session is what the request says that it belongs to.
func session(r *http.Request) string {
	if cookie, err := r.Cookie("session"); err == nil {
		return cookie.Value
	}
	return ""
}
