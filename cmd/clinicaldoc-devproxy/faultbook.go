package main

import (
	"errors"
	"slices"
	"sync"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// faultBook knows which faults were injected into a server and how often each can still strike.
type faultBook struct {
	server *clinicaldoctest.Server

	mu     sync.Mutex
	lastID int64
	faults []*bookedFault
}

type bookedFault struct {
	ID    int64  `json:"id"`
	Route string `json:"route"` // "": every route
	Spec  string `json:"spec"`
	Kind  string `json:"kind"`
	Left  int    `json:"left"` // -1: for ever

	fault clinicaldoctest.Fault
}

func (b *faultBook) add(f fault) *bookedFault {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lastID++
	booked := &bookedFault{ID: b.lastID, Route: f.route, Spec: f.spec, Kind: f.String(), Left: f.times, fault: f.Fault}
	b.faults = append(b.faults, booked)
	b.server.Inject(f.route, f.Fault)
	return booked
}

// struck notes that a fault has struck: of several that fit, the one injected first.
func (b *faultBook) struck(route, kind string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, f := range b.faults {
		if f.Kind != kind || f.Route != "" && f.Route != route || f.Left == 0 {
			continue
		}
		if f.Left > 0 {
			f.Left--
		}
		if f.Left == 0 {
			b.faults = slices.Delete(b.faults, i, i+1)
		}
		return
	}
}

// remove takes a fault back.
func (b *faultBook) remove(id int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.faults, func(f *bookedFault) bool { return f.ID == id })
	if i < 0 {
		return errors.New("no such fault, or it has struck as often as it was to")
	}
	b.faults = slices.Delete(b.faults, i, i+1)
	b.server.ClearFaults()
	for _, f := range b.faults {
		again := f.fault
		if f.Left > 0 {
			again = again.Times(f.Left)
		}
		b.server.Inject(f.Route, again)
	}
	return nil
}

func (b *faultBook) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = nil
	b.server.ClearFaults()
}

// list returns the faults that can still strike.
func (b *faultBook) list() []bookedFault {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := []bookedFault{}
	for _, f := range b.faults {
		list = append(list, *f)
	}
	return list
}

// routes are the controls of faults, the same for the box and on the way to a real service.
func (b *faultBook) routes() map[string]control {
	return map[string]control{
		"POST faults": func(body []byte) (any, error) {
			wanted, err := decode[struct {
				Fault string `json:"fault"`
			}](body)
			if err != nil {
				return nil, err
			}
			f, err := parseFault(wanted.Fault)
			if err != nil {
				return nil, err
			}
			return b.add(f), nil
		},
		"DELETE faults": func(body []byte) (any, error) {
			wanted, err := decode[struct {
				ID int64 `json:"id"`
			}](body)
			switch {
			case err != nil:
				return nil, err
			case wanted.ID != 0:
				return b.list(), b.remove(wanted.ID)
			}
			b.clear()
			return b.list(), nil
		},
	}
}
