//nolint:paralleltest // AllocsPerRun counts the allocations of all goroutines.
package clinicaldoc_test

import (
	"bytes"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// These tests keep allocations from creeping in; internal/dev/benchmarks tells what they mean. Each limit is what the call needs
// and one for a pool that the collector has emptied. Times are never tested.

// raceSlack is for the pools that the race detector empties.
func raceSlack() float64 {
	info, _ := debug.ReadBuildInfo()
	if info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return 5
	}
	return 0
}

// canned answers every request with the same document, in this process and without a goroutine.
type canned string

func (c canned) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
	}
	return &http.Response{
		StatusCode: http.StatusOK,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       io.NopCloser(bytes.NewReader([]byte(c))),
		Request:    req,
	}, nil
}

func allocations(t *testing.T, answer string, call func(*clinicaldoc.Client) error) float64 {
	t.Helper()
	client, err := clinicaldoc.NewClient(testBase, testToken, clinicaldoc.WithHTTPClient(&http.Client{Transport: canned(answer)}))
	require.NoError(t, err)
	return testing.AllocsPerRun(50, func() {
		if err := call(client); err != nil {
			panic(err)
		}
	})
}

// assertAllocations bounds the allocations of a call; members that are not described must not add to them.
func assertAllocations(t *testing.T, limit float64, answer func(note string) string, call func(*clinicaldoc.Client) error) {
	t.Helper()
	for _, note := range []string{describedNote, richNote} {
		assert.LessOrEqual(t, allocations(t, answer(note), call), limit+raceSlack())
	}
}

func alone(note string) string { return note }

func TestAllocationsOfGet(t *testing.T) {
	assertAllocations(t, 24, alone, func(c *clinicaldoc.Client) error {
		_, err := c.Notes.Get(t.Context(), 7)
		return err
	})
}

func TestAllocationsOfEdits(t *testing.T) {
	params := clinicaldoc.UpdateNoteParams{Name: new("Edited"), Analysis: new("Edited, too")}
	assertAllocations(t, 31, alone, func(c *clinicaldoc.Client) error {
		_, err := c.Notes.Update(t.Context(), 7, params)
		return err
	})
	assertAllocations(t, 25, alone, func(c *clinicaldoc.Client) error {
		_, err := c.Notes.Sign(t.Context(), 7)
		return err
	})
	assertAllocations(t, 22, func(string) string { return `{"message":"Deleted."}` }, func(c *clinicaldoc.Client) error {
		_, err := c.Notes.Delete(t.Context(), 7)
		return err
	})
}

const pageRows = 100

func fullPage(note string) string {
	return `{"data":[` + strings.TrimSuffix(strings.Repeat(note+",", pageRows), ",") +
		`],"links":{"next":null},"meta":{"current_page":1,"last_page":1,"per_page":100,"total":100}}`
}

// A note of a page costs two allocations: one for its texts, one for template and audio.
func TestAllocationsOfPage(t *testing.T) {
	assertAllocations(t, 35+2*pageRows, fullPage, func(c *clinicaldoc.Client) error {
		_, err := c.Notes.List(t.Context(), clinicaldoc.ListNotesParams{PerPage: pageRows})
		return err
	})
}

// The texts of a note share memory with each other, and with no other note's.
func TestANoteDoesNotHoldItsPage(t *testing.T) {
	const size = 100 << 10
	note := `{"id":7,"name":"Synthetic note","transcription":"` + strings.Repeat("x", size) + `"}`
	client, err := clinicaldoc.NewClient(testBase, testToken, clinicaldoc.WithHTTPClient(&http.Client{Transport: canned(fullPage(note))}))
	require.NoError(t, err)
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.GC() // what is pooled takes two
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	before := heap()
	page, err := client.Notes.List(t.Context(), clinicaldoc.ListNotesParams{PerPage: pageRows})
	require.NoError(t, err)
	kept := page.Items[50]
	assert.Less(t, heap()-before, int64(20*size), "one note of a hundred")
	assert.Len(t, kept.Transcription, size)
}

// A list must not take many times the memory that its response does.
func TestMemoryOfSenselessLists(t *testing.T) {
	tests := map[string]struct {
		row  string
		rows int
		path string
	}{
		"rows without an id": {"{}", 4 << 20 / 3, "[0]: want a record with an id"},
		"too many rows":      {`{"id":7}`, 8 << 20 / 9, "[100000]: want the end of the list"},
	}
	for name, test := range tests {
		for path, answer := range map[string]string{
			"data":   `{"data":[` + strings.Repeat(test.row+",", test.rows-1) + test.row + `]}`,
			"":       `[` + strings.Repeat(test.row+",", test.rows-1) + test.row + `]`,
			"tokens": `{"tokens":[` + strings.Repeat(test.row+",", test.rows-1) + test.row + `]}`,
		} {
			client, err := clinicaldoc.NewClient(testBase, testToken, clinicaldoc.WithHTTPClient(&http.Client{Transport: canned(answer)}))
			require.NoError(t, err)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if path == "tokens" {
				_, err = client.Tokens.List(t.Context())
			} else {
				_, err = client.Notes.List(t.Context(), clinicaldoc.ListNotesParams{})
			}
			runtime.ReadMemStats(&after)
			require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse, name)
			require.ErrorContains(t, err, path+test.path, name)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(300<<20), "%s in %q", name, path)
		}
	}
}

// blank is a response of so many bytes.
type blank int64

func (size blank) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(io.LimitReader(new(endlessBody), int64(size))), Request: req}, nil
}

// memory returns what one more response of the given size makes the process allocate, and what is held in the end.
func memory(t *testing.T, size int64) (allocated, held int64) {
	t.Helper()
	client, err := clinicaldoc.NewClient(testBase, testToken, clinicaldoc.WithHTTPClient(&http.Client{Transport: blank(size)}))
	require.NoError(t, err)
	measure := func() (stats runtime.MemStats) {
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats
	}
	get := func() { require.NoError(t, client.Do(t.Context(), http.MethodGet, "/v1/other", nil, nil)) }
	first := measure()
	for range 8 { // every buffer that is kept has grown
		get()
	}
	before := measure()
	get()
	after := measure()
	return int64(after.TotalAlloc - before.TotalAlloc), int64(after.HeapAlloc) - int64(first.HeapAlloc)
}

func TestMemoryOfResponsesIsReusedButNotKeptForHugeOnes(t *testing.T) {
	allocated, _ := memory(t, 1<<19)
	assert.Less(t, allocated, int64(1<<18), "the memory of a usual response is used again")
	_, held := memory(t, 3<<20)
	assert.Less(t, held, int64(1<<20), "the memory of a huge one is given back")
}
