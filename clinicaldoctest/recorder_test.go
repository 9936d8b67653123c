package clinicaldoctest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestRecorderKeepsTheLastRequests(t *testing.T) {
	t.Parallel()
	var rec recorder
	for range maxRequests + 1 {
		rec.add(&Request{})
	}
	kept := rec.list()
	assert.LessOrEqual(t, len(kept), maxRequests)
	assert.Equal(t, "req-10001", kept[len(kept)-1].ID)
	assert.Equal(t, "req-1001", kept[0].ID)
}

func TestCreationsAreBounded(t *testing.T) {
	t.Parallel()
	s := &Server{state: newState()}
	for id := range int64(maxCreations + 1) {
		s.bear(&note{id: id + 1}, "")
	}
	s.recordDeletion(1, time.Unix(1, 0)) // forgotten, which is no error
	s.recordDeletion(maxCreations+1, time.Unix(2, 0))
	assert.Len(t, s.created, maxCreations-maxCreations/10+1)
	assert.Equal(t, time.Unix(2, 0), s.created[len(s.created)-1].DeletedAt)
}
