package ingest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// identified is what tells of which recording a line of a log is.
type identified struct {
	JournalKey string `json:"journal_key"`
	Position   int    `json:"position"`
}

// logged is a value as a line of JSON.
func logged(t *testing.T, value any) []byte {
	t.Helper()
	var line bytes.Buffer
	slog.New(slog.NewJSONHandler(&line, nil)).Info("", "value", value)
	assert.NotContains(t, line.String(), "Encounter")
	return line.Bytes()
}

// Results, events and entries of the journal name a recording by the same key, and by its place in the run.
func TestRun_ResultsAndEvents_HaveTheSameKeyAndPosition(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(http.StatusUnprocessableEntity, "{}"))
	list := []ingest.Recording{recording(1), recording(2), recording(3), recording(2)}
	list[3].Params.Audio = clinicaldoc.AudioBytes("a.wav", sound(2)) // equal to the second
	wanted := map[identified]bool{}
	for i, r := range list {
		key := ingest.Binding{Origin: ingest.ServiceName(srv.URL)}.Key(r.Key)
		wanted[identified{key.String(), i + 1}] = true
	}
	told := map[identified]bool{}
	uploader := &ingest.Uploader{
		Client: srv.Client(quick()), Journal: openJournal(t, srv.URL, journalPath(t)), Workers: 2,
		OnEvent: func(e ingest.Event) {
			if e.Recording.Key == "" {
				return
			}
			identity := identified{e.JournalKey.String(), e.Position}
			assert.True(t, wanted[identity], "%v", identity)
			told[identity] = true
			var line struct{ Value identified }
			require.NoError(t, json.Unmarshal(logged(t, e), &line))
			assert.Equal(t, identity, line.Value)
		},
	}
	results := upload(t, uploader, ingest.Recordings(list...))
	require.Len(t, results, len(list))
	yielded := map[identified]bool{}
	for _, result := range results {
		identity := identified{result.JournalKey.String(), result.Position}
		yielded[identity] = true
		assert.Equal(t, list[result.Position-1].Key, result.Recording.Key)
		var line struct{ Value identified }
		require.NoError(t, json.Unmarshal(logged(t, result), &line))
		assert.Equal(t, identity, line.Value)
		assert.Contains(t, fmt.Sprint(result), result.JournalKey.String())
	}
	assert.Equal(t, wanted, yielded)
	assert.Equal(t, wanted, told)
}

// A recording that is tried once more, or was refused before it had a key, keeps its place.
func TestRun_SomeRefused_KeepTheirPositions(t *testing.T) {
	t.Parallel()
	_, uploader := newUploader(t)
	list := []ingest.Recording{recording(1), {File: "/nowhere/visit.wav"}, recording(3)}
	uploader.MaxPause = -1
	results := upload(t, uploader, ingest.Recordings(list...))
	require.Len(t, results, len(list))
	for _, result := range results {
		assert.Equal(t, list[result.Position-1].File, result.Recording.File)
		assert.Equal(t, result.Position == 2, result.Status == ingest.Refused)
	}
}

// The same key is the same recording, however its accents are encoded. Another key, or another service, is another.
func TestBinding_Key_DependsOnServiceAndText(t *testing.T) {
	t.Parallel()
	service := ingest.Binding{Origin: "https://api.clinic.test"}
	otherService := ingest.Binding{Origin: "https://other.test"}
	assert.Equal(t, service.Key("visit é"), service.Key("visit e\u0301"), "é as one character, and as two")
	assert.NotEqual(t, service.Key("17"), service.Key("18"), "another text")
	assert.NotEqual(t, service.Key("17"), otherService.Key("17"), "another service")
}
