package ingest_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk/disktest"
)

// desk is a bound journal on a disk that counts, and some claims.
func desk(t *testing.T, claims int) (*ingest.FileJournal, *memory, []ingest.Claim) {
	t.Helper()
	d := newMemory()
	j := d.opened(t)
	held := make([]ingest.Claim, claims)
	for n := range held {
		claim, err := j.Claim(t.Context(), key(n))
		require.NoError(t, err)
		held[n] = claim
	}
	clear(d.done)
	return j, d, held
}

func saveAll(t *testing.T, claims []ingest.Claim, state ingest.State) {
	t.Helper()
	var all sync.WaitGroup
	for n, claim := range claims {
		all.Go(func() { assert.NoError(t, claim.Save(t.Context(), entry(n, state))) })
	}
	all.Wait()
}

func TestFileJournal_ConcurrentUploads_ShareASync(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, m, claims := desk(t, 8)
		begun := time.Now()
		saveAll(t, claims, ingest.StateCommitting)
		assert.Equal(t, 1, m.times(disktest.Sync))
		saveAll(t, claims, ingest.StateCreated)
		assert.Equal(t, 2, m.times(disktest.Sync))
		assert.Zero(t, time.Since(begun), "who waits for nobody is written at once")
	})
}

func TestFileJournal_LineAlone_WaitsBriefly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, m, claims := desk(t, 4)
		begun := time.Now()
		saveAll(t, claims[:1], ingest.StateCommitting) // three are still to come
		assert.Equal(t, 1, m.times(disktest.Sync))
		assert.Equal(t, ingest.TogetherWait, time.Since(begun))

		// A note's line goes with the next upload's.
		var all sync.WaitGroup
		all.Go(func() { assert.NoError(t, claims[0].Save(t.Context(), entry(0, ingest.StateCreated))) })
		synctest.Wait()
		assert.Equal(t, 1, m.times(disktest.Sync))
		saveAll(t, claims[1:], ingest.StateCommitting)
		all.Wait()
		assert.Equal(t, 2, m.times(disktest.Sync))

		// One that ends without a line is not waited for.
		begun = time.Now()
		claims[1].Release()
		claims[2].Release()
		saveAll(t, claims[3:], ingest.StateRefused)
		assert.Equal(t, 3, m.times(disktest.Sync))
		assert.Zero(t, time.Since(begun))
	})
}

func TestClose_WaitingLine_IsWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j, m, claims := desk(t, 2)
		var all sync.WaitGroup
		all.Go(func() { assert.NoError(t, claims[0].Save(t.Context(), entry(0, ingest.StateCommitting))) })
		synctest.Wait()
		assert.Zero(t, m.times(disktest.Sync))
		require.NoError(t, j.Close())
		all.Wait()
		assert.Equal(t, 1, m.times(disktest.Sync))
		require.Error(t, claims[1].Save(t.Context(), entry(1, ingest.StateCommitting)))
	})
}

// If the disk refuses a line while the journal is closed, the Save that waits for the line returns the error too.
func TestClose_WaitingLineFails_ReturnsTheError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j, m, claims := desk(t, 2)
		var all sync.WaitGroup
		all.Go(func() { assert.Error(t, claims[0].Save(t.Context(), entry(0, ingest.StateCommitting))) })
		synctest.Wait()
		m.fail(disktest.Write)
		require.Error(t, j.Close())
		all.Wait()
	})
}

// After a line that could not be written, the content of the disk is not known. So lines that wait behind it fail too.
func TestFileJournal_LineAfterAFailure_IsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newMemory()
		j := d.opened(t)
		var claims []ingest.Claim
		for n := range 2 {
			claim, err := j.Claim(t.Context(), key(n))
			require.NoError(t, err)
			claims = append(claims, claim)
		}
		syncing, goOn := d.hold(disktest.Sync)
		var all sync.WaitGroup
		all.Go(func() { assert.Error(t, claims[0].Save(t.Context(), entry(0, ingest.StateCommitting))) })
		<-syncing
		all.Go(func() { assert.Error(t, claims[1].Save(t.Context(), entry(1, ingest.StateRefused))) })
		synctest.Wait()
		d.failOnce(disktest.Sync)
		close(goOn)
		all.Wait()
		_, err := j.EntriesForPatient(t.Context(), 0, time.Time{})
		require.Error(t, err)
		_ = j.Close()
		j = d.opened(t)
		assert.Equal(t, ingest.StateClaimed, load(t, j, 1).State)
		require.NoError(t, j.Close())
	})
}

// Save returns only when the line is on the disk.
func TestFileJournal_Save_ReturnsAfterTheSync(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newMemory()
		j := d.opened(t)
		claim, err := j.Claim(t.Context(), key(1))
		require.NoError(t, err)
		// A batch waits for the line of an upload under way, such as this one: so a timer's goroutine writes the first
		// state, and Save itself the second.
		_, err = j.Claim(t.Context(), key(3))
		require.NoError(t, err)
		for _, state := range []ingest.State{ingest.StateInDoubt, ingest.StateCommitting} {
			syncing, goOn := d.hold(disktest.Sync)
			saved := false
			var all sync.WaitGroup
			all.Go(func() {
				assert.NoError(t, claim.Save(t.Context(), entry(1, state)))
				saved = true
			})
			<-syncing
			synctest.Wait()
			assert.False(t, saved, "the line is not on the disk")
			close(goOn)
			all.Wait()
		}
	})
}

// Nothing is left of a line that did not get to the disk.
func TestFileJournal_WriteFails_SavesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newMemory()
		j := d.opened(t)
		claim, err := j.Claim(t.Context(), key(1))
		require.NoError(t, err)
		require.NoError(t, claim.Save(t.Context(), entry(1, ingest.StateCommitting)))
		before := d.size("journal")
		for _, what := range []string{disktest.Write, disktest.Sync} {
			d.fail(what)
			require.Error(t, claim.Save(t.Context(), entry(1, ingest.StateCreated)))
			assert.Equal(t, before, d.size("journal"), "what was not written whole is cut off")
			d.fail("")
			require.Error(t, claim.Save(t.Context(), entry(1, ingest.StateCreated)), "nobody knows what the disk holds")
			_, err = j.Claim(t.Context(), key(2))
			require.Error(t, err)
			_ = j.Close()
			j = d.opened(t)
			claim, err = j.Claim(t.Context(), key(1))
			require.NoError(t, err)
			assert.Equal(t, ingest.StateCommitting, claim.Entry().State)
		}
	})
}
