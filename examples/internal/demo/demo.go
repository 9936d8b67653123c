// Package demo is what the examples share: a service to talk to, and a recording to send.
package demo

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"os/signal"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// Main runs an example until it ends or is interrupted, and exits with 1 if it fails.
func Main(run func(ctx context.Context, out io.Writer) error) {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// Connect returns a client for the service that CLINICALDOC_BASE_URL and CLINICALDOC_TOKEN name. Without the first it
// starts the service in a box, where a note takes about two seconds, and says so. The returned function ends it.
func Connect(out io.Writer, opts ...clinicaldoc.Option) (*clinicaldoc.Client, func(), error) {
	if os.Getenv(clinicaldoc.EnvBaseURL) != "" {
		client, err := clinicaldoc.NewClientFromEnv(opts...)
		return client, func() {}, err
	}
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithDelays(clinicaldoctest.Delays{
		Uploaded: 200 * time.Millisecond, Transcribing: time.Second, Transcribed: 200 * time.Millisecond, Analysing: 600 * time.Millisecond,
	}))
	_, _ = fmt.Fprintf(out, "no %s set: using the service in a box at %s\n", clinicaldoc.EnvBaseURL, srv.URL)
	return srv.Client(opts...), srv.Close, nil
}

// WAV returns a recording of a quiet tone: 8 kHz, 16 bit, mono.
func WAV(length time.Duration) []byte {
	const rate = 8000
	samples := int(length.Seconds() * rate)
	header := struct {
		Riff          [4]byte
		Size          uint32
		WaveFmt       [8]byte
		FormatSize    uint32
		Format        uint16
		Channels      uint16
		Rate          uint32
		BytesPerSec   uint32
		BlockAlign    uint16
		BitsPerSample uint16
		Data          [4]byte
		DataSize      uint32
	}{
		Riff: [4]byte([]byte("RIFF")), Size: uint32(36 + 2*samples), WaveFmt: [8]byte([]byte("WAVEfmt ")), //nolint:gosec // short recordings
		FormatSize: 16, Format: 1, Channels: 1, Rate: rate, BytesPerSec: 2 * rate, BlockAlign: 2, BitsPerSample: 16,
		Data: [4]byte([]byte("data")), DataSize: uint32(2 * samples), //nolint:gosec // short recordings
	}
	wav, _ := binary.Append(nil, binary.LittleEndian, header)
	for i := range samples {
		level := math.Sin(2 * math.Pi * 220 * float64(i) / rate)
		wav = binary.LittleEndian.AppendUint16(wav, uint16(int16(2000*level))) //nolint:gosec // a sample's bits
	}
	return wav
}
