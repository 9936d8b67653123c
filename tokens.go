package clinicaldoc

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/tolerant"
)

// Token is the record of an access token; the token itself is not in it.
type Token struct {
	ID         int64     `json:"id"`
	Name       string    `json:"name"` // a label, often a device's name
	CreatedAt  time.Time `json:"created_at,omitzero"`
	LastUsedAt time.Time `json:"last_used_at,omitzero"` // zero when never used

	Extra Object `json:"-"` // members that are not described, such as abilities; written back by JSON
}

// TokensService works on the authenticated user's access tokens. Get it from [Client.Tokens].
type TokensService struct{ client *Client }

var (
	listTokens  = &operation{"Tokens.List", http.MethodGet, "/v1/auth/tokens", exchange.Reads}
	revokeToken = &operation{"Tokens.Revoke", http.MethodDelete, "/v1/auth/tokens/{id}", exchange.Repeatable}
)

// List returns the user's access tokens. If there are none, the result is empty and not nil.
func (s *TokensService) List(ctx context.Context, opts ...CallOption) ([]Token, error) {
	const noID = 0
	page, err := runOne(ctx, s.client, listTokens, noID, opts, func(response []byte) (*Page[Token], []string, error) {
		id := func(t *Token) int64 { return t.ID }
		return decodePage(response, "tokens", QueryNames{}, unknownSize, (*Token).fill, id)
	})
	if err != nil {
		return nil, err
	}
	return append([]Token{}, page.Items...), nil
}

// Revoke revokes the token with the ID. If it is the token in use, the errors of all later calls match
// [ErrUnauthorized].
//
// If the response of an attempt was lost, the retry may find no token, or be refused because it uses the revoked
// token. (The token with ID 12 begins with "12|".) In both cases the token is revoked, and Revoke returns no error.
// Otherwise the error for an unknown ID matches [ErrNotFound]. An error after which the token may be revoked matches
// [ErrOutcomeUnknown].
func (s *TokensService) Revoke(ctx context.Context, id int64, opts ...CallOption) (*Confirmation, error) {
	return runOne(ctx, s.client, revokeToken, id, opts, decodeConfirmation)
}

var tokenFields = tolerant.Fields[Token]{
	"id":           func(t *Token, d *jsonscan.Decoder) { t.ID = tolerant.RequiredID(d) },
	"name":         func(t *Token, d *jsonscan.Decoder) { tolerant.RequiredText(d, &t.Name) },
	"created_at":   func(t *Token, d *jsonscan.Decoder) { t.CreatedAt = tolerant.RequiredTime(d) },
	"last_used_at": func(t *Token, d *jsonscan.Decoder) { t.LastUsedAt = tolerant.Time(d) },
}

func (t *Token) fill(d *jsonscan.Decoder) { tokenFields.Fill(t, &t.Extra.raw, d) }

// UnmarshalJSON reads a token record as tolerantly as the service's responses are read.
func (t *Token) UnmarshalJSON(data []byte) error { return tolerant.Unmarshal(data, t, (*Token).fill) }

// MarshalJSON writes the described members, then those in Extra.
func (t Token) MarshalJSON() ([]byte, error) {
	type described Token // has no methods
	return marshalRecord(described(t), "Token", t.Extra, tokenFields.Describes)
}

// LogValue implements [slog.LogValuer]. It lists the ID and the times, but not the name, which may be a person's.
func (t Token) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int64("id", t.ID), slog.Time("created_at", t.CreatedAt), slog.Time("last_used_at", t.LastUsedAt),
	)
}

// Format implements [fmt.Formatter]. It prints the same fields as LogValue.
func (t Token) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.Token", t) }
