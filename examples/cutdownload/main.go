// Cutdownload downloads a recording through a proxy that cuts every connection after a while. The download goes on where
// it was each time and ends with the same bytes.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/examples/internal/demo"
)

func main() { demo.Main(run) }

func run(ctx context.Context, out io.Writer) error {
	recording := demo.WAV(20 * time.Second)
	srv := clinicaldoctest.NewServer()
	defer srv.Close()
	id := srv.AddNote(clinicaldoctest.Note{Name: "Cut download", Audio: recording})

	var cuts atomic.Int64
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &cutting{Conn: conn, left: 64 << 10, cuts: &cuts}, nil
	}}
	defer transport.CloseIdleConnections()
	client := srv.Client(
		clinicaldoc.WithHTTPClient(&http.Client{Transport: transport}),
		clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 3, MinWait: 10 * time.Millisecond}),
	)

	folder, err := os.MkdirTemp("", "cutdownload")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	path := filepath.Join(folder, "recording.wav")
	size, err := client.Notes.DownloadAudioFile(ctx, id, path, clinicaldoc.DownloadParams{
		OnProgress: func(received, total int64) { _, _ = fmt.Fprintf(out, "\rdownloading %3d %%", 100*received/total) },
	})
	if err != nil {
		return err
	}
	got, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if sha256.Sum256(got) != sha256.Sum256(recording) {
		return errors.New("the audio came back changed")
	}
	_, err = fmt.Fprintf(out, "\n%d bytes, equal to the recording, in spite of %d cuts\n", size, cuts.Load())
	return err
}

// cutting is a connection that breaks after so many bytes.
type cutting struct {
	net.Conn
	left int
	cuts *atomic.Int64
}

func (c *cutting) Read(p []byte) (int, error) {
	if c.left <= 0 {
		c.cuts.Add(1)
		_ = c.Close()
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}
