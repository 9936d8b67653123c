package recipes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// download writes a recording and returns its SHA-256. A writer that cannot be rewound makes a
// download that has to start again fail with ErrAudioChanged, so that the sum is of what was kept.
func download(ctx context.Context, c *clinicaldoc.Client, id int64, w io.Writer) (string, error) {
	sum := sha256.New()
	both := io.MultiWriter(w, sum)
	_, err := c.Notes.DownloadAudio(ctx, id, both, clinicaldoc.DownloadParams{})
	return hex.EncodeToString(sum.Sum(nil)), err
}
