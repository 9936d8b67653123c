package main

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/otelclinicaldoc"
)

//go:embed page.html page.js page.css
var files embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{"etag": etag}).ParseFS(files, "page.html"))

// backend keeps nothing of a note: what a page shows comes back with its next request, as a version.
type backend struct {
	client   *clinicaldoc.Client // one for all clinicians, without a token of its own
	sessions sessions
	timeout  time.Duration // of a request that is no stream, with all its calls and retries
	logger   *slog.Logger
	draining atomic.Bool
	streams  context.Context //nolint:containedctx // ends with the server
	stop     func()
}

// newBackend has the options of its client, which is still to be made.
func newBackend() (*backend, []clinicaldoc.Option) {
	b := &backend{timeout: 20 * time.Second, logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	b.streams, b.stop = context.WithCancel(context.Background())
	return b, []clinicaldoc.Option{clinicaldoc.WithTokenSource(&b.sessions), clinicaldoc.WithHooks(otelclinicaldoc.Hooks())}
}

func (b *backend) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if b.draining.Load() { // the service's own state does not count: it would take all servers away at once
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.Handle("GET /page.js", http.FileServerFS(files))
	mux.Handle("GET /page.css", http.FileServerFS(files))
	mux.HandleFunc("POST /login", b.login)
	mux.HandleFunc("POST /logout", func(w http.ResponseWriter, r *http.Request) {
		if c := b.sessions.find(r); c != nil {
			c.token.Store("")
		}
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
	mux.Handle("GET /{$}", b.named(b.timeout, b.queue))
	mux.Handle("GET /notes/{id}", b.named(b.timeout, b.read))
	mux.Handle("PUT /notes/{id}", b.named(b.timeout, b.change))
	mux.Handle("POST /notes/{id}/sign", b.named(b.timeout, b.change))
	mux.Handle("GET /notes/{id}/audio", b.named(streamLife, b.audio))
	mux.Handle("GET /notes/{id}/events", b.named(streamLife, b.events))
	safe := http.NewCrossOriginProtection().Handler(mux) // no other site's page signs with the clinician's cookie
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'; form-action 'self'; frame-ancestors 'none'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		safe.ServeHTTP(w, r)
	})
}

// streamLife bounds a stream; a browser comes back for the rest.
const streamLife = 15 * time.Minute

// action is what a request does in the name of the clinician whom its context names, with the number in its path.
type action func(w http.ResponseWriter, r *http.Request, id int64) error

// named finds out who is logged in, and shows what an action fails with.
func (b *backend) named(limit time.Duration, do action) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := otel.Tracer("webbackend").Start(r.Context(), r.Pattern)
		defer span.End()
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		out := http.NewResponseController(w)
		_ = out.SetWriteDeadline(time.Now().Add(limit + 5*time.Second))
		if limit == streamLife { // also of a player that pauses
			defer context.AfterFunc(b.streams, func() { cancel(); _ = out.SetWriteDeadline(time.Now()) })() //nolint:contextcheck // the server's end
		}
		err := errNotLoggedIn
		if c := b.sessions.find(r); c != nil {
			r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
			id, _ := strconv.ParseInt(cmp.Or(r.PathValue("id"), r.FormValue("patient")), 10, 64) // 0: no number
			err = do(w, r.WithContext(as(ctx, c)), id)
		}
		if err != nil {
			span.SetStatus(codes.Error, "")
			b.fail(w, r.WithContext(ctx), err)
		}
	})
}

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

var errNoVersion, errSigned = errors.New("the request has no If-Match"), errors.New("the note is signed")

// answers say what the page shows for an error: the first that fits.
var answers = []struct {
	err    error
	status int
	advice string
}{
	{errNotLoggedIn, http.StatusUnauthorized, "Log in with an access token of yours."},
	{clinicaldoc.ErrUnauthorized, http.StatusUnauthorized, "The service does not know the token, or not any more. Log in with another."},
	{errNoVersion, http.StatusPreconditionRequired, "Open the note again: the page does not say what it shows."},
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

// fail shows what went wrong, of a conflict both texts. The service's own words stay here: they may repeat what was sent.
func (b *backend) fail(w http.ResponseWriter, r *http.Request, err error) {
	if conflict, ok := errors.AsType[*clinicaldoc.ConflictError](err); ok && !errors.Is(err, clinicaldoc.ErrOutcomeUnknown) {
		w.Header().Set("ETag", etag(conflict.Current))
		_ = show(w, http.StatusPreconditionFailed, "conflict", map[string]any{"Current": conflict.Current, "Yours": r.PostFormValue("analysis")})
		return
	}
	for _, a := range answers {
		if a.err == nil || errors.Is(err, a.err) {
			b.logger.WarnContext(r.Context(), "failed", "pattern", r.Pattern, "status", a.status, "error", err) // the SDK's errors print no patient's data
			_ = show(w, a.status, "problem", map[string]any{"Advice": a.advice, "Login": a.status == http.StatusUnauthorized})
			return
		}
	}
}

func (b *backend) login(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), b.timeout)
	defer cancel()
	r.Body = http.MaxBytesReader(w, r.Body, 1<<12)
	c := new(clinician)
	c.token.Store(strings.TrimSpace(r.PostFormValue("token")))
	if _, err := b.client.Users.Me(as(ctx, c)); err != nil {
		b.fail(w, r, err)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: "session", Value: b.sessions.begin(c), Path: "/", HttpOnly: true, Secure: true, SameSite: http.SameSiteStrictMode})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// queue shows a patient's notes that are not signed, the oldest first.
func (b *backend) queue(w http.ResponseWriter, r *http.Request, patient int64) error {
	if r.FormValue("patient") == "" {
		return show(w, http.StatusOK, "queue", nil)
	}
	if patient < 1 { // 0 would list everybody's
		return clinicaldoc.ErrInvalidArgument
	}
	var rows []*clinicaldoc.ProgressNote
	for note, err := range b.client.Notes.All(r.Context(), clinicaldoc.ListNotesParams{PatientID: patient, Sort: clinicaldoc.SortOldest}) {
		if err != nil {
			return err // half a queue would look like all of it
		}
		if !note.Has.Signed {
			rows = append(rows, note)
		}
	}
	return show(w, http.StatusOK, "queue", map[string]any{"Patient": patient, "Notes": rows})
}

// etag is a note's version as HTTP has it.
func etag(note *clinicaldoc.ProgressNote) string { return `"` + note.Version() + `"` }

func (b *backend) read(w http.ResponseWriter, r *http.Request, id int64) error {
	note, err := b.client.Notes.Get(r.Context(), id)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", etag(note))
	return show(w, http.StatusOK, "note", note)
}

// change saves the analysis or signs the note, if that is still what the page shows.
func (b *backend) change(w http.ResponseWriter, r *http.Request, id int64) error {
	version := strings.Trim(r.Header.Get("If-Match"), `"`)
	if version == "" {
		return errNoVersion
	}
	note, err := b.client.Notes.Get(r.Context(), id)
	switch {
	case err != nil:
		return err
	case note.Has.Signed: // a service may allow to change it
		return errSigned
	case r.Method == http.MethodPut:
		text := clinicaldoc.UpdateNoteParams{Analysis: new(r.PostFormValue("analysis"))}
		note, err = b.client.Notes.Update(r.Context(), id, text, clinicaldoc.IfVersion(version))
	default:
		note, err = b.client.Notes.Sign(r.Context(), id, clinicaldoc.IfVersion(version))
	}
	if err == nil {
		w.Header().Set("ETag", etag(note))
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// audio plays the recording: the browser sees neither the token nor the signed URL.
func (b *backend) audio(w http.ResponseWriter, r *http.Request, id int64) error {
	stream, err := b.client.Notes.OpenAudio(r.Context(), id)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	w.Header().Set("Content-Type", stream.ContentType())
	w.Header().Set("ETag", stream.ETag())
	http.ServeContent(w, r, "", time.Time{}, stream)
	return nil
}

// events tells the note's stage whenever that changes, until the note is complete.
func (b *backend) events(w http.ResponseWriter, r *http.Request, id int64) error {
	for note, err := range b.client.Notes.Watch(r.Context(), id, clinicaldoc.WaitParams{Interval: time.Second}) {
		if note == nil {
			return err
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: %s\n\n", note.Stage())
		_ = http.NewResponseController(w).Flush() // when nobody listens any more, the context ends
	}
	return nil
}
