package contender

import (
	"context"
	"net/http"

	"github.com/google/go-github/v92/github"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/synthetic"
)

// gitHub is go-github's client, used as its services use it. It has no upload of forms.
type gitHub struct{ client *github.Client }

func newGitHub(baseURL, token string) (Client, error) {
	baseURL += "/"
	client, err := github.NewClient(github.WithTransport(NewTransport()), github.WithAuthToken(token), github.WithURLs(&baseURL, &baseURL))
	return gitHub{client}, err
}

func (g gitHub) do(ctx context.Context, method, path string, body, out any) error {
	req, err := g.client.NewRequest(ctx, method, path[1:], body)
	if err != nil {
		return err
	}
	_, err = g.client.Do(req, out)
	return err
}

func (g gitHub) Get(ctx context.Context, id int64) (any, error) {
	note := new(synthetic.Note)
	return note, g.do(ctx, http.MethodGet, notePath(id), nil, note)
}

func (g gitHub) Page(ctx context.Context, number, size int) (any, error) {
	page := new(synthetic.Page)
	return page, g.do(ctx, http.MethodGet, pagePath(number, size), nil, page)
}

func (g gitHub) Update(ctx context.Context, id int64, edit synthetic.Update) (any, error) {
	note := new(synthetic.Note)
	return note, g.do(ctx, http.MethodPut, notePath(id), edit, note)
}
