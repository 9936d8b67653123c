// Package description holds what the service's OpenAPI document describes of responses. The document is
// docs/openapi.json.
package description

import (
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/docs"
)

// Schema is what is described of a JSON value.
type Schema struct {
	Kind     Kind
	Nullable bool
	Fields   map[string]*Schema // of an object; nil: not described
	Required []string
	Elements *Schema // of an array, or of a map from any name
}

// Kind is the type of a JSON value.
type Kind string

// The kinds of values.
const (
	Integer  Kind = "integer"
	Number   Kind = "number"
	String   Kind = "string"
	DateTime Kind = "date-time"
	Boolean  Kind = "boolean"
	Object   Kind = "object"
	Map      Kind = "map"
	Array    Kind = "array"
	Null     Kind = "null"
)

// JSON returns what JSON calls values of the kind.
func (k Kind) JSON() string {
	switch k {
	case Integer:
		return string(Number)
	case DateTime:
		return string(String)
	case Map:
		return string(Object)
	default:
		return string(k)
	}
}

// Endpoint is what is described of an endpoint's responses.
type Endpoint struct {
	Success    *Schema
	Status     int   // of success; 0: not described
	Errors     []int // their statuses
	AnyRefusal bool  // a refusal may have any other status 4xx: it is described as "4XX"
}

var (
	// Endpoints are the service's, by method and path: "GET /user".
	Endpoints = map[string]Endpoint{}
	// Schemas are the document's, by name.
	Schemas = map[string]*Schema{}
	// Messages are the texts of errors that are described word for word, by status.
	Messages = map[int]string{}
)

func init() {
	var d document
	if err := json.Unmarshal(docs.OpenAPI(), &d); err != nil {
		panic("openapi.json: " + err.Error())
	}
	for name, s := range d.Components.Schemas {
		Schemas[name] = d.schema(s)
	}
	for route, item := range d.Paths {
		operations := map[string]*operation{"GET": item.Get, "PUT": item.Put, "POST": item.Post, "DELETE": item.Delete}
		for method, op := range operations {
			if op != nil {
				Endpoints[method+" "+route] = d.endpoint(*op)
			}
		}
	}
}

// document is what is needed of an OpenAPI document.
type document struct {
	Paths      map[string]struct{ Get, Put, Post, Delete *operation }
	Components struct {
		Responses map[string]response
		Schemas   map[string]schema
	}
}

type operation struct{ Responses map[string]response }

type response struct {
	Ref     string `json:"$ref"`
	Content map[string]struct {
		Schema  schema
		Example struct{ Message string }
	}
}

type schema struct {
	Ref                  string `json:"$ref"`
	Type                 any    // a name, or several
	Format               string
	Properties           map[string]schema
	Required             []string
	Items                *schema
	AdditionalProperties json.RawMessage // a schema, or whether there may be any
}

// endpoint returns what the document describes of an operation's responses. It adds to Messages.
func (d document) endpoint(op operation) Endpoint {
	var e Endpoint
	for code, r := range op.Responses {
		if r.Ref != "" {
			r = d.Components.Responses[path.Base(r.Ref)]
		}
		body := r.Content["application/json"]
		status, _ := strconv.Atoi(code)
		switch {
		case strings.HasPrefix(code, "2"):
			e.Success = d.schema(body.Schema)
			e.Status = status
		case code == "4XX":
			e.AnyRefusal = true
		case status != 0:
			e.Errors = append(e.Errors, status)
			if body.Example.Message != "" {
				Messages[status] = body.Example.Message
			}
		}
	}
	return e
}

// schema resolves references, and returns a schema in the form of this package.
func (d document) schema(s schema) *Schema {
	if s.Ref != "" {
		s = d.Components.Schemas[path.Base(s.Ref)]
	}
	out := &Schema{Kind: Kind(fmt.Sprint(s.Type)), Required: s.Required}
	if several, ok := s.Type.([]any); ok { // as ["string", "null"]
		out.Kind = Kind(fmt.Sprint(several[0]))
		out.Nullable = true
	}
	if s.Format == string(DateTime) {
		out.Kind = DateTime
	}
	if s.Items != nil {
		out.Elements = d.schema(*s.Items)
	}
	var elements schema
	if json.Unmarshal(s.AdditionalProperties, &elements) == nil {
		out.Kind = Map
		out.Elements = d.schema(elements)
	}
	for name, property := range s.Properties {
		if out.Fields == nil {
			out.Fields = map[string]*Schema{}
		}
		out.Fields[name] = d.schema(property)
	}
	return out
}
