package backend

import (
	"context"
	"errors"
	"sync"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// ErrNobody is returned by every call without a login.
var ErrNobody = errors.New("nobody is logged in")

type sessionKey struct{}

// WithSession returns a context whose calls act as the session's clinician. Use it in one place:
// where a request's cookie is checked.
func WithSession(ctx context.Context, s *Session) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

// clinicians is the client's token source.
type clinicians struct {
	refused sync.Map // tokens that the service refused
}

// Token is called before every request, including retries.
func (c *clinicians) Token(ctx context.Context) (string, error) {
	session, ok := ctx.Value(sessionKey{}).(*Session)
	if !ok || session == nil {
		return "", ErrNobody
	}
	return session.current(ctx, &c.refused)
}

// NewClient returns the only client of the server.
func NewClient(baseURL string, opts ...clinicaldoc.Option) (*clinicaldoc.Client, error) {
	opts = append(opts, clinicaldoc.WithTokenSource(new(clinicians)))
	return clinicaldoc.NewClient(baseURL, "", opts...)
}
