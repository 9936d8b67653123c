package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// ward is a backend before a box with two clinicians; the sessions are called after their ids.
type ward struct {
	*backend
	srv           *clinicaldoctest.Server
	first, second clinicaldoctest.User
	log           bytes.Buffer
}

func newWard(t *testing.T) *ward {
	t.Helper()
	w := &ward{srv: clinicaldoctest.NewServer()}
	t.Cleanup(w.srv.Close)
	w.first, w.second = w.srv.AddUser(clinicaldoctest.User{}), w.srv.AddUser(clinicaldoctest.User{})
	client, err := newClient(w.srv.URL, clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 1, MinWait: time.Millisecond}))
	require.NoError(t, err)
	w.backend = &backend{
		client: client, timeout: time.Minute, logger: slog.New(slog.NewTextHandler(&w.log, nil)),
		sessions: map[string]string{session(w.first): w.first.Token, session(w.second): w.second.Token},
	}
	return w
}

func session(u clinicaldoctest.User) string { return fmt.Sprint("session-", u.ID) }

// ask sends a request of the page and decodes the response.
func (w *ward) ask(t *testing.T, session, method, path string, body, out any) (status int) {
	t.Helper()
	sent, err := json.Marshal(body)
	require.NoError(t, err)
	request := httptest.NewRequestWithContext(t.Context(), method, path, bytes.NewReader(sent))
	request.AddCookie(&http.Cookie{Name: "session", Value: session})
	recorded := httptest.NewRecorder()
	w.handler().ServeHTTP(recorded, request)
	assert.Equal(t, "no-store", recorded.Header().Get("Cache-Control"))
	if out != nil {
		require.NoError(t, json.Unmarshal(recorded.Body.Bytes(), out), recorded.Body.String())
	}
	return recorded.Code
}

func TestAClinicianReviewsEditsAndSigns(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	id := w.srv.AddNote(clinicaldoctest.Note{PatientID: 7, UserID: w.first.ID, Name: "Visit", Analysis: "draft"})
	w.srv.AddNote(clinicaldoctest.Note{PatientID: 7, UserID: w.first.ID, Stage: clinicaldoctest.StageTranscribing, Stuck: true})
	w.srv.AddNote(clinicaldoctest.Note{PatientID: 8, UserID: w.first.ID})

	var rows []waiting
	require.Equal(t, 200, w.ask(t, session(w.first), "GET", "/patients/7/queue", nil, &rows))
	require.Len(t, rows, 1, "of this patient, and complete")
	assert.Equal(t, id, rows[0].ID)

	path := fmt.Sprint("/notes/", id)
	var note shown
	require.Equal(t, 200, w.ask(t, session(w.first), "GET", path, nil, &note))
	assert.Equal(t, "draft", note.Analysis)
	require.Equal(t, 200, w.ask(t, session(w.first), "PUT", path, change{note.Version, new("reviewed")}, &note))
	require.Equal(t, 200, w.ask(t, session(w.first), "POST", path+"/sign", change{Version: note.Version}, &note))
	assert.Equal(t, clinicaldoc.StageSigned, note.Stage)
	assert.Equal(t, "reviewed", w.srv.Notes()[0].Analysis)
}

// In the box only the user who made a note may change it, so that it shows in whose name a call is made.
func TestEachActsInTheirOwnName(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	id := w.srv.AddNote(clinicaldoctest.Note{PatientID: 7, UserID: w.second.ID})
	path := fmt.Sprint("/notes/", id)
	var note shown
	require.Equal(t, 200, w.ask(t, session(w.first), "GET", path, nil, &note), "a colleague may read it")
	assert.Equal(t, 403, w.ask(t, session(w.first), "PUT", path, change{note.Version, new("not mine")}, nil))
	assert.Equal(t, 200, w.ask(t, session(w.second), "PUT", path, change{note.Version, new("mine")}, nil))

	w.srv.ForgetRequests()
	for _, nobodys := range []string{"", "session-99", w.first.Token} {
		assert.Equal(t, 401, w.ask(t, nobodys, "GET", path, nil, nil))
	}
	_, err := w.client.Notes.Get(t.Context(), id)
	require.Error(t, err, "a call that names nobody")
	assert.Empty(t, w.srv.Requests(), "nothing of this reaches the service")
}

func TestNothingIsSignedButWhatThePageShows(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	id := w.srv.AddNote(clinicaldoctest.Note{PatientID: 7, UserID: w.first.ID, Analysis: "draft"})
	path := fmt.Sprint("/notes/", id)
	var old, changed shown
	require.Equal(t, 200, w.ask(t, session(w.first), "GET", path, nil, &old))
	require.Equal(t, 200, w.ask(t, session(w.first), "PUT", path, change{old.Version, new("another tab's")}, &changed))

	assert.Equal(t, 409, w.ask(t, session(w.first), "POST", path+"/sign", change{Version: old.Version}, nil))
	assert.Equal(t, 409, w.ask(t, session(w.first), "PUT", path, change{old.Version, new("lost")}, nil))
	assert.Equal(t, 409, w.ask(t, session(w.first), "POST", path+"/sign", change{}, nil))
	assert.Equal(t, "another tab's", w.srv.Notes()[0].Analysis)
	assert.Equal(t, clinicaldoctest.StageComplete, w.srv.Notes()[0].Stage)
}

func TestFailuresHaveAStatusAndPrintNothing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		route        string
		fault        clinicaldoctest.Fault
		method, path string
		body         any
		want         int
	}{
		"revoked token":    {clinicaldoctest.RouteGetNote, clinicaldoctest.Answer(401, `{"message":"CANARY"}`), "GET", "/notes/1", nil, 401},
		"unknown note":     {"", clinicaldoctest.Fault{}, "GET", "/notes/99", nil, 404},
		"no number":        {"", clinicaldoctest.Fault{}, "GET", "/notes/CANARY", nil, 422},
		"everybody's":      {"", clinicaldoctest.Fault{}, "GET", "/patients/0/queue", nil, 422},
		"no analysis":      {"", clinicaldoctest.Fault{}, "PUT", "/notes/1", change{}, 422},
		"refused text":     {clinicaldoctest.RouteUpdateNote, clinicaldoctest.Answer(422, `{"message":"CANARY"}`), "PUT", "/notes/1", change{Analysis: new("CANARY")}, 422},
		"failing for ever": {clinicaldoctest.RouteUpdateNote, clinicaldoctest.Answer(500, `CANARY`).Always(), "PUT", "/notes/1", change{Analysis: new("CANARY")}, 502},
		"silence":          {clinicaldoctest.RouteGetNote, clinicaldoctest.Silent().Always(), "GET", "/notes/1", nil, 504},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			w.srv.AddNote(clinicaldoctest.Note{Name: "CANARY", UserID: w.first.ID})
			if sent, ok := test.body.(change); ok {
				var note shown
				require.Equal(t, 200, w.ask(t, session(w.first), "GET", "/notes/1", nil, &note))
				sent.Version = note.Version
				test.body = sent
			}
			if test.want == 504 {
				w.timeout = 50 * time.Millisecond
			}
			if test.route != "" {
				w.srv.Inject(test.route, test.fault)
			}
			var told map[string]string
			assert.Equal(t, test.want, w.ask(t, session(w.first), test.method, test.path, test.body, &told), told)
			assert.NotContains(t, told["error"]+w.log.String(), "CANARY")
			assert.NotEmpty(t, w.log.String())
		})
	}
}

func TestAnotherSitesPageCannotSign(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	id := w.srv.AddNote(clinicaldoctest.Note{UserID: w.first.ID})
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("/notes/%d/sign", id), strings.NewReader("{}"))
	request.AddCookie(&http.Cookie{Name: "session", Value: session(w.first)})
	request.Header.Set("Sec-Fetch-Site", "cross-site")
	recorded := httptest.NewRecorder()
	w.handler().ServeHTTP(recorded, request)
	assert.Equal(t, 403, recorded.Code)
	assert.Empty(t, w.srv.Requests())
}
