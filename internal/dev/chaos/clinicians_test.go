package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestVerifyEditsSeesWhatWasWrittenOver: words that a call must have seen before it wrote are a loss; words that came after its
// look are not, for the service has no conditional requests.
func TestVerifyEditsSeesWhatWasWrittenOver(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	change := func(sent int) served {
		return served{call: "7-1", sent: at(sent), began: at(sent + 1), end: at(sent + 2)}
	}
	look := func(sent int) served { return served{sent: at(sent), began: at(sent + 1), end: at(sent + 2)} }
	for name, tc := range map[string]struct {
		call    call
		changes []served
		looks   []served
		words   int // when a clinician began
		losses  int
	}{
		"one attempt":                           {call{kind: "update"}, []served{change(10)}, nil, 5, 0},
		"a retry after a look that saw them":    {call{kind: "update"}, []served{change(10), change(40)}, []served{look(30)}, 20, 1},
		"a retry after a look before them":      {call{kind: "update"}, []served{change(10), change(40)}, []served{look(20)}, 30, 0},
		"a retry without a look":                {call{kind: "update"}, []served{change(10), change(40)}, nil, 60, 1},
		"a copy that the network held back":     {call{kind: "update"}, []served{change(40), change(10)}, []served{look(30)}, 60, 0},
		"a look that came back, and a lost one": {call{kind: "sign"}, []served{change(10), change(40)}, []served{{sent: at(15), began: at(38)}, look(20)}, 30, 0},
		"a deletion once more":                  {call{kind: "delete"}, []served{change(10), change(40)}, nil, 20, 0},
		"guarded, words since it was read":      {call{kind: "sign", guarded: true, since: at(5)}, []served{change(40)}, []served{look(30)}, 20, 1},
		"guarded, words before it was read":     {call{kind: "sign", guarded: true, since: at(5)}, []served{change(40)}, []served{look(30)}, 2, 0},
		"guarded, never looked":                 {call{kind: "delete", guarded: true, since: at(5)}, []served{change(40)}, nil, 60, 1},
		"a transport that retries":              {call{kind: "update", unruly: true}, []served{change(10), change(40)}, nil, 20, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.call.note = 3
			var f findings
			verifyEdits(&f, []words{{note: 3, began: at(tc.words), ended: at(tc.words + 1)}}, map[string]*call{"7-1": &tc.call},
				&history{changes: map[int64][]served{3: tc.changes}, looks: map[int64][]served{3: tc.looks}})
			assert.Len(t, f.losses, tc.losses)
		})
	}
}
