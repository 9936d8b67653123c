package clinicaldoctest_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestTokens_OwnToken_IsListedAndRevoked(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon), clinicaldoctest.WithToken("fixed"))
	require.Equal(t, "fixed", c.srv.Token)
	second := c.srv.AddToken(1, "second device")
	other := c.srv.AddUser(clinicaldoctest.User{})

	tokens := field[[]any](t, c.expect(http.StatusOK, http.MethodGet, "/v1/auth/tokens"), "tokens")
	require.Len(t, tokens, 2)
	assert.Equal(t, object{
		"id": 1.0, "name": "first device", "created_at": "2024-05-01T12:00:00.123456Z", "last_used_at": "2024-05-01T12:00:00.123456Z",
	}, tokens[0])
	assert.NotContains(t, tokens[1], "last_used_at", "never used")

	c.as(second.Secret).expect(http.StatusOK, http.MethodGet, "/user")
	c.as(other.Token).expect(http.StatusNotFound, http.MethodDelete, fmt.Sprintf("/v1/auth/tokens/%d", second.ID))
	c.expect(http.StatusNotFound, http.MethodDelete, "/v1/auth/tokens/abc")
	assert.NotEmpty(t, c.expect(http.StatusOK, http.MethodDelete, fmt.Sprintf("/v1/auth/tokens/%d", second.ID))["message"])
	revoked := c.as(second.Secret).expect(http.StatusUnauthorized, http.MethodGet, "/user")
	assert.Equal(t, object{"message": "Unauthorized"}, revoked)
	c.expect(http.StatusNotFound, http.MethodDelete, fmt.Sprintf("/v1/auth/tokens/%d", second.ID))
}

func TestUser_Me_HasDescribedFields(t *testing.T) {
	t.Parallel()
	c := start(t)
	user := c.srv.AddUser(clinicaldoctest.User{Name: "Synthetic user", Email: "s@example.test"})
	me := c.as(user.Token).expect(http.StatusOK, http.MethodGet, "/user")
	assert.Equal(t, "Synthetic user", me["name"])
	assert.Equal(t, "s@example.test", me["email"])
	assert.ElementsMatch(t, []string{"id", "name", "email", "created_at", "updated_at"}, slices.Collect(maps.Keys(me)))
}

func TestRoutes_WithoutToken_AreUnauthorized(t *testing.T) {
	t.Parallel()
	c := start(t)
	for _, route := range clinicaldoctest.Routes() {
		if route == clinicaldoctest.RouteAudio {
			continue
		}
		method, path, _ := strings.Cut(strings.ReplaceAll(route, "{id}", "1"), " ")
		lowerCase := c.as("").request(method, path, nil)
		lowerCase.Header.Set("Authorization", "bearer "+c.srv.Token)
		assert.Equal(t, http.StatusUnauthorized, c.send(lowerCase).StatusCode, "the framework knows the scheme in one spelling")
		for _, token := range []string{"", "wrong"} {
			assert.Equal(t, object{"message": "Unauthorized"}, c.as(token).expect(http.StatusUnauthorized, method, path), route)
		}
	}
}
