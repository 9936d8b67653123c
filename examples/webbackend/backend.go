package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/otelclinicaldoc"
)

// backend keeps no notes. A page carries the version of the note that it shows, and sends it back with a change.
type backend struct {
	client   *clinicaldoc.Client // one for all clinicians, without a token of its own
	sessions sessions
	timeout  time.Duration // of a request that is not a stream, with all its calls and retries

	trail      io.Writer // receives a line for each record that a clinician sees or changes; nil: none is written
	trailIsCut bool      // its last line lacks its end
	trailLock  sync.Mutex
}

// newBackend makes its client by connect: NewClientFromEnv, or a test's.
func newBackend(connect func(...clinicaldoc.Option) (*clinicaldoc.Client, error)) (*backend, error) {
	b := &backend{timeout: 20 * time.Second}
	client, err := connect(
		clinicaldoc.WithTokenSource(&b.sessions), clinicaldoc.WithHooks(otelclinicaldoc.Hooks()), clinicaldoc.WithAudit(b.audit))
	b.client = client
	return b, err
}

// handler serves the pages. It reports that it is ready until the context ends.
func (b *backend) handler(ctx context.Context) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if ctx.Err() != nil { // the service's own state does not count: it would take all servers away together
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	for _, name := range []string{"page.js", "page.css", "page.svg"} {
		mux.Handle("GET /"+name, http.FileServerFS(files))
	}
	mux.Handle("POST /login", b.page(b.timeout, b.login))
	mux.Handle("GET /{$}", b.page(b.timeout, b.named(b.queue)))
	mux.Handle("POST /patients", b.page(b.timeout, b.named(b.addPatient)))
	mux.Handle("POST /patients/{id}/remove", b.page(b.timeout, b.named(b.removePatient)))
	mux.Handle("GET /notes/{id}", b.page(b.timeout, b.named(b.read)))
	mux.Handle("PUT /notes/{id}", b.page(b.timeout, b.named(b.change)))
	mux.Handle("POST /notes/{id}/sign", b.page(b.timeout, b.named(b.change)))
	mux.Handle("GET /notes/{id}/audio", b.page(streamLife, b.named(b.audio)))
	mux.Handle("GET /notes/{id}/events", b.page(streamLife, b.named(b.events)))
	return http.NewCrossOriginProtection().Handler(mux) // a page of another site cannot sign with the clinician's cookie
}

// action is what a request does, with the number in its path or form.
type action func(w http.ResponseWriter, r *http.Request, id int64) error

const (
	streamLife     = 15 * time.Minute // a browser comes back for the rest
	securityPolicy = "default-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

// page traces an action, bounds it, and shows its error. A stream ends with the browser and with the server, also
// while a player pauses. Other requests continue when the browser leaves: a change that is cut off has an unknown
// outcome.
func (b *backend) page(limit time.Duration, do action) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", securityPolicy)
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
		ctx, cancel := context.WithTimeout(as(ctx, b.sessions.find(r)), limit)
		defer cancel()
		r = r.WithContext(ctx)
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
		number := cmp.Or(r.PathValue("id"), r.FormValue("patient"))
		id, _ := strconv.ParseInt(number, 10, 64) // 0, which no note and no patient has, if it is not a number
		if err := do(w, r, id); err != nil {
			span.SetStatus(codes.Error, "")
			fail(w, r, err)
		}
	})
}

// named runs an action only in the name of somebody who is logged in.
func (b *backend) named(do action) action {
	return func(w http.ResponseWriter, r *http.Request, id int64) error {
		if _, err := b.sessions.Token(r.Context()); err != nil {
			return err
		}
		return do(w, r, id)
	}
}

// login ends the browser's session and, if the service accepts the token, begins another. A form without a token logs
// out.
func (b *backend) login(w http.ResponseWriter, r *http.Request, _ int64) error {
	b.sessions.end(cookieOf(r))
	token := strings.TrimSpace(r.PostFormValue("token"))
	if token == "" {
		return errNotLoggedIn
	}
	user, err := b.client.Users.Me(r.Context(), clinicaldoc.WithToken(token))
	if errors.Is(err, clinicaldoc.ErrInvalidArgument) {
		return errNotAToken
	}
	if err != nil {
		return err
	}
	patients, err := b.recentPatients(as(r.Context(), &session{user: user}), user, token)
	if err != nil {
		return err
	}
	http.SetCookie(w, &http.Cookie{
		Name: "session", Value: b.sessions.begin(token, user, patients), Path: "/",
		HttpOnly: true, Secure: true, SameSite: http.SameSiteStrictMode,
	})
	http.Redirect(w, r, "/", http.StatusSeeOther)
	return nil
}

const maxRecent = 10

// recentPatients returns the patients with whom the queue begins: those of the user's own notes that are not signed,
// among the newest notes of the service.
func (b *backend) recentPatients(ctx context.Context, user *clinicaldoc.User, token string) ([]int64, error) {
	newest := clinicaldoc.ListNotesParams{PerPage: 100, Sort: clinicaldoc.SortLatest}
	page, err := b.client.Notes.List(ctx, newest, clinicaldoc.WithToken(token))
	if err != nil {
		return nil, err
	}
	var patients []int64
	for _, note := range page.Items {
		patient, known := note.PatientID()
		if known && note.UserID == user.ID && !note.Has.Signed && !slices.Contains(patients, patient) {
			patients = append(patients, patient)
		}
	}
	return patients[:min(len(patients), maxRecent)], nil
}

// patientNotes is what the queue shows of a patient.
type patientNotes struct {
	ID      int64
	Name    string // empty if the service does not send it
	Waiting []noteView
	Others  []noteView // in progress, or failed
	Problem string     // why there are no notes
}

// queue shows the unsigned notes of the session's patients. The service has no filter by stage, so all notes of these
// patients are read.
func (b *backend) queue(w http.ResponseWriter, r *http.Request, _ int64) error {
	ctx := r.Context()
	patients := who(ctx).listed()
	rows := make([]patientNotes, len(patients))
	errs := make([]error, len(patients))
	var reading sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i, patient := range patients {
		slots <- struct{}{}
		reading.Go(func() {
			rows[i], errs[i] = b.unsigned(ctx, patient)
			<-slots
		})
	}
	reading.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return show(w, r, http.StatusOK, "queue", page{Queue: rows})
}

// unsigned reads the notes of one patient, the oldest first. If they cannot be read, the row says why: a part of them
// would look like all. It returns an error only if the other patients' notes cannot be read either.
func (b *backend) unsigned(ctx context.Context, patient int64) (patientNotes, error) {
	row := patientNotes{ID: patient}
	params := clinicaldoc.ListNotesParams{PatientID: patient, Sort: clinicaldoc.SortOldest}
	notes, err := clinicaldoc.Collect(b.client.Notes.All(ctx, params))
	switch {
	case errors.Is(err, clinicaldoc.ErrUnauthorized), errors.Is(err, errNotLoggedIn), ctx.Err() != nil:
		return row, err
	case err != nil:
		row.Problem = answerTo(ctx, err).advice
		return row, nil
	}
	for _, note := range notes {
		view := noteView{note, who(ctx).user}
		row.Name = cmp.Or(row.Name, nameIn(note.Patient))
		switch {
		case note.Has.Signed:
		case view.Waiting():
			row.Waiting = append(row.Waiting, view)
		default:
			row.Others = append(row.Others, view)
		}
	}
	return row, nil
}

func (b *backend) addPatient(w http.ResponseWriter, r *http.Request, patient int64) error {
	if patient < 1 { // 0 would list everybody's notes
		return errNotAPatient
	}
	if !who(r.Context()).add(patient) {
		return errTooMany
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
	return nil
}

func (b *backend) removePatient(w http.ResponseWriter, r *http.Request, patient int64) error {
	who(r.Context()).remove(patient)
	http.Redirect(w, r, "/", http.StatusSeeOther)
	return nil
}

func (b *backend) read(w http.ResponseWriter, r *http.Request, id int64) error {
	note, err := b.client.Notes.Get(r.Context(), id)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", strconv.Quote(note.Version()))
	return show(w, r, http.StatusOK, "note", page{Note: viewOf(r, note)})
}

// change saves the analysis or signs the note, if the note and the clinician are still those that the page shows.
func (b *backend) change(w http.ResponseWriter, r *http.Request, id int64) error {
	// A proxy that compresses adds the W/.
	version := strings.Trim(strings.TrimPrefix(r.Header.Get("If-Match"), "W/"), `"`)
	shown := r.Header.Get("X-User")
	if shown != strconv.FormatInt(who(r.Context()).user.ID, 10) { // another tab of the browser has logged in since
		return errOtherUser
	}
	note, err := b.client.Notes.Get(r.Context(), id)
	if err != nil {
		return err
	}
	if err := mayChange(r, note, version); err != nil {
		return noteError{err, note}
	}
	changed, err := b.apply(r, id, clinicaldoc.IfVersion(version))
	if err != nil {
		return noteError{err, note}
	}
	w.Header().Set("ETag", strconv.Quote(changed.Version()))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (b *backend) apply(
	r *http.Request, id int64, unchanged clinicaldoc.CallOption,
) (*clinicaldoc.ProgressNote, error) {
	if r.Method == http.MethodPut {
		text := clinicaldoc.UpdateNoteParams{Analysis: new(r.PostFormValue("analysis"))}
		return b.client.Notes.Update(r.Context(), id, text, unchanged)
	}
	return b.client.Notes.Sign(r.Context(), id, unchanged)
}

// mayChange rejects what the service might accept.
func mayChange(r *http.Request, note *clinicaldoc.ProgressNote, version string) error {
	_, known := note.PatientID()
	switch {
	case version == "":
		return errNoVersion
	case note.Has.Signed:
		return errSigned
	case r.Method == http.MethodPut && !r.PostForm.Has("analysis"): // too long, or cut off: "" would be saved
		return errNoText
	case r.Method == http.MethodPost && !known:
		return errNoPatient
	}
	return nil
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

// events sends the note's stage whenever it changes, until the note is complete.
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
