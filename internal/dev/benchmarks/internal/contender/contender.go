// Package contender holds the libraries that are measured. Each does the same work through its own request machinery,
// with its own defaults for retries and limits.
package contender

import (
	"context"
	"net/http"
	"strconv"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/synthetic"
)

// Client does the work that is measured. What it returns is the value its library decoded, which encodes to JSON like
// the service's own; nobody uses a Client from two goroutines.
type Client interface {
	Get(ctx context.Context, id int64) (any, error)
	Page(ctx context.Context, page, size int) (any, error)
	Update(ctx context.Context, id int64, edit synthetic.Update) (any, error)
}

// Uploader is a Client whose library sends forms with files.
type Uploader interface {
	Upload(ctx context.Context, name string, audio synthetic.Recording) (any, error)
}

// Editor is a Client that also signs and deletes.
type Editor interface {
	Sign(ctx context.Context, id int64) (any, error)
	Delete(ctx context.Context, id int64) (any, error)
}

// FullClient does all of it.
type FullClient interface {
	Client
	Uploader
	Editor
}

// Contender is a library.
type Contender struct {
	Name   string
	Module string // its version is in go.mod; empty for what is written here
	New    func(baseURL, token string) (Client, error)
}

// The contenders that others are held against.
const (
	Floor    = "floor"
	Pointers = "floor with pointers"
	SDK      = "clinicaldoc"
)

// All lists the contenders; the floor comes first, then the SDK.
func All() []Contender {
	return []Contender{
		{Floor, "", newFloor[plainNote, plainPage]},
		{SDK, "", newSDK},
		{Pointers, "", newFloor[synthetic.Note, synthetic.Page]},
		{"go-github", "github.com/google/go-github/v92", newGitHub},
		{"GitLab client-go", "gitlab.com/gitlab-org/api/client-go/v2", newGitLab},
		{"openai-go", "github.com/openai/openai-go/v3", newOpenAI},
		{"resty", "github.com/go-resty/resty/v2", newResty},
		{"oapi-codegen", "github.com/oapi-codegen/oapi-codegen/v2", newOAPI},
		{"godo", "github.com/digitalocean/godo", newGodo},
		{"jx, as generated", "github.com/go-faster/jx", newJX},
	}
}

const (
	collection = "/v1/progress-notes"
	fileName   = "synthetic.wav"
)

func notePath(id int64) string { return collection + "/" + strconv.FormatInt(id, 10) }

func pagePath(page, size int) string {
	return collection + "?page=" + strconv.Itoa(page) + "&per_page=" + strconv.Itoa(size)
}

// NewTransport gives a contender a connection pool of its own.
func NewTransport() *http.Transport {
	transport, _ := http.DefaultTransport.(*http.Transport)
	return transport.Clone()
}
