package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLoad makes many calls with one client and no faults: no error, connections used again, memory flat.
func TestLoad(t *testing.T) { //nolint:paralleltest // measures the process's memory
	report, err := runLoad(t.Context(), loadFromFlags(t.TempDir()))
	require.NoError(t, err)
	t.Logf("%s", report)
	require.NoError(t, report.failure())
}
