package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/otelclinicaldoc"
)

// backend keeps nothing of a note: what a page shows comes back with its next request, as a version.
type backend struct {
	client   *clinicaldoc.Client // one for all clinicians, without a token of its own
	sessions sessions
	timeout  time.Duration // of a request that is no stream, with all its calls and retries
}

// newBackend makes its client by connect: NewClientFromEnv, or a test's.
func newBackend(connect func(...clinicaldoc.Option) (*clinicaldoc.Client, error)) (b *backend, err error) {
	b = &backend{timeout: 20 * time.Second}
	b.client, err = connect(clinicaldoc.WithTokenSource(&b.sessions), clinicaldoc.WithHooks(otelclinicaldoc.Hooks()))
	return b, err
}

// handler serves the pages. It says that it is ready until the context ends.
func (b *backend) handler(ctx context.Context) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if ctx.Err() != nil { // the service's own state does not count: it would take all servers away at once
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.Handle("GET /page.js", http.FileServerFS(files))
	mux.Handle("GET /page.css", http.FileServerFS(files))
	mux.Handle("POST /login", b.page(b.timeout, b.login))
	mux.Handle("GET /{$}", b.page(b.timeout, b.named(b.queue)))
	mux.Handle("GET /notes/{id}", b.page(b.timeout, b.named(b.read)))
	mux.Handle("PUT /notes/{id}", b.page(b.timeout, b.named(b.change)))
	mux.Handle("POST /notes/{id}/sign", b.page(b.timeout, b.named(b.change)))
	mux.Handle("GET /notes/{id}/audio", b.page(streamLife, b.named(b.audio)))
	mux.Handle("GET /notes/{id}/events", b.page(streamLife, b.named(b.events)))
	return http.NewCrossOriginProtection().Handler(mux) // no other site's page signs with the clinician's cookie
}

// action is what a request does, with the number in its path.
type action func(w http.ResponseWriter, r *http.Request, id int64) error

const streamLife = 15 * time.Minute // a browser comes back for the rest

// page traces an action, bounds it, and shows what it fails with. A stream ends with the browser and with the server, also while a
// player pauses. All else goes on when the browser leaves: of a change that is cut off nobody knows whether it was made.
func (b *backend) page(limit time.Duration, do action) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'; form-action 'self'; frame-ancestors 'none'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		ctx, span := otel.Tracer("webbackend").Start(r.Context(), r.Pattern)
		defer span.End()
		if limit == streamLife {
			out := http.NewResponseController(w)
			_ = out.SetWriteDeadline(time.Now().Add(limit))
			defer context.AfterFunc(ctx, func() { _ = out.SetWriteDeadline(time.Now()) })()
		} else {
			ctx = context.WithoutCancel(ctx)
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
		id, _ := strconv.ParseInt(cmp.Or(r.PathValue("id"), r.FormValue("patient")), 10, 64) // 0: no number
		if err := do(w, r.WithContext(ctx), id); err != nil {
			span.SetStatus(codes.Error, "")
			fail(w, r.WithContext(ctx), err)
		}
	})
}

// named does it in the name of who is logged in.
func (b *backend) named(do action) action {
	return func(w http.ResponseWriter, r *http.Request, id int64) error {
		ctx := as(r.Context(), session(r))
		if _, err := b.sessions.Token(ctx); err != nil {
			return err
		}
		return do(w, r.WithContext(ctx), id)
	}
}

// login ends the session that there is, and begins another. Who brings no token logs out.
func (b *backend) login(w http.ResponseWriter, r *http.Request, _ int64) error {
	b.sessions.end(session(r))
	begun := b.sessions.begin(strings.TrimSpace(r.PostFormValue("token")))
	if _, err := b.client.Users.Me(as(r.Context(), begun)); err != nil {
		b.sessions.end(begun)
		return err
	}
	http.SetCookie(w, &http.Cookie{Name: "session", Value: begun, Path: "/", HttpOnly: true, Secure: true, SameSite: http.SameSiteStrictMode})
	http.Redirect(w, r, "/", http.StatusSeeOther)
	return nil
}

// queue shows a patient's notes that are not signed, the oldest first.
func (b *backend) queue(w http.ResponseWriter, r *http.Request, patient int64) error {
	switch {
	case r.FormValue("patient") == "":
		return show(w, http.StatusOK, "queue", nil)
	case patient < 1: // 0 would list everybody's
		return clinicaldoc.ErrInvalidArgument
	}
	notes, err := clinicaldoc.Collect(b.client.Notes.All(r.Context(), clinicaldoc.ListNotesParams{PatientID: patient, Sort: clinicaldoc.SortOldest}))
	if err != nil {
		return err // half a queue would look like all of it
	}
	notes = slices.DeleteFunc(notes, func(note *clinicaldoc.ProgressNote) bool { return note.Has.Signed })
	return show(w, http.StatusOK, "queue", map[string]any{"Patient": patient, "Notes": notes})
}

func (b *backend) read(w http.ResponseWriter, r *http.Request, id int64) error {
	note, err := b.client.Notes.Get(r.Context(), id)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", strconv.Quote(note.Version()))
	return show(w, http.StatusOK, "note", note)
}

// change saves the analysis or signs the note, if that is still what the page shows.
func (b *backend) change(w http.ResponseWriter, r *http.Request, id int64) error {
	version := strings.Trim(strings.TrimPrefix(r.Header.Get("If-Match"), "W/"), `"`) // a proxy that compresses adds W/
	note, err := b.client.Notes.Get(r.Context(), id)
	switch {
	case err != nil:
		return err
	case version == "":
		return errNoVersion
	case note.Has.Signed: // a service may allow to change it
		return errSigned
	case r.Method == http.MethodPut && !r.PostForm.Has("analysis"): // too long, or cut off: an empty one would be saved
		return errNoText
	case r.Method == http.MethodPut:
		text := clinicaldoc.UpdateNoteParams{Analysis: new(r.PostFormValue("analysis"))}
		note, err = b.client.Notes.Update(r.Context(), id, text, clinicaldoc.IfVersion(version))
	default:
		note, err = b.client.Notes.Sign(r.Context(), id, clinicaldoc.IfVersion(version))
	}
	if err == nil {
		w.Header().Set("ETag", strconv.Quote(note.Version()))
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
