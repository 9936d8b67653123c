package main

import (
	"net/http"
	"path"
	"strconv"
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
}

// served is an update that the service carried out.
type served struct {
	requestID  string
	began, end time.Time
}

// observe is told of every request once it was served.
func (h *history) observe(r clinicaldoctest.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case r.Route == clinicaldoctest.RouteCreateNote && r.Status == http.StatusCreated:
		h.created++
	case r.Route == clinicaldoctest.RouteUpdateNote && !h.onlyCreates && r.Status == http.StatusOK:
		id, err := strconv.ParseInt(path.Base(r.Path), 10, 64)
		if err != nil {
			return
		}
		if h.updates == nil {
			h.updates = map[int64][]served{}
		}
		h.updates[id] = append(h.updates[id], served{r.ID, r.Time, r.Time.Add(r.Duration)})
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
		if s.requestID == r.texts[latest].requestID {
			began = s.began
		}
	}
	for _, s := range h.updates[r.id] {
		if !answered[s.requestID] && !began.IsZero() && s.end.After(began) {
			return true
		}
	}
	return false
}
