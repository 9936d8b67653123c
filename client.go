package clinicaldoc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/origin"
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

	config  config
	base    string // scheme, host and path prefix, without a trailing slash
	baseURL *url.URL
	peer    *exchange.Peer
	storage *exchange.Peer

	created *creates.Returned // of the notes that Create returned
	losses  *creates.Registry // of the creates under way, those whose response was lost, and what FindCreated found for them
}

// NewClient returns a client for the service at baseURL: the URL before /v1 and /user, which may carry a path prefix,
// with or without a slash at its end. It makes no request.
//
// The token is sent to the origin of baseURL and nowhere else, and nothing prints it. An unusable base URL, an empty
// token or one that cannot stand in a header, an invalid option, and plain http to another machine (see
// [WithInsecureHTTP]) are errors that match [ErrInvalidArgument].
func NewClient(baseURL, token string, opts ...Option) (*Client, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if cfg.tokenSource != nil && token != "" {
		return nil, invalid("NewClient: token", "give a token or WithTokenSource, not both")
	}
	return newClient("NewClient: baseURL", baseURL, "NewClient: token", token, cfg)
}

// The environment variables that [NewClientFromEnv] reads.
const (
	EnvBaseURL = "CLINICALDOC_BASE_URL"
	EnvToken   = "CLINICALDOC_TOKEN"
)

// NewClientFromEnv is [NewClient] with the base URL from CLINICALDOC_BASE_URL and the token from CLINICALDOC_TOKEN.
// A missing variable is an error that names it. The token's variable is not used when there is a [WithTokenSource].
func NewClientFromEnv(opts ...Option) (*Client, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	return newClient("environment variable "+EnvBaseURL, os.Getenv(EnvBaseURL), "environment variable "+EnvToken, os.Getenv(EnvToken), cfg)
}

// newClient names in its errors where the base URL and the token came from.
func newClient(urlName, baseURL, tokenName, token string, cfg config) (*Client, error) {
	parsed, err := parseBaseURL(urlName, baseURL, cfg.insecureHTTP)
	if err != nil {
		return nil, err
	}
	header := sourced(cfg.tokenSource)
	if cfg.tokenSource == nil {
		if err := checkToken(token); err != nil {
			return nil, invalid(tokenName, "%s", err)
		}
		header = bearer(token)
	}
	if cfg.httpClient == nil {
		cfg.httpClient = &http.Client{Transport: exchange.NewTransport()}
	}
	c := &Client{config: cfg, base: parsed.String(), baseURL: parsed, created: new(creates.Returned), losses: new(creates.Registry)}
	c.peer = &exchange.Peer{
		Transport: cfg.httpClient.Transport, Timeout: cfg.httpClient.Timeout, Origin: parsed, Authorization: header,
		UserAgent: cfg.userAgent, StallTimeout: cfg.stallTimeout, MaxBody: cfg.maxResponseSize,
		MinWait: cfg.retry.MinWait, MaxWait: cfg.retry.MaxWait,
	}
	// Storage is another server: it gets no token, is not meant by the limits, and sends recordings for as long as they take.
	c.storage = &exchange.Peer{
		Transport: cfg.httpClient.Transport, StallTimeout: cfg.stallTimeout, MinWait: cfg.retry.MinWait, MaxWait: cfg.retry.MaxWait,
	}
	if cfg.limiter != nil {
		c.peer.Limit = cfg.limiter.Wait
	}
	c.Notes, c.Tokens, c.Users = &NotesService{c}, &TokensService{c}, &UsersService{c}
	return c, nil
}

// rememberCreated keeps the id of a note that Create returned; nil is ignored.
func (c *Client) rememberCreated(note *ProgressNote) {
	if note != nil {
		c.created.Add(note.ID, time.Now())
	}
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
	case u.RawPath != "" || hasDotSegment(u.Path):
		return nil, invalid(name, "has a path with escaped slashes or dot segments")
	case u.Scheme == "http" && !insecure && !origin.Loopback(u):
		return nil, invalid(name, "is plain http to another machine, which would show the token and patients' data to the network; use https, or WithInsecureHTTP on a network you trust")
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimRight(u.Path, "/")}, nil
}

// Do calls an endpoint that this package has no method for, through the same path as all others: token, limits, retries,
// typed errors.
//
// The path is relative to the base URL and starts with a slash; a query goes into [WithQuery]. A non-nil body is sent
// as JSON. A non-nil out receives the response as [json.Unmarshal] does; then a response without a JSON body is
// [ErrUnexpectedResponse]. GET, HEAD, OPTIONS, PUT and DELETE are retried after transient failures; any other method
// only when the service cannot have acted, else the error is an [*OutcomeUnknownError].
//
// In logs and errors, the path is shown by its first two segments, if these are lower-case words or a version, and the
// others as {}: a name may stand there.
func (c *Client) Do(ctx context.Context, method, path string, body, out any, opts ...CallOption) error {
	op := operation{name: "Do", method: method, route: maskedRoute(path), effect: exchange.Creates}
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		op.effect = exchange.Reads
	case http.MethodPut, http.MethodDelete:
		op.effect = exchange.Repeatable
	}
	_, err := run(ctx, c, op.name, opts, func(ctx context.Context, call *scope) (*struct{}, error) {
		if err := checkPath(method, path); err != nil {
			return nil, err
		}
		r := request{op: op, path: path}
		if body != nil {
			encoded, err := json.Marshal(body)
			if err != nil {
				return nil, &callError{op: op, detail: "the body cannot be encoded as JSON", causes: []error{ErrInvalidArgument, err}}
			}
			r.body = exchange.JSON(encoded)
		}
		return do(ctx, call, r, func(response []byte) (*struct{}, error) {
			if out == nil {
				return new(struct{}), nil
			}
			return new(struct{}), json.Unmarshal(response, out)
		})
	})
	return err
}

// checkPath refuses what would leave the base URL's path or origin.
func checkPath(method, path string) error {
	switch {
	case !redact.IsIdentifier(method, 32, "-"):
		return invalid("Do: method", "is not an HTTP method")
	case !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//"):
		return invalid("Do: path", "must start with one slash; it is relative to the base URL")
	case strings.ContainsAny(path, "?#"):
		return invalid("Do: path", "must hold no query; use WithQuery")
	case strings.ContainsAny(path, `%\`), hasDotSegment(path), hasControl(path):
		return invalid("Do: path", "must hold no escapes, dot segments or control characters")
	}
	return nil
}

func maskedRoute(path string) string {
	const shown = 1 + 2 // the empty one before the first slash, then two
	segments := strings.Split(path, "/")
	for i, s := range segments {
		word := strings.Trim(s, "abcdefghijklmnopqrstuvwxyz-_") == ""
		version := len(s) > 1 && s[0] == 'v' && strings.Trim(s[1:], "0123456789.") == ""
		if i >= shown && s != "" || !word && !version {
			segments[i] = "{}"
		}
	}
	return strings.Join(segments, "/")
}

func hasDotSegment(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// checkToken refuses a token that cannot stand in an Authorization header. The error does not hold the token.
func checkToken(token string) error {
	if token == "" {
		return errors.New("is empty; want an access token of the service")
	}
	if scheme, _, _ := strings.Cut(token, " "); strings.EqualFold(scheme, "Bearer") {
		return errors.New("begins with \"Bearer\", which is added to it; give the token alone")
	}
	if end := token[len(token)-1]; len(token) > 1 && token[0] == end && (end == '"' || end == '\'') {
		return errors.New("stands in quotes; give the token alone")
	}
	for _, r := range token {
		if r <= ' ' || r > '~' {
			return errors.New("holds a space, a line break or a character outside ASCII; was it copied with its surroundings?")
		}
	}
	return nil
}

// authorization gives the header of that name. It is a function because no verb of fmt can reach into one, as it could
// into a field.
type authorization = func(context.Context) (string, error)

const bearerScheme = "Bearer "

func bearer(token string) authorization {
	header := bearerScheme + token
	return func(context.Context) (string, error) { return header, nil }
}

// sourced asks the source each time, and refuses a token that cannot be sent.
func sourced(source func(context.Context) (string, error)) authorization {
	return func(ctx context.Context) (string, error) {
		token, err := source(ctx)
		if err != nil {
			return "", err
		}
		if err := checkToken(token); err != nil {
			return "", sentinelError{safeError("its token " + err.Error()), ErrInvalidArgument}
		}
		return bearerScheme + token, nil
	}
}

// BaseURL returns the URL that the client was made with, without a slash at its end: what tells one service from another.
func (c *Client) BaseURL() string { return c.base }

// LogValue lists what may be logged of the client: where it points.
func (c *Client) LogValue() slog.Value {
	return slog.GroupValue(slog.String("base_url", c.base))
}

// Format prints the client without its token for every verb.
func (c *Client) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.Client", c) }
