package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheDownloadSurvivesTheCuts(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	assert.Contains(t, out.String(), "320000 bytes, equal to the recording, in spite of ")
	assert.NotContains(t, out.String(), "in spite of 0 cuts")
	assert.Contains(t, out.String(), "downloaded 100 %\n")
	assert.NotContains(t, out.String(), "\r", "it may go into a file")
}
