package clinicaldoctest_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestCreated_LostResponse_NamesRequestAndNote(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon))
	c.srv.AddNote(clinicaldoctest.Note{})
	c.srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
	_, err := c.try(c.createRequest(formOf("lost")))
	require.Error(t, err)
	c.srv.Advance(time.Minute)
	second := c.create(formOf("heard"))
	c.create(form{}) // refused
	c.srv.Advance(time.Minute)
	c.expect(http.StatusOK, http.MethodDelete, "/v1/progress-notes/2")

	created := c.srv.Created()
	require.Len(t, created, 2, "seeded and refused notes are not among them")
	lost, heard := created[0], created[1]
	assert.Equal(t, c.srv.Requests()[0].ID, lost.RequestID)
	assert.Equal(t, second.Header.Get("X-Request-Id"), heard.RequestID)
	assert.Equal(t, clinicaldoctest.Creation{
		NoteID: 2, RequestID: lost.RequestID, Time: noon, DeletedAt: noon.Add(2 * time.Minute),
		UserID: 1, PatientID: 7, PromptID: 3, Name: "Visit", AudioSHA256: lost.AudioSHA256, AudioSize: 4,
	}, lost)
	assert.Zero(t, heard.DeletedAt)
	assert.Equal(t, []clinicaldoctest.Creation{lost}, c.srv.CreatedFrom([]byte("lost")))
	assert.Empty(t, c.srv.CreatedFrom([]byte("never sent")))

	var made []int64
	for _, r := range c.srv.Requests() {
		made = append(made, r.NoteID)
	}
	assert.Equal(t, []int64{2, 3, 0, 2}, made)
}

func TestCreatedOnce_MissingOrDuplicate_NamesEachRecordingOnce(t *testing.T) {
	t.Parallel()
	c := start(t)
	a, b, lost := []byte("a"), []byte("b"), []byte("lost")
	require.NoError(t, c.srv.CreatedOnce())
	require.EqualError(t, c.srv.CreatedOnce(lost, lost), "clinicaldoctest: recording 0 should have 2 and has 0 notes []")
	c.create(formOf("a"))
	c.create(formOf("b"))
	require.NoError(t, c.srv.CreatedOnce(a, b))
	require.EqualError(t, c.srv.CreatedOnce(a, b, lost), "clinicaldoctest: recording 2 should have 1 and has 0 notes []")
	c.create(formOf("b"))
	c.expect(http.StatusOK, http.MethodDelete, "/v1/progress-notes/3")
	require.EqualError(t, c.srv.CreatedOnce(a, b), "clinicaldoctest: recording 1 should have 1 and has 2 notes [2 3]",
		"a deleted duplicate counts")
	require.NoError(t, c.srv.CreatedOnce(a, b, b))
	require.EqualError(t, c.srv.CreatedOnce(b, b), "clinicaldoctest: notes of other recordings: 1")
}

func TestCommitAfter_LostCreate_NoteAppearsLater(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]clinicaldoctest.Fault{
		"504":   clinicaldoctest.Answer(http.StatusGatewayTimeout, ""),
		"reset": clinicaldoctest.ResetAfterRequest(),
		"delay": clinicaldoctest.Delay(0),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, clinicaldoctest.WithFrozenClock(noon))
			c.srv.Inject(clinicaldoctest.RouteCreateNote, fault.CommitAfter(95*time.Second))
			if a, err := c.try(c.createRequest(validForm())); err == nil {
				assert.Equal(t, http.StatusGatewayTimeout, a.StatusCode)
			}
			c.srv.Advance(94 * time.Second)
			assert.Empty(t, c.list("")["data"])
			assert.Empty(t, c.srv.Notes())
			c.srv.Advance(2 * time.Second)
			assert.Equal(t, []int{1}, ids(t, c.list("")))
			created := c.srv.Created()
			require.Len(t, created, 1)
			assert.Equal(t, noon.Add(95*time.Second), created[0].Time)
			assert.Equal(t, c.srv.Requests()[0].ID, created[0].RequestID)
			assert.Equal(t, int64(1), c.srv.Requests()[0].NoteID)
		})
	}
}

func TestCommitAfter_SeveralRequests_CommitInTheOrderOfTime(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon))
	c.srv.AddNote(clinicaldoctest.Note{})
	for text, after := range map[string]time.Duration{"last": 3 * time.Second, "first": time.Second, "second": 2 * time.Second} {
		c.srv.Inject(clinicaldoctest.RouteUpdateNote, clinicaldoctest.Answer(http.StatusGatewayTimeout, "").CommitAfter(after))
		c.put("/v1/progress-notes/1", `{"analysis":"`+text+`"}`)
	}
	c.srv.Advance(2 * time.Second)
	assert.Equal(t, "second", c.srv.Notes()[0].Analysis)
	c.srv.Advance(time.Minute)
	assert.Equal(t, "last", c.srv.Notes()[0].Analysis)

	c.srv.Inject(clinicaldoctest.RouteDeleteNote, clinicaldoctest.Answer(http.StatusBadGateway, "").CommitAfter(0))
	assert.Equal(t, http.StatusBadGateway, c.send(c.request(http.MethodDelete, "/v1/progress-notes/1", nil)).StatusCode)
	assert.Empty(t, c.srv.Notes(), "acted at once")
}

func TestCommitAfter_Deletion_RemovesTheAudio(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon))
	c.srv.AddNote(clinicaldoctest.Note{})
	address := c.audioURL()
	c.srv.Inject(clinicaldoctest.RouteDeleteNote, clinicaldoctest.Answer(http.StatusGatewayTimeout, "").CommitAfter(10*time.Second))
	c.send(c.request(http.MethodDelete, "/v1/progress-notes/1", nil))
	assert.Equal(t, http.StatusOK, c.as("").get(address).StatusCode, "not yet")
	c.srv.Advance(10 * time.Second)
	assert.Equal(t, http.StatusNotFound, c.as("").get(address).StatusCode)
}

func TestReuseIDs_DeletedNote_GivesItsID(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{ReuseIDs: true}), clinicaldoctest.WithFrozenClock(noon))
	c.create(formOf("first"))
	c.create(formOf("second"))
	c.srv.Advance(time.Minute)
	c.put("/v1/progress-notes/1", `{"name":"Changed"}`)
	c.expect(http.StatusOK, http.MethodDelete, "/v1/progress-notes/1")
	c.srv.Advance(time.Minute)
	other := formOf("third")
	other.fields["patient_id"], other.fields["name"] = "8", "Other"
	assert.InDelta(t, 1, field[float64](t, c.create(other).object(t), "id"), 0)
	assert.InDelta(t, 3, field[float64](t, c.create(formOf("fourth")).object(t), "id"), 0, "no other is free")

	created := c.srv.Created()
	require.Len(t, created, 4, "the note that had the id before is among them")
	assert.Equal(t, int64(1), created[0].NoteID)
	assert.Equal(t, "Visit", created[0].Name)
	assert.Equal(t, noon.Add(time.Minute), created[0].DeletedAt)
	assert.Equal(t, "Other", created[2].Name)
	assert.Zero(t, created[2].DeletedAt)
	assert.Equal(t, int64(8), c.srv.Notes()[0].PatientID)
	assert.Len(t, c.srv.Notes(), 3)
}
