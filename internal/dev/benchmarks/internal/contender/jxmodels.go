package contender

import (
	"encoding/json"
	"time"

	"github.com/go-faster/jx"
)

// free is an object whose fields are not described.
type free map[string]json.RawMessage

type jxPage struct {
	Data  []jxNote `json:"data"`
	Links free     `json:"links"`
	Meta  free     `json:"meta"`
}

// Optional fields are values, which generated code accompanies by a flag.
type jxNote struct {
	ID                       int64      `json:"id"`
	Name                     string     `json:"name"`
	Transcription            string     `json:"transcription"`
	Analysis                 string     `json:"analysis"`
	Template                 jxTemplate `json:"template"`
	Patient                  free       `json:"patient"`
	Audio                    jxAudio    `json:"audio"`
	Has                      jxHas      `json:"has"`
	TeamID                   int64      `json:"team_id"`
	UserID                   int64      `json:"user_id"`
	User                     free       `json:"user"`
	TranscriptionStartedAt   time.Time  `json:"transcription_started_at"`
	TranscriptionCompletedAt time.Time  `json:"transcription_completed_at"`
	AnalysisStartedAt        time.Time  `json:"analysis_started_at"`
	AnalysisCompletedAt      time.Time  `json:"analysis_completed_at"`
	ErrorState               *string    `json:"error_state"`
	CreatedAt                time.Time  `json:"created_at"`
	UpdatedAt                time.Time  `json:"updated_at"`
}

type jxTemplate struct {
	ID          int64  `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
}

type jxAudio struct {
	Duration   float64   `json:"duration"`
	Bitrate    int64     `json:"bitrate"`
	Size       int64     `json:"size"`
	UploadedAt time.Time `json:"uploaded_at"`
	ExpiresAt  time.Time `json:"expires_at"`
	FileURL    string    `json:"file_url"`
}

type jxHas struct {
	Content       bool `json:"content"`
	Transcription bool `json:"transcription"`
	Signed        bool `json:"signed"`
}

// Decode reads the page.
func (p *jxPage) Decode(d *jx.Decoder) error {
	return d.ObjBytes(func(d *jx.Decoder, key []byte) error {
		switch string(key) {
		case "data":
			p.Data = make([]jxNote, 0)
			return d.Arr(func(d *jx.Decoder) error {
				var note jxNote
				if err := note.Decode(d); err != nil {
					return err
				}
				p.Data = append(p.Data, note)
				return nil
			})
		case "links":
			return p.Links.Decode(d)
		case "meta":
			return p.Meta.Decode(d)
		}
		return d.Skip()
	})
}

// Decode reads the note.
func (n *jxNote) Decode(d *jx.Decoder) error {
	return d.ObjBytes(func(d *jx.Decoder, key []byte) (err error) {
		switch string(key) {
		case "id":
			n.ID, err = d.Int64()
		case "name":
			n.Name, err = d.Str()
		case "transcription":
			n.Transcription, err = d.Str()
		case "analysis":
			n.Analysis, err = d.Str()
		case "template":
			err = n.Template.Decode(d)
		case "patient":
			err = n.Patient.Decode(d)
		case "audio":
			err = n.Audio.Decode(d)
		case "has":
			err = n.Has.Decode(d)
		case "team_id":
			n.TeamID, err = d.Int64()
		case "user_id":
			n.UserID, err = d.Int64()
		case "user":
			err = n.User.Decode(d)
		case "transcription_started_at":
			n.TranscriptionStartedAt, err = decodeTime(d)
		case "transcription_completed_at":
			n.TranscriptionCompletedAt, err = decodeTime(d)
		case "analysis_started_at":
			n.AnalysisStartedAt, err = decodeTime(d)
		case "analysis_completed_at":
			n.AnalysisCompletedAt, err = decodeTime(d)
		case "error_state":
			n.ErrorState, err = decodeNullable(d)
		case "created_at":
			n.CreatedAt, err = decodeTime(d)
		case "updated_at":
			n.UpdatedAt, err = decodeTime(d)
		default:
			err = d.Skip()
		}
		return err
	})
}

// Decode reads any object.
func (f *free) Decode(d *jx.Decoder) error {
	fields := make(free)
	*f = fields
	return d.ObjBytes(func(d *jx.Decoder, key []byte) error {
		value, err := d.RawAppend(nil)
		fields[string(key)] = json.RawMessage(value)
		return err
	})
}

// Decode reads the template.
func (t *jxTemplate) Decode(d *jx.Decoder) error {
	return d.ObjBytes(func(d *jx.Decoder, key []byte) (err error) {
		switch string(key) {
		case "id":
			t.ID, err = d.Int64()
		case "name":
			t.Name, err = d.Str()
		case "description":
			t.Description, err = d.Str()
		default:
			err = d.Skip()
		}
		return err
	})
}

// Decode reads the metadata.
func (a *jxAudio) Decode(d *jx.Decoder) error {
	return d.ObjBytes(func(d *jx.Decoder, key []byte) (err error) {
		switch string(key) {
		case "duration":
			a.Duration, err = d.Float64()
		case "bitrate":
			a.Bitrate, err = d.Int64()
		case "size":
			a.Size, err = d.Int64()
		case "uploaded_at":
			a.UploadedAt, err = decodeTime(d)
		case "expires_at":
			a.ExpiresAt, err = decodeTime(d)
		case "file_url":
			a.FileURL, err = d.Str()
		default:
			err = d.Skip()
		}
		return err
	})
}

// Decode reads the flags.
func (h *jxHas) Decode(d *jx.Decoder) error {
	return d.ObjBytes(func(d *jx.Decoder, key []byte) (err error) {
		switch string(key) {
		case "content":
			h.Content, err = d.Bool()
		case "transcription":
			h.Transcription, err = d.Bool()
		case "signed":
			h.Signed, err = d.Bool()
		default:
			err = d.Skip()
		}
		return err
	})
}

func decodeTime(d *jx.Decoder) (time.Time, error) {
	text, err := d.Str()
	if err != nil {
		return time.Time{}, err
	}
	return time.Parse(time.RFC3339, text)
}

func decodeNullable(d *jx.Decoder) (*string, error) {
	if d.Next() == jx.Null {
		return nil, d.Null()
	}
	text, err := d.Str()
	return &text, err
}
