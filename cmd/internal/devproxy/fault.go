package devproxy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
)

// everyRoute stands for all routes on the command line and in controls.
const everyRoute = "*"

// fault is a fault and the route it strikes; "" is every route.
type fault struct {
	route string
	clinicaldoctest.Fault
}

// parseFault reads ROUTE:KIND[=ARGUMENT][:HOW OFTEN].
func parseFault(spec string) (fault, error) {
	route, kind, found := strings.Cut(spec, ":")
	if !found {
		return fault{}, errors.New("a fault is ROUTE:KIND[=ARGUMENT][:HOW OFTEN]")
	}
	if route == everyRoute {
		route = ""
	} else if !slices.Contains(clinicaldoctest.Routes(), route) {
		return fault{},
			fmt.Errorf(
				"no such route; use * for all routes, or one of\n  %s", strings.Join(clinicaldoctest.Routes(), "\n  "),
			)
	}
	f, err := clinicaldoctest.ParseFault(kind)
	return fault{route, f}, err
}

// boxKinds are the kinds of faults that need a service whose notes, past and future can be changed.
var boxKinds = []string{"arrive", "lagging", "vanish"}

// onlyInTheBox refuses a fault that a real service cannot be made to have.
func (f fault) onlyInTheBox() error {
	kind, often, _ := strings.Cut(f.String(), ":")
	name, _, _ := strings.Cut(kind, "=")
	if slices.Contains(boxKinds, name) || strings.Contains(":"+often, ":commit=") {
		return fmt.Errorf("%s is available only from the local server, not from a real service", f)
	}
	if f.route == clinicaldoctest.RouteAudio {
		return fmt.Errorf(
			"%s is available only from the local server: requests to a real service's storage do not pass through here",
			f.route,
		)
	}
	return nil
}

// shownFault is an injected fault as a page shows it.
type shownFault struct {
	ID     int    `json:"id"`
	Route  string `json:"route"`
	Fault  string `json:"fault"`
	Struck int    `json:"struck"`
}

// shownFaults returns the faults that can still strike.
func shownFaults(srv *clinicaldoctest.Server) []shownFault {
	list := []shownFault{}
	for _, f := range srv.Faults() {
		if !f.Spent {
			list = append(list, shownFault{f.ID, f.Route, f.Fault.String(), f.Struck})
		}
	}
	return list
}

// faultControls are the controls of faults, the same for the box and on the way to a real service.
func faultControls(srv *clinicaldoctest.Server, accept func(fault) error) map[string]control {
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
			if err := accept(f); err != nil {
				return nil, err
			}
			srv.Inject(f.route, f.Fault)
			return shownFaults(srv), nil
		},
		"DELETE faults": func(body []byte) (any, error) {
			wanted, err := decode[struct {
				ID int `json:"id"`
			}](body)
			switch {
			case err != nil:
				return nil, err
			case wanted.ID != 0:
				srv.RemoveFault(wanted.ID)
			default:
				srv.ClearFaults()
			}
			return shownFaults(srv), nil
		},
		"POST fault-seed": func(body []byte) (any, error) {
			wanted, err := decode[struct {
				Seed uint64 `json:"seed"`
			}](body)
			if err == nil {
				srv.SetSeed(wanted.Seed)
			}
			return shownFaults(srv), err
		},
	}
}

// offeredKinds returns the kinds that there are, but for the named ones.
func offeredKinds(without []string) []boxlink.FaultKind {
	return slices.DeleteFunc(slices.Clone(boxlink.FaultKinds), func(k boxlink.FaultKind) bool {
		return slices.Contains(without, k.Name)
	})
}
