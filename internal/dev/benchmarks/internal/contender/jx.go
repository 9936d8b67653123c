package contender

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-faster/jx"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/synthetic"
)

// jxClient sends and decodes as the code does that ogen generates: the whole answer read anew for each call, one closure
// per object, objects that are not described as maps of raw values.
type jxClient struct {
	client *http.Client
	base   string
	token  string
}

func newJX(baseURL, token string) (Client, error) {
	return jxClient{&http.Client{Transport: NewTransport()}, baseURL, token}, nil
}

func (c jxClient) do(ctx context.Context, method, path string, body io.Reader, decode func(*jx.Decoder) error) error {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	d := jx.DecodeBytes(answer)
	if err := decode(d); err != nil {
		return err
	}
	if err := d.Skip(); err != io.EOF { //nolint:errorlint // as generated
		return errors.New("unexpected trailing data")
	}
	return nil
}

func (c jxClient) Get(ctx context.Context, id int64) (any, error) {
	note := new(jxNote)
	return note, c.do(ctx, http.MethodGet, notePath(id), nil, note.Decode)
}

func (c jxClient) Page(ctx context.Context, number, size int) (any, error) {
	page := new(jxPage)
	return page, c.do(ctx, http.MethodGet, pagePath(number, size), nil, page.Decode)
}

func (c jxClient) Update(ctx context.Context, id int64, edit synthetic.Update) (any, error) {
	var e jx.Encoder
	e.ObjStart()
	e.FieldStart("name")
	e.Str(edit.Name)
	e.FieldStart("analysis")
	e.Str(edit.Analysis)
	e.ObjEnd()
	note := new(jxNote)
	return note, c.do(ctx, http.MethodPut, notePath(id), bytes.NewReader(e.Bytes()), note.Decode)
}
