package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const module = "github.com/clinicaldoc/clinicaldoc-go"

// test is one test of a folder: how long it takes, and the blocks of statements that it goes through.
type test struct {
	Name    string
	Took    time.Duration
	CPU     time.Duration
	Reached map[string][]block // by file, from the repository's root
}

type block struct{ FromLine, FromColumn, ToLine, ToColumn int }

func (b block) holds(p position) bool {
	after := p.line > b.FromLine || p.line == b.FromLine && p.column >= b.FromColumn
	return after && (p.line < b.ToLine || p.line == b.ToLine && p.column < b.ToColumn)
}

// reaching is the place that a test has to go through to meet the node: the beginning of its statement, since blocks leave out
// what follows a function within one, or, since they leave out the conditions of cases, the switch around it.
func reaching(set *token.FileSet, file *ast.File, node ast.Node) position {
	place, around := node.Pos(), node.Pos()
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil || n.Pos() > node.Pos() || node.End() > n.End() {
			return false
		}
		inCase := func(colon token.Pos) {
			if node.Pos() < colon {
				place = around
			}
		}
		switch n := n.(type) {
		case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			place, around = n.Pos(), n.Pos()
		case *ast.CaseClause:
			inCase(n.Colon)
		case *ast.CommClause:
			inCase(n.Colon)
		case *ast.BlockStmt: // its statements tell
		case ast.Stmt:
			place = n.Pos()
		}
		return true
	})
	return at(set, file, place)
}

func at(set *token.FileSet, file *ast.File, p token.Pos) position {
	where := set.Position(p)
	return position{set.File(file.Pos()).Name(), where.Line, where.Column}
}

// named are the places within functions that name what a declaration declares, by itself or by way of others: in the folder
// or, if others can name it, in all of the library.
func (s *sources) named(declared *ast.ValueSpec, folder string) (places []position) {
	wanted := map[string]bool{}
	declare := func(spec ast.Spec) (more bool) {
		if value, ok := spec.(*ast.ValueSpec); ok {
			for _, name := range value.Names {
				more = more || !wanted[name.Name]
				wanted[name.Name] = true
			}
		}
		return more
	}
	for more := declare(declared); more; {
		more, places = false, nil
		for path, file := range s.files {
			for _, d := range file.Decls {
				general, outside := d.(*ast.GenDecl)
				ast.Inspect(d, func(n ast.Node) bool {
					name, ok := n.(*ast.Ident)
					switch {
					case !ok, !wanted[name.Name], !name.IsExported() && filepath.Dir(path) != folder:
					case !outside:
						places = append(places, at(s.set, file, name.Pos()))
					default:
						for _, spec := range general.Specs {
							more = spec.Pos() <= name.Pos() && name.Pos() < spec.End() && declare(spec) || more
						}
					}
					return true
				})
			}
		}
	}
	return places
}

// tests finds out which test of the folder reaches which lines of the library, by running each alone.
func (l *laboratory) tests(ctx context.Context, folder string) ([]test, error) {
	if known, ok := l.known[folder]; ok {
		return known, nil
	}
	binary := filepath.Join(l.folder, "cover.test")
	var covered []string
	for _, s := range subjects {
		if folder == "ingest/jetstream" || s.folder != "ingest/jetstream" {
			covered = append(covered, strings.TrimSuffix(module+"/"+s.folder, "/."))
		}
	}
	build := exec.CommandContext(ctx, "go", "test", "-C", folder, "-c", "-vet=off", "-trimpath", "-cover", "-coverpkg="+strings.Join(covered, ","), "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	text, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	kept := filepath.Join(l.cache, hex.EncodeToString(sum[:8])+".json")
	tests, err := readTests(kept)
	if err != nil {
		if tests, err = l.runEach(ctx, folder, binary); err != nil {
			return nil, err
		}
		if text, err = json.Marshal(tests); err != nil {
			return nil, err
		}
		if err := os.WriteFile(kept, text, 0o600); err != nil {
			return nil, err
		}
	}
	if l.known == nil {
		l.known = map[string][]test{}
	}
	l.known[folder] = tests
	return tests, nil
}

func readTests(path string) (tests []test, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(text, &tests)
	return tests, err
}

func (l *laboratory) runEach(ctx context.Context, folder, binary string) ([]test, error) {
	list := exec.CommandContext(ctx, binary, "-test.list", "^(Test|Fuzz|Example)")
	list.Dir = folder
	out, err := list.Output()
	if err != nil {
		return nil, err
	}
	names := slices.DeleteFunc(strings.Fields(string(out)), func(s string) bool { return !regexp.MustCompile(`^(Test|Fuzz|Example)`).MatchString(s) })
	tests := make([]test, len(names))
	l.each(len(names), func(i int) {
		profile := filepath.Join(l.folder, fmt.Sprintf("profile%d", i))
		run := exec.CommandContext(ctx, binary, "-test.run", "^"+names[i]+"$", "-test.timeout", "3m", "-test.coverprofile", profile)
		run.Dir = folder
		began := time.Now()
		if out, err := run.CombinedOutput(); err != nil {
			fmt.Printf("%s %s fails by itself: it judges nothing\n%s\n", folder, names[i], out)
			return
		}
		reached, err := readProfile(profile)
		if err != nil {
			fmt.Printf("%s %s: %v\n", folder, names[i], err)
			return
		}
		tests[i] = test{names[i], time.Since(began), run.ProcessState.UserTime() + run.ProcessState.SystemTime(), reached}
	})
	tests = slices.DeleteFunc(tests, func(t test) bool { return t.Name == "" })
	slices.SortFunc(tests, func(a, b test) int { return int(a.Took - b.Took) })
	return tests, ctx.Err()
}

func readProfile(path string) (map[string][]block, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close(); _ = os.Remove(path) }()
	reached := map[string][]block{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, rest, ok := strings.Cut(lines.Text(), ":")
		var b block
		var statements, count int
		if !ok || name == "mode" {
			continue
		}
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.FromLine, &b.FromColumn, &b.ToLine, &b.ToColumn, &statements, &count); err != nil {
			return nil, fmt.Errorf("%s: %w", lines.Text(), err)
		}
		if name = strings.TrimPrefix(name, module+"/"); count > 0 {
			reached[name] = append(reached[name], b)
		}
	}
	return reached, nil
}

// reaches says whether the test goes through one of the mutant's places.
func (t test) reaches(m *mutant) bool {
	return slices.ContainsFunc(m.places, func(p position) bool {
		return slices.ContainsFunc(t.Reached[p.file], func(b block) bool { return b.holds(p) })
	})
}
