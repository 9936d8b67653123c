//go:build unix

package jetstream

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// processVariable holds what a process of a test has to do: it is a worker, or a node of the cluster.
const processVariable = "CLINICALDOC_JETSTREAM_PROCESS"

type job struct {
	Worker *worker
	Node   *node
}

// worker uploads all that is in the queue.
type worker struct {
	URL, Token, NATS string
	Name             string
	Lease, Settle    time.Duration
	Replicas         int
	Workers          int
	Wait             bool // until all have joined
	Until            clinicaldoc.Stage
}

type node struct {
	Name, Store, Routes string
	Port, Cluster       int
}

func TestMain(m *testing.M) {
	text := os.Getenv(processVariable)
	if text == "" {
		flag.Parse()
		debug.SetGCPercent(400)            // the heap is small, so that the collector would run without end
		_ = flag.Set("test.parallel", "4") // tests mostly wait, for servers and for other processes
		os.Exit(m.Run())
	}
	var j job
	err := json.Unmarshal([]byte(text), &j)
	switch {
	case err != nil:
	case j.Worker != nil:
		err = j.Worker.run(context.Background())
	case j.Node != nil:
		err = j.Node.run()
	}
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// start starts a process and returns the lines that it prints.
func start(tb testing.TB, j job) (*exec.Cmd, *bufio.Scanner) {
	tb.Helper()
	text, err := json.Marshal(j)
	require.NoError(tb, err)
	process := exec.CommandContext(tb.Context(), os.Args[0])
	process.Env = append(os.Environ(), processVariable+"="+string(text))
	process.Stderr = os.Stderr
	out, err := process.StdoutPipe()
	require.NoError(tb, err)
	require.NoError(tb, process.Start())
	return process, bufio.NewScanner(out)
}

func (w *worker) join(ctx context.Context) (*Fleet, *ingest.Uploader, error) {
	client, err := clinicaldoc.NewClient(w.URL, w.Token, clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 1, MinWait: time.Millisecond, MaxWait: time.Millisecond}))
	if err != nil {
		return nil, nil, err
	}
	conn, err := Connect(w.NATS)
	if err != nil {
		return nil, nil, err
	}
	params := Params{Name: w.Name, Lease: w.Lease, Replicas: w.Replicas}
	f, err := Join(ctx, conn, params)
	if err != nil {
		return nil, nil, err
	}
	u := &ingest.Uploader{Client: client, Journal: f.Journal(), Workers: cmp.Or(w.Workers, 4), Find: clinicaldoc.FindCreatedParams{Settle: w.Settle}, Until: w.Until}
	return f, u, nil
}

func (w *worker) run(ctx context.Context) error {
	f, u, err := w.join(ctx)
	if err != nil {
		return err
	}
	if w.Wait {
		begin, err := f.store.conn.SubscribeSync("begin." + w.Name)
		if err != nil {
			return err
		}
		if err := f.store.conn.Flush(); err != nil {
			return err
		}
		fmt.Println("joined")
		if _, err := begin.NextMsgWithContext(ctx); err != nil {
			return err
		}
	}
	for result, err := range f.Drain(ctx, u) {
		if err != nil {
			return err
		}
		fmt.Println(result.Ending)
	}
	return nil
}

func (n *node) run() error {
	routes := []*url.URL{}
	for route := range strings.SplitSeq(n.Routes, " ") {
		u, err := url.Parse(route)
		if err != nil {
			return err
		}
		routes = append(routes, u)
	}
	s, err := server.NewServer(&server.Options{
		ServerName: n.Name, Host: "127.0.0.1", Port: n.Port, JetStream: true, StoreDir: n.Store, NoSigs: true, NoLog: true,
		Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: n.Cluster}, Routes: routes,
	})
	if err != nil {
		return err
	}
	s.Start()
	s.WaitForShutdown()
	return nil
}
