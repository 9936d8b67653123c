package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"slices"
	"strconv"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

//go:embed page.html page.js page.css page.svg
var files embed.FS

var pages = template.Must(template.ParseFS(files, "page.html"))

// page is what a template shows.
type page struct {
	User   *clinicaldoc.User // who is logged in; nil: nobody
	Queue  []patientNotes
	Note   *noteView
	Yours  string // what the clinician wrote, if it was not saved
	Moved  bool   // the note belongs to another patient than the clinician saw
	Advice string
	Login  bool
}

// noteView is a note as a clinician looks at it.
type noteView struct {
	*clinicaldoc.ProgressNote

	reader *clinicaldoc.User
}

func viewOf(r *http.Request, note *clinicaldoc.ProgressNote) *noteView {
	return &noteView{note, who(r.Context()).user}
}

// nameIn returns the name in an object that the service's description does not describe, or "".
func nameIn(object clinicaldoc.Object) string {
	var person struct {
		Name string `json:"name"`
	}
	_ = object.Decode(&person) // without a name the number has to do
	return person.Name
}

// PatientNumber is "" if the service does not say whose note it is.
func (n noteView) PatientNumber() string {
	id, known := n.PatientID()
	if !known {
		return ""
	}
	return strconv.FormatInt(id, 10)
}

func (n noteView) PatientName() string { return nameIn(n.Patient) }

// Author is the user who created the note.
func (n noteView) Author() string {
	if name := nameIn(n.User); name != "" {
		return name
	}
	return "User " + strconv.FormatInt(n.UserID, 10)
}

func (n noteView) Own() bool { return n.UserID == n.reader.ID }

// Waiting reports whether the note waits for a review.
func (n noteView) Waiting() bool { return n.Stage() == clinicaldoc.StageComplete }

func (n noteView) Failed() bool { return n.Stage() == clinicaldoc.StageFailed }

func (n noteView) Words() string {
	if n.Waiting() {
		return "to review"
	}
	return n.Stage().String()
}

// show writes a page, complete or not at all.
func show(w http.ResponseWriter, r *http.Request, status int, name string, data page) error {
	if open := who(r.Context()); open != nil && !data.Login {
		data.User = open.user
	}
	var out bytes.Buffer
	if err := pages.ExecuteTemplate(&out, name, data); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = out.WriteTo(w)
	return nil
}

var (
	errNotAToken   = errors.New("the token cannot be sent")
	errNotAPatient = errors.New("the patient is not a number")
	errTooMany     = errors.New("the queue has too many patients")
	errNoVersion   = errors.New("the request has no If-Match")
	errNoText      = errors.New("the request has no complete text")
	errNoPatient   = errors.New("the note does not name its patient")
	errOtherUser   = errors.New("the page shows another user than the session's")
	errSigned      = errors.New("the note is signed")
)

// noteError is an error of a change, with the note that was to be changed.
type noteError struct {
	error

	note *clinicaldoc.ProgressNote
}

func (e noteError) Unwrap() error { return e.error }

type answer struct {
	err    error
	status int
	advice string
}

// answers are what the page shows for an error: the first that matches.
var answers = []answer{
	{errNotLoggedIn, http.StatusUnauthorized, "Log in with your access token."},
	{errNotAToken, http.StatusUnauthorized, "This is not an access token. Paste only the token."},
	{clinicaldoc.ErrUnauthorized, http.StatusUnauthorized, "The service rejected the token. Log in with a valid one."},
	{errNotAPatient, http.StatusUnprocessableEntity, "A patient is a number from 1 on."},
	{errTooMany, http.StatusUnprocessableEntity, "The queue is full. Remove a patient first."},
	{errNoVersion, http.StatusPreconditionRequired, "The page does not say which version it shows. Open the note again."},
	{errNoText, http.StatusBadRequest, "The text did not arrive, or is too long. Nothing was saved."},
	{errNoPatient, http.StatusConflict, "The service does not say whose note this is. It was not signed."},
	{
		errOtherUser, http.StatusConflict,
		"Nothing was saved: the page showed another user. The top of the page now shows who is logged in.",
	},
	{errSigned, http.StatusConflict, "The note is already signed. Nothing was saved."},
	{clinicaldoc.ErrOutcomeUnknown, http.StatusBadGateway, "It may be done. Open the note in another tab and check."},
	{clinicaldoc.ErrNoteIncomplete, http.StatusConflict, "The note is not complete yet."},
	{clinicaldoc.ErrInvalidArgument, http.StatusUnprocessableEntity, "This is not possible."},
	{clinicaldoc.ErrNotAudited, http.StatusServiceUnavailable, "The audit trail cannot be written, so nothing is shown. A change may have been saved."},
	{clinicaldoc.ErrValidation, http.StatusUnprocessableEntity, "The service rejected the text. Nothing was saved."},
	{clinicaldoc.ErrForbidden, http.StatusForbidden, "You may not change this note. Nothing was saved."},
	{clinicaldoc.ErrNotFound, http.StatusNotFound, "There is no such note."},
	{clinicaldoc.ErrPatientMismatch, http.StatusBadGateway, "The service does not show whose these notes are."},
	{context.DeadlineExceeded, http.StatusGatewayTimeout, "The service is slow. Try again later."},
	{nil, http.StatusBadGateway, "The service failed. Try again later."},
}

// answerTo chooses and logs the answer to an error. The SDK's errors do not print patients' data.
func answerTo(ctx context.Context, err error) answer {
	matches := func(a answer) bool { return a.err == nil || errors.Is(err, a.err) }
	a := answers[slices.IndexFunc(answers, matches)]
	slog.WarnContext(ctx, "request failed", "status", a.status, "error", err) //nolint:sloglint // the program's own log
	return a
}

// fail shows what went wrong, whose note it is about, and what the clinician wrote. It does not show the service's
// message, which may repeat what was sent.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	conflict, ok := errors.AsType[*clinicaldoc.ConflictError](err)
	if ok && conflict.Current != nil && !errors.Is(err, clinicaldoc.ErrOutcomeUnknown) {
		showConflict(w, r, viewOf(r, conflict.Current))
		return
	}
	a := answerTo(r.Context(), err)
	problem := page{Advice: a.advice, Login: a.status == http.StatusUnauthorized, Yours: r.PostFormValue("analysis")}
	if about, ok := errors.AsType[noteError](err); ok {
		problem.Note = viewOf(r, about.note)
	}
	_ = show(w, r, a.status, "problem", problem)
}

// showConflict shows the note as it is now beside what the clinician wrote, which can be edited and saved from there.
func showConflict(w http.ResponseWriter, r *http.Request, current *noteView) {
	w.Header().Set("ETag", strconv.Quote(current.Version()))
	seen := r.PostFormValue("patient")
	_ = show(w, r, http.StatusPreconditionFailed, "conflict", page{
		Note:  current,
		Yours: r.PostFormValue("analysis"),
		Moved: seen != "" && seen != current.PatientNumber(),
	})
}
