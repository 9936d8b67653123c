package integration

import (
	"encoding/binary"
	"math"
	"time"
)

// tone is a WAV file with a tone: audio, and plainly nobody's voice. It has 8,000 samples a second of one byte.
func tone(length time.Duration) []byte {
	const rate, frequency = 8000, 440
	samples := make([]byte, int(length.Seconds()*rate))
	for i := range samples {
		samples[i] = byte(128 + 60*math.Sin(2*math.Pi*frequency*float64(i)/rate))
	}
	var file []byte
	for _, part := range []any{
		[]byte("RIFF"), uint32(36 + len(samples)), []byte("WAVEfmt "), uint32(16), uint16(1), uint16(1),
		uint32(rate), uint32(rate), uint16(1), uint16(8), []byte("data"), uint32(len(samples)), samples,
	} {
		file, _ = binary.Append(file, binary.LittleEndian, part)
	}
	return file
}
