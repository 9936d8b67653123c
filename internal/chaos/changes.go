package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go"
)

const updateText = "Synthetic revision "

func isUpdateText(s string) bool { return strings.HasPrefix(s, updateText) }

// update writes a text that no other update writes.
func (c *caller) update(ctx context.Context, d draw) error {
	r := c.pick(d)
	t := text{value: fmt.Sprintf("%s%d of %s", updateText, len(r.texts)+1, r.name)}
	var response clinicaldoc.Response
	note, err := c.client.Notes.Update(ctx, r.id, clinicaldoc.UpdateNoteParams{Analysis: &t.value}, clinicaldoc.WithResponse(&response))
	t.done, t.strayed, t.requestID = err == nil, err != nil || response.Attempts > 1, response.RequestID
	if t.done && note.Analysis != t.value {
		c.found.loss("%s: the answer to an update does not hold it", r.name)
	}
	r.texts = append(r.texts, t)
	if t.done {
		c.compare(r, note)
	}
	return err
}

func (c *caller) sign(ctx context.Context, d draw) error {
	r := c.pick(d)
	note, err := c.client.Notes.Sign(ctx, r.id)
	switch {
	case err == nil:
		r.signed = done
		c.compare(r, note)
	case r.signed == never:
		r.signed = unsure
	}
	return err
}

// remove deletes a note and works on it no more, whatever came of it.
func (c *caller) remove(ctx context.Context, d draw) error {
	r := c.pick(d)
	_, err := c.client.Notes.Delete(ctx, r.id)
	r.deleted = done
	if err != nil {
		r.deleted = unsure
	}
	c.forget(r)
	return err
}
