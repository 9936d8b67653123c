package devproxy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// maxDepartures bounds the kinds that are kept apart: a service may use data as names.
const maxDepartures = 500

// departures counts what was found about a real service's responses. The zero value is ready.
type departures struct {
	mu   sync.Mutex
	seen map[sighting]int
	all  int
}

// sighting is a finding and where it was made.
type sighting struct {
	route string
	finding
}

func (d *departures) add(e *exchange) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all++
	if d.seen == nil {
		d.seen = map[sighting]int{}
	}
	for _, f := range e.findings {
		s := sighting{cmp.Or(e.route, "(unknown path)"), f}
		if len(d.seen) >= maxDepartures && d.seen[s] == 0 {
			s.finding = finding{what: "further kinds of departures"}
		}
		d.seen[s]++
	}
}

// ordered returns every kind of departure that was seen, by route; the caller holds the lock.
func (d *departures) ordered() []sighting {
	return slices.SortedFunc(maps.Keys(d.seen), func(a, b sighting) int {
		return cmp.Or(cmp.Compare(a.route, b.route), cmp.Compare(a.String(), b.String()))
	})
}

// departure is a kind of departure as a page shows it.
type departure struct {
	Route string `json:"route"`
	What  string `json:"what"`
	Times int    `json:"times"`
}

func (d *departures) list() []departure {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := []departure{}
	for _, s := range d.ordered() {
		list = append(list, departure{s.route, s.String(), d.seen[s]})
	}
	return list
}

// summary lists every kind of departure that was seen.
func (d *departures) summary() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var text strings.Builder
	fmt.Fprintf(&text, "%s; ", requestsText(d.all))
	if len(d.seen) == 0 {
		text.WriteString("every response was as described.\n")
		return text.String()
	}
	text.WriteString("departures from the description:\n")
	route := ""
	for _, s := range d.ordered() {
		if s.route != route {
			route = s.route
			fmt.Fprintf(&text, "\n  %s\n", route)
		}
		fmt.Fprintf(&text, "    %s (%s)\n", s.finding, timesText(d.seen[s]))
	}
	return text.String()
}

func requestsText(n int) string {
	if n == 1 {
		return "1 request"
	}
	return fmt.Sprintf("%d requests", n)
}

func timesText(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
