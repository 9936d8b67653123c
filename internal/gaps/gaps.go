// Package gaps finds out what a clinical documentation service does where its description says "not shown".
//
// [Probe] creates a few plainly synthetic notes, asks the service one question after the other, and deletes what it
// created. The [Report] holds names of fields and parameters, numbers and choices; it never holds a patient's data,
// whatever the service answers.
package gaps

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// Options are the clients of a probe, and what it may do.
type Options struct {
	Client   *clinicaldoc.Client // without WithQueryNames: the names are what is to be found
	Stranger *clinicaldoc.Client // with a token the service cannot know; nil leaves 401 out
	BaseURL  string              // of Client, to tell other origins from it

	PatientID, PromptID int64  // what the synthetic notes refer to
	NamePrefix          string // of the synthetic notes' names; unique, so that they can be told from all others
	Audio               []byte // a WAV recording

	WaitFor  time.Duration // how long one note's processing may take
	Interval time.Duration // between two looks at it
	OnPoll   func()        // called after each look; nil: nothing

	// SpareTokenID is a token that may be revoked; 0 leaves revocation out.
	SpareTokenID int64
	// SkipSign leaves signing out: a service may refuse to delete a signed note.
	SkipSign bool
}

const (
	// absentID is no patient, note or token anywhere: the largest number of a 32-bit column.
	absentID = 1<<31 - 1
	// cleanUpFor bounds the deletion of the notes when the probe's own context has ended.
	cleanUpFor = time.Minute
)

// prober is one run of the questions.
type prober struct {
	Options
	report *Report
	own    map[int64]bool                     // created and not deleted yet
	lost   []*clinicaldoc.OutcomeUnknownError // creates that may have made a note
	seen   observations
	serial int // numbers the notes' names
}

// Probe asks all questions. It returns an error if no note could be created. The report then contains only what was
// left behind. A question without an answer is part of the report and not an error.
func Probe(ctx context.Context, options Options) (report *Report, err error) {
	p := &prober{Options: options, report: newReport(), own: map[int64]bool{}, seen: newObservations()}
	defer func() {
		cleanUp, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpFor)
		defer cancel()
		p.deleteOwn(cleanUp)
	}()

	first, err := p.create(ctx)
	if err != nil {
		return p.report, fmt.Errorf("gaps: no note could be created: %w", err)
	}
	p.askSignIncomplete(ctx, first)
	complete := p.watch(ctx, first)
	// Later than the first one, so that an order by time shows.
	for range 2 {
		if _, err := p.create(ctx); err != nil {
			return p.report, fmt.Errorf("gaps: only one note could be created: %w", err)
		}
	}
	p.askList(ctx)
	p.askTexts(ctx, first.ID)
	p.askUpdate(ctx, first.ID)
	p.askAudio(ctx, first.ID)
	p.askSign(ctx, first.ID, complete)
	p.askUploads(ctx)
	p.askRequiredParts(ctx)
	p.askAccount(ctx)
	p.askErrors(ctx)
	p.askEndpoints(ctx)
	p.askKept(ctx)
	p.deleteOwn(ctx)
	p.reportObservations()
	return p.report, nil
}

// deleteOwn deletes the notes that this run has created, and no others. It reports those that it could not delete.
func (p *prober) deleteOwn(ctx context.Context) {
	for _, lost := range p.lost {
		note, err := p.findLost(ctx, lost)
		switch {
		case err == nil:
			p.own[note.ID] = true
		case !errors.Is(err, clinicaldoc.ErrNotCreated):
			p.report.Uncertain++
		}
	}
	p.lost = nil
	for _, id := range slices.Sorted(maps.Keys(p.own)) {
		_ = p.remove(ctx, id) // a note that stays is reported as left behind
	}
	p.report.LeftBehind = slices.Sorted(maps.Keys(p.own))
}

// findLost searches for a while for the note of a create without a response. It returns an error that matches
// ErrNotCreated if there certainly is none.
func (p *prober) findLost(
	ctx context.Context, lost *clinicaldoc.OutcomeUnknownError,
) (*clinicaldoc.ProgressNote, error) {
	ctx, cancel := context.WithTimeout(ctx, cleanUpFor/2)
	defer cancel()
	params := clinicaldoc.FindCreatedParams{UniqueName: true, TrustPatientFilter: true}
	return p.Client.Notes.FindCreated(ctx, lost, params)
}

// remove deletes a note of this run. A note that is already gone is not an error.
func (p *prober) remove(ctx context.Context, id int64) error {
	var r clinicaldoc.Response
	_, err := p.Client.Notes.Delete(ctx, id, clinicaldoc.WithResponse(&r))
	p.observe("code.delete", r, err)
	if err == nil || errors.Is(err, clinicaldoc.ErrNotFound) {
		delete(p.own, id)
		return nil
	}
	return err
}

// observe records what the response to any request shows: its headers, the status of a success as the answer for key,
// and of a refusal the members of its body and whether it is a 503. The error is that of the request.
func (p *prober) observe(key string, response clinicaldoc.Response, err error) {
	p.seen.headers(response.Header)
	if err == nil {
		p.report.set(key, "%d", response.StatusCode)
		return
	}
	status := statusOf(err)
	if status == 0 { // there was no response, or it was not a refusal
		return
	}
	p.seen.errorBody(response.Body)
	if status == http.StatusServiceUnavailable {
		p.seen.unavailable = true
	}
}

// statusOf returns the status of the response that caused an error, or 0 if there was no response.
func statusOf(err error) int {
	refusal, ok := errors.AsType[*clinicaldoc.Error](err)
	if !ok {
		return 0
	}
	return refusal.StatusCode
}

// outcome says whether the service allowed the request that ended with err: "allowed", "refused with" the status, or
// "no answer" for an error without a status.
func outcome(err error) string {
	status := statusOf(err)
	switch {
	case err == nil:
		return "allowed"
	case status != 0:
		return fmt.Sprintf("refused with %d", status)
	}
	return "no answer"
}
