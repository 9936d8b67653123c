package faultmatrix

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// setting is how a row sets up its world; zero fields have defaults.
type setting struct {
	policy      clinicaldoc.RetryPolicy
	stall       time.Duration
	maxResponse int64
	asked       time.Duration // the wait that the service asks for
	secure      bool          // home and storage speak TLS
	variant     func(elsewhere string) clinicaldoctest.Variant
	retrying    func(http.RoundTripper) http.RoundTripper // a transport of the caller's around the plain one
	pings       time.Duration                             // of the caller's HTTP/2; 0: none
	rows        int                                       // notes of the patient
	sort        clinicaldoc.Sort
}

var (
	quickly   = clinicaldoc.RetryPolicy{MaxRetries: 3, MinWait: time.Millisecond, MaxWait: 2 * time.Millisecond}
	onceAgain = clinicaldoc.RetryPolicy{MaxRetries: 1, MinWait: time.Millisecond, MaxWait: 2 * time.Millisecond}
)

// world is one cell's own: a box, the fronts before it, another origin, and a client.
type world struct {
	setting
	fault fault
	op    operation

	box                      *clinicaldoctest.Server
	home, storage, elsewhere *front
	client                   *clinicaldoc.Client
	outer                    *http.Transport // from the client to the fronts
	over                     chan struct{}   // closed when the cell ends

	secret    string // the token in use
	user      clinicaldoctest.User
	token     clinicaldoctest.Token // one to revoke
	notes     []int64
	note      int64 // the one that operations work on
	recording []byte
	exported  atomic.Int32 // calls of the endpoint that only Do can reach
	guard     []clinicaldoc.CallOption
	pages     atomic.Int32 // list requests so far
	agreed    atomic.Int32 // calls of BeforeCommit
	premature atomic.Bool  // a note was there when BeforeCommit ran

	mu       sync.Mutex
	traffic  traffic
	armed    bool
	passed   int // requests to the target before the fault
	struck   int
	dialed   map[string]bool // own addresses of the cell's connections
	vanished map[int64]bool
}

// traffic is what was seen of the client.
type traffic struct {
	dials    int
	strayed  bool // to the other origin; what comes there may be of another process that had the port before
	attempts []clinicaldoc.Attempt
	log      string
}

// soFar is the traffic until now.
func (w *world) soFar() traffic {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.traffic
}

func newWorld(t *testing.T, f fault, op operation) *world {
	t.Helper()
	w := &world{setting: f.setting, fault: f, op: op, over: make(chan struct{}), dialed: map[string]bool{}}
	w.policy = cmp.Or(w.policy, quickly)
	w.stall = cmp.Or(w.stall, untimed)
	w.maxResponse = cmp.Or(w.maxResponse, 64<<20)
	w.secure = w.secure || f.frames != nil
	w.home, w.storage, w.elsewhere = newFront(t, w, w.secure), newFront(t, w, w.secure), newFront(t, w, false)
	variant := clinicaldoctest.Variant{}
	if w.variant != nil {
		variant = w.variant(w.elsewhere.url)
	}
	w.box = clinicaldoctest.NewServer(clinicaldoctest.InProcess(), clinicaldoctest.WithVariant(variant))
	w.seed()
	w.newClient(t)
	w.armed = f.warm == nil && !op.guarded
	for _, front := range []*front{w.home, w.storage, w.elsewhere} {
		front.start()
	}
	return w
}

func (w *world) close() {
	close(w.over)
	w.outer.CloseIdleConnections()
	for _, front := range []*front{w.home, w.storage, w.elsewhere} {
		front.stop()
	}
	w.box.Close()
}

// seed fills the box with plainly synthetic records that all carry the canary.
func (w *world) seed() {
	w.user = w.box.AddUser(clinicaldoctest.User{Name: canary + " user", Email: canary + "@example.test", Token: canary + "-token-0001"})
	w.secret = w.user.Token
	w.token = w.box.AddToken(w.user.ID, canary+" device")
	w.box.AddPatient(clinicaldoctest.Patient{ID: patientID, Name: canary + " patient"})
	w.recording = tape()[:1<<10]
	if w.op.kind == storage {
		w.recording = tape()[:48<<10]
	}
	for range max(w.rows, 3) {
		w.notes = append(w.notes, w.box.AddNote(clinicaldoctest.Note{
			UserID: w.user.ID, PatientID: patientID, Name: canary + " note", Transcription: canary + " words", Analysis: canary + " thoughts",
			Stage: clinicaldoctest.StageComplete, Audio: w.recording, CreatedAt: time.Now().Add(-48 * time.Hour),
		}))
	}
	w.note = w.notes[0]
}

func (w *world) newClient(t *testing.T) {
	t.Helper()
	w.outer = &http.Transport{
		DialContext: w.dial, ExpectContinueTimeout: untimed, MaxIdleConnsPerHost: 8, MaxResponseHeaderBytes: 64 << 10,
		TLSClientConfig: clientTLS(), ForceAttemptHTTP2: w.fault.frames != nil,
	}
	if w.pings > 0 {
		w.outer.HTTP2 = &http.HTTP2Config{SendPingTimeout: w.pings, PingTimeout: w.pings}
	}
	transport := http.RoundTripper(w.outer)
	if w.retrying != nil {
		transport = w.retrying(transport)
	}
	var err error
	w.client, err = clinicaldoc.NewClient(w.home.url, w.secret,
		clinicaldoc.WithHTTPClient(&http.Client{Transport: transport}),
		clinicaldoc.WithRetry(w.policy),
		clinicaldoc.WithStallTimeout(w.stall),
		clinicaldoc.WithMaxResponseSize(w.maxResponse),
		clinicaldoc.WithHooks(clinicaldoc.Hooks{AttemptEnd: w.observe}),
		clinicaldoc.WithLogger(slog.New(slog.NewJSONHandler(lockedWriter{w}, &slog.HandlerOptions{Level: slog.LevelDebug}))),
	)
	require.NoError(t, err)
}

// socketBuffer is small, so that what lies in buffers on the way cannot be taken for delivered.
const socketBuffer = 64 << 10

// dial reaches the fronts. Any other name leads to the other origin, so that asking it is noticed; refused dials go to a
// port where nobody listens.
func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if host, _, _ := net.SplitHostPort(address); strings.HasSuffix(host, ".test") {
		address = w.elsewhere.listener.Addr().String()
	}
	if w.fault.refused && address == w.target().listener.Addr().String() && w.strikes() {
		address = "127.0.0.1:1" // where nobody listens
	}
	w.mu.Lock()
	w.traffic.dials++
	w.traffic.strayed = w.traffic.strayed || address == w.elsewhere.listener.Addr().String()
	w.mu.Unlock()
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		w.mu.Lock()
		w.dialed[conn.LocalAddr().String()] = true
		w.mu.Unlock()
	}
	if tcp, is := conn.(*net.TCPConn); is && err == nil {
		_, _ = tcp.SetWriteBuffer(socketBuffer), tcp.SetReadBuffer(socketBuffer)
	}
	return conn, err
}

// target is the front that the fault is at.
func (w *world) target() *front {
	if w.op.kind == storage {
		return w.storage
	}
	return w.home
}

// strikes counts what comes to the target and tells whether the fault strikes it.
func (w *world) strikes() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.armed {
		return false
	}
	if w.passed < w.fault.skip(w.op) {
		w.passed++
		return false
	}
	if w.fault.times != forEver && w.struck >= max(w.fault.times, 1) {
		return false
	}
	w.struck++
	return true
}

// warmUp makes a call on the connection that the operation will find in the pool.
func (w *world) warmUp(ctx context.Context) {
	if w.fault.warm == nil {
		return
	}
	for range 5 { // on a busy machine a call may stall before it arrives
		var err error
		if w.op.kind == storage {
			_, err = w.client.Notes.DownloadAudio(ctx, w.notes[1], io.Discard, clinicaldoc.DownloadParams{})
		} else {
			_, err = w.client.Users.Me(ctx)
		}
		if err == nil {
			break
		}
	}
	select {
	case <-w.target().warmed:
	case <-ctx.Done():
	}
	w.mu.Lock()
	w.armed, w.traffic.attempts = true, nil
	w.mu.Unlock()
}

func (w *world) observe(_ context.Context, a clinicaldoc.Attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.Number > 0 { // else no request was sent
		w.traffic.attempts = append(w.traffic.attempts, a)
	}
	if a.Err != nil {
		w.traffic.log += fmt.Sprintf("%+v\n", a.Err)
	}
}

type lockedWriter struct{ w *world }

func (l lockedWriter) Write(p []byte) (int, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.w.traffic.log += string(p)
	return len(p), nil
}

func (s traffic) attemptsOf(op operation) int {
	n := 0
	for _, a := range s.attempts {
		if a.Operation == op.sdk && a.Method == op.method {
			n++
		}
	}
	return n
}

// received is the most that was kept of an answer of the service.
func (s traffic) received() int64 {
	most := int64(0)
	for _, a := range s.attempts {
		if a.Operation != "Notes.DownloadAudio" {
			most = max(most, a.BytesReceived)
		}
	}
	return most
}

// isOwn reports whether the connection is the cell's own. Another process may still reach for a port that it knew before.
func (w *world) isOwn(conn net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dialed[conn.RemoteAddr().String()]
}

// count counts notes in the box.
func (w *world) count(which func(clinicaldoctest.Note) bool) int {
	n := 0
	for _, note := range w.box.Notes() {
		if which(note) {
			n++
		}
	}
	return n
}

// revoked asks the box itself whether the token is gone.
func (w *world) revoked() int {
	a := w.forward(http.MethodGet, "/v1/auth/tokens", http.Header{"Authorization": {"Bearer " + w.secret}, "Accept": {"application/json"}}, nil)
	var list struct{ Tokens []struct{ ID int64 } }
	if err := json.Unmarshal(a.body, &list); err != nil {
		return -1
	}
	for _, token := range list.Tokens {
		if token.ID == w.token.ID {
			return 0
		}
	}
	return 1
}

// arrived lists the requests that came to any front.
func (w *world) arrived() []arrival {
	var all []arrival
	for _, front := range []*front{w.home, w.storage, w.elsewhere} {
		all = append(all, front.arrivals()...)
	}
	return all
}

// targetTimes lists when the operation's requests came, wherever a redirect sent them.
func (w *world) targetTimes() []time.Time {
	var times []time.Time
	for _, seen := range w.target().arrivals() {
		if !seen.warm && seen.method == w.op.method && w.isTarget(strings.TrimPrefix(seen.path, movedPrefix)) {
			times = append(times, seen.at)
		}
	}
	return times
}

// isTarget tells whether a path is the operation's. Recordings have names of the box's choosing.
func (w *world) isTarget(path string) bool {
	want := w.op.path(w)
	return path == want || w.op.kind == storage && strings.HasPrefix(path, want)
}

// tape is a recording of which every place can be told from the others; cells use as much of it as they need.
var tape = sync.OnceValue(func() []byte {
	b := make([]byte, announcedSize)
	for at := range b {
		b[at] = byte(at ^ at>>8 ^ at>>16)
	}
	return b
})
