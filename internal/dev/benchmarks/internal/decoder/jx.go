package decoder

import (
	"time"

	"github.com/go-faster/jx"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/synthetic"
)

// byHand is jx with one scratch buffer, so that each text is copied once.
type byHand struct {
	*jx.Decoder
	scratch []byte
}

func decodeJX(document []byte) (*synthetic.Page, error) {
	page := new(synthetic.Page)
	d := &byHand{Decoder: jx.DecodeBytes(document)}
	return page, d.ObjBytes(func(_ *jx.Decoder, key []byte) error {
		switch string(key) {
		case "data":
			return d.Arr(func(*jx.Decoder) error {
				page.Data = append(page.Data, synthetic.Note{})
				return d.note(&page.Data[len(page.Data)-1])
			})
		case "meta":
			return d.ObjBytes(func(_ *jx.Decoder, key []byte) (err error) {
				switch string(key) {
				case "current_page":
					page.Meta.CurrentPage, err = d.Int()
				case "last_page":
					page.Meta.LastPage, err = d.Int()
				case "per_page":
					page.Meta.PerPage, err = d.Int()
				case "total":
					page.Meta.Total, err = d.Int()
				default:
					err = d.Skip()
				}
				return err
			})
		}
		return d.Skip()
	})
}

func (d *byHand) note(n *synthetic.Note) error {
	return d.ObjBytes(func(_ *jx.Decoder, key []byte) (err error) {
		switch string(key) {
		case "id":
			n.ID, err = d.Int64()
		case "name":
			n.Name, err = d.text()
		case "transcription":
			n.Transcription, err = pointer(d.text())
		case "analysis":
			n.Analysis, err = pointer(d.text())
		case "template":
			n.Template = new(synthetic.Template)
			err = d.template(n.Template)
		case "patient":
			n.Patient, err = d.raw()
		case "audio":
			n.Audio = new(synthetic.Audio)
			err = d.audio(n.Audio)
		case "has":
			n.Has = new(synthetic.Has)
			err = d.has(n.Has)
		case "team_id":
			n.TeamID, err = d.Int64()
		case "user_id":
			n.UserID, err = d.Int64()
		case "user":
			n.User, err = d.raw()
		case "transcription_started_at":
			n.TranscriptionStartedAt, err = pointer(d.time())
		case "transcription_completed_at":
			n.TranscriptionCompletedAt, err = pointer(d.time())
		case "analysis_started_at":
			n.AnalysisStartedAt, err = pointer(d.time())
		case "analysis_completed_at":
			n.AnalysisCompletedAt, err = pointer(d.time())
		case "error_state":
			if d.Next() == jx.Null {
				return d.Null()
			}
			n.ErrorState, err = pointer(d.text())
		case "created_at":
			n.CreatedAt, err = d.time()
		case "updated_at":
			n.UpdatedAt, err = d.time()
		default:
			err = d.Skip()
		}
		return err
	})
}

func (d *byHand) template(t *synthetic.Template) error {
	return d.ObjBytes(func(_ *jx.Decoder, key []byte) (err error) {
		switch string(key) {
		case "id":
			t.ID, err = pointer(d.Int64())
		case "name":
			t.Name, err = pointer(d.text())
		case "description":
			t.Description, err = pointer(d.text())
		default:
			err = d.Skip()
		}
		return err
	})
}

func (d *byHand) audio(a *synthetic.Audio) error {
	return d.ObjBytes(func(_ *jx.Decoder, key []byte) (err error) {
		switch string(key) {
		case "duration":
			a.Duration, err = pointer(d.Float64())
		case "bitrate":
			a.Bitrate, err = pointer(d.Int64())
		case "size":
			a.Size, err = pointer(d.Int64())
		case "uploaded_at":
			a.UploadedAt, err = pointer(d.time())
		case "expires_at":
			a.ExpiresAt, err = pointer(d.time())
		case "file_url":
			a.FileURL, err = pointer(d.text())
		default:
			err = d.Skip()
		}
		return err
	})
}

func (d *byHand) has(h *synthetic.Has) error {
	return d.ObjBytes(func(_ *jx.Decoder, key []byte) (err error) {
		switch string(key) {
		case "content":
			h.Content, err = pointer(d.Bool())
		case "transcription":
			h.Transcription, err = pointer(d.Bool())
		case "signed":
			h.Signed, err = pointer(d.Bool())
		default:
			err = d.Skip()
		}
		return err
	})
}

func (d *byHand) text() (string, error) {
	var err error
	d.scratch, err = d.StrAppend(d.scratch[:0])
	return string(d.scratch), err
}

func (d *byHand) raw() ([]byte, error) { return d.RawAppend(nil) }

func (d *byHand) time() (t time.Time, err error) {
	if d.scratch, err = d.StrAppend(d.scratch[:0]); err != nil {
		return t, err
	}
	err = t.UnmarshalText(d.scratch)
	return t, err
}

func pointer[T any](value T, err error) (*T, error) { return &value, err }
