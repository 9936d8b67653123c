package backend

import (
	"context"
	"sync"
)

// Session belongs to a clinician who is logged in.
type Session struct {
	mu    sync.Mutex
	token string
	renew func(ctx context.Context) (string, error)
}

// NewSession begins a session. It calls renew when the service refuses the token.
func NewSession(token string, renew func(ctx context.Context) (string, error)) *Session {
	return &Session{token: token, renew: renew}
}

// Invalidate is called by the client for each refused token.
func (c *clinicians) Invalidate(token string) { c.refused.Store(token, true) }

func (s *Session) current(ctx context.Context, refused *sync.Map) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, is := refused.Load(s.token); is {
		token, err := s.renew(ctx)
		if err != nil {
			return "", err // the next call tries again
		}
		refused.Delete(s.token)
		s.token = token
	}
	if s.token == "" {
		return "", ErrNobody
	}
	return s.token, nil
}
