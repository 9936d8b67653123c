package download

import (
	"net/http"
	"strconv"
	"strings"
)

// strongTag returns the ETag if it promises the same bytes, not just the same meaning.
func strongTag(h http.Header) string {
	tag := h.Get("ETag")
	if !isStrongTag(tag) {
		return ""
	}
	return tag
}

func isStrongTag(tag string) bool {
	control := func(r rune) bool { return r != '\t' && (r < ' ' || r == 0x7f) }
	return len(tag) > 2 && strings.HasPrefix(tag, `"`) && strings.HasSuffix(tag, `"`) && !strings.ContainsFunc(tag, control)
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
