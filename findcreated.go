package clinicaldoc

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/retry"
)

var findCreated = operation{"Notes.FindCreated", http.MethodGet, "/v1/progress-notes", retry.Reads}

const (
	// settleTime is how long after a lost answer a create may still be under way at the service.
	settleTime = 30 * time.Second
	// clockSlack is how far a note's creation time may lie before the request when the service's clock is not known, and
	// dateSlack when its Date header tells, in whole seconds: an earlier note of the same kind must not be taken for it.
	clockSlack = time.Minute
	dateSlack  = 5 * time.Second
	// maxReconcileNotes bounds the search when the service does not list the newest notes first.
	maxReconcileNotes = 5000
	reconcilePause    = 2 * time.Second
)

// FindCreated finds out what became of a Create whose outcome is unknown, by looking among the patient's newest notes for
// one of the same name and audio size that was made since the request was sent:
//
//   - exactly one: it is returned;
//   - none: [ErrNotCreated], and creating again is safe. Since the service may still be at work, this is said only when 30
//     seconds have passed since the answer was lost; until then FindCreated looks again and again;
//   - several that fit, or a list that cannot be searched to its end: the error matches [ErrOutcomeUnknown]; a person has
//     to look.
//
// A program that kept a journal may be another one than the one that created: an [OutcomeUnknownError] made of Params and
// SentAt is enough.
func (s *NotesService) FindCreated(ctx context.Context, lost *OutcomeUnknownError, opts ...CallOption) (*ProgressNote, error) {
	if lost == nil || lost.SentAt.IsZero() {
		return nil, invalid("Notes.FindCreated", "needs the error of a Create")
	}
	if lost.Params.Name == "" && lost.Params.PatientID == 0 {
		return nil, undecided("the note was created without a name and a patient, so that nothing can tell it from others")
	}
	lostAt := lost.lostAt
	if lostAt.IsZero() {
		lostAt = time.Now() // an error rebuilt from a journal does not tell, and its upload may have taken long
	}
	for {
		found, err := s.matches(ctx, lost, opts)
		switch {
		case err != nil:
			return nil, err
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			return nil, undecided("several notes fit; a person has to look")
		}
		settled := time.Until(lostAt.Add(settleTime))
		if settled <= 0 {
			return nil, &callError{op: findCreated, detail: "the note was not created; creating it again is safe", causes: []error{ErrNotCreated}}
		}
		select {
		case <-ctx.Done():
			return nil, undecided("no such note yet, but the service may still be at work: "+redact.Cause(ctx.Err()), ctx.Err())
		case <-time.After(min(reconcilePause, settled)):
		}
	}
}

// matches lists the notes that may be the one whose creation got no answer.
func (s *NotesService) matches(ctx context.Context, lost *OutcomeUnknownError, opts []CallOption) ([]*ProgressNote, error) {
	caller, err := newCallOptions(opts)
	if err != nil {
		return nil, err
	}
	response := caller.response
	if response == nil {
		response = new(Response)
		opts = append(slices.Clip(opts), WithResponse(response))
	}
	params := ListNotesParams{PatientID: lost.Params.PatientID, Sort: SortLatest, PerPage: maxPerPage}
	var found []*ProgressNote
	order, seen := newestFirst{}, 0
	for note, err := range s.All(ctx, params, opts...) {
		if err != nil {
			return nil, undecided("the notes could not be listed: "+redact.Cause(err), err)
		}
		if note.CreatedAt.IsZero() {
			return nil, undecided("the service does not tell when notes were created")
		}
		since := lost.SentAt.Add(-clockSlack)
		if response.Header.Get("Date") != "" {
			since = lost.SentAt.Add(clockDifference(response.Header) - dateSlack)
		}
		order.add(note.CreatedAt)
		seen++
		switch {
		case !note.CreatedAt.Before(since):
			if lost.Params.describes(note) {
				found = append(found, note)
			}
		case order.shown() && seen >= maxPerPage:
			return found, nil // the rest is older still
		}
		if seen == maxReconcileNotes {
			return nil, undecided("there are too many notes to search; does WithQueryNames name the sort parameter?")
		}
	}
	return found, nil
}

// newestFirst watches whether rows really come newest first: a service that does not know the sort parameter's name
// says nothing.
type newestFirst struct {
	previous   time.Time
	fell, rose bool
}

func (o *newestFirst) add(t time.Time) {
	if !o.previous.IsZero() {
		o.fell = o.fell || t.Before(o.previous)
		o.rose = o.rose || t.After(o.previous)
	}
	o.previous = t
}

func (o *newestFirst) shown() bool { return o.fell && !o.rose }

// describes reports whether the note can be the one these params asked for. The service may have trimmed the name.
func (p CreateNoteParams) describes(note *ProgressNote) bool {
	if p.Name != "" && strings.TrimSpace(note.Name) != strings.TrimSpace(p.Name) {
		return false
	}
	sizesTold := p.Audio != nil && p.Audio.size() > 0 && note.Audio != nil && note.Audio.Size > 0
	return !sizesTold || note.Audio.Size == p.Audio.size()
}

// clockDifference is how far the service's clock is ahead of ours, as its Date header tells.
func clockDifference(h http.Header) time.Duration {
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return time.Until(date).Round(time.Second)
}

func undecided(detail string, causes ...error) error {
	return &callError{op: findCreated, detail: "cannot tell whether the note was created: " + detail, causes: append([]error{ErrOutcomeUnknown}, causes...)}
}
