package integration

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

func testUser(t *testing.T, tg *target) {
	t.Helper()
	var response clinicaldoc.Response
	me, err := tg.client.Users.Me(t.Context(), clinicaldoc.WithResponse(&response))
	require.NoError(t, err)
	assert.Positive(t, me.ID)
	assert.NotEmpty(t, me.Name)
	assert.Equal(t, http.StatusOK, response.StatusCode)
	assert.Positive(t, response.Attempts)
}

func testTokens(t *testing.T, tg *target) {
	t.Helper()
	tokens, err := tg.client.Tokens.List(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, tokens, "there is at least the token in use")
	seen := map[int64]bool{}
	for _, token := range tokens {
		assert.Positive(t, token.ID)
		assert.False(t, seen[token.ID], "told twice")
		seen[token.ID] = true
	}
	// Of somebody else's tokens none can be spared, so only one that does not exist is revoked.
	require.False(t, seen[absentID])
	_, err = tg.client.Tokens.Revoke(t.Context(), absentID)
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
}
