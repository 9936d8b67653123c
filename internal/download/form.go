package download

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/internal/media"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// headSize is how many first bytes are enough to see whether they are a recording.
const headSize = 512

const (
	textDocument = "storage responded with a document instead of a recording"
	textEmpty    = "storage responded with an empty recording"
)

// checkForm returns an error if the header is that of compressed bytes or of a document. It also rejects bytes that
// net/http has decompressed.
func checkForm(h http.Header, wasDecompressed bool) error {
	encoding := cmp.Or(h.Get("Content-Encoding"), "identity")
	if wasDecompressed || !strings.EqualFold(encoding, "identity") {
		return unexpected("storage responded with compressed bytes, which were not requested")
	}
	kind := mediaType(h)
	for _, document := range []string{"/html", "/xhtml+xml", "/xml", "+xml", "/json", "+json"} {
		if strings.HasSuffix(kind, document) {
			return unexpected(textDocument)
		}
	}
	return nil
}

// mediaType returns the media type in lower case, without parameters.
func mediaType(h http.Header) string {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

// isRecording reports whether the first bytes may be a recording. Web pages and errors come with any media type. Text
// with an audio type is accepted unless it is JSON, HTML or XML.
func isRecording(mediaType string, head []byte) bool {
	switch {
	case media.IsDocument(head):
		return false
	case strings.HasPrefix(mediaType, "audio/"):
		return true
	}
	return !media.IsText(head)
}

// strongTag returns the ETag if it is a strong one, which promises the same bytes, and can be sent back in a header.
// Otherwise it returns "".
func strongTag(tag string) string {
	inner, opened := strings.CutPrefix(tag, `"`)
	inner, closed := strings.CutSuffix(inner, `"`)
	isQuoted := opened && closed && inner != ""
	if isQuoted && redact.IsHeaderValue(tag) {
		return tag
	}
	return ""
}

// contentRange returns the first and the last number of a Content-Range such as "bytes 5-9/10": 5 and 10. A number that
// is absent or cannot be read is unknown.
func contentRange(h http.Header) (start, total int64) {
	numbers, ok := strings.CutPrefix(h.Get("Content-Range"), "bytes ")
	if !ok {
		return unknown, unknown
	}
	span, afterSlash, _ := strings.Cut(numbers, "/")
	beforeDash, _, _ := strings.Cut(span, "-")
	return parseCount(beforeDash), parseCount(afterSlash)
}

// parseCount parses a count that is not negative. It returns unknown for anything else.
func parseCount(digits string) int64 {
	n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 63)
	if err != nil {
		return unknown
	}
	return int64(n)
}
