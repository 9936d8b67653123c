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

// Response is what came back for a call; see [WithResponse].
type Response struct {
	StatusCode int         // of the last response; 0 when none came
	Header     http.Header // of the last response
	RequestID  string      // as the service gave it; empty when it gave none
	RateLimit  RateLimit   // zero when the service sent no such headers
	Attempts   int         // how often the request was sent
	Body       []byte      // the response as it came; it holds patients' data

	zoneless bool // a time in it came without a zone
}

// RateLimit is what the X-RateLimit headers said. A Limit of 0 means that the service sent none; then Remaining says nothing.
type RateLimit struct {
	Limit, Remaining int       // 0 when not sent
	Reset            time.Time // zero when not sent
}

// fill gives the caller of WithResponse what came back. Before that the Response is empty: see [WithResponse].
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

func parseRateLimit(h http.Header, now time.Time) RateLimit {
	r := RateLimit{Remaining: max(rateLimitRemaining(h), 0)}
	r.Limit, _ = strconv.Atoi(h.Get("X-RateLimit-Limit"))
	if reset, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64); err == nil && reset > 0 {
		r.Reset = resetTime(reset, exchange.ServerTime(h, now))
	}
	return r
}

// rateLimitRemaining is how many requests the limit still allows; -1 when that was not sent.
func rateLimitRemaining(h http.Header) int {
	remaining, err := strconv.Atoi(h.Get("X-RateLimit-Remaining"))
	if err != nil {
		return -1
	}
	return max(remaining, 0)
}

// maxLimitWindow is the longest that a used-up limit can last. A later reset is a unit or a clock that we do not understand.
const maxLimitWindow = 31 * 24 * time.Hour

// resetTime reads a reset: seconds from now, or a time since 1970 in seconds, milliseconds, microseconds or nanoseconds.
// Its magnitude tells which, for all times between 1973 and 5138.
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

// LogValue lists what may be logged of the response: neither header nor body.
func (r Response) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int("status", r.StatusCode), slog.String("request_id", r.RequestID), slog.Int("attempts", r.Attempts), slog.Int("bytes", len(r.Body)),
	)
}

// Format prints what LogValue lists for every verb.
func (r Response) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.Response", r) }

// Confirmation is the service's word that something was done. Message is empty when the response held none.
type Confirmation struct {
	hidden

	Message string `json:"message"`
}

// decodeConfirmation accepts any JSON and nothing at all: the status has said what matters.
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
