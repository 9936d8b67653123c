package guards_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/outside"
)

// What go doc shows first is the way of a note, and it compiles: each "..." stands for the handling of an error.
func TestTheOverviewOpensWithTheWayOfANote(t *testing.T) {
	t.Parallel()
	block := regexp.MustCompile(`(?:\n//\t[^\n]*)+`).FindString(string(sources(t)["doc.go"]))
	code := strings.ReplaceAll(block, "\n//\t", "\n")[1:] + "\n"
	at := -1
	for _, step := range []string{"NewClient", ".CreateOnce(", ".Wait(", ".Sign("} {
		next := strings.Index(code, step)
		assert.Greater(t, next, at, step)
		at = next
	}
	program := strings.ReplaceAll(code, "\n...\n", "\nif err != nil {\nreturn err\n}\n")
	buildOutside(t, outside.Programs("```go\n"+program+"```"))
}

// A reader of go doc sees a note's life first, and then, without much scrolling, what there is.
func TestTheNamesFollowTheOverview(t *testing.T) {
	t.Parallel()
	lines := strings.Split(goText(t, "doc", "."), "\n")
	for begin, most := range map[string]int{"    note, err = client.Notes.Sign(": 40, "const ": 60} {
		at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, begin) })
		assert.Positive(t, at, begin)
		assert.Less(t, at, most, begin)
	}
}

// printing are methods that fmt, slog and the encoders call. Nobody calls them, and so nobody needs to read them first.
var printing = []string{
	"Error", "Unwrap", "Is", "String", "GoString", "Format", "LogValue",
	"MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText",
}

func TestMethodsThatOnlyPrintComeLast(t *testing.T) {
	t.Parallel()
	for name, source := range sources(t) {
		if isTest(name) || !inRoot(name) && !strings.HasPrefix(name, "ingest/") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
		require.NoError(t, err)
		printed := map[string]string{}
		for _, declaration := range file.Decls {
			method, ok := declaration.(*ast.FuncDecl)
			if !ok || method.Recv == nil {
				continue
			}
			switch of := receiver(method); {
			case slices.Contains(printing, method.Name.Name):
				printed[of] = method.Name.Name
			case method.Name.IsExported():
				assert.Empty(t, printed[of], "%s: %s%s comes first", name, of, method.Name.Name)
			}
		}
	}
}

// Methods that serve only this module, or an encoding that nobody asked for, are not part of the public surface.
func TestPublicTypes_HaveNoMethodsForThisModuleAlone(t *testing.T) {
	t.Parallel()
	unwanted := []string{"SafeText", "GobEncode", "GobDecode"}
	checked := 0
	for name, source := range sources(t) {
		if isTest(name) || strings.Contains("/"+name, "/internal/") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, declaration := range file.Decls {
			method, ok := declaration.(*ast.FuncDecl)
			if ok && method.Recv != nil {
				checked++
				assert.NotContains(t, unwanted, method.Name.Name, name)
			}
		}
	}
	assert.Greater(t, checked, 100)
}
