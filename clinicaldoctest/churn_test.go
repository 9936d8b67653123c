package clinicaldoctest_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestVanish_DeletesNotesThatThePageShowed(t *testing.T) {
	t.Parallel()
	c := seeded(t, 6, clinicaldoctest.Variant{})
	c.srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Vanish(1))
	assert.Equal(t, []int{6, 5}, ids(t, c.list("per_page=2")), "the page still shows it")
	assert.Equal(t, []int{3, 2}, ids(t, c.list("per_page=2&page=2")), "note 4 moved to a page that was read already")
	c.expect(http.StatusNotFound, http.MethodGet, "/v1/progress-notes/6")
	assert.Len(t, c.srv.Notes(), 5)

	c.srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Vanish(9))
	assert.Len(t, ids(t, c.list("patient_id=1")), 3)
	assert.Empty(t, ids(t, c.list("patient_id=1")), "no more than the page has shown")
	assert.Len(t, c.srv.Notes(), 2)
}

func TestArrive_AddsNotesBeforeTheNextPage(t *testing.T) {
	t.Parallel()
	c := seeded(t, 4, clinicaldoctest.Variant{})
	c.srv.Advance(time.Hour)
	c.srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Arrive(2))
	assert.Equal(t, []int{4, 2}, ids(t, c.list("patient_id=2&per_page=2")))
	assert.Equal(t, []int{4, 2}, ids(t, c.list("patient_id=2&per_page=2&page=2")), "pushed there by newer ones")
	assert.Equal(t, []int{6, 5}, ids(t, c.list("patient_id=2&per_page=2")))
	assert.Empty(t, c.srv.Created(), "nobody asked for them")
}

func TestArrive_RequestWithoutAList_AddsNothing(t *testing.T) {
	t.Parallel()
	c := seeded(t, 2, clinicaldoctest.Variant{})
	c.srv.Inject("", clinicaldoctest.Arrive(3).Always())
	c.get("/user")
	c.expect(http.StatusUnprocessableEntity, http.MethodGet, "/v1/progress-notes?per_page=0")
	assert.Len(t, c.srv.Notes(), 2)

	c = c.as(c.srv.AddUser(clinicaldoctest.User{TeamID: 2}).Token)
	assert.Empty(t, ids(t, c.list("")))
	assert.Len(t, ids(t, c.list("")), 3, "what arrives is for who lists")
}
