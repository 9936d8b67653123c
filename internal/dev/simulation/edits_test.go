package simulation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func (p *program) get(ctx context.Context, id int64) (*clinicaldoc.ProgressNote, error) {
	c := p.begin("get")
	ctx, cancel := c.context(ctx)
	defer cancel()
	note, err := p.client.Notes.Get(ctx, id)
	c.gets(note)
	c.end(err)
	return note, err
}

// choosing returns the options of an edit: every other one says what was read.
func (p *program) choosing(ctx context.Context, d *draws, c *call) ([]clinicaldoc.CallOption, bool) {
	if d.chance(0.5) {
		return nil, true
	}
	note, err := p.get(ctx, c.note)
	if err != nil {
		return nil, false
	}
	c.unchanged, c.readAt = note, time.Now()
	_ = wait(ctx, d.within(time.Minute)) // somebody reads it
	c.on(c.note).began = time.Now()
	return []clinicaldoc.CallOption{clinicaldoc.IfUnchanged(note)}, true
}

func (p *program) update(ctx context.Context, d *draws, id int64) {
	c := p.begin("update").on(id)
	opts, ok := p.choosing(ctx, d, c)
	if ok {
		p.write(ctx, c, c.text(), opts...)
	}
}

// write is one update of the analysis.
func (p *program) write(ctx context.Context, c *call, text string, opts ...clinicaldoc.CallOption) {
	ctx, cancel := c.context(ctx)
	defer cancel()
	note, err := p.client.Notes.Update(ctx, c.note, clinicaldoc.UpdateNoteParams{Analysis: &text}, opts...)
	c.gets(note)
	c.end(err)
	f := p.world.service.fact(c.note)
	p.world.service.mu.Lock()
	defer p.world.service.mu.Unlock()
	written := func(done change) bool { return done.after.Analysis == text } // by whomever: two reviews may write the same
	if err == nil && !slices.ContainsFunc(f.changes, written) {
		p.world.violate("not done", "the update of note %d is said to be done", c.note)
	}
}

// review adds to the analysis of a note that a list shows, as the documentation says: the note itself is read first.
func (p *program) review(ctx context.Context, d *draws) {
	c := p.begin("list")
	within, cancel := c.context(ctx)
	page, err := p.client.Notes.List(within, clinicaldoc.ListNotesParams{PerPage: 10, Sort: clinicaldoc.SortLatest})
	cancel()
	for i := 0; err == nil && i < len(page.Items); i++ {
		c.gets(&page.Items[i])
	}
	c.end(err)
	if err != nil {
		return
	}
	rows := slices.DeleteFunc(page.Items, func(n clinicaldoc.ProgressNote) bool { return !slices.Contains(p.known, n.ID) || n.Has.Signed })
	if len(rows) == 0 {
		return
	}
	row := &rows[d.below(len(rows))]
	note, err := p.get(ctx, row.ID)
	if err != nil {
		return
	}
	unchanged := []clinicaldoc.CallOption{clinicaldoc.IfUnchanged(note)}
	c = p.begin("update").on(note.ID)
	c.unchanged, c.readAt = note, time.Now()
	was := p.world.service.look(note.ID).Analysis
	p.write(ctx, c, note.Analysis+reviewed, unchanged...)
	c.mu.Lock()
	acts := slices.Clone(c.acts)
	c.mu.Unlock()
	for _, done := range acts {
		if !strings.HasPrefix(done.after.Analysis, done.before.Analysis) && p.world.service.replica == nil && done.before.Analysis == was {
			p.world.violate("edit overwritten", "a review of note %d wipes out its analysis", note.ID)
		}
	}
}

const reviewed = ", reviewed"

func (p *program) sign(ctx context.Context, d *draws, id int64) {
	c := p.begin("sign").on(id)
	opts, ok := p.choosing(ctx, d, c)
	if !ok {
		return
	}
	if d.chance(0.3) { // in the name of the clinician who is logged in
		c.token = clinicianToken
		if p.token == otherToken {
			c.token = otherToken
		}
		opts = append(opts, clinicaldoc.WithToken(c.token))
	}
	ctx, cancel := c.context(ctx)
	defer cancel()
	note, err := p.client.Notes.Sign(ctx, id, opts...)
	c.gets(note)
	c.end(err)
	if err == nil {
		p.checkSigned(c)
	}
}

func (p *program) checkSigned(c *call) {
	f := p.world.service.fact(c.note)
	p.world.service.mu.Lock()
	defer p.world.service.mu.Unlock()
	at := slices.IndexFunc(f.changes, func(done change) bool { return done.signed })
	switch {
	case at < 0:
		p.world.violate("not done", "note %d is said to be signed", c.note)
	case c.unchanged != nil && !c.unchanged.Has.Signed && c.stage != clinicaldoctest.StageSigned && !p.world.design.sameTexts(c.unchanged, f.changes[at].before):
		p.world.violate("signed unread", "note %d: another text than the one that was read", c.note)
	}
}

func (w design) sameTexts(read *clinicaldoc.ProgressNote, n clinicaldoctest.Note) bool {
	return read.Transcription == n.Transcription && read.Analysis == n.Analysis && (w.shortens || read.Name == n.Name)
}

func (p *program) delete(ctx context.Context, d *draws, id int64) {
	c := p.begin("delete").on(id)
	opts, ok := p.choosing(ctx, d, c)
	if !ok {
		return
	}
	ctx, cancel := c.context(ctx)
	defer cancel()
	_, err := p.client.Notes.Delete(ctx, id, opts...)
	c.end(err)
	if err == nil || errors.Is(err, clinicaldoc.ErrNotFound) || errors.Is(err, clinicaldoc.ErrOutcomeUnknown) {
		// Another note may have its id from now on.
		p.made = slices.DeleteFunc(p.made, func(n *clinicaldoc.ProgressNote) bool { return n.ID == id })
	}
	p.checkDeleted(c, err)
}

func (p *program) checkDeleted(c *call, err error) {
	if err == nil && c.fact.died().IsZero() {
		p.world.violate("not done", "note %d is said to be deleted", c.note)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && len(c.acts) == 0 && !c.doubtful {
		p.world.violate("not done", "note %d was not there, and is said to be deleted", c.note)
	}
}

// doElse is what has no method of its own, and giving a token back.
func (p *program) doElse(ctx context.Context, d *draws) {
	switch choice := d.below(4); {
	case choice == 0:
		c := p.begin("else")
		ctx, cancel := c.context(ctx)
		defer cancel()
		c.end(p.client.Do(ctx, http.MethodPost, "/v1/teams", map[string]string{"name": nameMark}, nil))
	case choice < 3 && len(p.known) > 0 && p.world.design.variant.DeleteStatus == http.StatusOK:
		id := p.known[d.below(len(p.known))]
		c := p.begin("else").on(id)
		ctx, cancel := c.context(ctx)
		defer cancel()
		var out map[string]any
		err := p.client.Do(ctx, http.MethodDelete, fmt.Sprintf("/v1/progress-notes/%d", id), nil, &out)
		c.end(err)
		p.checkDeleted(c, err)
	case !p.left:
		p.revoke(ctx)
	}
}

// revoke gives back a token of the program's own, by which it asks.
func (p *program) revoke(ctx context.Context) {
	p.left = true
	c := p.begin("revoke")
	c.token = leavingToken(p.number)
	ctx, cancel := c.context(ctx)
	defer cancel()
	_, err := p.client.Tokens.Revoke(ctx, int64(leavingTokens+p.number), clinicaldoc.WithToken(c.token))
	c.end(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && len(c.acts) == 0 {
		p.world.violate("not done", "the token of %s is said to be revoked", p.name)
	}
}
