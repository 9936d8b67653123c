package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/nfc"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Recording is one recording to upload. It needs a File or Params.Audio; without a File also a Key.
type Recording struct {
	// Key identifies the recording among all recordings of the patient at this service, in every journal. One key
	// becomes one note. It has at most 1024 bytes. If empty, it defaults to [FileKey] of File. Keys that differ only in
	// how their characters are composed are the same key: keys are compared in Unicode's form NFC.
	//
	// If Params.Name contains a key of at least eight characters, the name identifies the note, whatever the service
	// does with recordings. No letter or digit may continue the key on either side: "Visit ENC-2026-0001".
	Key string
	// SHA256 is the recording's SHA-256 in 64 lower-case hexadecimal digits. Other content is refused. If empty, any
	// content is accepted. In a [Result] it is set if the key was computed from the content, so no other content is
	// uploaded under that key.
	SHA256 string
	// File is the recording's path. It is opened only when it is uploaded. If empty, Params.Audio is the recording.
	// Otherwise only the ContentType of Params.Audio is used, if that is set.
	File string
	// Params describes the note to create. Its BeforeCommit is called before the journal is written.
	Params clinicaldoc.CreateNoteParams

	position int // in its run, from 1 on; 0: it is in none
}

// Recordings returns an iterator over the recordings for [Uploader.Run].
func Recordings(recordings ...Recording) iter.Seq2[Recording, error] {
	return func(yield func(Recording, error) bool) {
		for _, recording := range recordings {
			if !yield(recording, nil) {
				return
			}
		}
	}
}

// Files returns a recording for each path, with the params that the function returns and [FileKey] as its key.
func Files(paths []string, params func(path string) clinicaldoc.CreateNoteParams) iter.Seq2[Recording, error] {
	return func(yield func(Recording, error) bool) {
		for _, path := range paths {
			if !yield(Recording{File: path, Params: params(path)}, nil) {
				return
			}
		}
	}
}

// FileKey returns the default key of a file. It is made of the content, the patient and the note's name, or the file's
// name if the note has none. The same file in another place has the same key, also if a system there composes the
// characters of its name differently (Unicode's forms NFC and NFD). The same content for another patient has a
// different key.
func FileKey(path string, params clinicaldoc.CreateNoteParams) (string, error) {
	r, err := Recording{File: path, Params: params}.WithKey()
	return r.Key, err
}

// WithKey returns the recording with the key that it has in a run: its Key or, if that is empty, its [FileKey] and
// SHA256. It does not read the file if Key is set, because the file may be on another machine. Otherwise it returns an
// error if the file cannot be read or has changed since SHA256 was computed. The error matches
// [clinicaldoc.ErrInvalidArgument] if there is neither a Key nor a File, if the Key is too long, or if SHA256 is not
// valid.
func (r Recording) WithKey() (Recording, error) {
	if r.Key != "" {
		return r, r.checkKey()
	}
	prepared, err := r.prepare()
	prepared.Params.Audio = r.Params.Audio // without the file that prepare opened
	return prepared, err
}

// sumOf reads the recording and returns its SHA-256. If the recording cannot be read, the error matches
// [clinicaldoc.ErrInvalidArgument], unless reading it later may help.
func sumOf(audio *clinicaldoc.AudioSource) (string, error) {
	sum, err := audio.SHA256()
	if err == nil || clinicaldoc.Retryable(err) || errors.Is(err, clinicaldoc.ErrInvalidArgument) {
		return sum, err
	}
	return "", fail("the file cannot be read: "+redact.Cause(err), clinicaldoc.ErrInvalidArgument, err)
}

// contentKey returns the key of a file: a hash of its content, its patient and its name.
func contentKey(sum, path string, params clinicaldoc.CreateNoteParams) string {
	return hashContent(sum, params, nfc.String(nameInKey(path, params)))
}

// nameInKey returns the name from which the key of a file is made.
func nameInKey(path string, params clinicaldoc.CreateNoteParams) string {
	if params.Name != "" {
		return params.Name
	}
	return filepath.Base(path)
}

// hashContent returns the key of a file with the content and the name.
func hashContent(sum string, params clinicaldoc.CreateNoteParams, name string) string {
	content, _ := hex.DecodeString(sum) // as sumOf wrote it
	key := hashOf("file", string(content), strconv.FormatInt(params.PatientID, 10), name)
	return hex.EncodeToString(key[:])
}

const maxKey = 1024

// checkKey returns an error if the Key is too long or the SHA256 is not one.
func (r Recording) checkKey() error {
	isHash := len(r.SHA256) == 2*sha256.Size && strings.Trim(r.SHA256, "0123456789abcdef") == ""
	switch {
	case len(r.Key) > maxKey:
		return fail(fmt.Sprintf("the Key is longer than %d bytes", maxKey), clinicaldoc.ErrInvalidArgument)
	case r.SHA256 != "" && !isHash:
		return fail("the SHA256 is not 64 lowercase hexadecimal digits", clinicaldoc.ErrInvalidArgument)
	}
	return nil
}

// prepare opens the recording's File as its Params.Audio. If Key is empty, it reads the file and sets Key and SHA256. A
// SHA256 that differs from the content is an error.
//
// The upload rejects a file whose size has changed since prepare began.
func (r Recording) prepare() (Recording, error) {
	if r.File != "" {
		audio, err := clinicaldoc.AudioFile(r.File)
		if err != nil {
			return r, err
		}
		if r.Params.Audio != nil {
			audio.ContentType = r.Params.Audio.ContentType
		}
		r.Params.Audio = audio
	}
	switch {
	case r.Params.Audio == nil:
		return r, fail("the recording has neither a File nor Params.Audio", clinicaldoc.ErrInvalidArgument)
	case r.Key == "" && r.File == "":
		return r, fail("a recording without a File needs a Key", clinicaldoc.ErrInvalidArgument)
	}
	if err := r.checkKey(); err != nil {
		return r, err
	}
	if r.Key != "" { // the content is not read here, so its SHA256 is not verified
		return r, nil
	}
	sum, err := sumOf(r.Params.Audio)
	if err != nil {
		return r, err
	}
	if r.SHA256 != "" && r.SHA256 != sum {
		return r, errChanged
	}
	r.Key = contentKey(sum, r.File, r.Params)
	r.SHA256 = sum
	return r, nil
}

// LogValue lists what may be logged of the recording: key and file may hold a patient's name.
func (r Recording) LogValue() slog.Value {
	return slog.GroupValue(slog.Bool("file", r.File != ""), slog.Any("params", r.Params))
}

// Format implements [fmt.Formatter]. It prints the same fields as LogValue.
func (r Recording) Format(s fmt.State, _ rune) { redact.Format(s, "ingest.Recording", r) }
