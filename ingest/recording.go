package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Recording is one recording to upload. It needs a File or Params.Audio; without a File also a Key.
type Recording struct {
	// Key is what makes this recording one: whatever happens, one key becomes one note of the service. At most 1024 bytes.
	// When empty it is [FileKey] of File.
	Key string
	// File is the recording's path; it is opened when its turn comes. When empty, Params.Audio is the recording.
	File string
	// Params says what note to create. A BeforeCommit in it is called before the journal is written.
	Params clinicaldoc.CreateNoteParams
}

// Recordings are these, one after the other, as [Uploader.Run] takes them.
func Recordings(recordings ...Recording) iter.Seq2[Recording, error] {
	return func(yield func(Recording, error) bool) {
		for _, recording := range recordings {
			if !yield(recording, nil) {
				return
			}
		}
	}
}

// Files makes a recording of each path, with the params that the function gives it, and [FileKey] as its key.
func Files(paths []string, params func(path string) clinicaldoc.CreateNoteParams) iter.Seq2[Recording, error] {
	return func(yield func(Recording, error) bool) {
		for _, path := range paths {
			if !yield(Recording{File: path, Params: params(path)}, nil) {
				return
			}
		}
	}
}

// FileKey is the default key of a file: made of its content, the patient and the note's name, or the file's where the note
// has none. The same file in another place has the same key; the same content for another patient has another.
func FileKey(path string, params clinicaldoc.CreateNoteParams) (string, error) {
	content, err := hashFile(path)
	if err != nil {
		return "", err
	}
	return contentKey(content, path, params), nil
}

// hashFile returns the SHA-256 of a file's content.
func hashFile(path string) ([]byte, error) {
	file, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	content := sha256.New()
	buffer := buffers.Get().(*[]byte) //nolint:errcheck,forcetypeassert // nothing else is put there
	defer buffers.Put(buffer)
	if _, err := io.CopyBuffer(content, struct{ io.Reader }{file}, *buffer); err != nil {
		return nil, fail("the file cannot be read: "+redact.Cause(err), clinicaldoc.ErrInvalidArgument, err)
	}
	return content.Sum(nil), nil
}

func openFile(path string) (*os.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fail("the file cannot be opened: "+redact.Cause(err), clinicaldoc.ErrInvalidArgument, err)
	}
	return file, nil
}

func contentKey(content []byte, path string, params clinicaldoc.CreateNoteParams) string {
	name := params.Name
	if name == "" {
		name = filepath.Base(path)
	}
	sum := hashOf("file", string(content), strconv.FormatInt(params.PatientID, 10), creates.Compose(name))
	return hex.EncodeToString(sum[:])
}

// buffers are what files are read into.
var buffers = sync.Pool{New: func() any { return new(make([]byte, 64<<10)) }}

const maxKey = 1024

// prepare finds the audio and the key, and the SHA-256 of a file that was read for it. The size is taken before that: if the
// file changes later, the upload refuses it.
func (r Recording) prepare() (Recording, string, error) {
	if r.File != "" {
		audio, err := clinicaldoc.AudioFile(r.File)
		if err != nil {
			return r, "", err
		}
		if r.Params.Audio != nil {
			audio.ContentType = r.Params.Audio.ContentType
		}
		r.Params.Audio = audio
	}
	switch {
	case r.Params.Audio == nil:
		return r, "", fail("the recording has neither a File nor Params.Audio", clinicaldoc.ErrInvalidArgument)
	case r.Key == "" && r.File == "":
		return r, "", fail("a recording without a File needs a Key", clinicaldoc.ErrInvalidArgument)
	case len(r.Key) > maxKey:
		return r, "", fail(fmt.Sprintf("the Key is longer than %d bytes", maxKey), clinicaldoc.ErrInvalidArgument)
	case r.Key != "":
		return r, "", nil
	}
	content, err := hashFile(r.File)
	if err != nil {
		return r, "", err
	}
	r.Key = contentKey(content, r.File, r.Params)
	return r, hex.EncodeToString(content), nil
}

// LogValue lists what may be logged of the recording: key and file may hold a patient's name.
func (r Recording) LogValue() slog.Value {
	return slog.GroupValue(slog.Bool("file", r.File != ""), slog.Any("params", r.Params))
}

// Format prints what LogValue lists for every verb.
func (r Recording) Format(s fmt.State, _ rune) { redact.Format(s, "ingest.Recording", r) }
