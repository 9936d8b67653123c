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

//go:embed page.html page.js page.css
var files embed.FS

var pages = template.Must(template.ParseFS(files, "page.html"))

// show writes a page, whole or not at all.
func show(w http.ResponseWriter, status int, name string, data any) error {
	var page bytes.Buffer
	if err := pages.ExecuteTemplate(&page, name, data); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = page.WriteTo(w)
	return nil
}

var (
	errNoVersion = errors.New("the request has no If-Match")
	errNoText    = errors.New("the request has no whole text")
	errSigned    = errors.New("the note is signed")
)

type answer struct {
	err    error
	status int
	advice string
}

// answers say what the page shows for an error: the first that fits.
var answers = []answer{
	{errNotLoggedIn, http.StatusUnauthorized, "Log in with an access token of yours."},
	{clinicaldoc.ErrUnauthorized, http.StatusUnauthorized, "The service does not know the token, or not any more. Log in with another."},
	{errNoVersion, http.StatusPreconditionRequired, "Open the note again: the page does not say what it shows."},
	{errNoText, http.StatusBadRequest, "The text did not arrive, or is too long. Nothing was saved."},
	{errSigned, http.StatusConflict, "The note is signed: it is not changed any more."},
	{clinicaldoc.ErrOutcomeUnknown, http.StatusBadGateway, "It may have been saved: open the note again and look."},
	{clinicaldoc.ErrNoteIncomplete, http.StatusConflict, "The note is not complete yet."},
	{clinicaldoc.ErrInvalidArgument, http.StatusUnprocessableEntity, "This cannot be done."},
	{clinicaldoc.ErrValidation, http.StatusUnprocessableEntity, "This cannot be saved."},
	{clinicaldoc.ErrForbidden, http.StatusForbidden, "This note is not yours to change."},
	{clinicaldoc.ErrNotFound, http.StatusNotFound, "There is no such note."},
	{context.DeadlineExceeded, http.StatusGatewayTimeout, "The service is slow: try again later."},
	{nil, http.StatusBadGateway, "This did not work; the log tells more."},
}

// fail shows what went wrong, with what the clinician wrote, and of a conflict both texts. The service's own words stay here: they may repeat what was sent.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	if conflict, ok := errors.AsType[*clinicaldoc.ConflictError](err); ok && !errors.Is(err, clinicaldoc.ErrOutcomeUnknown) {
		w.Header().Set("ETag", strconv.Quote(conflict.Current.Version()))
		_ = show(w, http.StatusPreconditionFailed, "conflict", map[string]any{"Current": conflict.Current, "Yours": r.PostFormValue("analysis")})
		return
	}
	a := answers[slices.IndexFunc(answers, func(a answer) bool { return a.err == nil || errors.Is(err, a.err) })]
	slog.WarnContext(r.Context(), "failed", "pattern", r.Pattern, "status", a.status, "error", err) //nolint:sloglint // the server's own; the SDK's errors print no patient's data
	_ = show(w, a.status, "problem", map[string]any{"Advice": a.advice, "Login": a.status == http.StatusUnauthorized, "Yours": r.PostFormValue("analysis")})
}
