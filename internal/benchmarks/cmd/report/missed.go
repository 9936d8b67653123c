package main

import (
	"fmt"
	"strings"
)

// reasons say why a bar may be missed, as the profiles tell (go test . -bench Requests -memprofile, -cpuprofile).
var reasons = map[string]string{
	"GET one note: time":       "Two thirds of it are net/http and the system's, for the floor as for the SDK; on a busy machine their share grows.",
	"page of 100: time":        "Scanning texts for their ends and escapes is the largest part of it (plainRun), copying and checking the next. Steps of 32 bytes instead of 8 gained nothing: between two escapes of a dictated text lie few more.",
	"page of 100: allocations": "285 are the SDK's on either release: two for each note (its texts; template with audio) and some 85 for the request, of which go-querystring takes 15. The next release's encoding/json needs 1,080 where 1,230 were expected when the bar was set.",
	"Delete: bytes":            "There is nothing to decode, so that only requests are compared. net/http's own part is 3.1 kB of either. What the SDK adds beyond the floor is an attempt's state (0.9 kB: request, watchdog, trace, send state), the call (0.6 kB) and a context that the watchdog can end (0.6 kB).",
	"Delete: time":             "As for its bytes: no decoding to be saved, and a timer, a context and a trace for each request.",
	"Sign: time":               "As for a GET.",
	"PUT an update: time":      "As for a GET.",
	"all of 50 pages, 20 ms latency: Prefetch 4 over 0": "Four requests in flight; the pages of one turn come at the same time, and two processors share their decoding with the server that writes them.",
	"all of 50 pages, 20 ms latency: Prefetch 8 over 0": "Eight pages of 671 KB come at the same time, every 20 ms: decoding them, and writing them in the server, takes the two processors some 10 ms of each turn. With more processors it comes nearer to 7.",
	"256 goroutines, GET: rate":                         "The server shares the processors. The mutex profile has four fifths of all waiting in net/http's pool of idle connections, the rest in the context that the callers share.",
	"256 goroutines, GET: p99":                          "As for the rate; the slowest reads are those that dial.",
	"upload of 256 MiB: time":                           "It means little below 30 % on a busy machine; the spread says how busy it was.",
}

// writeMissed says why bars were missed.
func (r *report) writeMissed(b *strings.Builder) {
	head := "\n### What is missed, and why\n\n"
	for _, bar := range r.bars() {
		if bar.held() {
			continue
		}
		reason := reasons[bar.work+": "+bar.what]
		if reason == "" {
			reason = "Not known yet."
		}
		fmt.Fprintf(b, "%s- %s, %s: %s\n", head, bar.work, bar.what, reason)
		head = ""
	}
}
