package clinicaldoctest_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
)

func TestHandler_PassOn_GoesThroughFaults(t *testing.T) {
	t.Parallel()
	box := clinicaldoctest.NewServer(clinicaldoctest.InProcess())
	t.Cleanup(box.Close)
	kinds := make(chan string, 10)
	var served atomic.Int64
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served.Add(1)
		w.WriteHeader(http.StatusNoContent)
	})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		struck := &struckWriter{ResponseWriter: w}
		defer func() { kinds <- struck.fault }()
		box.Handler().ServeHTTP(struck, r.WithContext(boxlink.PassOn(r.Context(), next)))
	}))
	t.Cleanup(upstream.Close)
	get := func() int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, upstream.URL+"/user", nil)
		require.NoError(t, err)
		req.Close = true // net/http retries a GET on a connection that it has used before
		resp, err := upstream.Client().Do(req)
		if err != nil {
			return 0
		}
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	box.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(http.StatusBadGateway, ""))
	box.Inject("", clinicaldoctest.ResetAfterCommit().Times(2))
	box.Inject(clinicaldoctest.RouteGetNote, clinicaldoctest.Reset())
	assert.Equal(t, http.StatusBadGateway, get())
	assert.Zero(t, served.Load())
	assert.Zero(t, get())
	assert.Zero(t, get())
	assert.Equal(t, http.StatusNoContent, get())
	var struck []string
	for range 4 {
		struck = append(struck, <-kinds)
	}
	assert.ElementsMatch(t, []string{"status=502", "reset-after-commit", "reset-after-commit", ""}, struck)
	assert.EqualValues(t, 3, served.Load())
}

// struckWriter records which fault strikes.
type struckWriter struct {
	http.ResponseWriter
	fault string
}

func (w *struckWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *struckWriter) Struck(fault string) { w.fault = fault }
