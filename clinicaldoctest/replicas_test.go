package clinicaldoctest_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestLagging_NoteWrittenOrDeleted_ShowsLater(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon), clinicaldoctest.WithDelays(clinicaldoctest.Delays{Transcribing: time.Hour}))
	c.srv.AddNote(clinicaldoctest.Note{Analysis: "Seeded.", CreatedAt: noon.Add(-time.Hour)})
	for _, route := range []string{clinicaldoctest.RouteGetNote, clinicaldoctest.RouteListNotes} {
		c.srv.Inject(route, clinicaldoctest.Lagging(10*time.Second).Always())
	}
	analysis := func() any {
		return c.expect(http.StatusOK, http.MethodGet, "/v1/progress-notes/1")["analysis"]
	}
	assert.Equal(t, "Seeded.", analysis(), "an old note is on every replica")
	c.create(validForm())
	assert.Equal(t, "Edited.", c.put("/v1/progress-notes/1", `{"analysis":"Edited."}`).object(t)["analysis"], "writes go to the primary")
	c.srv.Advance(9 * time.Second)
	c.expect(http.StatusNotFound, http.MethodGet, "/v1/progress-notes/2")
	assert.Equal(t, []int{1}, ids(t, c.list("")))
	assert.Equal(t, "Seeded.", analysis())

	c.srv.Advance(time.Second)
	assert.Equal(t, "Edited.", analysis())
	assert.Equal(t, []int{2, 1}, ids(t, c.list("")))
	c.expect(http.StatusOK, http.MethodDelete, "/v1/progress-notes/2")
	assert.Len(t, c.srv.Notes(), 1, "the truth does not lag")
	c.srv.Advance(9 * time.Second)
	c.expect(http.StatusOK, http.MethodGet, "/v1/progress-notes/2")
	assert.Equal(t, []int{2, 1}, ids(t, c.list("")))
	c.srv.Advance(time.Second)
	c.expect(http.StatusNotFound, http.MethodGet, "/v1/progress-notes/2")
	assert.Equal(t, []int{1}, ids(t, c.list("")))
}

func TestLagging_Processing_ShowsLater(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon), clinicaldoctest.WithDelays(clinicaldoctest.Delays{Transcribing: time.Minute}))
	c.srv.Inject(clinicaldoctest.RouteGetNote, clinicaldoctest.Lagging(10*time.Second).After(1).Always())
	c.create(validForm())
	c.srv.Advance(time.Minute)
	fresh := c.expect(http.StatusOK, http.MethodGet, "/v1/progress-notes/1")
	assert.Contains(t, fresh, "transcription")
	stale := c.expect(http.StatusOK, http.MethodGet, "/v1/progress-notes/1")
	assert.NotContains(t, stale, "transcription", "what a fresh read has seen, an old replica does not know")
}

// A replica lags by its whole lag even if the fault was injected a moment ago. A seeded note counts as old as its times
// say.
func TestLagging_WrittenBeforeTheFault_IsHidden(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon), clinicaldoctest.WithDelays(clinicaldoctest.Delays{}))
	old := c.srv.AddNote(clinicaldoctest.Note{Analysis: "Old.", CreatedAt: noon.Add(-2 * time.Hour)})
	c.srv.AddNote(clinicaldoctest.Note{})
	c.create(validForm())
	c.put("/v1/progress-notes/1", `{"analysis":"Edited."}`)
	gone := c.srv.AddNote(clinicaldoctest.Note{CreatedAt: noon.Add(-3 * time.Hour)})
	c.expect(http.StatusOK, http.MethodDelete, "/v1/progress-notes/4")
	for _, route := range []string{clinicaldoctest.RouteGetNote, clinicaldoctest.RouteListNotes, clinicaldoctest.RouteAudioURL} {
		c.srv.Inject(route, clinicaldoctest.Lagging(time.Hour).Always())
	}
	assert.Equal(t, "Old.", c.expect(http.StatusOK, http.MethodGet, "/v1/progress-notes/1")["analysis"])
	for _, path := range []string{"/v1/progress-notes/2", "/v1/progress-notes/3", "/v1/progress-notes/3/audio-url"} {
		c.expect(http.StatusNotFound, http.MethodGet, path)
	}
	assert.Equal(t, []int{int(old), int(gone)}, ids(t, c.list("")), "and what was deleted since is still there")
	assert.Equal(t, []int{int(old)}, ids(t, c.list("per_page=1")))
	c.srv.Advance(time.Hour)
	assert.ElementsMatch(t, []int{1, 2, 3}, ids(t, c.list("")))
	assert.Equal(t, "Edited.", c.expect(http.StatusOK, http.MethodGet, "/v1/progress-notes/1")["analysis"])
}

// Only reads see a replica. A write changes the current note, and does not undo newer changes.
func TestLagging_Write_UsesCurrentNote(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon))
	c.srv.AddNote(clinicaldoctest.Note{Name: "Old", CreatedAt: noon.Add(-2 * time.Hour)})
	c.put("/v1/progress-notes/1", `{"name":"New"}`)
	c.srv.Inject("", clinicaldoctest.Lagging(time.Hour).Always())
	assert.Equal(t, "New", c.put("/v1/progress-notes/1", `{"analysis":"Edited."}`).object(t)["name"])
	assert.Equal(t, "New", c.srv.Notes()[0].Name)
	c.create(validForm())
	c.expect(http.StatusOK, http.MethodDelete, "/v1/progress-notes/2")
	assert.Equal(t, "Old", c.expect(http.StatusOK, http.MethodGet, "/v1/progress-notes/1")["name"], "reads do")
}

func TestLagging_ListOfAPatient_HasNoOthers(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon))
	for patient := range int64(3) {
		c.srv.AddNote(clinicaldoctest.Note{PatientID: patient + 1, CreatedAt: noon.Add(-time.Hour)})
	}
	c.srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Lagging(time.Minute))
	assert.Equal(t, []int{2}, ids(t, c.list("patient_id=2")))
}
