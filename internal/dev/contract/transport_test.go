package contract_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// endless is an endless recording.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestUploadsPassUnchangedAndAreNotHeld(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	b := newBench(t, defaultVariant(t))
	for _, audio := range []*clinicaldoc.AudioSource{
		clinicaldoc.AudioReader("visit.wav", io.LimitReader(endless{}, size)),
		clinicaldoc.AudioReaderAt("visit.wav", bytes.NewReader(make([]byte, size)), size),
	} {
		note, err := b.client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: "Visit", PatientID: patientID, PromptID: promptID, Audio: audio})
		require.NoError(t, err)
		require.EqualValues(t, size, note.Audio.Size)
	}
	seen := b.exchanges()
	require.Len(t, seen, 2)
	for _, e := range seen {
		require.NoError(t, e.RequestErr)
		assert.NotEmpty(t, e.Body)
		assert.Less(t, len(e.Body), 256<<10, "of an upload only a little is kept")
	}
	requests := b.Requests()
	require.Len(t, requests, 2)
	assert.EqualValues(t, -1, requests[0].ContentLength, "a stream stays chunked")
	assert.Greater(t, requests[1].ContentLength, int64(size), "a known size stays announced")
}

func TestUploadRefusedByItsHeader(t *testing.T) {
	t.Parallel()
	b := newBench(t, defaultVariant(t))
	stranger := b.clientWith(t, "unknown-token")
	_, err := stranger.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Audio: clinicaldoc.AudioReader("visit.wav", io.LimitReader(endless{}, 4<<20))})
	require.ErrorIs(t, err, clinicaldoc.ErrUnauthorized)
	seen := b.exchanges()
	require.Len(t, seen, 1)
	require.NoError(t, seen[0].RequestErr, "what was not sent breaks nothing")
	require.NoError(t, seen[0].AnswerErr)
	assert.Nil(t, seen[0].Body)
}

// What the SDK sends wrongly, were it made to, and what a service answers wrongly comes to light on the way.
func TestBreachesOnTheWireAreFound(t *testing.T) {
	t.Parallel()
	const id = 1
	get := func(ctx context.Context, c *clinicaldoc.Client) { _, _ = c.Notes.Get(ctx, id) }
	send := func(method, path string, body any) func(context.Context, *clinicaldoc.Client) {
		return func(ctx context.Context, c *clinicaldoc.Client) { _ = c.Do(ctx, method, path, body, nil) }
	}
	for _, row := range []struct {
		what            string
		call            func(context.Context, *clinicaldoc.Client)
		fault           *clinicaldoctest.Fault // in reading the note
		request, answer string                 // the complaints
	}{
		{what: "nothing", call: get},
		{what: "unknown path", call: send(http.MethodGet, "/v1/notes", nil), request: "no matching operation"},
		{what: "unknown member", call: send(http.MethodPut, "/v1/progress-notes/1", object{"title": "Visit"}), request: "title"},
		{what: "wrong content type", call: send(http.MethodPost, "/v1/progress-notes", object{"name": "Visit"}), request: "Content-Type"},
		{what: "unknown query parameter", request: "perPage", call: func(ctx context.Context, c *clinicaldoc.Client) {
			_, _ = c.Notes.List(ctx, clinicaldoc.ListNotesParams{}, clinicaldoc.WithQuery("perPage", "5"))
		}},
		{what: "missing member", call: get, fault: new(clinicaldoctest.Answer(http.StatusOK, `{"id":1,"name":"Visit"}`)), answer: `"team_id" is missing`},
		{what: "no message", call: get, fault: new(clinicaldoctest.Answer(http.StatusNotFound, `{"error":"none"}`)), answer: `"message" is missing`},
		{what: "page of a proxy", call: get, fault: new(clinicaldoctest.Answer(http.StatusForbidden, `<html></html>`)), answer: "Content-Type"},
	} {
		t.Run(row.what, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, defaultVariant(t))
			b.AddNote(clinicaldoctest.Note{ID: id})
			if row.fault != nil {
				b.Inject(clinicaldoctest.RouteGetNote, *row.fault)
			}
			row.call(t.Context(), b.client)
			seen := b.exchanges()
			require.Len(t, seen, 1)
			assertComplaint(t, seen[0].RequestErr, row.request)
			assertComplaint(t, seen[0].AnswerErr, row.answer)
		})
	}
}

func TestTokenInOtherPlacesIsFound(t *testing.T) {
	t.Parallel()
	b, other := newBench(t, defaultVariant(t)), newBench(t, defaultVariant(t))
	transport := b.transport(t)
	for _, address := range []string{other.URL + "/user", b.StorageURL + "/audio/none"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer synthetic")
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	require.Len(t, b.exchanges(), 2)
	assertComplaint(t, b.exchanges()[0].RequestErr, "elsewhere")
	assertComplaint(t, b.exchanges()[1].RequestErr, "to the storage")
}
