package media_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/media"
)

// The recordings in testdata are a tone of 0.15 seconds, written by ffmpeg. A "stream" was written to a pipe, so the
// program could not go back and complete its headers. ffmpeg_test.go makes longer ones in the same way.
var recordings = []struct {
	file      string
	kind      media.Kind
	mediaType string
	// verdicts has a letter for each twentieth of the file at which it was cut. C means that the cut is noticed, a dot
	// that it is not, and a question mark that the rest is not recognized. These files are so short that a cut can
	// be within their headers, or exactly between two parts of a stream.
	verdicts string
}{
	{"tone.wav", media.WAV, "audio/wav", allNoticed},
	{"stream.wav", media.WAV, "audio/wav", noneNoticed},
	{"tone-rf64.wav", media.WAV, "audio/wav", allNoticed},
	{"tone.w64", media.W64, "audio/x-w64", allNoticed},
	{"stream.w64", media.W64, "audio/x-w64", noneNoticed},
	{"tone.aiff", media.AIFF, "audio/aiff", allNoticed},
	{"stream.aiff", media.AIFF, "audio/aiff", noneNoticed},
	{"tone.m4a", media.MP4, "audio/mp4", allNoticed},
	{"tone-faststart.m4a", media.MP4, "audio/mp4", allNoticed},
	{"tone-fragmented.m4a", media.MP4, "audio/mp4", allNoticed},
	{"stream.m4a", media.MP4, "audio/mp4", "CCCCCCCC.CCCCCCCCCC"},
	{"tone.3gp", media.MP4, "audio/3gpp", allNoticed},
	{"tone.opus", media.Ogg, "audio/ogg", allNoticed},
	{"stream.opus", media.Ogg, "audio/ogg", allNoticed},
	{"tone.ogg", media.Ogg, "audio/ogg", allNoticed},
	{"tone.webm", media.WebM, "audio/webm", allNoticed},
	{"stream.webm", media.WebM, "audio/webm", noneNoticed},
	{"tone.mka", media.Matroska, "audio/x-matroska", ".CCCCCCCCCCCCCCCCCC"},
	{"tone.flac", media.FLAC, "audio/flac", noneNoticed},
	{"tone.mp3", media.MP3, "audio/mpeg", "..CCCCCCCCCCCCCCCCC"},
	{"stream.mp3", media.MP3, "audio/mpeg", "C.................."},
	{"tone-bare.mp3", media.MP3, "audio/mpeg", "????..............."},
	{"tone.aac", media.AAC, "audio/aac", "??????????........."},
	{"tone.caf", media.CAF, "audio/x-caf", allNoticed},
	{"stream.caf", media.CAF, "audio/x-caf", noneNoticed},
	{"tone.wma", media.ASF, "audio/x-ms-wma", allNoticed},
	{"stream.wma", media.ASF, "audio/x-ms-wma", noneNoticed},
}

const (
	allNoticed  = "CCCCCCCCCCCCCCCCCCC"
	noneNoticed = "..................."
)

func read(tb testing.TB, file string) []byte {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(tb, err)
	return data
}

func check(data []byte) (media.Kind, error) {
	return media.Check(bytes.NewReader(data), int64(len(data)))
}

// checkCuts checks a recording that is cut at each twentieth of its length. It returns a letter for each cut, as in
// verdicts of recordings, and an exclamation mark for an error other than that it is cut.
func checkCuts(data []byte, kind media.Kind) string {
	var verdicts strings.Builder
	for twentieth := 1; twentieth < 20; twentieth++ {
		known, err := check(data[:len(data)*twentieth/20])
		switch {
		case errors.Is(err, media.ErrCutShort):
			verdicts.WriteByte('C')
		case err != nil:
			verdicts.WriteByte('!')
		case known != kind:
			verdicts.WriteByte('?')
		default:
			verdicts.WriteByte('.')
		}
	}
	return verdicts.String()
}

func TestCheck_CompleteRecording_IsAcceptedWithItsKind(t *testing.T) {
	t.Parallel()
	for _, tc := range recordings {
		kind, err := check(read(t, tc.file))
		require.NoError(t, err, tc.file)
		assert.Equal(t, tc.kind, kind, tc.file)
		assert.Equal(t, tc.mediaType, media.TypeOf(kind, tc.file), tc.file)
	}
}

// Each recording is cut at every twentieth of its length. The verdicts have a letter for each cut: C if it is noticed,
// a dot if not.
func TestCheck_CutRecording_IsNoticedWhereItsHeadersTell(t *testing.T) {
	t.Parallel()
	for _, tc := range recordings {
		verdicts := checkCuts(read(t, tc.file), tc.kind)
		t.Logf("%-20s %s", tc.file, verdicts)
		assert.Equal(t, tc.verdicts, verdicts, tc.file)
	}
}

func TestCheck_DictationFile_IsKnownByItsFirstBytes(t *testing.T) {
	t.Parallel()
	for text, kind := range map[string]media.Kind{
		"\x02dss": media.DSS, "\x08dss": media.DSS, "\x03ds2": media.DS2, "\x01ds2": media.DS2, "#!AMR\n\x3c": media.AMR,
		"#!AMR-WB\n\x3c": media.AMR, "\x00dss": "", "\x09ds2": "", "dss": "",
	} {
		got, err := check(append([]byte(text), make([]byte, 600)...))
		require.NoError(t, err, "%q", text)
		assert.Equal(t, kind, got, "%q", text)
	}
	assert.Equal(t, "audio/x-dss", media.TypeOf("", "Visit.DSS"))
	assert.Equal(t, "audio/x-ds2", media.TypeOf(media.DS2, "visit"))
}

func TestTypeOf_BytesDecideWhereTheNameDisagrees(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		kind       media.Kind
		name, want string
	}{
		{"", "visit.wav", "audio/wav"},
		{"", "visit.opus", "audio/ogg"},
		{"", "visit", "application/octet-stream"},
		{"", "visit.xyz", "application/octet-stream"},
		{media.MP3, "visit.wav", "audio/mpeg"},
		{media.MP3, "visit", "audio/mpeg"},
		{media.MP4, "visit.3gp", "audio/3gpp"},
		{media.MP4, "visit.MP4", "audio/mp4"},
		{media.MP4, "visit.xyz", "audio/mp4"},
		{media.Matroska, "visit.webm", "audio/x-matroska"},
	} {
		assert.Equal(t, tc.want, media.TypeOf(tc.kind, tc.name), "%s %s", tc.kind, tc.name)
	}
}

func TestCheck_OtherFile_IsNotARecording(t *testing.T) {
	t.Parallel()
	program := make([]byte, 512)
	copy(program, "MZ")
	program[60] = 0x80
	copy(program[0x80:], "PE\x00\x00")
	dicom := append(make([]byte, 128), "DICM"...)
	bitmap := append([]byte("BM\x3a\x00\x00\x00"), make([]byte, 0x3a-6)...)
	for what, data := range map[string][]byte{
		"PDF":            []byte("%PDF-1.7\n"),
		"PostScript":     []byte("%!PS-Adobe"),
		"RTF":            []byte(`{\rtf1\ansi}`),
		"office":         []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\x00"),
		"ZIP":            []byte("PK\x03\x04\x14\x00"),
		"empty ZIP":      append([]byte("PK\x05\x06"), make([]byte, 18)...),
		"gzip":           []byte("\x1f\x8b\x08\x00"),
		"bzip2":          []byte("BZh91AY&SY\x00"),
		"xz":             []byte("\xfd7zXZ\x00\x00"),
		"7z":             []byte("7z\xbc\xaf\x27\x1c"),
		"RAR":            []byte("Rar!\x1a\x07\x01"),
		"SQLite":         []byte("SQLite format 3\x00"),
		"JPEG":           []byte("\xff\xd8\xff\xe0\x00\x10JFIF"),
		"PNG":            []byte("\x89PNG\r\n\x1a\n"),
		"GIF":            []byte("GIF89a"),
		"TIFF":           []byte("II*\x00\x08"),
		"big TIFF":       []byte("MM\x00*\x00"),
		"WebP":           []byte("RIFF\x10\x00\x00\x00WEBPVP8 "),
		"HEIC":           []byte("\x00\x00\x00\x18ftypheic\x00\x00\x00\x00"),
		"AVIF":           []byte("\x00\x00\x00\x18ftypavif\x00\x00\x00\x00"),
		"DICOM":          dicom,
		"BMP":            bitmap,
		"short BMP":      []byte("BM\x06\x00\x00\x00"),
		"ELF":            []byte("\x7fELF\x02\x01"),
		"Mach-O":         []byte("\xcf\xfa\xed\xfe\x07"),
		"class":          []byte("\xca\xfe\xba\xbe\x00"),
		"script":         []byte("#!/bin/sh\n"),
		"EXE":            program,
		"short EXE":      []byte("MZ\x00\x00PE\x00\x00" + strings.Repeat("\x00", 52) + "\x04\x00\x00\x00"),
		"HTML":           []byte("\n <!DOCTYPE html><title>Sign in</title>"),
		"XML":            []byte("<?xml version=\"1.0\"?>"),
		"binary XML":     []byte("<?xml version=\"1.0\"?>\x00"),
		"binary HTML":    []byte("<html>\x00"),
		"JSON object":    []byte("{\"message\": \"Unauthorized\"}"),
		"JSON array":     []byte("\xef\xbb\xbf [1, 2]"),
		"JSON cut":       append([]byte(`{"a":"`), bytes.Repeat([]byte("x"), 2000)...),
		"nothing at all": nil,
	} {
		kind, err := check(data)
		require.ErrorIs(t, err, media.ErrNotARecording, what)
		require.NotErrorIs(t, err, media.ErrCutShort, what)
		assert.Empty(t, kind, what)
	}
}

func TestCheck_UnknownBytes_AreAccepted(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"RIFF synthetic recording", "a dictated text", "\x00", "BM and more", "MZ and more", "\xff\xfb", "\xff\xf1\x00",
		strings.Repeat("\x00", 4096), "RIFF\x10\x00\x00\x00AVI LIST", "{\x00\x01 raw sound",
		"\xff\xfe\x00\x00\xff\xfe\x00\x00",
		"BM\x05\x00\x00",                                              // shorter than a BMP's header
		"MZ" + strings.Repeat("\x00", 58) + "\x3c\x00\x00",            // shorter than a program's header
		"MZ" + strings.Repeat("\x00", 58) + "\x40\x00\x00\x00",        // the offset of the PE header is the end
		"MZ" + strings.Repeat("\x00", 58) + "\xff\xff\xff\xff" + "PE", // and beyond the end
	} {
		kind, err := check([]byte(text))
		require.NoError(t, err, "%q", text)
		assert.Empty(t, kind, "%q", text)
	}
}

func wav(announced uint32, sound int) []byte {
	head := binary.LittleEndian.AppendUint32([]byte("RIFF"), announced)
	head = append(head, "WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00"...)
	head = append(head, "\x01\x00\x08\x00data\x00\x00\x00\x00"...)
	return append(head, make([]byte, sound)...)
}

// A recorder that cannot write its header again leaves a length of zero, or one near the largest number. Common
// programs write 0x7f000008, 0x7ffff024 or 0xffffffff.
func TestCheck_PlaceholderInsteadOfALength_IsNotACut(t *testing.T) {
	t.Parallel()
	for _, announced := range []uint32{0, 36, 0x7f00_0000, 0x7f00_0008, 0x7fff_f024, 0x8000_0000, 0xffff_ffff} {
		_, err := check(wav(announced, 1000))
		require.NoError(t, err, "%#x", announced)
	}
	_, err := check(wav(0x7eff_ffff, 1000))
	require.ErrorIs(t, err, media.ErrCutShort)
}

// Some programs count the eight bytes before the length too.
func TestCheck_WAVHeaderEightBytesTooLong_IsNotACut(t *testing.T) {
	t.Parallel()
	whole := wav(0, 1000)
	size := uint32(len(whole))
	for announced, cut := range map[uint32]bool{size - 8: false, size - 7: false, size: false, size + 1: true} {
		_, err := check(wav(announced, 1000))
		assert.Equal(t, cut, errors.Is(err, media.ErrCutShort), "%d of %d", announced, size)
	}
}

// Android's recorder never marks the last page.
func TestCheck_OggWithoutEndFlag_IsNotACut(t *testing.T) {
	t.Parallel()
	data := read(t, "tone.opus")
	last := bytes.LastIndex(data, []byte("OggS"))
	require.Equal(t, byte(4), data[last+5]&4, "the fixture has the flag")
	data[last+5] &^= 4
	kind, err := check(data)
	require.NoError(t, err)
	assert.Equal(t, media.Ogg, kind)
}

// A tag that some programs append is not a part of the container.
func TestCheck_BytesAfterTheRecording_AreAccepted(t *testing.T) {
	t.Parallel()
	for _, tc := range recordings {
		kind, err := check(append(read(t, tc.file), append([]byte("TAG"), make([]byte, 125)...)...))
		require.NoError(t, err, tc.file)
		assert.Equal(t, tc.kind, kind, tc.file)
	}
}

// A copy may have its final length from the beginning, with zeros where the rest will be.
func TestCheck_MP4FilledUpWithZeros_IsCutShort(t *testing.T) {
	t.Parallel()
	data := read(t, "tone.m4a")
	index := bytes.Index(data, []byte("moov"))
	require.Positive(t, index)
	clear(data[index-4:])
	_, err := check(data)
	require.ErrorIs(t, err, media.ErrCutShort)
	assert.Contains(t, err.Error(), "moov")
}

func TestCheck_MP4WithoutIndex_IsCutShort(t *testing.T) {
	t.Parallel()
	_, err := check([]byte("\x00\x00\x00\x10ftypM4A \x00\x00\x00\x00\x00\x00\x00\x08mdat"))
	require.ErrorIs(t, err, media.ErrCutShort)
	assert.Contains(t, err.Error(), "moov")
}

// Only the end of a long Ogg file is read.
func TestCheck_LongOgg_IsMeasuredByItsLastPage(t *testing.T) {
	t.Parallel()
	data := bytes.Repeat(read(t, "tone.opus"), 200)
	require.Greater(t, len(data), 64<<10)
	kind, err := check(data)
	require.NoError(t, err)
	assert.Equal(t, media.Ogg, kind)
	_, err = check(data[:len(data)-1])
	require.ErrorIs(t, err, media.ErrCutShort)
}

func TestCheck_OggFilledUpWithZeros_IsCutShort(t *testing.T) {
	t.Parallel()
	_, err := check(append(read(t, "tone.opus"), make([]byte, 70_000)...))
	require.ErrorIs(t, err, media.ErrCutShort)
}

func TestCheck_ID3Tag_IsSkipped(t *testing.T) {
	t.Parallel()
	tag := append([]byte("ID3\x04\x00\x00\x00\x00\x07\x68"), make([]byte, 1000)...)
	for file, kind := range map[string]media.Kind{
		"tone-bare.mp3": media.MP3, "tone.aac": media.AAC, "tone.flac": media.FLAC,
	} {
		got, err := check(append(bytes.Clone(tag), read(t, file)...))
		require.NoError(t, err, file)
		assert.Equal(t, kind, got, file)
	}
	kind, err := check(append(bytes.Clone(tag), read(t, "tone.flac")[:100]...))
	require.NoError(t, err)
	assert.Equal(t, media.FLAC, kind, "little follows the tag")
	kind, err = check(tag[:500])
	require.ErrorIs(t, err, media.ErrCutShort, "in the middle of the tag")
	assert.Equal(t, media.MP3, kind)
}

// counted counts what is read of a recording.
type counted struct {
	from         io.ReaderAt
	reads, bytes int
}

func (c *counted) ReadAt(p []byte, offset int64) (int, error) {
	c.reads++
	c.bytes += len(p)
	return c.from.ReadAt(p, offset)
}

func TestCheck_ReadsLittleOfALargeRecording(t *testing.T) {
	t.Parallel()
	for _, tc := range recordings {
		data := append(read(t, tc.file), make([]byte, 8<<20)...)
		reader := &counted{from: bytes.NewReader(data)}
		_, err := media.Check(reader, int64(len(data)))
		assert.False(t, err != nil && !errors.Is(err, media.ErrCutShort), "%s: %v", tc.file, err)
		assert.LessOrEqual(t, reader.bytes, 66<<10, tc.file)
		assert.LessOrEqual(t, reader.reads, 16, tc.file)
	}
}

// Recordings of very many parts are known by the first of them.
func TestCheck_ManyParts_AreNotAllRead(t *testing.T) {
	t.Parallel()
	const mp4 = "\x00\x00\x00\x10ftypM4A \x00\x00\x00\x00\x00\x00\x00\x08moov"
	for beginning, part := range map[string]string{
		mp4:                    "\x00\x00\x00\x08moof",
		"caff\x00\x01\x00\x00": "free\x00\x00\x00\x00\x00\x00\x00\x00",
	} {
		many := append([]byte(beginning), bytes.Repeat([]byte(part), 100_000)...)
		reader := &counted{from: bytes.NewReader(many)}
		_, err := media.Check(reader, int64(len(many)))
		require.NoError(t, err, "what is not read is not called cut")
		assert.Equal(t, 1024, reader.reads)
	}
}

var errDisk = errors.New("the disk failed")

// failing fails at each read after the first ones.
type failing struct {
	from io.ReaderAt
	good int
}

func (f *failing) ReadAt(p []byte, offset int64) (int, error) {
	if f.good--; f.good < 0 {
		return 0, errDisk
	}
	return f.from.ReadAt(p, offset)
}

func TestCheck_ReaderFails_SaysSoAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, tc := range recordings {
		data := read(t, tc.file)
		data = data[:len(data)/2]
		for good := range 3 {
			reader := &failing{from: bytes.NewReader(data), good: good}
			_, err := media.Check(reader, int64(len(data)))
			failed := reader.good < 0
			name := fmt.Sprint(tc.file, " after ", good)
			assert.Equal(t, failed, errors.Is(err, errDisk), name)
			if failed {
				require.NotErrorIs(t, err, media.ErrCutShort, name)
			}
		}
	}
	_, err := media.Check(strings.NewReader("short"), 1000)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.NotErrorIs(t, err, media.ErrCutShort)
}
