package ingest

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/nfc"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// ReadManifest reads a list of recordings from a file. The file is CSV with the names of the columns in its first line,
// or has a JSON object in each line. The columns are
//
//	key      identifies the recording, preferably the encounter's number; if empty, FileKey
//	patient  the patient's ID
//	prompt   the prompt's ID; may be empty
//	name     the note's name
//	path     the recording's file, relative to the manifest's folder
//
// ReadManifest checks the complete list: IDs are numbers, keys and names are UTF-8, no value continues in the next
// line, files exist and are not empty, and no key or file occurs twice. If anything is wrong, it returns no recordings
// and a [*ManifestError] that lists all mistakes by line.
//
// A manifest has at most 64 MiB. A longer one is an error that matches [clinicaldoc.ErrInvalidArgument].
func ReadManifest(path string, opts ...ManifestOption) ([]Recording, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fail("the manifest cannot be opened: "+redact.Cause(err), err)
	}
	defer func() { _ = file.Close() }()
	m := manifest{folder: filepath.Dir(path), keys: map[string]int{}, files: map[fileForm][]namedFile{}}
	for _, opt := range opts {
		opt(&m)
	}
	bounded := &io.LimitedReader{R: file, N: maxManifest + 1}
	err = m.read(bufio.NewReader(bounded))
	if bounded.N == 0 {
		return nil, fail("the manifest cannot be read: it is longer than 64 MiB", clinicaldoc.ErrInvalidArgument)
	}
	if err != nil {
		return nil, fail("the manifest cannot be read: "+redact.Cause(err), err)
	}
	if len(m.problems) > 0 {
		return nil, &ManifestError{m.problems}
	}
	return m.recordings, nil
}

// ManifestOption is an option of [ReadManifest].
type ManifestOption func(*manifest)

// WithDefaults sets the patient and the prompt of lines without one. If one of them is 0, each line must contain its
// own. Every line then has a prompt, which is optional without this option.
func WithDefaults(patientID, promptID int64) ManifestOption {
	return func(m *manifest) {
		m.defaultPatient = patientID
		m.defaultPrompt = promptID
		m.needsPrompt = true
	}
}

// ManifestError lists what is wrong with a manifest. It matches [clinicaldoc.ErrInvalidArgument].
type ManifestError struct {
	Problems []ManifestProblem // by line; reading stops after about 10,000
}

// ManifestProblem is one mistake in a manifest.
type ManifestProblem struct {
	Line int    // from 1 on
	What string // contains no text of the line
}

// The bounds of what is read of a manifest.
const (
	maxManifest = 64 << 20 // bytes
	maxProblems = 10_000
)

// maxListed is how many problems an error's text holds.
const maxListed = 10

// Error lists the first problems.
func (e *ManifestError) Error() string {
	var b strings.Builder
	mistakes := "mistakes"
	if len(e.Problems) == 1 {
		mistakes = "mistake"
	}
	fmt.Fprintf(&b, "ingest: the manifest has %d %s, and nothing was uploaded", len(e.Problems), mistakes)
	for _, p := range e.Problems[:min(len(e.Problems), maxListed)] {
		fmt.Fprintf(&b, "; line %d: %s", p.Line, p.What)
	}
	if len(e.Problems) > maxListed {
		b.WriteString("; and so on")
	}
	return b.String()
}

// Unwrap makes [errors.Is] see [clinicaldoc.ErrInvalidArgument].
func (e *ManifestError) Unwrap() error { return clinicaldoc.ErrInvalidArgument }

// LogValue returns the error's text.
func (e *ManifestError) LogValue() slog.Value { return slog.StringValue(e.Error()) }

// manifest is one that is being read.
type manifest struct {
	folder         string
	defaultPatient int64 // 0: there is none
	defaultPrompt  int64 // 0: there is none
	needsPrompt    bool
	recordings     []Recording
	problems       []ManifestProblem
	keys           map[string]int // the lines that name them
	files          map[fileForm][]namedFile
}

// namedFile is a file that a line names. Many names can lead to it.
type namedFile struct {
	os.FileInfo
	line int
}

// fileForm is the same for all names of a file. Few other files have it, so only those are compared.
type fileForm struct{ size, modified int64 }

var columns = []string{"key", "patient", "prompt", "name", "path"}

// addProblem records a mistake in a line.
func (m *manifest) addProblem(line int, what string) {
	m.problems = append(m.problems, ManifestProblem{line, what})
}

// hasTooManyProblems reports whether there are so many problems that the rest does not matter.
func (m *manifest) hasTooManyProblems() bool { return len(m.problems) >= maxProblems }

// read reads a manifest of either format.
func (m *manifest) read(from *bufio.Reader) error {
	if mark, _ := from.Peek(3); string(mark) == "\ufeff" { // as spreadsheets begin a file
		_, _ = from.Discard(3)
	}
	first, err := from.Peek(1)
	switch {
	case errors.Is(err, io.EOF):
		m.addProblem(1, "the manifest is empty")
		return nil
	case err != nil:
		return err
	case first[0] == '{':
		return m.readJSON(from)
	}
	return m.readCSV(from)
}

// readJSON reads a manifest with a JSON object in each line.
func (m *manifest) readJSON(from *bufio.Reader) error {
	for line := 1; !m.hasTooManyProblems(); line++ {
		text, err := from.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(bytes.TrimSpace(text)) > 0 {
			m.readObject(line, text)
		}
		if err != nil {
			return nil //nolint:nilerr // the file's end
		}
	}
	return nil
}

// readObject adds the recording of a line with a JSON object, or records what is wrong with it.
func (m *manifest) readObject(line int, text []byte) {
	members := json.NewDecoder(bytes.NewReader(text))
	first, _ := members.Token()
	if first != json.Delim('{') || !json.Valid(text) {
		m.addProblem(line, "it is not a JSON object")
		return
	}
	values := map[string]string{}
	for members.More() {
		token, _ := members.Token()
		name, _ := token.(string)
		var raw json.RawMessage
		_ = members.Decode(&raw) // it is valid
		if _, twice := values[name]; twice {
			m.addProblem(line, "it names a member twice")
			return
		}
		if !slices.Contains(columns, name) {
			m.addProblem(line, "it has a member other than "+strings.Join(columns, ", "))
			return
		}
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw) // a number
		}
		if bytes.ContainsAny(raw[:1], "{[tf") { // an object, an array, true or false
			m.addProblem(line, name+" is neither a text nor a number")
		}
		if replacesLetters(raw, text) {
			m.addProblem(line, name+" is not UTF-8")
		}
		values[name] = strings.TrimSpace(text)
	}
	m.addRecording(line, values)
}

// replacesLetters reports whether a JSON value holds something that encoding/json silently replaces by U+FFFD: bytes
// that are not UTF-8, or half of a surrogate pair.
func replacesLetters(raw []byte, text string) bool {
	isInTheFile := bytes.Contains(raw, []byte("\ufffd")) || bytes.Contains(bytes.ToLower(raw), []byte(`\ufffd`))
	isReplaced := strings.ContainsRune(text, utf8.RuneError) && !isInTheFile
	return isReplaced || !utf8.Valid(raw)
}

// readCSV reads a manifest in CSV. It returns an error only if the file cannot be read; mistakes are recorded.
func (m *manifest) readCSV(from io.Reader) error {
	rows := csv.NewReader(from)
	rows.FieldsPerRecord = -1 // it is checked below, for a better message
	rows.TrimLeadingSpace = true
	head, err := rows.Read()
	if err != nil {
		m.addProblem(1, "it is not CSV")
		return nil //nolint:nilerr // it is listed
	}
	if !normalizeColumns(head) {
		m.addProblem(1, "the first line must name the columns, each once: "+strings.Join(columns, ", "))
		return nil
	}
	for !m.hasTooManyProblems() {
		row, err := rows.Read()
		parse, isBadLine := errors.AsType[*csv.ParseError](err)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case isBadLine: // what follows cannot be told apart
			m.addProblem(parse.Line, "it is not CSV")
			return nil
		case err != nil:
			return err
		}
		line, _ := rows.FieldPos(0)
		if len(row) != len(head) {
			m.addProblem(line, fmt.Sprintf("it has %d columns, and the first line %d", len(row), len(head)))
			continue
		}
		values := map[string]string{}
		for i, value := range row {
			values[head[i]] = strings.TrimSpace(value)
		}
		m.addRecording(line, values)
	}
	return nil
}

// normalizeColumns makes the names of columns lower-case, without spaces around them. It reports whether each is known
// and occurs once.
func normalizeColumns(head []string) bool {
	for i, name := range head {
		head[i] = strings.ToLower(strings.TrimSpace(name))
		isTwice := slices.Contains(head[:i], head[i])
		if isTwice || !slices.Contains(columns, head[i]) {
			return false
		}
	}
	return true
}

// addRecording adds the recording that the values of a line describe, also if something is wrong with them, and records
// each mistake.
func (m *manifest) addRecording(line int, values map[string]string) {
	r := Recording{Key: values["key"], File: filepath.FromSlash(values["path"])}
	r.Params.Name = values["name"]
	const needsPatient = true
	r.Params.PatientID = m.parseID(line, "patient", values["patient"], m.defaultPatient, needsPatient)
	r.Params.PromptID = m.parseID(line, "prompt", values["prompt"], m.defaultPrompt, m.needsPrompt)
	if !utf8.ValidString(r.Params.Name) || len(r.Key) > maxKey {
		m.addProblem(line, "the name is not UTF-8, or the key too long")
	}
	if !utf8.ValidString(r.Key) { // JSON would replace its letters, and another key would make a second note
		m.addProblem(line, "the key is not UTF-8")
	}
	if strings.ContainsAny(r.Key+r.Params.Name+r.File, "\r\n") { // it may hold the next line, of another patient
		m.addProblem(line, "a value continues on the next line; check its quotes")
	}
	switch key := nfc.String(r.Key); {
	case key == "": // the key is made of the file; see FileKey
	case m.keys[key] != 0:
		m.duplicate(line, "key", m.keys[key])
	default:
		m.keys[key] = line
	}
	m.checkFile(line, &r)
	m.recordings = append(m.recordings, r)
}

// duplicate records that an earlier line has the same key or file.
func (m *manifest) duplicate(line int, name string, first int) {
	m.addProblem(line, fmt.Sprintf("line %d has the same %s", first, name))
}

// parseID returns the id of a patient or a prompt. If the text is empty, it returns the default. It is a mistake if the
// id is required and there is no default.
func (m *manifest) parseID(line int, name, text string, byDefault int64, required bool) int64 {
	mayBeEmpty := byDefault > 0 || !required
	if text == "" && mayBeEmpty {
		return byDefault
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		m.addProblem(line, name+" is not an id")
	}
	return id
}

// checkFile joins a relative path of the recording's file to the manifest's folder, and records what is wrong with the
// file.
func (m *manifest) checkFile(line int, r *Recording) {
	if r.File == "" {
		m.addProblem(line, "path is empty")
		return
	}
	if !filepath.IsAbs(r.File) {
		r.File = filepath.Join(m.folder, r.File)
	}
	_, err := clinicaldoc.AudioFile(r.File)
	info, statErr := os.Stat(r.File)
	if err != nil || statErr != nil {
		m.addProblem(line, "the file cannot be uploaded: "+whyNot(r.File))
		return
	}
	form := fileForm{info.Size(), info.ModTime().UnixNano()}
	for _, earlier := range m.files[form] {
		if os.SameFile(earlier.FileInfo, info) {
			m.duplicate(line, "file", earlier.line)
			return
		}
	}
	m.files[form] = append(m.files[form], namedFile{info, line})
}

// whyNot says why a file cannot be uploaded, without its name.
func whyNot(path string) string {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "it does not exist"
	case err != nil:
		return redact.Cause(err)
	case !info.Mode().IsRegular():
		return "it is not a regular file"
	case info.Size() == 0:
		return "it is empty"
	}
	return "its name cannot be sent"
}
