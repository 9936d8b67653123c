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
	assert.Contains(t, out.String(), `"Users.Me 503": 1`)
	assert.Contains(t, out.String(), `"Users.Me 200": 1`)
	assert.Contains(t, out.String(), `"Notes.List 200": 1`)
	assert.Contains(t, out.String(), `"operation":"Users.Me","method":"GET","route":"/user","attempt":2,"status":200`)
	assert.Contains(t, out.String(), `"note":{"id":1,"stage":"complete"`)
	assert.NotContains(t, out.String(), "ynthetic", "neither name nor text")
	assert.NotContains(t, out.String(), "Patient 1")
}
