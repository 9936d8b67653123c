package clinicaldoctest

import (
	"fmt"
	"strconv"
	"time"
)

// object is a JSON object. The box names every member in this file and shares
// no wire type with the SDK, so that one wrong name cannot hide on both sides.
type object map[string]any

// noteObject returns a note as the variant shows it.
func (s *state) noteObject(n *note, now time.Time) object {
	v := s.variant()
	body := object{
		"id":          n.id,
		"name":        n.name,
		"team_id":     n.teamID,
		"user_id":     n.userID,
		"error_state": nil,
		"has": object{
			"content":       !n.analysisCompleted.IsZero(),
			"transcription": !n.transcriptionCompleted.IsZero(),
			"signed":        n.stage == StageSigned,
		},
		"created_at": v.time(n.createdAt),
		"updated_at": v.time(n.updatedAt),
	}
	if n.errorState != "" {
		body["error_state"] = n.errorState
	}
	v.putText(body, "transcription", n.transcription)
	v.putText(body, "analysis", n.analysis)
	v.putTime(body, "transcription_started_at", n.transcriptionStarted)
	v.putTime(body, "transcription_completed_at", n.transcriptionCompleted)
	v.putTime(body, "analysis_started_at", n.analysisStarted)
	v.putTime(body, "analysis_completed_at", n.analysisCompleted)
	v.putObject(body, "template", s.templateObject(n.promptID))
	v.putObject(body, "patient", s.patientObject(n.patientID))
	v.putObject(body, "user", s.ownerObject(n.userID))
	v.putObject(body, "audio", s.audioObject(n, now))
	if v.Patient == PatientID {
		body["patient_id"] = n.patientID
	}
	return v.extended(body)
}

func (s *state) templateObject(promptID int64) object {
	if promptID == 0 {
		return nil
	}
	p, _ := s.prompt(promptID)
	return object{"id": p.ID, "name": p.Name, "description": p.Description}
}

// rowObject is a note as a list shows it.
func (s *state) rowObject(row *note, now time.Time) object {
	n := *row
	if s.variant().ListTexts == ListTextsExcerpt {
		n.transcription = excerpt(n.transcription)
		n.analysis = excerpt(n.analysis)
	}
	body := s.noteObject(&n, now)
	if s.variant().ListTexts == ListTextsAbsent {
		delete(body, "transcription")
		delete(body, "analysis")
	}
	return body
}

// excerpt returns the first 100 characters of a text, and "..." if there are more.
func excerpt(text string) string {
	const length = 100
	letters := []rune(text)
	if len(letters) <= length {
		return text
	}
	return string(letters[:length]) + "..."
}

func (s *state) patientObject(id int64) object {
	if s.variant().Patient != PatientObject || id == 0 {
		return nil
	}
	name, _ := s.patient(id)
	return object{"id": id, "name": name}
}

func (s *state) ownerObject(id int64) object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return object{"id": id, "name": s.users[id].name}
}

func (s *state) audioObject(n *note, now time.Time) object {
	a := n.audio
	if a == nil {
		return nil
	}
	v := s.variant()
	body := object{
		"duration":    v.number(a.duration),
		"bitrate":     v.number(a.bitrate),
		"size":        v.number(a.reportedSize(v.Audio)),
		"uploaded_at": v.time(a.uploadedAt),
		"expires_at":  v.time(a.expiresAt),
	}
	address := ""
	if now.Before(a.expiresAt) {
		address = s.signedURL(n.audioKey(), now)
	}
	v.putText(body, "file_url", address)
	return body
}

func (s *state) userObject(u user) object {
	v := s.variant()
	return v.extended(object{
		"id":         u.id,
		"name":       u.name,
		"email":      u.email,
		"created_at": v.time(u.createdAt),
		"updated_at": v.time(u.createdAt),
	})
}

func (v *Variant) tokenObject(t token) object {
	body := object{"id": t.id, "name": t.name, "created_at": v.time(t.createdAt)}
	v.putTime(body, "last_used_at", t.lastUsedAt)
	return v.extended(body)
}

// errorObject is an Error body.
func (v *Variant) errorObject(message string, fields map[string][]string) object {
	body := object{"message": message}
	switch {
	case len(fields) > 0:
		body["errors"] = fields
	case v.Empty == EmptyArray:
		body["errors"] = []any{}
	}
	return body
}

// wrapped puts a single object into "data" where the variant does.
func (v *Variant) wrapped(body object) object {
	if v.WrapObjects {
		return object{"data": body}
	}
	return body
}

// extended adds members of several types that no client can know.
func (v *Variant) extended(body object) object {
	if v.ExtraFields {
		body["undescribed_text"] = "synthetic"
		body["undescribed_list"] = []any{1, "two", nil}
		body["undescribed_object"] = object{"nested": object{"deep": true}}
	}
	return body
}

func (v *Variant) putText(body object, key, text string) {
	if text == "" {
		v.putNothing(body, key)
		return
	}
	body[key] = text
}

func (v *Variant) putTime(body object, key string, t time.Time) {
	if t.IsZero() {
		v.putNothing(body, key)
		return
	}
	body[key] = v.time(t)
}

func (v *Variant) putObject(body object, key string, value object) {
	switch {
	case value != nil:
		body[key] = value
	case v.Empty == EmptyArray:
		body[key] = []any{} // how PHP encodes an empty map
	default:
		v.putNothing(body, key)
	}
}

func (v *Variant) putNothing(body object, key string) {
	if v.Empty != EmptyAbsent {
		body[key] = nil
	}
}

// localZone is where a service is whose times are not in UTC.
var localZone = time.FixedZone("", 2*60*60)

func (v *Variant) time(t time.Time) string {
	switch v.Times {
	case TimeWholeSeconds:
		return t.UTC().Truncate(time.Second).Format("2006-01-02T15:04:05.000000Z07:00")
	case TimeOffset:
		return t.In(localZone).Format("2006-01-02T15:04:05.000000Z07:00")
	case TimeNoZone:
		return t.UTC().Format(time.DateTime)
	case TimeLocalNoZone:
		return t.In(localZone).Format(time.DateTime)
	default:
		return t.UTC().Format("2006-01-02T15:04:05.000000Z07:00")
	}
}

// number returns a number of audio or page metadata as the variant sends it: unchanged, or as a text.
func (v *Variant) number(n any) any {
	if !v.NumbersAsStrings || n == nil {
		return n
	}
	if f, ok := n.(float64); ok {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return fmt.Sprint(n)
}
