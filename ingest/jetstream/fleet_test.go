//go:build unix

package jetstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// More than an ordinary test has time for:
//
//	CLINICALDOC_JETSTREAM_STOPS=24 go test . -run TestAStoppedWorker -v
//	CLINICALDOC_JETSTREAM_FLEET=10000 go test . -run TestAFleet -v -timeout 30m    three nodes, eight workers
const (
	stopsVariable = "CLINICALDOC_JETSTREAM_STOPS"
	fleetVariable = "CLINICALDOC_JETSTREAM_FLEET"
)

// A worker that is stopped for longer than its lease does not finish its upload, or its note is found: never two.
func TestAStoppedWorkerMakesNoSecondNote(t *testing.T) {
	t.Parallel()
	runs, _ := strconv.Atoi(os.Getenv(stopsVariable))
	for _, place := range []string{"after the claim", "before the commit", "after the commit", "before its note is written down"} {
		for run := range max(runs, 1) {
			t.Run(fmt.Sprintf("%s %d", place, run), func(t *testing.T) {
				t.Parallel()
				stopOnce(t, place)
			})
		}
	}
}

func stopOnce(t *testing.T, place string) {
	t.Helper()
	box, s := clinicaldoctest.NewServer(), startServer(t)
	t.Cleanup(box.Close)
	w := worker{URL: box.URL, Token: box.Token, NATS: s.ClientURL(), Lease: 2 * time.Second, Settle: 6 * time.Second}
	openFleet(t, connect(t, s), Params{Lease: w.Lease})
	stopped := w
	stopped.StopAt = place
	process, lines := start(t, job{Worker: &stopped})
	require.True(t, lines.Scan())
	require.Equal(t, "stopped", lines.Text())
	fenced := place == "before the commit" || place == "after the claim"
	if !fenced {
		// Beyond its lease, and within Settle: what is stopped between the commit and the last byte for longer, nobody can catch.
		timer := time.AfterFunc(3*time.Second, func() { _ = process.Process.Signal(syscall.SIGCONT) })
		defer timer.Stop()
	}

	_, second, err := w.join(t.Context())
	require.NoError(t, err)
	var results []ingest.Result
	for len(results) == 0 || errors.Is(results[0].Err, ingest.ErrTaken) { // it may have renewed its lease a last time
		results = nil
		for result, err := range second.Run(t.Context(), recordings(1)) {
			require.NoError(t, err)
			results = append(results, result)
		}
		require.Len(t, results, 1)
	}
	assert.Contains(t, []ingest.Status{ingest.Created, ingest.AlreadyThere}, results[0].Status, results[0])
	if fenced {
		assert.Equal(t, ingest.Created, results[0].Status)
		require.NoError(t, process.Process.Signal(syscall.SIGCONT))
	}
	var first []string
	for lines.Scan() {
		first = append(first, lines.Text())
	}
	require.NoError(t, process.Wait())
	require.Len(t, first, 1)
	if fenced {
		assert.Equal(t, "in doubt", first[0], "it was refused where it would have committed")
	}
	assert.Len(t, box.Notes(), 1)
}

// Workers are killed at random, and nodes too where there are several: each recording becomes one note.
func TestAFleetMakesOneNoteOfEach(t *testing.T) {
	t.Parallel()
	f := &fleet{t: t, recordings: 40, workers: 3, lease: time.Second}
	if count, _ := strconv.Atoi(os.Getenv(fleetVariable)); count > 0 {
		f.recordings, f.workers, f.lease, f.replicas = count, 8, 15*time.Second, 3
	}
	f.box = clinicaldoctest.NewServer()
	t.Cleanup(f.box.Close)
	f.startNodes()
	f.publish()
	f.run()
	notes := map[string]int{}
	for _, note := range f.box.Notes() {
		notes[note.AudioSHA256]++
	}
	missing, twice := 0, 0
	for n := range f.recordings {
		sum := sha256.Sum256(content(n))
		switch notes[hex.EncodeToString(sum[:])] {
		case 0:
			missing++
		case 1:
		default:
			twice++
		}
	}
	t.Logf("%d recordings, %d workers killed, %d nodes killed", f.recordings, f.killed, f.nodesKilled)
	assert.Zero(t, missing, "missing")
	assert.Zero(t, twice, "twice")
	assert.Len(t, f.box.Notes(), f.recordings)
	assert.Positive(t, f.killed)
}

type fleet struct {
	t                   *testing.T
	recordings, workers int
	lease               time.Duration
	replicas            int
	box                 *clinicaldoctest.Server
	nats                string
	fleet               *Fleet
	nodes               []node
	processes           []*exec.Cmd
	killed, nodesKilled int
}

func (f *fleet) startNodes() {
	t := f.t
	t.Helper()
	if f.replicas == 0 {
		f.nats = startServer(t).ClientURL()
		return
	}
	var routes, urls []string
	for n := range 3 {
		f.nodes = append(f.nodes, node{Name: fmt.Sprint("n", n), Store: t.TempDir(), Port: freePort(t), Cluster: freePort(t)})
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", f.nodes[n].Cluster))
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", f.nodes[n].Port))
	}
	f.nats = strings.Join(urls, ",")
	for n := range f.nodes {
		f.nodes[n].Routes = strings.Join(routes, " ")
		process, _ := start(t, job{Node: &f.nodes[n]})
		f.processes = append(f.processes, process)
	}
	t.Cleanup(func() {
		for _, process := range f.processes {
			_ = process.Process.Kill()
			_ = process.Wait()
		}
	})
}

// freePort is below the ports that the system hands out.
func freePort(t *testing.T) int {
	t.Helper()
	for {
		port := 20000 + rand.IntN(10000)
		if l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			require.NoError(t, l.Close())
			return port
		}
	}
}

func (f *fleet) publish() {
	t := f.t
	t.Helper()
	dir := t.TempDir()
	var conn *nats.Conn
	require.Eventually(t, func() (ok bool) {
		var err error
		if conn == nil {
			conn, err = Connect(f.nats)
		}
		if err == nil {
			f.fleet, err = Begin(t.Context(), conn, Params{Lease: f.lease, Replicas: f.replicas})
		}
		return err == nil
	}, time.Minute, 500*time.Millisecond)
	t.Cleanup(conn.Close)
	for n := range f.recordings {
		path := filepath.Join(dir, fmt.Sprintf("%d.wav", n))
		require.NoError(t, os.WriteFile(path, content(n), 0o600))
		params := clinicaldoc.CreateNoteParams{Name: fmt.Sprintf("Encounter #%d.", n), PatientID: int64(1 + n%100), PromptID: 1}
		require.NoError(t, f.fleet.Publish(t.Context(), ingest.Recording{File: path, Params: params}))
	}
}

// run keeps the workers running, and kills one now and then, until the queue is empty.
func (f *fleet) run() {
	t := f.t
	t.Helper()
	gate := slowed(t, f.box)
	running := make([]*exec.Cmd, f.workers)
	ended := make(chan int)
	begin := func(i int) {
		process, lines := start(t, job{Worker: &worker{URL: gate, Token: f.box.Token, NATS: f.nats, Lease: f.lease, Settle: 2 * time.Second, Replicas: f.replicas, Queue: true}})
		running[i] = process
		go func() {
			for lines.Scan() {
				if strings.HasPrefix(lines.Text(), "failed") {
					fmt.Fprintln(os.Stderr, "worker", i, lines.Text())
				}
			}
			_ = process.Wait()
			ended <- i
		}()
	}
	for i := range running {
		begin(i)
	}
	kill := time.NewTicker(min(time.Second, time.Duration(f.recordings)*8*time.Millisecond))
	defer kill.Stop()
	for left := f.workers; left > 0; {
		select {
		case i := <-ended:
			if running[i] = nil; (&work{fleet: f.fleet}).empty(context.WithoutCancel(t.Context())) {
				left--
			} else {
				begin(i)
			}
		case <-kill.C:
			if process := running[rand.IntN(f.workers)]; process != nil && f.killed < 10+f.recordings/100 {
				_ = process.Process.Kill()
				f.killed++
				f.killNode()
			}
		}
	}
}

// killNode kills a node of the cluster after some workers, one after the other, and starts it anew.
func (f *fleet) killNode() {
	if f.replicas == 0 || f.killed%20 != 10 || f.nodesKilled >= 4 {
		return
	}
	n := f.nodesKilled % 3
	_ = f.processes[n].Process.Kill()
	_ = f.processes[n].Wait()
	f.nodesKilled++
	f.processes[n], _ = start(f.t, job{Node: &f.nodes[n]})
}

// slowed is the box behind a proxy that takes its time, so that there is time to be killed in.
func slowed(t *testing.T, box *clinicaldoctest.Server) string {
	t.Helper()
	target, err := url.Parse(box.URL)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: &http.Transport{MaxIdleConnsPerHost: 64}, ErrorLog: log.New(io.Discard, "", 0)}
	var count atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			time.Sleep(time.Duration(count.Add(1)%20) * time.Millisecond)
			r = r.Clone(context.WithoutCancel(r.Context())) // who asked may be dead; the service has it all the same
			r.Body = io.NopCloser(strings.NewReader(string(body)))
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}
