package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// backend keeps nothing of a note: what a page was shown comes back with its next request, as a version.
type backend struct {
	client   *clinicaldoc.Client
	sessions map[string]string // from a session to the token of the clinician who is logged in
	timeout  time.Duration     // of one request of the page, all its calls and retries included
	logger   *slog.Logger
}

func (b *backend) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /patients/{id}/queue", b.as(b.queue))
	mux.Handle("GET /notes/{id}", b.as(b.read))
	mux.Handle("PUT /notes/{id}", b.as(b.edit))
	mux.Handle("POST /notes/{id}/sign", b.as(b.sign))
	return http.NewCrossOriginProtection().Handler(mux) // no other site's page signs with the clinician's cookie
}

// nobody has no token: a call that forgets in whose name it is made fails, instead of being made in another's.
type nobody struct{}

func (nobody) Token(context.Context) (string, error) {
	return "", errors.New("a call of this server needs clinicaldoc.WithToken")
}

// newClient returns the one client that serves all clinicians.
func newClient(baseURL string, opts ...clinicaldoc.Option) (*clinicaldoc.Client, error) {
	return clinicaldoc.NewClient(baseURL, "", append(opts, clinicaldoc.WithTokenSource(nobody{}))...)
}

// call is what a request of the page does, with an id from its path, in the name of the clinician.
type call func(ctx context.Context, r *http.Request, id int64, clinician clinicaldoc.CallOption) (any, error)

var (
	errNotLoggedIn = errors.New("not logged in")
	errRequest     = errors.New("the request cannot be read")
	errChanged     = errors.New("the note is not what the page shows")
)

// as finds out who is logged in, gives the request its deadline, and writes what comes of it.
func (b *backend) as(do call) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), b.timeout)
		defer cancel()
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "application/json")
		result, err := b.run(ctx, r, do)
		if err != nil {
			b.logger.WarnContext(ctx, "failed", "pattern", r.Pattern, "error", err) // the SDK's errors print no patient's data
			status, advice := explain(err)
			w.WriteHeader(status)
			result = map[string]string{"error": advice}
		}
		_ = json.NewEncoder(w).Encode(result)
	})
}

func (b *backend) run(ctx context.Context, r *http.Request, do call) (any, error) {
	cookie, err := r.Cookie("session")
	if err != nil {
		return nil, errNotLoggedIn
	}
	token, ok := b.sessions[cookie.Value]
	if !ok {
		return nil, errNotLoggedIn
	}
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return nil, errRequest
	}
	return do(ctx, r, id, clinicaldoc.WithToken(token))
}

// explain says what the page is told. The service's own words stay here: they may repeat what was sent.
func explain(err error) (status int, advice string) {
	switch {
	case errors.Is(err, errNotLoggedIn), errors.Is(err, clinicaldoc.ErrUnauthorized):
		return http.StatusUnauthorized, "log in again"
	case errors.Is(err, errRequest), errors.Is(err, clinicaldoc.ErrInvalidArgument), errors.Is(err, clinicaldoc.ErrValidation):
		return http.StatusUnprocessableEntity, "this cannot be saved"
	case errors.Is(err, clinicaldoc.ErrOutcomeUnknown):
		return http.StatusBadGateway, "it may have been saved: open the note again and look"
	case errors.Is(err, errChanged), errors.Is(err, clinicaldoc.ErrConflict):
		return http.StatusConflict, "somebody has changed the note: open it again"
	case errors.Is(err, clinicaldoc.ErrNoteIncomplete):
		return http.StatusConflict, "the note is not complete yet"
	case errors.Is(err, clinicaldoc.ErrForbidden):
		return http.StatusForbidden, "this note is not yours to change"
	case errors.Is(err, clinicaldoc.ErrNotFound):
		return http.StatusNotFound, "there is no such note"
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout, "the service is slow: try again later"
	case clinicaldoc.Retryable(err):
		return http.StatusServiceUnavailable, "try again later"
	}
	return http.StatusBadGateway, "this did not work; the log tells more"
}

// waiting is a row of the queue.
type waiting struct {
	ID        int64     `json:"id"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
}

// queue lists a patient's notes that are complete and not signed, the oldest first.
func (b *backend) queue(ctx context.Context, _ *http.Request, patient int64, clinician clinicaldoc.CallOption) (any, error) {
	if patient < 1 {
		return nil, errRequest // 0 would list everybody's
	}
	rows := []waiting{}
	for note, err := range b.client.Notes.All(ctx, clinicaldoc.ListNotesParams{PatientID: patient, Sort: clinicaldoc.SortOldest}, clinician) {
		if err != nil {
			return nil, err // half a queue would look like all of it
		}
		if note.Stage() == clinicaldoc.StageComplete {
			rows = append(rows, waiting{note.ID, note.Name, note.CreatedAt})
		}
	}
	return rows, nil
}

// shown is a note as the page shows it.
type shown struct {
	ID       int64             `json:"id"`
	Name     string            `json:"name"`
	Analysis string            `json:"analysis"`
	Stage    clinicaldoc.Stage `json:"stage"`
	Version  string            `json:"version"` // comes back with an edit or a signature
}

func show(note *clinicaldoc.ProgressNote) shown {
	return shown{note.ID, note.Name, note.Analysis, note.Stage(), version(note)}
}

// version is another for any change that a clinician would want to know of.
func version(note *clinicaldoc.ProgressNote) string {
	hash := sha256.Sum256(fmt.Appendf(nil, "%d %q %q %q %v %v", note.ID, note.Name, note.Transcription, note.Analysis, note.Has, note.UpdatedAt))
	return hex.EncodeToString(hash[:])
}

func (b *backend) read(ctx context.Context, _ *http.Request, id int64, clinician clinicaldoc.CallOption) (any, error) {
	note, err := b.client.Notes.Get(ctx, id, clinician)
	if err != nil {
		return nil, err
	}
	return show(note), nil
}

// change is what the page sends.
type change struct {
	Version  string  `json:"version"`
	Analysis *string `json:"analysis"`
}

func (b *backend) edit(ctx context.Context, r *http.Request, id int64, clinician clinicaldoc.CallOption) (any, error) {
	note, wanted, err := b.asShown(ctx, r, id, clinician)
	if err != nil {
		return nil, err
	}
	if wanted.Analysis == nil {
		return nil, errRequest
	}
	params := clinicaldoc.UpdateNoteParams{Analysis: wanted.Analysis}
	if note, err = b.client.Notes.Update(ctx, id, params, clinicaldoc.IfUnchanged(note), clinician); err != nil {
		return nil, err
	}
	return show(note), nil
}

func (b *backend) sign(ctx context.Context, r *http.Request, id int64, clinician clinicaldoc.CallOption) (any, error) {
	note, _, err := b.asShown(ctx, r, id, clinician)
	if err != nil {
		return nil, err
	}
	if note, err = b.client.Notes.Sign(ctx, id, clinicaldoc.IfUnchanged(note), clinician); err != nil {
		return nil, err
	}
	return show(note), nil
}

// asShown reads the note and makes sure that it is still what the page shows, so that what others changed since is refused.
func (b *backend) asShown(ctx context.Context, r *http.Request, id int64, clinician clinicaldoc.CallOption) (*clinicaldoc.ProgressNote, change, error) {
	var wanted change
	if err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 1<<20)).Decode(&wanted); err != nil {
		return nil, change{}, errRequest
	}
	note, err := b.client.Notes.Get(ctx, id, clinician)
	if err != nil {
		return nil, change{}, err
	}
	if wanted.Version != version(note) {
		return nil, change{}, errChanged
	}
	return note, wanted, nil
}
