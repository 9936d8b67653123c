// Cutdownload downloads a recording through a proxy that cuts every connection after a while. The download goes on where
// it was each time and ends with the same bytes. It runs only on the box, whatever service is configured.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func main() {
	flag.Parse()
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer) error {
	recording := bytes.Repeat([]byte("synthetic audio "), 20_000)
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
	quarters := int64(0)
	size, err := client.Notes.DownloadAudioFile(ctx, id, path, clinicaldoc.DownloadParams{OnProgress: func(received, total int64) {
		if 4*received/total > quarters {
			quarters = 4 * received / total
			_, _ = fmt.Fprintf(out, "downloaded %3d %%\n", 25*quarters)
		}
	}})
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
	_, err = fmt.Fprintf(out, "%d bytes, equal to the recording, in spite of %d cuts\n", size, cuts.Load())
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
