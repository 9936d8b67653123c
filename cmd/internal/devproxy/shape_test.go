package devproxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestShape_EachBody_ShowsNamesAndTypes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		contentType, body string
		want              []string
	}{
		"nothing":   {"application/json", ``, nil},
		"object":    {"application/json", `{"id":1,"a":{"b":[1.5,"x",null]},"ok":true}`, []string{"object", "id: integer", "a: object", "a.b: array", "a.b[]: number", "a.b[]: string", "a.b[]: null", "ok: boolean"}},
		"rows":      {"application/json; charset=utf-8", `[{"id":1},{"id":2,"x":""}]`, []string{"array", "[]: object", "[].id: integer", "[].x: string"}},
		"cut off":   {"application/json", `{"id":1,"a":{"b":"x`, []string{"object", "id: integer", "a: object"}},
		"data":      {"application/json", `{"A Person":{"x":1}}`, []string{"object", "(name withheld): object", "(name withheld).x: integer"}},
		"deep":      {"application/json", strings.Repeat("[", 1000), []string{"array", "[]: array", "[][]: array"}},
		"web page":  {"text/html; charset=utf-8", `<p>`, []string{"text/html"}},
		"made up":   {"text/person", `x`, []string{"another type"}},
		"no border": {"multipart/form-data", `x`, []string{"parts without a boundary"}},
		"form": {
			"multipart/form-data; boundary=b",
			"--b\r\nContent-Disposition: form-data; name=\"A Person\"\r\n\r\nx\r\n" +
				"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"A Person.wav\"\r\n\r\nx\r\n--b--",
			[]string{"part (name withheld)", "part file: file, another type"},
		},
	} {
		got := shape(http.Header{"Content-Type": {test.contentType}}, []byte(test.body))
		if name == "deep" {
			assert.LessOrEqual(t, len(got), maxShapeDepth+2)
			got = got[:3]
		}
		assert.Equal(t, test.want, got, name)
	}
	members := make([]string, maxShapeLines) // and the object itself is a line
	for i := range members {
		members[i] = fmt.Sprintf(`"name%d":1`, i)
	}
	many := shape(http.Header{"Content-Type": {"application/json"}}, []byte("{"+strings.Join(members, ",")+"}"))
	assert.Len(t, many, maxShapeLines)
	for _, coding := range []string{"identity", "Identity"} {
		plain := http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {coding}}
		assert.Equal(t, []string{"object", "id: integer"}, shape(plain, []byte(`{"id":1}`)), coding)
	}
	assert.Equal(t, []string{"compressed"}, shape(http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}, []byte("x")))
}
