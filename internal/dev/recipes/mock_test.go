package recipes

import (
	"net/http"
	"testing"

	"github.com/jarcoal/httpmock"

	"github.com/clinicaldoc/clinicaldoc-go"
)

func TestWithoutAServer(t *testing.T) {
	t.Parallel()
	mock := httpmock.NewMockTransport() // of this test alone
	body := `{"id": 7, "name": "synthetic", "created_at": "2026-01-02T03:04:05Z"}`
	mock.RegisterResponder("GET", "https://service.example/v1/progress-notes/7",
		httpmock.NewStringResponder(200, body))
	client, err := clinicaldoc.NewClient("https://service.example", "synthetic",
		clinicaldoc.WithHTTPClient(&http.Client{Transport: mock}),
	)
	if err != nil {
		t.Fatal(err)
	}
	note, err := client.Notes.Get(t.Context(), 7)
	if err != nil || note.ID != 7 {
		t.Fatal(note, err)
	}
}
