package output_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

func TestReadAll_LongInput_IsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "input")
	for _, size := range []int{9, 10, 11} {
		text := bytes.Repeat([]byte("a"), size)
		require.NoError(t, os.WriteFile(path, text, 0o600))
		got, err := output.ReadAll(t.Context(), bytes.NewReader(text), 10)
		fromFile, fileErr := output.ReadFile(t.Context(), path, 10)
		assert.Equal(t, got, fromFile)
		for _, err := range []error{err, fileErr} {
			_, tooLong := errors.AsType[*output.TooLongError](err)
			assert.Equal(t, size > 10, tooLong, size)
		}
	}
}

func TestTooLongError_EachLimit_IsNamed(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int64]string{
		output.MaxToken: "it is longer than 64 KiB", 1<<20 - 1024: "it is longer than 1023 KiB",
		1 << 20: "it is longer than 1 MiB", output.MaxText: "it is longer than 64 MiB",
	} {
		assert.EqualError(t, &output.TooLongError{Limit: limit}, want)
	}
}

func TestReadSecret_SeveralLines_IsTheFirst(t *testing.T) {
	t.Parallel()
	read := func(text string) (string, error) {
		streams := &output.IO{In: bufio.NewReader(strings.NewReader(text)), Out: io.Discard, Err: io.Discard}
		return streams.ReadSecret(t.Context(), "Token: ")
	}
	secret, err := read("\ufeff one \r\ntwo\n")
	require.NoError(t, err)
	assert.Equal(t, "one", secret)
	longest := strings.Repeat("a", output.MaxToken)
	secret, err = read(longest)
	require.NoError(t, err)
	assert.Equal(t, longest, secret)
	_, err = read(longest + "a")
	_, tooLong := errors.AsType[*output.TooLongError](err)
	assert.True(t, tooLong)
}
