package durable

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAPathIsSpelledAsItsFoldersWriteIt(t *testing.T) {
	t.Parallel()
	folders := map[string][]string{
		"/":             {"Clinic", "plain"},
		"/Clinic":       {"Uploads.journal"},
		"/plain":        {"a.journal", "A.journal"},
		"/Clinic/empty": nil,
		"/both":         {"aB", "Ab"},
	}
	list := func(folder string) []string { return folders[filepath.ToSlash(folder)] }
	noCase := func(name string) bool {
		for folder, names := range folders {
			for _, n := range names {
				if strings.EqualFold(strings.TrimSuffix(folder, "/")+"/"+n, filepath.ToSlash(name)) {
					return true
				}
			}
		}
		return false
	}
	hasCase := func(name string) bool {
		return slices.Contains(list(filepath.Dir(name)), filepath.Base(name))
	}
	for _, c := range []struct {
		path, want string
		exists     func(string) bool
	}{
		{"/Clinic/Uploads.journal", "/Clinic/Uploads.journal", noCase},
		{"/clinic/uploads.JOURNAL", "/Clinic/Uploads.journal", noCase},
		{"/clinic/uploads.JOURNAL", "/clinic/uploads.JOURNAL", hasCase},
		{"/plain/a.journal", "/plain/a.journal", hasCase},
		{"/plain/A.journal", "/plain/A.journal", hasCase},
		{"/Clinic/12", "/Clinic/12", noCase},
		{"/both/Ab", "/both/Ab", hasCase},
	} {
		assert.Equal(t, filepath.FromSlash(c.want), spelled(filepath.FromSlash(c.path), c.exists, list), c.path)
	}
}
