package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// withDependencies is a command that uses one of the two packages of a module of others, and nothing of a second module.
func withDependencies() map[string]string {
	files := maps.Clone(small)
	files["cmd/tool/go.mod"] = "module github.com/clinicaldoc/rehearsal/cmd/tool\n\ngo 1.26.0\n\nrequire (\n" +
		"\tgithub.com/clinicaldoc/rehearsal v0.0.0\n\texample.test/linked v1.2.3\n\texample.test/unused v1.0.0\n)\n\nreplace (\n" +
		"\tgithub.com/clinicaldoc/rehearsal => ../..\n\texample.test/linked => ../../third/linked\n" +
		"\texample.test/unused => ../../third/unused\n)\n"
	files["cmd/tool/main.go"] = "package main\n\nimport (\n\t\"example.test/linked/used\"\n" +
		"\t\"github.com/clinicaldoc/rehearsal\"\n)\n\nfunc main() { println(rehearsal.One() + used.Two()) }\n"
	files["third/linked/go.mod"] = "module example.test/linked\n\ngo 1.26.0\n"
	files["third/linked/LICENSE"] = "synthetic terms of the module\n"
	files["third/linked/license.go"] = "package linked\n"
	files["third/linked/used/used.go"] = "package used\n\nfunc Two() int { return 2 }\n"
	files["third/linked/used/NOTICE.txt"] = "synthetic notice of the package\n"
	files["third/linked/other/COPYING"] = "terms of a package that nobody uses\n"
	files["third/linked/other/other.go"] = "package other\n"
	files["third/unused/go.mod"] = "module example.test/unused\n\ngo 1.26.0\n"
	files["third/unused/LICENSE"] = "terms of a module that nobody uses\n"
	files["third/unused/unused.go"] = "package unused\n"
	return files
}

func TestNotices_HoldLicencesOfLinkedPackages(t *testing.T) {
	t.Parallel()
	r, _ := newRepository(t, withDependencies())
	text, err := r.in("cmd/tool").notices(t.Context(), "github.com/clinicaldoc/rehearsal")
	require.NoError(t, err)
	notices := string(text)
	assert.Contains(t, notices, "\nexample.test/linked v1.2.3: LICENSE\n")
	assert.Contains(t, notices, "\nsynthetic terms of the module\n")
	assert.Contains(t, notices, "\nexample.test/linked v1.2.3: used/NOTICE.txt\n")
	assert.Contains(t, notices, "\nsynthetic notice of the package\n")
	assert.Contains(t, notices, "Copyright 2009 The Go Authors", "the standard library is linked too")
	assert.NotContains(t, notices, "nobody uses")
	assert.NotContains(t, notices, "package linked", "a source file is not a licence")
	assert.NotContains(t, notices, "rehearsal", "the archive has the own licence already")
	again, err := r.in("cmd/tool").notices(t.Context(), "github.com/clinicaldoc/rehearsal")
	require.NoError(t, err)
	assert.Equal(t, notices, string(again), "the same bytes each time")
}

func TestNotices_ModuleWithoutLicence_IsNotReleased(t *testing.T) {
	t.Parallel()
	files := withDependencies()
	delete(files, "third/linked/LICENSE")
	delete(files, "third/linked/used/NOTICE.txt")
	r, _ := newRepository(t, files)
	_, err := r.in("cmd/tool").notices(t.Context(), "github.com/clinicaldoc/rehearsal")
	require.ErrorContains(t, err, "example.test/linked has no licence file")
}

// The command itself: all that its bill of materials lists has its notice.
func TestNotices_OfTheCommand(t *testing.T) {
	t.Parallel()
	r := repository{dir: "../../..", out: &bytes.Buffer{}}
	text, err := r.in(commandDir).notices(t.Context(), "github.com/clinicaldoc/clinicaldoc-go")
	require.NoError(t, err)
	for _, module := range []string{
		"github.com/hashicorp/go-retryablehttp", "github.com/google/go-querystring", "github.com/spf13/cobra",
		"github.com/nats-io/nats.go", "golang.org/x/term",
	} {
		assert.Contains(t, string(text), "\n"+module+" v", module)
	}
}

func TestBuild_ArchiveHoldsLicenceAndNotices(t *testing.T) {
	t.Parallel()
	files := maps.Clone(small)
	files["cmd/clinicaldoc/LICENSE"] = "synthetic\n"
	files["cmd/clinicaldoc/go.mod"] = "module github.com/clinicaldoc/rehearsal/cmd/clinicaldoc\n\ngo 1.26.0\n\n" +
		"require github.com/clinicaldoc/rehearsal v0.0.0\n\nreplace github.com/clinicaldoc/rehearsal => ../..\n"
	files["cmd/clinicaldoc/go.sum"] = "" // git commits what is tracked
	files["cmd/clinicaldoc/main.go"] = "package main\n\nimport \"github.com/clinicaldoc/rehearsal\"\n\n" +
		"func main() { println(rehearsal.One()) }\n"
	files["cmd/clinicaldoc/internal/gen/main.go"] = "package main\n\nimport (\n\t\"os\"\n\t\"path/filepath\"\n)\n\n" +
		"func main() {\n\t_ = os.MkdirAll(os.Args[2], 0o700)\n" +
		"\t_ = os.WriteFile(filepath.Join(os.Args[2], \"clinicaldoc.1\"), nil, 0o600)\n}\n"
	r, _ := newRepository(t, files)
	require.NoError(t, r.prepare(t.Context(), "v0.2.0"))
	mustGit(t, r, "checkout", "--quiet", "v0.2.0")
	target := t.TempDir()
	require.NoError(t, r.build(t.Context(), "v0.2.0", target, []string{"linux/amd64"}))

	packed := filesOfTarball(t, filepath.Join(target, "clinicaldoc_0.2.0_linux_amd64.tar.gz"))
	assert.Contains(t, packed, "LICENSE")
	assert.Contains(t, packed, "man/man1/clinicaldoc.1")
	assert.Contains(t, packed["NOTICES"], "The Go Authors")
}

func filesOfTarball(t *testing.T, path string) map[string]string {
	t.Helper()
	packed, err := os.ReadFile(path)
	require.NoError(t, err)
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	archive := tar.NewReader(unzipped)
	files := map[string]string{}
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		var content strings.Builder
		_, err = io.Copy(&content, archive)
		require.NoError(t, err)
		files[header.Name] = content.String()
	}
}
