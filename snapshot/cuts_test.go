package snapshot_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk/disktest"
	"github.com/clinicaldoc/clinicaldoc-go/snapshot"
)

// The power is cut at every write, sync and rename of a run that is saved. The file then holds either the run before or
// this one, completely. It holds this one if Save returned nil. The next run yields what the file lacks.
func TestSave_PowerCut_LeavesACompleteSnapshot(t *testing.T) {
	t.Parallel()
	const path = "/notes.snapshot"
	srv := newServer(t, clinicaldoctest.Variant{})
	client := client(srv)
	runAndSave := func(m disktest.Machine) (changes int, saved bool) {
		s, err := snapshot.Open(disk.With(t.Context(), m), client, path, clinicaldoc.ListNotesParams{})
		if err != nil {
			return 0, false
		}
		defer func() { _ = s.Close() }()
		found, err := runOnce(t.Context(), s)
		require.NoError(t, err)
		return len(found), s.Save() == nil && m.Alive()
	}
	restarted := func(d *disktest.Disk) disktest.Machine {
		return disktest.Machine{FS: d.Mount(nil), Alive: func() bool { return true }}
	}
	requireCuts := func(before *disktest.Disk, newNotes int) {
		disks := disktest.Cuts(before, func(m disktest.Machine) bool {
			_, saved := runAndSave(m)
			return saved
		}, func(d *disktest.Disk, saved bool, place string) {
			changes, savedAgain := runAndSave(restarted(d))
			require.True(t, savedAgain, place)
			if saved {
				require.Zero(t, changes, place)
			} else {
				require.Contains(t, []int{0, newNotes}, changes, place)
			}
			assert.Equal(t, []string{path}, d.Names(), place)
			changes, _ = runAndSave(restarted(d))
			require.Zero(t, changes, "%s: what was saved is the last run", place)
		})
		assert.Greater(t, disks, 10)
	}
	d := disktest.New()
	srv.AddNote(clinicaldoctest.Note{})
	requireCuts(d.Clone(), 1) // the first run
	_, saved := runAndSave(restarted(d))
	require.True(t, saved)
	srv.AddNote(clinicaldoctest.Note{})
	requireCuts(d, 1) // a run after one that was saved
}

// If the disk refuses to write, Save leaves the file as it was and no other file. The next Save succeeds.
func TestSave_DiskRefuses_KeepsTheFile(t *testing.T) {
	t.Parallel()
	const path = "/notes.snapshot"
	srv := newServer(t, clinicaldoctest.Variant{})
	srv.AddNote(clinicaldoctest.Note{})
	for _, refused := range []string{disktest.Create, disktest.Write, disktest.Sync, disktest.Rename} {
		d := disktest.New()
		full := false
		fs := d.Mount(func(op string) error {
			if full && op == refused {
				return syscall.ENOSPC
			}
			return nil
		})
		s, err := snapshot.Open(disk.With(t.Context(), fs), client(srv), path, clinicaldoc.ListNotesParams{})
		require.NoError(t, err)
		require.NoError(t, s.Save())
		before, _ := d.Content(path)
		requireChanges(t, s, "new 1 complete")
		full = true
		require.ErrorIs(t, s.Save(), syscall.ENOSPC, refused)
		now, _ := d.Content(path)
		assert.Equal(t, before, now, refused)
		assert.Equal(t, []string{path}, d.Names(), refused)
		full = false
		require.NoError(t, s.Save(), refused)
		assert.Equal(t, []string{path}, d.Names(), refused)
		require.NoError(t, s.Close())
	}
}

// Some file systems do not support or allow the sync of a folder. Save then succeeds anyway. After other errors it
// fails.
func TestSave_FolderCannotBeSynced_FailsUnlessUnsupported(t *testing.T) {
	t.Parallel()
	const path = "/notes.snapshot"
	for failure, saved := range map[error]bool{
		syscall.EINVAL: true, syscall.ENOTSUP: true, syscall.EACCES: true, syscall.EIO: false,
	} {
		srv := newServer(t, clinicaldoctest.Variant{})
		srv.AddNote(clinicaldoctest.Note{})
		d := disktest.New()
		mounted := d.Mount(func(op string) error {
			if op == disktest.SyncDir {
				return failure
			}
			return nil
		})
		s, err := snapshot.Open(disk.With(t.Context(), mounted), client(srv), path, clinicaldoc.ListNotesParams{})
		require.NoError(t, err)
		requireChanges(t, s, "new 1 complete")
		err = s.Save()
		if saved {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, failure)
			assert.Contains(t, err.Error(), "the file was replaced")
			assert.NotContains(t, err.Error(), "cannot be written")
		}
		now, _ := d.Content(path)
		assert.Contains(t, string(now), "end 1")
		require.NoError(t, s.Close())
	}
}
