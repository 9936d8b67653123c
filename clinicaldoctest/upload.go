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
			entry: &entry{patientID: patientID}, promptID: promptID, audio: sent.file,
			name: s.variant().storedName(sent.fields.Get("name")),
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
	n.userID = c.user.id
	n.teamID = c.user.teamID
	n.requestID = seenRequest(c.Request).ID
	n.stage = StageUploaded
	n.stageSince = now
	n.createdAt = now
	n.updatedAt = now
	n.at = now
	n.stuck = n.audio == nil // there is nothing to transcribe
	if len(s.scripts) > 0 {
		n.script = &s.scripts[0]
		s.scripts = s.scripts[1:]
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

// readPart reads one part of a creation into sent. A recording replaces the one of an earlier part, whose file is
// removed. A text is cut off after maxFieldSize bytes.
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
	v := s.variant()
	form := validation{variant: v, sent: sent, problems: map[string][]string{}}
	patientID = form.id("patient_id")
	if patientID > 0 && v.PatientsMustExist {
		if _, seeded := s.patient(patientID); !seeded {
			form.doesNotExist("patient_id")
		}
	}
	promptID = form.id("prompt_id")
	if promptID > 0 && v.PromptsMustExist {
		if _, seeded := s.prompt(promptID); !seeded {
			form.doesNotExist("prompt_id")
		}
	}
	form.checkName()
	form.checkFile()
	return patientID, promptID, form.problems
}

// validation checks the parts of a creation and collects what is wrong with them.
type validation struct {
	variant  *Variant
	sent     upload
	problems map[string][]string
}

func (f *validation) complain(field, rest string) {
	f.problems[field] = append(f.problems[field], fieldMessage(field, rest))
}

// missing complains of a part that is missing, unless it is optional.
func (f *validation) missing(field string) {
	if !slices.Contains(f.variant.OptionalParts, field) {
		f.complain(field, "field is required.")
	}
}

// id reads an id. It returns 0 if the id is missing or not valid, and complains unless it is missing and optional.
func (f *validation) id(field string) int64 {
	text := f.variant.trimmed(f.sent.fields.Get(field))
	value, isInteger := parseInteger(text)
	switch {
	case isArray(f.sent.fields, field):
		f.complain(field, "must be an integer.")
	case text == "":
		f.missing(field)
	case !isInteger:
		f.complain(field, "must be an integer.")
	case value < 1:
		f.doesNotExist(field)
	default:
		return value
	}
	return 0
}

// doesNotExist complains that no record has the id in a field.
func (f *validation) doesNotExist(field string) {
	f.problems[field] = []string{selectedMessage(field)}
}

// checkName complains of a name that is missing, too long or not text.
func (f *validation) checkName() {
	const field = "name"
	name := f.variant.trimmed(f.sent.fields.Get(field))
	switch {
	case name == "":
		f.missing(field)
	case !utf8.ValidString(name):
		f.complain(field, "must be a string.")
	case f.variant.nameTooLong(name):
		f.complain(field, "may not be greater than 255 characters.")
	}
}

// checkFile complains if there is no recording.
func (f *validation) checkFile() {
	const field = "file"
	isText := f.sent.fields.Get(field) != ""
	switch {
	case f.sent.file != nil:
	case isText:
		f.complain(field, "must be a file.")
	default:
		f.missing(field)
	}
}

// selectedMessage is the validation message about a choice that does not exist.
func selectedMessage(field string) string {
	return "The selected " + strings.ReplaceAll(field, "_", " ") + " is invalid."
}
