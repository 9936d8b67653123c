package clinicaldoc

import (
	"bytes"
	"cmp"
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/fileheader"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Version is the version of this SDK that the program was built with, such as "0.2.0", or "devel" where the build does not
// tell: a workspace, a replaced module. It is sent in the User-Agent header; changing it changes nothing.
var Version = version

var version = exchange.Version("github.com/clinicaldoc/clinicaldoc-go")

// Client talks to one clinical documentation service with one user's token. Make it with [NewClient]; one client
// serves any number of goroutines. It needs no closing.
type Client struct {
	Notes  *NotesService  // progress notes
	Tokens *TokensService // the user's access tokens
	Users  *UsersService  // the authenticated user

	base string // scheme, host and path prefix, without a trailing slash
	*core
}

// core is what the services share. It is behind a pointer, and its secrets are in functions, because fmt prints a struct in
// an unexported field without asking its methods, and follows one pointer from there.
type core struct {
	config
	baseURL *url.URL
	storage *exchange.Peer
	creates *creates.Registry // creates under way, the notes they returned, those whose response was lost, what was found for them
}

// NewClient returns a client for the service at baseURL: the URL before /v1 and /user, which may carry a path prefix,
// with or without a slash at its end. It makes no request.
//
// The token is sent to the origin of baseURL and nowhere else, and nothing prints it. An unusable base URL, an empty
// token or one that cannot stand in a header, an invalid option, and plain http to another machine (see
// [WithInsecureHTTP]) are errors that match [ErrInvalidArgument].
func NewClient(baseURL, token string, opts ...Option) (*Client, error) {
	return newClient("NewClient: baseURL", baseURL, givenToken, token, opts)
}

const givenToken = "NewClient: token"

// The environment variables that [NewClientFromEnv] reads.
const (
	EnvBaseURL = "CLINICALDOC_BASE_URL"
	EnvToken   = "CLINICALDOC_TOKEN"
)

// NewClientFromEnv is [NewClient] with the base URL from CLINICALDOC_BASE_URL and the token from CLINICALDOC_TOKEN.
// A missing variable is an error that names it. The token's variable is not used when there is a [WithTokenSource].
func NewClientFromEnv(opts ...Option) (*Client, error) {
	return newClient("environment variable "+EnvBaseURL, os.Getenv(EnvBaseURL), "environment variable "+EnvToken, os.Getenv(EnvToken), opts)
}

// newClient names in its errors where the base URL and the token came from.
func newClient(urlName, baseURL, tokenName, token string, opts []Option) (*Client, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	parsed, err := parseBaseURL(urlName, baseURL, cfg.insecureHTTP)
	if err != nil {
		return nil, err
	}
	c := &Client{base: parsed.String(), core: &core{config: cfg, baseURL: parsed, creates: creates.NewRegistry()}}
	switch wrong := checkToken(token); {
	case cfg.token != nil && token != "" && tokenName == givenToken:
		return nil, invalid(tokenName, "give a token or WithTokenSource, not both")
	case cfg.token != nil:
	case wrong != "":
		return nil, invalid(tokenName, "%s", wrong)
	default:
		c.token = bearer(token)
	}
	c.peer.Origin = parsed
	c.peer.Gate = new(exchange.Gate)
	if c.peer.Transport == nil {
		c.peer.Transport = exchange.Shared()
	}
	// Storage is another server: it gets no token, is not meant by the limits, and sends recordings for as long as they take.
	c.storage = &exchange.Peer{
		Transport: c.peer.Transport, UserAgent: c.peer.UserAgent, StallTimeout: c.peer.StallTimeout, MinWait: c.peer.MinWait, MaxWait: c.peer.MaxWait,
		MaxRetryAfter: c.peer.MaxRetryAfter,
	}
	c.Notes, c.Tokens, c.Users = &NotesService{c}, &TokensService{c}, &UsersService{c}
	return c, nil
}

func parseBaseURL(name, baseURL string, insecure bool) (*url.URL, error) {
	u, err := url.Parse(baseURL)
	switch {
	case baseURL == "":
		return nil, invalid(name, "is empty; want the service's address, such as https://host/prefix")
	case err != nil, u.Host == "", u.Hostname() == "":
		return nil, invalid(name, "is not a URL with a scheme and a host; want the service's address, such as https://host/prefix")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, invalid(name, "has the scheme %q; want https", u.Scheme)
	case u.User != nil:
		return nil, invalid(name, "carries a user name or password; the token is given separately")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, invalid(name, "carries a query or a fragment; want an address only")
	case strings.Contains(u.Path, " ") && strings.Contains(u.RawPath, " "):
		return nil, invalid(name, "holds a blank; was it copied with its surroundings?")
	case strings.Contains(strings.ToLower(u.RawPath), "%2f"), hasDotSegment(u.Path):
		return nil, invalid(name, "has a path with escaped slashes or dot segments")
	case u.Scheme == "http" && !insecure && !exchange.Loopback(u):
		return nil, invalid(name, "is plain http to another machine, which would show the token and patients' data to the network; use https, or WithInsecureHTTP on a network you trust")
	}
	if exchange.Loopback(u) {
		u.Host = strings.ToLower(u.Host) // net/http would ask a proxy for LOCALHOST
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimRight(u.Path, "/")}, nil
}

// doName is the name of Do in errors and hooks.
const doName = "Do"

// Do calls an endpoint that this package has no method for, with token, limits, retries and typed errors as all others.
//
// The path is relative to the base URL and starts with a slash; a query goes into [WithQuery]. A body of type []byte
// or [io.Reader] is sent as it is, with the Content-Type that [WithHeader] gives it or application/octet-stream, and
// a reader that does not tell its Len in chunks, and once; any other body but nil is sent as JSON. A non-nil out must
// be a pointer to a type that JSON can be stored in, and receives the response as [json.Unmarshal] does; then a
// response without a JSON body is [ErrUnexpectedResponse]. GET, HEAD, OPTIONS, PUT and DELETE are retried after
// transient failures; any other method only when the service cannot have acted, else the error is an
// [*OutcomeUnknownError].
//
// Errors, logs, spans and metrics show the path as [WithRoute] says, else a version, one segment of lower-case letters, and {} for
// each segment behind it: a name may stand there.
func (c *Client) Do(ctx context.Context, method, path string, body, out any, opts ...CallOption) error {
	_, err := run(ctx, c, doName, opts, func(ctx context.Context, call *scope) (*struct{}, error) {
		op, err := newOperation(method, path, call.options.route)
		if err != nil {
			return nil, err
		}
		if call.sent.Body, err = newBody(body, call.options.contentType); err != nil {
			return nil, err
		}
		if err := checkOut(out); err != nil {
			return nil, err
		}
		return do(ctx, call, op, path, func(response []byte) (*struct{}, []string, error) {
			if out == nil || json.Valid(response) { // else nothing of it is stored
				handedOut := out != nil || call.options.response != nil
				if err := call.auditResponse(ctx, response, handedOut); err != nil {
					return nil, nil, err
				}
			}
			if out == nil {
				return new(struct{}), nil, nil
			}
			return new(struct{}), nil, json.Unmarshal(bytes.Clone(response), out) // out may keep it
		})
	})
	return err
}

// checkOut rejects what no response can be stored in.
func checkOut(out any) error {
	if out == nil {
		return nil
	}
	target := reflect.ValueOf(out)
	switch {
	case target.Kind() != reflect.Pointer || target.IsNil():
		return invalid("Do: out", "must be nil or a pointer that is not")
	case !fillable(target.Elem(), map[reflect.Type]bool{}):
		return invalid("Do: out", "points to a type that no JSON can be stored in")
	}
	return nil
}

var (
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func unmarshalsItself(t reflect.Type) bool {
	pointer := reflect.PointerTo(t)
	return pointer.Implements(jsonUnmarshaler) || pointer.Implements(textUnmarshaler)
}

// fillable reports whether json.Unmarshal can store something in the value. Types in seen are being looked at already.
// Fields of a struct do not count: the response need not have them.
func fillable(v reflect.Value, seen map[reflect.Type]bool) bool {
	t := v.Type()
	if seen[t] || unmarshalsItself(t) {
		return true
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return false
	case reflect.Interface:
		filled := v.Elem()
		return t.NumMethod() == 0 || filled.Kind() == reflect.Pointer && !filled.IsNil()
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return fillable(reflect.New(t.Elem()).Elem(), seen)
	case reflect.Map:
		return fillableKey(t.Key()) && fillable(reflect.New(t.Elem()).Elem(), seen)
	default:
		return true
	}
}

func fillableKey(t reflect.Type) bool {
	isNumber := t.ConvertibleTo(reflect.TypeFor[int64]()) && t.Kind() != reflect.Float32 && t.Kind() != reflect.Float64
	return t.Kind() == reflect.String || isNumber || reflect.PointerTo(t).Implements(textUnmarshaler)
}

// newOperation refuses what would leave the base URL's path or origin.
func newOperation(method, path, route string) (*operation, error) {
	switch {
	case !redact.IsIdentifier(method, 32, "-"):
		return nil, invalid("Do: method", "is not an HTTP method")
	case !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//"):
		return nil, invalid("Do: path", "must start with one slash; it is relative to the base URL")
	case strings.ContainsAny(path, "?#"):
		return nil, invalid("Do: path", "must hold no query; use WithQuery")
	case strings.ContainsAny(path, `%\`), hasDotSegment(path), hasControl(path):
		return nil, invalid("Do: path", "must hold no escapes, dot segments or control characters")
	}
	op := &operation{name: doName, method: method, route: cmp.Or(route, maskedRoute(path)), effect: exchange.Creates}
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		op.effect = exchange.Reads
	case http.MethodPut, http.MethodDelete:
		op.effect = exchange.Repeatable
	}
	fits := func(own, shown string) bool { return own == shown || placeholder.MatchString(shown) }
	if route != "" && !slices.EqualFunc(strings.Split(path, "/"), strings.Split(route, "/"), fits) {
		return nil, invalid("WithRoute", "does not fit the path; each of its segments must be the path's own or a name in braces")
	}
	return op, nil
}

// newBody is a body as the caller of Do gives it.
func newBody(body any, contentType string) (*exchange.Body, error) {
	content := &exchange.Body{ContentType: cmp.Or(contentType, "application/octet-stream")}
	var err error
	switch b := body.(type) {
	case []byte:
		content.Bytes = b
	case interface {
		io.Reader
		Len() int
	}:
		content.Bytes, err = io.ReadAll(b)
	case io.Reader:
		content = exchange.Stream(content.ContentType, b)
	default:
		if contentType != "" {
			return nil, invalid("WithHeader", "Content-Type is for a body of bytes, or of a reader; any other is sent as JSON")
		}
		if body == nil {
			return nil, nil //nolint:nilnil // there is none
		}
		content.ContentType = ""
		if content.Bytes, err = json.Marshal(body); err != nil {
			return nil, refuse("Do: the body cannot be encoded as JSON", err)
		}
	}
	if err != nil {
		return nil, refuse("Do: the body cannot be read", err)
	}
	return content, nil
}

var (
	versionSegment = regexp.MustCompile(`^v[0-9.]+$`)
	shownSegment   = regexp.MustCompile(`^[a-z_-]{0,32}$`)
	placeholder    = regexp.MustCompile(`^\{[A-Za-z0-9_.-]{1,32}\}$`)
)

// maskedRoute shows of a path its version and one segment, which is an endpoint's name.
func maskedRoute(path string) string {
	const maxShownSegments = 8
	segments := strings.Split(path, "/")
	segments = segments[:min(len(segments), 1+maxShownSegments)]
	named := 1 // the one before it is empty: the path begins with a slash
	if versionSegment.MatchString(segments[1]) {
		named = 2
	}
	for i := named; i < len(segments); i++ {
		if i > named && segments[i] != "" || i == named && !shownSegment.MatchString(segments[i]) {
			segments[i] = "{}"
		}
	}
	return strings.Join(segments, "/")
}

func hasDotSegment(path string) bool {
	return strings.Contains("/"+path+"/", "/./") || strings.Contains("/"+path+"/", "/../")
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// checkToken says why a token cannot stand in an Authorization header, without the token; "" if it can.
func checkToken(token string) string {
	scheme, _, _ := strings.Cut(token, " ")
	switch {
	case token == "":
		return "is empty; want an access token of the service"
	case strings.EqualFold(scheme, "Bearer"):
		return "begins with \"Bearer\", which is added to it; give the token alone"
	case len(token) > 1 && token[0] == token[len(token)-1] && (token[0] == '"' || token[0] == '\''):
		return "stands in quotes; give the token alone"
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "holds a space, a line break or a character outside ASCII; was it copied with its surroundings?"
	}
	return ""
}

// authorization gives the header of that name: a function, because no verb of fmt can reach into one.
type authorization = func(context.Context) (string, error)

// renewal gives another header for one that was refused; see [exchange.Request].
type renewal = func(ctx context.Context, refused string) string

const bearerScheme = "Bearer "

func bearer(token string) authorization {
	header := bearerScheme + token
	return func(context.Context) (string, error) { return header, nil }
}

// sourced asks the source each time, and refuses a token that cannot be sent.
func sourced(source TokenSource) authorization {
	return func(ctx context.Context) (string, error) {
		token, err := source.Token(ctx)
		if err != nil {
			return "", err
		}
		if wrong := checkToken(token); wrong != "" {
			return "", redact.Fail("its token "+wrong, ErrInvalidArgument)
		}
		return bearerScheme + token, nil
	}
}

// maxRefused bounds the memory of refused tokens; a source that gives more of them is told of some twice.
const maxRefused = 1000

// renewed reports a refused token to a source that wants to know, and asks it for another. Other calls wait for that. It reports
// a token once, and again where the source still gives it: it may have looked for another too early.
func renewed(source TokenSource, header authorization) renewal {
	invalidator, ok := source.(interface{ Invalidate(token string) })
	if !ok {
		return nil
	}
	lock := make(chan struct{}, 1)
	known := map[string]bool{}
	report := func(ctx context.Context, token string, again bool) (told bool) {
		select {
		case lock <- struct{}{}:
			defer func() { <-lock }()
		case <-ctx.Done():
			return false
		}
		if known[token] && !again {
			return false
		}
		if len(known) >= maxRefused {
			clear(known)
		}
		known[token] = true
		invalidator.Invalidate(token)
		return true
	}
	return func(ctx context.Context, refused string) string {
		for again := false; ; again = true {
			told := report(ctx, strings.TrimPrefix(refused, bearerScheme), again)
			if ctx.Err() != nil {
				return ""
			}
			if fresh, _ := header(ctx); told || fresh != refused { // an error comes without one
				return fresh
			}
		}
	}
}

func init() { //nolint:gochecknoinits // so that journals can ask what no other package needs
	fileheader.HeadersOf = func(client any) string {
		c := client.(*Client) //nolint:errcheck,forcetypeassert // nothing else has headers
		if c.header == nil {
			return ""
		}
		return (&callOptions{header: c.header()}).where()
	}
}

// BaseURL returns the URL that the client was made with, without a slash at its end: what tells one service from another.
func (c *Client) BaseURL() string { return c.base }

// Assumptions returns what [WithAssumptions] states about the service.
func (c *Client) Assumptions() Assumptions { return c.assumptions }

// LogValue returns the base URL.
func (c Client) LogValue() slog.Value {
	return slog.GroupValue(slog.String("base_url", c.base))
}

// Format implements [fmt.Formatter]. It prints the base URL for every verb, never the token.
func (c Client) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.Client", c) }
