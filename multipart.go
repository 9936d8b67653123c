package clinicaldoc

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"maps"
	"mime"
	"mime/multipart"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/media"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// AudioSource is a recording to upload. Use [AudioFile], [AudioBytes], [AudioReaderAt] or [AudioReader] to create one.
// The zero value is rejected with [ErrInvalidArgument]. A copy is the same recording.
type AudioSource struct {
	// ContentType is the recording's media type. If empty, it is derived from the first bytes of a file or of bytes in
	// memory, or otherwise from the extension of the name. Recordings from [AudioReaderAt] and [AudioReader] are not
	// read for that.
	ContentType string

	*audioState // nil in the zero value; a pointer, so copies share the stream and no verb of fmt prints the name
}

// audioState is what the copies of an AudioSource share.
type audioState struct {
	name      string
	length    int64                       // -1: not known
	openAt    func() (io.ReaderAt, error) // nil for a stream
	stream    io.Reader                   // nil for a recording that can be read at any offset
	begun     atomic.Bool                 // a reader of the stream exists; there must not be a second one
	immutable bool                        // a second read returns the same bytes, or an error
}

// AudioFile returns the recording in a file. The file is opened when it is sent. The error matches [ErrInvalidArgument]
// if the file is empty or missing, the path is a directory, or the name cannot be sent. If this machine cannot open
// files at the moment, the error is [Retryable] instead.
func AudioFile(path string) (*AudioSource, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fileError("AudioFile", err)
	}
	if !info.Mode().IsRegular() {
		return nil, invalid("AudioFile", "is not a regular file")
	}
	os.SameFile(info, info) // makes Windows read the file's identity now, not when changed compares it
	name := baseName(filepath.Base(path))
	a := &AudioSource{audioState: &audioState{name: name, length: info.Size(), immutable: true}}
	a.openAt = func() (io.ReaderAt, error) {
		file, err := os.Open(path)
		if err != nil {
			return nil, fileError("Audio", err)
		}
		audio := audioFile{file, info}
		if audio.changed() {
			_ = file.Close()
			return nil, invalid("Audio", "the file has changed since AudioFile; call that again when it is complete")
		}
		return audio, nil
	}
	if _, err := a.check(); err != nil { // its name and its size
		return nil, err
	}
	return a, nil
}

// fileError returns the error for a file that cannot be opened: an invalid argument, unless this machine cannot open
// files at the moment.
func fileError(name string, err error) error {
	const detail = "the file cannot be opened"
	if disk.Limited(err) {
		now := detail + " now: " + redact.Cause(err)
		op := &operation{name: name}
		return &callError{op: op, detail: now, causes: []error{err}, errorType: "file", transient: true}
	}
	return invalidBecause(name+": "+detail, err)
}

// audioFile is an open file, and its state when its size was read.
type audioFile struct {
	*os.File
	before os.FileInfo
}

// changed reports whether the file may have been changed or replaced since its size was read.
func (f audioFile) changed() bool {
	now, err := f.Stat()
	if err != nil {
		return true
	}
	sameContent := now.Size() == f.before.Size() && now.ModTime().Equal(f.before.ModTime())
	return !sameContent || !os.SameFile(now, f.before)
}

// AudioBytes returns a recording in memory. The bytes are not copied. They must not change before Create returns. If
// its outcome is unknown, they must not change before FindCreated returns, because it compares them.
func AudioBytes(name string, b []byte) *AudioSource {
	a := AudioReaderAt(name, bytes.NewReader(b), int64(len(b)))
	a.immutable = true
	return a
}

// AudioReaderAt returns a recording of known size that can be read at any offset, so it can be sent again after a
// failure.
func AudioReaderAt(name string, r io.ReaderAt, size int64) *AudioSource {
	a := &AudioSource{audioState: &audioState{name: baseName(name), length: max(size, 0)}}
	if r != nil {
		a.openAt = func() (io.ReaderAt, error) { return r, nil }
	}
	return a
}

// AudioReader returns a recording of unknown size that can be read once. It is sent in chunks, which some services
// refuse. It is not sent again after any of it was read, so prefer the other sources. The reader is not closed.
func AudioReader(name string, r io.Reader) *AudioSource {
	return &AudioSource{audioState: &audioState{name: baseName(name), length: -1, stream: r}}
}

// canBeSentAgain reports whether the recording, if any, can be read more than once.
func (a *AudioSource) canBeSentAgain() bool {
	if a == nil || a.audioState == nil {
		return true
	}
	return a.stream == nil
}

// opener returns the function that opens the recording at any offset, or nil if it is a stream or there is none.
func (a *AudioSource) opener() func() (io.ReaderAt, error) {
	if a == nil || a.audioState == nil {
		return nil
	}
	return a.openAt
}

// sum reads the recording and returns its SHA-256 in hexadecimal, or an error if it cannot be read again.
func (a *AudioSource) sum() (string, error) {
	open := a.opener()
	if open == nil {
		return "", errBegunAudio
	}
	at, err := open()
	if err != nil {
		return "", err
	}
	u := &upload{audio: a, opened: at, wantsHash: true} // which hashes what it sends
	defer u.close()
	head, _ := u.open() // only the audio, because the other parts were not encoded
	_, err = io.Copy(io.Discard, head)
	return u.sentSum(), err
}

// baseName returns the last element of a path with slashes or backslashes.
func baseName(path string) string { return path[strings.LastIndexAny(path, `/\`)+1:] }

// check returns an error if the recording cannot be sent, and otherwise the media type that the caller set, or "" if
// none is set. It changes nothing, because several calls may share a source.
func (a *AudioSource) check() (mediaType string, err error) {
	switch {
	case a.audioState == nil, a.openAt == nil && a.stream == nil:
		return "", invalid("Audio", "has no reader; make it with one of the Audio functions")
	case a.name == "", a.name == ".", a.name == "..":
		return "", invalid("Audio", "has no file name")
	case len(a.name) > 255, !utf8.ValidString(a.name), hasControl(a.name):
		return "", invalid("Audio", "has a file name that is too long, not UTF-8 or holds control characters")
	case a.length == 0:
		return "", invalid("Audio", "is empty")
	case a.begun.Load():
		return "", invalid("Audio", "is a reader that was already read; make a new source")
	}
	return a.mediaType()
}

// mediaType returns the media type that the caller set, in its usual form, or "" if there is none.
func (a *AudioSource) mediaType() (string, error) {
	if a.ContentType == "" {
		return "", nil
	}
	wrong := invalid("Audio: ContentType", "is not a media type such as audio/wav")
	kind, params, err := mime.ParseMediaType(a.ContentType)
	if err != nil || hasControl(a.ContentType) {
		return "", wrong
	}
	formatted := mime.FormatMediaType(kind, params) // empty for a few odd parameters that ParseMediaType accepts
	if formatted == "" || !strings.Contains(kind, "/") {
		return "", wrong
	}
	return formatted, nil
}

// Size returns the recording's size in bytes, or -1 if it is not known before it is sent.
func (a AudioSource) Size() int64 {
	if a.audioState == nil {
		return -1
	}
	return a.length
}

// SHA256 reads the recording and returns its hash in hexadecimal, as in [OutcomeUnknownError]. A stream can be read
// only once, so the error for it matches [ErrInvalidArgument].
func (a AudioSource) SHA256() (string, error) { return a.sum() }

// LogValue implements [slog.LogValuer]. It lists the size, but not the name, which may be a patient's.
func (a AudioSource) LogValue() slog.Value {
	return slog.GroupValue(slog.Int64("size", a.Size()))
}

// Format implements [fmt.Formatter]. It prints the same fields as LogValue.
func (a AudioSource) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.AudioSource", a) }

// upload is the multipart body of one Create: the audio, the fields, the closing delimiter. The audio is first, so an
// upload that is cut short lacks the fields that the service needs to act.
type upload struct {
	contentType  string
	beforeAudio  []byte       // what precedes the audio
	afterAudio   []byte       // what follows the audio
	ending       []byte       // the closing delimiter
	audio        *AudioSource // may be nil
	opened       io.ReaderAt  // nil for a stream
	whyUnusable  error        // why the audio is probably unusable; nil if it is not known to be
	wantsHash    bool         // hash the audio while it is sent, for example because a stream cannot be read again
	latestReader atomic.Pointer[audioReader]
}

// newUpload checks the parameters, opens the audio and encodes the rest of the body.
func newUpload(p CreateNoteParams) (*upload, error) {
	switch {
	case p.PatientID < 0:
		return nil, invalid("Notes.Create: PatientID", "must not be negative")
	case p.PromptID < 0:
		return nil, invalid("Notes.Create: PromptID", "must not be negative")
	case !utf8.ValidString(p.Name):
		return nil, invalid("Notes.Create: Name", "is not valid UTF-8")
	}
	extraNames, err := p.extraParts()
	if err != nil {
		return nil, err
	}
	u := &upload{audio: p.Audio}
	u.latestReader.Store(new(audioReader))
	mediaType, err := u.openAudio()
	if err != nil {
		return nil, err
	}
	u.encodeParts(p, extraNames, mediaType)
	return u, nil
}

// encodeParts encodes all of the body except the audio, in one buffer, and divides it where the audio and the closing
// delimiter begin.
func (u *upload) encodeParts(p CreateNoteParams, extraNames []string, mediaType string) {
	var envelope bytes.Buffer // writes to it do not fail
	w := multipart.NewWriter(&envelope)
	u.contentType = w.FormDataContentType()
	if u.audio != nil {
		_, _ = w.CreatePart(textproto.MIMEHeader{
			"Content-Disposition": {multipart.FileContentDisposition("file", u.audio.name)},
			"Content-Type":        {mediaType},
		})
	}
	audioOffset := envelope.Len()
	if p.Name != "" {
		_ = w.WriteField("name", p.Name)
	}
	if p.PatientID != 0 {
		_ = w.WriteField("patient_id", strconv.FormatInt(p.PatientID, 10))
	}
	if p.PromptID != 0 {
		_ = w.WriteField("prompt_id", strconv.FormatInt(p.PromptID, 10))
	}
	for _, name := range extraNames {
		_ = w.WriteField(name, p.Extra[name])
	}
	endingOffset := envelope.Len()
	_ = w.Close()
	u.beforeAudio = envelope.Bytes()[:audioOffset]
	u.afterAudio = envelope.Bytes()[audioOffset:endingOffset]
	u.ending = envelope.Bytes()[endingOffset:]
}

// openAudio checks and opens the audio, if any, and returns its media type.
func (u *upload) openAudio() (mediaType string, err error) {
	if u.audio == nil {
		return "", nil
	}
	mediaType, err = u.audio.check()
	if err != nil {
		return "", err
	}
	u.wantsHash = u.audio.stream != nil
	if u.audio.openAt != nil {
		u.opened, err = u.audio.openAt()
		if err != nil {
			return "", err
		}
	}
	return cmp.Or(mediaType, media.TypeOf(u.recognize(), u.audio.name)), nil
}

// recognize returns the kind of the audio by its bytes, and records why the audio may be unusable. It reads only files
// and bytes in memory. A caller's reader may block, and a call cannot be canceled before it sends.
func (u *upload) recognize() media.Kind {
	if !u.audio.immutable {
		return ""
	}
	kind, err := media.Check(u.opened, u.audio.length)
	if isUnusable(err) {
		u.whyUnusable = err
	}
	return kind
}

// isUnusable reports whether the error of a check means that a recording is probably of no use.
func isUnusable(err error) bool {
	return errors.Is(err, media.ErrCutShort) || errors.Is(err, media.ErrNotARecording)
}

// Package ingest checks recordings by this function, because it cannot open an AudioSource itself.
func init() { media.CheckSource = checkSource }

// checkSource checks the recording of an *AudioSource. It returns nil for a stream, which can be read only once.
func checkSource(source any) error {
	audio, _ := source.(*AudioSource)
	open := audio.opener()
	if open == nil {
		return nil
	}
	at, err := open()
	if err != nil {
		return err
	}
	defer closeAudio(at)
	_, err = media.Check(at, audio.length)
	return err
}

// extraParts returns the names of the extra parts in order, or an error if they cannot be sent.
func (p *CreateNoteParams) extraParts() ([]string, error) {
	names := slices.Sorted(maps.Keys(p.Extra))
	for _, name := range names {
		switch {
		case name == "", len(name) > 255, !utf8.ValidString(name):
			return nil, invalid("Notes.Create: Extra", "the name of a part is empty, too long or not UTF-8")
		case hasControl(name), strings.ContainsAny(name, `"'\`):
			return nil, invalid("Notes.Create: Extra",
				"the name of a part holds quotes, backslashes or control characters")
		case slices.Contains(describedParts, formField(name)):
			return nil, invalid("Notes.Create: Extra",
				"the name of a part is one that the SDK sends, or may be read as one")
		case !utf8.ValidString(p.Extra[name]):
			return nil, invalid("Notes.Create: Extra", "the value of a part is not valid UTF-8")
		}
	}
	return names, nil
}

// describedParts are the parts that have a field, and a name that some frameworks take for the request's method.
var describedParts = []string{"", "name", "patient_id", "prompt_id", "file", "_method"}

// formField returns the field that a service may read a part's name as. PHP reads "patient.id", "patient id",
// "patient[id" and "patient_id[0]" as patient_id, and other services ignore case.
func formField(name string) string {
	name = strings.TrimLeft(name, " ")
	field, index, _ := strings.Cut(name, "[")
	isClosed := strings.Contains(index, "]")
	if isClosed || index == "" {
		name = field
	}
	return strings.ToLower(strings.NewReplacer(".", "_", " ", "_", "[", "_").Replace(name))
}

func (u *upload) close() { closeAudio(u.opened) }

func closeAudio(at io.ReaderAt) {
	if file, ok := at.(audioFile); ok {
		_ = file.Close()
	}
}

// body returns the body of the request. A stream can be read once.
func (u *upload) body() *exchange.Body {
	envelope := int64(len(u.beforeAudio) + len(u.afterAudio) + len(u.ending))
	b := &exchange.Body{ContentType: u.contentType, Open: u.open, Size: envelope}
	switch {
	case u.audio == nil:
	case u.audio.openAt != nil:
		b.Size += u.audio.length
	default:
		b.Size = -1
		b.Begun = &u.audio.begun
	}
	return b
}

// open returns a reader of the body without the closing delimiter, and that delimiter.
func (u *upload) open() (head io.Reader, tail []byte) {
	if u.audio == nil { // then nothing precedes the fields
		return bytes.NewReader(u.afterAudio), u.ending
	}
	r := &audioReader{upload: u}
	if u.opened != nil {
		r.from = io.NewSectionReader(u.opened, 0, u.audio.length)
	} else {
		r.from = &exchange.OnceReader{From: u.audio.stream, Begun: &u.audio.begun, Otherwise: errBegunAudio}
	}
	if u.wantsHash {
		r.hash = sha256.New()
	}
	u.latestReader.Store(r)
	return io.MultiReader(bytes.NewReader(u.beforeAudio), r, bytes.NewReader(u.afterAudio)), u.ending
}

// audioSize returns the size of the recording that was sent, 0 if there is none. The size of a stream is known only at
// its end; before that it is -1.
func (u *upload) audioSize() int64 {
	switch {
	case u.audio == nil:
		return 0
	case u.audio.length < 0 && u.sentSum() != "": // a stream that was read to its end
		return u.latestReader.Load().bytesRead.Load()
	}
	return u.audio.length
}

// sentSum returns the SHA-256 of a recording that was hashed while it was sent, and read to its end; otherwise "".
func (u *upload) sentSum() string {
	if sum := u.latestReader.Load().sum.Load(); sum != nil {
		return *sum
	}
	return ""
}

// progress returns a function that receives the number of body bytes sent, and reports how many of them are audio. The
// function reports only a number that has changed. progress returns nil if there is nothing to report.
func (u *upload) progress(report func(sent, total int64)) func(int64) {
	if report == nil || u.audio == nil {
		return nil
	}
	reported := int64(-1) // nothing yet
	return func(sent int64) {
		afterHeader := max(sent-int64(len(u.beforeAudio)), 0)
		audioSent := min(afterHeader, u.latestReader.Load().bytesRead.Load())
		if audioSent != reported {
			reported = audioSent
			report(audioSent, u.audio.length)
		}
	}
}

var (
	errEmptyAudio   = redact.Fail("the audio is empty", ErrInvalidArgument)
	errBegunAudio   = redact.Fail("it is a reader that was already read; make a new source", ErrInvalidArgument)
	errCutAudio     = redact.Fail("it is shorter than its announced size", ErrInvalidArgument, io.ErrUnexpectedEOF)
	errChangedAudio = redact.Fail(
		"the file changed while it was sent; make a new source when it is complete", ErrInvalidArgument)
)

// audioReader reads the audio from its start for one attempt. The reader of an earlier attempt may read on for a while.
type audioReader struct {
	upload    *upload
	from      io.Reader
	hash      hash.Hash // nil: the hash is not wanted
	bytesRead atomic.Int64
	sum       atomic.Pointer[string] // SHA-256 of what was read to its end; nil: not known
}

// Read implements [io.Reader]. At the end it returns an error instead of io.EOF if the audio is empty, shorter than
// announced, or a file that has changed.
func (r *audioReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.bytesRead.Add(int64(n))
	if r.hash != nil {
		_, _ = r.hash.Write(p[:n])
	}
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	if wrong := r.checkEnd(); wrong != nil {
		return n, wrong
	}
	if r.hash != nil {
		r.sum.Store(new(hex.EncodeToString(r.hash.Sum(nil))))
	}
	return n, err
}

// checkEnd returns why what was read to its end is not the audio that was announced, or nil if it is.
func (r *audioReader) checkEnd() error {
	read := r.bytesRead.Load()
	file, isFile := r.upload.opened.(audioFile)
	switch {
	case read == 0:
		return errEmptyAudio
	case read < r.upload.audio.length:
		return errCutAudio
	case isFile && file.changed():
		return errChangedAudio
	}
	return nil
}
