package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// The path of a base URL has its own case, unlike the host.
func TestLogin_PathInCapitals_IsKept(t *testing.T) {
	t.Parallel()
	srv := newServer(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{BasePath: "/API"}))
	run := newCLI(t, srv, "CLINICALDOC_BASE_URL=", "CLINICALDOC_TOKEN=")
	run.login(srv, "ward")
	assert.Equal(t, srv.URL+"\n", run.exits(0, "context", "list", "--jq", ".[0].base_url"))
	run.exits(0, "whoami")
}
