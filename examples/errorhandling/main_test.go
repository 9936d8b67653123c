package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

func TestRunExplainsEachError(t *testing.T) {
	t.Setenv(clinicaldoc.EnvBaseURL, "") // the box, whatever the shell has
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), false, &out))
	for _, advice := range []string{"fix the program", "drop the id", "field(s) to whoever", "try again later"} {
		assert.Contains(t, out.String(), advice)
	}
	assert.NotContains(t, out.String(), "give up")
}
