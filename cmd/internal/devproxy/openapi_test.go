package devproxy

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOpenAPI_AnyMode_IsServed(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../../docs/openapi.json")
	require.NoError(t, err)
	var forwarded atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { forwarded.Add(1) }))
	t.Cleanup(service.Close)
	for name, args := range map[string][]string{
		"local server":                   {},
		"local server with a path":       {"-variant", "flat"},
		"local server without inspector": {"-control=false"},
		"real service":                   {"-upstream", service.URL},
		"real service without inspector": {"-upstream", service.URL, "-control=false"},
	} {
		c := launch(t, args...)
		c.url = strings.TrimSuffix(c.url, "/api")
		got := c.get("/_/openapi.json")
		assert.Equal(t, http.StatusOK, got.status, name)
		assert.Equal(t, "application/json", got.header.Get("Content-Type"), name)
		assert.Equal(t, string(document), got.text, name)
		head := c.send(http.MethodHead, "/_/openapi.json", "", nil)
		assert.Equal(t, http.StatusOK, head.status, name)
		post := c.send(http.MethodPost, "/_/openapi.json", "application/json", strings.NewReader("{}"))
		assert.GreaterOrEqual(t, post.status, http.StatusBadRequest, name)
	}
	assert.Zero(t, forwarded.Load(), "the document is not the service's")
}

// Programs in other containers reach the proxy under another name than this machine's. The document is no secret.
func TestOpenAPI_OtherHostName_IsServed(t *testing.T) {
	t.Parallel()
	c := launch(t)
	req := c.request(http.MethodGet, "/_/openapi.json", nil)
	req.Host = "box:8790"
	got, err := c.do(req)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, got.status)
}

func TestOpenAPI_HelpAndPages_NameIt(t *testing.T) {
	t.Parallel()
	for file, words := range map[string]string{
		"../../../docs/devproxy.md": "`GET /_/openapi.json`",
		"../../../README.md":        "](docs/openapi.json)",
	} {
		page, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Contains(t, string(page), words, file)
	}
	assert.Contains(t, help, "/_/openapi.json")
}
