package devproxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	keptEvents    = 2048
	beatInterval  = 15 * time.Second
	notesInterval = 250 * time.Millisecond
	writeTimeout  = 5 * time.Second
	batchPause    = 50 * time.Millisecond // what comes meanwhile is written together
	maxBatch      = 200                   // requests in one event
)

// events are what pages are told as it happens. Each page reads at its own pace from the same ring. A page that
// falls behind starts over, so no page can slow another down or make the process grow.
type events struct {
	mu      sync.Mutex
	ring    []event // the last ones, oldest first
	last    int64   // number of the newest
	pages   map[chan struct{}]bool
	closing chan struct{}
	close   func()
}

type event struct {
	kind string
	id   int64 // of a request
	data []byte
}

func newEvents() *events {
	// not a number of an earlier run
	e := &events{pages: map[chan struct{}]bool{}, closing: make(chan struct{}), last: time.Now().UnixMicro()}
	e.close = sync.OnceFunc(func() { close(e.closing) })
	return e
}

// publish tells every page. What nobody watches costs nothing: a page that comes later starts over anyhow.
func (e *events) publish(kind string, content any) {
	e.mu.Lock()
	watched := len(e.pages) > 0
	e.mu.Unlock()
	var data []byte
	if watched {
		data, _ = json.Marshal(content) // of own types, which can be encoded
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	if data == nil {
		e.ring = nil
		return
	}
	if len(e.ring) >= keptEvents {
		e.ring = append(e.ring[:0], e.ring[keptEvents/4:]...)
	}
	about := event{kind: kind, data: data}
	if r, isRequest := content.(*request); isRequest {
		about.id = r.ID
	}
	e.ring = append(e.ring, about)
	for wake := range e.pages {
		select {
		case wake <- struct{}{}:
		default: // it is awake
		}
	}
}

// watch registers a page; the caller calls the returned function when the page is gone.
func (e *events) watch() (wake chan struct{}, leave func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	wake = make(chan struct{}, 1)
	e.pages[wake] = true
	return wake, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.pages, wake)
	}
}

// since returns what came after an event as it is written to a page, and the number of the newest.
func (e *events) since(seen int64) (text []byte, last int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	oldest := e.last - int64(len(e.ring)) // the one before the ring
	if seen < oldest || seen > e.last {
		return fmt.Appendf(nil, "event: reset\nid: %d\ndata: {}\n\n", e.last), e.last
	}
	var batch [][]byte
	at := map[int64]int{} // in the batch, by request
	number := seen
	flush := func() {
		if len(batch) > 0 {
			text = fmt.Appendf(text, "event: requests\nid: %d\ndata: [%s]\n\n", number, bytes.Join(batch, []byte(",")))
		}
		batch = nil
		clear(at)
	}
	for _, event := range e.ring[seen-oldest:] {
		i, again := at[event.id]
		switch {
		case event.kind != "request":
			flush()
			text = fmt.Appendf(text, "event: %s\nid: %d\ndata: %s\n\n", event.kind, number+1, event.data)
		case again: // the newer one counts
			batch[i] = event.data
		default:
			if len(batch) == maxBatch {
				flush()
			}
			at[event.id] = len(batch)
			batch = append(batch, event.data)
		}
		number++
	}
	flush()
	return text, e.last
}

// serve streams events to a page until the page goes away or the server closes. From time to time it calls look, which
// may publish events.
func (e *events) serve(w http.ResponseWriter, r *http.Request, look func()) {
	wake, leave := e.watch()
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	control := http.NewResponseController(w)
	send := func(text []byte) bool {
		// a page that does not read must not hold the handler
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
		_, err := w.Write(text)
		return err == nil && control.Flush() == nil
	}
	seen, _ := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64) // 0: it knows nothing yet, and starts over
	beat, notes := time.NewTicker(beatInterval), time.NewTicker(notesInterval)
	defer beat.Stop()
	defer notes.Stop()
	for {
		text, last := e.since(seen)
		if len(text) > 0 && !send(text) {
			return
		}
		seen = last
		select {
		case <-wake:
			time.Sleep(batchPause)
		case <-notes.C:
			look()
		case <-beat.C:
			if !send([]byte(": beat\n\n")) {
				return
			}
		case <-r.Context().Done():
			return
		case <-e.closing:
			return
		}
	}
}
