package contender

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/synthetic"
)

// floor is what a careful engineer writes by hand: net/http, the answer read into a reused buffer, json.Unmarshal, and a
// form whose envelope is computed beforehand. It has no retries and no errors worth the name. Its types are parameters,
// because they decide what decoding allocates.
type floor[N note, P any] struct {
	client        *http.Client
	base          string
	authorization string
	buffer        bytes.Buffer
}

type note interface{ synthetic.Note | plainNote }

func newFloor[N note, P any](baseURL, token string) (Client, error) {
	return floorOver[N, P](NewTransport(), baseURL, token), nil
}

func floorOver[N note, P any](transport http.RoundTripper, baseURL, token string) *floor[N, P] {
	return &floor[N, P]{client: &http.Client{Transport: transport}, base: baseURL, authorization: "Bearer " + token}
}

func (f *floor[N, P]) do(req *http.Request, out any) error {
	req.Header.Set("Authorization", f.authorization)
	req.Header.Set("Accept", "application/json")
	resp, err := f.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	f.buffer.Reset()
	if _, err := f.buffer.ReadFrom(resp.Body); err != nil {
		return err
	}
	return json.Unmarshal(f.buffer.Bytes(), out)
}

func (f *floor[N, P]) Get(ctx context.Context, id int64) (any, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.base+notePath(id), http.NoBody)
	if err != nil {
		return nil, err
	}
	note := new(N)
	return note, f.do(req, note)
}

func (f *floor[N, P]) Page(ctx context.Context, number, size int) (any, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.base+pagePath(number, size), http.NoBody)
	if err != nil {
		return nil, err
	}
	page := new(P)
	return page, f.do(req, page)
}

func (f *floor[N, P]) Update(ctx context.Context, id int64, edit synthetic.Update) (any, error) {
	body, err := json.Marshal(edit)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, f.base+notePath(id), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	note := new(N)
	return note, f.do(req, note)
}

func (f *floor[N, P]) Upload(ctx context.Context, name string, audio synthetic.Recording) (any, error) {
	var envelope bytes.Buffer
	form := multipart.NewWriter(&envelope)
	if err := form.WriteField("name", name); err != nil {
		return nil, err
	}
	if _, err := form.CreateFormFile("file", fileName); err != nil {
		return nil, err
	}
	split := envelope.Len()
	if err := form.Close(); err != nil {
		return nil, err
	}
	before, after := envelope.Bytes()[:split], envelope.Bytes()[split:]
	body := io.MultiReader(bytes.NewReader(before), audio.Reader(), bytes.NewReader(after))
	return f.post(ctx, form.FormDataContentType(), body, int64(envelope.Len())+audio.Size)
}

func (f *floor[N, P]) post(ctx context.Context, contentType string, body io.Reader, size int64) (any, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.base+collection, body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = size
	req.Header.Set("Content-Type", contentType)
	note := new(N)
	return note, f.do(req, note)
}

// FloorOver is the floor with a transport that others may share: one goroutine has one floor.
func FloorOver(transport http.RoundTripper, baseURL, token string) FullClient {
	return floorOver[plainNote, plainPage](transport, baseURL, token)
}

// Sign has no body and gets the note back.
func (f *floor[N, P]) Sign(ctx context.Context, id int64) (any, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, f.base+notePath(id)+"/sign", http.NoBody)
	if err != nil {
		return nil, err
	}
	note := new(N)
	return note, f.do(req, note)
}

// Delete gets a message back.
func (f *floor[N, P]) Delete(ctx context.Context, id int64) (any, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, f.base+notePath(id), http.NoBody)
	if err != nil {
		return nil, err
	}
	var done struct {
		Message string `json:"message"`
	}
	err = f.do(req, &done)
	return done.Message, err
}

// Raw is a POST of the recording alone, the least that an upload can cost. Only a service that drains its uploads takes it.
func Raw(baseURL, token string) Uploader {
	return raw{floorOver[plainNote, plainPage](NewTransport(), baseURL, token)}
}

type raw struct{ floor *floor[plainNote, plainPage] }

func (r raw) Upload(ctx context.Context, _ string, audio synthetic.Recording) (any, error) {
	return r.floor.post(ctx, "application/octet-stream", audio.Reader(), audio.Size)
}
