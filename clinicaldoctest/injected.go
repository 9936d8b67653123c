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

// SetSeed sets the seed of [Fault.Rate]. Faults with a rate begin their random
// numbers again, and count requests from zero. A fault that is spent stays spent.
func (s *Server) SetSeed(seed uint64) { s.state().faults.setSeed(seed) }

// receiver reads a request and returns its effect, which it does not carry out.
type receiver func(http.ResponseWriter, *http.Request) effect

// withFaults serves a request by serve, unless an injected fault applies to the request. Such a fault decides what the
// client gets, and whether and how serve is called.
//
// If the fault has CommitAfter, receive reads the request, and its effect is carried out later. Serve then only aborts
// the request. If receive is nil, CommitAfter has no effect.
func (s *state) withFaults(
	route string, w http.ResponseWriter, r *http.Request, receive receiver, serve http.HandlerFunc,
) {
	armed := s.faults.next(route)
	if armed == nil {
		serve(w, r)
		return
	}
	fault := armed.Fault
	if recorder, ok := w.(interface{ Struck(fault string) }); ok {
		recorder.Struck(fault.kindAndArgument())
	}
	if fault.header != nil {
		w = &headerWriter{ResponseWriter: w, header: fault.header}
	}
	if fault.commits && receive != nil {
		effect := receive(unsentWriter{header: http.Header{}}, r)
		s.commitLater(effect, fault.commitAfter)
		serve = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	}
	faultKinds()[fault.kind].strike(strike{armed, s, w, r, serve})
}

type faultList struct {
	mu       sync.Mutex
	seed     uint64
	lastID   int
	streams  uint64 // streams of random numbers that faults have got since the last clear or setSeed
	injected []*armedFault
}

// armedFault is an injected fault, and what it needs to decide whether it strikes.
type armedFault struct {
	InjectedFault
	seen    int        // requests to its route that no fault before it struck
	random  *rand.Rand // for its rate; no other fault uses it
	limiter limiter    // counts the requests of a throttle
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
	return rand.New(rand.NewPCG(l.seed, l.streams)) //nolint:gosec // it has to be repeatable
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

// setSeed begins the random numbers of every fault again. A fault with a rate also counts its requests from zero, so it
// strikes the same requests again. Other faults do not depend on the seed, and go on.
func (l *faultList) setSeed(seed uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seed = seed
	l.streams = 0
	for _, f := range l.injected {
		f.random = l.newRand()
		if f.Fault.hasRate() {
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
	number := f.seen - f.Fault.skip // of this request, without those that After lets pass
	isPassed := number <= 0
	isBetween := f.Fault.every > 0 && number%f.Fault.every != 0
	if isPassed || isBetween {
		return false
	}
	return !f.Fault.hasRate() || f.random.Float64() < f.Fault.rate
}
