package clinicaldoc

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// CallOption changes a single call; every method takes any number of them last.
type CallOption func(*callOptions) error

type callOptions struct {
	response *Response
	header   http.Header
	query    url.Values
	noRetry  bool
	answered func() // called with a success, before it is decoded
}

func newCallOptions(opts []CallOption) (callOptions, error) {
	if len(opts) == 0 {
		return callOptions{}, nil
	}
	var o callOptions
	for _, opt := range opts {
		if opt == nil {
			return o, invalid("call option", "is nil")
		}
		if err := opt(&o); err != nil {
			return o, err
		}
	}
	return o, nil
}

// Response tells how a call was answered; see [WithResponse].
type Response struct {
	StatusCode int         // of the last answer; 0 when none came
	Header     http.Header // of the last answer
	RequestID  string      // as the service gave it; empty when it gave none
	RateLimit  RateLimit   // zero when the service sent no such headers
	Attempts   int         // how often the request was sent
	Body       []byte      // the answer as it came; it holds patients' data
}

// RateLimit is what the X-RateLimit headers said.
type RateLimit struct {
	Limit, Remaining int       // 0 when not told
	Reset            time.Time // zero when not told
}

// WithResponse fills r with what came back, also when the call fails. A method that makes several requests fills it for
// each, so that the last one stays.
func WithResponse(r *Response) CallOption {
	return func(o *callOptions) error {
		if r == nil {
			return invalid("WithResponse", "the response is nil")
		}
		o.response = r
		return nil
	}
}

// ownHeaders are set by the SDK, or would undo one of its promises: a second host, or net/http repeating a create.
var ownHeaders = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Authorization": true, "Connection": true, "Content-Encoding": true, "Content-Length": true,
	"Content-Type": true, "Cookie": true, "Expect": true, "Host": true, "Idempotency-Key": true, "Proxy-Authorization": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true, "User-Agent": true, "X-Idempotency-Key": true, "X-Http-Method-Override": true,
}

// WithHeader adds a header to the request. Headers that the SDK answers for, such as Authorization, are refused.
func WithHeader(key, value string) CallOption {
	return func(o *callOptions) error {
		canonical := http.CanonicalHeaderKey(key)
		switch {
		case !isIdentifier(key, 128, "!#$%&'*+-.^_`|~"), !isHeaderValue(value):
			return invalid("WithHeader", "the key or the value cannot stand in a header")
		case ownHeaders[canonical]:
			return invalid("WithHeader", "%s is set by the SDK alone", canonical)
		}
		if o.header == nil {
			o.header = http.Header{}
		}
		o.header.Add(canonical, value)
		return nil
	}
}

// WithQuery adds a query parameter to the request, beside those of the method. An empty key is refused.
func WithQuery(key, value string) CallOption {
	return func(o *callOptions) error {
		if key == "" {
			return invalid("WithQuery", "the key is empty")
		}
		if o.query == nil {
			o.query = url.Values{}
		}
		o.query.Add(key, value)
		return nil
	}
}

// WithoutRetry sends the request once, whatever comes back. A read that a method needs to understand the answer, as
// [NotesService.Sign] may, is still made.
func WithoutRetry() CallOption {
	return func(o *callOptions) error {
		o.noRetry = true
		return nil
	}
}

// whenAnswered calls f when the answer is here, before it is decoded.
func whenAnswered(f func()) CallOption {
	return func(o *callOptions) error {
		o.answered = f
		return nil
	}
}

func isHeaderValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r != '\t' && (r < ' ' || r == 0x7f) })
}

// LogValue lists what may be logged of the response: neither header nor body.
func (r Response) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int("status", r.StatusCode),
		slog.String("request_id", r.RequestID),
		slog.Int("attempts", r.Attempts),
		slog.Int("bytes", len(r.Body)),
	)
}

// Format prints what LogValue lists for every verb.
func (r Response) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.Response", r) }
