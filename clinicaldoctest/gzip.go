package clinicaldoctest

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
)

// acceptsGzip reports whether a client takes a compressed response.
func acceptsGzip(r *http.Request) bool {
	for accepted := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if coding, q := quality(accepted); coding == "gzip" {
			return q > 0
		}
	}
	return false
}

// gzipWriter compresses a response that is written in one piece.
type gzipWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader waits for the body, whose compressed length it announces.
func (w *gzipWriter) WriteHeader(status int) {
	w.status = status
	if status == http.StatusNoContent {
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *gzipWriter) Write(p []byte) (int, error) {
	if w.status == http.StatusNoContent {
		return len(p), nil
	}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, _ = zip.Write(p) // a buffer takes everything
	_ = zip.Close()
	w.Header().Set("Content-Encoding", "gzip")
	w.Header().Add("Vary", "Accept-Encoding")
	w.Header().Set("Content-Length", strconv.Itoa(packed.Len()))
	w.ResponseWriter.WriteHeader(w.status)
	if _, err := w.ResponseWriter.Write(packed.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}
