package download

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestStrongTag(t *testing.T) {
	t.Parallel()
	for tag, want := range map[string]string{
		`"1"`: `"1"`, `"d41d8-7"`: `"d41d8-7"`,
		"": "", `""`: "", `"`: "", `1`: "", `W/"1"`: "", `"1`: "", `1"`: "", "\"1\r\n\"": "", "\"\x7f\"": "",
	} {
		assert.Equal(t, want, strongTag(http.Header{"Etag": {tag}}), tag)
	}
	assert.Empty(t, strongTag(http.Header{}))
}

func TestContentRange(t *testing.T) {
	t.Parallel()
	for value, want := range map[string][2]int64{
		"bytes 5-9/10": {5, 10}, "bytes 0-0/1": {0, 1}, "bytes */10": {-1, 10}, "bytes 5-9/*": {5, -1}, "bytes 5-9": {5, -1},
		"": {-1, -1}, "bytes": {-1, -1}, "items 5-9/10": {-1, -1}, "bytes -5-9/10": {-1, 10}, "bytes 5-9/-10": {5, -1}, "bytes x-9/y": {-1, -1},
		"bytes 99999999999999999999-9/10": {-1, 10}, "bytes 5-9/9223372036854775808": {5, -1}, "bytes 5-9/9223372036854775807": {5, 9223372036854775807},
	} {
		start, total := contentRange(http.Header{"Content-Range": {value}})
		assert.Equal(t, want, [2]int64{start, total}, value)
	}
}
