package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// call is one call of the SDK, and all that happened because of it.
type call struct {
	program     *program
	step        int
	op          string
	note        int64                     // that it is about
	fingerprint string                    // of the recording
	unchanged   *clinicaldoc.ProgressNote // as the program read it
	readAt      time.Time                 // when that was
	began       time.Time
	limit       time.Duration // the context's; 0: none
	token       string
	parallel    bool // it asks for several things at once

	mu         sync.Mutex
	requests   int
	writes     int
	firstWrite time.Time
	doubtful   bool      // a write may have had its effect, for all the SDK can know
	looked     bool      // a read came back since
	lookedAt   time.Time // how old what it showed is at most
	shownAt    time.Time
	texts      map[int64]texts // of the notes, as reads showed them last
	acts       []change        // what the service did because of it
	notBefore  time.Time       // the service asked for a pause until then
	over       bool
	denied     bool // the SDK said that nothing was done
}

type texts struct {
	Name          string `json:"name"`
	Transcription string `json:"transcription"`
	Analysis      string `json:"analysis"`
}

type callKey struct{}

func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// asked counts a request, and returns the number of the attempt if it writes.
func (c *call) asked(r request, w *world) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.count("requests", 1)
	if r.path == loginPath {
		return 0 // where a redirect led, and no attempt of its own
	}
	c.requests++
	if time.Now().Before(c.notBefore) && !c.parallel {
		w.violate("flood", "%s does not heed Retry-After", c.op)
	}
	if !r.writes() {
		return 0
	}
	c.writes++
	if c.writes == 1 {
		c.firstWrite = time.Now()
	}
	return c.writes
}

// shown takes in what the service shows, which may still get lost.
func (c *call) shown(r request, resp *http.Response, asOf time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.writes() || r.id() == 0 || resp.StatusCode != http.StatusOK {
		return
	}
	c.shownAt = asOf
	body, _ := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(strings.NewReader(string(body)))
	var note struct {
		texts
		Data *texts `json:"data"`
	}
	if json.Unmarshal(body, &note) == nil {
		if note.Data != nil {
			note.texts = *note.Data
		}
		c.texts[r.id()] = note.texts
	}
}

// responded takes in what the program gets.
func (c *call) responded(r request, resp *http.Response, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && resp.StatusCode == http.StatusTooManyRequests {
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		c.notBefore = time.Now().Add(time.Duration(seconds) * time.Second)
	}
	if !r.writes() {
		if r.id() != 0 && err == nil && resp.StatusCode == http.StatusOK {
			c.looked, c.lookedAt = true, c.shownAt
		}
		return
	}
	certain := errors.Is(err, errRefused) || errors.Is(err, errCut) && c.op == "create" || err == nil && resp.StatusCode >= 400 && resp.StatusCode < 500
	if !certain {
		c.doubtful, c.looked = true, false
	}
}

// begin makes a call of the program's.
func (p *program) begin(op string) *call {
	p.world.count("calls "+op, 1)
	return &call{program: p, step: p.step, op: op, token: p.token, began: time.Now(), texts: map[int64]texts{}}
}

// context is the call's own.
func (c *call) context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = context.WithValue(c.program.context(ctx), callKey{}, c)
	if c.limit == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.limit)
}
