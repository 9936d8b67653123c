package faultmatrix

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// fewestCells guards the table against rows that vanish unnoticed.
const fewestCells = 3000

// table is every row of the matrix.
func table() []fault {
	return slices.Concat(
		connectionFaults(), uploadFaults(), lostAnswers(), stalls(), statuses(), answers(), limits(), redirects(), links(), http2Faults(),
		otherEdits(), vanishing(), callersTransports(), harmlessTransports(), sizes(),
	)
}

func TestFaultMatrix(t *testing.T) {
	t.Parallel()
	rows := table()
	r := newReport(rows)
	t.Cleanup(func() { t.Log("\n" + r.String()) })
	// Those that wait for time to pass go first, so that nothing waits for them at the end.
	waitFirst := slices.Clone(rows)
	slices.SortStableFunc(waitFirst, func(a, b fault) int { return cmp.Compare(b.stall, a.stall) })
	for _, f := range waitFirst {
		for _, op := range operations() {
			p := f.promise(op)
			if p.result == absent {
				continue
			}
			r.expect()
			t.Run(f.name+"/"+op.name, func(t *testing.T) {
				t.Parallel()
				runCell(t, f, op, p, r)
			})
		}
	}
	require.GreaterOrEqual(t, r.cells, fewestCells)
	require.Len(t, r.rows, len(rows), "two faults share a name")
}
