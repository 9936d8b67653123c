package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// call is one call of the SDK, and all that happened because of it.
type call struct {
	program     *program
	step        int
	op          string
	note        int64                     // that it is about
	fact        *fact                     // of that note, when the call began; nil: there never was one
	fingerprint string                    // of the recording
	wish        string                    // that the call is about
	foreign     bool                      // it asks as somebody whose lists show other notes
	unchanged   *clinicaldoc.ProgressNote // as the program read it
	readAt      time.Time                 // when that was
	began       time.Time
	limit       time.Duration // the context's; 0: none
	token       string
	parallel    bool                  // it asks for several things at once
	pause       time.Duration         // that it promises before each request but the first; 0: none
	stage       clinicaldoctest.Stage // of the note when it began

	knowledge

	mu         sync.Mutex
	begun      int // lists that it began to ask for
	requests   int
	heardAt    time.Time // when its latest request came to an end
	writes     int
	faults     int           // that it met
	fault      faultKind     // that its latest request met; -1: none
	cuts       int           // of its uploads
	breaks     int           // of what storage sent
	shifted    bool          // storage has begun a part at another place than it was asked for
	barred     bool          // a write was refused in a way that does not pass
	bloated    bool          // it was shown a list of far too many rows
	named      int64         // the note of a response that cannot be used
	lastPage   int           // the highest page that it asked for
	travelled  time.Duration // how long requests were under way
	observed   []observation
	useless    []*fact // notes whose addresses it was given and cannot use
	firstWrite time.Time
	shownAt    time.Time
	texts      map[int64]texts    // of the notes, as reads showed them last
	showed     texts              // what the latest read showed that came back since the latest write
	acts       []change           // what the service did because of it
	born       int64              // the note that it made
	notBefore  map[bool]time.Time // the service, or its storage, asked for a pause until then

	limits, limitedWrites int // requests that a limit refused

	trail []clinicaldoc.Access // what the audit function was told
	got   map[audited]bool     // what the program got

	over   bool
	denied bool // the SDK said that nothing was done
}

type texts struct {
	Name          string `json:"name"`
	Transcription string `json:"transcription"`
	Analysis      string `json:"analysis"`
	Has           *flags `json:"has"`
}

type flags struct{ Content, Transcription, Signed bool }

// sameTexts compares all but flags.
func (t texts) sameTexts(note *clinicaldoc.ProgressNote) bool {
	return t.Name == note.Name && t.Transcription == note.Transcription && t.Analysis == note.Analysis
}

func (t texts) signed() bool { return t.Has != nil && t.Has.Signed }

func (t texts) incomplete() bool { return t.Has != nil && (!t.Has.Content || !t.Has.Transcription) }

// knowledge is what a call has learned of its note.
type knowledge struct {
	doubtful bool      // a write may have had its effect, for all the SDK can know
	looked   bool      // a read came back since
	lookedAt time.Time // how old what it showed is at most
}

// knows is what the call knows when it sends a request, which may be carried out much later.
func (c *call) knows() knowledge {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.knowledge
}

// observation is an error as an observer saw it.
type observation struct {
	err  error
	text string
}

func observe(err error) observation {
	text := fmt.Sprint(err, errors.Is(err, clinicaldoc.ErrNoteIncomplete))
	if refused, ok := errors.AsType[*clinicaldoc.Error](err); ok {
		text += refused.Message
	}
	return observation{err, text}
}

type callKey struct{}

func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// asked counts a request, and returns the number of the attempt if it writes.
func (c *call) asked(r request, w *world) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.checkFlood()
	if r.path == loginPath {
		return 0 // where a redirect led, and no attempt of its own
	}
	if pause := time.Since(c.heardAt); c.requests > 0 && pause < c.pause {
		w.violate("flood", "%s asks again after a pause of %s", c.op, pause)
	}
	c.requests++
	if query, err := url.ParseQuery(r.query); err == nil && r.lists() {
		page, _ := strconv.Atoi(query.Get("page"))
		c.lastPage = max(c.lastPage, page)
	}
	if time.Now().Before(c.notBefore[r.storage]) && !c.parallel {
		w.violate("flood", "%s does not heed Retry-After", c.op)
	}
	if !r.writes() {
		return 0
	}
	switch {
	case c.barred:
		w.violate("flood", "%s is retried although it was refused for good", c.op)
	case c.op == "sign" && c.looked && c.writes > 0 && c.showed.incomplete():
		w.violate("flood", "a note is signed that was shown to be incomplete")
	case c.op == "create" && c.cuts > 1:
		w.violate("flood", "an upload is made once more that was cut %d times", c.cuts)
	}
	c.writes++
	if c.writes == 1 {
		c.firstWrite = time.Now()
	}
	return c.writes
}

// start counts the lists that the call asks for, also those that it gives up before a request is sent.
func (c *call) start(operation string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if operation == "Notes.List" {
		c.begun++
	}
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
func (c *call) responded(t trip, resp *http.Response, err error, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := t.request
	c.travelled += took
	c.heardAt = time.Now()
	if c.fault = t.fault; t.fault >= 0 {
		c.faults++
	}
	if c.op == "find" && err == nil {
		resp.Body = weighed{resp.Body, t.world}
	}
	if err == nil && resp.StatusCode == http.StatusTooManyRequests {
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		c.notBefore[r.storage] = time.Now().Add(time.Duration(seconds) * time.Second)
		c.countLimit(r)
	}
	if !r.writes() {
		harmless := []faultKind{slow, oddPart, mixedUp, bloated, queued} // which leave the texts of a read as they are
		readable := t.fault < 0 || t.spared || slices.Contains(harmless, t.fault)
		if r.id() != 0 && err == nil && resp.StatusCode == http.StatusOK && readable {
			c.looked, c.lookedAt, c.showed = true, c.shownAt, c.texts[r.id()]
		}
		return
	}
	c.showed = texts{}
	if t.fault == cut && err != nil {
		c.cuts++
	}
	c.barred = t.fault == barred && err == nil && !c.parallel
	if t.fault == garbled && err == nil && r.method == http.MethodPost && resp.StatusCode < 300 {
		c.named = c.born
	}
	certain := t.fault == refused || t.fault == cut && err != nil && c.op == "create" || err == nil && resp.StatusCode >= 400 && resp.StatusCode < 500 && resp.StatusCode != http.StatusRequestTimeout
	if !certain {
		c.doubtful, c.looked = true, false
	}
}

// countLimit counts a request that a limit of the service refused.
func (c *call) countLimit(r request) {
	if r.storage {
		return
	}
	c.limits++
	if r.writes() {
		c.limitedWrites++
	}
}

// weighed is a response's body of which the bytes are counted.
type weighed struct {
	io.ReadCloser
	world *world
}

func (b weighed) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.world.count("bytes of find", n)
	return n, err
}

// broken counts a response of storage that breaks off.
func (c *call) broken() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.breaks++
}

// misplaced reports whether the next part that storage sends is the wrong one: the first is.
func (c *call) misplaced() (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first, c.shifted = !c.shifted, true
	return first
}

// begin makes a call of the program's.
func (p *program) begin(op string) *call {
	p.world.count("calls "+op, 1)
	return &call{program: p, step: p.step, op: op, token: p.token, began: time.Now(), texts: map[int64]texts{}, notBefore: map[bool]time.Time{}, got: map[audited]bool{}, fault: -1}
}

// latestFault is the one that the call's latest request met; -1: none, or it asks for several things at once.
func (c *call) latestFault() faultKind {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parallel {
		return -1
	}
	return c.fault
}

// on says which note the call is about.
func (c *call) on(id int64) *call {
	c.note, c.fact, c.stage = id, c.program.world.service.fact(id), c.program.world.service.look(id).Stage
	return c
}

// context is the call's own.
func (c *call) context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = context.WithValue(c.program.context(ctx), callKey{}, c)
	if c.limit == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.limit)
}
