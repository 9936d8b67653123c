package clinicaldoc_test

import (
	"errors"
	"io/fs"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// An endpoint's path that was pasted into the base URL is recognised, however the server behind it refuses.
func TestABaseURLWithAnEndpointIsExplained(t *testing.T) {
	t.Parallel()
	const page, object = "text/html", "application/json"
	for name, tt := range map[string]struct {
		path   string
		status int
		kind   string
		words  string
	}{
		"the list's path":               {"/v1/progress-notes", 404, object, "the base URL ends in /v1/progress-notes, which is added to it; leave it out"},
		"the user's path":               {"/prefix/user/", 404, object, "the base URL ends in /user, which is added to it; leave it out"},
		"a page for every unknown path": {"/v1", 200, page, "the base URL ends in /v1, which is added to it; leave it out"},
		"the token is looked at first":  {"/v1", 401, object, "get a new one; or is it the base URL, which ends in /v1? That is added to it"},
		"a firewall knows the paths":    {"/v1", 403, page, "or is it the base URL, which ends in /v1? That is added to it"},
		"the methods are looked at":     {"/v1", 405, object, "or is it the base URL, which ends in /v1? That is added to it"},
	} {
		srv := socketHandler(t, socketStatus(tt.status, friendlyAnswer, "Content-Type", tt.kind))
		err := friendlyCall(t, srv.URL+tt.path, nil)
		assertFriendly(t, err, tt.words)
		assert.NotContains(t, friendlyCall(t, srv.URL, nil).Error(), "added to it", name)
	}
}

func TestACreateAtTheWrongPathIsExplained(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	client, err := clinicaldoc.NewClient(srv.URL+"/wrong-prefix", srv.Token, clinicaldoc.WithHTTPClient(&http.Client{Transport: srv.Transport()}))
	require.NoError(t, err)
	_, err = client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: "CANARY", PatientID: 1, PromptID: 1})
	assertFriendly(t, err, "404 Not Found", "is the base URL's path right, and do patient and prompt exist?")
	require.ErrorIs(t, err, clinicaldoc.ErrNotFound)
}

// Files of variables keep quotes that a shell would take away.
func TestATokenInQuotesIsExplained(t *testing.T) {
	t.Parallel()
	for _, token := range []string{`"` + friendlyToken + `"`, "'" + friendlyToken + "'"} {
		_, err := clinicaldoc.NewClient("https://service.test", token)
		assertFriendly(t, err, "token", "stands in quotes; give the token alone")
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	}
	for _, token := range []string{friendlyToken + `"`, `"`, `7|"` + friendlyToken} {
		_, err := clinicaldoc.NewClient("https://service.test", token)
		require.NoError(t, err)
	}
}

// The box refuses a filter that it knows by another name.
func TestAnUnknownFilterIsExplained(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithVariant(clinicaldoctest.Variant{RefuseUnknownFilter: true}))
	t.Cleanup(srv.Close)
	client := srv.Client(clinicaldoc.WithQueryNames(clinicaldoc.QueryNames{PatientID: "filter[patient]"}))
	_, err := client.Notes.List(t.Context(), clinicaldoc.ListNotesParams{PatientID: 1})
	assertFriendly(t, err, "400 Bad Request", "does it know the list's parameters by other names? See WithQueryNames")
	assert.NotContains(t, err.Error(), "scheme")
	_, err = client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: "CANARY"})
	assert.NotContains(t, err.Error(), "WithQueryNames")
}

func TestARefusalOfTheServicesWebPagesIsExplained(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusMethodNotAllowed, 419} {
		srv := socketHandler(t, socketStatus(status, `{"message":"CANARY"}`, "Content-Type", "application/json"))
		assertFriendly(t, friendlyCall(t, srv.URL, nil), "is the base URL's path right?")
	}
}

// A number without a unit is a number of nanoseconds.
func TestAnIntervalWithoutAUnitIsExplained(t *testing.T) {
	t.Parallel()
	client := refusing(t, errors.New("no request is expected"))
	_, err := client.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{Interval: 5, MaxInterval: 60})
	assertFriendly(t, err, "Interval: 5ns is outside 50ms to 24h0m0s")
	_, err = client.Notes.Wait(t.Context(), 7, clinicaldoc.WaitParams{MaxInterval: 48 * time.Hour})
	assertFriendly(t, err, "MaxInterval: 48h0m0s is outside 50ms to 24h0m0s")
}

// What the service says of a failed note is not printed, but the text tells where it is.
func TestAFailedNoteIsExplained(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	id := srv.AddNote(clinicaldoctest.Note{Stage: clinicaldoctest.StageFailed, ErrorState: "CANARY"})
	_, err := srv.Client().Notes.Wait(t.Context(), id, clinicaldoc.WaitParams{})
	assertFriendly(t, err, "the service reports an error state for it; see Note.ErrorState")
	failed, ok := errors.AsType[*clinicaldoc.WaitError](err)
	require.True(t, ok)
	assert.Equal(t, "CANARY", *failed.Note.ErrorState)
}

// Of many files the one that is missing can be told by its path, which the text leaves out.
func TestAMissingRecordingIsExplained(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "CANARY.wav")
	_, err := clinicaldoc.AudioFile(path)
	assertFriendly(t, err, "AudioFile", "the file cannot be opened", "no such file or directory")
	require.ErrorIs(t, err, fs.ErrNotExist)
	missing, ok := errors.AsType[*fs.PathError](err)
	require.True(t, ok)
	assert.Equal(t, path, missing.Path)
}
