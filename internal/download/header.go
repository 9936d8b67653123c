package download

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// strongTag returns the ETag if it promises the same bytes, not just the same meaning.
func strongTag(h http.Header) string {
	if tag := h.Get("ETag"); isStrongTag(tag) {
		return tag
	}
	return ""
}

func isStrongTag(tag string) bool {
	return len(tag) > 2 && strings.HasPrefix(tag, `"`) && strings.HasSuffix(tag, `"`) && redact.IsHeaderValue(tag)
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
