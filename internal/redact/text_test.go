package redact_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

func TestIsIdentifier(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"aZ09": true, "a-b": true, "a_b": false, "": false, "a b": false, "é": false, "a\n": false, strings.Repeat("x", 8): true, strings.Repeat("x", 9): false,
	} {
		assert.Equal(t, want, redact.IsIdentifier(s, 8, "-"), "%q", s)
	}
}

func TestIsHeaderValue(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{"": true, "a b\tc é": true, "a\nb": false, "a\rb": false, "a\x00b": false, "a\x7f": false} {
		assert.Equal(t, want, redact.IsHeaderValue(s), "%q", s)
	}
}
