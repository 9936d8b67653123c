package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

func TestRunCountsAndLogsEveryAttempt(t *testing.T) {
	t.Setenv(clinicaldoc.EnvBaseURL, "") // the box, whatever the shell has
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	assert.Contains(t, out.String(), `"Notes.Create 201": 1`)
	assert.Contains(t, out.String(), `"Notes.Delete 200": 1`)
	assert.Contains(t, out.String(), `"operation":"Notes.Create","method":"POST","route":"/v1/progress-notes","attempt":1,"status":201`)
	assert.NotContains(t, out.String(), "Patient 1")
}
