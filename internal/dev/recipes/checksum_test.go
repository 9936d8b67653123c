package recipes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// download writes a recording and returns its SHA-256. The writer cannot be rewound, so a download
// that has to start again fails with ErrAudioChanged, and the sum matches what was written.
func download(ctx context.Context, c *clinicaldoc.Client, id int64, w io.Writer) (string, error) {
	sum := sha256.New()
	both := io.MultiWriter(w, sum)
	_, err := c.Notes.DownloadAudio(ctx, id, both, clinicaldoc.DownloadParams{})
	return hex.EncodeToString(sum.Sum(nil)), err
}
