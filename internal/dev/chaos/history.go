package main

import (
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// history is what the service carried out, whether or not anybody got the answer.
type history struct {
	onlyCreates bool // of a long run

	mu      sync.Mutex
	created int
	updates map[int64][]served // by note
	changes map[int64][]served // updates, signatures and deletions, by note
	looks   map[int64][]served // reads of callers, by note
}

// served is an update that the service carried out.
type served struct {
	requestID  string
	began, end time.Time
	call       string    // of which caller's call
	sent       time.Time // by the caller
}

// observe is told of every request once it was served.
func (h *history) observe(r clinicaldoctest.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case r.Route == clinicaldoctest.RouteCreateNote && r.Status == http.StatusCreated:
		h.created++
	case !h.onlyCreates && r.Status == http.StatusOK:
		h.keep(r)
	}
}

// keep notes what concerns one note, of those callers that can be told.
func (h *history) keep(r clinicaldoctest.Request) {
	id, err := strconv.ParseInt(path.Base(strings.TrimSuffix(r.Path, "/sign")), 10, 64)
	if err != nil {
		return
	}
	if h.updates == nil {
		h.updates, h.changes, h.looks = map[int64][]served{}, map[int64][]served{}, map[int64][]served{}
	}
	s := served{r.ID, r.Time, r.Time.Add(r.Duration), r.Header.Get(callHeader), sentAt(r.Header)}
	switch r.Route {
	case clinicaldoctest.RouteUpdateNote:
		h.updates[id] = append(h.updates[id], s)
		h.changes[id] = append(h.changes[id], s)
	case clinicaldoctest.RouteSignNote, clinicaldoctest.RouteDeleteNote:
		if s.call != "" {
			h.changes[id] = append(h.changes[id], s)
		}
	case clinicaldoctest.RouteGetNote:
		if !s.sent.IsZero() {
			h.looks[id] = append(h.looks[id], s)
		}
	}
}

func (h *history) creates() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.created
}

// forget leaves out notes that nobody keeps a record of any more.
func (h *history) forget(notes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.created -= notes
}

// strayAfter reports whether the service carried out an update that was never answered, beside or after the given text's.
// Such a copy was held back by the network while its caller had repeated it long since; no client can call it back.
func (h *history) strayAfter(r *record, latest int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	answered := map[string]bool{}
	for _, t := range r.texts {
		answered[t.requestID] = true
	}
	var began time.Time
	for _, s := range h.updates[r.id] {
		if last := r.texts[latest]; s.requestID == last.requestID || last.call != "" && s.call == last.call {
			began = s.began
			break
		}
	}
	for _, s := range h.updates[r.id] {
		if !answered[s.requestID] && !began.IsZero() && s.end.After(began) {
			return true
		}
	}
	return false
}
