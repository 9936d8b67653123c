package devproxy

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// stream reads the events of a running command, from after an event or, with "", from the start.
func (c *command) stream(after string) (next func() (kind, id, data string)) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
	c.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/_/events", nil)
	require.NoError(c.t, err)
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	resp, err := c.client.Do(req)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = resp.Body.Close() })
	require.Equal(c.t, "text/event-stream", resp.Header.Get("Content-Type"))
	lines := bufio.NewScanner(resp.Body)
	return func() (kind, id, data string) {
		c.t.Helper()
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "event":
				kind = value
			case "id":
				id = value
			case "data":
				data = value
			case "":
				if kind != "" {
					return kind, id, data
				}
			}
		}
		require.NoError(c.t, lines.Err())
		require.Fail(c.t, "the stream ended")
		return "", "", ""
	}
}

func TestEvents_RequestsAndChanges_AreStreamed(t *testing.T) {
	t.Parallel()
	c := launch(t, "-transcription", "0s", "-analysis", "0s")
	next := c.stream("")
	kind, start, _ := next()
	assert.Equal(t, "reset", kind, "a page that knows nothing starts over")
	c.get("/user")
	kind, data := "", ""
	for !strings.Contains(data, `"status":200`) { // perhaps first as one on its way
		kind, _, data = next()
		assert.Equal(t, "requests", kind)
	}
	c.create()
	for note, isCreated := "", false; note == "" || !isCreated; { // the note may be there before its request has ended
		switch kind, _, data = next(); kind {
		case "note":
			note = data
			assert.Contains(t, note, `"stage":"complete"`)
		case "requests":
			isCreated = isCreated || strings.Contains(data, `"status":201`)
		}
	}
	c.post("faults", `{"fault":"GET /user:reset"}`)
	for kind != "state" {
		kind, _, _ = next()
	}
	kind, _, data = c.stream(start)()
	assert.Equal(t, "requests", kind, "what was missed comes again")
	assert.Contains(t, data, `"status":200`)
	assert.NotContains(t, data, `"pending":true`, "as it is now")
	kind, _, _ = c.stream("1")()
	assert.Equal(t, "reset", kind, "what is not kept any more cannot come again")
}

func TestEvents_ReaderFallsBehind_StartsOver(t *testing.T) {
	t.Parallel()
	e := newEvents()
	wake, leave := e.watch()
	defer leave()
	_, seen := e.since(-1)
	for i := range keptEvents {
		e.publish("n", i)
	}
	<-wake
	text, last := e.since(seen)
	assert.Equal(t, keptEvents, strings.Count(string(text), "event: n\n"), "nothing is lost within the ring")
	assert.Contains(t, string(text), fmt.Sprintf("id: %d\ndata: %d\n\n", last, keptEvents-1))
	for i := range keptEvents + 1 {
		e.publish("n", i)
	}
	text, _ = e.since(last)
	assert.True(t, strings.HasPrefix(string(text), "event: reset\n"), "what fell out of the ring is not missed in silence")
	text, _ = e.since(e.last)
	assert.Empty(t, text)
	text, _ = e.since(e.last + 1)
	assert.True(t, strings.HasPrefix(string(text), "event: reset\n"), "the number is another run's")
}

func TestEvents_PageLeft_NothingIsKept(t *testing.T) {
	t.Parallel()
	e := newEvents()
	_, leave := e.watch()
	e.publish("n", 1)
	require.Len(t, e.ring, 1)
	leave()
	e.publish("n", 2)
	assert.Empty(t, e.ring, "nobody reads it")
}

func TestPauseAfter_LongLook_IsLonger(t *testing.T) {
	t.Parallel()
	const shortest = 200 * time.Millisecond
	for took, want := range map[time.Duration]time.Duration{
		0: shortest, 10 * time.Millisecond: shortest, 11 * time.Millisecond: 220 * time.Millisecond,
		time.Second: 20 * time.Second,
	} {
		assert.Equal(t, want, pauseAfter(took), took)
	}
}

// A page shows only the newest notes. A note that newer ones push out of them still exists.
func TestNoteWatch_NotePushedOut_IsNotGone(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess())
	t.Cleanup(srv.Close)
	e := newEvents()
	_, leave := e.watch()
	defer leave()
	var watch noteWatch
	look := func() string {
		_, seen := e.since(-1)
		watch.after = time.Time{}
		watch.look(srv, e)
		text, _ := e.since(seen)
		return string(text)
	}
	for range shownNotes {
		srv.AddNote(clinicaldoctest.Note{})
	}
	assert.Equal(t, shownNotes, strings.Count(look(), "event: note\n"))
	newest := srv.AddNote(clinicaldoctest.Note{})
	text := look()
	assert.Contains(t, text, fmt.Sprintf(`{"id":%d,`, newest))
	assert.Equal(t, 1, strings.Count(text, "event: note\n"))
	assert.Empty(t, look(), "nothing happened")
	name := "Another name"
	_, err := srv.Client().Notes.Update(t.Context(), newest, clinicaldoc.UpdateNoteParams{Name: &name})
	require.NoError(t, err)
	assert.Contains(t, look(), name)
	_, err = srv.Client().Notes.Delete(t.Context(), newest)
	require.NoError(t, err)
	assert.Contains(t, look(), `"gone":true`)
}

// If many requests come at once, a page gets them in a few events. Each request is in them once, in its latest form.
func TestEvents_ManyRequests_ComeInBatches(t *testing.T) {
	t.Parallel()
	e := newEvents()
	_, leave := e.watch()
	defer leave()
	_, seen := e.since(-1)
	const count = 2*maxBatch + 50
	for _, pending := range []bool{true, false} {
		for id := range int64(count) {
			e.publish("request", &request{ID: id + 1, Pending: pending})
		}
	}
	e.publish("state", struct{}{})
	e.publish("request", &request{ID: count + 1})
	text, last := e.since(seen)
	assert.LessOrEqual(t, strings.Count(string(text), "event: requests\n"), 6)
	for line := range strings.Lines(string(text)) {
		assert.LessOrEqual(t, strings.Count(line, `{"id":`), maxBatch)
	}
	assert.Contains(t, string(text), fmt.Sprintf("id: %d\ndata: [{\"id\":%d,", last, count+1))
	for id := range count {
		assert.Contains(t, string(text), fmt.Sprintf(`{"id":%d,`, id+1))
	}
	middle, _ := e.since(seen + count + 10)
	assert.NotContains(t, string(middle), `"pending":true`, "what was told before is not told again")
}
