package ingest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// The crash matrix kills real processes, at every transition, against a service that commits at once, late, never, or
// responds with 5xx. More than the few of an ordinary test:
//
//	CLINICALDOC_INGEST_KILLS=500 go test ./ingest -run TestCrashMatrix -v
//	CLINICALDOC_INGEST_SEED=17 go test ./ingest -run TestCrashMatrix -v    one world, told step by step
const (
	killsVariable = "CLINICALDOC_INGEST_KILLS"
	seedVariable  = "CLINICALDOC_INGEST_SEED"
	fewKills      = 8
)

const (
	crashSettle = 2 * time.Second
	latest      = crashSettle * 3 / 4 // the latest that the service commits after it took a request
)

func TestCrashMatrix(t *testing.T) {
	t.Parallel()
	want, _ := strconv.Atoi(os.Getenv(killsVariable))
	seed, single := strconv.ParseUint(os.Getenv(seedVariable), 10, 64)
	m := &matrix{want: max(want, fewKills), next: max(seed, 1), kills: map[string]int{}}
	if single == nil {
		m.want, m.tell = 1, t.Logf
	}
	var worlds sync.WaitGroup
	for range min(m.want, 8*runtime.GOMAXPROCS(0)) { // they wait most of the time
		worlds.Go(func() {
			for seed, ok := m.draw(); ok; seed, ok = m.draw() {
				m.add(newWorld(t, seed, m.tell).live(t))
			}
		})
	}
	worlds.Wait()
	for _, place := range slices.Sorted(maps.Keys(m.kills)) {
		t.Logf("%5d killed %s", m.kills[place], place)
	}
	t.Logf("%d worlds, %d kills: %d recordings created, %d complete, %d of them sent again, %d failed, %d refused, %d unresolved", m.worlds, m.killed,
		m.ended["created"], m.ended["complete"], m.ended["sent again"], m.ended["failed"], m.ended["refused"], m.ended["unresolved"])
	t.Logf("%d recordings were wanted as two notes of the same content", m.ended["letters"])
	if want >= 500 {
		for _, place := range []string{
			"before a write", "in a write", "after a write", "before a sync", "after a sync", "before the rename", "after the rename", "after a write of the compacted file",
			"the request is whole", "the note is made", "during FindCreated", "after FindCreated's list",
		} {
			assert.Positive(t, m.kills[place], "nobody was killed: %s", place)
		}
	}
}

// matrix is what all worlds have shown.
type matrix struct {
	tell func(string, ...any)

	mu     sync.Mutex
	next   uint64
	want   int
	killed int
	worlds int
	kills  map[string]int // by place
	ended  map[string]int // recordings by status
}

func (m *matrix) draw() (seed uint64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.killed >= m.want || m.tell != nil && m.worlds > 0 {
		return 0, false
	}
	m.next++
	m.worlds++
	return m.next - 1, true
}

func (m *matrix) add(w *world) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended == nil {
		m.ended = map[string]int{}
	}
	for place, n := range w.kills {
		m.kills[place] += n
		m.killed += n
	}
	for status, n := range w.ended {
		m.ended[status] += n
	}
}

// world is a service, a journal, and processes that come and go.
type world struct {
	seed  uint64
	links bool // the journal can be opened by a link
	rand  *rand.Rand
	tell  func(string, ...any)
	life  life
	box   *clinicaldoctest.Server
	gate  *gate
	kills map[string]int
	ended map[string]int
	last  map[string]outcome // the latest by key
}

func newWorld(t *testing.T, seed uint64, tell func(string, ...any)) *world {
	t.Helper()
	w := &world{
		seed: seed, rand: rand.New(rand.NewPCG(seed, 1)), tell: tell, kills: map[string]int{}, ended: map[string]int{},
		last: map[string]outcome{},
	}
	if tell == nil {
		w.tell = func(string, ...any) {}
	}
	w.box = newBox(t)
	w.gate = newGate(t, w.box, seed)
	w.life = life{
		URL: w.gate.URL, Token: w.box.Token, Journal: filepath.Join(t.TempDir(), "journal"), Settle: crashSettle,
		Recordings: 6 + w.rand.IntN(10), Lookalikes: w.rand.IntN(8) == 0, UniqueName: w.rand.IntN(4) == 0,
	}
	w.life.UniqueName = w.life.UniqueName && !w.life.Lookalikes
	w.life.Letters = w.rand.IntN(3) == 0 && !w.life.Lookalikes
	w.life.Until = w.rand.IntN(2) == 0
	if w.life.Until {
		w.box.SetDelays(clinicaldoctest.Delays{Uploaded: time.Duration(w.rand.IntN(300)) * time.Millisecond})
		w.failSome()
	}
	journal, err := openOrBegin(t.Context(), w.life.URL, w.life.Journal)
	require.NoError(t, err)
	require.NoError(t, journal.Close())
	w.links = makeLink(t, w.life.Journal, w.life.Journal+".link")
	for n := range w.life.Recordings {
		if r := w.life.recording(n); r.File != "" {
			require.NoError(t, os.WriteFile(r.File, w.life.content(n), 0o600))
		}
	}
	return w
}

// failSome lets the service fail to process some of the notes.
func (w *world) failSome() {
	for range 3 * w.life.Recordings {
		script := clinicaldoctest.Script{}
		if w.rand.IntN(4) == 0 {
			script.TranscriptionError = "synthetic"
		}
		w.box.ScriptNext(script)
	}
}

// live lets some processes be killed, then one go on to its end.
func (w *world) live(t *testing.T) *world {
	t.Helper()
	for range 2 + w.rand.IntN(8) {
		l := w.life
		l.Link = w.rand.IntN(2) == 0 && w.links
		l.SendAgain = l.Until && w.rand.IntN(3) == 0
		w.gate.killAt(0)
		switch w.rand.IntN(4) {
		case 0: // while it is opened and compacted
			l.EndAt = 1 + w.rand.IntN(20)
		case 1:
			l.EndAt = 1 + w.rand.IntN(3*w.life.Recordings)
		default:
			w.gate.killAt(1 + w.rand.IntN(2*w.life.Recordings))
		}
		w.run(t, l)
	}
	if w.life.Until { // what failed is sent again, by a process that is killed
		w.gate.killAt(0)
		w.run(t, w.life)
		l := w.life
		l.SendAgain = true
		l.EndAt = 1 + w.rand.IntN(60)
		w.run(t, l)
	}
	w.gate.killAt(0)
	w.settle(t)
	return w
}

// settle runs processes that nobody kills, until they can say no more, and checks what they said.
func (w *world) settle(t *testing.T) {
	t.Helper()
	for range 3 {
		if w.run(t, w.life) && !w.undecided() {
			break
		}
	}
	w.gate.late.Wait()
	if w.gate.tooLate.Load() {
		t.Logf("world %d says nothing: the machine stood still", w.seed)
		clear(w.kills)
		return
	}
	w.check(t)
}

func (w *world) undecided() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(w.last)),
		func(o outcome) bool { return o.Status == "unresolved" })
}

// run runs a process and reports whether it came to its end.
func (w *world) run(t *testing.T, l life) (done bool) {
	t.Helper()
	process, out := start(t, l)
	w.gate.watch(process.Process)
	for o := range outcomes(out) {
		w.tell("world %d: %+v", w.seed, o)
		switch {
		case o.Ending != "":
			w.kills[o.Ending]++
		case o.Failed != "":
			t.Errorf("world %d: the run failed: %s", w.seed, o.Failed)
		case o.Done:
			done = true
		case !o.Earlier: // which has no recording
			w.last[o.Key] = o
		}
	}
	_ = process.Wait()
	if place := w.gate.watch(nil); place != "" {
		w.tell("world %d: killed %s", w.seed, place)
		w.kills[place]++
	}
	return done
}

func start(t *testing.T, l life) (*exec.Cmd, io.Reader) {
	t.Helper()
	text, err := json.Marshal(l)
	require.NoError(t, err)
	process := exec.CommandContext(t.Context(), os.Args[0])
	process.Env = append(os.Environ(), lifeVariable+"="+string(text))
	process.Stderr = os.Stderr
	out, err := process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
	return process, out
}

// check holds what the processes said against what the service has.
func (w *world) check(t *testing.T) {
	t.Helper()
	notes := map[string][]int64{} // by name and content
	failed := map[int64]bool{}
	for _, note := range w.box.Notes() {
		of := note.Name + note.AudioSHA256
		notes[of] = append(notes[of], note.ID)
		failed[note.ID] = note.Stage == clinicaldoctest.StageFailed
	}
	for n := range w.life.Recordings {
		recording := w.life.recording(n)
		sum := sha256.Sum256(w.life.content(n))
		made := slices.Clone(notes[recording.Params.Name+hex.EncodeToString(sum[:])])
		if w.life.Letters {
			w.ended["letters"]++
		}
		key := labelOf(recording)
		o, told := w.last[key]
		where := fmt.Sprintf("world %d, %s: %+v, notes %v", w.seed, key, o, made)
		for _, old := range o.Replaced { // each of them failed, and a person decided to send it again
			assert.True(t, failed[old], "REPLACED: %s", where)
			assert.Contains(t, made, old, where)
			made = slices.DeleteFunc(made, func(id int64) bool { return id == old })
			w.ended["sent again"]++
		}
		assert.LessOrEqual(t, len(made), 1, "DUPLICATE: %s", where)
		switch {
		case !told:
			assert.Fail(t, "LOST: nothing was said", where)
		case o.Status == "created" || o.Status == "already there":
			w.ended["created"]++
			assert.Equal(t, []int64{o.NoteID}, made, "LOST or WRONG: %s", where)
		case o.Status == "complete" || o.Status == "failed":
			w.ended[o.Status]++
			assert.Equal(t, []int64{o.NoteID}, made, "LOST or WRONG: %s", where)
			assert.Equal(t, o.Status == "failed", failed[o.NoteID], "WRONG STAGE: %s", where)
			assert.Equal(t, o.Status == "failed", o.Err != "", where)
		case o.Status == "refused":
			w.ended["refused"]++
			assert.Empty(t, made, "LOST: %s", where)
			assert.NotEmpty(t, o.Err, where)
		default:
			w.ended["unresolved"]++
			assert.Fail(t, "IN DOUBT: a person has to look, but why", where)
		}
	}
}

// gate stands before the box: it decides what becomes of each create, and kills the process that asks.
type gate struct {
	*httptest.Server
	box  *clinicaldoctest.Server
	pass http.Handler
	late sync.WaitGroup
	// tooLate: a note was made later than Settle allows, because this machine stood still. What was said then may be
	// wrong.
	tooLate atomic.Bool

	mu      sync.Mutex
	rand    *rand.Rand
	process *os.Process
	count   int // transitions until it is killed; 0: never
	place   string
}

func newGate(t *testing.T, box *clinicaldoctest.Server, seed uint64) *gate {
	t.Helper()
	target, err := url.Parse(box.URL)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { panic(http.ErrAbortHandler) },
		Transport:    &http.Transport{DisableKeepAlives: true},
	}
	g := &gate{box: box, pass: proxy, rand: rand.New(rand.NewPCG(seed, 2))}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	// those of a killed process may stay open where it does not run on its own system
	t.Cleanup(g.CloseClientConnections)
	return g
}

func (g *gate) killAt(transition int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count, g.place = transition, ""
}

// watch names the process to be killed, and returns where the one before was.
func (g *gate) watch(process *os.Process) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.process = process
	return g.place
}

// at is called at each transition.
func (g *gate) at(place string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count > 0 {
		if g.count--; g.count == 0 && g.process != nil {
			g.place = place
			_ = g.process.Kill()
		}
	}
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		g.at("during FindCreated")
		g.pass.ServeHTTP(w, r)
		g.at("after FindCreated's list")
		return
	}
	g.at("the upload begins")
	body, err := io.ReadAll(r.Body)
	if err != nil || !strings.HasSuffix(string(body), "--\r\n") {
		panic(http.ErrAbortHandler) // it was cut
	}
	taken := time.Now()
	request := r.Clone(context.WithoutCancel(r.Context())) // who asked may be dead; the service has it all the same
	commit := func(w http.ResponseWriter) {
		request.Body = io.NopCloser(bytes.NewReader(body))
		g.pass.ServeHTTP(w, request)
		if time.Since(taken) >= crashSettle {
			g.tooLate.Store(true)
		}
	}
	g.mu.Lock()
	kind, wait, status := g.rand.IntN(10), time.Duration(g.rand.Int64N(int64(latest))), []int{500, 502, 503, 504}[g.rand.IntN(4)]
	g.mu.Unlock()
	g.at("the request is whole")
	switch kind {
	case 0: // late, and nothing is heard, or 5xx
		g.late.Go(func() {
			time.Sleep(wait)
			if time.Since(taken) < latest+crashSettle/8 {
				commit(httptest.NewRecorder())
			}
		})
	case 1: // never
	case 2:
		commit(httptest.NewRecorder())
		g.at("the note is made")
	default:
		recorded := httptest.NewRecorder()
		commit(recorded)
		g.at("the note is made")
		maps.Copy(w.Header(), recorded.Header())
		w.WriteHeader(recorded.Code)
		_, _ = w.Write(recorded.Body.Bytes())
		return
	}
	if wait%2 == 0 {
		panic(http.ErrAbortHandler)
	}
	http.Error(w, "synthetic", status)
}

// A process that is stopped (SIGSTOP) keeps its journal locked. No other process can open it meanwhile, and the process
// continues unharmed.
func TestFileJournal_ProcessStopped_StaysLocked(t *testing.T) {
	t.Parallel()
	if !canStop {
		t.Skip("processes cannot be stopped there")
	}
	step := 13
	if os.Getenv(killsVariable) != "" {
		step = 1
	}
	for transition := 1; transition <= 40; transition += step {
		t.Run(strconv.Itoa(transition), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, uint64(transition), nil)
			l := w.life
			l.EndAt, l.Stop = transition, true
			process, out := start(t, l)
			for o := range outcomes(out) {
				switch {
				case o.Ending != "":
					t.Log("stopped", o.Ending)
					w.whileStopped(t)
					require.NoError(t, letGoOn(process.Process))
				case !o.Done:
					w.last[o.Key] = o
				}
			}
			require.NoError(t, process.Wait())
			w.settle(t)
		})
	}
}

// whileStopped is a second process that finds the journal in use.
func (w *world) whileStopped(t *testing.T) {
	t.Helper()
	process, out := start(t, w.life)
	for o := range outcomes(out) {
		assert.True(t, o.InUse, "%+v", o)
	}
	require.NoError(t, process.Wait())
}
