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

// after returns the offset n bytes after another, or the largest there is.
func after(offset int64, n uint64) int64 {
	if n > uint64(math.MaxInt64-offset) { //nolint:gosec // offsets are not negative
		return math.MaxInt64
	}
	return offset + int64(n) //nolint:gosec // it fits, as was checked
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

// chunkFile is the measurement of a file that is one chunk, whose header announces that many bytes after the header.
func chunkFile(s *source, header int64, announced, placeholder uint64) measurement {
	length := after(header, announced)
	if announced == 0 || announced >= placeholder || length <= s.size+sizeSlack {
		return measurement{}
	}
	return measurement{length: length}
}

func riffLength(s *source) measurement {
	if head := s.read(0, 8); head != nil {
		return chunkFile(s, 8, uint64(little.Uint32(head[4:])), placeholder32)
	}
	return measurement{}
}

func aiffLength(s *source) measurement {
	if head := s.read(0, 8); head != nil {
		return chunkFile(s, 8, uint64(big.Uint32(head[4:])), placeholder32)
	}
	return measurement{}
}

// rf64Length reads the first chunk of a large WAV file, which has the length that does not fit into the header.
func rf64Length(s *source) measurement {
	if head := s.read(0, 28); at(12, "ds64")(head) {
		return chunkFile(s, 8, little.Uint64(head[20:]), placeholder64)
	}
	return measurement{}
}

func w64Length(s *source) measurement {
	if head := s.read(0, 24); head != nil {
		return chunkFile(s, 0, little.Uint64(head[16:]), placeholder64)
	}
	return measurement{}
}

// mp4Length walks the boxes. The index, moov, is the last one where a recorder writes it when the recording ends.
func mp4Length(s *source) measurement {
	hasIndex := false
	for offset := int64(0); offset < s.size; {
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
		if end <= offset { // what follows is not a box
			break
		}
		offset = end
	}
	if !hasIndex {
		return measurement{lacks: "index (moov)"}
	}
	return measurement{}
}

// mp4Box returns the name of the box at that offset and where it ends: not after the offset if there is no box.
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
		if long == nil {
			return name, offset + 16
		}
		return name, after(offset, big.Uint64(long))
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

// oggLength finds the last page, which tells its own length. A page is shorter than what is read here. A missing flag
// at the end is not a sign: Android's recorder never sets it.
func oggLength(s *source) measurement {
	const header = 27
	start := max(s.size-maxRead, 0)
	tail := s.read(start, s.size-start)
	last := bytes.LastIndex(tail, []byte("OggS\x00"))
	if last < 0 {
		return measurement{lacks: "page at its end"}
	}
	page := tail[last:]
	start += int64(last)
	if len(page) < header {
		return measurement{length: start + header}
	}
	body := header + int(page[header-1])
	if len(page) < body {
		return measurement{length: start + int64(body)}
	}
	length := body
	for _, segment := range page[header:body] {
		length += int(segment)
	}
	return measurement{length: start + int64(length)}
}

// cafLength walks the chunks of an Apple Core Audio file. A length of -1 means that the sound ends with the file.
func cafLength(s *source) measurement {
	for offset := int64(8); ; {
		head := s.read(offset, 12)
		if head == nil {
			return measurement{}
		}
		size := int64(big.Uint64(head[4:])) //nolint:gosec // the format has signed lengths
		if size < 0 || !isBoxName(string(head[:4])) {
			return measurement{}
		}
		offset = after(offset+12, uint64(size))
		if offset > s.size {
			return measurement{length: offset}
		}
	}
}

const (
	asfHeader     = "\x30\x26\xb2\x75\x8e\x66\xcf\x11\xa6\xd9\x00\xaa\x00\x62\xce\x6c"
	asfProperties = "\xa1\xdc\xab\x8c\x47\xa9\xcf\x11\x8e\xe4\x00\xc0\x0c\x20\x53\x65"
)

// asfLength walks the objects in the header of a Windows Media file to the one that has the file's length.
func asfLength(s *source) measurement {
	for offset := int64(30); ; {
		head := s.read(offset, 24)
		if head == nil {
			return measurement{}
		}
		if begins(asfProperties)(head) {
			return asfFileSize(s, offset)
		}
		size := little.Uint64(head[16:])
		if size < 24 {
			return measurement{}
		}
		offset = after(offset, size)
	}
}

func asfFileSize(s *source, offset int64) measurement {
	const isBroadcast = 1 // the length is not valid
	properties := s.read(offset, 92)
	if properties == nil || little.Uint32(properties[88:])&isBroadcast != 0 {
		return measurement{}
	}
	return chunkFile(s, 0, little.Uint64(properties[40:]), placeholder64)
}

const ebmlHeader = "\x1a\x45\xdf\xa3"

// isWebM recognizes a Matroska file whose type is webm.
func isWebM(head []byte) bool {
	return begins(ebmlHeader)(head) && bytes.Contains(head[:min(len(head), 64)], []byte("\x42\x82\x84webm"))
}

// matroskaLength reads the length of the segment, which is all that follows the header. Browsers leave it open.
func matroskaLength(s *source) measurement {
	header, width := ebmlSize(s.read(4, min(s.size-4, 8)))
	if width == 0 {
		return measurement{}
	}
	segment := after(4+int64(width), header)
	head := s.read(segment, min(s.size-segment, 12))
	if !begins("\x18\x53\x80\x67")(head) {
		return measurement{}
	}
	size, width := ebmlSize(head[4:])
	if width == 0 {
		return measurement{}
	}
	return measurement{length: after(segment+4+int64(width), size)}
}

// ebmlSize reads a length of one to eight bytes. The width is 0 if it is open, or not there.
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
	mask := uint64(1)<<(7*width) - 1
	size &= mask
	if size == mask {
		return 0, 0
	}
	return size, width
}
