package gaps

import (
	"context"
	"errors"
	"strings"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// askSignIncomplete tries to sign a note that has just been created, unless it was complete immediately.
func (p *prober) askSignIncomplete(ctx context.Context, note *clinicaldoc.ProgressNote) {
	if p.SkipSign {
		p.report.unseen("sign.incomplete", "signing was left out")
		return
	}
	if note.Stage() >= clinicaldoc.StageComplete {
		p.report.unseen("sign.incomplete", "the note was complete at once")
		return
	}
	_, err := p.sign(ctx, note.ID)
	refusal, isRefused := errors.AsType[*clinicaldoc.Error](err)
	switch {
	case err == nil:
		p.report.set("sign.incomplete", "allowed, or the note was complete by then")
	case isRefused && errors.Is(err, clinicaldoc.ErrNoteIncomplete):
		p.report.set("sign.incomplete", "%d, %s", refusal.StatusCode, saysIncomplete(refusal.Message))
	default: // also if the note was completed before its state could be read as the reason
		p.report.unseen("sign.incomplete", "%s, perhaps for another reason", outcome(err))
	}
}

// askSign signs a complete note. Then it tries to sign, update and delete the signed note.
func (p *prober) askSign(ctx context.Context, id int64, complete bool) {
	keys := []string{"code.sign", "sign.update", "sign.still_signed", "sign.again", "sign.delete"}
	giveUp := func(reason string) {
		for _, key := range keys {
			p.report.unseen(key, "%s", reason)
		}
	}
	switch {
	case p.SkipSign:
		giveUp("signing was left out")
		return
	case !complete:
		giveUp("no note was completed")
		return
	}
	signed, err := p.sign(ctx, id)
	if err != nil {
		giveUp("signing was " + outcome(err))
		return
	}
	p.report.SignedNote = signed
	_, err = p.sign(ctx, id)
	p.report.set("sign.again", "%s", outcome(err))

	_, err = p.update(ctx, id, clinicaldoc.UpdateNoteParams{Analysis: new("Synthetic text after signing.")})
	p.report.set("sign.update", "%s", outcome(err))
	note, err := p.get(ctx, id)
	switch {
	case err != nil:
		p.report.unseen("sign.still_signed", "reading the note was %s", outcome(err))
	case note.Has.Signed:
		p.report.set("sign.still_signed", "stays")
	default:
		p.report.set("sign.still_signed", "is lost")
	}
	p.report.set("sign.delete", "%s", outcome(p.remove(ctx, id)))
}

// sign signs a note and records how the response looks.
func (p *prober) sign(ctx context.Context, id int64) (*clinicaldoc.ProgressNote, error) {
	var r clinicaldoc.Response
	note, err := p.Client.Notes.Sign(ctx, id, clinicaldoc.WithResponse(&r))
	p.observe("code.sign", r, err)
	if err == nil {
		p.seen.noteBody(r.Body, true)
	}
	return note, err
}

// saysIncomplete returns whether a message names the missing texts as the reason. Its words are not described.
func saysIncomplete(message string) string {
	lower := strings.ToLower(message)
	switch {
	case message == "":
		return "no message"
	case strings.Contains(lower, "transcri"), strings.Contains(lower, "analys"):
		return "message says so"
	}
	return "message does not say so"
}
