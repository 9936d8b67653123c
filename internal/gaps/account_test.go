package gaps

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// allowing is a service that answers OPTIONS: its paths, and the methods that each allows.
type allowing map[string]string

func (a allowing) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := &http.Response{
		StatusCode: http.StatusNotFound, ProtoMajor: 1, Header: http.Header{}, Body: http.NoBody, Request: req,
	}
	if methods, exists := a[req.URL.Path]; exists {
		resp.StatusCode = http.StatusNoContent
		resp.Header.Set("Allow", methods)
	}
	return resp, nil
}

func TestAskEndpoints_PathOrMethodNotDescribed_IsReported(t *testing.T) {
	t.Parallel()
	for want, service := range map[string]allowing{
		"none":                  {},
		"/v1/roles":             {"/v1/roles": ""},
		"GET POST /v1/patients": {"/v1/patients": "GET, POST, HEAD, OPTIONS"},
		"DELETE /user":          {"/user": "GET, DELETE", "/v1/progress-notes": "GET, HEAD, POST"},
	} {
		client, err := clinicaldoc.NewClient("https://api.clinic.test", "synthetic", clinicaldoc.WithHTTPClient(&http.Client{
			Transport: service,
		}))
		require.NoError(t, err)
		p := blank(Options{Client: client})
		p.askEndpoints(t.Context())
		assert.Equal(t, want, p.report.Item("endpoints").Seen)
	}
}

// The user and the tokens are compared with their description.
func TestAskAccount_UndescribedFields_AreReported(t *testing.T) {
	t.Parallel()
	_, options := startBox(t, clinicaldoctest.Variant{ExtraFields: true})
	p := blank(options)
	p.askAccount(t.Context())
	p.reportObservations()
	assert.Contains(t, p.report.Item("unknown_fields").Seen, "token.undescribed_text, user.undescribed_")
	assert.Equal(t, "200", p.report.Item("code.me").Seen)
}
