package integration

import (
	"encoding/binary"
	"math"
	"time"
)

// tone is a WAV file with a tone: audio, and plainly nobody's voice.
func tone(length time.Duration) []byte {
	const rate, frequency = 8000, 440
	samples := make([]byte, int(length.Seconds()*rate))
	for i := range samples {
		samples[i] = byte(128 + 60*math.Sin(2*math.Pi*frequency*float64(i)/rate))
	}
	var file []byte
	text := func(s string) { file = append(file, s...) }
	number := func(n uint32) { file = binary.LittleEndian.AppendUint32(file, n) }
	short := func(n uint16) { file = binary.LittleEndian.AppendUint16(file, n) }
	text("RIFF")
	number(uint32(36 + len(samples)))
	text("WAVEfmt ")
	number(16)
	short(1) // PCM
	short(1) // one channel
	number(rate)
	number(rate) // bytes per second
	short(1)     // bytes per sample
	short(8)     // bits per sample
	text("data")
	number(uint32(len(samples)))
	return append(file, samples...)
}
