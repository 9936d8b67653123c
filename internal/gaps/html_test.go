package gaps

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWriteHTML_EarlierReport_ShowsWhatHasChanged(t *testing.T) {
	t.Parallel()
	now, earlier := newReport(), newReport()
	now.set("list.patient", "patient")
	earlier.set("list.patient", "patient_id")
	now.set("processing.time", "7s") // measured
	earlier.set("processing.time", "8s")
	now.set("code.list", "200")
	earlier.set("code.list", "200")
	earlier.Items = append(earlier.Items, Item{Key: "no.longer.asked", Seen: "anything", Known: true})
	write := func(earlier *Report) string {
		var page bytes.Buffer
		require.NoError(t, now.WriteHTML(&page, "synthetic", earlier))
		return page.String()
	}
	answered := ": 3 of " + strconv.Itoa(len(now.Items)) + " questions are answered."
	alone := write(nil)
	assert.Contains(t, alone, answered)
	assert.NotContains(t, alone, "earlier report")
	assert.NotContains(t, alone, `class="changed"`)
	compared := write(earlier)
	assert.Contains(t, compared, answered+" 1 answers differ from the earlier report.")
	assert.Equal(t, 1, bytes.Count([]byte(compared), []byte(`class="changed"`)))
	assert.Contains(t, compared, "was patient_id")
}
