package clinicaldoc

import (
	"fmt"
	"log/slog"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// How the models of notes.go are read from JSON (fill), and what of them may be printed (LogValue).

func (n *ProgressNote) id() int64 { return n.ID }

func (n *ProgressNote) fill(d *jsonscan.Decoder) {
	var patientID int64
	object(d, func(key []byte) {
		switch string(key) {
		case "id":
			n.ID = integer(d)
		case "name":
			n.Name = textOrEmpty(d)
		case "transcription":
			n.Transcription = textOrEmpty(d)
		case "analysis":
			n.Analysis = textOrEmpty(d)
		case "template":
			n.Template = optional(d, (*Template).fill)
		case "patient":
			n.Patient = rawObject(d)
		case "patient_id":
			patientID = integerOrZero(d)
		case "audio":
			n.Audio = optional(d, (*AudioInfo).fill)
		case "has":
			n.Has.fill(d)
		case "team_id":
			n.TeamID = integer(d)
		case "user_id":
			n.UserID = integer(d)
		case "user":
			n.User = rawObject(d)
		case "transcription_started_at":
			n.TranscriptionStartedAt = instant(d)
		case "transcription_completed_at":
			n.TranscriptionCompletedAt = instant(d)
		case "analysis_started_at":
			n.AnalysisStartedAt = instant(d)
		case "analysis_completed_at":
			n.AnalysisCompletedAt = instant(d)
		case "error_state":
			n.ErrorState = errorState(d)
		case "created_at":
			n.CreatedAt = instant(d)
		case "updated_at":
			n.UpdatedAt = instant(d)
		}
	})
	if patientID > 0 {
		n.Patient = n.Patient.naming(patientID)
	}
}

func (t *Template) fill(d *jsonscan.Decoder) {
	object(d, func(key []byte) {
		switch string(key) {
		case "id":
			t.ID = integer(d)
		case "name":
			t.Name = textOrEmpty(d)
		case "description":
			t.Description = textOrEmpty(d)
		}
	})
}

func (a *AudioInfo) fill(d *jsonscan.Decoder) {
	object(d, func(key []byte) {
		switch string(key) {
		case "duration":
			a.Duration = decimal(d)
		case "bitrate":
			a.Bitrate = integer(d)
		case "size":
			a.Size = integer(d)
		case "uploaded_at":
			a.UploadedAt = instant(d)
		case "expires_at":
			a.ExpiresAt = instant(d)
		case "file_url":
			a.FileURL = textOrEmpty(d)
		}
	})
}

func (c *Completion) fill(d *jsonscan.Decoder) {
	object(d, func(key []byte) {
		switch string(key) {
		case "content":
			c.Content = flag(d)
		case "transcription":
			c.Transcription = flag(d)
		case "signed":
			c.Signed = flag(d)
		}
	})
}

func (c *Confirmation) fill(d *jsonscan.Decoder) {
	object(d, func(key []byte) {
		if string(key) == "message" {
			c.Message = textOrEmpty(d)
		}
	})
}

// UnmarshalJSON reads a note as tolerantly as the service's answers are read.
func (n *ProgressNote) UnmarshalJSON(data []byte) error {
	return unmarshal(data, n, (*ProgressNote).fill)
}

// UnmarshalJSON reads a template as tolerantly as the service's answers are read.
func (t *Template) UnmarshalJSON(data []byte) error { return unmarshal(data, t, (*Template).fill) }

// UnmarshalJSON reads audio metadata as tolerantly as the service's answers are read.
func (a *AudioInfo) UnmarshalJSON(data []byte) error { return unmarshal(data, a, (*AudioInfo).fill) }

// UnmarshalJSON reads flags as tolerantly as the service's answers are read.
func (c *Completion) UnmarshalJSON(data []byte) error { return unmarshal(data, c, (*Completion).fill) }

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
