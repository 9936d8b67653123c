package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

var tags = regexp.MustCompile(`<[^>]*>`)

// words is a page's text without its markup, with single spaces.
func words(html string) string {
	return strings.Join(strings.Fields(tags.ReplaceAllString(html, " ")), " ")
}

// whose is what every page about the note of newReview says about it.
const whose = "Patient Synthetic Patient , no.&nbsp;7 Date 2 Mar 2026, 09:30 UTC Author Synthetic Clinician"

// newReview returns a ward with a note to review, its path and a session of its author.
func newReview(t *testing.T) (w *ward, path, session string) {
	t.Helper()
	w = newWard(t)
	w.srv.AddPatient(clinicaldoctest.Patient{ID: 7, Name: "Synthetic Patient"})
	author := w.srv.AddUser(clinicaldoctest.User{Name: "Synthetic Clinician"})
	id := w.srv.AddNote(clinicaldoctest.Note{
		PatientID: 7, UserID: author.ID, Name: "Visit", Analysis: "draft",
		CreatedAt: time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC),
	})
	session = w.login(t, author.Token)
	return w, fmt.Sprint("/notes/", id), session
}

func TestNotePage_NamesPatientDateAndAuthor(t *testing.T) {
	t.Parallel()
	w, path, session := newReview(t)
	assert.Contains(t, words(w.page(t, session, path)), whose+" (you)")
	colleague := w.login(t, w.first.Token)
	assert.Contains(t, words(w.page(t, colleague, path)), whose+" Visit", "the author is not the reader")
}

func TestSignDialog_NamesPatientDateAuthorAndSigner(t *testing.T) {
	t.Parallel()
	w, path, session := newReview(t)
	_, dialog, found := strings.Cut(w.page(t, session, path), "<dialog")
	require.True(t, found)
	assert.Contains(t, words(dialog), "Sign this note? Visit "+whose)
	assert.Contains(t, words(dialog), "You sign it as Synthetic Clinician")
}

func TestConflictPage_NamesPatientDateAndAuthor(t *testing.T) {
	t.Parallel()
	w, path, session := newReview(t)
	old := w.ask(session, "GET", path, "", "").Header().Get("ETag")
	require.Equal(t, 204, w.ask(session, "PUT", path, old, "another tab's").Code)
	conflict := w.ask(session, "PUT", path, old, "mine")
	require.Equal(t, 412, conflict.Code)
	assert.Contains(t, words(conflict.Body.String()), whose)
}

func TestProblemPage_NamesPatientDateAndAuthor(t *testing.T) {
	t.Parallel()
	w, path, session := newReview(t)
	version := w.ask(session, "GET", path, "", "").Header().Get("ETag")
	w.srv.Inject(clinicaldoctest.RouteUpdateNote, clinicaldoctest.Answer(403, `{"message":"no"}`))
	problem := w.ask(session, "PUT", path, version, "mine")
	require.Equal(t, 403, problem.Code)
	assert.Contains(t, words(problem.Body.String()), whose)
	assert.Contains(t, problem.Body.String(), "mine")
}

func TestQueue_NamesPatientDateAndAuthor(t *testing.T) {
	t.Parallel()
	w, _, session := newReview(t)
	queue := words(w.page(t, session, "/"))
	assert.Contains(t, queue, "Patient Synthetic Patient , no.&nbsp;7")
	assert.Contains(t, queue, "Visit 2 Mar 2026, 09:30 UTC Synthetic Clinician (you) to review")
}

func TestConflictPage_KeepsTheTextInAFormThatCanBeSaved(t *testing.T) {
	t.Parallel()
	w, path, session := newReview(t)
	old := w.ask(session, "GET", path, "", "").Header().Get("ETag")
	require.Equal(t, 204, w.ask(session, "PUT", path, old, "another tab's").Code)
	form := url.Values{"analysis": {"mine"}, "patient": {"7"}}
	conflict := w.send(session, "PUT", path, old, form).Body.String()
	assert.Regexp(t, `<textarea name="analysis" data-unsaved[^>]*>mine</textarea>`, conflict)
	assert.Contains(t, conflict, "Replace the note")
	current := regexp.MustCompile(`data-etag="([^"]+)"`).FindStringSubmatch(conflict)
	require.Len(t, current, 2)
	version := strings.ReplaceAll(current[1], "&#34;", `"`)
	assert.Equal(t, 204, w.send(session, "PUT", path, version, form).Code, "the page has the version that it shows")
	assert.Equal(t, "mine", w.srv.Notes()[0].Analysis)
}

func TestConflictPage_OtherPatient_OffersNoSave(t *testing.T) {
	t.Parallel()
	w, path, session := newReview(t)
	form := url.Values{"analysis": {"mine"}, "patient": {"6"}} // the page showed patient 6
	conflict := w.send(session, "PUT", path, `"old"`, form)
	require.Equal(t, 412, conflict.Code)
	assert.Contains(t, conflict.Body.String(), "It now belongs to another patient")
	assert.NotContains(t, conflict.Body.String(), "Replace the note")
	assert.Contains(t, conflict.Body.String(), ">mine</textarea>", "the text is not lost")
}

func TestConflictPage_SignedNote_OffersNoSave(t *testing.T) {
	t.Parallel()
	w, path, session := newReview(t)
	version := w.ask(session, "GET", path, "", "").Header().Get("ETag")
	signed := `{"id":1,"name":"Visit","analysis":"other","patient":{"id":7},"created_at":"2026-03-02T09:30:00Z",` +
		`"has":{"transcription":true,"content":true,"signed":true}}`
	w.srv.Inject(clinicaldoctest.RouteUpdateNote, clinicaldoctest.Answer(200, signed))
	conflict := w.send(session, "PUT", path, version, url.Values{"analysis": {"mine"}, "patient": {"7"}})
	require.Equal(t, 412, conflict.Code, conflict.Body)
	assert.NotContains(t, conflict.Body.String(), "Replace the note")
	assert.Contains(t, conflict.Body.String(), ">mine</textarea>", "the text is not lost")
}

// A service may not say whose a note is. Nobody signs such a note here, whatever the service allows.
func TestSign_NoteWithoutPatient_IsRejected(t *testing.T) {
	t.Parallel()
	w := newWard(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{Patient: clinicaldoctest.PatientUnnamed}))
	path := fmt.Sprint("/notes/", w.srv.AddNote(clinicaldoctest.Note{UserID: w.first.ID}))
	session := w.login(t, w.first.Token)
	answer := w.ask(session, "GET", path, "", "")
	require.Equal(t, 200, answer.Code)
	assert.Contains(t, words(answer.Body.String()), "Patient unknown")
	assert.NotContains(t, answer.Body.String(), `id="sign"`)
	assert.Equal(t, 409, w.ask(session, "POST", path+"/sign", answer.Header().Get("ETag"), "").Code)
	assert.Equal(t, clinicaldoctest.StageComplete, w.srv.Notes()[0].Stage)
}

// A browser obeys the policy that the server sends: whatever a page refers to has to come from the server itself.
func TestPages_KeepTheirSecurityPolicy(t *testing.T) {
	t.Parallel()
	w, path, session := newReview(t)
	for _, asked := range []string{"/", path, "/notes/99"} {
		answer := w.ask(session, "GET", asked, "", "")
		assert.Contains(t, answer.Header().Get("Content-Security-Policy"), "default-src 'self'")
		html := answer.Body.String()
		assert.NotRegexp(t, `(?i) (style|on[a-z]+)=|javascript:|<style|<script>`, html, asked)
		for _, found := range regexp.MustCompile(`(?:href|src|action)="([^"]*)"`).FindAllStringSubmatch(html, -1) {
			assert.Regexp(t, `^/[^/]*`, found[1], asked)
		}
		for _, name := range []string{"/page.css", "/page.js", "/page.svg"} {
			assert.Contains(t, html, `"`+name+`"`)
			recorded := httptest.NewRecorder()
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, name, nil)
			w.handler(t.Context()).ServeHTTP(recorded, request)
			assert.Equal(t, 200, recorded.Code, name)
		}
	}
}
