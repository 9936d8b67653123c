package devproxy

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
	"github.com/clinicaldoc/clinicaldoc-go/internal/description"
)

// wayState is what can be seen of the way to a real service and changed.
type wayState struct {
	Mode       string              `json:"mode"`
	Upstream   string              `json:"upstream"`
	Bodies     bool                `json:"bodies"` // bodies are shown, with patients' data
	Routes     []string            `json:"routes"`
	Kinds      []boxlink.FaultKind `json:"fault_kinds"`
	Faults     []shownFault        `json:"faults"`
	Departures []departure         `json:"departures"`
}

func (w *way) state() any {
	return wayState{
		Mode: "upstream", Bodies: w.showBodies, Upstream: w.upstream.Scheme + "://" + w.upstream.Host,
		Routes: slices.Sorted(maps.Keys(description.Endpoints)), Kinds: offeredKinds(boxKinds),
		Faults: shownFaults(w.faults), Departures: w.departures.list(),
	}
}

func (w *way) routes() map[string]control { return faultControls(w.faults, fault.onlyInTheBox) }

// look finds nothing: a real service's notes are not looked into.
func (w *way) look() {}

// names are what the list's query parameters are likely called.
func (w *way) names() clinicaldoctest.QueryNames { return w.faults.Variant().Query }

// replay asks no real service: a click must not make a second note.
func (w *way) replay(context.Context, *request, edited) error {
	return errors.New("requests to a real service are not sent again: copy them as curl instead")
}
