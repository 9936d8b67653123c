package gaps

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
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

// failingWriter fails at a write.
type failingWriter struct{ before int }

var errWriter = errors.New("synthetic")

func (w *failingWriter) Write(text []byte) (int, error) {
	if w.before == 0 {
		return 0, errWriter
	}
	w.before--
	return len(text), nil
}

// A report that was not written completely is an error, wherever it ends.
func TestWriteText_WriterFails_IsAnError(t *testing.T) {
	t.Parallel()
	complete := &failingWriter{before: 1 << 20}
	require.NoError(t, newReport().WriteText(complete))
	writes := 1<<20 - complete.before
	require.Greater(t, writes, 2)
	for before := range writes {
		require.ErrorIs(t, newReport().WriteText(&failingWriter{before: before}), errWriter, before)
	}
}

// The text says what is left behind and what may be, and is silent if that is nothing.
func TestWriteText_NotesLeft_AreNamed(t *testing.T) {
	t.Parallel()
	write := func(r *Report) string {
		var text strings.Builder
		require.NoError(t, r.WriteText(&text))
		return text.String()
	}
	r := newReport()
	for _, absent := range []string{"Left behind", "unknown outcome", "TrustPatientFilter", "Later pages"} {
		assert.NotContains(t, write(r), absent)
	}
	r.LeftBehind = []int64{7, 8}
	r.Uncertain = 1
	text := write(r)
	assert.Contains(t, text, "the synthetic notes [7 8].\n")
	assert.Contains(t, text, "left a synthetic note behind: 1.\n")
}

// An answer is kept when a later request cannot answer the question.
func TestUnseen_AnsweredQuestion_KeepsItsAnswer(t *testing.T) {
	t.Parallel()
	r := newReport()
	r.unseen("list.shape", "no %s", "page")
	assert.Equal(t, "not seen: no page", r.Item("list.shape").Seen)
	r.set("list.shape", "%s", shapeBare)
	r.unseen("list.shape", "no page")
	assert.Equal(t, shapeBare, r.Item("list.shape").Seen)
	assert.True(t, r.Item("list.shape").Known)
	assert.Panics(t, func() { r.Item("list.shap") })
}
