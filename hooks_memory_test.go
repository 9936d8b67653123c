//nolint:paralleltest // AllocsPerRun counts the allocations of all goroutines.
package clinicaldoc

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

// Who uses no hooks does not pay for them.
func TestAllocationsWithoutHooks(t *testing.T) {
	client, ctx, failure := &Client{}, t.Context(), errors.New("synthetic")
	call := &exchange.Call{}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		err := failure
		ctx, hooked := client.startCall(ctx, "Notes.Get")
		defer hooked.end(ctx, hooked.pending(&err))
		hooked.attach(call, getNote, nil)
		_ = hooked.noted(err)
		if hooked.walked(ctx) != nil || call.Hook != nil {
			panic("something is told")
		}
	}))
}
