package contender

import (
	"context"
	"net/http"

	"gitlab.com/gitlab-org/api/client-go/v2"
	"golang.org/x/oauth2"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/synthetic"
)

// gitLab is GitLab's client, used as its services use it.
type gitLab struct{ client *gitlab.Client }

func newGitLab(baseURL, token string) (Client, error) {
	source := gitlab.OAuthTokenSource{TokenSource: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: token})}
	client, err := gitlab.NewAuthSourceClient(source, gitlab.WithBaseURL(baseURL))
	return gitLab{client}, err
}

// listOptions are sent as the query.
type listOptions struct {
	Page    int `url:"page"`
	PerPage int `url:"per_page"`
}

func (g gitLab) do(ctx context.Context, method, path string, options, out any) error {
	req, err := g.client.NewRequest(method, path[1:], options, []gitlab.RequestOptionFunc{gitlab.WithContext(ctx)})
	if err != nil {
		return err
	}
	_, err = g.client.Do(req, out)
	return err
}

func (g gitLab) Get(ctx context.Context, id int64) (any, error) {
	note := new(synthetic.Note)
	return note, g.do(ctx, http.MethodGet, notePath(id), nil, note)
}

func (g gitLab) Page(ctx context.Context, number, size int) (any, error) {
	page := new(synthetic.Page)
	return page, g.do(ctx, http.MethodGet, collection, listOptions{number, size}, page)
}

func (g gitLab) Update(ctx context.Context, id int64, edit synthetic.Update) (any, error) {
	note := new(synthetic.Note)
	return note, g.do(ctx, http.MethodPut, notePath(id), edit, note)
}

func (g gitLab) Upload(ctx context.Context, name string, audio synthetic.Recording) (any, error) {
	fields := struct {
		Name string `url:"name"`
	}{name}
	req, err := g.client.UploadRequest(http.MethodPost, collection[1:], audio.Reader(), fileName, gitlab.UploadFile, fields,
		[]gitlab.RequestOptionFunc{gitlab.WithContext(ctx)})
	if err != nil {
		return nil, err
	}
	note := new(synthetic.Note)
	_, err = g.client.Do(req, note)
	return note, err
}
