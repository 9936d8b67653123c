package download

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// headSize is how many of its first bytes show whether it is a recording.
const headSize = 512

const (
	textDocument = "storage responded with a document instead of a recording"
	textEmpty    = "storage responded with an empty recording"
)

// checkForm rejects compressed bytes and documents, by the header.
func checkForm(h http.Header, uncompressed bool) error {
	encoding := cmp.Or(h.Get("Content-Encoding"), "identity")
	if uncompressed || !strings.EqualFold(encoding, "identity") {
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

// isRecording reports whether the first bytes may be a recording. Web pages and errors come with any media type. Text
// with an audio type is accepted unless it is JSON, HTML or XML.
func isRecording(mediaType string, head []byte) bool {
	switch {
	case isDocument(head):
		return false
	case strings.HasPrefix(mediaType, "audio/"):
		return true
	}
	return !isText(head)
}

// isDocument reports whether the bytes are JSON, HTML or XML.
func isDocument(head []byte) bool {
	kind := http.DetectContentType(head) // recognizes pages in other encodings than UTF-8 too
	switch {
	case strings.HasPrefix(kind, "text/html"), strings.HasPrefix(kind, "text/xml"):
		return true
	case !isText(head):
		return false
	}
	text := bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")))
	return bytes.IndexAny(text, "<{[") == 0 || json.Valid(text)
}

// isText reports whether the bytes are UTF-8 without control characters. The last character may be incomplete.
func isText(head []byte) bool {
	for len(head) > 0 {
		r, size := utf8.DecodeRune(head)
		if r == utf8.RuneError && size == 1 {
			return !utf8.FullRune(head)
		}
		if isControl(r) {
			return false
		}
		head = head[size:]
	}
	return true
}

// isControl reports whether a character does not occur in texts.
func isControl(r rune) bool {
	const inTexts = "\t\n\f\r\x1b"
	return unicode.IsControl(r) && r < utf8.RuneSelf && !strings.ContainsRune(inTexts, r)
}

// strongTag returns the ETag if it is a strong one, which promises the same bytes. Otherwise it returns "".
func strongTag(tag string) string {
	inner, opened := strings.CutPrefix(tag, `"`)
	inner, closed := strings.CutSuffix(inner, `"`)
	isQuoted := opened && closed && inner != ""
	if isQuoted && redact.IsHeaderValue(tag) {
		return tag
	}
	return ""
}

// contentRange parses a Content-Range such as "bytes 5-9/10". A number that is not given is -1.
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
