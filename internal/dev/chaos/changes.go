package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
)

const updateText = "Synthetic revision "

func isUpdateText(s string) bool { return strings.HasPrefix(s, updateText) }

// update writes a text that no other update writes.
func (c *caller) update(ctx context.Context, d draw) error {
	r := c.pick(d)
	t := text{value: fmt.Sprintf("%s%d of %s", updateText, len(r.texts)+1, r.name)}
	opts, err := c.guard(ctx, "update", r, d)
	if err != nil {
		return err
	}
	t.call = c.lastEdit()
	var response clinicaldoc.Response
	note, err := c.client.Notes.Update(ctx, r.id, clinicaldoc.UpdateNoteParams{Analysis: &t.value}, append(opts, clinicaldoc.WithResponse(&response))...)
	t.done, t.strayed, t.requestID = err == nil, err != nil || response.Attempts > 1 || c.unruly, response.RequestID
	if t.done && note.Analysis != t.value {
		c.found.loss("%s: the answer to an update does not hold it", r.name)
	}
	r.texts = append(r.texts, t)
	if t.done {
		c.compare(r, note)
	}
	return c.judge("update", r.id, err)
}

// guard gives half of the edits the note as the caller has read it.
func (c *caller) guard(ctx context.Context, kind string, r *record, d draw) ([]clinicaldoc.CallOption, error) {
	if c.ward == nil || d.form%2 == 0 {
		return c.begin(kind, r, nil, time.Time{}), nil
	}
	note, err := c.client.Notes.Get(ctx, r.id)
	if err != nil {
		return nil, c.judge("get", r.id, err)
	}
	return c.begin(kind, r, note, time.Now()), nil
}

func (c *caller) sign(ctx context.Context, d draw) error {
	r := c.pick(d)
	opts, err := c.guard(ctx, "sign", r, d)
	if err != nil {
		return err
	}
	note, err := c.client.Notes.Sign(ctx, r.id, opts...)
	switch {
	case err == nil:
		r.signed = done
		c.compare(r, note)
	case r.signed == never:
		r.signed = unsure
	}
	return c.judge("sign", r.id, err)
}

// remove deletes a note and works on it no more, whatever came of it.
func (c *caller) remove(ctx context.Context, d draw) error {
	r := c.pick(d)
	opts, err := c.guard(ctx, "delete", r, d)
	if err != nil {
		return err
	}
	_, err = c.client.Notes.Delete(ctx, r.id, opts...)
	r.deleted = done
	if err != nil {
		r.deleted = unsure
	}
	c.forget(r)
	return c.judge("delete", r.id, err)
}
