package guards_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// writesGo prints calls of the SDK, for people to copy.
const writesGo = "cmd/internal/devproxy/copy.go"

// TestTexts_ForTerminals_ContainNoGoNames verifies that the commands speak to people who do not write Go.
func TestTexts_ForTerminals_ContainNoGoNames(t *testing.T) {
	t.Parallel()
	files := products(t)
	names := exportedNames(files)
	require.Equal(t, []string{"WithAssumptions"}, goNames("Settle down, or use WithAssumptions, not nats.conf", names))
	texts := 0
	for name, file := range files {
		if !strings.HasPrefix(name, "cmd/") || name == writesGo {
			continue
		}
		for _, text := range textsOf(file) {
			texts++
			assert.Empty(t, goNames(text, names), "%s names Go identifiers: %s", name, text)
		}
	}
	assert.Greater(t, texts, 500, "the texts of the commands")
}

var fileSet = token.NewFileSet()

// products parses the Go files that users run or import, those of nested modules too.
func products(t *testing.T) map[string]*ast.File {
	t.Helper()
	parsed := map[string]*ast.File{}
	for _, name := range files(t) {
		isSkipped := slices.ContainsFunc([]string{"examples/", "internal/dev/", "cmd/clinicaldoc/internal/gen/"}, func(folder string) bool {
			return strings.HasPrefix(name, folder)
		})
		if isSkipped || !strings.HasSuffix(name, ".go") || isTest(name) {
			continue
		}
		var err error
		parsed[name], err = parser.ParseFile(fileSet, name, read(t, name), parser.SkipObjectResolution)
		require.NoError(t, err)
	}
	return parsed
}

// exportedNames returns the exported names of the packages that programs import.
func exportedNames(files map[string]*ast.File) map[string]bool {
	names := map[string]bool{}
	for name, file := range files {
		if strings.HasPrefix(name, "cmd/") || strings.Contains(name, "internal/") {
			continue
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.BlockStmt:
				return false
			case *ast.Ident:
				names[node.Name] = node.IsExported()
			}
			return true
		})
	}
	for _, product := range []string{"JetStream", "OpenAPI"} {
		delete(names, product)
	}
	maps.DeleteFunc(names, func(_ string, exported bool) bool { return !exported })
	return names
}

var (
	hasHumps  = regexp.MustCompile(`[a-z][A-Z]`)
	word      = regexp.MustCompile(`[A-Za-z][A-Za-z0-9]*`)
	qualified = regexp.MustCompile(`\b(?:clinicaldoc|ingest|jetstream|snapshot)\.[A-Z]\w*`)
)

// goNames returns the names in a text that only a Go programmer knows. A name without a capital inside may be a word.
func goNames(text string, names map[string]bool) []string {
	found := qualified.FindAllString(text, -1)
	for _, word := range word.FindAllString(text, -1) {
		if names[word] && hasHumps.MatchString(word) {
			found = append(found, word)
		}
	}
	return found
}

// textsOf returns the strings of a file that have two words or more: errors, advice, log lines, help texts.
func textsOf(file *ast.File) []string {
	var texts []string
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			node.Tag = nil
		case *ast.CallExpr:
			skipArguments(node)
		case *ast.BasicLit:
			text, err := strconv.Unquote(node.Value)
			isText := node.Kind == token.STRING && err == nil && len(strings.Fields(text)) >= 2
			if isText {
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts
}

// skipArguments drops arguments that nobody reads: regular expressions, and the texts that a replacer searches for.
func skipArguments(call *ast.CallExpr) {
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	switch function.Sel.Name {
	case "MustCompile":
		call.Args = nil
	case "NewReplacer":
		searched := -1
		call.Args = slices.DeleteFunc(call.Args, func(ast.Expr) bool {
			searched++
			return searched%2 == 0
		})
	}
}
