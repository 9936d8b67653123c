package simulation

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// waitInterval is the shortest pause of a wait with the defaults.
const waitInterval = 2 * time.Second

func (p *program) wait(ctx context.Context, d *draws, id int64, fresh bool) {
	c := p.begin("wait").on(id)
	c.limit = time.Hour
	ctx, cancel := c.context(ctx)
	defer cancel()
	if d.chance(0.05) { // somebody forgot the unit
		_, err := p.client.Notes.Wait(ctx, id, clinicaldoc.WaitParams{Interval: 5, MaxInterval: 60})
		if c.end(err); !errors.Is(err, clinicaldoc.ErrInvalidArgument) {
			p.world.violate("waiting", "a pause of nanoseconds is accepted")
		}
		return
	}
	c.pause = waitInterval
	note, err := p.client.Notes.Wait(ctx, id, clinicaldoc.WaitParams{})
	c.gets(note)
	c.end(err)
	if err == nil {
		p.checkWaited(c, note)
		return
	}
	f := p.world.service.fact(id)
	_, refused := errors.AsType[*clinicaldoc.Error](err)
	failed := errors.Is(err, clinicaldoc.ErrProcessingFailed)
	switch now := p.world.service.look(id).Stage; {
	case failed && now != clinicaldoctest.StageFailed && f.died().IsZero():
		p.world.violate("waiting", "note %d has not failed", id)
	case errors.Is(err, clinicaldoc.ErrNotFound) && f.died().IsZero() && (p.world.design.lag == 0 || fresh && p.world.design.lag < 9*time.Second):
		p.world.violate("waiting", "note %d is there, but the wait ends", id)
	case !failed && !errors.Is(err, clinicaldoc.ErrNotFound) && time.Since(c.began) < c.limit && c.requests <= 10 && c.faults != c.requests && !p.barred(c):
		p.world.violate("waiting", "the wait for note %d ends after %d requests, refused %t", id, c.requests, refused)
	case errors.Is(err, context.DeadlineExceeded) && c.faults == 0 && f.died().IsZero() && (c.stage == clinicaldoctest.StageComplete || c.stage == clinicaldoctest.StageSigned):
		p.world.violate("useless", "note %d was complete, and is waited for in vain", id)
	}
}

// barred reports whether something in between has refused a request for good, which ends a wait.
func (p *program) barred(c *call) bool {
	return c.faults > 0 && slices.Contains(p.world.design.faults, barred)
}

// maxListPages is how many pages of the list WaitAll reads between two pauses.
const maxListPages = 10

func (p *program) waitAll(ctx context.Context) {
	c := p.begin("wait")
	c.limit = time.Hour
	ctx, cancel := c.context(ctx)
	defer cancel()
	ids := append(slices.Clip(p.known), p.world.service.older...)
	finished := !slices.ContainsFunc(ids, func(id int64) bool {
		stage := p.world.service.look(id).Stage
		return stage != clinicaldoctest.StageComplete && stage != clinicaldoctest.StageSigned
	})
	yielded := map[int64]int{}
	for note, err := range p.client.Notes.WaitAll(ctx, ids, clinicaldoc.WaitParams{}) {
		var failed *clinicaldoc.WaitError
		c.gets(note)
		switch {
		case err == nil:
			yielded[note.ID]++
			p.checkWaited(c, note)
		case errors.As(err, &failed):
			yielded[failed.ID]++
			if stage := p.world.service.look(failed.ID).Stage; errors.Is(err, clinicaldoc.ErrProcessingFailed) && stage != clinicaldoctest.StageFailed && stage != "" {
				p.world.violate("waiting", "note %d has not failed", failed.ID)
			}
		}
	}
	c.end(nil)
	for _, id := range ids {
		if yielded[id] != 1 {
			p.world.violate("waiting", "WaitAll yields note %d %d times", id, yielded[id])
		}
	}
	idle := time.Since(c.began) - c.travelled
	if most := (1 + int(idle/waitInterval)) * (maxListPages + 2*len(ids)); c.requests > most {
		p.world.violate("flood", "WaitAll for %d notes makes %d requests, pausing for %s in all", len(ids), c.requests, idle)
	}
	limited := slices.Contains(p.world.design.faults, tooMany) // also by a limit that another program of this client met
	undisturbed := c.faults == 0 && !limited && p.world.service.replica == nil
	if finished && idle > time.Second && undisturbed && !p.world.design.resets && !p.world.design.flagless {
		p.world.violate("late", "WaitAll pauses for %s, although all notes are complete", idle)
	}
}

// checkWaited holds a note that was waited for against what the service showed when it was read, and against the truth.
func (p *program) checkWaited(c *call, note *clinicaldoc.ProgressNote) {
	stage := p.world.service.look(note.ID).Stage
	c.mu.Lock()
	defer c.mu.Unlock()
	if shown := c.texts[note.ID]; !shown.sameTexts(note) {
		p.world.violate("waiting", "note %d is not what Get gives", note.ID)
	}
	edited := p.world.design.flagless && note.Analysis != "" // by somebody who did not wait: nothing tells that
	if stage != clinicaldoctest.StageComplete && stage != clinicaldoctest.StageSigned && stage != "" && !edited {
		p.world.violate("waiting", "note %d has not come to its end", note.ID)
	}
}

// list reads a list whole, and reports whether it ended well.
func (p *program) list(ctx context.Context, d *draws, calm bool) bool {
	c := p.begin("list")
	p.world.count("lists", 1)
	ctx, cancel := c.context(ctx)
	defer cancel()
	params := clinicaldoc.ListNotesParams{PerPage: 1 + d.below(5), Sort: pick(d, clinicaldoc.SortLatest, clinicaldoc.SortOldest), Verify: d.chance(0.2), TrustPatientFilter: p.world.design.unnamed}
	if d.chance(0.6) {
		params.PatientID = p.patient(d)
	}
	if p.world.design.prefetch && d.chance(0.5) {
		params.Prefetch, c.parallel = 1+d.below(3), true
	}
	slowness, deletes := pick(d, 0, 0, time.Second, 20*time.Second), !calm && d.chance(0.2)
	from := time.Now().Add(-p.world.design.lag)
	seen := map[int64]bool{}
	for note, err := range p.client.Notes.All(ctx, params) {
		if err != nil {
			c.end(err)
			return false
		}
		c.gets(note)
		if seen[note.ID] {
			p.world.violate("list", "note %d is yielded twice", note.ID)
		}
		seen[note.ID] = true
		if patient, _ := note.PatientID(); params.PatientID != 0 && patient != params.PatientID && !params.TrustPatientFilter {
			p.world.violate("list", "note %d belongs to another patient", note.ID)
		}
		if !calm && slowness > 0 {
			_ = wait(ctx, d.within(slowness))
		}
		if at := slices.Index(p.known, note.ID); deletes && at >= 0 && d.chance(0.5) {
			p.delete(ctx, d, note.ID)
		}
	}
	c.end(nil)
	p.world.count("lists whole", 1)
	p.checkWhole(c, params, from, seen)
	return true
}

// checkWhole holds a list that ended well against the notes that were there all the time.
func (p *program) checkWhole(c *call, params clinicaldoc.ListNotesParams, from time.Time, seen map[int64]bool) {
	design := p.world.design
	wanted, deaths, births, reused := p.world.service.throughout(params.PatientID, from, time.Now())
	hidden := deaths && design.hides || deaths && (!design.tellsDeletions() || design.tellsTotals() && births) && (!params.Verify || p.world.service.replica != nil || reused)
	for _, id := range wanted {
		switch {
		case !seen[id] && hidden: // documented: the service cannot show it
			p.world.count("reached: a deletion that the list does not show", 1)
		case !seen[id]:
			p.world.violate("list lost a row", "note %d was there throughout, %d of %d yielded, %s", id, len(seen), len(wanted), params.Sort)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bloated && !c.parallel { // a page that was asked for ahead may not have been needed
		p.world.violate("flood", "a list of 100,001 rows is taken")
	}
	if c.faults > 0 || p.world.service.replica != nil || design.hides {
		return
	}
	if !design.tellsTotals() && c.begun > c.requests {
		p.world.violate("flood", "%d pages are asked for and %d of them given up, although no page beyond the next was known to exist", c.begun, c.begun-c.requests)
	}
	if pages, requests := design.listCosts(len(wanted), params); !births && !deaths && (c.lastPage > pages || c.requests > requests) {
		p.world.violate("flood", "a list of %d rows takes %d requests, up to page %d", len(wanted), c.requests, c.lastPage)
	}
}

// listCosts are the highest page and the most requests that a list may be asked for while it does not change. If
// the service reports nothing about pages, the first page is requested once more by its number, and the one after
// the last. If it does not know pages at all, two more requests show that everything came in one response.
func (w design) listCosts(rows int, params clinicaldoc.ListNotesParams) (page, requests int) {
	page = max((rows+params.PerPage-1)/params.PerPage, 1)
	extra := 0
	switch {
	case w.misnamed(), w.variant.Pagination == clinicaldoctest.PaginationNone:
		page, extra = 2, 3
	case w.variant.Pagination == clinicaldoctest.PaginationBare:
		page, extra = page+1, 1
	}
	if requests = page + extra; params.Verify && rows > 0 {
		requests *= 2
	}
	return page, requests
}

// maxRetries is how often a request is retried, and a download after its latest new byte.
const maxRetries = 3

// download fetches the recording of a note.
func (p *program) download(ctx context.Context, id int64) {
	c := p.begin("download").on(id)
	ctx, cancel := c.context(ctx)
	defer cancel()
	var recording bytes.Buffer
	_, err := p.client.Notes.DownloadAudio(ctx, id, &recording, clinicaldoc.DownloadParams{IgnoreSize: p.world.design.sizes == reencoded})
	if recording.Len() > 0 {
		c.getsRecording(id)
	}
	c.end(err)
	f := p.world.service.fact(id)
	sum := sha256.Sum256(recording.Bytes())
	switch {
	case f.fingerprint == "": // it was there before
	case err == nil && hex.EncodeToString(sum[:]) != f.fingerprint:
		p.world.violate("recording", "note %d: %d bytes that are not its recording", id, recording.Len())
	case err != nil && c.faults == 0 && f.died().IsZero() && p.world.service.replica == nil:
		p.world.violate("useless", "the recording of note %d cannot be fetched", id)
	case err != nil && c.faults == c.breaks && c.breaks <= maxRetries && !c.shifted && f.died().IsZero() && p.world.service.replica == nil:
		p.world.violate("useless", "the recording of note %d is given up after %d breaks: %v", id, c.breaks, err)
	case err == nil:
		p.world.count("reached: a recording was fetched", 1)
		if c.breaks > 0 {
			p.world.count("reached: a recording was fetched in parts", 1)
		}
	}
}
