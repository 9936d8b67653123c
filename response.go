package clinicaldoc

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/tolerant"
)

// Response is the service's response to a call; see [WithResponse].
type Response struct {
	StatusCode int         // of the last response; 0 if there was none
	Header     http.Header // of the last response
	RequestID  string      // as the service sent it; empty if it sent none
	RateLimit  RateLimit   // zero if the service sent no such headers
	Attempts   int         // how often the request was sent
	Body       []byte      // the body as it was received; it contains patient data

	zoneless   bool // a time in the body has no zone
	textUnread bool // a text of a note in the body could not be read
}

// RateLimit holds the values of the X-RateLimit headers. If Limit is 0, the service sent none, and Remaining has no
// meaning.
type RateLimit struct {
	Limit, Remaining int       // 0 if not sent
	Reset            time.Time // zero if not sent
}

// fill sets the fields for the caller of [WithResponse]. A nil Response ignores it.
func (r *Response) fill(call *exchange.Result) {
	if r == nil {
		return
	}
	*r = Response{
		StatusCode: call.Last.Status,
		Header:     call.Last.Header.Clone(),
		RequestID:  requestID(call.Last.Header),
		RateLimit:  parseRateLimit(call.Last.Header, time.Now()),
		Attempts:   call.Last.Number,
		Body:       bytes.Clone(call.Last.Body),
	}
}

// parseRateLimit returns the values of the X-RateLimit headers. Values that are absent or cannot be read are zero.
func parseRateLimit(h http.Header, now time.Time) RateLimit {
	r := RateLimit{Remaining: max(rateLimitRemaining(h), 0)}
	r.Limit, _ = strconv.Atoi(h.Get("X-RateLimit-Limit"))
	if reset, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64); err == nil && reset > 0 {
		r.Reset = resetTime(reset, exchange.ServerTime(h, now))
	}
	return r
}

// rateLimitRemaining returns how many requests the limit still allows, or -1 if the header is absent.
func rateLimitRemaining(h http.Header) int {
	remaining, err := strconv.Atoi(h.Get("X-RateLimit-Remaining"))
	if err != nil {
		return -1
	}
	return max(remaining, 0)
}

// maxLimitWindow is the longest that an exhausted limit can last. A later reset has an unknown unit, or a wrong clock.
const maxLimitWindow = 31 * 24 * time.Hour

// resetTime returns the time of a reset: seconds from now, or a time since 1970 in seconds, milliseconds, microseconds
// or nanoseconds. The magnitude shows which, for all times between 1973 and 5138.
func resetTime(value int64, now time.Time) time.Time {
	reset := time.Unix(0, value)
	switch {
	case value < 1e8:
		reset = now.Add(time.Duration(value) * time.Second)
	case value < 1e11:
		reset = time.Unix(value, 0)
	case value < 1e14:
		reset = time.UnixMilli(value)
	case value < 1e17:
		reset = time.UnixMicro(value)
	}
	if reset.Sub(now) > maxLimitWindow {
		return time.Time{}
	}
	return reset.UTC()
}

// LogValue implements [slog.LogValuer]. It lists neither the header nor the body.
func (r Response) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int("status", r.StatusCode),
		slog.String("request_id", r.RequestID),
		slog.Int("attempts", r.Attempts),
		slog.Int("bytes", len(r.Body)),
	)
}

// Format implements [fmt.Formatter]. It prints the same fields as LogValue.
func (r Response) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.Response", r) }

// Confirmation is the service's response to a deletion or a revocation. Message is empty if the response has none.
type Confirmation struct {
	hidden

	Message string `json:"message"`
}

// decodeConfirmation reads the message of a confirmation. It accepts any JSON and an empty response, because the status
// is enough.
func decodeConfirmation(response []byte) (*Confirmation, []string, error) {
	c := new(Confirmation)
	if len(bytes.TrimSpace(response)) == 0 {
		return c, nil, nil
	}
	d := jsonscan.New(response)
	if d.Kind() != jsonscan.Object {
		d.Skip()
		return c, nil, d.End()
	}
	for key := range d.Fields() {
		if string(key) == "message" {
			tolerant.Text(d, &c.Message)
		}
	}
	return c, d.Warnings, d.End()
}
