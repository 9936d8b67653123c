package list_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/list"
)

// source reports each fetch to the test and waits until the test lets it return, so nothing depends on time.
type source struct {
	begun chan int // a fetch has begun

	mu        sync.Mutex
	responses map[int]chan struct{} // close: the response of that position is here
	cancelled []int
}

func newSource() *source { return &source{begun: make(chan int), responses: map[int]chan struct{}{}} }

func (s *source) gate(at int) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.responses[at] == nil {
		s.responses[at] = make(chan struct{})
	}
	return s.responses[at]
}

func (s *source) respond(at int) { close(s.gate(at)) }

func (s *source) fetch(ctx context.Context, at int) (string, error) {
	s.begun <- at
	select {
	case <-s.gate(at):
	case <-ctx.Done():
		s.mu.Lock()
		s.cancelled = append(s.cancelled, at)
		s.mu.Unlock()
		return "", ctx.Err()
	}
	return fmt.Sprint("value ", at), nil
}

// began expects exactly these fetches to begin, in any order.
func (s *source) began(t *testing.T, want ...int) {
	t.Helper()
	var got []int
	for range want {
		got = append(got, <-s.begun)
	}
	assert.ElementsMatch(t, want, got)
}

// reading calls Get and returns what to wait for.
func reading(l *list.Line[int, string], at int) (value func() string) {
	done := make(chan string)
	go func() {
		v, err := l.Get(at)
		if err != nil {
			v = err.Error()
		}
		done <- v
	}()
	return func() string { return <-done }
}

// before knows of positions below last.
func before(last int) func(int) (int, bool) {
	return func(at int) (int, bool) { return at + 1, at+1 < last }
}

func TestLine_ValueRead_FetchesTheNext(t *testing.T) {
	t.Parallel()
	s := newSource()
	line := list.NewLine(t.Context(), 2, s.fetch, before(6))
	value := reading(line, 1)
	s.began(t, 1)
	s.respond(1)
	assert.Equal(t, "value 1", value())
	line.LookAhead()
	s.began(t, 2, 3)

	for at := 2; at <= 5; at++ {
		value = reading(line, at)
		s.respond(at)
		assert.Equal(t, fmt.Sprint("value ", at), value())
		line.LookAhead()
		if at <= 3 {
			s.began(t, at+2)
		}
	}
	line.Stop() // would wait for a fetch beyond position 5, which nobody lets begin
	assert.Empty(t, s.cancelled)
}

// No more values than the depth allows are fetched ahead, however many arrive before the one that Get waits for.
func TestLine_ResponsesOvertake_FetchesNoMoreThanDepth(t *testing.T) {
	t.Parallel()
	s := newSource()
	line := list.NewLine(t.Context(), 2, s.fetch, before(20))
	s.respond(1)
	value := reading(line, 1)
	s.began(t, 1)
	assert.Equal(t, "value 1", value())
	line.LookAhead()
	s.began(t, 2, 3)
	value = reading(line, 2)
	s.respond(3) // makes no room: with 4 there would be three to be held
	s.respond(2)
	assert.Equal(t, "value 2", value())
	line.LookAhead()
	line.LookAhead()
	s.respond(4)
	s.began(t, 4)
	assert.Equal(t, "value 3", reading(line, 3)())
	assert.Equal(t, "value 4", reading(line, 4)())
	line.Stop() // would wait for a fetch that nobody lets begin
	assert.Empty(t, s.cancelled)
}

// At most depth fetches run at a time, including the one that Get waits for.
func TestLine_FetchesUnderWay_AreAtMostDepth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var now, most int
		var mu sync.Mutex
		line := list.NewLine(t.Context(), 3, func(_ context.Context, at int) (int, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Duration(1+at%4) * time.Second)
			mu.Lock()
			defer mu.Unlock()
			now--
			return at, nil
		}, before(30))
		for at := 1; at < 30; at++ {
			got, err := line.Get(at)
			require.NoError(t, err)
			assert.Equal(t, at, got)
			line.LookAhead()
		}
		line.Stop()
		assert.Equal(t, 3, most)
	})
}

// After a failure nothing more is of use.
func TestLine_AfterAFailure_FetchesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var begun []int
		var mu sync.Mutex
		line := list.NewLine(t.Context(), 2, func(_ context.Context, at int) (int, error) {
			mu.Lock()
			begun = append(begun, at)
			mu.Unlock()
			switch at {
			case 2:
				time.Sleep(time.Minute)
			case 3:
				return 0, errors.New("synthetic")
			}
			return at, nil
		}, before(20))
		for at := 1; at <= 2; at++ {
			got, err := line.Get(at)
			require.NoError(t, err)
			assert.Equal(t, at, got)
			line.LookAhead()
		}
		synctest.Wait()
		mu.Lock()
		slices.Sort(begun)
		mu.Unlock()
		assert.Equal(t, []int{1, 2, 3}, begun, "nothing after 3")
		_, err := line.Get(3)
		require.Error(t, err)
		line.Stop()
	})
}

func TestLookAhead_KeepsToDepthAndToWhatIsKnown(t *testing.T) {
	t.Parallel()
	for depth := range 4 {
		s := newSource()
		known := 0
		line := list.NewLine(t.Context(), depth, s.fetch, func(at int) (int, bool) { return at + 1, at+1 <= known })
		s.respond(1)
		value := reading(line, 1)
		s.began(t, 1)
		assert.Equal(t, "value 1", value())
		line.LookAhead() // nothing is known yet
		known = 3
		line.LookAhead()
		line.LookAhead() // has nothing to add
		s.began(t, upTo(2, min(1+depth, 3))...)
		line.Stop()
		slices.Sort(s.cancelled)
		assert.Equal(t, upTo(2, min(1+depth, 3)), s.cancelled)
	}
}

func upTo(first, last int) []int {
	var all []int
	for i := first; i <= last; i++ {
		all = append(all, i)
	}
	return all
}

func TestLineGet_OtherPosition_DiscardsTheLine(t *testing.T) {
	t.Parallel()
	s := newSource()
	line := list.NewLine(t.Context(), 2, s.fetch, before(100))
	for _, at := range []int{15, 4} {
		s.respond(at)
	}
	value := reading(line, 15)
	s.began(t, 15)
	assert.Equal(t, "value 15", value())
	line.LookAhead()
	s.began(t, 16, 17)

	value = reading(line, 4)
	s.began(t, 4)
	assert.Equal(t, "value 4", value())
	line.LookAhead()
	s.began(t, 5, 6)
	s.mu.Lock()
	assert.ElementsMatch(t, []int{16, 17}, s.cancelled)
	s.mu.Unlock()
	line.Stop()
	assert.ElementsMatch(t, []int{16, 17, 5, 6}, s.cancelled)
}

func TestLineStop_FetchesNothingMore(t *testing.T) {
	t.Parallel()
	s := newSource()
	line := list.NewLine(t.Context(), 3, s.fetch, before(100))
	line.Stop() // nothing was begun
	s.respond(1)
	value := reading(line, 1)
	s.began(t, 1)
	assert.Equal(t, "value 1", value())
	line.LookAhead()
	s.began(t, 2, 3, 4)
	line.Stop()
	line.Stop()
	assert.ElementsMatch(t, []int{2, 3, 4}, s.cancelled, "Stop returns when all have ended")
}

func TestLineGet_NoDepth_FetchesItself(t *testing.T) {
	t.Parallel()
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "reader's")
	failure := errors.New("synthetic")
	line := list.NewLine(ctx, 0, func(ctx context.Context, at int) (int, error) {
		assert.Equal(t, "reader's", ctx.Value(key{}))
		if at == 3 {
			panic(failure)
		}
		return at * at, failure
	}, func(int) (int, bool) { panic("nothing is looked for ahead") })
	value, err := line.Get(2)
	assert.Equal(t, 4, value)
	require.ErrorIs(t, err, failure)
	line.LookAhead()
	assert.PanicsWithValue(t, failure, func() { _, _ = line.Get(3) })
	line.Stop()
}

func TestLineGet_Errors_ComeInTheirPlace(t *testing.T) {
	t.Parallel()
	failure := errors.New("synthetic")
	line := list.NewLine(t.Context(), 2, func(_ context.Context, at int) (int, error) {
		if at == 2 {
			return 20, failure
		}
		return at, nil
	}, before(4))
	value, err := line.Get(1)
	require.NoError(t, err)
	assert.Equal(t, 1, value)
	line.LookAhead()
	value, err = line.Get(2)
	require.ErrorIs(t, err, failure)
	assert.Equal(t, 20, value, "what came beside the error")
	line.Stop()
}

func TestLineGet_FetchPanics_Panics(t *testing.T) {
	t.Parallel()
	for _, at := range []int{1, 2, 3} {
		line := list.NewLine(t.Context(), 2, func(_ context.Context, got int) (int, error) {
			if got == at {
				panic(fmt.Sprint("of ", at))
			}
			return got, nil
		}, before(10))
		read := func() {
			defer line.Stop()
			_, _ = line.Get(1)
			line.LookAhead()
			if at < 3 {
				_, _ = line.Get(2)
			}
		}
		assert.PanicsWithValue(t, fmt.Sprint("of ", at), read, "also of what was never read")
		line.Stop()
	}
}

func TestLineGet_FetchExits_Exits(t *testing.T) {
	t.Parallel()
	line := list.NewLine(t.Context(), 1, func(context.Context, int) (int, error) {
		runtime.Goexit()
		return 0, nil
	}, before(10))
	ended := make(chan struct{})
	went := false
	go func() {
		defer close(ended)
		defer line.Stop()
		_, _ = line.Get(1)
		went = true
	}()
	<-ended
	assert.False(t, went)
}

// A panic of one does not come out before the others have ended.
func TestLineStop_FetchPanics_WaitsForAllFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := false
		line := list.NewLine(t.Context(), 2, func(ctx context.Context, at int) (int, error) {
			if at == 1 {
				return at, nil
			}
			<-ctx.Done()
			if at == 2 {
				panic("of 2")
			}
			time.Sleep(time.Second)
			ended = true
			return at, nil
		}, func(at int) (int, bool) { return at + 1, at < 3 })
		_, err := line.Get(1)
		require.NoError(t, err)
		line.LookAhead()
		synctest.Wait()
		assert.PanicsWithValue(t, "of 2", line.Stop)
		assert.True(t, ended)
	})
}

// A line does not keep a value in memory that was read.
func TestLine_ValueRead_IsReleased(t *testing.T) {
	t.Parallel()
	line := list.NewLine(t.Context(), 2, func(_ context.Context, at int) (*[64]int, error) {
		return &[64]int{at}, nil
	}, func(at int) (int, bool) { return at + 1, at < 3 })
	defer line.Stop()
	read := func(at int) weak.Pointer[[64]int] {
		value, err := line.Get(at)
		require.NoError(t, err)
		require.Equal(t, at, value[0])
		line.LookAhead()
		return weak.Make(value)
	}
	read(1)
	second := read(2)
	assert.Eventually(t, func() bool { runtime.GC(); return second.Value() == nil }, 10*time.Second, time.Millisecond)
}
