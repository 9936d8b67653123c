package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// client does the work that is measured. Its results encode to JSON as the service's own documents.
type client interface {
	get(ctx context.Context, id int64) (any, error)
	page(ctx context.Context, page, size int) (any, error)
	update(ctx context.Context, id int64, edit noteUpdate) (any, error)
	sign(ctx context.Context, id int64) (any, error)
	remove(ctx context.Context, id int64) (any, error)
	uploader
}

type uploader interface {
	upload(ctx context.Context, name string, audio recording) (any, error)
}

// newClients makes the clients that are compared, by name.
var newClients = map[string]func(baseURL, token string) (client, error){
	"floor": newFloor,
	"sdk":   newSDK,
}

const (
	collection = "/v1/progress-notes"
	fileName   = "synthetic.wav"
)

// floor is what a careful engineer writes by hand: net/http, responses read into a reused buffer, json.Unmarshal, and
// a form whose envelope is computed beforehand. It has no retries and no typed errors.
type floor struct {
	client        *http.Client
	base          string
	authorization string
	buffer        bytes.Buffer
}

func newFloor(baseURL, token string) (client, error) {
	transport, _ := http.DefaultTransport.(*http.Transport)
	pool := &http.Client{Transport: transport.Clone()} // connections of its own
	return &floor{client: pool, base: baseURL, authorization: "Bearer " + token}, nil
}

// call sends a request and decodes the response into out.
func (f *floor) call(req *http.Request, out any) error {
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

// send is call without a body.
func (f *floor) send(ctx context.Context, method, path string, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, f.base+collection+path, http.NoBody)
	if err != nil {
		return err
	}
	return f.call(req, out)
}

func notePath(id int64) string { return "/" + strconv.FormatInt(id, 10) }

func (f *floor) get(ctx context.Context, id int64) (any, error) {
	got := new(note)
	return got, f.send(ctx, http.MethodGet, notePath(id), got)
}

func (f *floor) page(ctx context.Context, number, size int) (any, error) {
	got := new(notePage)
	query := "?page=" + strconv.Itoa(number) + "&per_page=" + strconv.Itoa(size)
	return got, f.send(ctx, http.MethodGet, query, got)
}

func (f *floor) update(ctx context.Context, id int64, edit noteUpdate) (any, error) {
	body, err := json.Marshal(edit)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, f.base+collection+notePath(id), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	got := new(note)
	return got, f.call(req, got)
}

func (f *floor) sign(ctx context.Context, id int64) (any, error) {
	got := new(note)
	return got, f.send(ctx, http.MethodPut, notePath(id)+"/sign", got)
}

func (f *floor) remove(ctx context.Context, id int64) (any, error) {
	var got struct {
		Message string `json:"message"`
	}
	err := f.send(ctx, http.MethodDelete, notePath(id), &got)
	return got.Message, err
}

func (f *floor) upload(ctx context.Context, name string, audio recording) (any, error) {
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
	before := bytes.NewReader(envelope.Bytes()[:split])
	after := bytes.NewReader(envelope.Bytes()[split:])
	body := io.MultiReader(before, audio.reader(), after)
	return f.post(ctx, form.FormDataContentType(), body, int64(envelope.Len())+audio.size)
}

func (f *floor) post(ctx context.Context, contentType string, body io.Reader, size int64) (any, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.base+collection, body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = size
	req.Header.Set("Content-Type", contentType)
	got := new(note)
	return got, f.call(req, got)
}

// raw is a POST of the recording alone, the least that an upload can cost. Only a service that drains uploads takes it.
type raw struct{ *floor }

func (r raw) upload(ctx context.Context, _ string, audio recording) (any, error) {
	return r.post(ctx, "application/octet-stream", audio.reader(), audio.size)
}

// sdk is this repository's library, unconfigured.
type sdk struct{ client *clinicaldoc.Client }

func newSDK(baseURL, token string) (client, error) {
	client, err := clinicaldoc.NewClient(baseURL, token)
	return sdk{client}, err
}

func (s sdk) get(ctx context.Context, id int64) (any, error) { return s.client.Notes.Get(ctx, id) }

func (s sdk) page(ctx context.Context, page, size int) (any, error) {
	got, err := s.client.Notes.List(ctx, clinicaldoc.ListNotesParams{Page: page, PerPage: size})
	return (*sdkPage)(got), err
}

func (s sdk) update(ctx context.Context, id int64, edit noteUpdate) (any, error) {
	return s.client.Notes.Update(ctx, id, clinicaldoc.UpdateNoteParams{Name: &edit.Name, Analysis: &edit.Analysis})
}

func (s sdk) sign(ctx context.Context, id int64) (any, error) { return s.client.Notes.Sign(ctx, id) }

func (s sdk) remove(ctx context.Context, id int64) (any, error) {
	done, err := s.client.Notes.Delete(ctx, id)
	if err != nil {
		return nil, err
	}
	return done.Message, nil
}

func (s sdk) upload(ctx context.Context, name string, audio recording) (any, error) {
	source := clinicaldoc.AudioReaderAt(fileName, audio, audio.size)
	return s.client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{Name: name, Audio: source})
}

// sdkPage encodes to JSON like the service's own page, which a Page does not claim to.
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
