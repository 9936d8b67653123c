// Package description holds what the service describes of itself, as an OpenAPI document.
package description

import _ "embed"

// OpenAPI is the document.
//
//go:embed openapi.yaml
var OpenAPI []byte
