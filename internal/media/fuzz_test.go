package media_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/clinicaldoc/clinicaldoc-go/internal/media"
)

// fuzzKind checks whatever begins like a recording of one kind. Check must end without a panic, within its bounds,
// with a verdict that fits, and with the same one each time.
func fuzzKind(f *testing.F, files ...string) {
	f.Helper()
	for _, file := range files {
		data := read(f, file)
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		reader := &counted{from: bytes.NewReader(data)}
		kind, err := media.Check(reader, int64(len(data)))
		if reader.reads > 1024 || reader.bytes > 128<<10 {
			t.Errorf("%d reads of %d bytes", reader.reads, reader.bytes)
		}
		isCut := errors.Is(err, media.ErrCutShort)
		isOther := errors.Is(err, media.ErrNotARecording)
		switch {
		case err == nil, isCut && kind != "", isOther && kind == "" && !isCut:
		default:
			t.Errorf("kind %q with %v", kind, err)
		}
		again, errAgain := check(data)
		if again != kind || (errAgain == nil) != (err == nil) {
			t.Errorf("first %q, %v, then %q, %v", kind, err, again, errAgain)
		}
	})
}

func FuzzCheckWAV(f *testing.F) {
	fuzzKind(f, "tone.wav", "stream.wav", "tone-rf64.wav", "tone.w64", "stream.w64")
}

func FuzzCheckAIFF(f *testing.F) { fuzzKind(f, "tone.aiff", "stream.aiff") }

func FuzzCheckMP4(f *testing.F) {
	fuzzKind(f, "tone.m4a", "tone-faststart.m4a", "tone-fragmented.m4a", "stream.m4a", "tone.3gp")
}

func FuzzCheckOgg(f *testing.F) { fuzzKind(f, "tone.opus", "tone.ogg") }

func FuzzCheckMatroska(f *testing.F) { fuzzKind(f, "tone.webm", "stream.webm", "tone.mka") }

func FuzzCheckCAF(f *testing.F) { fuzzKind(f, "tone.caf", "stream.caf") }

func FuzzCheckASF(f *testing.F) { fuzzKind(f, "tone.wma", "stream.wma") }

func FuzzCheckFrames(f *testing.F) {
	fuzzKind(f, "tone.mp3", "tone-bare.mp3", "stream.mp3", "tone.aac", "tone.flac")
}
