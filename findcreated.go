package clinicaldoc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/losses"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/retry"
	"github.com/clinicaldoc/clinicaldoc-go/internal/verdict"
)

var findCreated = operation{"Notes.FindCreated", http.MethodGet, "/v1/progress-notes", retry.Reads}

const (
	defaultSettle   = 10 * time.Minute
	minLookPause    = time.Second
	maxLookPause    = time.Minute
	maxFailedLooks  = 10   // in a row
	maxSearchedRows = 5000 // of one list
)

// FindCreatedParams says how sure [NotesService.FindCreated] has to be. The zero value is the careful choice.
type FindCreatedParams struct {
	// Settle is how long after the response was lost the service, or a proxy before it, may still be at work on the create;
	// 0 means 10 minutes. It never counts less than the upload itself took.
	Settle time.Duration
	// ExcludeIDs are notes that are known to come from elsewhere. Those that Create of this client returned need not be named.
	ExcludeIDs []int64
	// UniqueName vouches that no other note of the patient has or will have the name in Params, or one that begins like it,
	// and that nobody renames the note meanwhile. Then the name alone decides, whatever sizes, users and clocks tell.
	UniqueName bool
	// TrustPatientFilter accepts rows that name no patient; see [ListNotesParams].
	TrustPatientFilter bool
}

// LogValue lists what may be logged of the params.
func (p FindCreatedParams) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Duration("settle", p.Settle), slog.Int("exclude_ids", len(p.ExcludeIDs)),
		slog.Bool("unique_name", p.UniqueName), slog.Bool("trust_patient_filter", p.TrustPatientFilter),
	)
}

// Format prints what LogValue lists for every verb.
func (p FindCreatedParams) Format(s fmt.State, _ rune) {
	redact.Format(s, "clinicaldoc.FindCreatedParams", p)
}

// FindCreated finds out what became of a Create whose outcome is unknown, by looking among the patient's newest notes: at
// once and then in growing pauses, until it can decide or the context ends.
//
//   - It returns a note only when everything fits (patient, name, size where both sides tell it, made by this token's user,
//     not before it was sent by either clock and not after Settle) and nothing else explains it: no other note fits, it is
//     not one that this client's Create returned or that was found for another lost create.
//   - It returns [ErrNotCreated] only when Settle has passed since the response was lost, the list was surely seen whole, or
//     newest first to before that time, and no note of about a day resembles it by name or size or was made since, or
//     within 15 minutes before, without an explanation. Creating it again is safe then, unless the clock that gave SentAt
//     was further off, and the note was renamed and its recording changed in size.
//   - Everything else is undecided: an [*OutcomeUnknownError], at once when waiting cannot help. Its Err says why and from
//     when on it can be decided. It can be asked again, also by another process, from its JSON.
//
// Of losses that another process suffered, this client knows those that it was asked about. Who has several asks about each
// once, with a context that has ended, before he waits for any: one's note may look like another's.
//
// An error put together from Params, SentAt and AudioSize is enough; without LostAt, Settle counts from now. When the error
// holds a NoteID, that note is read and returned if it is the patient's. Bad params are [ErrInvalidArgument].
func (s *NotesService) FindCreated(ctx context.Context, lost *OutcomeUnknownError, params FindCreatedParams, opts ...CallOption) (_ *ProgressNote, err error) {
	l, err := s.newSearch(lost, params, opts)
	if err != nil {
		return nil, err
	}
	ctx, hooked := s.client.startCall(ctx, findCreated.name)
	defer hooked.end(ctx, hooked.pending(&err))
	if l.lost.NoteID == 0 && l.lost.Params.PatientID == 0 && strings.TrimSpace(l.lost.Params.Name) == "" {
		return nil, l.undecided("the note was created without a name and a patient, so that nothing can tell it from others")
	}
	reason := verdict.NoList
	for {
		evidence, failure := l.look(ctx)
		if ctx.Err() != nil {
			return nil, l.expired(ctx, reason)
		}
		v := verdict.Decide(evidence)
		reason = v.Reason
		switch {
		case v.Outcome == verdict.Found && s.client.losses.Claim(l.loss, l.found.ID):
			return l.found, nil
		case v.Outcome == verdict.Found:
			return nil, l.undecided(string(verdict.Several))
		case v.Outcome == verdict.NotCreated:
			s.client.losses.Remove(l.loss)
			return nil, &callError{op: findCreated, detail: "the note was not created; creating it again is safe", causes: []error{ErrNotCreated}}
		case !v.Wait && failure != nil:
			return nil, l.undecided(string(reason)+": "+redact.Cause(failure), failure)
		case !v.Wait:
			return nil, l.undecided(string(reason))
		}
		if !l.pause(ctx, failure) {
			return nil, l.expired(ctx, reason)
		}
	}
}

// pause waits for the next look, which is not later than the time from which on it can be decided. It reports false when the
// context ends first.
func (l *search) pause(ctx context.Context, failure error) bool {
	wait := retry.Backoff(ctx, l.looks-1, minLookPause, maxLookPause, 0)
	if remaining := time.Until(l.settledAt); remaining > 0 { // later, what a cache keeps grows old as fast as time goes
		wait = min(wait, remaining+l.cached)
	}
	if refused, ok := errors.AsType[*Error](failure); ok {
		wait = max(wait, min(refused.RetryAfter, maxLookPause))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// expired is the error of a search whose context has ended.
func (l *search) expired(ctx context.Context, reason verdict.Reason) error {
	when := "; ask again"
	if time.Now().Before(l.settledAt) {
		when = "; it can be decided after " + l.settledAt.UTC().Format(time.RFC3339)
	}
	return l.undecided(string(reason)+": "+redact.Cause(ctx.Err())+when, ctx.Err(), context.Cause(ctx))
}

// undecided is the lost create once more, with the reason why it is lost still.
func (l *search) undecided(reason string, causes ...error) error {
	unknown := l.lost
	unknown.Err = &callError{op: findCreated, detail: "cannot tell whether the note was created: " + reason, causes: causes}
	return &unknown
}

// audioSize is the size of the recording that was sent: -1 when it is not known, 0 when there was none.
func (e *OutcomeUnknownError) audioSize() int64 {
	if e.AudioSize == 0 && e.Params.Audio != nil {
		return e.Params.Audio.length
	}
	return e.AudioSize
}

// loss is what this client remembers the lost create by.
func (e *OutcomeUnknownError) loss() losses.Loss {
	return losses.Of(e.Params.PatientID, e.Params.Name, e.audioSize()).Lost(e.SentAt)
}

// storedLoss is an OutcomeUnknownError in JSON.
type storedLoss struct {
	Params    storedParams `json:"params"`
	SentAt    time.Time    `json:"sent_at"`
	LostAt    time.Time    `json:"lost_at"`
	AudioSize int64        `json:"audio_size"`
	NoteID    int64        `json:"note_id"`
	Error     string       `json:"error"`
}

type storedParams struct {
	Name      string `json:"name"`
	PatientID int64  `json:"patient_id"`
	PromptID  int64  `json:"prompt_id"`
}

// MarshalJSON gives all that FindCreated needs, in another process too. That includes the note's name and the patient: what
// is encoded is a patient's data. Of Err only its text is kept.
func (e OutcomeUnknownError) MarshalJSON() ([]byte, error) {
	stored := storedLoss{
		Params: storedParams{e.Params.Name, e.Params.PatientID, e.Params.PromptID},
		SentAt: e.SentAt.UTC(), LostAt: e.LostAt.UTC(), AudioSize: e.audioSize(), NoteID: e.NoteID,
	}
	if e.Err != nil {
		stored.Error = text(e.Err)
	}
	return json.Marshal(stored)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (e *OutcomeUnknownError) UnmarshalJSON(data []byte) error {
	var stored storedLoss
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	*e = OutcomeUnknownError{
		Params: CreateNoteParams{Name: stored.Params.Name, PatientID: stored.Params.PatientID, PromptID: stored.Params.PromptID},
		SentAt: stored.SentAt, LostAt: stored.LostAt, AudioSize: stored.AudioSize, NoteID: stored.NoteID,
	}
	if stored.Error != "" {
		e.Err = safeError(stored.Error)
	}
	return nil
}

// clockDifference is how far the service's clock is ahead of ours, as its Date header tells.
func clockDifference(h http.Header) time.Duration {
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return time.Until(date).Round(time.Second)
}
