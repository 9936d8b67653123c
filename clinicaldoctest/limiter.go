package clinicaldoctest

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// limiter counts requests per key in fixed windows, as the service's framework does.
type limiter struct {
	mu      sync.Mutex
	windows map[int64]*window
}

type window struct {
	ends time.Time
	used int
}

// verdict is what a limiter says about one request.
type verdict struct {
	limit, remaining int
	refused          bool
	reset, now       time.Time
}

// take counts a request of a key, unless the limit of its window is used up.
func (l *limiter) take(key int64, limit int, length time.Duration, now time.Time) verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.windows == nil {
		l.windows = map[int64]*window{}
	}
	w := l.windows[key]
	if w == nil || !now.Before(w.ends) {
		w = &window{ends: now.Add(length)}
		l.windows[key] = w
	}
	if w.used >= limit {
		return verdict{limit: limit, refused: true, reset: w.ends, now: now}
	}
	w.used++
	return verdict{limit: limit, remaining: limit - w.used, now: now}
}

// describe writes the verdict's headers. Only a refusal has Retry-After and X-RateLimit-Reset.
func (v verdict) describe(header http.Header) {
	header.Set("X-RateLimit-Limit", strconv.Itoa(v.limit))
	header.Set("X-RateLimit-Remaining", strconv.Itoa(v.remaining))
	if v.refused {
		wait := v.reset.Sub(v.now)
		header.Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
		header.Set("X-RateLimit-Reset", strconv.FormatInt(v.reset.Unix(), 10))
	}
}

func tooManyAttempts() answer {
	return answer{status: http.StatusTooManyRequests, body: object{"message": "Too Many Attempts."}}
}
