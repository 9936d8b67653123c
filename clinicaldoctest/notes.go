package clinicaldoctest

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxJSONSize   = 8 << 20
	maxNameLength = 255
)

func (s *state) getNote(c call) answer {
	return s.withNote(c, func(*note) *answer { return nil })
}

func (s *state) signNote(c call) answer {
	return s.withNote(c, func(n *note) *answer {
		switch {
		case n.userID != c.user.id:
			return new(s.variant().forbidden())
		case n.stage == StageSigned:
			return nil
		case n.stage != StageComplete:
			return new(s.variant().incomplete())
		}
		n.stage = StageSigned
		n.updatedAt = c.now
		return nil
	})
}

// updateNote reads the changes at once, because the body can be read only now. Its effect applies them.
func (s *state) updateNote(c call) effect {
	changes, refused := s.readChanges(c.Request)
	return func(now time.Time) answer {
		c.now = now
		return s.withNote(c, func(n *note) *answer {
			if denied := s.refuseChange(c, n); denied != nil {
				return denied
			}
			if refused != nil { // permission comes before validation
				return refused
			}
			changes.apply(n, c.now)
			return nil
		})
	}
}

func (s *state) deleteNote(c call) answer {
	var orphan *audio
	deleted := s.withNote(c, func(n *note) *answer {
		if denied := s.refuseChange(c, n); denied != nil {
			return denied
		}
		n.deletes = true
		orphan = n.audio
		s.dropAudio(orphan)
		return new(s.variant().confirmation("Progress note deleted"))
	})
	s.srv.removeFile(orphan)
	return deleted
}

// deleteNotes deletes notes and their recordings for the fault [Vanish], as
// if another client had deleted them. IDs of unknown notes are skipped.
func (s *state) deleteNotes(ids []int64) {
	now := s.now()
	var orphans []*audio
	s.mu.Lock()
	for _, id := range ids {
		n := s.notes.get(id).current()
		if n == nil {
			continue
		}
		gone := n.settled(now, s.delays)
		gone.deletes = true
		s.addVersion(gone, now)
		s.dropAudio(n.audio)
		orphans = append(orphans, n.audio)
	}
	s.mu.Unlock()
	for _, orphan := range orphans {
		s.srv.removeFile(orphan)
	}
}

func (s *state) audioURL(c call) answer {
	return s.withNote(c, func(n *note) *answer {
		if n.audio == nil || !c.now.Before(n.audio.expiresAt) {
			return new(s.variant().notFound("Audio", c.id))
		}
		return new(success(object{"url": s.signedURL(n.audioKey(), c.now)}))
	})
}

// withNote calls act with a copy of the note in the path, which becomes the note's next version. The answer is the
// note, unless act has its own answer.
func (s *state) withNote(c call, act func(*note) *answer) answer {
	s.mu.Lock()
	n := s.noteOf(c)
	if n == nil {
		s.mu.Unlock()
		return s.variant().notFound("ProgressNote", c.id)
	}
	own := act(n)
	succeeded := own == nil || own.status < http.StatusBadRequest
	if succeeded && !isRead(c.Request) {
		s.addVersion(n, c.now)
		s.requests.update(func() { seenRequest(c.Request).NoteID = n.id })
	}
	s.mu.Unlock()
	if own != nil {
		return *own
	}
	return success(s.variant().wrapped(s.noteObject(n, c.now)))
}

// addVersion makes the changed copy of a note its last version. The caller holds the lock.
func (s *state) addVersion(n *note, now time.Time) {
	n.before = n.note()
	n.at = now
	n.version = n.before.version + 1
	s.notes.add(n)
}

// noteOf returns a copy of the note that the path names, in its stage by now. The fault Lagging makes it older. It is
// nil if there is no such note, or if it belongs to another team. The caller holds the lock.
func (s *state) noteOf(c call) *note {
	id, err := strconv.ParseInt(c.id, 10, 64)
	if err != nil || strconv.FormatInt(id, 10) != c.id { // "+7" and "007" name no note
		return nil
	}
	lag := lagOf(c.Request)
	n := s.notes.get(id).read(c.now, lag)
	if n == nil || n.teamID != c.user.teamID {
		return nil
	}
	return n.settled(c.now.Add(-lag), s.delays)
}

// refuseChange returns the answer to a caller that may not change or delete a note, or nil.
func (s *state) refuseChange(c call, n *note) *answer {
	switch {
	case n.userID != c.user.id:
		return new(s.variant().forbidden())
	case n.stage == StageSigned && s.variant().SignedChangeStatus != 0:
		return new(s.variant().alreadySigned())
	}
	return nil
}

// changes are the texts an update sets; nil leaves one as it is.
type changes struct{ name, transcription, analysis *string }

// apply sets the texts. As in the framework, texts that are there already
// leave the note's date alone.
func (c changes) apply(n *note, now time.Time) {
	set := func(text, to *string) {
		if to != nil && *text != *to {
			*text = *to
			n.updatedAt = now
		}
	}
	set(&n.name, c.name)
	set(&n.transcription, c.transcription)
	set(&n.analysis, c.analysis)
	n.transcriptionEdited = n.transcriptionEdited || c.transcription != nil
	n.analysisEdited = n.analysisEdited || c.analysis != nil
}

// readChanges reads and validates the body of an update.
func (s *state) readChanges(r *http.Request) (changes, *answer) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxJSONSize))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return changes{}, new(s.variant().refusal(http.StatusRequestEntityTooLarge, "The request is too large.", ""))
	}
	fields, readable := readFields(r.Header.Get("Content-Type"), body)
	if err != nil || !readable && s.variant().RefuseMalformedBody {
		const text = "The request could not be read"
		return changes{}, new(s.variant().refusal(http.StatusBadRequest, text, "Bad Request"))
	}
	var read changes
	problems := map[string][]string{}
	for name, target := range map[string]**string{
		"name": &read.name, "transcription": &read.transcription, "analysis": &read.analysis,
	} {
		raw, sent := fields[name]
		if !sent {
			continue
		}
		text, problem := s.readText(name, raw)
		if problem != "" {
			problems[name] = []string{problem}
		}
		*target = &text
	}
	if len(problems) > 0 {
		return changes{}, new(s.variant().invalid(problems))
	}
	return read, nil
}

// readFields reads the fields of an update: from a JSON object, or from a form that is not multipart, because the
// framework does not read multipart bodies of a PUT. Any other body is not readable and has no fields. An empty body is
// readable.
func readFields(contentType string, body []byte) (fields map[string]json.RawMessage, readable bool) {
	mediaType, _, _ := mime.ParseMediaType(contentType)
	switch {
	case len(body) == 0:
		return nil, true
	case strings.Contains(contentType, "/json") || strings.Contains(contentType, "+json"): // in lower case only
		readable = utf8.Valid(body) && json.Unmarshal(body, &fields) == nil && fields != nil
		return fields, readable
	case mediaType == formType:
		fields = map[string]json.RawMessage{}
		for name, values := range readQuery(string(body)) {
			fields[name] = encode(strings.ToValidUTF8(values[0], "?"))
		}
		return fields, true
	}
	return nil, false
}

// readText validates one text of an update. The framework turns an empty
// string into null, so both clear a text, and neither can be a name.
func (s *state) readText(name string, raw json.RawMessage) (text, problem string) {
	var value *string
	if json.Unmarshal(raw, &value) != nil {
		return "", fieldMessage(name, "must be a string.")
	}
	if value != nil {
		text = s.variant().trimmed(*value)
	}
	if name == "name" {
		text = s.variant().storedName(text)
	}
	switch {
	case name == "name" && text == "":
		return "", fieldMessage(name, "field is required.")
	case name == "name" && s.variant().nameTooLong(text):
		return "", fieldMessage(name, "may not be greater than 255 characters.")
	case text == "" && s.variant().RefuseEmptyText:
		return "", fieldMessage(name, "must be a string.")
	}
	return text, ""
}

func (v *Variant) trimmed(text string) string {
	if v.KeepOuterSpace {
		return text
	}
	return strings.TrimSpace(text)
}

// fieldMessage is a validation message about a field.
func fieldMessage(field, rest string) string {
	return "The " + strings.ReplaceAll(field, "_", " ") + " " + rest
}
