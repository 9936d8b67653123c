package media

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
)

var (
	big    = binary.BigEndian
	little = binary.LittleEndian
)

// advance returns the offset n bytes after another, or the largest possible one.
func advance(offset int64, n uint64) int64 {
	largest := uint64(math.MaxInt64 - offset) //nolint:gosec // offsets are not negative
	return offset + int64(min(n, largest))    //nolint:gosec // the sum fits
}

// A recorder that cannot go back to its header, or was not ended properly, leaves one of these instead of a length:
// zero, or about the largest number that fits.
const (
	placeholder32 = 0x7f00_0000
	placeholder64 = 1 << 60
)

// sizeSlack is how many bytes may be missing: some programs count the eight bytes before the length, or a last byte
// of padding.
const sizeSlack = 8

// measureChunk measures a file that is one chunk, whose header of that length announces how many bytes follow. It
// returns the announced length only if the file is certainly shorter: neither a placeholder nor a few missing bytes
// count. The placeholder zero is shorter than any file.
func measureChunk(s *source, header int64, announced, placeholder uint64) measurement {
	length := advance(header, announced)
	if announced >= placeholder || length <= s.size+sizeSlack {
		return measurement{}
	}
	return measurement{length: length}
}

// riffLength reads the length in the header of a WAV file.
func riffLength(s *source) measurement {
	if head := s.read(0, 8); head != nil {
		return measureChunk(s, 8, uint64(little.Uint32(head[4:])), placeholder32)
	}
	return measurement{}
}

// aiffLength reads the length in the header of an AIFF file.
func aiffLength(s *source) measurement {
	if head := s.read(0, 8); head != nil {
		return measureChunk(s, 8, uint64(big.Uint32(head[4:])), placeholder32)
	}
	return measurement{}
}

// rf64Length reads the first chunk of a large WAV file, which has the length that does not fit into the header.
func rf64Length(s *source) measurement {
	if head := s.read(0, 28); at(12, "ds64")(head) {
		return measureChunk(s, 8, little.Uint64(head[20:]), placeholder64)
	}
	return measurement{}
}

// w64Length reads the length in the header of a Wave64 file, which counts the header.
func w64Length(s *source) measurement {
	if head := s.read(0, 24); head != nil {
		return measureChunk(s, 0, little.Uint64(head[16:]), placeholder64)
	}
	return measurement{}
}

// mp4Length walks through the boxes of an MP4 file. It must have an index, moov: many recorders write that as the last
// box, when the recording ends.
func mp4Length(s *source) measurement {
	hasIndex := false
	for offset := int64(0); ; {
		name, end := mp4Box(s, offset)
		if name == "moov" {
			hasIndex = true
		}
		if s.reads == maxReads {
			return measurement{}
		}
		if end > s.size {
			return measurement{length: end}
		}
		if end <= offset { // the file ends here, or what follows is not a box
			break
		}
		offset = end
	}
	if !hasIndex {
		return measurement{lacks: "index (moov)"}
	}
	return measurement{}
}

// mp4Box returns the name of the box at that offset, and the offset where it ends. If there is no box, that is not
// after the first offset.
func mp4Box(s *source, offset int64) (name string, end int64) {
	head := s.read(offset, 8)
	if head == nil {
		return "", offset
	}
	name = string(head[4:8])
	switch size := big.Uint32(head); {
	case !isBoxName(name):
		return "", offset
	case size == 0: // it ends with the file
		return name, s.size
	case size == 1:
		long := s.read(offset+8, 8)
		if long == nil { // its header is longer than the file
			return name, offset + 16
		}
		return name, advance(offset, big.Uint64(long))
	case size < 8:
		return "", offset
	default:
		return name, offset + int64(size)
	}
}

// isBoxName reports whether the four bytes can be the name of a box, or of a chunk.
func isBoxName(name string) bool {
	for _, c := range []byte(name) {
		switch {
		case c == 0xa9: // in the boxes of QuickTime
		case c < ' ', c > '~':
			return false
		}
	}
	return true
}

// oggLength finds the last page of an Ogg file and returns where that page should end. A page is shorter than what is
// read here. A missing flag for the last page is not a sign of a cut: Android's recorder never sets it.
func oggLength(s *source) measurement {
	const fixedHeader = 27 // its last byte is the number of segments; their lengths follow
	tailStart := max(s.size-maxRead, 0)
	tail := s.read(tailStart, s.size-tailStart)
	last := bytes.LastIndex(tail, []byte("OggS\x00"))
	if last < 0 {
		return measurement{lacks: "page at its end"}
	}
	page := tail[last:]
	pageStart := tailStart + int64(last)
	if len(page) < fixedHeader {
		return measurement{length: pageStart + fixedHeader}
	}
	headerSize := fixedHeader + int(page[fixedHeader-1])
	if len(page) < headerSize {
		return measurement{length: pageStart + int64(headerSize)}
	}
	pageSize := headerSize
	for _, segment := range page[fixedHeader:headerSize] {
		pageSize += int(segment)
	}
	return measurement{length: pageStart + int64(pageSize)}
}

// cafLength walks through the chunks of an Apple Core Audio file. A length of -1 means that the sound ends with the
// file.
func cafLength(s *source) measurement {
	for offset := int64(8); ; {
		head := s.read(offset, 12)
		if head == nil { // no chunk is here, or the last one ends beyond the file
			return measurement{length: offset}
		}
		size := int64(big.Uint64(head[4:])) //nolint:gosec // the format has signed lengths
		if size < 0 || !isBoxName(string(head[:4])) {
			return measurement{}
		}
		offset = advance(offset+12, uint64(size))
	}
}

// The first bytes of the objects of a Windows Media file.
const (
	asfHeader     = "\x30\x26\xb2\x75\x8e\x66\xcf\x11\xa6\xd9\x00\xaa\x00\x62\xce\x6c"
	asfProperties = "\xa1\xdc\xab\x8c\x47\xa9\xcf\x11\x8e\xe4\x00\xc0\x0c\x20\x53\x65"
)

// asfLength walks through the objects in the header of a Windows Media file to the one that has the file's length. The
// length is not reported if there is no such object.
func asfLength(s *source) measurement {
	const (
		firstObject = 30 // where it begins, after the fields of the header
		idSize      = 16 // of the ID with which each object begins
		objectHead  = 24 // the ID, and the size of the object with its head
	)
	for offset := int64(firstObject); ; {
		head := s.read(offset, objectHead)
		if head == nil { // the file ends here
			return measurement{}
		}
		if begins(asfProperties)(head) {
			return asfFileSize(s, offset)
		}
		size := little.Uint64(head[idSize:])
		if size < objectHead {
			return measurement{}
		}
		offset = advance(offset, size)
	}
}

// asfFileSize reads the file's length from the properties, an object at that offset.
func asfFileSize(s *source, offset int64) measurement {
	const isBroadcast = 1 // the length is not valid
	properties := s.read(offset, 92)
	if properties == nil || little.Uint32(properties[88:])&isBroadcast != 0 {
		return measurement{}
	}
	return measureChunk(s, 0, little.Uint64(properties[40:]), placeholder64)
}

const ebmlHeader = "\x1a\x45\xdf\xa3"

// isWebM reports whether a file is Matroska of the type webm.
func isWebM(head []byte) bool {
	return begins(ebmlHeader)(head) && bytes.Contains(head[:min(len(head), 64)], []byte("\x42\x82\x84webm"))
}

// matroskaLength reads the length of the segment, which is all that follows the header. Browsers leave it open.
func matroskaLength(s *source) measurement {
	headerSize, width := ebmlSize(s.read(4, 8))
	if width == 0 {
		return measurement{}
	}
	segment := advance(4+int64(width), headerSize)
	head := s.read(segment, min(s.size-segment, 12))
	if !begins("\x18\x53\x80\x67")(head) {
		return measurement{}
	}
	size, width := ebmlSize(head[4:])
	if width == 0 {
		return measurement{}
	}
	return measurement{length: advance(segment+4+int64(width), size)}
}

// ebmlSize reads a length that takes one to eight bytes, and returns how many it takes. That width is 0 if the length
// is open, or cannot be read.
func ebmlSize(b []byte) (size uint64, width int) {
	if len(b) == 0 || b[0] == 0 {
		return 0, 0
	}
	width = bits.LeadingZeros8(b[0]) + 1
	if len(b) < width {
		return 0, 0
	}
	for _, c := range b[:width] {
		size = size<<8 | uint64(c)
	}
	allOnes := uint64(1)<<(7*width) - 1
	size &= allOnes      // without the bits that show the width
	if size == allOnes { // the length is open
		return 0, 0
	}
	return size, width
}
