package faultmatrix

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// allVariable, if it has a value, lets the matrix run the cells that a change leaves out: large uploads that are never answered
// wait for as long as their last bytes may take on a slow line, a quarter of a minute.
const allVariable = "CLINICALDOC_FAULTS_ALL"

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
	rows, all := table(), os.Getenv(allVariable) != ""
	r := newReport(rows)
	t.Cleanup(func() { t.Log("\n" + r.String()) })
	for _, f := range rows {
		for _, op := range operations() {
			p := f.promise(op)
			if p.result == absent || f.paced && op.large && !all {
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
