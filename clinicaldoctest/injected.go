package clinicaldoctest

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
)

// Inject applies a fault to requests of a route. The route is one of the Route
// constants, or "" for all of them, including storage. If several faults match a
// request, the one injected first applies, and later ones do not count the
// request. Inject panics if the route is unknown.
func (s *Server) Inject(route string, f Fault) {
	if route != "" && !slices.Contains(Routes(), route) {
		panic(fmt.Sprintf("clinicaldoctest: no route %q", route))
	}
	s.state().faults.add(route, f)
}

// InjectedFault is a fault that was injected and not removed.
type InjectedFault struct {
	ID    int // for [Server.RemoveFault]
	Route string
	Fault Fault // as it was injected
	// Struck is the number of requests to which it applied. Spent reports that
	// it will not apply again.
	Struck int
	Spent  bool
}

// Faults returns the injected faults in the order of their injection.
func (s *Server) Faults() []InjectedFault { return s.state().faults.list() }

// RemoveFault removes one fault. It does nothing if there is no fault with that
// ID.
func (s *Server) RemoveFault(id int) { s.state().faults.remove(id) }

// ClearFaults removes all faults.
func (s *Server) ClearFaults() { s.state().faults.clear() }

// SetSeed sets the seed of [Fault.Rate]. Faults with a rate start again, and count
// requests from zero.
func (s *Server) SetSeed(seed uint64) { s.state().faults.setSeed(seed) }

// receiver reads a request and returns what it is to do.
type receiver func(http.ResponseWriter, *http.Request) effect

// withFaults serves a request. If a fault applies to it, the fault decides whether and how serve is called. A fault
// with CommitAfter calls receive instead, which may be nil.
func (s *state) withFaults(
	route string, w http.ResponseWriter, r *http.Request, receive receiver, serve http.HandlerFunc,
) {
	fault := s.faults.next(route)
	if fault == nil {
		serve(w, r)
		return
	}
	if recorder, ok := w.(interface{ Struck(fault string) }); ok {
		recorder.Struck(fault.Fault.kindAndArgument())
	}
	if fault.Fault.header != nil {
		w = &headerWriter{ResponseWriter: w, header: fault.Fault.header}
	}
	if fault.Fault.commits && receive != nil {
		effect := receive(unsentWriter{header: http.Header{}}, r)
		s.commitLater(effect, fault.Fault.commitAfter)
		// Whatever the fault does with the request: it is carried out later, not now.
		serve = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	}
	faultKinds()[fault.Fault.kind].strike(strike{fault, s, w, r, serve})
}

type faultList struct {
	mu       sync.Mutex
	seed     uint64
	lastID   int
	streams  uint64 // of randomness, given out since there was no fault
	injected []*armedFault
}

// armedFault is an injected fault and what has come of it.
type armedFault struct {
	InjectedFault
	seen    int        // requests to its route that no fault before it struck
	random  *rand.Rand // its own
	limiter limiter    // of a throttle
}

// add arms the fault for the route. A fault that strikes 0 times is spent at once.
func (l *faultList) add(route string, f Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastID++
	l.injected = append(l.injected, &armedFault{
		InjectedFault: InjectedFault{ID: l.lastID, Route: route, Fault: f, Spent: f.times == 0}, random: l.newRand(),
	})
}

// newRand returns a fault's own random numbers, so that no fault's rate depends on another's.
func (l *faultList) newRand() *rand.Rand {
	l.streams++
	return rand.New(rand.NewPCG(l.seed, l.streams)) //nolint:gosec // chance that can be had again
}

func (l *faultList) list() []InjectedFault {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []InjectedFault
	for _, f := range l.injected {
		list = append(list, f.InjectedFault)
	}
	return list
}

func (l *faultList) remove(id int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.injected = slices.DeleteFunc(l.injected, func(f *armedFault) bool { return f.ID == id })
}

func (l *faultList) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.injected = nil
	l.streams = 0
}

// setSeed begins the random numbers of every fault again. A fault with a rate also counts its requests from zero.
func (l *faultList) setSeed(seed uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seed = seed
	l.streams = 0
	for _, f := range l.injected {
		f.random = l.newRand()
		if f.Fault.rate >= 0 {
			f.seen = 0
		}
	}
}

// next returns the fault that strikes a request to route, or nil.
func (l *faultList) next(route string) *armedFault {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.injected {
		isMeant := f.Route == "" || f.Route == route
		if !f.Spent && isMeant && f.strikes() {
			f.Struck++
			f.Spent = f.Fault.times > 0 && f.Struck >= f.Fault.times
			return f
		}
	}
	return nil
}

// strikes counts a request, and reports whether the fault applies to it.
func (f *armedFault) strikes() bool {
	f.seen++
	number := f.seen - f.Fault.skip // of the request, from 1 on, after those that pass
	if number <= 0 {
		return false
	}
	if f.Fault.every > 0 && number%f.Fault.every != 0 {
		return false
	}
	return f.Fault.rate < 0 || f.random.Float64() < f.Fault.rate
}
