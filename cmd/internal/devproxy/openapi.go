package devproxy

import (
	"bytes"
	"net/http"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/docs"
)

// openAPIPath is where the service's description is served. It stays the same, so that programs may rely on it.
const openAPIPath = pagePath + "openapi.json"

// asksForOpenAPI reports whether a request reads the service's description. Unlike the inspector, the description is
// served to every machine: it contains nothing that is not in the repository.
func asksForOpenAPI(r *http.Request) bool {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	return reads && r.URL.Path == openAPIPath
}

func serveOpenAPI(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(docs.OpenAPI()))
}
