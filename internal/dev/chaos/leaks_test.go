package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLeaksAreSeen leaves a file and a goroutine behind: both must be found.
func TestLeaksAreSeen(t *testing.T) { //nolint:paralleltest // counts what the process has open
	before := takeSnapshot()
	if before.files < 0 {
		t.Skip("this system does not tell what a process has open")
	}
	file, err := os.Open(os.DevNull)
	require.NoError(t, err)
	end := make(chan struct{})
	go func() { <-end }()
	files, goroutines := leaks(before)
	require.Error(t, goroutines)
	assert.Equal(t, 1, files)
	require.NoError(t, file.Close())
	close(end)
	files, goroutines = leaks(before)
	require.NoError(t, goroutines)
	assert.Zero(t, files)
}
