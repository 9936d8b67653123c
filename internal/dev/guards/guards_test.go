package guards_test

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the repository's folder.
const root = "../../.."

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil { // they wait for programs, and these for their end
		panic(err)
	}
	m.Run()
}

// sources returns the repository's Go files by their path from its root, nested modules left out. That they are read here
// also keeps go test from showing an outdated result of the tests that run the go command.
func sources(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if nested := err == nil && path != root; nested || entry.Name() == "testdata" || entry.Name() == ".git" {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(path, ".go") {
			name, err := filepath.Rel(root, path)
			require.NoError(t, err)
			files[filepath.ToSlash(name)], err = os.ReadFile(path)
			return err
		}
		return nil
	}))
	require.NotEmpty(t, files)
	return files
}

// inRoot reports whether a file belongs to the root package.
func inRoot(name string) bool { return !strings.Contains(name, "/") }

func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }
