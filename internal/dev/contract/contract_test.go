package contract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/docs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// contract is the document, ready to check messages.
type contract struct {
	doc        *openapi3.T
	router     routers.Router
	operations map[string]*routers.Route // by operationId
}

var load = sync.OnceValues(func() (*contract, error) {
	doc, err := openapi3.NewLoader().LoadFromData(docs.OpenAPI())
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(context.Background()); err != nil {
		return nil, err
	}
	if err := doc.WalkSchemas(closeObject); err != nil {
		return nil, err
	}
	doc.Servers = nil // any base address will do
	c := &contract{doc: doc, operations: map[string]*routers.Route{}}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			c.operations[operation.OperationID] = &routers.Route{
				Spec: doc, Path: path, PathItem: item, Method: method, Operation: operation,
			}
		}
	}
	c.router, err = legacy.NewRouter(doc)
	return c, err
})

func loaded(t *testing.T) *contract {
	t.Helper()
	c, err := load()
	require.NoError(t, err)
	return c
}

// closeObject forbids members that an object does not name, unless it says itself what else it may have. The document
// lets the service add members. The tests do not, so a misspelt member is found even if the right one is optional.
func closeObject(_ string, ref *openapi3.SchemaRef) error {
	schema := ref.Value
	open := schema.AdditionalProperties.Has != nil || schema.AdditionalProperties.Schema != nil
	if schema.Type.Is("object") && !open {
		schema.AdditionalProperties.Has = new(false)
	}
	return nil
}

// checkRequest returns the id of the operation that is asked for, also with an error if it is known.
func (c *contract) checkRequest(req *http.Request, body []byte) (operation string, err error) {
	route, pathParams, err := c.router.FindRoute(req)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", req.Method, req.URL.Path, err)
	}
	problems := []error{checkQuery(route, req.URL.Query())}
	if route.Operation.RequestBody == nil && len(body) > 0 {
		problems = append(problems, errors.New("the operation takes no body, but one was sent"))
	}
	// The validator puts another body into the request that it is given.
	copied := req.Clone(req.Context())
	copied.Body = io.NopCloser(bytes.NewReader(body))
	copied.ContentLength = int64(len(body))
	problems = append(problems, openapi3filter.ValidateRequest(req.Context(), &openapi3filter.RequestValidationInput{
		Request: copied, PathParams: pathParams, Route: route,
		Options: options(openapi3filter.Options{AuthenticationFunc: checkBearer}),
	}))
	return route.Operation.OperationID, errors.Join(problems...)
}

// checkQuery finds parameters that the operation does not have, and repeated ones: the validator accepts both.
func checkQuery(route *routers.Route, query url.Values) error {
	for name, values := range query {
		if route.Operation.Parameters.GetByInAndName("query", name) == nil {
			return fmt.Errorf("the query parameter %q is not in the document", name)
		}
		if len(values) > 1 {
			return fmt.Errorf("the query parameter %q comes %d times", name, len(values))
		}
	}
	return nil
}

func checkBearer(_ context.Context, input *openapi3filter.AuthenticationInput) error {
	headers := input.RequestValidationInput.Request.Header.Values("Authorization")
	if len(headers) == 1 && strings.HasPrefix(headers[0], "Bearer ") && len(strings.Fields(headers[0])) == 2 {
		return nil
	}
	return errors.New("the Authorization header is not Bearer and a token")
}

func (c *contract) checkResponse(ctx context.Context, operation string, status int, header http.Header, body []byte) error {
	route := c.operations[operation]
	if status < 200 || status > 299 && status < 400 {
		return fmt.Errorf("status %d is neither a success nor an error", status) // the validator accepts redirects
	}
	return openapi3filter.ValidateResponse(ctx, &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: &http.Request{Method: route.Method, URL: &url.URL{Path: route.Path}}, Route: route,
		},
		Status: status, Header: header, Body: io.NopCloser(bytes.NewReader(body)),
		Options: options(openapi3filter.Options{IncludeResponseStatus: true}),
	})
}

func options(o openapi3filter.Options) *openapi3filter.Options {
	o.MultiError = true
	o.SkipSettingDefaults = true
	o.WithCustomSchemaErrorFunc(func(err *openapi3.SchemaError) string {
		return "at /" + strings.Join(err.JSONPointer(), "/") + ": " + err.Reason
	})
	return &o
}

// exchange is a request and its response.
type exchange struct {
	operation   string
	query       url.Values
	contentType string // of the request
	body        []byte // of the request
	status      int    // of the response; 0 if none came
	response    []byte
	requestErr  error // how the request breaks the contract
	responseErr error // how the response does
}

// bench is a fake server, a client of its first user, and what passed between the two.
type bench struct {
	*clinicaldoctest.Server

	client   *clinicaldoc.Client
	contract *contract
	wire     *http.Transport

	mu   sync.Mutex
	seen []exchange
}

// newBench starts a server of the default variant, the likeliest reading of the description. Its notes are complete as
// soon as they are created.
func newBench(t *testing.T) *bench {
	t.Helper()
	server := clinicaldoctest.NewServer(clinicaldoctest.WithDelays(clinicaldoctest.Delays{}))
	t.Cleanup(server.Close)
	b := &bench{Server: server, contract: loaded(t), wire: &http.Transport{}}
	t.Cleanup(b.wire.CloseIdleConnections)
	b.client = b.clientWith(t, server.Token)
	return b
}

// clientWith returns a client whose requests and responses are checked.
func (b *bench) clientWith(t *testing.T, token string) *clinicaldoc.Client {
	t.Helper()
	client, err := clinicaldoc.NewClient(b.URL, token, clinicaldoc.WithHTTPClient(&http.Client{Transport: b}))
	require.NoError(t, err)
	return client
}

// RoundTrip sends a request and notes how it and its response keep the contract.
func (b *bench) RoundTrip(req *http.Request) (*http.Response, error) {
	e := exchange{query: req.URL.Query(), contentType: req.Header.Get("Content-Type")}
	if strings.HasPrefix(req.URL.String(), b.StorageURL+"/audio/") {
		if req.Header.Get("Authorization") != "" {
			b.note(exchange{requestErr: errors.New("the request takes the token to the storage")})
		}
		return b.wire.RoundTrip(req)
	}
	defer func() { b.note(e) }()
	out := req.Clone(req.Context())
	if req.Body != nil {
		var err error
		e.body, err = io.ReadAll(req.Body)
		_ = req.Body.Close()
		if err != nil {
			return nil, err
		}
		out.Body = io.NopCloser(bytes.NewReader(e.body))
		out.GetBody = nil
	}
	if !strings.HasPrefix(req.URL.String(), b.URL+"/") {
		e.requestErr = errors.New("the request goes elsewhere than to the service and its storage")
		return b.wire.RoundTrip(out)
	}
	named := req.Clone(req.Context())
	named.URL = &url.URL{Path: req.URL.Path, RawQuery: req.URL.RawQuery} // the document names no server
	e.operation, e.requestErr = b.contract.checkRequest(named, e.body)
	resp, err := b.wire.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	e.response, err = io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(e.response))
	e.status = resp.StatusCode
	if e.operation != "" {
		e.responseErr = b.contract.checkResponse(req.Context(), e.operation, e.status, resp.Header, e.response)
	}
	return resp, nil
}

func (b *bench) note(e exchange) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = append(b.seen, e)
}

func (b *bench) exchanges() []exchange {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.seen)
}
