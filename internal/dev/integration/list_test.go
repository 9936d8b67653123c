package integration

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// maxRows bounds how much of somebody else's list is read.
const maxRows = 2000

func testList(t *testing.T, tg *target) {
	t.Helper()
	const count = 5
	var created []int64
	for range count {
		created = append(created, tg.create(t).ID)
	}
	for _, sort := range []clinicaldoc.Sort{clinicaldoc.SortLatest, clinicaldoc.SortOldest} {
		for _, prefetch := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s, %d ahead", sort, prefetch), func(t *testing.T) {
				// Not in parallel: the notes live as long as the test around it.
				testAll(t, tg, created, clinicaldoc.ListNotesParams{Sort: sort, Prefetch: prefetch})
			})
		}
	}

	page, err := tg.client.Notes.List(t.Context(), clinicaldoc.ListNotesParams{
		PatientID: tg.patientID, PerPage: 2, Sort: clinicaldoc.SortLatest, TrustPatientFilter: tg.trustFilter,
	})
	require.NoError(t, err)
	if len(page.Items) > 2 {
		assert.True(t, page.Meta.PerPageIgnored, "another size than asked for is told")
	} else {
		assert.Len(t, page.Items, 2)
		assert.True(t, page.HasNext())
	}
	if page.Meta.Total > 0 {
		assert.GreaterOrEqual(t, page.Meta.Total, count)
	}
}

// testAll ranges over the patient's notes and finds each of the created ones once, in order. Rows of the same second
// may come in any order.
func testAll(t *testing.T, tg *target, created []int64, params clinicaldoc.ListNotesParams) {
	t.Helper()
	params.PatientID = tg.patientID
	params.PerPage = tg.pageSize
	params.TrustPatientFilter = tg.trustFilter
	var own []*clinicaldoc.ProgressNote
	rows := 0
	for note, err := range tg.client.Notes.All(t.Context(), params) {
		require.NoError(t, err)
		if slices.Contains(created, note.ID) {
			own = append(own, note)
		}
		if rows++; rows == maxRows {
			t.Skip("the patient has too many notes to read them all")
		}
	}
	require.Len(t, own, len(created))
	for i := 1; i < len(own); i++ {
		order := own[i-1].CreatedAt.Compare(own[i].CreatedAt)
		if params.Sort == clinicaldoc.SortLatest {
			order = -order
		}
		assert.LessOrEqual(t, order, 0, "the rows come in the order asked for")
	}
}
