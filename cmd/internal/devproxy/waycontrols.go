package devproxy

import (
	"maps"
	"slices"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/description"
)

// wayState is what can be seen of the way to a real service and changed.
type wayState struct {
	Mode       string       `json:"mode"`
	Upstream   string       `json:"upstream"`
	Routes     []string     `json:"routes"`
	Kinds      []faultKind  `json:"fault_kinds"`
	Faults     []shownFault `json:"faults"`
	Departures []departure  `json:"departures"`
}

func (w *way) state() any {
	return wayState{
		Mode: "upstream", Upstream: w.upstream.Scheme + "://" + w.upstream.Host,
		Routes: slices.Sorted(maps.Keys(description.Endpoints)), Kinds: offeredKinds(boxKinds), Faults: shownFaults(w.faults), Departures: w.departures.list(),
	}
}

func (w *way) routes() map[string]control { return faultControls(w.faults, fault.onlyInTheBox) }

// look finds nothing: a real service's notes are not looked into.
func (w *way) look() {}
