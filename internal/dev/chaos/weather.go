package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// toxic is a fault as the proxy takes it.
type toxic struct {
	Name       string           `json:"name"`
	Type       string           `json:"type"`
	Stream     string           `json:"stream"`
	Toxicity   float64          `json:"toxicity"` // the share of connections that it strikes
	Attributes map[string]int64 `json:"attributes"`
}

// toxicKinds are the faults of a storm. Their delays are far below the time after which a create without an answer counts
// as not created: a network that holds a request back for longer deceives every client.
var toxicKinds = []struct {
	kind       string
	attributes func(*rand.Rand) map[string]int64
}{
	{"latency", func(r *rand.Rand) map[string]int64 {
		return map[string]int64{"latency": 5 + r.Int64N(80), "jitter": r.Int64N(40)}
	}},
	{"bandwidth", func(r *rand.Rand) map[string]int64 { return map[string]int64{"rate": 200 + r.Int64N(2000)} }},
	{"slicer", func(r *rand.Rand) map[string]int64 {
		return map[string]int64{"average_size": 200 + r.Int64N(2000), "size_variation": 100, "delay": r.Int64N(300)}
	}},
	{"reset_peer", func(r *rand.Rand) map[string]int64 { return map[string]int64{"timeout": r.Int64N(120)} }},
	{"limit_data", func(r *rand.Rand) map[string]int64 { return map[string]int64{"bytes": 1 + r.Int64N(60_000)} }},
	{"timeout", func(r *rand.Rand) map[string]int64 { return map[string]int64{"timeout": 50 + r.Int64N(1200)} }},
}

// forecast draws the faults of the next stretch of a storm: none to three, each on one direction and on some connections.
func forecast(r *rand.Rand) []toxic {
	var drawn []toxic
	for i := range r.IntN(4) {
		kind := toxicKinds[r.IntN(len(toxicKinds))]
		drawn = append(drawn, toxic{
			Name: fmt.Sprintf("%s-%d", kind.kind, i), Type: kind.kind,
			Stream:   []string{"upstream", "downstream"}[r.IntN(2)],
			Toxicity: 0.2 + 0.6*r.Float64(), Attributes: kind.attributes(r),
		})
	}
	return drawn
}

func (t toxic) encoded() (*strings.Reader, error) {
	text, err := json.Marshal(t)
	return strings.NewReader(string(text)), err
}
