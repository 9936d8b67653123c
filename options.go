package clinicaldoc

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Option configures a [Client]. If an option is invalid, [NewClient] returns an error that names it.
type Option func(*config) error

// config is what the options set. A Client does not change it afterwards.
type config struct {
	peer         *exchange.Peer // the service
	token        authorization  // nil: NewClient's own
	renew        renewal        // nil: never
	maxRetries   int
	logger       *slog.Logger
	hooks        Hooks
	audit        func(context.Context, Access) error // nil: no audit
	header       func() http.Header                  // of every request to the service; nil: none. See authorization
	names        QueryNames
	assumptions  Assumptions
	insecureHTTP bool
}

// optionIf returns the option of that name. It calls set if valid, and is otherwise rejected with what is wrong.
func optionIf[T any](valid bool, name, wrong string, set func(*T)) func(*T) error {
	return func(to *T) error {
		if !valid {
			return invalid(name, "%s", wrong)
		}
		set(to)
		return nil
	}
}

// option returns an option that is never rejected.
func option[T any](set func(*T)) func(*T) error { return optionIf(true, "", "", set) }

// newConfig applies the options to the defaults.
func newConfig(opts []Option) (config, error) {
	c := config{maxRetries: defaultRetry.MaxRetries, names: defaultQueryNames}
	c.peer = &exchange.Peer{
		Accept:        "application/json", // without it the service sends errors as redirects
		CacheControl:  "no-cache",         // a cached response may be older than another user's edit, or than a note
		UserAgent:     "clinicaldoc-go/" + version,
		StallTimeout:  time.Minute,
		MaxBody:       64 << 20,
		MinWait:       defaultRetry.MinWait,
		MaxWait:       defaultRetry.MaxWait,
		MaxRetryAfter: defaultRetry.MaxRetryAfter,
	}
	for _, opt := range opts {
		if opt == nil {
			return config{}, invalid("NewClient: option", "is nil")
		}
		if err := opt(&c); err != nil {
			return config{}, err
		}
	}
	return c, nil
}

// The defaults of the options of these names.
var (
	defaultRetry = RetryPolicy{
		MaxRetries: 3, MinWait: 500 * time.Millisecond, MaxWait: 30 * time.Second, MaxRetryAfter: 2 * time.Minute,
	}
	defaultQueryNames = QueryNames{
		PatientID: "patient_id", PerPage: "per_page", Sort: "sort", Page: "page", Cursor: "cursor",
	}
)

// WithHTTPClient sets the HTTP client whose transport (proxies, certificates, connection pool) and timeout are used.
// Its cookie jar and redirect policy are not used, and it is never changed. Without this option all clients share one
// pool, and proxies come from the environment (HTTPS_PROXY, HTTP_PROXY, NO_PROXY).
//
//   - Requests to storage also use the transport. A transport that sets a token, as that of oauth2 does, sends it
//     there. Pass its source to [WithTokenSource] instead.
//   - The client's Timeout limits each attempt at the service, including a long upload, but not downloads from storage.
//     Prefer a context with a deadline.
//   - A transport for HTTP/2 should send pings ([http.HTTP2Config]). Otherwise all retries may use a dead connection.
//   - A transport that retries is stopped before it sends a create twice. The outcome is then unknown.
func WithHTTPClient(client *http.Client) Option {
	return optionIf(client != nil, "WithHTTPClient", "the client is nil", func(c *config) {
		c.peer.Transport = cmp.Or(client.Transport, http.DefaultTransport)
		c.peer.Timeout = client.Timeout
	})
}

// TokenSource provides the token for each attempt. It must be safe for concurrent use. This package does not print the
// text of its errors.
//
// If the source also has a method Invalidate(token string), the client calls it with each token that the service
// refused with 401, and calls Token again. If the new token differs, the client sends the request once more. That
// includes creates and calls with [WithoutRetry], because a service that rejects the token has not acted. A recording
// from [AudioReader] cannot be sent again. If the source still returns the refused token, Invalidate is called again.
// Other refused calls wait for Invalidate, so it must use [WithToken] if it calls the client.
type TokenSource interface {
	Token(ctx context.Context) (string, error)
}

// WithTokenSource sets the source of the token for every attempt. The token passed to [NewClient] must then be empty.
func WithTokenSource(source TokenSource) Option {
	return optionIf(source != nil, "WithTokenSource", "the source is nil", func(c *config) {
		c.token = sourceAuthorization(source)
		c.renew = newRenewal(source, c.token)
	})
}

// RetryPolicy sets how often and how soon a failed attempt is retried. Without [WithRetry] a call is retried up to 3
// times, after pauses from 500 ms to 30 s. A pause that exceeds the context's deadline is not started.
//
// A client waits for the end of a limit. After a 429, or a 503 with Retry-After, it sends nothing for as long as the
// service asks, up to MaxRetryAfter. All calls of the client wait together, and one of them is then sent first. The
// wait is neither an attempt nor a retry. However, a call that is refused more than MaxRetries times in a row fails. A
// call whose context ends during the wait was not sent. Calls with [WithoutRetry], and clients with MaxRetries 0, do
// not wait.
//
// All calls of a client share a budget of 100 retries. It refills by one per second, and faster with successes. While
// it is exhausted, as in a long outage, failed attempts are not retried.
//
// Which requests are retried cannot be configured:
//
//   - Reads are retried after 408, 425, 429, 5xx except 501 and 505, and temporary failures of the connection.
//   - Updates, deletions and signing are retried in the same cases. After a lost response the note is read first. It is
//     not written again if its updated_at shows a change ([*ConflictError]). If a failed call may have been carried
//     out, its error matches [ErrOutcomeUnknown].
//   - Creating a note is retried only if the service cannot have processed it: nothing or only a part was sent, or the
//     status was 429. If the outcome is unknown, the error is an [*OutcomeUnknownError].
type RetryPolicy struct {
	// MaxRetries is the number of attempts after the first. If zero, there are none.
	MaxRetries int
	// MinWait is the shortest pause before the first retry. It is doubled for each further one. If zero, it defaults to
	// 500 ms, or to MaxWait if that is shorter.
	MinWait time.Duration
	// MaxWait is the longest pause that the client chooses itself. If zero, it defaults to 30 s, or to MinWait if that
	// is longer.
	MaxWait time.Duration
	// MaxRetryAfter is the longest wait that the service may ask for. If it asks for more, the call fails. If zero, it
	// defaults to 2 minutes.
	MaxRetryAfter time.Duration
}

// WithRetry replaces the retry policy.
func WithRetry(policy RetryPolicy) Option {
	hasNegativeWait := min(policy.MinWait, policy.MaxWait, policy.MaxRetryAfter) < 0
	policy.MaxWait = cmp.Or(policy.MaxWait, max(defaultRetry.MaxWait, policy.MinWait))
	policy.MinWait = cmp.Or(policy.MinWait, min(defaultRetry.MinWait, policy.MaxWait))
	policy.MaxRetryAfter = cmp.Or(policy.MaxRetryAfter, defaultRetry.MaxRetryAfter)
	valid := policy.MaxRetries >= 0 && !hasNegativeWait && policy.MinWait <= policy.MaxWait
	return optionIf(valid, "WithRetry",
		"MaxRetries and the waits must not be negative, and MinWait must not exceed MaxWait",
		func(c *config) {
			c.maxRetries = policy.MaxRetries
			c.peer.MinWait = policy.MinWait
			c.peer.MaxWait = policy.MaxWait
			c.peer.MaxRetryAfter = policy.MaxRetryAfter
		})
}

// Limiter delays attempts; *rate.Limiter of golang.org/x/time/rate is one. Wait returns when the attempt may be sent,
// or an error that ends the call.
type Limiter interface {
	Wait(ctx context.Context) error
}

// WithLimiter calls the limiter before every attempt, including retries. Clients may share a limiter. If *rate.Limiter
// reports that the wait would exceed the context's deadline, the error matches [context.DeadlineExceeded].
func WithLimiter(limiter Limiter) Option {
	limit := func(ctx context.Context) error {
		err := limiter.Wait(ctx)
		_, hasDeadline := ctx.Deadline()
		if err == nil || !hasDeadline {
			return err
		}
		const textOfRateLimiter = "would exceed context deadline"
		if strings.Contains(err.Error(), textOfRateLimiter) {
			return redact.Fail("its turn would come after the context's deadline", context.DeadlineExceeded, err)
		}
		return err
	}
	return optionIf(limiter != nil, "WithLimiter", "the limiter is nil", func(c *config) { c.peer.Limit = limit })
}

// WithLogger logs the end of every attempt that [Hooks] report, with some fields of [Attempt]: successes at debug
// level, failures as warnings. It also warns of response members that cannot be read, with their paths, and of uploads
// that are cut short or are not recordings (see [NotesService.Create]).
func WithLogger(logger *slog.Logger) Option {
	return optionIf(logger != nil, "WithLogger", "the logger is nil", func(c *config) { c.logger = logger })
}

// WithHeaders sends the headers with every request to the origin of the base URL, for example a header that selects a
// tenant. They are not sent to storage, and they are not printed. The map is copied. [WithHeader] replaces a header for
// a single call.
//
// A header that the SDK sets itself, such as Authorization or Content-Type, is an error that matches
// [ErrInvalidArgument]. If the option is passed several times, the headers are merged, and the last values of a name
// are used.
func WithHeaders(header http.Header) Option {
	own := make(http.Header, len(header))
	wrong := ""
	for _, name := range slices.Sorted(maps.Keys(header)) { // sorted, so two spellings of a name have a fixed order
		key := http.CanonicalHeaderKey(name)
		for _, value := range header[name] {
			wrong = cmp.Or(wrong, checkHeader(key, value))
			own[key] = append(own[key], value)
		}
		if key == "Content-Type" { // checkHeader allows it, because WithHeader may set it for Client.Do
			wrong = cmp.Or(wrong, key+setBySDK)
		}
	}
	return optionIf(wrong == "", "WithHeaders", wrong, func(c *config) {
		merged := own
		if c.header != nil {
			merged = withDefaults(own, c.header())
		}
		c.header = func() http.Header { return merged }
	})
}

// withDefaults returns a new header with the names of both. If both have a name, the values in header apply. The values
// of defaults are copied.
func withDefaults(header, defaults http.Header) http.Header {
	merged := defaults.Clone()
	maps.Copy(merged, header)
	return merged
}

// QueryNames are the names of the list's query parameters, which are not described. Empty fields default to patient_id,
// per_page, sort, page and cursor.
type QueryNames struct {
	PatientID, PerPage, Sort, Page, Cursor string
}

// WithQueryNames sets the names of the list's query parameters, such as "filter[patient_id]".
func WithQueryNames(names QueryNames) Option {
	names.PatientID = cmp.Or(names.PatientID, defaultQueryNames.PatientID)
	names.PerPage = cmp.Or(names.PerPage, defaultQueryNames.PerPage)
	names.Sort = cmp.Or(names.Sort, defaultQueryNames.Sort)
	names.Page = cmp.Or(names.Page, defaultQueryNames.Page)
	names.Cursor = cmp.Or(names.Cursor, defaultQueryNames.Cursor)
	all := []string{names.PatientID, names.PerPage, names.Sort, names.Page, names.Cursor}
	distinct := slices.Compact(slices.Sorted(slices.Values(all)))
	text := strings.Join(all, "")
	hasCommaOrControl := strings.Contains(text, ",") || hasControl(text)
	valid := len(distinct) == len(all) && !hasCommaOrControl
	return optionIf(valid, "WithQueryNames",
		"the names must differ from each other and hold no commas and no control characters",
		func(c *config) { c.names = names })
}

// WithAssumptions states what you know about the service. FindCreated and package ingest rely on it: if it is not true
// of the service, a note can be created twice.
func WithAssumptions(assume Assumptions) Option {
	return option(func(c *config) { c.assumptions = assume })
}

// WithUserAgent replaces the User-Agent header, which is "clinicaldoc-go/" and the version by default.
func WithUserAgent(userAgent string) Option {
	valid := userAgent != "" && redact.IsHeaderValue(userAgent)
	return optionIf(valid, "WithUserAgent", "the text is empty or cannot be sent in a header",
		func(c *config) { c.peer.UserAgent = userAgent })
}

// WithInsecureHTTP allows plain http to other machines. Everyone on the network path can then read the token and the
// patients' data, so use it only on isolated test networks.
func WithInsecureHTTP() Option {
	return option(func(c *config) { c.insecureHTTP = true })
}

// WithStallTimeout sets how long an attempt may transfer no data in either direction before it fails with [ErrStalled].
// The default is one minute. It does not limit the total duration of a transfer.
func WithStallTimeout(d time.Duration) Option {
	return optionIf(d > 0, "WithStallTimeout", "the time must be positive", func(c *config) { c.peer.StallTimeout = d })
}

// WithMaxResponseSize sets the largest size of a response in bytes, after decompression. The default is 64 MiB. The
// error for a larger response matches [ErrUnexpectedResponse]. Audio downloads are streamed and not limited.
func WithMaxResponseSize(size int64) Option {
	return optionIf(size > 0, "WithMaxResponseSize", "the size must be positive",
		func(c *config) { c.peer.MaxBody = size })
}

// CallOption configures a single call. Every method accepts call options as its last arguments. The token, headers
// and query of a call apply to all its requests to the base URL's origin, such as the pages of a list. Headers that
// begin with If- or Content- apply only to the call's main request.
type CallOption func(*callOptions) error

type callOptions struct {
	response      *Response
	header        http.Header
	query         url.Values
	noRetry       bool
	version       string        // of the note that the caller read; empty: no condition
	versionNoteID int64         // ID of that note; 0: not known
	authorization authorization // nil: the client's
	sendOnce      bool          // sent once, after the end of a limit of the service
	requester     *requester    // records who sends the requests; may be nil
	route         string        // of Do's path; empty: not set
	contentType   string        // of Do's body; empty: not set
	trail         *trail        // of the call that contains this one; nil: no audit
	auditName     string        // name in the audit; empty: the call's own name
}

// apply applies all options of a call of the named method. It returns the error of the first one that is rejected, but
// applies those after it too, because WithResponse has to clear the caller's response.
func (o *callOptions) apply(name string, opts []CallOption) error {
	var rejected error
	for _, opt := range opts {
		if opt == nil {
			opt = func(*callOptions) error { return invalid("call option", "is nil") }
		}
		err := opt(o)
		if rejected == nil {
			rejected = err
		}
	}
	if rejected != nil {
		return rejected
	}
	return o.checkMethod(name)
}

// checkMethod rejects options that are for other methods than the named one.
func (o *callOptions) checkMethod(name string) error {
	isDo := name == doName
	isEdit := slices.Contains([]string{updateNote.name, signNote.name, deleteNote.name}, name)
	switch {
	case o.version != "" && !isEdit:
		return invalid(name, "IfUnchanged and IfVersion are for Notes.Update, Notes.Sign and Notes.Delete")
	case isDo:
		return nil
	case o.route != "":
		return invalid(name, "WithRoute is for Do")
	case o.contentType != "":
		return invalid(name, "WithHeader: Content-Type is set by the SDK alone")
	}
	return nil
}

// inherited returns the option for every other request of the call at the base URL's origin: the same tenant, the same
// user, and the same choice of retries.
func (o *callOptions) inherited() CallOption {
	header := o.inheritedHeader()
	return option(func(inner *callOptions) {
		inner.header = header.Clone() // the request may add to it
		inner.query = url.Values(http.Header(o.query).Clone())
		inner.authorization = o.authorization
		inner.noRetry = o.noRetry
		inner.requester = o.requester
		inner.trail = o.trail
	})
}

// inheritedHeader returns a copy of the header without conditions and without what describes a body.
func (o *callOptions) inheritedHeader() http.Header {
	header := maps.Clone(o.header)
	maps.DeleteFunc(header, func(key string, _ []string) bool {
		return strings.HasPrefix(key, "If-") || strings.HasPrefix(key, "Content-")
	})
	return header
}

// requestHeaders are headers that identify a request and cannot select a tenant.
var requestHeaders = []string{
	"Baggage", "Cache-Control", "Traceparent", "Tracestate", "X-Amzn-Trace-Id", "X-Correlation-Id", "X-Request-Id",
}

// tenant returns a fingerprint of the call's headers and query, because any of them may select a tenant. It is empty if
// the call has none.
func (o *callOptions) tenant() string {
	header := o.inheritedHeader()
	maps.DeleteFunc(header, func(key string, _ []string) bool { return slices.Contains(requestHeaders, key) })
	if len(header)+len(o.query) == 0 {
		return ""
	}
	return fingerprint(url.Values(header).Encode() + "?" + o.query.Encode())
}

// WithResponse stores the response in r, also if the call fails. If there is no response, r is zero. A method that
// sends several requests stores each response, so r holds the last one. See [WithAudit] for when Body is empty.
func WithResponse(r *Response) CallOption {
	return optionIf(r != nil, "WithResponse", "the response is nil", func(o *callOptions) {
		*r = Response{}
		o.response = r
	})
}

// ownHeaders are set by the SDK, or would break one of its promises: another host, or a create that net/http retries.
var ownHeaders = []string{
	"Accept", "Accept-Encoding", "Authorization", "Connection", "Content-Encoding", "Content-Length", "Cookie",
	"Expect", "Host", "Idempotency-Key", "If-Range", "Proxy-Authorization", "Range", "Trailer", "Transfer-Encoding",
	"Upgrade", "User-Agent", "X-Idempotency-Key", "X-Http-Method-Override",
}

const setBySDK = " is set by the SDK alone"

// checkHeader returns why a header cannot be sent, or "" if it can. The key is in its canonical form.
func checkHeader(key, value string) string {
	switch {
	case !redact.IsIdentifier(key, 128, "!#$%&'*+-.^_`|~"), !redact.IsHeaderValue(value):
		return "the key or the value cannot be sent in a header"
	case slices.Contains(ownHeaders, key):
		return key + setBySDK
	}
	return ""
}

// WithHeader adds a header to the request. It replaces a header of the same name from [WithHeaders]. Headers that the
// SDK sets itself, such as Authorization, are rejected. Range is rejected too, because part of a response is of no use.
// Content-Type is for a body of [Client.Do].
func WithHeader(key, value string) CallOption {
	key = http.CanonicalHeaderKey(key)
	wrong := checkHeader(key, value)
	return optionIf(wrong == "", "WithHeader", wrong, func(o *callOptions) {
		switch {
		case key == "Content-Type":
			o.contentType = value
			return
		case o.header == nil:
			o.header = http.Header{}
		}
		o.header.Add(key, value)
	})
}

// WithQuery adds a query parameter to the request, in addition to those of the method. An empty key is rejected.
func WithQuery(key, value string) CallOption {
	return optionIf(key != "", "WithQuery", "the key is empty", func(o *callOptions) {
		if o.query == nil {
			o.query = url.Values{}
		}
		o.query.Add(key, value)
	})
}

// WithRoute sets the template of the path of [Client.Do], such as "/v1/teams/{id}". Errors, logs, spans and metrics
// show it instead of the path, which may contain a name. Each segment must be equal to that of the path, or be a name
// in braces. Otherwise the error matches [ErrInvalidArgument].
func WithRoute(template string) CallOption {
	return optionIf(template != "", "WithRoute", "the template is empty", func(o *callOptions) { o.route = template })
}

// WithoutRetry sends the request once, also during a limit of the service. Reads that a method needs to interpret the
// response, as in Sign, are still sent.
func WithoutRetry() CallOption {
	return option(func(o *callOptions) { o.noRetry = true })
}

// sendOnce sends the request once, after the end of a limit of the service.
func sendOnce(o *callOptions) error {
	o.sendOnce = true
	return nil
}

// WithToken makes the call on behalf of another user: all its requests use this token instead of the client's. It is
// for scripts. In a server, use a [TokenSource] that takes the user from the context: it can return an error if there
// is no user. A call without WithToken would act as the client's own user instead. The error matches
// [ErrInvalidArgument] if the token is empty or cannot be sent in a header.
func WithToken(token string) CallOption {
	wrong := checkToken(token)
	return optionIf(wrong == "", "WithToken", "the token "+wrong,
		func(o *callOptions) { o.authorization = bearerAuthorization(token) })
}
