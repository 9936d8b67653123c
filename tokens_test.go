package clinicaldoc_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

func TestTokensList_ReadsTheTokens(t *testing.T) {
	t.Parallel()
	records := `[
		{"id":1,"name":"ward-pc","abilities":["*"],
			"created_at":"2024-05-01T10:00:00.123456Z","last_used_at":"2024-05-02T11:00:00.654321Z"},
		{"id":2,"name":"phone","created_at":"2024-05-01T10:00:01.000000Z","last_used_at":null}
	]`
	want := []clinicaldoc.Token{
		{
			ID: 1, Name: "ward-pc", CreatedAt: moment(0, 123456000),
			LastUsedAt: time.Date(2024, 5, 2, 11, 0, 0, 654321000, time.UTC),
			Extra:      object(t, `{"abilities":["*"]}`),
		},
		{ID: 2, Name: "phone", CreatedAt: moment(1, 0)},
	}
	for _, answer := range []string{`{"tokens":` + records + `}`, `{"data":` + records + `}`, `{"data":{"tokens":` +
		records + `}}`, `{"tokens":null,"data":{"tokens":` + records + `}}`, records,
		`{"other":{"tokens":1},"tokens":` + records + `}`} {
		client := serve(t, call{method: "GET", url: "/v1/auth/tokens", response: answer})
		tokens := must(client.Tokens.List(t.Context()))(t)
		assert.Equal(t, want, tokens)
	}
}

func TestTokensList_EmptyList_IsNotNil(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{`{"tokens":[]}`, `{"tokens":null}`, `[]`, `{"data":[]}`, `{"data":{"tokens":[]}}`} {
		client := serve(t, call{url: "/v1/auth/tokens", response: answer})
		tokens, err := client.Tokens.List(t.Context())
		require.NoError(t, err, answer)
		assert.NotNil(t, tokens, answer)
		assert.Empty(t, tokens, answer)
	}
}

func TestTokensList_OtherResponse_IsRejected(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"", "null", "{}", "<html>secret", `{"data":{}}`, `{"data":null}`, `{"tokens":{"id":1}}`, `{"tokens":"secret"}`,
		`{"tokens":["secret"]}`, `{"tokens":[{"name":"secret"}]}`,
		`{"tokens":[{"id":0}]}`, `{"tokens":[{"id":1,"name":["secret"]}]}`, `{"tokens":[]`, `{"tokens":[]} secret`,
		`{"data":{"data":{"tokens":[]}}}`, `{"data":{"tokens":[]}}secret`, `{"data":{"tokens":5}}`, `{"tokens":[{`,
		`[{`,
	} {
		client := serve(t, call{url: "/v1/auth/tokens", response: answer})
		tokens, err := client.Tokens.List(t.Context())
		require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse, answer)
		assert.NotContains(t, err.Error(), "secret")
		assert.Nil(t, tokens, answer)
	}
}

func TestTokensRevoke_ReadsTheConfirmation(t *testing.T) {
	t.Parallel()
	client := serve(t,
		call{method: "DELETE", url: "/v1/auth/tokens/5", response: `{"message":"Token revoked"}`},
		call{method: "DELETE", url: "/v1/auth/tokens/5", status: http.StatusNotFound,
			response: `{"message":"Resource not found"}`},
	)
	confirmation := must(client.Tokens.Revoke(t.Context(), 5))(t)
	assert.Equal(t, &clinicaldoc.Confirmation{Message: "Token revoked"}, confirmation)
	confirmation, err := client.Tokens.Revoke(t.Context(), 5)
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
	assert.Nil(t, confirmation)
}

func TestTokensList_UnreadableMembers_AreZero(t *testing.T) {
	t.Parallel()
	option, read := warnings(t)
	tokens, err := serveWith(t, []clinicaldoc.Option{option}, call{url: "/v1/auth/tokens",
		response: `{"tokens":[{"id":1,"last_used_at":"secret"},{"id":2,"created_at":"0000-00-00"}]}`}).
		Tokens.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []clinicaldoc.Token{{ID: 1}, {ID: 2}}, tokens)
	lines := read()
	require.Len(t, lines, 1)
	assert.Equal(t, []any{"tokens[0].last_used_at: want a date-time, got string"}, lines[0]["members"])
}
