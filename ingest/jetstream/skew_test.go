package jetstream

import (
	"net/http"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// skew is by how much a machine's clock is ahead. In a bubble all have one clock; that a machine's is ahead means the same as that
// all others are behind, so that the times which it reads are moved back, and those which it writes forth. A nil one is right.
//
// It can step while the machine runs: what was read before is written again as it was read. Times in the machine's memory that came
// from elsewhere do not feel such a step, as times with a monotonic reading do not.
type skew struct {
	mu     sync.Mutex
	ahead  time.Duration
	origin map[int64]time.Time // what was read, by what it was moved to
}

func (s *skew) step(to time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = to
}

func (s *skew) inward(t time.Time) time.Time {
	if s == nil || t.IsZero() {
		return t
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	moved := t.Add(-s.ahead)
	if s.origin == nil {
		s.origin = map[int64]time.Time{}
	}
	s.origin[moved.UnixNano()] = t
	return moved
}

func (s *skew) outward(t time.Time) time.Time {
	if s == nil || t.IsZero() {
		return t
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if origin, known := s.origin[t.UnixNano()]; known {
		return origin
	}
	return t.Add(s.ahead)
}

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
func (s *skew) read(text []byte) []byte {
	if s == nil {
		return text
	}
	return replaceTimes(text, s.inward)
}

func (s *skew) write(text []byte) []byte {
	if s == nil {
		return text
	}
	return replaceTimes(text, s.outward)
}

// date moves that of a response.
func (s *skew) date(header http.Header) {
	if at, err := http.ParseTime(header.Get("Date")); err == nil && s != nil {
		header.Set("Date", at.Add(-s.now()).Format(http.TimeFormat))
	}
}

func (s *skew) now() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ahead
}

func TestASkewedClockGivesBackWhatItRead(t *testing.T) {
	t.Parallel()
	s := &skew{ahead: time.Hour}
	const text = `{"at":"2026-01-02T03:04:05.000000006Z","zero":"0001-01-01T00:00:00Z"}`
	assert.Contains(t, string(s.read([]byte(text))), `"2026-01-02T02:04:05.000000006Z"`)
	s.step(-time.Hour)
	assert.Contains(t, string(s.write([]byte(`"2026-01-02T02:04:05.000000006Z"`))), `"2026-01-02T03:04:05.000000006Z"`)
	assert.Contains(t, string(s.write([]byte(`"2026-01-02T02:04:06Z"`))), `"2026-01-02T01:04:06.000000000Z"`)
}
