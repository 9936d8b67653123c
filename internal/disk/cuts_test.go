package disk_test

import (
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/disk/disktest"
)

func TestChoices_WalkEveryPath(t *testing.T) {
	t.Parallel()
	var c disktest.Choices
	var paths []string
	for more := true; more; more = c.Next() {
		path := fmt.Sprint(c.Choose(2))
		if path == "1" {
			path += fmt.Sprint(c.Choose(3))
		}
		paths = append(paths, path)
	}
	assert.Equal(t, []string{"0", "10", "11", "12"}, paths)
}

// A file is replaced in the usual way, and in ways that lack a sync. The test names what a power cut may leave of
// each.
func TestPowerCut_ReplacedFile_LeavesWhatWasSynced(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sync, syncDir bool
		want          []string
	}{
		"whole":           {true, true, []string{"new"}},
		"folder unsynced": {true, false, []string{"new", "new, new", "old", "old, new"}},
		"file unsynced":   {false, true, []string{"", "\x00\x00\x00", "n", "ne", "new"}},
	} {
		d := disktest.New()
		d.Put("/file", []byte("old"))
		m := d.Mount(nil)
		file, err := m.Create("/file.new", false)
		require.NoError(t, err)
		_, err = io.WriteString(file, "new")
		require.NoError(t, err)
		if c.sync {
			require.NoError(t, file.Sync())
		}
		require.NoError(t, m.Rename("/file.new", "/file"))
		if c.syncDir {
			require.NoError(t, m.SyncDir("/"))
		}
		var left []string
		for choices := new(disktest.Choices); ; {
			after := d.Clone()
			after.PowerCut(choices.Choose)
			content, _ := after.Content("/file")
			text := string(content)
			if second, there := after.Content("/file.new"); there {
				text += ", " + string(second)
			}
			if !slices.Contains(left, text) {
				left = append(left, text)
			}
			if !choices.Next() {
				break
			}
		}
		slices.Sort(left)
		assert.Equal(t, c.want, left, name)
	}
}
