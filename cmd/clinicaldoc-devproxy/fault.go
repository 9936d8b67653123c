package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// fault is a fault and the route it strikes.
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
	if !slices.Contains(clinicaldoctest.Routes(), route) {
		return fault{}, fmt.Errorf("no such route; there are\n  %s", strings.Join(clinicaldoctest.Routes(), "\n  "))
	}
	f, err := clinicaldoctest.ParseFault(kind)
	return fault{route, f}, err
}
