package ingest_test

import (
	"io/fs"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk/disktest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk/durable"
)

// memory is a disk in memory. It counts operations, can be full, and can hold up one operation.
type memory struct {
	*disktest.Disk
	durable.FS
	mu      sync.Mutex
	done    map[string]int // operations, by their kind
	failing string         // the kind that fails
	once    bool           // it fails once
	held    string         // the kind that is held up, once
	at      chan struct{}
	goOn    chan struct{}
}

func newMemory() *memory {
	m := &memory{Disk: disktest.New(), done: map[string]int{}}
	m.FS = m.Mount(func(op string) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.done[op]++
		if m.held == op {
			m.held = ""
			close(m.at)
			m.mu.Unlock()
			<-m.goOn
			m.mu.Lock()
		}
		if op != m.failing {
			return nil
		}
		if m.once {
			m.failing = ""
		}
		return &fs.PathError{Op: op, Path: "journal", Err: syscall.ENOSPC}
	})
	return m
}

// fail lets all operations of a kind fail from now on.
func (m *memory) fail(op string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failing = op
}

// failOnce lets the next operation of a kind fail.
func (m *memory) failOnce(op string) {
	m.fail(op)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.once = true
}

// hold holds up the next operation of a kind, until goOn is closed.
func (m *memory) hold(op string) (at, goOn chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held, m.at, m.goOn = op, make(chan struct{}), make(chan struct{})
	return m.at, m.goOn
}

// times returns how often something was done.
func (m *memory) times(op string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.done[op]
}

// size is that of a file, or -1 if there is none.
func (m *memory) size(name string) int {
	content, there := m.Content(name)
	if !there {
		return -1
	}
	return len(content)
}

// opened is a bound journal on the disk.
func (m *memory) opened(t *testing.T) *ingest.FileJournal {
	t.Helper()
	j, err := openOrBegin(disk.With(t.Context(), m), service, "journal")
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	bind(t, j, service)
	return j
}

// The journal's notices and each key's latest line survive one compaction after the other.
func TestCompaction_Repeated_KeepsNotices(t *testing.T) {
	t.Parallel()
	d := newMemory()
	j := d.opened(t)
	owner := ingest.Owner{Service: service, UserID: 17}
	for range 3 { // lines that will be gone
		put(t, j, 100, ingest.StateCreated)
	}
	put(t, j, 101, ingest.StateCreated)
	_, err := j.Bind(t.Context(), owner)
	require.NoError(t, err)
	require.NoError(t, j.Close())
	j = d.opened(t)
	load(t, j, 101)
	forgotten, err := j.Forget(t.Context(), time.Now()) // which leaves a gap
	require.NoError(t, err)
	require.Equal(t, 1, forgotten)
	for range 3 {
		addOutdatedLines(t, j)
		before := d.times(disktest.Rename)
		binding, err := j.Bind(t.Context(), owner)
		require.NoError(t, err)
		assert.True(t, binding.Gaps)
		require.Equal(t, before+1, d.times(disktest.Rename))
	}
	require.NoError(t, j.Close())
	j = d.opened(t)
	_, err = j.Bind(t.Context(), ingest.Owner{Service: service, UserID: 18})
	require.ErrorIs(t, err, ingest.ErrOtherUser, "its owner is not forgotten")
	binding, err := j.Bind(t.Context(), owner)
	require.NoError(t, err)
	assert.True(t, binding.Gaps, "nor that something is missing")
	assert.Equal(t, ingest.StateCreated, load(t, j, 101).State)
	for n := range 5 {
		assert.Equal(t, ingest.StateCreated, load(t, j, n).State, n)
	}
}

// A journal that cannot be shortened has a warning until it can. Forget then reports that nothing is forgotten.
func TestCompaction_Fails_WarnsUntilItSucceeds(t *testing.T) {
	t.Parallel()
	d := newMemory()
	j := d.opened(t)
	addOutdatedLines(t, j)
	d.fail(disktest.SyncDir)
	bind(t, j, service)
	require.Error(t, j.Warning())
	require.NoError(t, j.Close())
	d.fail("")
	j = d.opened(t)
	d.fail(disktest.SyncDir)
	forgotten, err := j.Forget(t.Context(), time.Now())
	require.Error(t, err)
	assert.Zero(t, forgotten)
	require.ErrorIs(t, j.Warning(), err)
	d.fail("")
	forgotten, err = j.Forget(t.Context(), time.Now())
	require.NoError(t, err)
	assert.Equal(t, 10, forgotten)
	require.NoError(t, j.Warning())
}

func TestCompaction_LinesBeingWritten_Waits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newMemory()
		j := d.opened(t)
		addOutdatedLines(t, j)
		writing, goOn := d.hold(disktest.Write)
		var all sync.WaitGroup
		all.Go(func() { put(t, j, 50, ingest.StateCommitting) })
		<-writing
		before := d.times(disktest.Create)
		all.Go(func() { bind(t, j, service) })
		synctest.Wait()
		assert.Equal(t, before, d.times(disktest.Create), "nothing is done to a file that is being written to")
		close(goOn)
		all.Wait()
		require.NoError(t, j.Close())
		j = d.opened(t)
		assert.Equal(t, ingest.StateCommitting, load(t, j, 50).State, "and no line is lost with the old one")
		require.NoError(t, j.Close())
	})
}
