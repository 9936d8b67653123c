package creates_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
)

func TestHowMuchASearchReads(t *testing.T) {
	t.Parallel()
	var r creates.Reading
	r.Begin(noon)
	assert.True(t, r.May(noon.Add(5*time.Minute-1)))
	assert.False(t, r.May(noon.Add(5*time.Minute)), "a look has its time")
	for range 3 {
		assert.True(t, r.May(noon))
		r.Failed(true)
	}
	assert.False(t, r.May(noon), "and its failures")
	later := noon.Add(time.Hour)
	r.Begin(later)
	assert.True(t, r.May(later), "the next one has its own")
	for range 9 {
		assert.True(t, r.Left())
		r.Failed(false)
	}
	assert.False(t, r.Left(), "a search has so many")
	whole := creates.Reading{Read: 29}
	assert.True(t, whole.Left())
	whole.Read++
	assert.False(t, whole.Left())
}

// What one note shows of a media type is enough, and stays; one that has not shown it makes room.
func TestANoteShowsWhatBecomesOfAMediaType(t *testing.T) {
	t.Parallel()
	m := creates.NewRegistry()
	shown := func(mediaType string, c creates.Control) int64 {
		m.SetControl(mediaType, c)
		return m.Controls.Get(mediaType).Note.ID
	}
	of := func(id int64) creates.Control {
		return creates.Control{Note: creates.NewRef(id, noon, ""), SHA256: "synthetic"}
	}
	assert.Zero(t, shown("", of(1)), "a recording of no type shows nothing of others")
	assert.Zero(t, shown("audio/wav", creates.Control{Note: creates.NewRef(1, noon, "")}), "nobody knows what was sent")
	assert.EqualValues(t, 1, shown("audio/wav", of(1)))
	assert.EqualValues(t, 2, shown("audio/ogg", of(2)))
	assert.EqualValues(t, 3, shown("audio/wav", of(3)), "the first may be deleted by now")
	equal := of(3)
	equal.Shows = creates.Equal
	assert.EqualValues(t, 3, shown("audio/wav", equal))
	assert.EqualValues(t, 3, shown("audio/wav", of(1)), "it has been seen")
	assert.Equal(t, creates.Equal, m.Controls.Get("audio/wav").Shows)
}

// The sum is computed when it matters, if that can be done still.
func TestTheSumOfANoteThatShowsIsComputedLate(t *testing.T) {
	t.Parallel()
	lazy := creates.Control{Note: creates.NewRef(1, noon, ""), Compute: func() (string, error) { return "synthetic", nil }}
	m := creates.NewRegistry()
	m.SetControl("audio/wav", lazy)
	assert.Equal(t, "synthetic", m.Controls.Get("audio/wav").Computed().SHA256)
	lazy.Compute = func() (string, error) { return "", errors.New("synthetic") }
	assert.Zero(t, lazy.Computed())
}

// Journals keep it.
func TestWhatIsKeptOfANoteThatShows(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(creates.Control{Note: creates.NewRef(7, noon, ""), Size: 5, SHA256: "synthetic", Shows: creates.Equal})
	require.NoError(t, err)
	assert.JSONEq(t, `{"note":{"id":7,"made":1767355200},"size":5,"sha256":"synthetic"}`, string(text))
}
