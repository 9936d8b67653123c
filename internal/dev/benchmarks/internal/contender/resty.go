package contender

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-resty/resty/v2"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/synthetic"
)

// restyClient is resty, which decodes into what SetResult names.
type restyClient struct{ client *resty.Client }

func newResty(baseURL, token string) (Client, error) {
	return restyClient{resty.New().SetBaseURL(baseURL).SetAuthToken(token).SetHeader("Accept", "application/json")}, nil
}

func (r restyClient) request(ctx context.Context, out any) *resty.Request {
	return r.client.R().SetContext(ctx).SetResult(out)
}

func succeeded(resp *resty.Response, err error) error {
	if err == nil && resp.StatusCode() != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode())
	}
	return err
}

func (r restyClient) Get(ctx context.Context, id int64) (any, error) {
	note := new(synthetic.Note)
	return note, succeeded(r.request(ctx, note).Get(notePath(id)))
}

func (r restyClient) Page(ctx context.Context, number, size int) (any, error) {
	page := new(synthetic.Page)
	return page, succeeded(r.request(ctx, page).Get(pagePath(number, size)))
}

func (r restyClient) Update(ctx context.Context, id int64, edit synthetic.Update) (any, error) {
	note := new(synthetic.Note)
	return note, succeeded(r.request(ctx, note).SetBody(edit).Put(notePath(id)))
}

func (r restyClient) Upload(ctx context.Context, name string, audio synthetic.Recording) (any, error) {
	note := new(synthetic.Note)
	return note, succeeded(r.request(ctx, note).
		SetMultipartFormData(map[string]string{"name": name}).
		SetFileReader("file", fileName, audio.Reader()).
		Post(collection))
}
