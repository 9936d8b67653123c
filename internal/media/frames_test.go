package media

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// sourceOf returns a recording of these bytes.
func sourceOf(data string) *source {
	return &source{from: strings.NewReader(data), size: int64(len(data))}
}

func TestTagLength_SizeAndFooter_AreAdded(t *testing.T) {
	t.Parallel()
	for head, want := range map[string]int64{
		"ID3\x04\x00\x00\x00\x00\x02\x01": 10 + 257, // seven bits in each byte of the size
		"ID3\x04\x00\x10\x00\x00\x02\x01": 10 + 257 + 10,
		"ID3\x04\x00\x00\x00\x00\x00\x00": 10,
		"ID3\x04\x00\x00\x00\x00\x02":     0, // the tag's header is not complete
		"IDX\x04\x00\x00\x00\x00\x02\x01": 0,
	} {
		assert.Equal(t, want, tagLength([]byte(head)), "%q", head)
	}
}

func TestADTSFrame_Header_GivesItsLength(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]int64{
		"\xff\xf1\x50\x80\x02\x00": 16,
		"\xff\xf9\x50\x80\x02\x00": 16, // MPEG-2
		"\xff\xf1\x50\x83\x02\xff": 3<<11 + 16 + 7,
		"\xff\xf1\x30\x80\x02\x00": 16, // the last sample rate
		"\xff\xf1\x34\x80\x02\x00": 0,  // a sample rate that is not used
		"\xff\xf1\x50\x80\x00\xe0": 7,
		"\xff\xf1\x50\x80\x00\xc0": 0, // shorter than the header
		"\xff\xf3\x50\x80\x02\x00": 0, // another layer
		"\xff\xe1\x50\x80\x02\x00": 0,
	} {
		assert.Equal(t, want, adtsFrame([]byte(header)), "%q", header)
	}
}

func TestMP3Frame_Header_GivesItsLength(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]int64{
		"\xff\xfb\x90\x00": 417, // MPEG-1, 128 kbit/s, 44.1 kHz
		"\xff\xfb\x92\x00": 418, // with a byte of padding
		"\xff\xfb\xe4\x00": 960, // 320 kbit/s, 48 kHz
		"\xff\xfa\x98\x00": 576, // with a checksum, 32 kHz
		"\xff\xf3\x80\x00": 208, // MPEG-2, 64 kbit/s, 22.05 kHz
		"\xff\xe3\x80\x00": 417, // MPEG-2.5, 64 kbit/s, 11.025 kHz
		"\xff\xeb\x90\x00": 0,   // a version that is not used
		"\xff\xfb\x00\x00": 0,   // no fixed bit rate
		"\xff\xfb\x02\x00": 0,   // no fixed bit rate, with a byte of padding
		"\xff\xfb\xf0\x00": 0,   // a bit rate that is not used
		"\xff\xfb\x9c\x00": 0,   // a sample rate that is not used
		"\xff\xfd\x90\x00": 0,   // layer II
	} {
		assert.Equal(t, want, mp3Frame([]byte(header)), "%q", header)
	}
}

func TestMP3Length_TagWithAByteCount_IsRead(t *testing.T) {
	t.Parallel()
	// The tag follows the frame's header and its side information, which is shorter for MPEG-2 and for mono.
	frame := func(header string, side int, tag string) string {
		return header + string(make([]byte, side)) + tag + string(make([]byte, 60))
	}
	for _, tc := range []struct {
		name, data string
		start      int64
		want       int64
	}{
		{"count of frames and bytes", frame("\xff\xfb\x90\x00", 32, "Xing\x00\x00\x00\x03\x00\x00\x00\x09\x00\x00\x02\x01"),
			0, 0x201},
		{"count of bytes only", frame("\xff\xfb\x90\x00", 32, "Info\x00\x00\x00\x02\x00\x00\x03\x01"), 0, 0x301},
		{"count of frames only", frame("\xff\xfb\x90\x00", 32, "Info\x00\x00\x00\x01\x00\x00\x03\x01\x00\x00\x04\x01"),
			0, 0},
		{"another tag", frame("\xff\xfb\x90\x00", 32, "Zing\x00\x00\x00\x02\x00\x00\x03\x01"), 0, 0},
		{"mono", frame("\xff\xfb\x90\xc0", 17, "Info\x00\x00\x00\x02\x00\x00\x03\x01"), 0, 0x301},
		{"MPEG-2", frame("\xff\xf3\x80\x00", 17, "Info\x00\x00\x00\x02\x00\x00\x03\x01"), 0, 0x301},
		{"MPEG-2 mono", frame("\xff\xf3\x80\xc0", 9, "Info\x00\x00\x00\x02\x00\x00\x03\x01"), 0, 0x301},
		{"behind an ID3 tag", "0123456789" + frame("\xff\xfb\x90\x00", 32, "Info\x00\x00\x00\x02\x00\x00\x03\x01"),
			10, 0x301},
		{"nothing behind the ID3 tag", "0123456789", 10, 0},
		{"cut within the ID3 tag", "012345678", 10, 10},
	} {
		assert.Equal(t, measurement{length: tc.want}, mp3Length(sourceOf(tc.data), tc.start), tc.name)
	}
}

func TestSource_Read_IsBounded(t *testing.T) {
	t.Parallel()
	s := sourceOf(string(make([]byte, maxRead+1)))
	assert.Len(t, s.read(0, maxRead), maxRead)
	assert.Len(t, s.read(1, maxRead), maxRead, "to the last byte")
	assert.Nil(t, s.read(2, maxRead), "beyond the last byte")
	assert.Nil(t, s.read(0, maxRead+1), "too much in one request")
	assert.Nil(t, s.read(0, 0))
	assert.Nil(t, s.read(-1, 1))
	assert.Equal(t, 2, s.reads)
	assert.NoError(t, s.err)
}
