package decoder

import (
	"bytes"
	"strconv"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/synthetic"
	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
)

func decodeJSONScan(document []byte) (*synthetic.Page, error) {
	page := new(synthetic.Page)
	d := jsonscan.New(document)
	for key := range d.Fields() {
		switch string(key) {
		case "data":
			for range d.Elements() {
				page.Data = append(page.Data, synthetic.Note{})
				scanNote(d, &page.Data[len(page.Data)-1])
			}
		case "meta":
			for key := range d.Fields() {
				switch string(key) {
				case "current_page":
					page.Meta.CurrentPage = int(scanInt(d))
				case "last_page":
					page.Meta.LastPage = int(scanInt(d))
				case "per_page":
					page.Meta.PerPage = int(scanInt(d))
				case "total":
					page.Meta.Total = int(scanInt(d))
				}
			}
		}
	}
	return page, d.End()
}

func scanNote(d *jsonscan.Decoder, n *synthetic.Note) {
	for key := range d.Fields() {
		switch string(key) {
		case "id":
			n.ID = scanInt(d)
		case "name":
			n.Name = d.Text()
		case "transcription":
			n.Transcription = new(d.Text())
		case "analysis":
			n.Analysis = new(d.Text())
		case "template":
			n.Template = new(synthetic.Template)
			scanTemplate(d, n.Template)
		case "patient":
			n.Patient = bytes.Clone(d.Raw())
		case "audio":
			n.Audio = new(synthetic.Audio)
			scanAudio(d, n.Audio)
		case "has":
			n.Has = new(synthetic.Has)
			scanHas(d, n.Has)
		case "team_id":
			n.TeamID = scanInt(d)
		case "user_id":
			n.UserID = scanInt(d)
		case "user":
			n.User = bytes.Clone(d.Raw())
		case "transcription_started_at":
			n.TranscriptionStartedAt = new(scanTime(d))
		case "transcription_completed_at":
			n.TranscriptionCompletedAt = new(scanTime(d))
		case "analysis_started_at":
			n.AnalysisStartedAt = new(scanTime(d))
		case "analysis_completed_at":
			n.AnalysisCompletedAt = new(scanTime(d))
		case "error_state":
			if !d.Null() {
				n.ErrorState = new(d.Text())
			}
		case "created_at":
			n.CreatedAt = scanTime(d)
		case "updated_at":
			n.UpdatedAt = scanTime(d)
		}
	}
}

func scanTemplate(d *jsonscan.Decoder, t *synthetic.Template) {
	for key := range d.Fields() {
		switch string(key) {
		case "id":
			t.ID = new(scanInt(d))
		case "name":
			t.Name = new(d.Text())
		case "description":
			t.Description = new(d.Text())
		}
	}
}

func scanAudio(d *jsonscan.Decoder, a *synthetic.Audio) {
	for key := range d.Fields() {
		switch string(key) {
		case "duration":
			duration, err := strconv.ParseFloat(string(d.Raw()), 64)
			if err != nil {
				d.Fail("a number")
			}
			a.Duration = &duration
		case "bitrate":
			a.Bitrate = new(scanInt(d))
		case "size":
			a.Size = new(scanInt(d))
		case "uploaded_at":
			a.UploadedAt = new(scanTime(d))
		case "expires_at":
			a.ExpiresAt = new(scanTime(d))
		case "file_url":
			a.FileURL = new(d.Text())
		}
	}
}

func scanHas(d *jsonscan.Decoder, h *synthetic.Has) {
	for key := range d.Fields() {
		switch string(key) {
		case "content":
			h.Content = new(d.Bool())
		case "transcription":
			h.Transcription = new(d.Bool())
		case "signed":
			h.Signed = new(d.Bool())
		}
	}
}

func scanInt(d *jsonscan.Decoder) int64 {
	n, err := strconv.ParseInt(string(d.Raw()), 10, 64)
	if err != nil {
		d.Fail("a whole number")
	}
	return n
}

func scanTime(d *jsonscan.Decoder) time.Time {
	var t time.Time
	if err := t.UnmarshalText(d.TextBytes()); err != nil {
		d.Fail("a date-time")
	}
	return t
}
