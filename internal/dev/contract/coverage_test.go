package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type object = map[string]any

// Every request and response keeps the contract, and together they use all that the document describes.
func TestDefaultVariant_KeepsTheContract(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.converse(t)
	for _, e := range b.exchanges() {
		require.NoError(t, e.requestErr)
		require.NoError(t, e.responseErr, string(e.response))
	}
	b.assertCoverage(t)
}

// A check that cannot fail is worth nothing: these messages break the contract.
func TestBrokenMessages_AreFound(t *testing.T) {
	t.Parallel()
	c := loaded(t)
	for _, broken := range []struct{ method, path, contentType, body, complaint string }{
		{"GET", "/v1/notes", "", "", "no matching operation"},
		{"GET", "/v1/progress-notes?patient=7", "", "", "patient"},
		{"GET", "/v1/progress-notes?page=1&page=2", "", "", "2 times"},
		{"GET", "/v1/progress-notes?sort=newest", "", "", "sort"},
		{"GET", "/v1/progress-notes/one", "", "", "id"},
		{"PUT", "/v1/progress-notes/1/sign", "application/json", `{}`, "no body"},
		{"PUT", "/v1/progress-notes/1", "application/json", `{"title":"Visit"}`, "title"},
		{"POST", "/v1/progress-notes", "application/json", `{"name":"Visit"}`, "Content-Type"},
	} {
		req := httptest.NewRequestWithContext(t.Context(), broken.method, broken.path, http.NoBody)
		req.Header.Set("Authorization", "Bearer synthetic")
		req.Header.Set("Content-Type", broken.contentType)
		_, err := c.checkRequest(req, []byte(broken.body))
		require.ErrorContains(t, err, broken.complaint, "%s %s", broken.method, broken.path)
	}
	_, err := c.checkRequest(httptest.NewRequestWithContext(t.Context(), "GET", "/user", http.NoBody), nil)
	require.ErrorContains(t, err, "Bearer")

	header := http.Header{"Content-Type": {"application/json"}}
	for _, broken := range []struct {
		operation       string
		status          int
		body, complaint string
	}{
		{"getUser", 302, `{"message":"x"}`, "302"},
		{"getUser", 200, `{"data":{"id":1}}`, "data"},
		{"getNote", 404, `{"errors":{}}`, "message"},
		{"getNote", 200, `{"id":"1"}`, "/id: value must be an integer"},
		{"createNote", 422, `{"message":"x"}`, "errors"},
		{"listTokens", 200, `{"tokens":[{"id":1,"created_at":"2024-05-01T10:11:12Z"}]}`, "created_at"},
	} {
		err := c.checkResponse(t.Context(), broken.operation, broken.status, header, []byte(broken.body))
		require.ErrorContains(t, err, broken.complaint, broken.operation)
	}
}

// assertCoverage finds what is in the document and never on the wire, and so was not held against anything.
func (b *bench) assertCoverage(t *testing.T) {
	t.Helper()
	seen := map[string]bool{}
	for _, e := range b.exchanges() {
		responses := b.contract.operations[e.operation].Operation.Responses
		for status, response := range responses.Map() {
			if responses.Status(e.status) == response {
				seen["response "+e.operation+" "+status] = true
				markMembers(t, seen, response.Value, e.response)
			}
		}
		for name := range e.query {
			seen["parameter "+e.operation+" "+name] = true
		}
		markParts(t, seen, b.contract.operations[e.operation].Operation, e)
	}
	for id, route := range b.contract.operations {
		operation := route.Operation
		for status := range operation.Responses.Map() {
			if status != "default" {
				assert.True(t, seen["response "+id+" "+status], "no answer %s to %s", status, id)
			}
		}
		for _, parameter := range operation.Parameters {
			// The default variant has numbered pages; others have cursors.
			if name := parameter.Value.Name; parameter.Value.In == "query" && name != "cursor" {
				assert.True(t, seen["parameter "+id+" "+name], "no %s sent to %s", name, id)
			}
		}
	}
	for name, schema := range b.contract.doc.Components.Schemas {
		for member := range schema.Value.Properties {
			validation := name == "Error" && member == "errors" // validation errors have a schema of their own
			assert.True(t, validation || seen["member "+name+" "+member], "no %s in any %s", member, name)
		}
	}
}

// markMembers notes the members of an answer, by the schema they belong to.
func markMembers(t *testing.T, seen map[string]bool, response *openapi3.Response, body []byte) {
	t.Helper()
	var value any
	require.NoError(t, json.Unmarshal(body, &value))
	markSchema(seen, response.Content["application/json"].Schema, value)
}

func markSchema(seen map[string]bool, schema *openapi3.SchemaRef, value any) {
	switch value := value.(type) {
	case object:
		for name, member := range value {
			if property := schema.Value.Properties[name]; property != nil {
				seen["member "+schemaName(schema)+" "+name] = true
				markSchema(seen, property, member)
			}
		}
	case []any:
		for _, element := range value {
			if schema.Value.Items != nil {
				markSchema(seen, schema.Value.Items, element)
			}
		}
	}
}

// markParts notes the parts or members of a request's body.
func markParts(t *testing.T, seen map[string]bool, operation *openapi3.Operation, e exchange) {
	t.Helper()
	if e.body == nil {
		return
	}
	schema := operation.RequestBody.Value.Content.Get(e.contentType).Schema
	mediaType, params, err := mime.ParseMediaType(e.contentType)
	require.NoError(t, err)
	if mediaType == "application/json" {
		var value any
		require.NoError(t, json.Unmarshal(e.body, &value))
		markSchema(seen, schema, value)
		return
	}
	for parts := multipart.NewReader(bytes.NewReader(e.body), params["boundary"]); ; {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		seen["member "+schemaName(schema)+" "+part.FormName()] = true
	}
}

// schemaName is the name of a component's schema, or "" for one written in place.
func schemaName(ref *openapi3.SchemaRef) string {
	return strings.TrimPrefix(ref.Ref, "#/components/schemas/")
}
