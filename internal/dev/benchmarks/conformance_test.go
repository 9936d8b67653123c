package benchmarks_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/contender"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/service"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/synthetic"
)

var baseURL string

func TestMain(m *testing.M) {
	service.RunIfChild()
	server, err := service.Start()
	if err != nil {
		panic(err)
	}
	baseURL = server.URL
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

// plain reads what a library decoded in the form of the service, whatever types the library has.
func plain[T any](t *testing.T, decoded any) T {
	t.Helper()
	encoded, err := json.Marshal(decoded)
	require.NoError(t, err)
	var value T
	require.NoError(t, json.Unmarshal(encoded, &value), string(encoded))
	return value
}

func assertNote(t *testing.T, want, got synthetic.Note) {
	t.Helper()
	assert.JSONEq(t, string(want.Patient), string(got.Patient))
	assert.JSONEq(t, string(want.User), string(got.User))
	got.Patient, got.User = want.Patient, want.User
	assert.Equal(t, want, got)
}

// TestConformance proves that every contender does the same work: what it sends arrives, and it gets the same values.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, c := range contender.All() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			client, err := c.New(baseURL, service.Token)
			require.NoError(t, err)
			require.NotEmpty(t, benchmarks.Version(c.Module))

			note, err := client.Get(t.Context(), 42)
			require.NoError(t, err)
			assertNote(t, synthetic.NewNote(42), plain[synthetic.Note](t, note))

			decoded, err := client.Page(t.Context(), 3, 100)
			require.NoError(t, err)
			page := plain[synthetic.Page](t, decoded)
			assert.Equal(t, 3, page.Meta.CurrentPage)
			assert.Equal(t, service.Pages, page.Meta.LastPage)
			assert.Equal(t, 100, page.Meta.PerPage)
			assert.Equal(t, 100*service.Pages, page.Meta.Total)
			require.Len(t, page.Data, 100)
			for i := range page.Data {
				assertNote(t, synthetic.NewNote(int64(201+i)), page.Data[i])
			}

			edited := synthetic.NewNote(7)
			edited.Name, edited.Analysis = synthetic.Edit().Name, new(synthetic.Edit().Analysis)
			note, err = client.Update(t.Context(), 7, synthetic.Edit())
			require.NoError(t, err)
			assertNote(t, edited, plain[synthetic.Note](t, note))

			if editor, ok := client.(contender.Editor); ok {
				signed := synthetic.NewNote(7)
				signed.Has.Signed = new(true)
				note, err = editor.Sign(t.Context(), 7)
				require.NoError(t, err)
				assertNote(t, signed, plain[synthetic.Note](t, note))
				message, err := editor.Delete(t.Context(), 7)
				require.NoError(t, err)
				assert.Equal(t, service.Deleted, message)
			}

			uploader, ok := client.(contender.Uploader)
			if !ok {
				return
			}
			created := synthetic.NewNote(1)
			created.Name, created.Audio.Size = "Uploaded synthetic note", new(int64(3_000_001))
			note, err = uploader.Upload(t.Context(), created.Name, synthetic.Recording{Size: *created.Audio.Size})
			require.NoError(t, err)
			assertNote(t, created, plain[synthetic.Note](t, note))
		})
	}
}

func TestRefusesOtherTokens(t *testing.T) {
	t.Parallel()
	for _, c := range contender.All() {
		client, err := c.New(baseURL, "another-token")
		require.NoError(t, err)
		_, err = client.Get(t.Context(), 42)
		require.Error(t, err, c.Name)
	}
}

// TestSizes holds the documents to the sizes that the README tells.
func TestSizes(t *testing.T) {
	t.Parallel()
	note := synthetic.NewNote(1)
	assert.InDelta(t, 3000, len(*note.Transcription), 10)
	assert.InDelta(t, 2000, len(*note.Analysis), 10)
	assert.InDelta(t, 6700, len(note.AppendJSON(nil)), 100)
}

func TestPrefetchChangesNothing(t *testing.T) {
	t.Parallel()
	client, err := clinicaldoc.NewClient(baseURL, service.Token)
	require.NoError(t, err)
	for prefetch := range 3 {
		next := int64(1)
		for note, err := range client.Notes.All(t.Context(), clinicaldoc.ListNotesParams{PerPage: 20, Prefetch: prefetch}) {
			require.NoError(t, err)
			require.Equal(t, next, note.ID)
			next++
		}
		assert.EqualValues(t, 20*service.Pages+1, next)
	}
}
