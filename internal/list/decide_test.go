package list_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/list"
)

// matches holds flags against a pattern of y and n, where a dot stands for either.
func matches(pattern string, flags ...bool) bool {
	for i, flag := range flags {
		if pattern[i] == 'y' && !flag || pattern[i] == 'n' && flag {
			return false
		}
	}
	return len(pattern) == len(flags)
}

// flagsOf are the bits of a number.
func flagsOf(bits, n int) []bool {
	flags := make([]bool, n)
	for i := range flags {
		flags[i] = bits>>i&1 == 1
	}
	return flags
}

func TestDecide_EachObservation_HasItsStep(t *testing.T) {
	t.Parallel()
	// gap, before, new, says, more, stuck, stale, page 1
	table := map[string]list.Step{
		"yy......": list.Back,
		"yn......": list.BeforeStart,
		"n...n...": list.Last,
		"n.nny..n": list.Check,
		"n.nnyy.y": list.NoProgress,
		"n.nnynyy": list.NoProgress,
		"n.nnynny": list.Next,
		"n.nyyy..": list.NoProgress,
		"n.nyyny.": list.NoProgress,
		"n.nyynn.": list.Next,
		"n.y.yy..": list.NoProgress,
		"n.y.yn..": list.Next,
	}
	for bits := range 1 << 8 {
		f := flagsOf(bits, 8)
		o := list.Observation{
			Page: list.Page{SaysIfMore: f[3], More: f[4], Stuck: f[5]}, MayMissRows: f[0], CanGoBack: f[1],
			HasNewRow: f[2], LastChance: f[6],
		}
		if f[7] {
			o.Number = 1
		}
		rows := 0
		for pattern, step := range table {
			if matches(pattern, f...) {
				rows++
				assert.Equal(t, step, list.Decide(o), "%+v", o)
			}
		}
		require.Equal(t, 1, rows, "one row of the table for %+v", o)
	}
}
