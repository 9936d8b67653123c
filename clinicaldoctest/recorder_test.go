package clinicaldoctest

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRecorder_ManyRequests_KeepsTheLast(t *testing.T) {
	t.Parallel()
	var rec recorder
	for range maxRequests + 1 {
		rec.add(&Request{})
	}
	kept := rec.list()
	assert.LessOrEqual(t, len(kept), maxRequests)
	assert.Equal(t, "req-10001", kept[len(kept)-1].ID)
	assert.Equal(t, "req-1001", kept[0].ID)
}
