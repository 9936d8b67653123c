package command

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// goName is an option, or something else to do, of a Go program alone.
var goName = regexp.MustCompile(`\b(With[A-Z]\w+|IgnoreSize|TrustPatientFilter|Notes\.FindCreated before|SalvageJournal|OpenJournal|see Fields|Uploader\.\w+|AllNew|Repair|Note\.ErrorState)\b`)

// Advice of the libraries reaches this command's users in flags, not in Go's names.
func TestAdvice_OfTheLibraries_HasNoGoNames(t *testing.T) {
	t.Parallel()
	// Of options that this command does not have, or of arguments that it checks itself.
	own := regexp.MustCompile(`WithTokenSource|WithRoute|use WithQuery|WithHTTPClient passed|passed to WithHTTPClient failed|WithRetry|WithUnauthorized`)
	seen := 0
	for _, folder := range []string{"../../../..", "../../../../ingest", "../../../../ingest/jetstream", "../../../../internal/redact", "../../../../internal/creates", "../../../../internal/exchange"} {
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

// parsed are the files of a package, without its tests.
func parsed(t *testing.T, folder string) (list []*ast.File) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	require.NoError(t, err)
	for _, path := range files {
		if !strings.HasSuffix(path, "_test.go") {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			require.NoError(t, err)
			list = append(list, file)
		}
	}
	return list
}

func literals(t *testing.T, folder string) (texts []string) {
	t.Helper()
	for _, file := range parsed(t, folder) {
		ast.Inspect(file, func(n ast.Node) bool {
			expression, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, isText := literal(expression)
			if isText {
				texts = append(texts, text)
			}
			return !isText
		})
	}
	return texts
}

// literal returns the text of a string, or of several that are added.
func literal(expression ast.Expr) (string, bool) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, e.Kind == token.STRING && err == nil
	case *ast.BinaryExpr:
		left, leftOK := literal(e.X)
		right, rightOK := literal(e.Y)
		return left + right, leftOK && rightOK
	}
	return "", false
}

// An error number is also a network's error by its methods: a file's failure is no service that cannot be reached.
func TestKindOf_FailureOfThisMachine_IsNotUnreachable(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&os.LinkError{Op: "rename", Old: "a", New: "b", Err: syscall.EXDEV}, &fs.PathError{Op: "open", Path: "a", Err: syscall.ETIMEDOUT},
		syscall.ENOSPC, fmt.Errorf("the export cannot be written: %w", os.NewSyscallError("fsync", syscall.EIO)),
	} {
		assert.Equal(t, codeOther, kindOf(err).code, "%v", err)
		assert.NotContains(t, kindOf(err).do, "doctor", "%v", err)
	}
}

// A connection that times out means that the service is unreachable, and not that the command's own deadline has
// passed, although the error matches that too.
func TestKindOf_ConnectionTimesOut_IsUnreachable(t *testing.T) {
	t.Parallel()
	silent := &http.Transport{DialContext: (&net.Dialer{Timeout: time.Nanosecond}).DialContext}
	client, err := clinicaldoc.NewClient("http://127.0.0.1:1", "synthetic", clinicaldoc.WithHTTPClient(&http.Client{Transport: silent}), clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{}))
	require.NoError(t, err)
	_, err = client.Users.Me(t.Context())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, kind{codeUnreachable, "clinicaldoc doctor"}, kindOf(err))
	assert.Equal(t, codePending, kindOf(&clinicaldoc.WaitError{ID: 1, Err: context.DeadlineExceeded}).code)
}

func TestNumbers_EachSystem_HasItsOwn(t *testing.T) {
	t.Parallel()
	of := func(number syscall.Errno) error {
		return fmt.Errorf("the export cannot be written: %w", &fs.PathError{Op: "write", Path: "a", Err: number})
	}
	for _, number := range []syscall.Errno{39, 112, 223, 1295} { // ERROR_HANDLE_DISK_FULL, DISK_FULL, FILE_TOO_LARGE, DISK_QUOTA_EXCEEDED
		assert.True(t, noRoom.is("windows", of(number)), number)
		assert.False(t, noRoom.is("plan9", of(number)), "%d is something else there", number)
	}
	for _, number := range []syscall.Errno{109, 232} { // ERROR_BROKEN_PIPE, ERROR_NO_DATA
		assert.True(t, closedPipe.is("windows", of(number)), number)
		assert.False(t, closedPipe.is("plan9", of(number)), "%d is something else there", number)
	}
	for _, system := range []string{"windows", "linux"} {
		assert.True(t, noRoom.is(system, of(syscall.ENOSPC)), system)
		assert.True(t, closedPipe.is(system, of(syscall.EPIPE)), system)
		assert.False(t, noRoom.is(system, os.ErrClosed), system)
	}
	full := of(syscall.ENOSPC)
	if runtime.GOOS == "windows" {
		full = of(112)
	}
	assert.Equal(t, kind{codeOther, makeRoom}, kindOf(full))
}

// remedyAt says which argument of a call, or which member of a literal, is printed after "do:".
var remedyAt = map[string]int{"kind": 1, "refusedError": 1, "usageError": 1, "runError": 2, "AmbiguousError": 1, "found": 1}

// forPeople are remedies that no test can do: somebody is to be asked or told, or to look at a machine.
var forPeople = regexp.MustCompile(`^(ask|tell) whoever|^check the name|^set this machine's clock|^use https: |^correct HTTPS_PROXY`)

// printed are the sentences that are printed after "do:", as far as they are known before it is run.
func printed(t *testing.T) map[string]bool {
	t.Helper()
	sentences := map[string]bool{}
	add := func(e ast.Expr) {
		if text, ok := literal(e); ok {
			sentences[strings.TrimSpace(text)] = true
			return
		}
		for b, ok := e.(*ast.BinaryExpr); ok; b, ok = e.(*ast.BinaryExpr) {
			e = b.X
		}
		if call, ok := e.(*ast.CallExpr); ok && len(call.Args) > 0 { // of Sprintf, or of Or
			for _, arg := range call.Args {
				if l, ok := arg.(*ast.BasicLit); ok {
					e = l
				}
			}
		}
		if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
			text, err := strconv.Unquote(l.Value)
			require.NoError(t, err)
			text, _, _ = strings.Cut(text, "%s")
			sentences[strings.TrimSpace(text)] = text != ""
		}
	}
	name := func(e ast.Expr) string {
		if s, ok := e.(*ast.SelectorExpr); ok {
			return s.Sel.Name
		}
		if i, ok := e.(*ast.Ident); ok {
			return i.Name
		}
		return ""
	}
	isRemedy := regexp.MustCompile(`^(do|Do|remedy|Remedy|makeRoom|shareAway|waitForOther)$`)
	for _, folder := range []string{".", "../account", "../report"} {
		for _, file := range parsed(t, folder) {
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CompositeLit:
					for i, e := range n.Elts {
						pair, keyed := e.(*ast.KeyValueExpr)
						at, known := remedyAt[name(n.Type)]
						switch {
						case keyed && isRemedy.MatchString(name(pair.Key)):
							add(pair.Value)
						case !keyed && known && i == at:
							add(e)
						}
					}
				case *ast.CallExpr:
					if name(n.Fun) == "found" && len(n.Args) > 1 {
						add(n.Args[1])
					}
				case *ast.AssignStmt:
					for i := range min(len(n.Lhs), len(n.Rhs)) {
						if isRemedy.MatchString(name(n.Lhs[i])) {
							add(n.Rhs[i])
						}
					}
				case *ast.ValueSpec:
					for i := range n.Values {
						if isRemedy.MatchString(n.Names[i].Name) {
							add(n.Values[i])
						}
					}
				case *ast.FuncDecl:
					if n.Name.Name == "Advice" {
						ast.Inspect(n, func(n ast.Node) bool {
							if r, ok := n.(*ast.ReturnStmt); ok {
								add(r.Results[0])
							}
							return true
						})
					}
				}
				return true
			})
		}
	}
	for sentence := range sentences {
		if !strings.ContainsFunc(sentence, unicode.IsLetter) || forPeople.MatchString(sentence) {
			delete(sentences, sentence)
		}
	}
	return sentences
}

// A test follows each remedy that is printed after "do:". It names the sentence in a comment, and then does what the
// sentence says.
func TestRemedies_EachOne_IsFollowedByATest(t *testing.T) {
	t.Parallel()
	var done strings.Builder
	for _, pattern := range []string{"../../testdata/*/*.txtar", "../../*_test.go", "*_test.go", "../account/*_test.go", "../report/*_test.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, path := range files {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			done.Write(text)
		}
	}
	sentences := printed(t)
	assert.Greater(t, len(sentences), 50)
	for sentence := range sentences {
		isDone := strings.Contains(done.String(), "do: "+sentence)
		assert.True(t, isDone, "no test or script in testdata follows the advice %q", sentence)
	}
}
