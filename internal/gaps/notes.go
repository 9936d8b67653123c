package gaps

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// params returns the description of another synthetic note.
func (p *prober) params() clinicaldoc.CreateNoteParams {
	p.serial++
	return clinicaldoc.CreateNoteParams{
		Name: fmt.Sprintf("%s gaps %d", p.NamePrefix, p.serial), PatientID: p.PatientID, PromptID: p.PromptID,
		Audio: clinicaldoc.AudioBytes("synthetic.wav", p.Audio),
	}
}

// create creates another synthetic note.
func (p *prober) create(ctx context.Context) (*clinicaldoc.ProgressNote, error) {
	return p.createWith(ctx, p.params())
}

// createWith creates a note. It remembers the note, or the create with an unknown outcome, for deletion at the end.
func (p *prober) createWith(
	ctx context.Context, params clinicaldoc.CreateNoteParams,
) (*clinicaldoc.ProgressNote, error) {
	var r clinicaldoc.Response
	note, err := p.Client.Notes.Create(ctx, params, clinicaldoc.WithResponse(&r))
	p.observe("code.create", r, err)
	if lost, unknown := errors.AsType[*clinicaldoc.OutcomeUnknownError](err); unknown {
		p.lost = append(p.lost, lost)
	}
	if err != nil {
		return nil, err
	}
	p.own[note.ID] = true
	p.seen.noteBody(r.Body, params.PatientID != 0)
	p.reportSize(note.Audio, params.Audio)
	return note, nil
}

// reportSize reports whether a note shows the size of the recording that was sent, if both are known.
func (p *prober) reportSize(got *clinicaldoc.AudioInfo, sent *clinicaldoc.AudioSource) {
	if got == nil || got.Size == 0 {
		return
	}
	if sent == nil || sent.Size() < 0 {
		return
	}
	if got.Size != sent.Size() {
		p.report.set("audio.size", "another than was sent")
		return
	}
	p.report.set("audio.size", "as sent")
}

// get reads a note and records how it looks.
func (p *prober) get(ctx context.Context, id int64) (*clinicaldoc.ProgressNote, error) {
	var r clinicaldoc.Response
	note, err := p.Client.Notes.Get(ctx, id, clinicaldoc.WithResponse(&r))
	p.observe("code.get", r, err)
	if err == nil {
		p.seen.noteBody(r.Body, true)
	}
	return note, err
}

// watch follows a note until its processing has ended, and reports its stages and the time. It returns whether the
// processing succeeded.
func (p *prober) watch(ctx context.Context, created *clinicaldoc.ProgressNote) bool {
	stages := []string{created.Stage().String()}
	note, err := p.follow(ctx, created.ID, func(stage clinicaldoc.Stage) {
		if name := stage.String(); stages[len(stages)-1] != name {
			stages = append(stages, name)
		}
		p.report.set("processing.stages", "%s", strings.Join(stages, ", "))
	})
	switch {
	case errors.Is(err, errNotProcessed):
		p.report.unseen("processing.time", "not complete after %s", p.WaitFor)
		return false
	case err != nil:
		p.report.unseen("processing.stages", "the note could not be read to its end")
		return false
	case !note.AnalysisCompletedAt.IsZero() && !note.CreatedAt.IsZero():
		p.report.set("processing.time", "%s", note.AnalysisCompletedAt.Sub(note.CreatedAt).Round(time.Millisecond))
	}
	p.report.unseen("processing.time", "the note ended as %s", note.Stage())
	return note.Stage() != clinicaldoc.StageFailed
}

var errNotProcessed = errors.New("gaps: the note was not processed in time")

// follow reads a note until its processing has ended, and calls seen with each stage. It returns errNotProcessed after
// WaitFor.
func (p *prober) follow(
	ctx context.Context, id int64, seen func(clinicaldoc.Stage),
) (*clinicaldoc.ProgressNote, error) {
	ctx, cancel := context.WithTimeout(ctx, p.WaitFor)
	defer cancel()
	for {
		note, err := p.get(ctx, id)
		if err != nil {
			return nil, err
		}
		stage := note.Stage()
		if stage == clinicaldoc.StageSigned {
			stage = clinicaldoc.StageComplete // the signature is this probe's own
		}
		seen(stage)
		isProcessed := stage >= clinicaldoc.StageComplete || stage == clinicaldoc.StageFailed
		if isProcessed {
			return note, nil
		}
		if p.OnPoll != nil {
			p.OnPoll()
		}
		select {
		case <-ctx.Done():
			return nil, errNotProcessed
		case <-time.After(p.Interval):
		}
	}
}

// askUpdate finds out what an update does to white space and to empty texts.
func (p *prober) askUpdate(ctx context.Context, id int64) {
	const padded = "  Synthetic text. "
	note, err := p.update(ctx, id, clinicaldoc.UpdateNoteParams{Transcription: new(padded)})
	switch {
	case err != nil:
		p.report.unseen("update.trims", "update %s", outcome(err))
	case note.Transcription == padded:
		p.report.set("update.trims", "kept")
	case note.Transcription == strings.TrimSpace(padded):
		p.report.set("update.trims", "trimmed")
	default:
		p.report.set("update.trims", "the text came back changed otherwise")
	}
	note, err = p.update(ctx, id, clinicaldoc.UpdateNoteParams{Transcription: new("")})
	switch {
	case statusOf(err) != 0:
		p.report.set("update.empties", "%s", outcome(err))
	case err != nil:
	case note.Transcription == "":
		p.report.set("update.empties", "clears it")
	default:
		p.report.set("update.empties", "leaves it as it was")
	}
}

// update changes a note and records how the response looks.
func (p *prober) update(
	ctx context.Context, id int64, params clinicaldoc.UpdateNoteParams,
) (*clinicaldoc.ProgressNote, error) {
	var r clinicaldoc.Response
	note, err := p.Client.Notes.Update(ctx, id, params, clinicaldoc.WithResponse(&r))
	p.observe("code.update", r, err)
	if err == nil {
		p.seen.noteBody(r.Body, true)
	}
	return note, err
}

// uploadSizes are the sizes of recordings that are tried: a service may accept the small one, and lose or refuse the
// large one.
var uploadSizes = []int{8_000, 256_000}

// askUploads uploads recordings of several sizes, with and without a Content-Length.
func (p *prober) askUploads(ctx context.Context) {
	p.askUploadLimit(ctx)
	p.askChunkedUploads(ctx)
}

// askUploadLimit uploads larger and larger recordings until the service does not accept one.
func (p *prober) askUploadLimit(ctx context.Context) {
	largest := int64(len(p.Audio)) // that was accepted
	limit := ""                    // what became of a larger one
	for _, size := range uploadSizes {
		if size < len(p.Audio) {
			continue // a larger one was accepted
		}
		params := p.params()
		params.Audio = clinicaldoc.AudioBytes("synthetic.wav", padded(p.Audio, size))
		note, err := p.createWith(ctx, params)
		if err != nil {
			limit = fmt.Sprintf("%s was %s", kilobytes(int64(size)), outcome(err))
			break
		}
		_ = p.remove(ctx, note.ID) // what stays is deleted at the end
		largest = int64(size)
	}
	if limit == "" {
		p.report.set("limits.upload", "none up to %s", kilobytes(largest))
	} else {
		p.report.set("limits.upload", "above %s: %s", kilobytes(largest), limit)
	}
}

// askChunkedUploads uploads recordings without a Content-Length.
func (p *prober) askChunkedUploads(ctx context.Context) {
	var results []string
	for _, size := range uploadSizes {
		recording := padded(p.Audio, size)
		params := p.params()
		params.Audio = clinicaldoc.AudioReader("synthetic.wav", bytes.NewReader(recording))
		note, err := p.createWith(ctx, params)
		result := "accepted"
		if err != nil {
			result = outcome(err)
		} else {
			_ = p.remove(ctx, note.ID) // what stays is deleted at the end
		}
		results = append(results, result+" at "+kilobytes(int64(len(recording))))
	}
	results = slices.Compact(results) // two are equal if the recording is longer than both sizes
	p.report.set("create.chunked", "%s", strings.Join(results, ", "))
}

// padded returns a recording with silence after it, up to the size. The lengths in the header of a WAV file are set to
// fit.
func padded(recording []byte, size int) []byte {
	long := append(slices.Clone(recording), make([]byte, max(0, size-len(recording)))...)
	isWAV := len(recording) >= 44 && string(long[:4]) == "RIFF" && string(long[36:40]) == "data"
	if isWAV {
		binary.LittleEndian.PutUint32(long[4:], uint32(len(long)-8))   //nolint:gosec // a short recording
		binary.LittleEndian.PutUint32(long[40:], uint32(len(long)-44)) //nolint:gosec // a short recording
	}
	return long
}

// kilobytes prints a size in kB, or in B if it is below one kB.
func kilobytes(size int64) string {
	if size < 1000 {
		return fmt.Sprintf("%d B", size)
	}
	return fmt.Sprintf("%d kB", size/1000)
}

// parts are the parts of a creation and how to leave one out.
var parts = []struct {
	name string
	omit func(*clinicaldoc.CreateNoteParams)
}{
	{"name", func(c *clinicaldoc.CreateNoteParams) { c.Name = "" }},
	{"patient_id", func(c *clinicaldoc.CreateNoteParams) { c.PatientID = 0 }},
	{"file", func(c *clinicaldoc.CreateNoteParams) { c.Audio = nil }},
	{"prompt_id", func(c *clinicaldoc.CreateNoteParams) { c.PromptID = 0 }},
}

// askRequiredParts sends a create without any part. Its refusal should name the required parts. Each part that it does
// not name is then omitted alone, because the refusal may be incomplete.
func (p *prober) askRequiredParts(ctx context.Context) {
	note, err := p.createWith(ctx, clinicaldoc.CreateNoteParams{})
	if err == nil {
		_ = p.remove(ctx, note.ID) // what stays is deleted at the end
		p.report.set("create.required", "none")
		p.report.unseen("error.422", "an empty creation was accepted")
		return
	}
	refusal := (*clinicaldoc.Error)(nil)
	if !errors.As(err, &refusal) {
		p.report.unseen("create.required", "%s", outcome(err))
		return
	}
	words := wording(refusal, "The given data was invalid")
	refused := names(slices.Collect(maps.Keys(refusal.Fields)))
	p.report.set("error.422", "%d, %s, fields: %s", refusal.StatusCode, words, refused)
	var required, uncertain []string
	for _, part := range parts {
		if _, named := refusal.Fields[part.name]; named {
			required = append(required, part.name)
			continue
		}
		params := p.params()
		part.omit(&params)
		note, err := p.createWith(ctx, params)
		switch {
		case err == nil:
			_ = p.remove(ctx, note.ID) // what stays is deleted at the end
		case errors.Is(err, clinicaldoc.ErrOutcomeUnknown):
			uncertain = append(uncertain, part.name)
		default:
			required = append(required, part.name)
		}
	}
	text := orNone(required, ", ")
	if len(uncertain) > 0 {
		text += "; the service failed without: " + strings.Join(uncertain, ", ")
	}
	p.report.set("create.required", "%s", text)
}

// wording returns whether an error's message is the described one, in words. Any other message is not repeated.
func wording(refusal *clinicaldoc.Error, described string) string {
	switch {
	case refusal.Message == "":
		return "no message"
	case strings.TrimSuffix(refusal.Message, ".") == described:
		return "message as described"
	}
	return "another message"
}
