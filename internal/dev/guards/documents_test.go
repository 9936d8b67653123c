package guards_test

import (
	"bytes"
	"encoding/json"
	"go/format"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/docs"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/outside"
)

// documents returns the repository's Markdown files by their path from its root, those of nested modules too.
func documents(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for _, name := range files(t) {
		if strings.HasSuffix(name, ".md") {
			pages[name] = read(t, name)
		}
	}
	require.Contains(t, pages, "README.md")
	return pages
}

func TestReadme_ListsItsSections(t *testing.T) {
	t.Parallel()
	readme := documents(t)["README.md"]
	contents := regexp.MustCompile(`(?m)^- \[(.+)\]\(#`).FindAllStringSubmatch(readme, -1)
	var listed []string
	for _, entry := range contents {
		listed = append(listed, entry[1])
	}
	var headings []string
	for _, heading := range regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(withoutCode(readme), -1) {
		headings = append(headings, heading[1])
	}
	assert.Equal(t, headings, listed, "the contents name the sections, in their order")
}

func TestTheReadmeLeadsToEveryPage(t *testing.T) {
	t.Parallel()
	pages := documents(t)
	for name := range pages {
		if strings.HasPrefix(name, "docs/") {
			isLinked := strings.Contains(pages["README.md"], "]("+name+")") // its text would hide the message
			assert.True(t, isLinked, "the README does not link to %s", name)
		}
	}
}

// unlisted are the sentinels that a list leaves out, and why.
var unlisted = map[string]map[string]string{
	"cmd/clinicaldoc/internal/command/remedies.go": {
		"ErrAudioChanged": "the command writes to files, which can be rewound",
		"ErrNotCreated":   "package ingest creates the note again",
	},
	"cmd/internal/devproxy/verdict.go": {
		"ErrInUse":            "it is about files of the program",
		"ErrNotAudited":       "the program's own function failed",
		"ErrNotCreated":       "it does not follow from one response",
		"ErrProcessingFailed": "it does not follow from one response",
	},
}

// The command advises on each sentinel of the SDK, and the developer proxy shows it. A test has that of each status.
func TestSentinels_EachOne_IsListedByTheTools(t *testing.T) {
	t.Parallel()
	sentinel := regexp.MustCompile(`(?m)^\t(Err[A-Z]\w+) += (?:.* // (\d+)$)?`)
	found := 0
	for file, source := range sources(t) {
		if !inRoot(file) || isTest(file) {
			continue
		}
		for _, match := range sentinel.FindAllStringSubmatch(source, -1) {
			name, status := match[1], match[2]
			found++
			for list, exceptions := range unlisted {
				isListed := strings.Contains(read(t, list), "clinicaldoc."+name+",")
				isException := exceptions[name] != ""
				assert.NotEqual(t, isException, isListed, "add %s to %s, or say in the map above why not", name, list)
			}
			isTested := strings.Contains(read(t, "errors_test.go"), status+": clinicaldoc."+name)
			assert.True(t, status == "" || isTested, "errors_test.go does not test that %s matches %s", status, name)
		}
	}
	assert.Positive(t, found)
}

// What the pages list is all there is, and what they quote is said.
func TestPagesListEveryOptionAndError(t *testing.T) {
	t.Parallel()
	pages := documents(t)
	var code strings.Builder
	for name, source := range sources(t) {
		if !isTest(name) {
			code.WriteString(source)
		}
		if isTest(name) || !inRoot(name) {
			continue
		}
		for _, option := range regexp.MustCompile(`(?m)^func (\w+)\(.*\) (?:Call)?Option \{$`).FindAllStringSubmatch(source, -1) {
			if name := option[1]; token.IsExported(name) {
				listed := strings.Contains(pages["docs/configuration.md"], "`"+name+"`")
				assert.True(t, listed, "docs/configuration.md does not list the option %s", name)
			}
		}
		for _, sentinel := range regexp.MustCompile(`(?m)^\t(Err\w+) += |^type (\w+Error) struct`).FindAllStringSubmatch(source, -1) {
			if name := sentinel[1] + sentinel[2]; token.IsExported(name) {
				listed := regexp.MustCompile("`\\*?" + name + "`").MatchString(pages["docs/errors.md"])
				assert.True(t, listed, "docs/errors.md does not list the error %s", name)
			}
		}
	}
	_, first, found := strings.Cut(pages["docs/errors.md"], "## The first connection")
	require.True(t, found)
	for _, row := range regexp.MustCompile(`(?m)^\|[^|]+\|([^|]+)\|$`).FindAllStringSubmatch(first, -1) {
		for _, quoted := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			isSaid := strings.Contains(code.String(), quoted[1])
			assert.True(t, isSaid, "no error says %q, as docs/errors.md quotes", quoted[1])
		}
	}
}

func TestEveryExampleIsListed(t *testing.T) {
	t.Parallel()
	programs, err := filepath.Glob(filepath.Join(root, "examples", "*", "main.go"))
	require.NoError(t, err)
	require.NotEmpty(t, programs)
	for _, program := range programs {
		assert.Contains(t, documents(t)["examples/README.md"], "]("+filepath.Base(filepath.Dir(program))+"/")
	}
}

// Go code that a reader may copy compiles in a module of the reader's own, and the tests among it pass.
func TestCodeInDocumentsWorksInAnotherModule(t *testing.T) {
	t.Parallel()
	files := map[string]string{"README/main/encounter.wav": "synthetic"} // which the README's program uploads
	for name, page := range documents(t) {
		if name != "README.md" && !strings.HasPrefix(name, "docs/") {
			assert.True(t, name == "CONTRIBUTING.md" || !strings.Contains(page, "```go\n"), "%s: code is compiled in README and docs alone", name)
			continue
		}
		if module := nestedModule(page); module != "" {
			assert.True(t, testsMention(t, module, name), "%s: tests of %s have to compile its code", name, module)
			continue
		}
		for _, block := range goCode.FindAllStringSubmatch(page, -1) {
			formatted, err := format.Source([]byte(block[1]))
			require.NoError(t, err, "%s: %s", name, block[1])
			assert.Equal(t, string(formatted), block[1], name)
		}
		for block, program := range outside.Programs(page) {
			files[strings.TrimSuffix(path.Base(name), ".md")+"/"+block] = program
		}
	}
	require.NoError(t, outside.Go(t.Context(), root, files, "test", "-ldflags=-s -w", "./..."))
	if *complete {
		require.NoError(t, outside.Go(t.Context(), root, files, "vet", "./..."))
	}
}

// What the README tells a newcomer to type serves the modules below the root too, as pages on them take for granted.
func TestTheReadmesLinesServeTheModulesBelow(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sh")
	if err != nil || runtime.GOOS == "windows" {
		t.Skip("the lines are for a shell")
	}
	typed := regexp.MustCompile("(?s)\n```sh\n(go mod init .*?)```").FindStringSubmatch(documents(t)["README.md"])
	require.NotNil(t, typed)
	checkout, err := filepath.Abs(root)
	require.NoError(t, err)
	for _, module := range []string{"otelclinicaldoc", "ingest/jetstream"} {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			if !hasModules(filepath.Join(root, module)) {
				t.Skip("not all of its modules are in the module cache")
			}
			folder := t.TempDir()
			require.NoError(t, os.Symlink(checkout, filepath.Join(folder, "clinicaldoc-go")))
			place := filepath.Join(folder, "visit")
			require.NoError(t, os.Mkdir(place, 0o700))
			program := "package main\n\nimport (\n\t_ \"" + thisModule + "\"\n\t_ \"" + thisModule + "/" + module + "\"\n)\n\nfunc main() {}\n"
			require.NoError(t, os.WriteFile(filepath.Join(place, "main.go"), []byte(program), 0o600))
			lines := exec.CommandContext(t.Context(), shell, "-ec", typed[1]+"go list -deps .\n")
			lines.Dir = place
			// Nothing is looked up: what the module requires is in the cache, and its sums were checked when it came there.
			lines.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=off", "GONOSUMDB=*",
				"GOFLAGS="+os.Getenv("GOFLAGS")+" -buildvcs=false")
			out, err := lines.CombinedOutput()
			if missing := regexp.MustCompile(`(\S+): module lookup disabled`).FindSubmatch(out); len(missing) > 0 && !bytes.HasPrefix(missing[1], []byte(thisModule)) {
				t.Skip("not all that go mod tidy looks at is in the module cache")
			}
			require.NoError(t, err, string(out))
		})
	}
}

// nestedModule returns the folder of the nested module that a page's code imports, or that the page names for its
// tests. Its requirements differ from those of the root.
func nestedModule(page string) string {
	if named := regexp.MustCompile("compiled and run by the tests in `(\\S+)`").FindStringSubmatch(page); named != nil {
		return named[1]
	}
	for _, imported := range regexp.MustCompile(`"`+regexp.QuoteMeta(thisModule)+`/(\S+)"\n`).FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join(root, imported[1], "go.mod")); err == nil {
			return imported[1]
		}
	}
	return ""
}

func testsMention(t *testing.T, folder, words string) bool {
	t.Helper()
	tests, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	require.NoError(t, err)
	return slices.ContainsFunc(tests, func(file string) bool {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		return strings.Contains(string(source), words)
	})
}

var (
	goCode     = regexp.MustCompile("(?s)\n```go\n(.*?\n)```")
	fencedCode = regexp.MustCompile("(?s)\n *```.*?\n *```")
	inlineCode = regexp.MustCompile("`[^`\n]*`")
	linkTarget = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:href|src)="([^"]+)"`)
	anyHeading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
)

func withoutCode(page string) string { return fencedCode.ReplaceAllString(page, "") }

// Links within the repository lead somewhere, to the very heading.
func TestLinksOfDocumentsLeadSomewhere(t *testing.T) {
	t.Parallel()
	pages := documents(t)
	for name, page := range pages {
		for _, match := range linkTarget.FindAllStringSubmatch(inlineCode.ReplaceAllString(withoutCode(page), ""), -1) {
			target := match[1] + match[2]
			if regexp.MustCompile(`^[a-z]+:`).MatchString(target) {
				continue
			}
			file, anchor, _ := strings.Cut(target, "#")
			file = path.Join(path.Dir(name), file)
			if strings.HasPrefix(target, "#") {
				file = name
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
				t.Errorf("%s links to %s", name, target)
			}
			if anchor != "" {
				assert.Contains(t, anchors(pages[file]), anchor, "%s links to %s", name, target)
			}
		}
	}
}

// anchors returns the anchors that GitHub gives a page's headings.
func anchors(page string) []string {
	seen := map[string]bool{}
	for _, heading := range anyHeading.FindAllStringSubmatch(withoutCode(page), -1) {
		text := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(heading[1], "$1")
		seen[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, text)] = true
	}
	return slices.Collect(maps.Keys(seen))
}

// Who follows the README runs what the checks run.
func TestDocumentsNameTheSameTestCommand(t *testing.T) {
	t.Parallel()
	checks := regexp.MustCompile(`(?m)^ *check 'test' (.+)$`).FindStringSubmatch(read(t, ".ci/run"))
	require.NotNil(t, checks)
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "Makefile"} {
		assert.Regexp(t, `(?m)^\s*`+regexp.QuoteMeta(checks[1])+`( +#.*)?$`, read(t, name), name)
	}
	assert.Contains(t, read(t, ".github/workflows/ci.yml"), "- run: "+checks[1]+"\n")
}

// Whoever looks for a member of the description finds in the table how a program reads and sends it.
func TestGapsPage_ListsEveryDescribedMember(t *testing.T) {
	t.Parallel()
	_, section, found := strings.Cut(documents(t)["docs/gaps.md"], "## Every member")
	require.True(t, found)
	table, _, _ := strings.Cut(section, "\n## ")
	var described struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]json.RawMessage }
		}
	}
	require.NoError(t, json.Unmarshal(docs.OpenAPI(), &described))
	require.Contains(t, described.Components.Schemas, "ProgressNote")
	for schema, members := range described.Components.Schemas {
		for member := range members.Properties {
			isListed := strings.Contains(table, "`"+member+"`")
			assert.True(t, isListed, "docs/gaps.md lacks the member %s of %s in its table", member, schema)
		}
	}
}
