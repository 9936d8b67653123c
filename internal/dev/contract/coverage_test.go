package contract_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/contract"
)

func TestDefaultVariant(t *testing.T) {
	t.Parallel()
	b := newBench(t, defaultVariant(t))
	b.converse(t)
	t.Run("covers the document", func(t *testing.T) {
		t.Parallel()
		b.assertCoverage(t)
	})
	t.Run("says the described messages", func(t *testing.T) {
		t.Parallel()
		b.assertMessages(t)
	})
}

// assertCoverage finds what is in the document and never on the wire, and so was not held against anything.
func (b *bench) assertCoverage(t *testing.T) {
	t.Helper()
	seen := map[string]bool{}
	for _, e := range b.exchanges() {
		responses := b.contract.Operation(e.Operation).Responses
		for status, response := range responses.Map() {
			if responses.Status(e.Answer.Status) == response {
				seen["response "+e.Operation+" "+status] = true
				markMembers(t, seen, response.Value, e.Answer.Body)
			}
		}
		for name := range e.Query {
			seen["parameter "+e.Operation+" "+name] = true
		}
		markParts(t, seen, b.contract.Operation(e.Operation), e)
	}
	for _, id := range b.contract.Operations() {
		operation := b.contract.Operation(id)
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
	doc, err := contract.Document()
	require.NoError(t, err)
	for name, schema := range doc.Components.Schemas {
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
func markParts(t *testing.T, seen map[string]bool, operation *openapi3.Operation, e contract.Exchange) {
	t.Helper()
	if e.Body == nil {
		return
	}
	schema := operation.RequestBody.Value.Content.Get(e.ContentType).Schema
	mediaType, params, err := mime.ParseMediaType(e.ContentType)
	require.NoError(t, err)
	if mediaType == "application/json" {
		var value any
		require.NoError(t, json.Unmarshal(e.Body, &value))
		markSchema(seen, schema, value)
		return
	}
	for parts := multipart.NewReader(bytes.NewReader(e.Body), params["boundary"]); ; {
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

// assertMessages compares the errors' messages with those the description words: the document has them as examples.
func (b *bench) assertMessages(t *testing.T) {
	t.Helper()
	said := map[string]int{}
	for _, e := range b.exchanges() {
		response := b.contract.Operation(e.Operation).Responses.Status(e.Answer.Status)
		if response == nil || e.Answer.Status < 400 {
			continue
		}
		example, described := response.Value.Content["application/json"].Example.(object)
		if !described {
			continue
		}
		var body object
		require.NoError(t, json.Unmarshal(e.Answer.Body, &body))
		require.Equal(t, example["message"], body["message"])
		said[response.Ref]++
	}
	require.Len(t, said, 3, "unauthorized, not found and invalid data")
}
