package command

import (
	"bufio"
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/account"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

// console is what a command under test prints. It reads no terminal.
type console struct{ out, err safeBuffer }

// safeBuffer is a buffer for several goroutines.
type safeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// newEnv returns what a command needs to call a server, whatever the variables of whoever runs the tests say.
func newEnv(srv *clinicaldoctest.Server) (*Env, *console) {
	shown := &console{}
	env := &Env{IO: &output.IO{In: bufio.NewReader(strings.NewReader("")), Out: &shown.out, Err: &shown.err}}
	if srv != nil {
		env.found = &account.Account{Context: account.Context{BaseURL: srv.URL}, Token: srv.Token}
	}
	return env, shown
}

// answers puts somebody in front of the command, who types this.
func (e *Env) answers(keys string) {
	e.IO.InTTY = true
	e.IO.ErrTTY = true
	e.IO.In = bufio.NewReader(strings.NewReader(keys))
}

func newServer(t *testing.T, options ...clinicaldoctest.Option) *clinicaldoctest.Server {
	t.Helper()
	srv := clinicaldoctest.NewServer(options...)
	t.Cleanup(srv.Close)
	return srv
}

// textsOf is the note as the service has it.
func textsOf(t *testing.T, srv *clinicaldoctest.Server, id int64) *clinicaldoc.ProgressNote {
	t.Helper()
	note, err := srv.Client().Notes.Get(context.WithoutCancel(t.Context()), id)
	require.NoError(t, err)
	return note
}

// requestsTo is how many requests a server has had to a route.
func requestsTo(srv *clinicaldoctest.Server, route string) (n int) {
	for _, r := range srv.Requests() {
		if r.Route == route {
			n++
		}
	}
	return n
}
