package contender

import (
	"bytes"
	"context"
	"mime/multipart"
	"net/url"
	"strconv"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/synthetic"
)

// openAI is openai-go's client with the methods it has for endpoints it does not know.
type openAI struct{ client openai.Client }

func newOpenAI(baseURL, token string) (Client, error) {
	return openAI{openai.NewClient(option.WithBaseURL(baseURL), option.WithAPIKey(token))}, nil
}

func (o openAI) Get(ctx context.Context, id int64) (any, error) {
	note := new(synthetic.Note)
	return note, o.client.Get(ctx, notePath(id)[1:], nil, note)
}

// listQuery is sent as the query, as the library's own params are.
type listQuery struct{ page, size int }

func (q listQuery) URLQuery() (url.Values, error) {
	return url.Values{"page": {strconv.Itoa(q.page)}, "per_page": {strconv.Itoa(q.size)}}, nil
}

func (o openAI) Page(ctx context.Context, number, size int) (any, error) {
	page := new(synthetic.Page)
	return page, o.client.Get(ctx, collection[1:], listQuery{number, size}, page)
}

func (o openAI) Update(ctx context.Context, id int64, edit synthetic.Update) (any, error) {
	note := new(synthetic.Note)
	return note, o.client.Put(ctx, notePath(id)[1:], edit, note)
}

// uploadForm writes itself into memory, as the library's own params with files do.
type uploadForm struct {
	name  string
	audio synthetic.Recording
}

func (f uploadForm) MarshalMultipart() (data []byte, contentType string, err error) {
	var buffer bytes.Buffer
	form := multipart.NewWriter(&buffer)
	err = writeForm(form, f.name, f.audio)
	return buffer.Bytes(), form.FormDataContentType(), err
}

func (o openAI) Upload(ctx context.Context, name string, audio synthetic.Recording) (any, error) {
	note := new(synthetic.Note)
	return note, o.client.Post(ctx, collection[1:], uploadForm{name, audio}, note)
}
