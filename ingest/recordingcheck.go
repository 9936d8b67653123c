package ingest

import (
	"errors"
	"io"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/media"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

var (
	// ErrNotARecording means that a file is certainly something else, such as a PDF document, an image, an archive or a
	// web page.
	ErrNotARecording = media.ErrNotARecording
	// ErrCutShort means that a recording is shorter than its own headers announce, for example because it is still
	// being copied.
	ErrCutShort = media.ErrCutShort
)

// AudioKind is the container of a recording: "wav", "w64", "aiff", "mp4", "ogg", "webm", "matroska", "flac", "mp3",
// "aac", "amr", "caf", "asf", "dss" or "ds2". It is empty if the recording is of another kind.
type AudioKind string

// MediaType returns the media type of recordings of this kind, such as "audio/wav". It returns
// "application/octet-stream" if k is empty.
func (k AudioKind) MediaType() string { return media.Kind(k).MediaType() }

// CheckRecording recognizes a recording of size bytes by its content. It returns an error matching [ErrNotARecording]
// if r is certainly not a recording. If the recording is shorter than its headers announce, it returns the kind and an
// error matching [ErrCutShort]. Bytes that it does not recognize are not an error, because services accept more kinds
// than it knows.
//
// It reads headers and at most the last 64 KiB, never the complete recording. It cannot notice every cut. FLAC, AMR,
// AAC, DSS and DS2 files do not contain their length. Neither do some MP3 files, and files that were recorded as a
// stream.
//
// Any other error is that of r, or matches [clinicaldoc.ErrInvalidArgument] if r is nil or size is negative.
func CheckRecording(r io.ReaderAt, size int64) (AudioKind, error) {
	if r == nil || size < 0 {
		return "", fail("CheckRecording needs a reader and a size", clinicaldoc.ErrInvalidArgument)
	}
	kind, err := media.Check(r, size)
	return AudioKind(kind), refusal(err)
}

// refusal is the error for a recording that must not be sent; another error stays as it is.
func refusal(err error) error {
	if errors.Is(err, ErrCutShort) || errors.Is(err, ErrNotARecording) {
		return fail(redact.Cause(err), err, clinicaldoc.ErrInvalidArgument)
	}
	return err
}

// checkRecording returns why the recording must not be sent, if its bytes show that. It ignores errors of reading: they
// are found when the recording is sent.
func (r *run) checkRecording(recording Recording) error {
	if r.uploader.SkipRecordingCheck {
		return nil
	}
	err := refusal(media.CheckSource(recording.Params.Audio))
	if errors.Is(err, clinicaldoc.ErrInvalidArgument) {
		return err
	}
	return nil
}
