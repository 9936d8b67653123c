// Package contract holds what goes over the wire against openapi.json, the document of the service written from its
// description: every request the SDK sends, and every answer the service in a box gives.
//
// It is a module of its own, so that the validator does not enter the module graph of the SDK's importers.
package contract

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/clinicaldoc/clinicaldoc-go/docs"
)

// Document parses openapi.json and checks that it is a valid OpenAPI document, its examples included.
func Document() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(docs.OpenAPI())
	if err != nil {
		return nil, fmt.Errorf("openapi.json cannot be read: %w", err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		return nil, fmt.Errorf("openapi.json is not valid: %w", err)
	}
	return doc, nil
}

// Contract is the document, ready to check messages. It is safe for concurrent use.
type Contract struct {
	router     routers.Router
	operations map[string]*routers.Route // by operationId
}

// Load returns the contract of openapi.json.
//
// The document lets the service add members to its objects; the contract does not, so that a misspelt member is found
// even where the right one is optional.
func Load() (*Contract, error) {
	doc, err := Document()
	if err != nil {
		return nil, err
	}
	doc.Servers = nil // the base path is taken off before a request is looked up
	if err := doc.WalkSchemas(closeObject); err != nil {
		return nil, err
	}
	router, err := legacy.NewRouter(doc)
	if err != nil {
		return nil, err
	}
	c := &Contract{router: router, operations: map[string]*routers.Route{}}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			c.operations[operation.OperationID] = &routers.Route{
				Spec: doc, Path: path, PathItem: item, Method: method, Operation: operation,
			}
		}
	}
	return c, nil
}

// closeObject forbids members that an object does not name, unless it says itself what else it may have.
func closeObject(_ string, ref *openapi3.SchemaRef) error {
	schema := ref.Value
	if schema.Type.Is("object") && schema.AdditionalProperties.Has == nil && schema.AdditionalProperties.Schema == nil {
		schema.AdditionalProperties.Has = new(false)
	}
	return nil
}

// Operations returns the ids of the document's operations, sorted.
func (c *Contract) Operations() []string { return slices.Sorted(maps.Keys(c.operations)) }

// Operation returns an operation by its id, nil when there is none.
func (c *Contract) Operation(id string) *openapi3.Operation {
	if route := c.operations[id]; route != nil {
		return route.Operation
	}
	return nil
}
