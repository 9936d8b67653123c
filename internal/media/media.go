// Package media recognizes recordings by their bytes: what kind they are, what is certainly not a recording, and
// what is cut short. It reads the beginning and headers, never a complete recording.
package media

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Why something should not be sent.
var (
	ErrNotARecording = redact.New("not a recording")
	ErrCutShort      = redact.New("the recording is cut short")
)

// Kind is the container of a recording. It is empty if the bytes do not show any that is known here.
type Kind string

// The kinds. Strings are what the SDK prints and what package ingest documents.
const (
	WAV      Kind = "wav"
	W64      Kind = "w64"
	AIFF     Kind = "aiff"
	MP4      Kind = "mp4"
	Ogg      Kind = "ogg"
	WebM     Kind = "webm"
	Matroska Kind = "matroska"
	FLAC     Kind = "flac"
	MP3      Kind = "mp3"
	AAC      Kind = "aac"
	AMR      Kind = "amr"
	CAF      Kind = "caf"
	ASF      Kind = "asf"
	DSS      Kind = "dss"
	DS2      Kind = "ds2"
)

var mediaTypes = map[Kind]string{
	WAV: "audio/wav", W64: "audio/x-w64", AIFF: "audio/aiff", MP4: "audio/mp4", Ogg: "audio/ogg", WebM: "audio/webm",
	Matroska: "audio/x-matroska", FLAC: "audio/flac", MP3: "audio/mpeg", AAC: "audio/aac", AMR: "audio/amr",
	CAF: "audio/x-caf", ASF: "audio/x-ms-wma", DSS: "audio/x-dss", DS2: "audio/x-ds2",
}

// unknownType is the media type if neither the bytes nor the name show another.
const unknownType = "application/octet-stream"

// MediaType returns the media type of recordings of this kind.
func (k Kind) MediaType() string { return cmp.Or(mediaTypes[k], unknownType) }

// extensions of file names; the host's own tables differ too much to rely on.
var extensions = map[string]struct {
	kind      Kind
	mediaType string // if it is not that of the kind
}{
	".3gp": {MP4, "audio/3gpp"}, ".aac": {kind: AAC}, ".aif": {kind: AIFF}, ".aiff": {kind: AIFF}, ".amr": {kind: AMR},
	".caf": {kind: CAF}, ".ds2": {kind: DS2}, ".dss": {kind: DSS}, ".flac": {kind: FLAC}, ".m4a": {kind: MP4},
	".mka": {kind: Matroska}, ".mp3": {kind: MP3}, ".mp4": {kind: MP4}, ".oga": {kind: Ogg}, ".ogg": {kind: Ogg},
	".opus": {kind: Ogg}, ".w64": {kind: W64}, ".wav": {kind: WAV}, ".webm": {kind: WebM}, ".wma": {kind: ASF},
}

// TypeOf returns the media type of a recording of this kind with this file name. The bytes decide where the two
// disagree.
func TypeOf(kind Kind, name string) string {
	named := extensions[strings.ToLower(filepath.Ext(name))]
	if kind == "" || kind == named.kind {
		return cmp.Or(named.mediaType, named.kind.MediaType())
	}
	return kind.MediaType()
}

// CheckSource checks the recording of a *clinicaldoc.AudioSource as [Check] does. It returns nil for a stream, which
// can be read only once. Package clinicaldoc sets it.
var CheckSource func(source any) error

// Check recognizes a recording of that many bytes. It returns an error that matches [ErrNotARecording] for what is
// certainly something else, and one that matches [ErrCutShort] if the recording is shorter than its own headers
// announce. The kind is returned with ErrCutShort also. Any other error is the reader's.
//
// It makes at most maxReads reads of at most maxRead bytes each.
func Check(r io.ReaderAt, size int64) (Kind, error) {
	s := &source{from: r, size: size}
	head := s.read(0, min(size, headSize))
	if s.err != nil {
		return "", s.err
	}
	if what := documentName(head, size); what != "" {
		return "", redact.Fail("the file is not a recording but "+what, ErrNotARecording)
	}
	kind, measure := identify(s, head)
	if measure == nil || s.err != nil {
		return kind, s.err
	}
	found := measure(s)
	switch {
	case s.err != nil:
		return kind, s.err
	case found.lacks != "":
		return kind, cutShort(fmt.Sprintf("its %s file has no %s", kind, found.lacks))
	case found.length > size:
		return kind, cutShort(fmt.Sprintf("its %s headers announce %d bytes, and it has %d", kind, found.length, size))
	}
	return kind, nil
}

// cutShort returns the error of a recording that is cut short.
func cutShort(why string) error {
	return redact.Fail("the recording is cut short: "+why+"; copy it again when it is complete", ErrCutShort)
}

// Bounds of what is read of one recording.
const (
	headSize = 512
	maxRead  = 64 << 10
	maxReads = 1024
)

// source reads parts of a recording. The first error ends all reading.
type source struct {
	from  io.ReaderAt
	size  int64
	reads int
	err   error
}

// read returns exactly n bytes at that offset, or nil if they are not all there, or no more may be read.
func (s *source) read(offset, n int64) []byte {
	if n <= 0 || n > maxRead {
		return nil
	}
	if offset < 0 || offset > s.size-n {
		return nil
	}
	if s.err != nil || s.reads == maxReads {
		return nil
	}
	s.reads++
	data := make([]byte, n)
	got, err := s.from.ReadAt(data, offset)
	if int64(got) == n {
		return data
	}
	s.err = cmp.Or(err, io.ErrUnexpectedEOF)
	if errors.Is(s.err, io.EOF) {
		s.err = io.ErrUnexpectedEOF
	}
	return nil
}

// measurement is what a container reports about its own length.
type measurement struct {
	length int64  // bytes that the file should have; 0: not reported, or as many as it has
	lacks  string // a part that it must have and does not; empty: none
}

// measure finds out how long a recording of a certain kind should be.
type measure func(*source) measurement

// identify returns the kind that the first bytes show, and how to measure it; nil if its length cannot be found out.
// What follows an ID3 tag and is not recognized is MP3.
func identify(s *source, head []byte) (Kind, measure) {
	for _, c := range containers {
		if c.matches(head) {
			return c.kind, c.measure
		}
	}
	start := tagLength(head) // where the sound begins
	if start != 0 {
		head = s.read(start, min(s.size-start, headSize))
	}
	switch {
	case begins("fLaC")(head):
		return FLAC, nil
	case hasFrames(s, start, adtsFrame):
		return AAC, nil
	case hasFrames(s, start, mp3Frame), start != 0:
		return MP3, func(s *source) measurement { return mp3Length(s, start) }
	}
	return "", nil
}

// containers are the kinds that fixed bytes show.
var containers = []struct {
	kind    Kind
	matches func(head []byte) bool
	measure measure // nil: the length cannot be found out
}{
	{WAV, form("RIFF", "WAVE"), riffLength},
	{WAV, form("RF64", "WAVE"), rf64Length},
	{W64, begins("riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\x00\x00"), w64Length},
	{AIFF, form("FORM", "AIFF"), aiffLength},
	{AIFF, form("FORM", "AIFC"), aiffLength},
	{MP4, at(4, "ftyp"), mp4Length},
	{Ogg, begins("OggS"), oggLength},
	{WebM, isWebM, matroskaLength},
	{Matroska, begins(ebmlHeader), matroskaLength},
	{CAF, begins("caff\x00\x01"), cafLength},
	{AMR, begins("#!AMR"), nil},
	{ASF, begins(asfHeader), asfLength},
	{DSS, dictation("dss"), nil},
	{DS2, dictation("ds2"), nil},
}

// at returns a function that reports whether the text is at that offset.
func at(offset int, text string) func([]byte) bool {
	return func(head []byte) bool { return bytes.HasPrefix(head[min(offset, len(head)):], []byte(text)) }
}

// begins returns a function that reports whether the bytes begin with the text.
func begins(text string) func([]byte) bool { return at(0, text) }

// form matches an IFF file of that type: an identifier, four bytes of length, the type.
func form(identifier, kind string) func([]byte) bool {
	return func(head []byte) bool { return begins(identifier)(head) && at(8, kind)(head) }
}

// dictation matches the files of dictation devices, which begin with a small version number before the word.
func dictation(word string) func([]byte) bool {
	const maxVersion = 8
	return func(head []byte) bool { return at(1, word)(head) && head[0] >= 1 && head[0] <= maxVersion }
}
