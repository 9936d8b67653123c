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

// Version is the SDK version in use, such as "0.2.0", or "devel" if the build does not record it (for example in a
// workspace or with a replace directive). The User-Agent header contains it. Changing the variable has no effect.
var Version = version

var version = exchange.Version("github.com/clinicaldoc/clinicaldoc-go")

// Client is a client of one clinical documentation service with one user's token. Use [NewClient] to create one. A
// Client is safe for concurrent use and does not need to be closed.
type Client struct {
	Notes  *NotesService  // progress notes
	Tokens *TokensService // the user's access tokens
	Users  *UsersService  // the authenticated user

	base string // scheme, host and path prefix, without a trailing slash
	*core
}

// core is what the services share. It is behind a pointer, and its secrets are in functions. The reason is package fmt:
// it prints a struct in an unexported field without calling its methods, and follows one pointer from there.
type core struct {
	config
	baseURL *url.URL
	storage *exchange.Peer
	creates *creates.Registry // the creates of this client and what became of them
}

// NewClient returns a client for the service at baseURL. That is the URL before /v1 and /user. It may have a path
// prefix, and may end with a slash. NewClient makes no request.
//
// The token is sent only to the origin of baseURL, and is never printed. NewClient returns an error matching
// [ErrInvalidArgument] if the base URL, the token or an option is invalid. Plain http to another machine is also an
// error (see [WithInsecureHTTP]).
func NewClient(baseURL, token string, opts ...Option) (*Client, error) {
	return newClient("NewClient: baseURL", baseURL, tokenArgument, token, opts)
}

// tokenArgument is the name of NewClient's token in errors.
const tokenArgument = "NewClient: token"

// The environment variables that [NewClientFromEnv] reads.
const (
	EnvBaseURL = "CLINICALDOC_BASE_URL"
	EnvToken   = "CLINICALDOC_TOKEN"
)

// NewClientFromEnv is [NewClient] with the base URL from CLINICALDOC_BASE_URL and the token from CLINICALDOC_TOKEN.
// The error for a missing variable names it. With [WithTokenSource], CLINICALDOC_TOKEN is not used.
func NewClientFromEnv(opts ...Option) (*Client, error) {
	const variable = "environment variable "
	return newClient(variable+EnvBaseURL, os.Getenv(EnvBaseURL), variable+EnvToken, os.Getenv(EnvToken), opts)
}

// newClient creates a client. Its errors call the base URL and the token by the names passed.
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
	if err := c.setToken(tokenName, token); err != nil {
		return nil, err
	}
	c.peer.Origin = parsed
	c.peer.Gate = new(exchange.Gate)
	if c.peer.Transport == nil {
		c.peer.Transport = exchange.Shared()
	}
	// Storage is another server. It gets no token, the service's limits do not apply to it, and its downloads have no
	// total timeout.
	c.storage = &exchange.Peer{
		Transport:     c.peer.Transport,
		UserAgent:     c.peer.UserAgent,
		StallTimeout:  c.peer.StallTimeout,
		MinWait:       c.peer.MinWait,
		MaxWait:       c.peer.MaxWait,
		MaxRetryAfter: c.peer.MaxRetryAfter,
	}
	c.Notes = &NotesService{c}
	c.Tokens = &TokensService{c}
	c.Users = &UsersService{c}
	return c, nil
}

// setToken sets the token of a client without a token source. A client with a source rejects a token that was passed
// to NewClient, and ignores one from the environment.
func (c *Client) setToken(name, token string) error {
	hasSource := c.token != nil
	switch {
	case hasSource && name == tokenArgument && token != "":
		return invalid(name, "pass a token or WithTokenSource, not both")
	case hasSource:
		return nil
	}
	if wrong := checkToken(token); wrong != "" {
		return invalid(name, "%s", wrong)
	}
	c.token = bearerAuthorization(token)
	return nil
}

// parseBaseURL returns the normal form of the base URL: scheme, host and path without a slash at its end. It rejects
// plain http to another machine unless insecure is set.
func parseBaseURL(name, baseURL string, insecure bool) (*url.URL, error) {
	const want = "pass the service's address, such as https://host/prefix"
	if baseURL == "" {
		return nil, invalid(name, "is empty; %s", want)
	}
	u, err := url.Parse(baseURL)
	if err != nil || u.Hostname() == "" {
		return nil, invalid(name, "is not a URL with a scheme and a host; %s", want)
	}
	if wrong := checkBaseURL(u); wrong != "" {
		return nil, invalid(name, "%s", wrong)
	}
	isLocal := exchange.Loopback(u)
	mayBePlain := insecure || isLocal
	if u.Scheme == "http" && !mayBePlain {
		return nil, invalid(name, "is plain http to another machine, so the network could read the token and "+
			"patients' data; use https, or WithInsecureHTTP on a network you trust")
	}
	if isLocal {
		u.Host = strings.ToLower(u.Host) // net/http would send requests for LOCALHOST through a proxy
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimRight(u.Path, "/")}, nil
}

var webSchemes = []string{"https", "http"}

// checkBaseURL returns why the URL cannot be a base URL, or "" if it can.
func checkBaseURL(u *url.URL) string {
	hasSpace := strings.Contains(u.RawPath, " ") // Path has one for %20 too
	switch {
	case !slices.Contains(webSchemes, u.Scheme):
		return fmt.Sprintf("has the scheme %q; want https", u.Scheme)
	case u.User != nil:
		return "contains a user name or password; pass the token separately"
	case u.RawQuery != "", u.ForceQuery, u.Fragment != "":
		return "contains a query or a fragment; pass only the address"
	case hasSpace:
		return "contains a space; copy only the address"
	case strings.Contains(strings.ToLower(u.RawPath), "%2f"), hasDotSegment(u.Path):
		return "has a path with escaped slashes or dot segments"
	}
	return ""
}

// doName is the name of Do in errors and hooks.
const doName = "Do"

// Do calls an endpoint that this package has no method for. Token, limits, retries and typed errors are the same as for
// the other methods.
//
// The path is relative to the base URL and starts with a slash. Use [WithQuery] for a query.
//
// A body of type []byte or [io.Reader] is sent unchanged. Its Content-Type is the one of [WithHeader], or
// application/octet-stream. A reader without a Len method is sent in chunks, and only once. Any other body except nil
// is sent as JSON.
//
// If out is not nil, it must be a pointer to a type that can hold JSON. It receives the response as in
// [json.Unmarshal]. A response without a JSON body is then an error matching [ErrUnexpectedResponse].
//
// GET, HEAD, OPTIONS, PUT and DELETE are retried after temporary failures. Other methods are retried only if the
// service cannot have acted. Otherwise the error is an [*OutcomeUnknownError].
//
// Errors, logs, spans and metrics show the route of [WithRoute]. Without it they show the path's version, one segment
// of lower-case letters, and {} for each later segment, because it may be a name.
func (c *Client) Do(ctx context.Context, method, path string, body, out any, opts ...CallOption) error {
	_, err := run(ctx, c, doName, opts, func(ctx context.Context, call *scope) (*struct{}, error) {
		op, err := newOperation(method, path, call.options.route)
		if err != nil {
			return nil, err
		}
		call.request.Body, err = newBody(body, call.options.contentType)
		if err != nil {
			return nil, err
		}
		if err := checkOut(out); err != nil {
			return nil, err
		}
		return do(ctx, call, op, path, func(response []byte) (*struct{}, []string, error) {
			return new(struct{}), nil, call.storeResponse(ctx, response, out)
		})
	})
	return err
}

// storeResponse reports a response to Do to the audit, if there is one, and then stores the response in out. If out is
// nil, the caller gets the response only by WithResponse.
func (s *scope) storeResponse(ctx context.Context, response []byte, out any) error {
	if out == nil {
		callerGetsIt := s.options.response != nil
		return s.auditResponse(ctx, response, callerGetsIt)
	}
	// The caller does not get a response that is not valid: Unmarshal fails, and in an audited call, withholdBody
	// empties the body of WithResponse.
	if json.Valid(response) {
		const callerGetsIt = true
		if err := s.auditResponse(ctx, response, callerGetsIt); err != nil {
			return err
		}
	}
	return json.Unmarshal(bytes.Clone(response), out) // a copy, because out may keep parts of it
}

// checkOut rejects a value of the caller's that cannot hold a response.
func checkOut(out any) error {
	if out == nil {
		return nil
	}
	pointer := reflect.ValueOf(out)
	if pointer.Kind() != reflect.Pointer || pointer.IsNil() {
		return invalid("Do: out", "must be nil or a non-nil pointer")
	}
	target, ends := followPointers(pointer)
	noTypeYet := map[reflect.Type]bool{}
	switch {
	case !ends:
		return invalid("Do: out", "points to itself")
	case !fillable(target.Type(), noTypeYet):
		return invalid("Do: out", "points to a type that JSON cannot be decoded into")
	}
	return nil
}

// followPointers returns the value into which json.Unmarshal stores: it follows pointers, also those that interfaces
// hold. It reports false for a pointer that leads back to itself, which json.Unmarshal may follow for ever.
func followPointers(v reflect.Value) (target reflect.Value, ends bool) {
	visited := map[uintptr]bool{}
	for {
		if unmarshalsItself(v.Type()) {
			return v, true
		}
		pointer := v
		if v.Kind() == reflect.Interface {
			pointer = v.Elem() // what it holds
		}
		if pointer.Kind() != reflect.Pointer || pointer.IsNil() {
			return v, true
		}
		if visited[pointer.Pointer()] {
			return v, false
		}
		visited[pointer.Pointer()] = true
		v = pointer.Elem()
	}
}

var (
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// unmarshalsItself reports whether json.Unmarshal calls a method of the type.
func unmarshalsItself(t reflect.Type) bool {
	pointer := reflect.PointerTo(t)
	return pointer.Implements(jsonUnmarshaler) || pointer.Implements(textUnmarshaler)
}

// fillable reports whether json.Unmarshal can store something in a value of the type. A type that is being checked
// already, as in a recursive type, counts as fillable. The fields of a struct are not checked, because the response may
// lack them.
func fillable(t reflect.Type, beingChecked map[reflect.Type]bool) bool {
	if beingChecked[t] || unmarshalsItself(t) {
		return true
	}
	beingChecked[t] = true
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return false
	case reflect.Interface:
		return t.NumMethod() == 0
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return fillable(t.Elem(), beingChecked)
	case reflect.Map:
		return fillableKey(t.Key()) && fillable(t.Elem(), beingChecked)
	default:
		return true
	}
}

// fillableKey reports whether json.Unmarshal can store keys of maps in the type.
func fillableKey(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return true
	default:
		return reflect.PointerTo(t).Implements(textUnmarshaler)
	}
}

// newOperation returns the operation of a Do. It rejects a path that leaves the base URL's path or origin.
func newOperation(method, path, route string) (*operation, error) {
	switch {
	case !redact.IsIdentifier(method, 32, "-"):
		return nil, invalid("Do: method", "is not an HTTP method")
	case !strings.HasPrefix(path, "/"), strings.HasPrefix(path, "//"):
		return nil, invalid("Do: path", "must start with one slash; it is relative to the base URL")
	case strings.ContainsAny(path, "?#"):
		return nil, invalid("Do: path", "must not contain a query; use WithQuery")
	case strings.ContainsAny(path, `%\`), hasDotSegment(path), hasControl(path):
		return nil, invalid("Do: path", "must not contain escapes, dot segments or control characters")
	}
	op := &operation{name: doName, method: method, route: cmp.Or(route, maskedRoute(path))}
	op.effect = exchange.Creates // of POST, PATCH and unknown methods: the effect that is retried least
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		op.effect = exchange.Reads
	case http.MethodPut, http.MethodDelete:
		op.effect = exchange.Repeatable
	}
	if route != "" && !matchesTemplate(path, route) {
		return nil, invalid("WithRoute",
			"does not match the path; each segment must equal the path's, or be a name in braces")
	}
	return op, nil
}

// matchesTemplate reports whether each segment of the template equals that of the path, or is a name in braces.
func matchesTemplate(path, template string) bool {
	matches := func(segment, shown string) bool { return segment == shown || placeholder.MatchString(shown) }
	return slices.EqualFunc(strings.Split(path, "/"), strings.Split(template, "/"), matches)
}

// newBody returns the body that the caller passed to Do, or nil if there is none. The content type is that of
// WithHeader, or empty.
func newBody(body any, contentType string) (*exchange.Body, error) {
	typeOfBytes := cmp.Or(contentType, "application/octet-stream") // of a body that is not encoded here
	switch b := body.(type) {
	case []byte:
		return &exchange.Body{ContentType: typeOfBytes, Bytes: b}, nil
	case interface {
		io.Reader
		Len() int
	}: // it is taken to be in memory, and is read completely, so it can be sent again
		content, err := io.ReadAll(b)
		if err != nil {
			return nil, invalidBecause("Do: the body cannot be read", err)
		}
		return &exchange.Body{ContentType: typeOfBytes, Bytes: content}, nil
	case io.Reader:
		return exchange.Stream(typeOfBytes, b), nil
	}
	if contentType != "" {
		return nil, invalid("WithHeader",
			"Content-Type can be set only for a body of bytes or a reader; other bodies are sent as JSON")
	}
	if body == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, invalidBecause("Do: the body cannot be encoded as JSON", err)
	}
	return &exchange.Body{Bytes: encoded}, nil
}

var (
	versionSegment = regexp.MustCompile(`^v[0-9.]+$`)
	shownSegment   = regexp.MustCompile(`^[a-z_-]{0,32}$`)
	placeholder    = regexp.MustCompile(`^\{[A-Za-z0-9_.-]{1,32}\}$`)
)

// maskedRoute returns the path with its version and the segment after it, which names the endpoint. Later segments, and
// a name that does not look like an endpoint's, become {}.
func maskedRoute(path string) string {
	const maxShownSegments = 8
	segments := strings.Split(path, "/") // the first is empty, because the path begins with a slash
	segments = segments[:min(len(segments), 1+maxShownSegments)]
	nameIndex := 1
	if versionSegment.MatchString(segments[1]) {
		nameIndex = 2
	}
	for i := nameIndex; i < len(segments); i++ {
		isName := i == nameIndex && shownSegment.MatchString(segments[i])
		if !isName && segments[i] != "" {
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

// checkToken returns why the token is invalid in an Authorization header, or "" if it is valid. The text does not
// contain the token.
func checkToken(token string) string {
	scheme, _, _ := strings.Cut(token, " ")
	switch {
	case token == "":
		return "is empty; pass an access token of the service"
	case strings.EqualFold(scheme, "Bearer"):
		return "begins with \"Bearer\", which the client adds; pass only the token"
	case isQuoted(token, `"`), isQuoted(token, `'`):
		return "is in quotes; pass only the token"
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "contains a space, a line break or a character outside ASCII; copy only the token"
	}
	return ""
}

func isQuoted(text, quote string) bool {
	inner, found := strings.CutPrefix(text, quote)
	return found && strings.HasSuffix(inner, quote)
}

// authorization returns the header of that name. It is a function because no verb of fmt prints what a function holds.
type authorization = func(context.Context) (string, error)

// renewal returns another header for one that was refused; see [exchange.Request].
type renewal = func(ctx context.Context, refused string) string

const bearerScheme = "Bearer "

func bearerAuthorization(token string) authorization {
	header := bearerScheme + token
	return func(context.Context) (string, error) { return header, nil }
}

// sourceAuthorization returns the authorization that calls the source each time, and rejects a token that cannot be
// sent.
func sourceAuthorization(source TokenSource) authorization {
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

// maxRefused limits how many refused tokens are remembered. Then all are forgotten, and a source may get one again.
const maxRefused = 1000

// invalidator is implemented by token sources that want to know which tokens were refused.
type invalidator interface{ Invalidate(token string) }

// refusedTokens passes refused tokens to the source's Invalidate method, one call at a time.
type refusedTokens struct {
	source      invalidator
	lock        chan struct{}   // full while Invalidate runs
	invalidated map[string]bool // the tokens that were passed to Invalidate
}

// invalidate passes the token to the source's Invalidate, and reports whether it did. A token that was passed before is
// passed only if again is set. If the context ends while another call is in Invalidate, nothing is passed.
func (r *refusedTokens) invalidate(ctx context.Context, token string, again bool) bool {
	select {
	case r.lock <- struct{}{}:
		defer func() { <-r.lock }()
	case <-ctx.Done():
		return false
	}
	wasPassed := r.invalidated[token]
	if wasPassed && !again {
		return false
	}
	if len(r.invalidated) >= maxRefused {
		clear(r.invalidated)
	}
	r.invalidated[token] = true
	r.source.Invalidate(token)
	return true
}

// newRenewal returns the renewal of a source with an Invalidate method, or nil if it has none. The renewal invalidates
// the refused token once, and calls the source for another one. If another call has invalidated the token already and
// the source still returns it, the renewal invalidates it again: the source may not have had another one at that time.
func newRenewal(source TokenSource, header authorization) renewal {
	renewable, ok := source.(invalidator)
	if !ok {
		return nil
	}
	tokens := &refusedTokens{source: renewable, lock: make(chan struct{}, 1), invalidated: map[string]bool{}}
	return func(ctx context.Context, refused string) string {
		// At most two rounds: in the second one the token is invalidated, unless the context has ended.
		for again := false; ; again = true {
			invalidated := tokens.invalidate(ctx, strings.TrimPrefix(refused, bearerScheme), again)
			if ctx.Err() != nil {
				return ""
			}
			fresh, _ := header(ctx) // empty if there is an error
			if invalidated || fresh != refused {
				return fresh
			}
		}
	}
}

// Package fileheader gets the tenant of a client's own headers for the headers of journals and snapshots.
func init() { //nolint:gochecknoinits // the method would be public otherwise
	fileheader.HeadersOf = func(client any) string {
		c := client.(*Client) //nolint:errcheck,forcetypeassert // nothing else has headers
		if c.header == nil {
			return ""
		}
		return (&callOptions{header: c.header()}).tenant()
	}
}

// BaseURL returns the URL that the client was created with, without a slash at its end. It identifies the service.
func (c *Client) BaseURL() string { return c.base }

// Assumptions returns what [WithAssumptions] states about the service.
func (c *Client) Assumptions() Assumptions { return c.assumptions }

// LogValue implements [slog.LogValuer]. It lists the base URL.
func (c Client) LogValue() slog.Value {
	return slog.GroupValue(slog.String("base_url", c.base))
}

// Format implements [fmt.Formatter]. It prints the base URL for every verb, never the token.
func (c Client) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.Client", c) }
