package gaps

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// A note that is complete when it is created cannot show what signing an incomplete one does. So it is not
// signed.
func TestAskSignIncomplete_CompleteNote_IsNotSigned(t *testing.T) {
	t.Parallel()
	box, options := startBox(t, clinicaldoctest.Variant{})
	id := box.AddNote(clinicaldoctest.Note{PatientID: options.PatientID})
	p := blank(options)
	note, err := p.get(t.Context(), id)
	require.NoError(t, err)
	p.askSignIncomplete(t.Context(), note)
	assert.Equal(t, "not seen: the note was complete at once", p.report.Item("sign.incomplete").Seen)
	assert.Equal(t, clinicaldoctest.StageComplete, box.Notes()[0].Stage)
}

// A refusal that has another reason does not show how the service refuses an incomplete note.
func TestAskSignIncomplete_OtherRefusal_IsNoAnswer(t *testing.T) {
	t.Parallel()
	box, options := startBox(t, clinicaldoctest.Variant{})
	id := box.AddNote(clinicaldoctest.Note{
		PatientID: options.PatientID, Stage: clinicaldoctest.StageTranscribing, Stuck: true,
	})
	p := blank(options)
	note, err := p.get(t.Context(), id)
	require.NoError(t, err)
	box.Inject(clinicaldoctest.RouteSignNote, clinicaldoctest.Answer(http.StatusUnauthorized, ""))
	p.askSignIncomplete(t.Context(), note)
	const want = "not seen: refused with 401, perhaps for another reason"
	assert.Equal(t, want, p.report.Item("sign.incomplete").Seen)
}

// A note that is read shows how notes look. A refusal does not.
func TestGet_Refusal_IsNotANote(t *testing.T) {
	t.Parallel()
	box, options := startBox(t, clinicaldoctest.Variant{})
	p := blank(options)
	_, err := p.get(t.Context(), absentID)
	require.Error(t, err)
	assert.Empty(t, p.seen.patientNamed)
	assert.False(t, p.seen.bare || p.seen.wrapped)
	_, err = p.get(t.Context(), box.AddNote(clinicaldoctest.Note{PatientID: options.PatientID}))
	require.NoError(t, err)
	assert.Equal(t, []string{patientInObject}, p.seen.patientNamed.sorted())
	assert.True(t, p.seen.bare || p.seen.wrapped)
}
