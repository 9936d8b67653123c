package clinicaldoctest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Inject makes requests to a route meet a fault. The route is one of the Route
// constants, or "" for all of them, the storage's included. Of several faults
// for one request the one injected first strikes. An unknown route panics.
func (s *Server) Inject(route string, f Fault) {
	if route != "" && !slices.Contains(Routes(), route) {
		panic(fmt.Sprintf("clinicaldoctest: no route %q", route))
	}
	s.keepHistory(f.lag)
	s.faults.add(route, f)
}

// InjectedFault is a fault that was injected and has not been taken back.
type InjectedFault struct {
	ID    int // for [Server.RemoveFault]
	Route string
	Fault Fault // as it was injected
	// Struck is how many requests it has struck; Spent tells that it will
	// strike no more.
	Struck int
	Spent  bool
}

// Faults returns the injected faults, the first injected first.
func (s *Server) Faults() []InjectedFault { return s.faults.list() }

// RemoveFault takes back one fault; an id that is not there is no error.
func (s *Server) RemoveFault(id int) { s.faults.remove(id) }

// ClearFaults takes back every fault injected so far.
func (s *Server) ClearFaults() { s.faults.clear() }

// SetSeed sets the seed that rates of faults follow and begins them anew.
func (s *Server) SetSeed(seed uint64) { s.faults.setSeed(seed) }

// Strike puts the faults that are injected for a route in front of a handler of
// the caller's own, such as one that passes requests on to a real service. A
// ResponseWriter with a method Struck(fault string) is told of one that strikes.
// [Lagging] and [Fault.CommitAfter] mean nothing there.
func (s *Server) Strike(route string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.withFaults(route, w, r, nil, next.ServeHTTP) })
}

// receiver reads a request and returns what it is to do.
type receiver func(http.ResponseWriter, *http.Request) effect

// withFaults serves a request through the fault meant for it, if any.
func (s *Server) withFaults(route string, w http.ResponseWriter, r *http.Request, receive receiver, serve http.HandlerFunc) {
	fault, strikes := s.faults.next(route)
	if !strikes {
		serve(w, r)
		return
	}
	if told, ok := w.(interface{ Struck(fault string) }); ok {
		told.Struck(fault.kind)
	}
	maps.Copy(w.Header(), fault.header)
	if fault.commits && receive != nil {
		s.commitLater(receive(unsentWriter{header: http.Header{}}, r), fault.commitAfter)
		serve = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	}
	fault.strike(s, w, r, serve)
}

// pause waits, and gives the request up when its client or the server goes away.
func (s *Server) pause(r *http.Request, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
		panic(http.ErrAbortHandler)
	case <-s.closing.Done():
		panic(http.ErrAbortHandler)
	}
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
	seen int // requests to its route
	draw *rand.Rand
}

func (l *faultList) add(route string, f Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastID++
	l.injected = append(l.injected, &armedFault{
		InjectedFault: InjectedFault{ID: l.lastID, Route: route, Fault: f, Spent: f.times == 0}, draw: l.stream(),
	})
}

// stream is a fault's own randomness, so that no fault's rate hangs on another's.
func (l *faultList) stream() *rand.Rand {
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
	l.injected, l.streams = nil, 0
}

func (l *faultList) setSeed(seed uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seed, l.streams = seed, 0
	for _, f := range l.injected {
		f.seen, f.draw = 0, l.stream()
	}
}

// next returns the fault that strikes a request to route.
func (l *faultList) next(route string) (Fault, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.injected {
		if !f.Spent && (f.Route == "" || f.Route == route) && f.strikes() {
			f.Struck++
			f.Spent = f.Fault.times > 0 && f.Struck >= f.Fault.times
			return f.Fault, true
		}
	}
	return Fault{}, false
}

// strikes tells whether the fault strikes the request that it sees now.
func (f *armedFault) strikes() bool {
	f.seen++
	switch past := f.seen - f.Fault.skip; {
	case past <= 0:
		return false
	case f.Fault.every > 0 && past%f.Fault.every != 0:
		return false
	default:
		return f.Fault.rate < 0 || f.draw.Float64() < f.Fault.rate
	}
}
