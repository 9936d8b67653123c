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
	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Recording is one recording to upload. It needs a File or Params.Audio; without a File also a Key.
type Recording struct {
	// Key identifies the recording among all recordings of the patient at this service, in every journal. One key becomes one
	// note. It has at most 1024 bytes. If empty, it defaults to [FileKey] of File.
	//
	// A key of at least eight characters in Params.Name makes the name unique, if letters or digits do not continue it on either
	// side: "Visit ENC-2026-0001". The name then identifies the note, whatever the service does with recordings.
	Key string
	// SHA256 of the recording, in 64 small hexadecimal digits; other content is refused. When empty, anything is taken. The
	// recordings of results have it where the key was made of it, so that no other content is ever uploaded under such a key.
	SHA256 string
	// File is the recording's path; it is opened when its turn comes. When empty, Params.Audio is the recording.
	File string
	// Params says what note to create. A BeforeCommit in it is called before the journal is written.
	Params clinicaldoc.CreateNoteParams

	position int // in its run, from 1 on; 0: it is in none
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
	r, err := Recording{File: path, Params: params}.WithKey()
	return r.Key, err
}

// WithKey returns the recording with the key that it has in a run: its own, or, with the SHA256 that it was made of, its file's.
// A file whose Key is given is not looked at, as it may be on another machine. Otherwise one that cannot be read, or has changed since
// SHA256 was taken, is an error. It is [clinicaldoc.ErrInvalidArgument] where there is neither a Key nor a File, where the Key is too
// long, and where SHA256 is not one.
func (r Recording) WithKey() (Recording, error) {
	if r.Key != "" {
		return r, r.checkKey()
	}
	prepared, err := r.prepare()
	prepared.Params.Audio = r.Params.Audio
	return prepared, err
}

// sumOf reads the recording and returns its SHA-256. What this machine cannot read now may be read later.
func sumOf(audio *clinicaldoc.AudioSource) (string, error) {
	sum, err := audio.SHA256()
	if err == nil || clinicaldoc.Retryable(err) || errors.Is(err, clinicaldoc.ErrInvalidArgument) {
		return sum, err
	}
	return "", fail("the file cannot be read: "+redact.Cause(err), clinicaldoc.ErrInvalidArgument, err)
}

func contentKey(sum, path string, params clinicaldoc.CreateNoteParams) string {
	content, _ := hex.DecodeString(sum) // as sumOf wrote it
	name := params.Name
	if name == "" {
		name = filepath.Base(path)
	}
	key := hashOf("file", string(content), strconv.FormatInt(params.PatientID, 10), creates.Compose(name))
	return hex.EncodeToString(key[:])
}

const maxKey = 1024

func (r Recording) checkKey() error {
	switch {
	case len(r.Key) > maxKey:
		return fail(fmt.Sprintf("the Key is longer than %d bytes", maxKey), clinicaldoc.ErrInvalidArgument)
	case r.SHA256 != "" && (len(r.SHA256) != 2*sha256.Size || strings.Trim(r.SHA256, "0123456789abcdef") != ""):
		return fail("the SHA256 is not 64 small hexadecimal digits", clinicaldoc.ErrInvalidArgument)
	}
	return nil
}

// prepare finds the audio and the key, and the SHA-256 of a file that was read for it. The size is taken before that: if the
// file changes later, the upload refuses it.
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
	if err := r.checkKey(); err != nil || r.Key != "" {
		return r, err
	}
	sum, err := sumOf(r.Params.Audio)
	if err != nil {
		return r, err
	}
	if r.SHA256 != "" && r.SHA256 != sum {
		return r, errChanged
	}
	r.Key, r.SHA256 = contentKey(sum, r.File, r.Params), sum
	return r, nil
}

// LogValue lists what may be logged of the recording: key and file may hold a patient's name.
func (r Recording) LogValue() slog.Value {
	return slog.GroupValue(slog.Bool("file", r.File != ""), slog.Any("params", r.Params))
}

// Format prints what LogValue lists for every verb.
func (r Recording) Format(s fmt.State, _ rune) { redact.Format(s, "ingest.Recording", r) }
