package command

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/account"
)

func TestRevoke_EachToken_KnowsIfInUse(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	tokens := []clinicaldoc.Token{{ID: 1, LastUsedAt: now.Add(-time.Hour)}, {ID: 2, LastUsedAt: now}, {ID: 3, LastUsedAt: now.Add(-time.Minute)}, {ID: 4}}
	for _, tt := range []struct {
		token string
		id    int64
		may   bool
	}{
		{"1|secret", 1, true},
		{"1|secret", 2, false},
		{"77|secret", 2, true}, // no token has that number, so that it means something else
		{"secret", 1, false},
		{"secret", 2, true},
		{"secret", 3, true}, // services write the time now and then only
		{"secret", 4, false},
		{"secret", 9, false},
	} {
		o := &revokeOptions{Env: &Env{found: &account.Account{Token: tt.token}}, id: tt.id}
		assert.Equal(t, tt.may, o.mayBeInUse(tokens), "%+v", tt)
	}
	alone := &revokeOptions{Env: &Env{found: &account.Account{Token: "secret"}}, id: 4}
	assert.True(t, alone.mayBeInUse(tokens[3:]))
}

func TestRevoke_TokenInUse_NeedsAWord(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	for _, inUse := range []bool{false, true} {
		env, _ := newEnv(srv)
		tokens, err := srv.Client().Tokens.List(t.Context())
		require.NoError(t, err)
		o := &revokeOptions{Env: env, id: tokens[0].ID, yes: strconv.FormatInt(tokens[0].ID, 10), inUse: inUse}
		assert.Equal(t, inUse, o.run(t.Context()) == nil)
	}
	assert.Equal(t, 1, requestsTo(srv, clinicaldoctest.RouteRevokeToken))
}
