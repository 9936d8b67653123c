// Package docs provides the service's description as an OpenAPI document.
package docs

import _ "embed"

//go:embed openapi.json
var openAPI string

// OpenAPI returns the service's description as an OpenAPI 3.1 document in JSON. It returns a new slice on each call.
func OpenAPI() []byte { return []byte(openAPI) }
