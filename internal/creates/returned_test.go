package creates_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
)

func TestAddRemembersTheTime(t *testing.T) {
	t.Parallel()
	var ids creates.Returned
	_, ok := ids.Time(7)
	assert.False(t, ok)
	assert.False(t, ids.Has(7))
	ids.Add(creates.Ref{ID: 7}, noon)
	at, ok := ids.Time(7)
	assert.True(t, ok)
	assert.Equal(t, noon, at)
	assert.True(t, ids.Has(7))
	assert.False(t, ids.Has(8))
	ids.Add(creates.Ref{ID: 7}, noon.Add(time.Hour))
	at, _ = ids.Time(7)
	assert.Equal(t, noon.Add(time.Hour), at, "the latest time counts")
}

func TestExpireKeepsTheID(t *testing.T) {
	t.Parallel()
	var ids creates.Returned
	ids.Expire(7)
	assert.False(t, ids.Has(7))
	ids.Add(creates.Ref{ID: 7}, noon)
	ids.Expire(7)
	at, ok := ids.Time(7)
	assert.True(t, ok)
	assert.Zero(t, at)
}

func TestTheOldestMakeRoom(t *testing.T) {
	t.Parallel()
	var ids creates.Returned
	const more = 10
	for id := range int64(2*creates.MaxReturned + more) {
		ids.Add(creates.Ref{ID: id}, noon)
		ids.Add(creates.Ref{ID: id}, noon) // an id added twice takes one place
		assert.True(t, ids.Has(id))
	}
	for id := range int64(2*creates.MaxReturned + more) {
		assert.Equal(t, id >= creates.MaxReturned+more, ids.Has(id), id)
	}
}

func TestManyGoroutinesShareTheReturned(t *testing.T) {
	t.Parallel()
	var ids creates.Returned
	var workers sync.WaitGroup
	for worker := range int64(8) {
		workers.Go(func() {
			for i := range int64(100) {
				ids.Add(creates.Ref{ID: 100*worker + i}, noon)
				assert.True(t, ids.Has(100*worker+i))
			}
		})
	}
	workers.Wait()
	for id := range int64(800) {
		assert.True(t, ids.Has(id), id)
	}
}

func TestReturnedSaysWhatItForgot(t *testing.T) {
	t.Parallel()
	var ids creates.Returned
	for id := range int64(creates.MaxReturned) {
		ids.Add(creates.Ref{ID: id}, noon.Add(time.Duration(id)*time.Second))
	}
	assert.Zero(t, ids.Forgot())
	ids.Add(creates.Ref{ID: 0}, noon.Add(time.Hour)) // keeps its place
	ids.Add(creates.Ref{ID: creates.MaxReturned}, noon)
	assert.Equal(t, noon.Add(time.Hour), ids.Forgot())
	ids.Add(creates.Ref{ID: creates.MaxReturned + 1}, noon)
	assert.Equal(t, noon.Add(time.Hour), ids.Forgot(), "the latest time counts")
}
