package media

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAdvance_LargeNumber_EndsAtTheLargestOffset(t *testing.T) {
	t.Parallel()
	const largest = int64(math.MaxInt64)
	assert.Equal(t, int64(15), advance(8, 7))
	assert.Equal(t, largest-1, advance(8, math.MaxInt64-9))
	assert.Equal(t, largest, advance(8, math.MaxInt64-8))
	assert.Equal(t, largest, advance(8, math.MaxInt64-7))
	assert.Equal(t, largest, advance(8, math.MaxUint64))
}

func TestMP4Box_Header_GivesNameAndEnd(t *testing.T) {
	t.Parallel()
	// A box of eight bytes precedes each, so that its offset is not 0.
	const first = "\x00\x00\x00\x08free"
	for header, want := range map[string]struct {
		name string
		end  int64
	}{
		"\x00\x00\x00\x20mdat":                                 {"mdat", 8 + 32},
		"\x00\x00\x00\x08mdat":                                 {"mdat", 8 + 8},
		"\x00\x00\x00\x07mdat":                                 {"", 8}, // shorter than its header
		"\x00\x00\x00\x00mdat":                                 {"mdat", 16},
		"\x00\x00\x00\x00mdat and more":                        {"mdat", 8 + 17},
		"\x00\x00\x00\x01mdat\x00\x00\x00\x01\x00\x00\x00\x30": {"mdat", 8 + 1<<32 + 48},
		"\x00\x00\x00\x01mdat\x00\x00\x00\x01\x00\x00\x00":     {"mdat", 8 + 16}, // cut within its header
		"\x00\x00\x00\x20md\x00t":                              {"", 8},
		"\x00\x00\x00\x20mda":                                  {"", 8},
	} {
		name, end := mp4Box(sourceOf(first+header), 8)
		assert.Equal(t, want.name, name, "%q", header)
		assert.Equal(t, want.end, end, "%q", header)
	}
}

func TestIsBoxName_PrintableCharacters_AreAccepted(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"moov": true, "u rl": true, "~~~~": true, "\xa9nam": true,
		"\x1fabc": false, "abc\x7f": false, "\xa8nam": false,
	} {
		assert.Equal(t, want, isBoxName(name), "%q", name)
	}
}

func TestOggLength_LastPage_IsMeasured(t *testing.T) {
	t.Parallel()
	// A page's header ends with the number of segments, and then the length of each.
	const fixed = "OggS\x00 22 bytes of a header."
	const first = "OggS\x00 22 bytes of a header\x01\x03abc"
	for _, tc := range []struct {
		name, data string
		want       measurement
	}{
		{"complete", first + fixed[:26] + "\x02\x02\x03abcde", measurement{length: 31 + 27 + 2 + 5}},
		{"one page", fixed[:26] + "\x02\x02\x03abcde", measurement{length: 27 + 2 + 5}},
		{"cut within the sound", first + fixed[:26] + "\x02\x02\x03a", measurement{length: 31 + 27 + 2 + 5}},
		{"cut before the sound", first + fixed[:26] + "\x02\x02\x03", measurement{length: 31 + 27 + 2 + 5}},
		{"cut within the segments", first + fixed[:26] + "\x02\x02", measurement{length: 31 + 27 + 2}},
		{"cut before the segments", first + fixed[:26] + "\x02", measurement{length: 31 + 27 + 2}},
		{"cut within the header", first + fixed[:20], measurement{length: 31 + 27}},
		{"no page", "OggX and more", measurement{lacks: "page at its end"}},
	} {
		assert.Equal(t, tc.want, oggLength(sourceOf(tc.data)), tc.name)
	}
}

func TestASFLength_Properties_AreFoundBehindOtherObjects(t *testing.T) {
	t.Parallel()
	object := func(id string, size byte, content string) string {
		return id + string(rune(size)) + "\x00\x00\x00\x00\x00\x00\x00" + content
	}
	// The fields of the header, and then an object that is only its own head.
	start := string(make([]byte, 30)) + object(string(make([]byte, 16)), 24, "")
	sized := func(flags string) string {
		return object(asfProperties, 92, string(make([]byte, 16))+"\x00\x01\x00\x00\x00\x00\x00\x00"+
			string(make([]byte, 40))+flags)
	}
	for _, tc := range []struct {
		name, data string
		want       int64
	}{
		{"a length", start + sized("\x02\x00\x00\x00"), 256},
		{"a broadcast", start + sized("\x03\x00\x00\x00"), 0},
		{"cut within the properties", start + sized("\x02\x00\x00"), 0},
		{"an object smaller than its own head", start + object(string(make([]byte, 16)), 23, sized("\x02\x00\x00\x00")), 0},
		{"no properties", start, 0},
	} {
		assert.Equal(t, measurement{length: tc.want}, asfLength(sourceOf(tc.data)), tc.name)
	}
}

func TestMatroskaLength_Segment_IsMeasured(t *testing.T) {
	t.Parallel()
	const segment = "\x18\x53\x80\x67"
	const header = ebmlHeader + "\x83abc" // and its length, and its content
	for _, tc := range []struct {
		name, data string
		want       int64
	}{
		{"complete", header + segment + "\x84abcd", 8 + 5 + 4},
		{"cut", header + segment + "\x84ab", 8 + 5 + 4},
		{"long", header + segment + "\x40\x84" + string(make([]byte, 100)), 8 + 6 + 0x84},
		{"open", header + segment + "\xff" + string(make([]byte, 100)), 0},
		{"cut before the length", header + segment, 0},
		{"another part", header + "abcdefgh", 0},
		{"cut within the header", ebmlHeader + "\x83a", 0},
		{"header without a length", ebmlHeader + "\xff" + segment + "\x84abcd", 0},
	} {
		assert.Equal(t, measurement{length: tc.want}, matroskaLength(sourceOf(tc.data)), tc.name)
	}
}

func TestEBMLSize_Width_IsInTheFirstByte(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]struct {
		size  uint64
		width int
	}{
		"\x81":                             {1, 1},
		"\x80":                             {0, 1},
		"\xfe":                             {0x7e, 1},
		"\x40\x05":                         {5, 2},
		"\x7f\xfe":                         {0x3ffe, 2},
		"\x10\x00\x01\x02 and more":        {0x102, 4},
		"\x01\x00\x00\x00\x00\x00\x01\x02": {0x102, 8},
		"":                                 {0, 0},
		"\x00\x81":                         {0, 0},
		"\x40":                             {0, 0}, // cut
		"\xff":                             {0, 0}, // open
		"\x7f\xff":                         {0, 0},
		"\x01\xff\xff\xff\xff\xff\xff\xff": {0, 0},
	} {
		size, width := ebmlSize([]byte(data))
		assert.Equal(t, want.size, size, "%q", data)
		assert.Equal(t, want.width, width, "%q", data)
	}
}
