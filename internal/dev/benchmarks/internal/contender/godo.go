package contender

import (
	"context"
	"net/http"

	"github.com/digitalocean/godo"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/synthetic"
)

// digitalOcean is godo's client, used as its services use it. It has no upload of forms.
type digitalOcean struct{ client *godo.Client }

func newGodo(baseURL, token string) (Client, error) {
	client := godo.NewFromToken(token)
	return digitalOcean{client}, godo.SetBaseURL(baseURL + "/")(client)
}

func (g digitalOcean) do(ctx context.Context, method, path string, body, out any) error {
	req, err := g.client.NewRequest(ctx, method, path[1:], body)
	if err != nil {
		return err
	}
	_, err = g.client.Do(ctx, req, out)
	return err
}

func (g digitalOcean) Get(ctx context.Context, id int64) (any, error) {
	note := new(synthetic.Note)
	return note, g.do(ctx, http.MethodGet, notePath(id), nil, note)
}

func (g digitalOcean) Page(ctx context.Context, number, size int) (any, error) {
	page := new(synthetic.Page)
	return page, g.do(ctx, http.MethodGet, pagePath(number, size), nil, page)
}

func (g digitalOcean) Update(ctx context.Context, id int64, edit synthetic.Update) (any, error) {
	note := new(synthetic.Note)
	return note, g.do(ctx, http.MethodPut, notePath(id), edit, note)
}
