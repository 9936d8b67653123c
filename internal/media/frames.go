package media

// tagLength returns the length of the ID3 tag at the beginning, or 0 if there is none.
func tagLength(head []byte) int64 {
	const hasFooter = 0x10
	if !begins("ID3")(head) || len(head) < 10 {
		return 0
	}
	length := int64(10)
	if head[5]&hasFooter != 0 {
		length += 10
	}
	size := int64(0)
	for _, b := range head[6:10] {
		size = size<<7 | int64(b&0x7f)
	}
	return length + size
}

// frameHeader is how much of a frame is enough for its length.
const frameHeader = 6

// hasFrames reports whether a frame begins at that offset, and another one where it ends. The function frameLength
// returns 0 for what is not a frame.
func hasFrames(s *source, offset int64, frameLength func(header []byte) int64) bool {
	for range 2 {
		header := s.read(offset, frameHeader)
		if header == nil {
			return false
		}
		length := frameLength(header)
		if length == 0 {
			return false
		}
		offset += length
	}
	return true
}

// adtsFrame returns the length of the AAC frame with this header, or 0 if it is not one.
func adtsFrame(header []byte) int64 {
	if big.Uint16(header)&0xfff6 != 0xfff0 { // the bits that begin a frame
		return 0
	}
	sampleRate := header[2] >> 2 & 0xf // an index; 13 and above are not used
	length := int64(header[3]&3)<<11 | int64(header[4])<<3 | int64(header[5]>>5)
	if sampleRate > 12 || length < 7 {
		return 0
	}
	return length
}

// Kilobits a second and samples a second of MPEG-1 layer III; the other versions have their own bit rates, and a half
// or a quarter of the samples.
var (
	mp3Bitrates  = [16]int64{0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0}
	mp3Bitrates2 = [16]int64{0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0}
	mp3Rates     = [4]int64{44_100, 48_000, 32_000, 0}
)

// The versions of MPEG in the header of a frame.
const (
	mpeg1  = 3
	mpeg2  = 2
	mpeg25 = 0 // MPEG-2.5
)

// mp3Version returns the version of MPEG in the header of a frame.
func mp3Version(header []byte) byte { return header[1] >> 3 & 3 }

// mp3Frame returns the length of the MP3 frame with this header, or 0 if it is not one.
func mp3Frame(header []byte) int64 {
	if big.Uint16(header)&0xffe6 != 0xffe2 { // the bits that begin a frame of layer III
		return 0
	}
	version := mp3Version(header)
	bitrate := mp3Bitrates[header[2]>>4]
	rate := mp3Rates[header[2]>>2&3]
	factor := int64(144_000) // 1152 samples in a frame, by 8 bits in a byte, by 1000 bits in a kilobit
	switch version {
	case mpeg1:
	case mpeg2, mpeg25:
		bitrate = mp3Bitrates2[header[2]>>4]
		factor = 72_000 // 576 samples
		rate /= 2
		if version == mpeg25 {
			rate /= 2
		}
	default:
		return 0
	}
	if bitrate == 0 || rate == 0 {
		return 0
	}
	padding := int64(header[2] >> 1 & 1)
	return factor*bitrate/rate + padding
}

// mp3Length returns how many bytes an MP3 file should have at least. Most encoders write how many bytes of sound it has
// into a tag, Xing or Info, within the first frame, which begins at start. The ID3 tag is not added, because some
// encoders count it too.
func mp3Length(s *source, start int64) measurement {
	const hasFrameCount, hasByteCount = 1, 2
	if start > s.size { // the file ends within the ID3 tag, so it is too short
		return measurement{length: start}
	}
	frame := s.read(start, 4+32+16) // header, longest side information, tag up to its byte count
	if frame == nil || mp3Frame(frame) == 0 {
		return measurement{}
	}
	tag := frame[4+mp3SideLength(frame):]
	flags := big.Uint32(tag[4:])
	isTag := begins("Xing")(tag) || begins("Info")(tag)
	if !isTag || flags&hasByteCount == 0 {
		return measurement{}
	}
	byteCount := tag[8:]
	if flags&hasFrameCount != 0 { // which precedes it
		byteCount = tag[12:]
	}
	return measurement{length: int64(big.Uint32(byteCount))}
}

// mp3SideLength returns how many bytes are between the header of a frame and its sound.
func mp3SideLength(header []byte) int {
	isMono := header[3]>>6 == 3
	isMPEG1 := mp3Version(header) == mpeg1
	switch {
	case isMPEG1 && !isMono:
		return 32
	case isMPEG1 || !isMono:
		return 17
	default:
		return 9
	}
}
