//go:build unix

package jetstream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	"regexp"
	"strconv"
	"strings"
	"sync"
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
//	CLINICALDOC_JETSTREAM_FLEET=1200 go test . -run TestFleet_Workers -v -timeout 30m    six workers, about 200 of them killed
//	CLINICALDOC_JETSTREAM_FLEET=1200 CLINICALDOC_JETSTREAM_NODES=3 go test ...           on three nodes, some of them killed
//
// CLINICALDOC_JETSTREAM_SEED repeats one as far as processes let it.
const (
	fleetVariable = "CLINICALDOC_JETSTREAM_FLEET"
	seedVariable  = "CLINICALDOC_JETSTREAM_SEED"
	nodesVariable = "CLINICALDOC_JETSTREAM_NODES"
)

// Workers are killed and stopped at random, and so are nodes if there are several. The service loses responses,
// refuses some recordings for good, and is unreachable for a while. Each recording becomes one note, or a dead
// letter if it is refused. Some recordings are wanted as two notes, and become both.
func TestFleet_WorkersAndNodesKilled_MakesOneNoteOfEach(t *testing.T) {
	t.Parallel()
	f := &fleet{t: t, recordings: 60, workers: 3, lease: time.Second, seed: uint64(time.Now().UnixNano())}
	if count, _ := strconv.Atoi(os.Getenv(fleetVariable)); count > 0 {
		f.recordings, f.workers, f.lease = count, 6, 2*time.Second
	}
	if os.Getenv(nodesVariable) != "" {
		f.replicas, f.lease = 3, 15*time.Second
	}
	if seed, err := strconv.ParseUint(os.Getenv(seedVariable), 10, 64); err == nil {
		f.seed = seed
	}
	f.random = rand.New(rand.NewPCG(f.seed, 0))
	f.box = clinicaldoctest.NewServer()
	t.Cleanup(f.box.Close)
	f.box.ScriptNext(failedScript(), failedScript(), failedScript())
	f.startNodes()
	f.publish()
	f.run()
	notes := map[madeNote]int{}
	failed := map[madeNote]bool{}
	for _, note := range f.box.Notes() {
		made := madeNote{note.AudioSHA256, note.Name}
		notes[made]++
		if note.ErrorState != "" {
			failed[made] = true
		}
	}
	dead := map[string]bool{}
	for _, letter := range letters(t, f.fleet) {
		dead[letter.Recording.Params.Name] = true
		if !strings.Contains(letter.Reason, "422") && !strings.Contains(letter.Reason, "could not process") {
			t.Log(letter)
		}
	}
	lost, twice, wrong, all := 0, 0, 0, 0
	for n := range f.recordings {
		sum := sha256.Sum256(content(n))
		for _, name := range names(n) {
			all++
			wanted := madeNote{hex.EncodeToString(sum[:]), name}
			count := notes[wanted]
			isDead := dead[name]
			switch {
			case count > 1:
				twice++
			case count == 0 && !isDead:
				lost++
			case isDead != (refusedForGood(n) || failed[wanted]):
				wrong++
				t.Logf("%s has %d notes and a dead letter: %v", name, count, isDead)
			}
		}
	}
	t.Logf("%d notes were wanted", all)
	t.Logf("seed %d: %d recordings, %d dead letters; %d workers killed, %d stopped, %d nodes killed", f.seed, f.recordings, len(dead), f.killed, f.stopped, f.nodesKilled)
	forgotten, err := f.fleet.Journal().Processing(t.Context())
	require.NoError(t, err)
	assert.Empty(t, forgotten, "in processing, and nobody waits for them")
	assert.Len(t, failed, 3)
	assert.Zero(t, lost, "lost")
	assert.Zero(t, twice, "twice")
	assert.Zero(t, wrong, "dead letters that should be none, or none that should be")
	assert.Zero(t, messages(t, f.fleet), "left in the queue")
	assert.Positive(t, f.killed)
	assert.Positive(t, f.stopped)
}

// refusedForGood returns the recordings that the service always refuses.
func refusedForGood(n int) bool { return n%20 == 7 }

func name(n int) string { return fmt.Sprintf("Encounter #%d.", n) }

// names returns the names of the notes that are wanted of a recording.
func names(n int) []string {
	if n%4 == 1 {
		return []string{name(n), fmt.Sprintf("Letter #%d.", n)}
	}
	return []string{name(n)}
}

// madeNote is a note by its recording and its name.
type madeNote struct{ sha256, name string }

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
	stopped             int
	seed                uint64
	random              *rand.Rand
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

// freePort returns a port below those that the system chooses itself.
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
	}, untilTestEnds, 500*time.Millisecond)
	t.Cleanup(conn.Close)
	for n := range f.recordings {
		path := filepath.Join(dir, fmt.Sprintf("%d.wav", n))
		require.NoError(t, os.WriteFile(path, content(n), 0o600))
		for _, name := range names(n) {
			params := clinicaldoc.CreateNoteParams{Name: name, PatientID: int64(1 + n%100), PromptID: 1}
			require.NoError(t, f.fleet.Publish(t.Context(), ingest.Recording{File: path, Params: params}))
		}
	}
}

// run keeps the workers running, and kills one now and then, until the queue is empty.
func (f *fleet) run() {
	t := f.t
	t.Helper()
	gate := f.service()
	running := make([]*exec.Cmd, f.workers)
	ended := make(chan int)
	begin := func(i int) {
		process, lines := start(t, job{Worker: &worker{URL: gate, Token: f.box.Token, NATS: f.nats, Lease: f.lease, Settle: 2 * time.Second, Replicas: f.replicas}})
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
	kill := time.NewTicker(500 * time.Millisecond)
	defer kill.Stop()
	slow := time.NewTicker(30 * time.Second)
	defer slow.Stop()
	for left := f.workers; left > 0; {
		select {
		case <-slow.C:
			status, err := f.fleet.Status(t.Context())
			t.Log(status, status.Workers, err)
		case i := <-ended:
			running[i] = nil
			if messages(t, f.fleet) == 0 {
				left--
			} else {
				begin(i)
			}
		case <-kill.C:
			process := running[f.random.IntN(f.workers)]
			switch {
			case process == nil || f.killed >= 10+f.recordings/6:
			case f.random.IntN(3) == 0: // beyond its lease
				f.stopped++
				_ = process.Process.Signal(syscall.SIGSTOP)
				// One that has ended by then gets no signal.
				time.AfterFunc(f.lease*3/2, func() { _ = process.Process.Signal(syscall.SIGCONT) })
			default:
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

// service is the fake server behind a slow proxy, so workers can be killed during an upload. The proxy refuses some
// recordings, loses some responses, and is unreachable for a while.
func (f *fleet) service() string {
	t := f.t
	t.Helper()
	target, err := url.Parse(f.box.URL)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: &http.Transport{MaxIdleConnsPerHost: 64}, ErrorLog: log.New(io.Discard, "", 0)}
	var mu sync.Mutex
	random, creates, gone := rand.New(rand.NewPCG(f.seed, 1)), 0, time.Time{}
	draw := func(create bool) (luck float64, down bool) {
		mu.Lock()
		defer mu.Unlock()
		if create {
			if creates++; creates == f.recordings/2 {
				gone = time.Now()
			}
		}
		return random.Float64(), !gone.IsZero() && time.Since(gone) < 4*time.Second
	}
	number := regexp.MustCompile(`synthetic (\d{5})`)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		luck, down := draw(r.Method == http.MethodPost)
		if down {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if r.Method != http.MethodPost {
			proxy.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		time.Sleep(time.Duration(luck * float64(20*time.Millisecond)))
		found := number.FindSubmatch(body)
		if len(found) != 2 {
			panic(http.ErrAbortHandler)
		}
		n, _ := strconv.Atoi(string(found[1]))
		switch {
		case refusedForGood(n):
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		case luck < 0.1:
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case luck > 0.95:
			w = httptest.NewRecorder() // the response is lost
			defer panic(http.ErrAbortHandler)
		}
		r = r.Clone(context.WithoutCancel(r.Context())) // who asked may be dead; the service has it all the same
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestStatus_ForeignKeyInTheLiveBucket_IsNoWorker(t *testing.T) {
	t.Parallel()
	f := openFleet(t, connect(t, startServer(t)), Params{})
	require.NoError(t, f.live.beat(t.Context(), "a", liveWorker{}))
	_, err := f.store.js.Publish(t.Context(), "$KV."+f.store.liveName()+".w.\u00fc", nil)
	require.NoError(t, err)
	status, err := f.Status(t.Context())
	require.NoError(t, err)
	assert.Len(t, status.Workers, 1)
}
