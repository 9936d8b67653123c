package jetstream_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest/jetstream"
)

// An empty URL, as of a variable that is not set, must not connect to a server that happens to run on this machine.
func TestConnect_EmptyURL_IsRejected(t *testing.T) {
	t.Parallel()
	_, err := jetstream.Connect("")
	require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
}

// The URL of a server may contain a password. Neither the error nor the errors that it wraps print it.
func TestConnect_InvalidURL_PrintsNoPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"nats://user:CANARY@127.0.0.1:x", "nats://user:CANARY@127.0.0.1:1", "nats://user:CANARY@ho st", "CANARY://\x7f"} {
		_, err := jetstream.Connect(url)
		require.Error(t, err)
		for wrapped := []error{err}; len(wrapped) > 0; wrapped = wrapped[1:] {
			assert.NotContains(t, fmt.Sprintf("%v %+v %#v", wrapped[0], wrapped[0], wrapped[0]), "CANARY")
			switch parent := wrapped[0].(type) { //nolint:errorlint // the tree is walked
			case interface{ Unwrap() error }:
				wrapped = append(wrapped, parent.Unwrap())
			case interface{ Unwrap() []error }:
				wrapped = append(wrapped, parent.Unwrap()...)
			}
		}
	}
}

// The error does not contain the path, because the name of a folder may be a patient's.
func TestEmbed_Error_ContainsNoPath(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "CANARY")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		_, err := jetstream.Embed(t.Context(), dir)
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "CANARY")
	}
}

// Messages in the queue contain the names of patients, so only this user may read the folder.
func TestEmbed_Directory_IsPrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "fleet")
	s, err := jetstream.Embed(t.Context(), dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	info, err := os.Stat(dir)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}
