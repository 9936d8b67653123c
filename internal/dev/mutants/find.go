package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// mutant is the library with one small change.
type mutant struct {
	position
	number       int
	function     string // or what is declared, outside functions
	was, becomes string // as people read it

	start, end int // of the text that changes
	with       string

	places  []position // that a test has to reach to notice it
	same    string     // of two mutants that make the same change in the same function, wherever that stands in its file
	verdict verdict
}

type position struct {
	file         string // from the repository's root
	line, column int
}

type verdict string

const (
	notViable  verdict = "not viable" // cannot be compiled
	notCovered verdict = "not covered"
	killed     verdict = "killed"
	timedOut   verdict = "timed out"
	lived      verdict = "lived"
)

func (m *mutant) String() string {
	return fmt.Sprintf("%s:%d:%d %s: %s => %s", m.file, m.line, m.column, m.function, m.was, m.becomes)
}

// key names a mutant wherever its line moves to.
func (m *mutant) key() string {
	return fmt.Sprintf("%s %s: %s => %s", m.file, m.function, m.was, m.becomes)
}

// kinds are the changes that gremlins makes of a token.
var kinds = map[string]map[string]string{
	"ARITHMETIC_BASE":         {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*"},
	"CONDITIONALS_BOUNDARY":   {">=": ">", ">": ">=", "<=": "<", "<": "<="},
	"CONDITIONALS_NEGATION":   {"==": "!=", "!=": "==", ">=": "<", "<": ">=", "<=": ">", ">": "<="},
	"INCREMENT_DECREMENT":     {"++": "--", "--": "++"},
	"INVERT_ASSIGNMENTS":      {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*="},
	"INVERT_BITWISE":          {"&": "|", "|": "&", "^": "&", "&^": "&", "<<": ">>", ">>": "<<"},
	"INVERT_BWASSIGN":         {"&=": "|=", "|=": "&=", "^=": "&=", "&^=": "&=", "<<=": ">>=", ">>=": "<<="},
	"INVERT_LOGICAL":          {"&&": "||", "||": "&&"},
	"INVERT_LOOPCTRL":         {"break": "continue", "continue": "break"},
	"INVERT_NEGATIVES":        {"-": "+"},
	"REMOVE_SELF_ASSIGNMENTS": {"+=": "=", "-=": "=", "*=": "=", "/=": "=", "%=": "=", "&=": "=", "|=": "=", "^=": "=", "<<=": "=", ">>=": "=", "&^=": "="},
}

// find asks gremlins for the mutants of each package. It looks at a copy without tests, which it would run first.
func (l *laboratory) find(ctx context.Context) (map[string][]*mutant, error) {
	copied := filepath.Join(l.folder, "sources")
	sum, err := copySources(l.root, copied)
	if err != nil {
		return nil, err
	}
	library, err := parse(l.root)
	if err != nil {
		return nil, err
	}
	all, number := map[string][]*mutant{}, 0
	for _, module := range []string{".", "ingest/jetstream"} {
		kept := filepath.Join(l.cache, sum+strings.ReplaceAll(module, "/", "-")+".json")
		files, err := l.gremlins(ctx, filepath.Join(copied, module), kept)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			name := filepath.ToSlash(filepath.Join(module, file.Name))
			folder := filepath.ToSlash(filepath.Dir(name))
			if library.files[name] == nil || module == "." && folder == "ingest/jetstream" {
				continue
			}
			found, err := library.read(name, file.Mutations)
			if err != nil {
				return nil, err
			}
			for _, m := range found {
				number++
				m.number = number
			}
			all[folder] = append(all[folder], found...)
		}
	}
	return all, nil
}

type mutatedFile struct {
	Name      string     `json:"file_name"`
	Mutations []mutation `json:"mutations"`
}

type mutation struct {
	Type         string
	Line, Column int
}

// gremlins leaves what it finds in the file out, unless it is there from an earlier run.
func (l *laboratory) gremlins(ctx context.Context, module, out string) ([]mutatedFile, error) {
	arguments := []string{"tool", "-C", module, "-modfile=" + l.root + "/internal/dev/tools/go.mod", "gremlins", "unleash", "--dry-run", "--silent", "--output", out}
	for _, kind := range []string{"arithmetic-base", "conditionals-boundary", "conditionals-negation", "increment-decrement", "invert-assignments", "invert-bitwise", "invert-bwassign", "invert-logical", "invert-loopctrl", "invert-negatives", "remove-self-assignments"} {
		arguments = append(arguments, "--"+kind)
	}
	if _, err := os.Stat(out); err != nil {
		if said, err := exec.CommandContext(ctx, "go", arguments...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("gremlins: %w\n%s", err, said)
		}
	}
	text, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	var result struct{ Files []mutatedFile }
	err = json.Unmarshal(text, &result)
	return result.Files, err
}

// copySources copies the library's modules, without their tests and without what serves maintainers, and returns their checksum.
func copySources(from, to string) (string, error) {
	sum := sha256.New()
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			switch filepath.ToSlash(name) {
			case ".git", "internal/dev", "clinicaldoctest", "cmd", "examples", "otelclinicaldoc", "docs", "snapshot":
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		if strings.HasSuffix(name, "_test.go") || !strings.HasSuffix(name, ".go") && entry.Name() != "go.mod" && entry.Name() != "go.sum" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(sum, "%s %d %s", name, len(text), text)
		return os.WriteFile(filepath.Join(to, name), text, 0o600)
	})
	return hex.EncodeToString(sum.Sum(nil)[:8]), err
}

// sources are the parsed files of the library.
type sources struct {
	set   *token.FileSet
	files map[string]*ast.File
	texts map[string]string
}

func parse(root string) (*sources, error) {
	s := &sources{set: token.NewFileSet(), files: map[string]*ast.File{}, texts: map[string]string{}}
	for _, subject := range subjects {
		paths, err := filepath.Glob(filepath.Join(root, subject.folder, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			here, err := build.Default.MatchFile(filepath.Dir(path), filepath.Base(path))
			if err != nil {
				return nil, err
			}
			if !here || strings.HasSuffix(path, "_test.go") { // or it is another system's
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			name := filepath.ToSlash(filepath.Join(subject.folder, filepath.Base(path)))
			if s.files[name], err = parser.ParseFile(s.set, name, text, parser.SkipObjectResolution); err != nil {
				return nil, err
			}
			s.texts[name] = string(text)
		}
	}
	return s, nil
}

// read makes mutants of what gremlins tells of a file.
func (s *sources) read(name string, mutations []mutation) ([]*mutant, error) {
	file := s.files[name]
	nodes := tokens(s.set, file)
	var mutants []*mutant
	seen := map[string]bool{} // a minus before a number is of two kinds
	for _, found := range mutations {
		place := position{name, found.Line, found.Column}
		node, ok := nodes[place]
		if !ok {
			return nil, fmt.Errorf("%v: %s of nothing", place, found.Type)
		}
		m := &mutant{position: place, places: []position{reaching(s.set, file, node)}}
		if err := m.change(s.set, s.texts[name], node, found.Type); err != nil {
			return nil, fmt.Errorf("%s: %w", m, err)
		}
		if again := m.String(); !seen[again] {
			seen[again] = true
			s.locate(m, file, node)
			mutants = append(mutants, m)
		}
	}
	return mutants, nil
}

// locate tells what the mutant is in: a function, or a declaration.
func (s *sources) locate(m *mutant, file *ast.File, node ast.Node) {
	for _, d := range file.Decls {
		if d.Pos() > node.Pos() || node.Pos() >= d.End() {
			continue
		}
		from, to := s.set.Position(d.Pos()).Offset, s.set.Position(d.End()).Offset
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d %d %s", m.file, s.texts[m.file][from:to], m.start-from, m.end-from, m.with))
		m.same = hex.EncodeToString(sum[:12])
		switch d := d.(type) {
		case *ast.FuncDecl:
			m.function = d.Name.Name
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if value, ok := spec.(*ast.ValueSpec); ok && spec.Pos() <= node.Pos() && node.Pos() < spec.End() {
					m.function = value.Names[0].Name
					m.places = append(m.places, s.named(value, filepath.Dir(m.file))...)
				}
			}
		}
	}
}

// tokens are the nodes that gremlins looks at, by where their tokens stand.
func tokens(set *token.FileSet, file *ast.File) map[position]ast.Node {
	nodes := map[position]ast.Node{}
	ast.Inspect(file, func(n ast.Node) bool {
		var at token.Pos
		switch n := n.(type) {
		case *ast.AssignStmt:
			at = n.TokPos
		case *ast.BinaryExpr:
			at = n.OpPos
		case *ast.BranchStmt:
			at = n.TokPos
		case *ast.IncDecStmt:
			at = n.TokPos
		case *ast.UnaryExpr:
			at = n.OpPos
		default:
			return true
		}
		p := set.Position(at)
		nodes[position{set.File(at).Name(), p.Line, p.Column}] = n
		return true
	})
	return nodes
}

// change works out what the text becomes. Operands get parentheses: another operator may bind otherwise.
func (m *mutant) change(set *token.FileSet, text string, node ast.Node, kind string) error {
	offset := func(p token.Pos) int { return set.Position(p).Offset }
	piece := func(from, to token.Pos) string { return text[offset(from):offset(to)] }
	replace := func(at token.Pos, was token.Token) string {
		m.start, m.end = offset(at), offset(at)+len(was.String())
		m.with = kinds[kind][was.String()]
		m.was = short(piece(node.Pos(), node.End()))
		m.becomes = short(piece(node.Pos(), at) + m.with + text[m.end:offset(node.End())])
		return m.with
	}
	var with string
	switch n := node.(type) {
	case *ast.BinaryExpr:
		with = replace(n.OpPos, n.Op)
		m.start, m.end = offset(n.Pos()), offset(n.End())
		m.with = "((" + piece(n.X.Pos(), n.X.End()) + ") " + with + " (" + piece(n.Y.Pos(), n.Y.End()) + "))"
	case *ast.UnaryExpr:
		with = replace(n.OpPos, n.Op)
		if n.Op != token.SUB {
			m.verdict = notViable // an address is no number
		}
	case *ast.AssignStmt:
		with = replace(n.TokPos, n.Tok)
	case *ast.BranchStmt:
		with = replace(n.TokPos, n.Tok)
	case *ast.IncDecStmt:
		with = replace(n.TokPos, n.Tok)
	}
	if with == "" {
		return errors.New("unknown kind " + kind)
	}
	return nil
}

// short is a piece of source in one line.
func short(text string) string { return strings.Join(strings.Fields(text), " ") }
