package clinicaldoc_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

func TestUsersMe_ReadsTheUser(t *testing.T) {
	t.Parallel()
	record := `{"id":22,"name":"Test User","email":"user@clinic.test","roles":["x"],
		"created_at":"2024-05-01T10:00:01Z","updated_at":"2024-05-01T10:00:02Z"}`
	want := &clinicaldoc.User{
		ID: 22, Name: "Test User", Email: "user@clinic.test", CreatedAt: moment(1, 0), UpdatedAt: moment(2, 0),
		Extra: object(t, `{"roles":["x"]}`),
	}
	for _, answer := range []string{record, `{"data":` + record + `}`} {
		client := serve(t, call{method: "GET", url: "/user", response: answer})
		user := must(client.Users.Me(t.Context()))(t)
		assert.Equal(t, want, user)
	}
}

func TestUsersMe_OtherResponse_IsRejected(t *testing.T) {
	t.Parallel()
	client := serve(t,
		call{url: "/user", status: http.StatusUnauthorized, response: `{"message":"Unauthorized"}`},
		call{url: "/user", response: `{"name":"Test User"}`},
	)
	user, err := client.Users.Me(t.Context())
	require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized)
	assert.Nil(t, user)
	user, err = client.Users.Me(t.Context())
	require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
	assert.Nil(t, user)
}
