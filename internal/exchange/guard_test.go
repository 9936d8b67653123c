package exchange_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

func TestGuardedWait_ReturnsAfterTheFunction(t *testing.T) {
	t.Parallel()
	begin := make(chan struct{})
	ran := false
	task := exchange.GoGuarded(func() {
		<-begin
		ran = true
	})
	select {
	case <-task.Done():
		t.Fatal("it is done before it began")
	default:
	}
	close(begin)
	task.Wait()
	assert.True(t, ran)
	<-task.Done()
	task.Wait()
}

func TestGuardedWait_Panic_IsRepeated(t *testing.T) {
	t.Parallel()
	failure := errors.New("synthetic")
	for _, value := range []any{failure, "text", 0} {
		task := exchange.GoGuarded(func() { panic(value) })
		<-task.Done()
		for range 2 {
			assert.PanicsWithValue(t, value, task.Wait)
		}
	}
}

func TestGuardedWait_PanicWithNil_IsAPanic(t *testing.T) {
	t.Parallel()
	task := exchange.GoGuarded(func() { panic(nil) }) //nolint:govet // that is what is tested
	defer func() {
		assert.IsType(t, new(runtime.PanicNilError), recover())
	}()
	task.Wait()
}

func TestGuardedWait_Goexit_IsRepeated(t *testing.T) {
	t.Parallel()
	task := exchange.GoGuarded(runtime.Goexit)
	for range 2 {
		waited, went := make(chan any), false
		go func() {
			defer close(waited)
			defer func() { waited <- recover() }()
			task.Wait()
			went = true
		}()
		require.Nil(t, <-waited, "it is no panic")
		<-waited
		assert.False(t, went, "the goroutine that waited has ended")
	}
}

func TestGuardedWait_RecoveredPanic_Returns(t *testing.T) {
	t.Parallel()
	task := exchange.GoGuarded(func() {
		defer func() { _ = recover() }()
		panic("its own affair")
	})
	task.Wait()
}
