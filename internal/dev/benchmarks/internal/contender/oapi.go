package contender

import (
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/oapi"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/synthetic"
)

// generated is the client that oapi-codegen makes of the OpenAPI document, with the types it makes.
type generated struct{ client *oapi.ClientWithResponses }

func newOAPI(baseURL, token string) (Client, error) {
	authorize := func(_ context.Context, req *http.Request) error {
		req.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
	client, err := oapi.NewClientWithResponses(baseURL,
		oapi.WithHTTPClient(&http.Client{Transport: NewTransport()}), oapi.WithRequestEditorFn(authorize))
	return generated{client}, err
}

var errStatus = errors.New("the answer is no success")

// success tells apart what the generated code does not: an answer of another status leaves the value nil.
func success[T any](value *T) (any, error) {
	if value == nil {
		return nil, errStatus
	}
	return value, nil
}

func (g generated) Get(ctx context.Context, id int64) (any, error) {
	resp, err := g.client.GetNoteWithResponse(ctx, id)
	if err != nil {
		return nil, err
	}
	return success(resp.JSON2XX)
}

func (g generated) Page(ctx context.Context, page, size int) (any, error) {
	resp, err := g.client.ListNotesWithResponse(ctx, &oapi.ListNotesParams{Page: &page, PerPage: &size})
	if err != nil {
		return nil, err
	}
	return success(resp.JSON2XX)
}

func (g generated) Update(ctx context.Context, id int64, edit synthetic.Update) (any, error) {
	resp, err := g.client.UpdateNoteWithResponse(ctx, id, oapi.UpdateNoteRequest{Name: &edit.Name, Analysis: &edit.Analysis})
	if err != nil {
		return nil, err
	}
	return success(resp.JSON200)
}

// Upload writes the form into a pipe: the generated code leaves a form's body to its caller.
func (g generated) Upload(ctx context.Context, name string, audio synthetic.Recording) (any, error) {
	body, pipe := io.Pipe()
	form := multipart.NewWriter(pipe)
	go func() { _ = pipe.CloseWithError(writeForm(form, name, audio)) }()
	resp, err := g.client.CreateNoteWithBodyWithResponse(ctx, form.FormDataContentType(), body)
	if err != nil {
		return nil, err
	}
	return success(resp.JSON2XX)
}

func writeForm(form *multipart.Writer, name string, audio synthetic.Recording) error {
	if err := form.WriteField("name", name); err != nil {
		return err
	}
	part, err := form.CreateFormFile("file", fileName)
	if err != nil {
		return err
	}
	if _, err := io.Copy(part, audio.Reader()); err != nil {
		return err
	}
	return form.Close()
}
