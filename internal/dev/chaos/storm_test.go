package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, proxyGoroutines...) }

// TestStorm is the whole: nothing twice, nothing lost, every outcome known in the end, nothing left open.
func TestStorm(t *testing.T) { //nolint:paralleltest // counts what the process has open
	s := stormFromFlags(t.TempDir())
	t.Logf("seed %d", s.seed)
	report, err := runStorm(t.Context(), s)
	require.NoError(t, err)
	t.Logf("%s", report)
	require.NoError(t, report.failure())
	if s.duration > 0 || s.ops < 1000 {
		return
	}
	assert.Equal(t, s.ops, sum(report.calls))
	assert.Len(t, report.toxics, len(toxicKinds), "every kind of fault strikes")
	assert.Positive(t, report.cut)
	assert.Positive(t, report.downloads())
	assert.Positive(t, report.outcomes()[found]+report.outcomes()[notCreated], "a storm in which every create is answered is none")
}
