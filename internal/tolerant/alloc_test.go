//nolint:paralleltest // AllocsPerRun counts the allocations of all goroutines.
package tolerant_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/tolerant"
)

func TestUnwrap_DoesNotAllocate(t *testing.T) {
	for _, document := range []string{`{"id":1,"data":{"id":2}}`, `{"message":"m","data":{"id":2}}`, `[1]`} {
		raw := []byte(document)
		assert.Zero(t, testing.AllocsPerRun(10, func() { tolerant.Unwrap(raw, "id") }), document)
	}
}
