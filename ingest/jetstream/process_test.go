//go:build unix

package jetstream

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
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

// worker uploads a recording and stops on its way, or all that are in the queue.
type worker struct {
	URL, Token, NATS string
	Name             string
	Lease, Settle    time.Duration
	Replicas         int
	Workers          int
	Queue            bool
	Wait             bool   // until all have joined
	Resolve          bool   // all that is in doubt, as a person who says that there is no note
	StopAt           string // where it stops
	Dies             bool   // there, instead
}

type node struct {
	Name, Store, Routes string
	Port, Cluster       int
}

func TestMain(m *testing.M) {
	text := os.Getenv(processVariable)
	if text == "" {
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
func start(t testing.TB, j job) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	text, err := json.Marshal(j)
	require.NoError(t, err)
	process := exec.CommandContext(t.Context(), os.Args[0])
	process.Env = append(os.Environ(), processVariable+"="+string(text))
	process.Stderr = os.Stderr
	out, err := process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
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
	end := ending{w.StopAt, w.Dies, new(atomic.Bool)}
	if w.StopAt != "" { // once more, by an engine that ends the process
		f.store.js = endingEngine{f.store.js, end}
		if err := f.join(ctx, params, cmp.Or(w.Lease, defaultLease)); err != nil {
			return nil, nil, err
		}
	}
	u := &ingest.Uploader{Client: client, Journal: endingJournal{f.Journal(), end}, Workers: cmp.Or(w.Workers, 4), Find: clinicaldoc.FindCreatedParams{Settle: w.Settle}}
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
	if w.Resolve {
		for e, err := range f.Journal().Doubts(ctx) {
			if err != nil {
				return err
			}
			for err = ingest.ErrTaken; errors.Is(err, ingest.ErrTaken); {
				err = u.Resolve(ctx, e.Key, ingest.Resolution{By: "synthetic"})
			}
			if err != nil {
				return err
			}
			fmt.Println("resolved")
		}
		return nil
	}
	if w.Queue {
		for result, err := range f.Drain(ctx, u) {
			if err != nil {
				return err
			}
			fmt.Println(result.Ending)
		}
		return nil
	}
	for result, err := range u.Run(ctx, recordings(1)) {
		if err != nil {
			return err
		}
		fmt.Println(result.Status)
	}
	return nil
}

// ending stops or kills the process on the way of a recording, once.
type ending struct {
	at   string
	dies bool
	once *atomic.Bool
}

func (e ending) pass(place string) {
	switch {
	case e.at != place || e.once.Swap(true):
	case e.dies:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	default:
		fmt.Println("stopped")
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(500 * time.Millisecond) // this thread may run on for a moment
	}
}

type endingJournal struct {
	ingest.Journal
	ending
}

func (j endingJournal) Claim(ctx context.Context, key ingest.Key) (ingest.Claim, error) {
	c, err := j.Journal.Claim(ctx, key)
	j.pass("after the claim")
	return endingClaim{c, j.ending}, err
}

type endingClaim struct {
	ingest.Claim
	ending
}

func (c endingClaim) Save(ctx context.Context, e ingest.Entry) error {
	if e.State != ingest.StateCommitting {
		c.pass("before its note is written down")
		err := c.Claim.Save(ctx, e)
		c.pass("after it is written down")
		return err
	}
	c.pass("before the commit")
	err := c.Claim.Save(ctx, e)
	c.pass("after the commit")
	return err
}

// endingEngine ends the process around what is written to the queue, and around pauses.
type endingEngine struct {
	jetstream.JetStream
	ending
}

func (e endingEngine) Publish(ctx context.Context, subject string, data []byte, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	kind := map[string]string{"dead": "the letter", "r": "the other lane"}[strings.Split(subject, ".")[1]]
	e.pass("before " + kind)
	ack, err := e.JetStream.Publish(ctx, subject, data, opts...)
	e.pass("after " + kind)
	return ack, err
}

func (e endingEngine) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := e.JetStream.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	return endingStream{s, e.ending}, nil
}

type endingStream struct {
	jetstream.Stream
	ending
}

func (s endingStream) PauseConsumer(ctx context.Context, name string, until time.Time) (*jetstream.ConsumerPauseResponse, error) {
	s.pass("before the pause")
	response, err := s.Stream.PauseConsumer(ctx, name, until)
	s.pass("after the pause")
	return response, err
}

func (s endingStream) ResumeConsumer(ctx context.Context, name string) (*jetstream.ConsumerPauseResponse, error) {
	s.pass("before it goes on")
	response, err := s.Stream.ResumeConsumer(ctx, name)
	s.pass("when it goes on")
	return response, err
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
