package guards_test

import (
	"flag"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the repository's folder.
const root = "../../.."

// complete is for .ci/run modules.
var complete = flag.Bool("complete", false, "also what takes minutes, or modules that only nested modules require")

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil { // they wait for programs, and these for their end
		panic(err)
	}
	m.Run()
}

// files returns the names of the repository's files, with slashes and from its root, nested modules included. Folders called
// testdata are left out.
func files(t *testing.T) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if entry.Name() == "testdata" || entry.Name() == ".git" {
				return filepath.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(root, path)
		names = append(names, filepath.ToSlash(name))
		return err
	}))
	return names
}

// folders returns those of the repository that have a file of this name, the root as ".".
func folders(t *testing.T, file string) (found []string) {
	t.Helper()
	for _, name := range files(t) {
		if path.Base(name) == file {
			found = append(found, path.Dir(name))
		}
	}
	require.NotEmpty(t, found)
	return found
}

// read returns a file of the repository, with the ends of lines that Go has.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	require.NoError(t, err)
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

// sources returns the Go files of the root module by their path.
func sources(t *testing.T) map[string]string {
	t.Helper()
	modules := folders(t, "go.mod")
	found := map[string]string{}
	for _, name := range files(t) {
		nested := slices.ContainsFunc(modules, func(folder string) bool { return strings.HasPrefix(name, folder+"/") })
		if strings.HasSuffix(name, ".go") && !nested {
			found[name] = read(t, name)
		}
	}
	require.NotEmpty(t, found)
	return found
}

// inRoot reports whether a file belongs to the root package.
func inRoot(name string) bool { return !strings.Contains(name, "/") }

func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }
