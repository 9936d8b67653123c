package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// small is a repository like this one, without anything that would have to be fetched. Its name is one that the go command
// knows the repository of.
var small = map[string]string{
	"LICENSE":                 "synthetic\n",
	"go.mod":                  "module github.com/clinicaldoc/rehearsal\n\ngo 1.26.0\n",
	"small.go":                "package rehearsal\n\nfunc One() int { return 1 }\n",
	"cmd/server/main.go":      "package main\n\nfunc main() {}\n",
	"examples/program/m.go":   "package main\n\nfunc main() {}\n",
	"internal/maint/go.mod":   "module github.com/clinicaldoc/rehearsal/internal/maint\n\ngo 1.26.0\n",
	"internal/maint/maint.go": "package maint\n",
	"below/LICENSE":           "synthetic\n",
	"below/go.mod": "module github.com/clinicaldoc/rehearsal/below\n\ngo 1.26.0\n\nrequire github.com/clinicaldoc/rehearsal v0.0.0\n\n" +
		"replace github.com/clinicaldoc/rehearsal => ../\n",
	"below/below.go":   "package below\n\nimport \"github.com/clinicaldoc/rehearsal\"\n\nfunc Two() int { return 2 * rehearsal.One() }\n",
	"cmd/tool/LICENSE": "synthetic\n",
	"cmd/tool/go.mod": "module github.com/clinicaldoc/rehearsal/cmd/tool\n\ngo 1.26.0\n\nrequire (\n\tgithub.com/clinicaldoc/rehearsal v0.0.0\n\tgithub.com/clinicaldoc/rehearsal/below v0.0.0\n)\n\n" +
		"replace (\n\tgithub.com/clinicaldoc/rehearsal => ../..\n\tgithub.com/clinicaldoc/rehearsal/below => ../../below\n)\n",
	"cmd/tool/main.go": "package main\n\nimport (\n\t\"github.com/clinicaldoc/rehearsal\"\n\t\"github.com/clinicaldoc/rehearsal/below\"\n)\n\nfunc main() { println(rehearsal.One() + below.Two()) }\n",
	"CHANGELOG.md":     "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-03-01\n\n### Added\n\n- All.\n",
}

// newRepository commits the files and returns the repository with what it says.
func newRepository(t *testing.T, files map[string]string) (repository, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	r := repository{dir: t.TempDir(), out: &out, env: []string{
		"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@example.test", "GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@example.test",
	}}
	mustGit(t, r, "init", "--quiet", "--initial-branch=main")
	commit(t, r, files)
	return r, &out
}

func mustGit(t *testing.T, r repository, args ...string) string {
	t.Helper()
	out, err := r.git(t.Context(), args...)
	require.NoError(t, err)
	return out
}

// commit writes files and commits all.
func commit(t *testing.T, r repository, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(r.dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	mustGit(t, r, "add", "--all")
	mustGit(t, r, "commit", "--quiet", "--message", "Change")
}

// What is released works for whoever uses it: a program, both commands, the module below, all from empty module caches.
func TestRehearse_ReleaseWorksFromOutside(t *testing.T) {
	t.Parallel()
	r, out := newRepository(t, small)
	require.NoError(t, r.rehearse(t.Context(), "v0.2.0"))
	for _, line := range []string{
		"go install github.com/clinicaldoc/rehearsal/cmd/server@v0.2.0",
		"go install github.com/clinicaldoc/rehearsal/cmd/tool@v0.2.0",
		"go get github.com/clinicaldoc/rehearsal@v0.2.0: 1 package(s)",
		"go get github.com/clinicaldoc/rehearsal/below@v0.2.0: 1 package(s)",
	} {
		assert.Contains(t, out.String(), line+"\n")
	}
	assert.NotContains(t, out.String(), "program@", "examples and maintainers' modules are for nobody else")
	assert.NotContains(t, out.String(), "maint")
	assert.Empty(t, mustGit(t, r, "tag"), "a rehearsal leaves nothing")
	assert.Empty(t, mustGit(t, r, "status", "--porcelain"))
}

// asAPIDiff makes the test's own program say what apidiff would. The real one runs when a tag is checked.
const asAPIDiff = "RELEASE_TEST_APIDIFF"

func TestMain(m *testing.M) {
	says, ok := os.LookupEnv(asAPIDiff)
	switch {
	case !ok:
		if err := flag.Set("test.parallel", "8"); err != nil { // they wait for git and the go command
			panic(err)
		}
		os.Exit(m.Run())
	case len(os.Args) == 5 && os.Args[2] == "-w":
		_ = os.WriteFile(os.Args[3], nil, 0o600)
	default:
		_, _ = os.Stdout.WriteString(says)
	}
}

func TestPrepare_ThenTheNextRelease(t *testing.T) {
	t.Parallel()
	own, err := os.Executable()
	require.NoError(t, err)
	r, out := newRepository(t, small)
	main := mustGit(t, r, "rev-parse", "HEAD")
	require.NoError(t, r.prepare(t.Context(), "v0.2.0"))

	// One commit has all tags, requires all modules in this version, and replaces none; the next brings them back.
	released := mustGit(t, r, "rev-parse", "v0.2.0^{}")
	for _, tag := range []string{"below/v0.2.0", "cmd/tool/v0.2.0"} {
		assert.Equal(t, released, mustGit(t, r, "rev-parse", tag+"^{}"))
	}
	assert.Equal(t, "main", mustGit(t, r, "branch", "--show-current"))
	assert.Equal(t, main, mustGit(t, r, "rev-parse", "HEAD"), "the branch is the maintainer's to merge")
	assert.Equal(t, released, mustGit(t, r, "rev-parse", "release-v0.2.0~1"))
	assert.Empty(t, mustGit(t, r, "diff", "main", "release-v0.2.0"))
	assert.NotContains(t, mustGit(t, r, "show", "v0.2.0:cmd/tool/go.mod"), "replace")
	assert.Contains(t, out.String(), "git push origin release-v0.2.0\ngit push origin cmd/tool/v0.2.0\ngit push origin below/v0.2.0\ngit push origin v0.2.0\n")
	require.ErrorContains(t, r.prepare(t.Context(), "v0.2.0"), "released already")

	mustGit(t, r, "merge", "--quiet", "release-v0.2.0")
	require.ErrorContains(t, r.check(t.Context(), "v0.2.0"), "the commit has no tag v0.2.0", "main has gone on")
	mustGit(t, r, "checkout", "--quiet", "v0.2.0")
	require.NoError(t, r.check(t.Context(), "v0.2.0"), "the release itself is sound")
	mustGit(t, r, "checkout", "--quiet", "main")

	section := "# Changelog\n\n## [Unreleased]\n\n## [0.2.1] - 2026-03-02\n\n### Fixed\n\n- One.\n\n## [0.3.0] - 2026-03-02\n\n### Fixed\n\n- One.\n\n## [0.4.0] - 2026-03-02\n\n### Removed\n\n- Two.\n"
	commit(t, r, map[string]string{"CHANGELOG.md": section})
	r.apidiff = own
	broken := r.with(asAPIDiff + "=Incompatible changes:\n- Two: removed\n")
	require.ErrorContains(t, broken.check(t.Context(), "v0.2.1"), "needs another minor version")
	require.ErrorContains(t, broken.check(t.Context(), "v0.3.0"), "tells of nothing changed or removed")
	require.NoError(t, broken.check(t.Context(), "v0.4.0"))
	require.NoError(t, r.with(asAPIDiff+"=").check(t.Context(), "v0.2.1"))
}

func TestCheck_MissingParts_AreRejected(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		files map[string]string
		want  string
	}{
		"no word of it":         {map[string]string{"CHANGELOG.md": "## [Unreleased]\n"}, `no section "## [0.2.0]"`},
		"no licence":            {map[string]string{"below/LICENSE": ""}, "the module in below needs a LICENSE of its own"},
		"a foreign replacement": {map[string]string{"below/go.mod": small["below/go.mod"] + "\nreplace example.test/fork => ../internal/maint\n"}, "below still replaces [example.test/fork]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := newRepository(t, small)
			for file, content := range test.files {
				if content == "" {
					require.NoError(t, os.Remove(filepath.Join(r.dir, filepath.FromSlash(file))))
					delete(test.files, file)
				}
			}
			commit(t, r, test.files)
			require.ErrorContains(t, r.check(t.Context(), "v0.2.0"), test.want)
		})
	}
	r, _ := newRepository(t, small)
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "new.go"), []byte("package rehearsal\n"), 0o600))
	require.ErrorContains(t, r.prepare(t.Context(), "v0.2.0"), "not committed")
}

// The modules of this repository can be released: each has what a release asks of it. Which they are is not listed anywhere.
func TestModules_ThisRepository_CanBeReleased(t *testing.T) {
	t.Parallel()
	r := repository{dir: "../../..", out: &bytes.Buffer{}}
	if _, err := os.Stat(filepath.Join(r.dir, ".git")); err != nil {
		t.Skip("only git knows which files belong to the repository")
	}
	modules, err := r.modules(t.Context())
	require.NoError(t, err)
	assert.Equal(t, ".", modules[0].dir)
	var dirs []string
	for _, m := range modules {
		dirs = append(dirs, m.dir)
	}
	assert.Subset(t, dirs, []string{".", "ingest/jetstream", "cmd/clinicaldoc"})
	require.NoError(t, r.checkLicences(modules))
	assert.Contains(t, dirs, commandDir)
}

func TestRun_UnknownArguments_AreRejected(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"check"}, {"check", "0.2.0"}, {"push", "v0.2.0"}, {"build", "v0.2.0"}} {
		require.Error(t, run(t.Context(), args, &bytes.Buffer{}), strings.Join(args, " "))
	}
}
