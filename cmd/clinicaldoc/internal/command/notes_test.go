package command

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

func TestWholeNote_SignedURLs_AreLeftOut(t *testing.T) {
	t.Parallel()
	var note clinicaldoc.ProgressNote
	require.NoError(t, json.Unmarshal([]byte(`{"id":1,"name":"see https://a.example/?q=1","audio":{"size":5,"file_url":"https://s.example/x?X-Amz-Signature=abc"},
		"links":["https://s.example/y?sig=abc","https://plain.example/z"],"user":{"id":3,"avatar":"https://u:p@s.example/"},"home":"https://plain.example/"}`), &note))
	value, err := wholeNote(&note)
	require.NoError(t, err)
	text, err := json.Marshal(value)
	require.NoError(t, err)
	assert.NotContains(t, string(text), "abc")
	assert.NotContains(t, string(text), "u:p")
	assert.Contains(t, string(text), "see https://a.example/?q=1", "a text is the patient's, and stays")
	assert.Contains(t, string(text), "https://plain.example/z")
	assert.Contains(t, string(text), `"stage":"uploaded"`)
}

// Only URLs of other members are left out: a text may be nothing but one.
func TestWholeNote_TextThatIsAURL_IsKept(t *testing.T) {
	t.Parallel()
	const address = "https://clinic.example/?page=1"
	for _, text := range noteTexts {
		var note clinicaldoc.ProgressNote
		require.NoError(t, json.Unmarshal([]byte(`{"id":1,"name":"n","`+text.name+`":"`+address+`"}`), &note))
		value, err := wholeNote(&note)
		require.NoError(t, err)
		members, isObject := value.(map[string]any)
		require.True(t, isObject)
		assert.Equal(t, address, members[text.name], "the JSON of a note leaves out %s", text.name)
	}
}

func TestNoteText_EachTime_HasItsLine(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 3, 1, 9, 0, 0, 0, time.FixedZone("", 3600))
	text := noteText(&clinicaldoc.ProgressNote{ID: 1, CreatedAt: created, UpdatedAt: created.Add(time.Hour)})
	assert.Contains(t, text, "\ncreated   2026-03-01T08:00:00Z\nupdated   2026-03-01T09:00:00Z\n")
	assert.NotContains(t, noteText(&clinicaldoc.ProgressNote{ID: 1}), "created", "the service did not send it")
}

// A text that a note does not have has no heading. The name stands above the texts, and is not repeated.
func TestNoteText_EachText_HasAHeadingIfItIsThere(t *testing.T) {
	t.Parallel()
	text := noteText(&clinicaldoc.ProgressNote{ID: 1, Name: "Visit", Analysis: "found"})
	assert.Contains(t, text, "\nname      Visit\n")
	assert.Contains(t, text, "\n\nanalysis:\n  | found\n")
	assert.NotContains(t, text, "transcription:")
	assert.NotContains(t, text, "name:")
}
