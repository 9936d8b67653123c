package contender

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/synthetic"
)

// sdk is the library that this repository is about, unconfigured.
type sdk struct{ client *clinicaldoc.Client }

func newSDK(baseURL, token string) (Client, error) {
	client, err := clinicaldoc.NewClient(baseURL, token)
	return sdk{client}, err
}

// SDKOver is the SDK with a transport; nil: its own. Any number of goroutines may use it.
func SDKOver(transport http.RoundTripper, baseURL, token string) (FullClient, error) {
	if transport == nil {
		client, err := clinicaldoc.NewClient(baseURL, token)
		return sdk{client}, err
	}
	client, err := clinicaldoc.NewClient(baseURL, token, clinicaldoc.WithHTTPClient(&http.Client{Transport: transport}))
	return sdk{client}, err
}

func (s sdk) Get(ctx context.Context, id int64) (any, error) { return s.client.Notes.Get(ctx, id) }

func (s sdk) Page(ctx context.Context, page, size int) (any, error) {
	got, err := s.client.Notes.List(ctx, clinicaldoc.ListNotesParams{Page: page, PerPage: size})
	return (*sdkPage)(got), err
}

func (s sdk) Update(ctx context.Context, id int64, edit synthetic.Update) (any, error) {
	return s.client.Notes.Update(ctx, id, clinicaldoc.UpdateNoteParams{Name: &edit.Name, Analysis: &edit.Analysis})
}

func (s sdk) Upload(ctx context.Context, name string, audio synthetic.Recording) (any, error) {
	source := clinicaldoc.AudioReaderAt(fileName, audio, audio.Size)
	return s.client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{Name: name, Audio: source})
}

func (s sdk) Sign(ctx context.Context, id int64) (any, error) { return s.client.Notes.Sign(ctx, id) }

func (s sdk) Delete(ctx context.Context, id int64) (any, error) {
	done, err := s.client.Notes.Delete(ctx, id)
	if err != nil {
		return nil, err
	}
	return done.Message, nil
}

// sdkPage encodes to JSON like the service's own, which a Page does not claim to.
type sdkPage clinicaldoc.Page[clinicaldoc.ProgressNote]

// MarshalJSON is for the conformance test.
func (p *sdkPage) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		"data": p.Items,
		"meta": map[string]int{
			"current_page": p.Meta.CurrentPage, "last_page": p.Meta.LastPage, "per_page": p.Meta.PerPage, "total": p.Meta.Total,
		},
	})
}
