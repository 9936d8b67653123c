package main

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// clinician is somebody who is logged in.
type clinician struct {
	token atomic.Value // a string; empty: logged out, or the service refused it and there is no other
}

type clinicianKey struct{}

// as is a context whose calls are made in the clinician's name.
func as(ctx context.Context, c *clinician) context.Context {
	return context.WithValue(ctx, clinicianKey{}, c)
}

// sessions knows who is logged in. It is the client's TokenSource: whom a call is made for is in its context, and nowhere else.
type sessions struct {
	byID sync.Map // of *clinician
	// renew gets another token for a refused one, as an identity provider does; nil: the clinician has to log in again.
	renew func(refused string) (string, error)
}

var errNotLoggedIn = errors.New("not logged in")

// Token gives the token of the clinician whom the context names. A call that names nobody fails before anything is sent.
func (s *sessions) Token(ctx context.Context) (string, error) {
	if c, ok := ctx.Value(clinicianKey{}).(*clinician); ok {
		if token, _ := c.token.Load().(string); token != "" {
			return token, nil
		}
	}
	return "", errNotLoggedIn
}

// Invalidate is told of a token that the service refused. The refused call is made once more with what Token gives then.
func (s *sessions) Invalidate(refused string) {
	fresh := ""
	if s.renew != nil {
		fresh, _ = s.renew(refused) // if that fails, the session is over
	}
	s.byID.Range(func(_, c any) bool {
		if c, ok := c.(*clinician); ok {
			c.token.CompareAndSwap(refused, fresh)
		}
		return true
	})
}

// begin begins a session of eight hours and returns its id.
func (s *sessions) begin(c *clinician) string {
	id := rand.Text()
	s.byID.Store(id, c)
	time.AfterFunc(8*time.Hour, func() { s.byID.Delete(id) })
	return id
}

// find returns who sent the request; nil: nobody who is logged in.
func (s *sessions) find(r *http.Request) *clinician {
	if cookie, err := r.Cookie("session"); err == nil {
		known, _ := s.byID.Load(cookie.Value)
		if c, ok := known.(*clinician); ok && c.token.Load() != "" {
			return c
		}
	}
	return nil
}
