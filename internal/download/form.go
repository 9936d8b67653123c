package download

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// headSize is how much of its beginning a recording is judged by.
const headSize = 512

const (
	textDocument = "storage responded with a document instead of a recording"
	textEmpty    = "storage responded with an empty recording"
)

// checkForm refuses what its headers say is no recording: compressed bytes and documents.
func checkForm(h http.Header, uncompressed bool) error {
	encoding := h.Get("Content-Encoding")
	if uncompressed || encoding != "" && !strings.EqualFold(encoding, "identity") {
		return unexpected("storage responded with compressed bytes although that was ruled out")
	}
	kind := mediaType(h)
	for _, document := range []string{"/html", "/xhtml+xml", "/xml", "+xml", "/json", "+json"} {
		if strings.HasSuffix(kind, document) {
			return unexpected(textDocument)
		}
	}
	return nil
}

func mediaType(h http.Header) string {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

// isRecording judges what storage sends by its beginning: pages and errors come under any type. What is called audio may
// be a text all the same if it is no JSON, HTML or XML.
func isRecording(mediaType string, head []byte) bool {
	return !isDocument(head) && (strings.HasPrefix(mediaType, "audio/") || !isText(head))
}

// isDocument recognises JSON, HTML and XML.
func isDocument(head []byte) bool {
	kind := http.DetectContentType(head) // knows pages also in other encodings than UTF-8
	if strings.HasPrefix(kind, "text/html") || strings.HasPrefix(kind, "text/xml") {
		return true
	}
	text := bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")))
	return isText(head) && (bytes.IndexAny(text, "<{[") == 0 || json.Valid(text))
}

// isText reports whether the bytes are UTF-8 without control characters; the last character may be cut off.
func isText(head []byte) bool {
	for len(head) > 0 {
		r, size := utf8.DecodeRune(head)
		switch {
		case r == utf8.RuneError && size == 1:
			return !utf8.FullRune(head)
		case r < ' ' && !strings.ContainsRune("\t\n\f\r\x1b", r), r == 0x7f:
			return false
		}
		head = head[size:]
	}
	return true
}

// strongTag returns the ETag if it promises the same bytes, not just the same meaning; else nothing.
func strongTag(tag string) string {
	if len(tag) > 2 && strings.HasPrefix(tag, `"`) && strings.HasSuffix(tag, `"`) && redact.IsHeaderValue(tag) {
		return tag
	}
	return ""
}

// contentRange reads "bytes 5-9/10"; what it does not tell is -1.
func contentRange(h http.Header) (start, total int64) {
	span, ok := strings.CutPrefix(h.Get("Content-Range"), "bytes ")
	if !ok {
		return -1, -1
	}
	span, size, _ := strings.Cut(span, "/")
	from, _, _ := strings.Cut(span, "-")
	return countOrNone(from), countOrNone(size)
}

func countOrNone(digits string) int64 {
	n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 63)
	if err != nil {
		return -1
	}
	return int64(n)
}
