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

// The power is cut at every write, sync and rename of a look that is saved. The file holds the look before or this one whole, this
// one if it was said to be saved, and the next look tells what that one lacks.
func TestAPowerCutLeavesAWholeSnapshot(t *testing.T) {
	t.Parallel()
	const path = "/notes.snapshot"
	srv := newServer(t, clinicaldoctest.Variant{})
	client := client(srv)
	saved := func(m disktest.Machine) (changes int, kept bool) {
		s, err := snapshot.Open(disk.With(t.Context(), m), client, path, clinicaldoc.ListNotesParams{})
		if err != nil {
			return 0, false
		}
		defer func() { _ = s.Close() }()
		found, err := look(t.Context(), s)
		require.NoError(t, err)
		return len(found), s.Save() == nil && m.Alive()
	}
	none := disktest.New()
	srv.AddNote(clinicaldoctest.Note{})
	for _, before := range []*disktest.Disk{none, none.Clone()} {
		if before != none { // there is a look before
			_, kept := saved(disktest.Machine{FS: before.Mount(nil), Alive: func() bool { return true }})
			require.True(t, kept)
			srv.AddNote(clinicaldoctest.Note{})
		}
		all := len(srv.Notes())
		news := all
		if before != none {
			news = 1
		}
		disks := disktest.Cuts(before, func(m disktest.Machine) bool {
			_, kept := saved(m)
			return kept
		}, func(d *disktest.Disk, kept bool, place string) {
			found, again := saved(disktest.Machine{FS: d.Mount(nil), Alive: func() bool { return true }})
			require.True(t, again, place)
			if kept {
				require.Zero(t, found, place)
			} else {
				require.Contains(t, []int{0, news}, found, place)
			}
			assert.Equal(t, []string{path}, d.Names(), place)
		})
		assert.Greater(t, disks, 10)
	}
}

// A disk that refuses to write leaves the file as it was and nothing beside it, and the next time it is written all the same.
func TestADiskThatRefusesLeavesTheSnapshotAsItWas(t *testing.T) {
	t.Parallel()
	const path = "/notes.snapshot"
	srv := newServer(t, clinicaldoctest.Variant{})
	srv.AddNote(clinicaldoctest.Note{})
	for _, refused := range []string{disktest.Create, disktest.Write, disktest.Sync, disktest.Rename} {
		d, full := disktest.New(), false
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
		requireLook(t, s, "new 1 complete")
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

// Some file systems sync no folders. What is saved there is in the file, as durable as it gets.
func TestSave_FolderThatCannotBeSynced(t *testing.T) {
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
		requireLook(t, s, "new 1 complete")
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
