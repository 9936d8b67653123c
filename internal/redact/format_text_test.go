package redact_test

import (
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

func TestFail_PrintsOnlyItsText(t *testing.T) {
	t.Parallel()
	secret := &fs.PathError{Op: "open", Path: "/home/synthetic name", Err: fs.ErrNotExist}
	err := redact.Fail("the file cannot be opened", nil, secret)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorAs(t, err, new(*fs.PathError))
	for _, text := range []string{
		err.Error(), fmt.Sprintf("%v %+v %#v %q %d", err, err, err, err, err), redact.Opaque(err).Error(), redact.Cause(err),
		slog.AnyValue(err).Resolve().String(),
	} {
		assert.Contains(t, text, "the file cannot be opened")
		assert.NotContains(t, text, "synthetic name")
	}
	causes := err.(interface{ Unwrap() []error }).Unwrap()
	require.Len(t, causes, 1, "nil is no cause")
	assert.NotContains(t, fmt.Sprintf("%v %#v", causes[0], causes[0]), "synthetic name")
}

func TestIsIdentifier_ShortAndPlain_Only(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"aZ09": true, "a-b": true, "a_b": false, "": false, "a b": false, "é": false, "a\n": false,
		strings.Repeat("x", 8): true, strings.Repeat("x", 9): false,
	} {
		assert.Equal(t, want, redact.IsIdentifier(s, 8, "-"), "%q", s)
	}
}

func TestIsHeaderValue_NoControlCharacters(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"": true, "a b\tc é": true, "a\nb": false, "a\rb": false, "a\x00b": false, "a\x7f": false,
	} {
		assert.Equal(t, want, redact.IsHeaderValue(s), "%q", s)
	}
}
