package backend

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// newBackend returns a fake server and the backend's client for it.
func newBackend(t *testing.T) (*clinicaldoctest.Server, *clinicaldoc.Client) {
	t.Helper()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	client, err := NewClient(srv.URL)
	require.NoError(t, err)
	return srv, client
}

func TestClient_WithoutLogin_SendsNothing(t *testing.T) {
	t.Parallel()
	srv, client := newBackend(t)
	_, err := client.Notes.Sign(t.Context(), srv.AddNote(clinicaldoctest.Note{}))
	require.ErrorIs(t, err, ErrNobody)
	assert.Empty(t, srv.Requests())
}

func TestSession_RefusedToken_IsRenewedOnce(t *testing.T) {
	t.Parallel()
	srv, client := newBackend(t)
	user := srv.AddUser(clinicaldoctest.User{})
	renewals := 0
	session := NewSession("expired", func(context.Context) (string, error) {
		renewals++
		if renewals == 1 {
			return "", errors.New("identity provider unavailable")
		}
		return user.Token, nil
	})
	_, err := client.Users.Me(WithSession(t.Context(), session))
	require.Error(t, err)
	for range 3 {
		me, err := client.Users.Me(WithSession(t.Context(), session))
		require.NoError(t, err)
		assert.Equal(t, user.ID, me.ID)
		assert.Equal(t, 2, renewals)
	}
}

func TestSign_OnlyWhatWasRead(t *testing.T) {
	t.Parallel()
	srv, client := newBackend(t)
	author := srv.AddUser(clinicaldoctest.User{})
	colleague := srv.AddUser(clinicaldoctest.User{})
	id := srv.AddNote(clinicaldoctest.Note{UserID: author.ID})
	as := func(u clinicaldoctest.User) context.Context {
		return WithSession(t.Context(), NewSession(u.Token, nil))
	}
	sign := func(u clinicaldoctest.User, version string) int {
		r := httptest.NewRequestWithContext(as(u), "POST", "/", nil)
		r.SetPathValue("id", "1")
		r.Header.Set("If-Match", `W/"`+version+`"`) // as a compressing proxy sends it
		w := httptest.NewRecorder()
		Sign(client)(w, r)
		return w.Code
	}
	old, err := client.Notes.Get(as(colleague), id)
	require.NoError(t, err)
	edit := clinicaldoc.UpdateNoteParams{Analysis: new("changed since")}
	now, err := client.Notes.Update(as(author), id, edit)
	require.NoError(t, err)
	assert.Equal(t, http.StatusPreconditionFailed, sign(author, old.Version()), "an old version")
	assert.Equal(t, http.StatusForbidden, sign(colleague, now.Version()), "somebody else's note")
	assert.Equal(t, http.StatusNoContent, sign(author, now.Version()), "what was read")
}
