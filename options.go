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

// Option configures a [Client]. An invalid one makes [NewClient] fail with an error that names it.
type Option func(*config) error

// config is what the options fill in; a Client never changes its own afterwards.
type config struct {
	peer         *exchange.Peer // the service
	token        authorization  // nil: NewClient's own
	renew        renewal        // nil: never
	maxRetries   int
	logger       *slog.Logger
	hooks        Hooks
	audit        func(context.Context, Access) error // nil: nobody is told
	header       func() http.Header                  // of every request to the service; nil: none. A function, so that fmt cannot print them
	names        QueryNames
	assumptions  Assumptions
	insecureHTTP bool
}

// when is an option that sets something, or is refused for what is wrong with it.
func when[T any](ok bool, name, wrong string, set func(*T)) func(*T) error {
	return func(to *T) error {
		if !ok {
			return invalid(name, "%s", wrong)
		}
		set(to)
		return nil
	}
}

// always is an option that is never refused.
func always[T any](set func(*T)) func(*T) error { return when(true, "", "", set) }

// newConfig applies the options to the defaults.
func newConfig(opts []Option) (config, error) {
	c := config{maxRetries: defaultRetry.MaxRetries, names: defaultQueryNames}
	c.peer = &exchange.Peer{
		Accept:       "application/json", // without it the service puts errors into redirects
		CacheControl: "no-cache",         // what a cache gives may be older than somebody's edit, or than a note
		UserAgent:    "clinicaldoc-go/" + version, StallTimeout: time.Minute, MaxBody: 64 << 20,
		MinWait: defaultRetry.MinWait, MaxWait: defaultRetry.MaxWait, MaxRetryAfter: defaultRetry.MaxRetryAfter,
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
	defaultQueryNames = QueryNames{PatientID: "patient_id", PerPage: "per_page", Sort: "sort", Page: "page", Cursor: "cursor"}
)

// WithHTTPClient sets the HTTP client whose transport (proxies, certificates, connection pool) and timeout are used;
// its cookie jar and redirect policy are not. It is never changed. Storage is reached by it too: a transport that
// sets a token, as that of oauth2 does, sends it there; give its source to [WithTokenSource] instead. A Timeout in it
// limits each attempt at the service, including a long upload, but not downloads from storage: prefer a context's
// deadline. A transport for HTTP/2 should ping ([http.HTTP2Config]), or a connection that dies silently takes every
// retry. One that retries by itself is stopped where a create would be sent twice, and the outcome is then unknown.
// Without this option all clients share one pool, and proxies come from the environment (HTTPS_PROXY, HTTP_PROXY,
// NO_PROXY).
func WithHTTPClient(client *http.Client) Option {
	return when(client != nil, "WithHTTPClient", "the client is nil", func(c *config) {
		c.peer.Transport, c.peer.Timeout = cmp.Or(client.Transport, http.DefaultTransport), client.Timeout
	})
}

// TokenSource provides the token for each attempt, in several goroutines. What its error says is not printed by this package.
//
// A source that also has a method Invalidate(token string) is given each token that the service refused with 401, again only
// while it still gives that one, and asked for the token once more. If that is another one, the request is sent once more, creates and calls under [WithoutRetry]
// too: a service that does not know who asks has done nothing. A recording from [AudioReader] cannot be sent again. Other calls
// that are refused wait for Invalidate: it calls the client with [WithToken] alone.
type TokenSource interface {
	Token(ctx context.Context) (string, error)
}

// WithTokenSource asks the source for the token of every attempt; the token given to [NewClient] must then be empty.
func WithTokenSource(source TokenSource) Option {
	return when(source != nil, "WithTokenSource", "the source is nil", func(c *config) {
		c.token = sourced(source)
		c.renew = renewed(source, c.token)
	})
}

// RetryPolicy configures how often and how soon a failed attempt is retried. Without [WithRetry] a call is retried up to 3
// times, after pauses from 500 ms to 30 s. A pause that exceeds the context's deadline is not begun.
//
// A client waits for the end of a limit: after a 429, or a 503 with Retry-After, it sends nothing for as long as the service
// asks, up to MaxRetryAfter. All calls of the client wait together, and one of them then goes first. Such a wait is neither an
// attempt nor a retry, but a call that is refused more than MaxRetries times in a row fails. A call whose context ends while it
// waits was not sent. Calls under [WithoutRetry], and of clients with MaxRetries 0, do not wait.
//
// All calls of a client share a budget of 100 retries, which refills by one a second, and faster with successes. While it is
// used up, as in a long outage, failed attempts are not retried.
//
// The requests that may be retried are not configurable:
//
//   - Reads, after 408, 425, 429, 5xx but 501 and 505, and failures of the connection that may pass.
//   - Updates, deletions and signing likewise. After a lost response the note is read first, and is not written again if
//     its updated_at shows a change ([*ConflictError]). What may have been carried out although the call failed matches
//     [ErrOutcomeUnknown].
//   - Creating a note only when the service cannot have processed it: nothing or only a part was sent, or the status was
//     429. When the outcome is not known, the error is an [*OutcomeUnknownError].
type RetryPolicy struct {
	MaxRetries    int           // attempts after the first; 0: none
	MinWait       time.Duration // before the first retry, at least; doubled for each further one; 0: the default
	MaxWait       time.Duration // the longest pause that the client chooses itself; 0: the default
	MaxRetryAfter time.Duration // the longest wait that the service may ask for; if it asks for more, the call fails; 0: 2 minutes
}

// WithRetry replaces the retry policy.
func WithRetry(policy RetryPolicy) Option {
	shortest := min(policy.MinWait, policy.MaxWait, policy.MaxRetryAfter)
	policy.MaxWait = cmp.Or(policy.MaxWait, max(defaultRetry.MaxWait, policy.MinWait))
	policy.MinWait = cmp.Or(policy.MinWait, min(defaultRetry.MinWait, policy.MaxWait))
	policy.MaxRetryAfter = cmp.Or(policy.MaxRetryAfter, defaultRetry.MaxRetryAfter)
	valid := policy.MaxRetries >= 0 && shortest >= 0 && policy.MinWait <= policy.MaxWait
	return when(valid, "WithRetry", "MaxRetries and the waits must not be negative, and MinWait must not exceed MaxWait",
		func(c *config) {
			c.maxRetries = policy.MaxRetries
			c.peer.MinWait = policy.MinWait
			c.peer.MaxWait = policy.MaxWait
			c.peer.MaxRetryAfter = policy.MaxRetryAfter
		})
}

// Limiter holds attempts back; *rate.Limiter of golang.org/x/time/rate is one. Wait returns when the attempt may go, or
// an error that ends the call.
type Limiter interface {
	Wait(ctx context.Context) error
}

// WithLimiter asks the limiter before every attempt, retries included. Clients may share one. An error of it that means a
// deadline, as *rate.Limiter says in words, matches [context.DeadlineExceeded].
func WithLimiter(limiter Limiter) Option {
	limit := func(ctx context.Context) error {
		err := limiter.Wait(ctx)
		_, bounded := ctx.Deadline()
		if err != nil && bounded && strings.Contains(err.Error(), "would exceed context deadline") { // as *rate.Limiter says it
			return redact.Fail("its turn would come after the context's deadline", context.DeadlineExceeded, err)
		}
		return err
	}
	return when(limiter != nil, "WithLimiter", "the limiter is nil", func(c *config) { c.peer.Limit = limit })
}

// WithLogger logs the end of every attempt that [Hooks] report, with some fields of [Attempt]: successes at debug level,
// failures as warnings. It also logs a warning that names the members of a response that cannot be read, by their paths, and
// one for a recording that is cut short or is not a recording (see [NotesService.Create]).
func WithLogger(logger *slog.Logger) Option {
	return when(logger != nil, "WithLogger", "the logger is nil", func(c *config) { c.logger = logger })
}

// WithHeaders sends the headers with every request to the origin of the base URL, such as one that selects a tenant. They are not
// sent to storage, and they are not printed. The map is copied. [WithHeader] replaces a header for a single call.
//
// A header that the SDK sets itself, such as Authorization or Content-Type, is an error that matches [ErrInvalidArgument]. If the
// option is given several times, the headers add up, and the last values of a name count.
func WithHeaders(header http.Header) Option {
	own := make(http.Header, len(header))
	wrong := ""
	for key, values := range header {
		key = http.CanonicalHeaderKey(key)
		for _, value := range values {
			wrong = cmp.Or(wrong, checkHeader(key, value))
			own[key] = append(own[key], value)
		}
		if key == "Content-Type" {
			wrong = cmp.Or(wrong, key+setBySDK)
		}
	}
	return when(wrong == "", "WithHeaders", wrong, func(c *config) {
		merged := own
		if c.header != nil {
			merged = withDefaults(own, c.header())
		}
		c.header = func() http.Header { return merged }
	})
}

// withDefaults adds to the header the names that it does not have, with copies of their values.
func withDefaults(header, defaults http.Header) http.Header {
	merged := defaults.Clone()
	maps.Copy(merged, header)
	return merged
}

// QueryNames are the names of the list's query parameters, which the service's description does not tell. An empty
// field means its default: patient_id, per_page, sort, page, cursor.
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
	slices.Sort(all)
	text := strings.Join(slices.Compact(all), ",")
	return when(strings.Count(text, ",") == len(all)-1 && !hasControl(text), "WithQueryNames",
		"the names must differ from each other and hold no commas and no control characters", func(c *config) { c.names = names })
}

// WithAssumptions states what you know about the service. FindCreated and package ingest rely on it: if it is not true of
// the service, a note can be created twice.
func WithAssumptions(assume Assumptions) Option {
	return always(func(c *config) { c.assumptions = assume })
}

// WithUserAgent replaces the User-Agent header, "clinicaldoc-go/" and the version.
func WithUserAgent(userAgent string) Option {
	return when(userAgent != "" && redact.IsHeaderValue(userAgent), "WithUserAgent", "the text is empty or cannot stand in a header",
		func(c *config) { c.peer.UserAgent = userAgent })
}

// WithInsecureHTTP allows plain http to other machines than this one. The token and patients' data are then readable to
// everybody on the way: for isolated test networks only.
func WithInsecureHTTP() Option {
	return always(func(c *config) { c.insecureHTTP = true })
}

// WithStallTimeout sets how long an attempt may go without a byte moving in either direction before it is given up;
// one minute by default. It bounds every attempt, however long a healthy transfer may take.
func WithStallTimeout(d time.Duration) Option {
	return when(d > 0, "WithStallTimeout", "the time must be positive", func(c *config) { c.peer.StallTimeout = d })
}

// WithMaxResponseSize sets how many bytes a response may have, decompressed; 64 MiB by default. A larger one is
// [ErrUnexpectedResponse]. Audio downloads are streamed and not limited by it.
func WithMaxResponseSize(size int64) Option {
	return when(size > 0, "WithMaxResponseSize", "the size must be positive", func(c *config) { c.peer.MaxBody = size })
}

// CallOption changes a single call; every method takes any number of them last. Token, headers and query of a call go to
// every request that it makes at the base URL's origin, such as the reads of an edit or the pages of a list. Headers that
// begin with If- or Content- are meant for the call's own request and go to no other.
type CallOption func(*callOptions) error

type callOptions struct {
	response      *Response
	header        http.Header
	query         url.Values
	noRetry       bool
	version       string        // of the note that the caller read; empty: not said
	unchanged     int64         // its id; 0: not said
	authorization authorization // nil: the client's
	once          bool          // sent once, but not before the service's limit allows it
	sender        *sender       // learns who makes the requests; nil: nobody wants to know
	route         string        // of Do's path; empty: not said
	contentType   string        // of Do's body; empty: not said
	trail         *trail        // of the call that this one is a part of; nil: nobody is told
	operation     string        // that the trail shows; empty: the call's own name
}

// read takes in all options, also after one that is refused: each may have something to clear. It refuses those that are meant
// for other methods than the named one.
func (o *callOptions) read(name string, opts []CallOption) (refused error) {
	for _, opt := range opts {
		if opt == nil {
			opt = func(*callOptions) error { return invalid("call option", "is nil") }
		}
		if err := opt(o); refused == nil {
			refused = err
		}
	}
	edit := name == updateNote.name || name == signNote.name || name == deleteNote.name
	switch {
	case refused != nil:
	case o.version != "" && !edit:
		return invalid(name, "IfUnchanged and IfVersion are for Notes.Update, Notes.Sign and Notes.Delete")
	case o.route != "" && name != doName:
		return invalid(name, "WithRoute is for Do")
	case o.contentType != "" && name != doName:
		return invalid(name, "WithHeader: Content-Type is set by the SDK alone")
	}
	return refused
}

// inherited is what every other request of a call gets at the base URL's origin: where it goes, in whose name, and how often.
func (o *callOptions) inherited() CallOption {
	header := o.inheritedHeader()
	return always(func(inner *callOptions) {
		inner.header, inner.query = header.Clone(), url.Values(http.Header(o.query).Clone()) // others may add to them
		inner.authorization, inner.noRetry, inner.sender = o.authorization, o.noRetry, o.sender
		inner.trail = o.trail
	})
}

func (o *callOptions) inheritedHeader() http.Header {
	header := maps.Clone(o.header)
	maps.DeleteFunc(header, func(key string, _ []string) bool {
		return strings.HasPrefix(key, "If-") || strings.HasPrefix(key, "Content-")
	})
	return header
}

// namesRequest are headers that tell one request from another, and nothing of where it goes.
var namesRequest = []string{"Baggage", "Cache-Control", "Traceparent", "Tracestate", "X-Amzn-Trace-Id", "X-Correlation-Id", "X-Request-Id"}

// where is a fingerprint of the headers and the query of the call, any of which may pick a tenant; empty: it has none.
func (o *callOptions) where() string {
	header := o.inheritedHeader()
	maps.DeleteFunc(header, func(key string, _ []string) bool { return slices.Contains(namesRequest, key) })
	if len(header)+len(o.query) == 0 {
		return ""
	}
	return fingerprint(url.Values(header).Encode() + "?" + o.query.Encode())
}

// WithResponse fills r with what came back, also when the call fails. It is emptied first: where nothing came, it is zero.
// A method that makes several requests fills it for each, so that the last one stays. [WithAudit] says when its Body stays
// empty.
func WithResponse(r *Response) CallOption {
	return when(r != nil, "WithResponse", "the response is nil", func(o *callOptions) {
		*r = Response{}
		o.response = r
	})
}

// ownHeaders are set by the SDK, or would undo one of its promises: a second host, or net/http retrying a create.
var ownHeaders = []string{
	"Accept", "Accept-Encoding", "Authorization", "Connection", "Content-Encoding", "Content-Length", "Cookie", "Expect", "Host",
	"Idempotency-Key", "If-Range", "Proxy-Authorization", "Range", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent",
	"X-Idempotency-Key", "X-Http-Method-Override",
}

const setBySDK = " is set by the SDK alone"

// checkHeader says why a header cannot be sent; empty if it can. The key is in its canonical form.
func checkHeader(key, value string) string {
	switch {
	case !redact.IsIdentifier(key, 128, "!#$%&'*+-.^_`|~"), !redact.IsHeaderValue(value):
		return "the key or the value cannot stand in a header"
	case slices.Contains(ownHeaders, key):
		return key + setBySDK
	}
	return ""
}

// WithHeader adds a header to the request, in place of one of the same name that [WithHeaders] sets. Headers that the SDK is responsible for, such as Authorization, are refused, and so is
// Range: a part of a response is none. Content-Type is for a body of [Client.Do].
func WithHeader(key, value string) CallOption {
	key = http.CanonicalHeaderKey(key)
	wrong := checkHeader(key, value)
	return when(wrong == "", "WithHeader", wrong, func(o *callOptions) {
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

// WithQuery adds a query parameter to the request, beside those of the method. An empty key is refused.
func WithQuery(key, value string) CallOption {
	return when(key != "", "WithQuery", "the key is empty", func(o *callOptions) {
		if o.query == nil {
			o.query = url.Values{}
		}
		o.query.Add(key, value)
	})
}

// WithRoute gives [Client.Do] the template of its path, such as "/v1/teams/{id}": errors, logs, spans and metrics show it instead
// of the path, which may hold a name. Each segment is the path's own or a name in braces; all else is [ErrInvalidArgument].
func WithRoute(template string) CallOption {
	return when(template != "", "WithRoute", "the template is empty", func(o *callOptions) { o.route = template })
}

// WithoutRetry sends the request once, also while a limit of the service lasts. A read that a method needs to understand the response, as Sign may, is still made.
func WithoutRetry() CallOption {
	return always(func(o *callOptions) { o.noRetry = true })
}

// once sends the request once, after the end of a limit of the service.
func once(o *callOptions) error {
	o.once = true
	return nil
}

// WithToken makes the call in another user's name: all its requests carry this token instead of the client's. It is for
// scripts. In a server a call that forgets it would act as the client's own user; a [TokenSource] that takes the user from
// the context fails instead. An empty token, or one that cannot stand in a header, is [ErrInvalidArgument].
func WithToken(token string) CallOption {
	wrong := checkToken(token)
	return when(wrong == "", "WithToken", "the token "+wrong, func(o *callOptions) { o.authorization = bearer(token) })
}
