package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// begun counts the sessions that there are.
func (s *sessions) begun() (count int) {
	for range s.open.Range {
		count++
	}
	return count
}

// A session and its timer of eight hours exist only for a token that the service accepted.
func TestLogin_BeginsNoSessionBeforeTheTokenIsChecked(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	var early, checks atomic.Int64
	transport := w.srv.Transport()
	checking := roundTripper(func(r *http.Request) (*http.Response, error) {
		checks.Add(1)
		early.Add(int64(w.sessions.begun()))
		return transport.RoundTrip(r)
	})
	client, err := clinicaldoc.NewClient(w.srv.URL, "", clinicaldoc.WithTokenSource(&w.sessions),
		clinicaldoc.WithHTTPClient(&http.Client{Transport: checking}))
	require.NoError(t, err)
	w.client = client
	for token, want := range map[string]int{"wrong": 401, "": 401, "two\nlines": 401, w.first.Token: 303} {
		answer := w.send("", "POST", "/login", "", url.Values{"token": {token}})
		assert.Equal(t, want, answer.Code)
		if want == http.StatusSeeOther {
			w.sessions.end(answer.Result().Cookies()[0].Value)
		}
	}
	assert.Positive(t, checks.Load())
	assert.Zero(t, early.Load(), "sessions while the service was asked")
	assert.Zero(t, w.sessions.begun())
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestSession_EndsAfterEightHours(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s sessions
		cookie := s.begin("synthetic", &clinicaldoc.User{ID: 1}, nil)
		value, _ := s.open.Load(cookie)
		ctx := as(t.Context(), value.(*session))
		time.Sleep(8*time.Hour - time.Second)
		token, err := s.Token(ctx)
		require.NoError(t, err)
		assert.Equal(t, "synthetic", token)
		time.Sleep(2 * time.Second)
		_, err = s.Token(ctx)
		require.ErrorIs(t, err, errNotLoggedIn)
		assert.Zero(t, s.begun())
	})
}

func TestSession_LogoutStopsItsTimer(t *testing.T) {
	t.Parallel()
	var s sessions
	cookie := s.begin("synthetic", &clinicaldoc.User{ID: 1}, nil)
	value, _ := s.open.Load(cookie)
	s.end(cookie)
	assert.False(t, value.(*session).expiry.Stop(), "it was stopped before")
}

func TestQueue_BeginsWithPatientsOfOwnUnsignedNotes(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	for patient, note := range map[int64]clinicaldoctest.Note{
		11: {UserID: w.first.ID, Name: "Mine"},
		12: {UserID: w.second.ID, Name: "A colleague's"},
		13: {UserID: w.first.ID, Name: "Signed", Stage: clinicaldoctest.StageSigned},
		14: {UserID: w.first.ID, Name: "Young", Stage: clinicaldoctest.StageTranscribing, Stuck: true},
		15: {UserID: w.first.ID, Name: "Broken", Stage: clinicaldoctest.StageFailed, ErrorState: "synthetic"},
	} {
		note.PatientID = patient
		w.srv.AddNote(note)
	}
	queue := words(w.page(t, w.login(t, w.first.Token), "/"))
	for _, shown := range []string{"Mine", "Young", "Broken", "Waiting for review: 1", "In progress or failed: 1"} {
		assert.Contains(t, queue, shown)
	}
	assert.NotContains(t, queue, "no.&nbsp;12")
	assert.NotContains(t, queue, "no.&nbsp;13")
	assert.Contains(t, queue, "The service has no filter by stage")
}

func TestQueue_PatientsBelongToTheSession(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.srv.AddNote(clinicaldoctest.Note{PatientID: 7, UserID: w.second.ID, Name: "Visit"})
	first, other := w.login(t, w.first.Token), w.login(t, w.first.Token)
	assert.Contains(t, w.page(t, first, "/"), "No patient is on this page yet")
	w.add(t, first, 7)
	w.add(t, first, 7)
	assert.Equal(t, 1, strings.Count(w.page(t, first, "/"), "<section"))
	assert.Contains(t, w.page(t, first, "/"), "Visit")
	assert.NotContains(t, w.page(t, other, "/"), "Visit")
	require.Equal(t, 303, w.ask(first, "POST", "/patients/7/remove", "", "").Code)
	assert.NotContains(t, w.page(t, first, "/"), "Visit")
}

func TestQueue_RejectsMorePatientsThanItReads(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	session := w.login(t, w.first.Token)
	for patient := range int64(maxPatients) {
		w.add(t, session, patient+1)
	}
	full := w.send(session, "POST", "/patients", "", url.Values{"patient": {"1000"}})
	assert.Equal(t, 422, full.Code)
}

// A part of a patient's notes would look like all of them. The other patients' notes are still shown.
func TestQueue_PatientThatCannotBeReadSaysSo(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.srv.AddNote(clinicaldoctest.Note{PatientID: 7, UserID: w.second.ID, Name: "Visit"})
	session := w.login(t, w.first.Token)
	w.add(t, session, 7)
	w.srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Answer(500, "CANARY").Always())
	queue := w.page(t, session, "/")
	assert.Contains(t, queue, "This patient's notes are not shown.")
	assert.NotContains(t, queue, "Nothing waits")
	assert.Contains(t, queue, "/patients/7/remove")
}

func TestReview_WorksOnEveryVariant(t *testing.T) {
	t.Parallel()
	for _, variant := range clinicaldoctest.Variants() {
		t.Run(variant.Name, func(t *testing.T) {
			t.Parallel()
			w := newWard(t, clinicaldoctest.WithVariant(variant))
			patient := w.srv.AddPatient(clinicaldoctest.Patient{})
			note := clinicaldoctest.Note{PatientID: patient.ID, UserID: w.first.ID, Name: "Visit", Analysis: "draft"}
			path := fmt.Sprint("/notes/", w.srv.AddNote(note))
			session := w.login(t, w.first.Token)
			w.add(t, session, patient.ID)
			queue := w.page(t, session, "/")
			if variant.Patient == clinicaldoctest.PatientUnnamed {
				assert.Contains(t, queue, "The service does not show whose these notes are")
				return
			}
			assert.Contains(t, queue, path)
			saved := w.ask(session, "PUT", path, w.version(path, session), "reviewed")
			require.Equal(t, 204, saved.Code, saved.Body)
			signed := w.ask(session, "POST", path+"/sign", w.version(path, session), "")
			require.Equal(t, 204, signed.Code, signed.Body)
			assert.NotContains(t, w.page(t, session, "/"), path)
		})
	}
}

func (w *ward) version(path, session string) string {
	return w.ask(session, "GET", path, "", "").Header().Get("ETag")
}
