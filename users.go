package clinicaldoc

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/tolerant"
)

// User is a user of the service. It prints as its ID.
type User struct {
	ID        int64     `json:"id"`
	Name      string    `json:"name"`
	Email     string    `json:"email"`
	CreatedAt time.Time `json:"created_at,omitzero"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
	Extra     Object    `json:"-"` // members that are not described, such as roles; written back by JSON
}

// UsersService reads the authenticated user. Get it from [Client.Users].
type UsersService struct{ client *Client }

// The user's endpoint has no version prefix.
var getUser = &operation{"Users.Me", http.MethodGet, "/user", exchange.Reads}

// Me returns the user of the token. It is the cheapest way to check a token: the error matches [ErrUnauthorized] if the
// token is not valid.
func (s *UsersService) Me(ctx context.Context, opts ...CallOption) (*User, error) {
	return run(ctx, s.client, getUser.name, opts, func(ctx context.Context, call *scope) (*User, error) {
		if call.options.requester == nil {
			call.options.requester = &requester{tenant: call.options.tenant()}
		}
		user, err := do(ctx, call, getUser, getUser.route, func(response []byte) (*User, []string, error) {
			return tolerant.Record(response, (*User).fill, func(u *User) int64 { return u.ID })
		})
		if err == nil { // FindCreated asks which user a token is of
			known := creates.NewUser(user.ID, user.Email, user.CreatedAt)
			s.client.creates.Users.Put(call.options.requester.tokenFingerprint, known)
		}
		return user, err
	})
}

var userFields = tolerant.Fields[User]{
	"id":         func(u *User, d *jsonscan.Decoder) { u.ID = tolerant.RequiredID(d) },
	"name":       func(u *User, d *jsonscan.Decoder) { tolerant.RequiredText(d, &u.Name) },
	"email":      func(u *User, d *jsonscan.Decoder) { tolerant.Text(d, &u.Email) },
	"created_at": func(u *User, d *jsonscan.Decoder) { u.CreatedAt = tolerant.RequiredTime(d) },
	"updated_at": func(u *User, d *jsonscan.Decoder) { u.UpdatedAt = tolerant.Time(d) },
}

func (u *User) fill(d *jsonscan.Decoder) { userFields.Fill(u, &u.Extra.raw, d) }

// UnmarshalJSON reads a user as tolerantly as the service's responses are read.
func (u *User) UnmarshalJSON(data []byte) error { return tolerant.Unmarshal(data, u, (*User).fill) }

// MarshalJSON writes the described members, then those in Extra.
func (u User) MarshalJSON() ([]byte, error) {
	type described User // has no methods
	return marshalRecord(described(u), "User", u.Extra, userFields.Describes)
}

// LogValue implements [slog.LogValuer]. It lists the ID.
func (u User) LogValue() slog.Value { return slog.GroupValue(slog.Int64("id", u.ID)) }

// Format implements [fmt.Formatter]. It prints the same fields as LogValue.
func (u User) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.User", u) }
