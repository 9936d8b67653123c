package download

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

func TestIsRecording_FirstBytes_Decide(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a line of text\r\n", 40)[:headSize]
	for name, tt := range map[string]struct {
		head           string
		audio, unknown bool // taken under audio/* and under another type
	}{
		"WAV":                     {"RIFF\x24\x00\x00\x00WAVEfmt ", true, true},
		"MP3 with a tag":          {"ID3\x04\x00\x00\x00\x00\x00\x00", true, true},
		"MP3":                     {"\xff\xfb\x90\x64\x00", true, true},
		"MP4":                     {"\x00\x00\x00\x20ftypM4A ", true, true},
		"Ogg":                     {"OggS\x00\x02", true, true},
		"FLAC":                    {"fLaC\x00\x00\x00\x22", true, true},
		"WebM":                    {"\x1a\x45\xdf\xa3\x01", true, true},
		"AMR":                     {"#!AMR\n\x3c\x91\x17\x16", true, true},
		"AIFF":                    {"FORM\x00\x00\x10\x00AIFF", true, true},
		"silence, 16 bits":        {strings.Repeat("\x00", headSize), true, true},
		"silence, mu-law":         {strings.Repeat("\xff", headSize), true, true},
		"silence, A-law":          {strings.Repeat("\xd5", headSize), true, true},
		"silence, 8 bits":         {strings.Repeat("\x80", headSize), true, true},
		"bytes that begin with {": {"{\x00\x01\x02", true, true},
		"text":                    {"Request has expired", true, false},
		"long text":               {long, true, false},
		"text that is cut":        {long[:headSize-1] + "\xc3", true, false},
		"text in another script":  {"Срок действия запроса истёк", true, false},
		"JSON":                    {`{"message":"Server Error"}`, false, false},
		"JSON that is cut":        {`{"message":"` + long[:100], false, false},
		"JSON, a list":            {"\r\n\t [1]", false, false},
		"JSON list that is cut":   {`["` + long[:100], false, false},
		"JSON with a mark":        {"\xef\xbb\xbf{}", false, false},
		"JSON, a text":            {`"Server Error"`, false, false},
		"JSON, nothing":           {"null\n", false, false},
		"HTML":                    {"<!DOCTYPE html><html>", false, false},
		"HTML in Latin-1":         {"<html><body>Acc\xe8s refus\xe9", false, false},
		"XML":                     {`<?xml version="1.0"?>`, false, false},
		"XML without a prolog":    {"<Error><Code>AccessDenied</Code></Error>", false, false},
		"XML after space":         {"\n  <Error/>", false, false},
	} {
		for _, kind := range []string{"audio/wav", "audio/mpeg"} {
			assert.Equal(t, tt.audio, isRecording(kind, []byte(tt.head)), name)
		}
		for _, kind := range []string{
			"", "application/octet-stream", "binary/octet-stream", "text/plain", "video/mp4", "audio",
		} {
			assert.Equal(t, tt.unknown, isRecording(kind, []byte(tt.head)), name)
		}
	}
}

func TestReceive_SmallReads_CheckTheWholeBeginning(t *testing.T) {
	t.Parallel()
	text := []byte(strings.Repeat("all of this is text ", 100))
	mixed := append(bytes.Repeat([]byte("ID3"), 100), audio(1000)...) // text at first
	late := append(bytes.Repeat([]byte("x"), headSize), audio(1000)...)
	for name, tt := range map[string]struct {
		body  []byte
		taken bool
	}{
		"text": {text, false}, "little text": {text[:20], false}, "no text": {mixed, true},
		"text where it is checked": {late, false}, "little": {audio(3), true},
	} {
		for how, read := range map[string]func(io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader,
			"the end with the data": iotest.DataErrReader,
		} {
			for _, length := range []int64{int64(len(tt.body)), -1} {
				var got bytes.Buffer
				d := newTest(&got)
				_, err := take(
					t, d, respond(200, read(bytes.NewReader(tt.body)), length, "Content-Type", "application/octet-stream"),
				)
				if tt.taken {
					require.NoError(t, err, name, how)
					assert.Equal(t, tt.body, got.Bytes(), name, how)
					continue
				}
				require.ErrorIs(t, err, exchange.ErrUnexpected, name, how)
				assert.Zero(t, got.Len(), "nothing of it is written: %s, %s", name, how)
			}
		}
	}
}

// cutAfter gives so many bytes and then breaks off.
func cutAfter(data []byte, n int) io.Reader {
	return io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(errors.New("synthetic cut")))
}

func TestReceive_CutWithinTheBeginning_ChecksAllOfIt(t *testing.T) {
	t.Parallel()
	header := []string{"Content-Type", "binary/octet-stream", "ETag", `"1"`}
	for name, tt := range map[string]struct {
		body  []byte
		taken bool
	}{
		"text":        {[]byte(strings.Repeat("text ", 200)), false},
		"little text": {[]byte("Request has expired"), false},
		"audio":       {append([]byte("ID3 and more text"), audio(1000)...), true},
	} {
		for _, at := range []int{1, 2, 17} {
			path := filepath.Join(t.TempDir(), "file")
			file, err := os.Create(path)
			require.NoError(t, err)
			d := newTest(file)
			_, err = take(t, d, respond(200, cutAfter(tt.body, at), int64(len(tt.body)), header...))
			require.ErrorContains(t, err, "was interrupted", "a few bytes prove nothing yet")
			require.Zero(t, d.Received(), "and are not written")
			_, err = take(t, d, respond(200, bytes.NewReader(tt.body), int64(len(tt.body)), header...))
			got, readErr := os.ReadFile(path)
			require.NoError(t, readErr)
			require.NoError(t, file.Close())
			if tt.taken {
				require.NoError(t, err, name)
				assert.Equal(t, tt.body, got)
				continue
			}
			require.ErrorIs(t, err, exchange.ErrUnexpected, name)
			assert.Empty(t, got)
			assert.Zero(t, d.Received())
		}
	}
}

func TestReceive_BinaryBeginning_IsWrittenImmediately(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	data := append([]byte("ID3"), audio(1000)...)
	reads := 0
	_, err := take(t, newTest(&got), respond(200, readerFunc(func(p []byte) (int, error) {
		reads++
		switch reads {
		case 1:
			return copy(p, data[:3]), nil
		case 2:
			assert.Zero(t, got.Len(), "this may become a text")
			return copy(p, data[3:100]), nil
		case 3:
			assert.Equal(t, 100, got.Len(), "this will not")
		}
		return copy(p, data[100:]), nil
	}), int64(len(data))))
	require.NoError(t, err)
	assert.Equal(t, data, got.Bytes())
}

func TestReceive_EmptyRecording_IsAnError(t *testing.T) {
	t.Parallel()
	for _, length := range []int64{0, -1} {
		_, err := take(t, newTest(io.Discard), respond(200, strings.NewReader(""), length, "Content-Type", "audio/wav"))
		require.ErrorIs(t, err, exchange.ErrUnexpected)
	}
}

// A transport of the caller may have decompressed the response. Lengths and ranges are then those of other bytes.
func TestCheckForm_CompressedBytes_AreRejected(t *testing.T) {
	t.Parallel()
	for encoding, fine := range map[string]bool{"": true, "Identity": true, "gzip": false} {
		header := http.Header{"Content-Encoding": {encoding}}
		assert.Equal(t, fine, checkForm(header, false) == nil, encoding)
		require.Error(t, checkForm(header, true), encoding)
	}
}

func TestStrongTag_WeakOrBroken_IsEmpty(t *testing.T) {
	t.Parallel()
	for tag, want := range map[string]string{
		`"1"`: `"1"`, `"d41d8-7"`: `"d41d8-7"`,
		"": "", `""`: "", `"`: "", `1`: "", `W/"1"`: "", `"1`: "", `1"`: "", "\"1\r\n\"": "", "\"\x7f\"": "",
	} {
		assert.Equal(t, want, strongTag(tag), tag)
	}
}

func TestContentRange_MissingNumbers_AreMinusOne(t *testing.T) {
	t.Parallel()
	for value, want := range map[string][2]int64{
		"bytes 5-9/10": {5, 10}, "bytes 0-0/1": {0, 1}, "bytes */10": {-1, 10}, "bytes 5-9/*": {5, -1}, "bytes 5-9": {5, -1},
		"": {-1, -1}, "bytes": {-1, -1}, "items 5-9/10": {-1, -1}, "bytes -5-9/10": {-1, 10}, "bytes 5-9/-10": {5, -1},
		"bytes x-9/y":                     {-1, -1},
		"bytes 99999999999999999999-9/10": {-1, 10}, "bytes 5-9/9223372036854775808": {5, -1},
		"bytes 5-9/9223372036854775807": {5, 9223372036854775807},
	} {
		start, total := contentRange(http.Header{"Content-Range": {value}})
		assert.Equal(t, want, [2]int64{start, total}, value)
	}
}
