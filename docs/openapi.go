// Package docs provides the service's description as an OpenAPI document, and the pages of this folder.
package docs

import (
	"embed"
	"io/fs"
)

//go:embed openapi.json
var openAPI string

//go:embed *.md
var pages embed.FS

// OpenAPI returns the service's description as an OpenAPI 3.1 document in JSON. It returns a new slice on each call.
func OpenAPI() []byte { return []byte(openAPI) }

// Pages returns the pages of this folder by their names, such as "errors.md".
func Pages() fs.FS { return pages }
