package main

import (
	"fmt"
	"strings"
)

// reasons say why a bar may be missed, as the profiles tell (go test . -run NONE -bench . -memprofile, -cpuprofile).
var reasons = map[string]string{
	"GET one note: time":       "Of the client's CPU time 14 % is decoding, 8 % the call around net/http and 9 % the collector; the rest is net/http, the scheduler and the system, for the floor as for the SDK. On a busy machine their share grows.",
	"page of 100: time":        "Three quarters of the client's CPU time is decoding: 17 % of all is scanning texts for their ends and escapes (plainRun, 1.8 GB/s), 10 % making one string of a note's texts. Steps of 16 or 32 bytes instead of 8 gained nothing: between two escapes of a dictated text lie few more.",
	"page of 100: allocations": "275 are the SDK's on either release: two for each note (its texts; template with audio) and some 75 for the request, of which go-querystring takes 15. The next release's encoding/json needs 1,070 where 1,230 were expected when the bar was set.",
	"Delete: bytes": "A response of a few bytes leaves nothing to save, so the two requests are compared. " +
		"The SDK adds the retry library with its nested client and request (0.7 kB), a context that the stall timeout can cancel (0.6 kB), " +
		"and the state of the call and of the attempt (1.2 kB). Less would take a pool, or one object for several purposes.",
	"Delete: time": "A bare RoundTrip of net/http takes 0.85 of the floor's time. " +
		"The SDK adds a context that can be canceled, a trace and a timer; the timer alone is 3 to 8 %.",
	"Sign: time":          "As for a GET.",
	"PUT an update: time": "As for a GET.",
	"all of 50 pages, 20 ms latency: Prefetch 4 over 0":                               "Four at once need 14 turns of 20 ms, the first for one page alone; without, a page takes 22.4 ms, so that 4.0 is the most if nothing else took time. The pages of a turn come together, and share two processors with the server: each takes 1.6 ms of the client's CPU time and 0.2 ms of the server's.",
	"all of 50 pages, 20 ms latency: Prefetch 8 over 0":                               "Eight at once need 8 turns of 20 ms, the first for one page alone; without, a page takes 22.4 ms, so that 7.0 is the most if nothing else took time. As for four, the pages of a turn come together: the last of eight is read and decoded some 7 ms after the first.",
	"200 recordings of 16 KiB, 8 workers, the fake server: throughput with a journal": "About a half of what ingest adds is the disk's sync and waking up after it: how busy the disk is decides, and single runs of either release lay between 0.69 and 0.90.",
	"upload of 256 MiB: time":                                                         "Of CPU time it takes 1.02 to 1.05 of a raw POST's: following the body costs a quarter of a microsecond for each 32 KiB. What is beyond that is the machine's; the spread says how busy it was.",
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
