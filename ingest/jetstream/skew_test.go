package jetstream

import (
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// skew is by how much the clock of a machine's process is ahead. In a bubble all workers share one clock. A worker
// whose clock is ahead is simulated by moving the times that it reads back, and those that it writes forward.
type skew time.Duration

func (s skew) inward(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(-time.Duration(s))
}

func (s skew) outward(t time.Time) time.Time { return (-s).inward(t) }

var timeInJSON = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"`)

func replaceTimes(text []byte, move func(time.Time) time.Time) []byte {
	return timeInJSON.ReplaceAllFunc(text, func(found []byte) []byte {
		at, err := time.Parse(`"`+time.RFC3339Nano+`"`, string(found))
		if err != nil {
			return found
		}
		return move(at).UTC().AppendFormat(nil, `"2006-01-02T15:04:05.000000000Z"`)
	})
}

// read and write move the times in a JSON text.
func (s skew) read(text []byte) []byte  { return replaceTimes(text, s.inward) }
func (s skew) write(text []byte) []byte { return replaceTimes(text, s.outward) }

// date moves that of a response.
func (s skew) date(header http.Header) {
	if at, err := http.ParseTime(header.Get("Date")); err == nil {
		header.Set("Date", s.inward(at).Format(http.TimeFormat))
	}
}

func TestSkew_WrittenAndRead_IsTheSame(t *testing.T) {
	t.Parallel()
	const text = `{"at":"2026-01-02T03:04:05.000000006Z","zero":"0001-01-01T00:00:00.000000000Z"}`
	read := skew(time.Hour).read([]byte(text))
	assert.Contains(t, string(read), `"2026-01-02T02:04:05.000000006Z"`)
	assert.JSONEq(t, text, string(skew(time.Hour).write(read)))
}
