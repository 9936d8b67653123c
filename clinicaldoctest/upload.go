package clinicaldoctest

import (
	"cmp"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxFieldSize = 64 << 10
	maxParts     = 100
)

var errMalformedUpload = errors.New("malformed multipart body")

// upload is the content of a creation's parts. Of parts with the same name the
// last counts.
type upload struct {
	fields url.Values
	file   *audio
}

func (s *state) createNote(c call) effect {
	sent, err := s.readUpload(c.Request, c.now)
	if err != nil {
		s.srv.removeFile(sent.file)
		return always(s.uploadRefusal(err))
	}
	if method := strings.ToUpper(sent.fields.Get("_method")); method != "" && method != http.MethodPost {
		s.srv.removeFile(sent.file)
		return always(s.variant().wrongMethod(method, createPath, c.allowed))
	}
	patientID, promptID, problems := s.validate(sent)
	if len(problems) > 0 {
		s.srv.removeFile(sent.file)
		return always(s.variant().invalid(problems))
	}
	return func(now time.Time) answer {
		created := s.storeNote(c, now, note{
			entry: &entry{patientID: patientID}, promptID: promptID, name: s.variant().storedName(sent.fields.Get("name")), audio: sent.file,
		})
		a := success(s.variant().wrapped(s.noteObject(created, now)))
		a.status = s.variant().CreateStatus
		return a
	}
}

// storeNote gives a new note its id, its script and the start of its life.
func (s *state) storeNote(c call, now time.Time, n note) *note {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.variant().ReuseIDs {
		n.id = s.notes.reuse()
	}
	n.id = cmp.Or(n.id, s.notes.next())
	n.name = cmp.Or(n.name, noteName(n.id))
	n.userID, n.teamID, n.requestID = c.user.id, c.user.teamID, seenRequest(c.Request).ID
	n.stage, n.stageSince, n.createdAt, n.updatedAt, n.at = StageUploaded, now, now, now, now
	n.stuck = n.audio == nil // there is nothing to transcribe
	if len(s.scripts) > 0 {
		n.script, s.scripts = &s.scripts[0], s.scripts[1:]
	}
	s.keepAudio(&n)
	s.notes.add(&n)
	s.requests.update(func() { seenRequest(c.Request).NoteID = n.id })
	return &n
}

func (s *state) uploadRefusal(err error) answer {
	var tooLarge *http.MaxBytesError
	var disk storageError
	switch {
	case errors.As(err, &tooLarge):
		return s.variant().tooLarge()
	case errors.As(err, &disk):
		return s.variant().refusal(http.StatusInternalServerError, "Server Error", "Server Error")
	default:
		return s.variant().invalid(map[string][]string{"file": {"The file failed to upload."}})
	}
}

// readUpload streams the parts of a creation: texts into memory, up to a
// bound, the file to disk. On an error the upload may still hold a file.
func (s *state) readUpload(r *http.Request, now time.Time) (upload, error) {
	sent := upload{fields: url.Values{}}
	if r.ContentLength > s.variant().MaxUploadSize {
		return sent, &http.MaxBytesError{Limit: s.variant().MaxUploadSize}
	}
	r.Body = http.MaxBytesReader(nil, r.Body, s.variant().MaxUploadSize)
	parts, err := r.MultipartReader()
	if errors.Is(err, http.ErrNotMultipart) {
		return sent, nil // no parts: validation names what is missing
	}
	if err != nil {
		return sent, errMalformedUpload
	}
	for range maxParts {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return sent, nil
		}
		if err != nil {
			return sent, err
		}
		if err := s.readPart(&sent, part, now); err != nil {
			return sent, err
		}
	}
	return sent, errMalformedUpload
}

func (s *state) readPart(sent *upload, part *multipart.Part, now time.Time) error {
	name := part.FormName()
	if name == "file" && part.FileName() != "" {
		s.srv.removeFile(sent.file)
		var err error
		sent.file, err = s.saveAudio(part, part.FileName(), part.Header.Get("Content-Type"), now)
		return err
	}
	text, err := io.ReadAll(io.LimitReader(part, maxFieldSize))
	sent.fields.Set(name, string(text))
	return err
}

// validate checks the parts of a creation and returns its ids.
func (s *state) validate(sent upload) (patientID, promptID int64, problems map[string][]string) {
	problems = map[string][]string{}
	complain := func(field, rest string) {
		problems[field] = append(problems[field], fieldMessage(field, rest))
	}
	missing := func(field string, isMissing bool) bool {
		if isMissing && !slices.Contains(s.variant().OptionalParts, field) {
			complain(field, "field is required.")
		}
		return isMissing
	}
	id := func(field string) int64 {
		text := s.variant().trimmed(sent.fields.Get(field))
		if isArray(sent.fields, field) {
			text = "[]"
		}
		if missing(field, text == "") {
			return 0
		}
		value, isInteger := parseInteger(text)
		switch {
		case !isInteger:
			complain(field, "must be an integer.")
		case value < 1:
			problems[field] = append(problems[field], "The selected "+fieldMessage(field, "is invalid.")[len("The "):])
		}
		return value
	}

	patientID, promptID = id("patient_id"), id("prompt_id")
	if _, seeded := s.patient(patientID); patientID > 0 && s.variant().PatientsMustExist && !seeded {
		problems["patient_id"] = []string{"The selected patient id is invalid."}
	}
	if _, seeded := s.prompt(promptID); promptID > 0 && s.variant().PromptsMustExist && !seeded {
		problems["prompt_id"] = []string{"The selected prompt id is invalid."}
	}
	name := s.variant().trimmed(sent.fields.Get("name"))
	if !missing("name", name == "") {
		switch {
		case !utf8.ValidString(name):
			complain("name", "must be a string.")
		case s.variant().nameTooLong(name):
			complain("name", "may not be greater than 255 characters.")
		}
	}
	switch {
	case sent.file == nil && sent.fields.Get("file") != "":
		complain("file", "must be a file.")
	default:
		missing("file", sent.file == nil)
	}
	return patientID, promptID, problems
}
