package contract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

var (
	errNoBearer     = errors.New("the Authorization header is not Bearer and a token")
	errBodyUnwanted = errors.New("the operation takes no body, but one was sent")
)

// Answer is what came back for a request.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// CheckRequest holds a request, whose body was read already, against the contract. Its URL's path is relative to the
// service's base address. It returns the id of the operation that is asked for, also with an error where one is known.
func (c *Contract) CheckRequest(req *http.Request, body []byte) (operation string, err error) {
	return c.checkRequest(req, body, true)
}

// checkRequest looks at the body only if it was sent whole.
func (c *Contract) checkRequest(req *http.Request, body []byte, whole bool) (operation string, err error) {
	route, pathParams, err := c.router.FindRoute(req)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", req.Method, req.URL.Path, err)
	}
	operation = route.Operation.OperationID
	problems := []error{checkQuery(route, req.URL.Query())}
	if route.Operation.RequestBody == nil && len(body) > 0 {
		problems = append(problems, errBodyUnwanted)
	}
	// The validator puts another body into the request it is given, and sets defaults.
	copied := req.Clone(req.Context())
	copied.Body, copied.GetBody, copied.ContentLength = io.NopCloser(bytes.NewReader(body)), nil, int64(len(body))
	problems = append(problems, openapi3filter.ValidateRequest(req.Context(), &openapi3filter.RequestValidationInput{
		Request:    copied,
		PathParams: pathParams,
		Route:      route,
		Options:    brief(openapi3filter.Options{ExcludeRequestBody: !whole, AuthenticationFunc: checkBearer}),
	}))
	if err := errors.Join(problems...); err != nil {
		return operation, fmt.Errorf("request of %s: %w", operation, err)
	}
	return operation, nil
}

// checkQuery finds parameters that the operation does not have, and repeated ones: validators let both pass.
func checkQuery(route *routers.Route, query url.Values) error {
	var problems []error
	for name, values := range query {
		switch {
		case route.Operation.Parameters.GetByInAndName("query", name) == nil:
			problems = append(problems, fmt.Errorf("the query parameter %q is not in the document", name))
		case len(values) > 1:
			problems = append(problems, fmt.Errorf("the query parameter %q comes %d times", name, len(values)))
		}
	}
	return errors.Join(problems...)
}

// checkBearer is asked for each security requirement; the document has the bearer scheme only.
func checkBearer(_ context.Context, input *openapi3filter.AuthenticationInput) error {
	headers := input.RequestValidationInput.Request.Header.Values("Authorization")
	if len(headers) != 1 {
		return errNoBearer
	}
	if token, ok := strings.CutPrefix(headers[0], "Bearer "); !ok || token == "" || strings.ContainsAny(token, " \t") {
		return errNoBearer
	}
	return nil
}

// CheckAnswer holds an answer to the operation with that id against the contract.
func (c *Contract) CheckAnswer(ctx context.Context, operation string, answer Answer) error {
	route := c.operations[operation]
	if route == nil {
		return fmt.Errorf("there is no operation %q", operation)
	}
	if answer.Status < 200 || answer.Status > 299 && answer.Status < 400 {
		// The validator lets redirects pass.
		return fmt.Errorf("answer to %s: status %d is neither a success nor an error", operation, answer.Status)
	}
	err := openapi3filter.ValidateResponse(ctx, &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: &http.Request{Method: route.Method, URL: &url.URL{Path: route.Path}},
			Route:   route,
		},
		Status:  answer.Status,
		Header:  answer.Header,
		Body:    io.NopCloser(bytes.NewReader(answer.Body)),
		Options: brief(openapi3filter.Options{IncludeResponseStatus: true}),
	})
	if err != nil {
		return fmt.Errorf("answer to %s with status %d: %w", operation, answer.Status, err)
	}
	return nil
}

// brief makes the validator report every problem, in one line and without the whole schema and message.
func brief(options openapi3filter.Options) *openapi3filter.Options {
	options.MultiError = true
	options.SkipSettingDefaults = true
	options.WithCustomSchemaErrorFunc(func(err *openapi3.SchemaError) string {
		return "at /" + strings.Join(err.JSONPointer(), "/") + ": " + err.Reason
	})
	return &options
}
