package gaps

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestChanges_EarlierReport_ListsDifferences(t *testing.T) {
	t.Parallel()
	probe := func(variant clinicaldoctest.Variant) *Report {
		_, options := startBox(t, variant)
		report, err := Probe(t.Context(), options)
		require.NoError(t, err)
		return report
	}
	before := probe(clinicaldoctest.Variant{})
	path := filepath.Join(t.TempDir(), "gaps.json")
	file, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, before.WriteJSON(file))
	require.NoError(t, file.Close())
	stored, err := os.ReadFile(path)
	require.NoError(t, err)
	read, err := ReadJSON(bytes.NewReader(stored))
	require.NoError(t, err)
	assert.Equal(t, before.Items, read.Items)
	assert.Equal(t, before.QueryNames, read.QueryNames)

	read.item("processing.time").Seen = "7s"
	assert.Empty(t,
		probe(clinicaldoctest.Variant{}).Changes(read), "what is measured differs each time and is no change of manners",
	)
	changed := clinicaldoctest.Variant{
		IncompleteSignStatus: 409, Query: clinicaldoctest.QueryNames{PatientID: "patient"},
	}
	assert.Equal(t, []string{
		`list.patient: was "patient_id", is "patient"`,
		`sign.incomplete: was "422, message says so", is "409, message says so"`,
	}, probe(changed).Changes(read))

	read.Items = read.Items[1:]
	assert.Len(t, before.Changes(read), 1, "a question that was not asked then")
	_, err = ReadJSON(bytes.NewReader([]byte(`{"items":7}`)))
	require.Error(t, err)
}
