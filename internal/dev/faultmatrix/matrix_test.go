package faultmatrix

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// partVariable, as in 3/10, lets every tenth cell run, and one of each fault that concerns fewer operations. If it is not
// set, every fourth cell runs, so that each fault and each operation is met. 0/1 lets each cell run except large uploads
// without an answer, which wait as long as their last bytes may take on a slow line, 15 seconds. "all" is for those too.
const partVariable = "CLINICALDOC_FAULTS_PART"

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
	part, of := 0, 4
	wanted := os.Getenv(partVariable)
	all := wanted == "all"
	if all {
		of = 1
	} else if wanted != "" {
		_, err := fmt.Sscanf(wanted, "%d/%d", &part, &of)
		require.NoError(t, err)
	}
	names := map[string]bool{}
	for row, f := range rows {
		require.False(t, names[f.name], "two faults are called %s", f.name)
		names[f.name] = true
		concerned := slices.DeleteFunc(operations(), func(op operation) bool { return f.promise(op).result == absent || f.paced && op.large && !all })
		for column, op := range concerned {
			if column%of != (row+part)%min(of, len(concerned)) {
				continue
			}
			t.Run(f.name+"/"+op.name, func(t *testing.T) {
				firstTries.Add(1)
				t.Parallel()
				runCell(t, f, op, f.promise(op))
			})
		}
	}
}
