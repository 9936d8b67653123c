package command

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// goName is an option, or something else to do, of a Go program alone.
var goName = regexp.MustCompile(`\b(With[A-Z]\w+|IgnoreSize|TrustPatientFilter|Notes\.FindCreated before|SalvageJournal|OpenJournal|see Fields|Note\.ErrorState)\b`)

// Advice of the libraries reaches this command's users in flags, not in Go's names.
func TestAdviceHasNoNamesOfGo(t *testing.T) {
	t.Parallel()
	// Of options that this command does not have, or of arguments that it checks itself.
	own := regexp.MustCompile(`WithTokenSource|WithRoute|use WithQuery|WithHTTPClient passed|given to WithHTTPClient failed|WithRetry|WithUnauthorized`)
	seen := 0
	for _, folder := range []string{"../../../..", "../../../../ingest", "../../../../internal/redact", "../../../../internal/creates", "../../../../internal/exchange"} {
		for _, text := range literals(t, folder) {
			if !strings.Contains(text, " ") || !goName.MatchString(text) || own.MatchString(text) {
				continue
			}
			seen++
			assert.NotRegexp(t, goName, wordsOf.Replace(text))
		}
	}
	assert.Greater(t, seen, 10)
}

func literals(t *testing.T, folder string) (texts []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	require.NoError(t, err)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if text, err := strconv.Unquote(l.Value); err == nil {
					texts = append(texts, text)
				}
			}
			return true
		})
	}
	return texts
}

// An error number is also a network's error by its methods: a file's failure is no service that cannot be reached.
func TestAFailureOfThisMachineIsNotUnreachable(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&os.LinkError{Op: "rename", Old: "a", New: "b", Err: syscall.EXDEV}, &fs.PathError{Op: "open", Path: "a", Err: syscall.ETIMEDOUT},
		syscall.ENOSPC, fmt.Errorf("the export cannot be written: %w", os.NewSyscallError("fsync", syscall.EIO)),
	} {
		assert.Equal(t, codeOther, kindOf(err).code, "%v", err)
		assert.NotContains(t, kindOf(err).do, "doctor", "%v", err)
	}
}
