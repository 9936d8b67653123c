package clinicaldoc

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/tolerant"
)

// How the models of notes.go are read from JSON (fill), and what of them may be printed (LogValue).

func (n *ProgressNote) id() int64 { return n.ID }

func (n *ProgressNote) fill(d *jsonscan.Decoder) {
	var patientID int64
	tolerant.Object(d, func(key []byte) {
		switch string(key) {
		case "id":
			n.ID = tolerant.Integer(d)
		case "name":
			n.Name = tolerant.Text(d)
		case "transcription":
			n.Transcription = tolerant.Text(d)
		case "analysis":
			n.Analysis = tolerant.Text(d)
		case "template":
			n.Template = tolerant.Optional(d, (*Template).fill)
		case "patient":
			n.Patient = rawObject(d)
		case "patient_id":
			patientID = tolerant.IntegerOrZero(d)
		case "audio":
			n.Audio = tolerant.Optional(d, (*AudioInfo).fill)
		case "has":
			n.Has.fill(d)
		case "team_id":
			n.TeamID = tolerant.Integer(d)
		case "user_id":
			n.UserID = tolerant.Integer(d)
		case "user":
			n.User = rawObject(d)
		case "transcription_started_at":
			n.TranscriptionStartedAt = tolerant.Time(d)
		case "transcription_completed_at":
			n.TranscriptionCompletedAt = tolerant.Time(d)
		case "analysis_started_at":
			n.AnalysisStartedAt = tolerant.Time(d)
		case "analysis_completed_at":
			n.AnalysisCompletedAt = tolerant.Time(d)
		case "error_state":
			n.ErrorState = errorState(d)
		case "created_at":
			n.CreatedAt = tolerant.Time(d)
		case "updated_at":
			n.UpdatedAt = tolerant.Time(d)
		}
	})
	if patientID > 0 {
		n.Patient = n.Patient.naming(patientID)
	}
}

func (t *Template) fill(d *jsonscan.Decoder) {
	tolerant.Object(d, func(key []byte) {
		switch string(key) {
		case "id":
			t.ID = tolerant.Integer(d)
		case "name":
			t.Name = tolerant.Text(d)
		case "description":
			t.Description = tolerant.Text(d)
		}
	})
}

func (a *AudioInfo) fill(d *jsonscan.Decoder) {
	tolerant.Object(d, func(key []byte) {
		switch string(key) {
		case "duration":
			a.Duration = tolerant.Number(d)
		case "bitrate":
			a.Bitrate = tolerant.Integer(d)
		case "size":
			a.Size = tolerant.Integer(d)
		case "uploaded_at":
			a.UploadedAt = tolerant.Time(d)
		case "expires_at":
			a.ExpiresAt = tolerant.Time(d)
		case "file_url":
			a.FileURL = tolerant.Text(d)
		}
	})
}

func (c *Completion) fill(d *jsonscan.Decoder) {
	tolerant.Object(d, func(key []byte) {
		switch string(key) {
		case "content":
			c.Content = tolerant.Bool(d)
		case "transcription":
			c.Transcription = tolerant.Bool(d)
		case "signed":
			c.Signed = tolerant.Bool(d)
		}
	})
}

func (c *Confirmation) fill(d *jsonscan.Decoder) {
	tolerant.Object(d, func(key []byte) {
		if string(key) == "message" {
			c.Message = tolerant.Text(d)
		}
	})
}

// errorState reads the text of an error; should it come as something else than a text, it is kept as it is.
func errorState(d *jsonscan.Decoder) *string {
	if d.Kind() == jsonscan.String {
		return new(d.Text())
	}
	raw := d.Raw()
	switch string(raw) {
	case "", "null", "false", "0", "[]", "{}":
		return nil
	}
	return new(strings.ToValidUTF8(string(raw), "\ufffd")) // as texts are read, so that a stored one reads back equal
}

// UnmarshalJSON reads a note as tolerantly as the service's answers are read.
func (n *ProgressNote) UnmarshalJSON(data []byte) error {
	return tolerant.Unmarshal(data, n, (*ProgressNote).fill)
}

// UnmarshalJSON reads a template as tolerantly as the service's answers are read.
func (t *Template) UnmarshalJSON(data []byte) error {
	return tolerant.Unmarshal(data, t, (*Template).fill)
}

// UnmarshalJSON reads audio metadata as tolerantly as the service's answers are read.
func (a *AudioInfo) UnmarshalJSON(data []byte) error {
	return tolerant.Unmarshal(data, a, (*AudioInfo).fill)
}

// UnmarshalJSON reads flags as tolerantly as the service's answers are read.
func (c *Completion) UnmarshalJSON(data []byte) error {
	return tolerant.Unmarshal(data, c, (*Completion).fill)
}

// LogValue lists what may be logged of the note.
func (n ProgressNote) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int64("id", n.ID),
		slog.String("stage", n.Stage().String()),
		slog.Bool("transcription", n.Has.Transcription),
		slog.Bool("content", n.Has.Content),
		slog.Bool("signed", n.Has.Signed),
	)
}

// Format prints what LogValue lists for every verb.
func (n ProgressNote) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.ProgressNote", n) }

// LogValue lists what may be logged of the template.
func (t Template) LogValue() slog.Value { return slog.GroupValue(slog.Int64("id", t.ID)) }

// Format prints what LogValue lists for every verb.
func (t Template) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.Template", t) }

// LogValue lists what may be logged of the recording's metadata.
func (a AudioInfo) LogValue() slog.Value {
	return slog.GroupValue(slog.Float64("duration", a.Duration), slog.Int64("bitrate", a.Bitrate), slog.Int64("size", a.Size))
}

// Format prints what LogValue lists for every verb.
func (a AudioInfo) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.AudioInfo", a) }

// LogValue lists nothing: the message is the service's own words.
func (c Confirmation) LogValue() slog.Value { return slog.GroupValue() }

// Format prints the type's name for every verb.
func (c Confirmation) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.Confirmation", c) }

// LogValue lists the names of the fields to change.
func (p UpdateNoteParams) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Bool("name", p.Name != nil),
		slog.Bool("transcription", p.Transcription != nil),
		slog.Bool("analysis", p.Analysis != nil),
	)
}

// Format prints what LogValue lists for every verb.
func (p UpdateNoteParams) Format(s fmt.State, _ rune) {
	redact.Format(s, "clinicaldoc.UpdateNoteParams", p)
}

// LogValue lists what may be logged of the params: neither name nor patient.
func (p CreateNoteParams) LogValue() slog.Value {
	return slog.GroupValue(slog.Int64("prompt_id", p.PromptID), slog.Bool("audio", p.Audio != nil))
}

// Format prints what LogValue lists for every verb.
func (p CreateNoteParams) Format(s fmt.State, _ rune) {
	redact.Format(s, "clinicaldoc.CreateNoteParams", p)
}
