// Package plant compiles many seeded faults into one program; an environment variable chooses one of them. Each fault
// is in a copy of its function, which the function itself calls if the fault is chosen. The sources stay as they are: the go
// command replaces them (-overlay), and compiles once for all faults. The tests of package simulation use it, as make
// defects does.
package plant

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Variable names the mistake to make, by its number.
const Variable = "PLANTED"

// errApart says that a change cannot lie in a copy of a function: it is in none, or in one that a copy would not
// replace.
var errApart = errors.New("not within a function that can be copied")

// Field collects mistakes.
type Field struct {
	sources map[string]*source
}

// source is a file with mistakes.
type source struct {
	text    string
	file    *ast.File
	set     *token.FileSet
	inserts map[int]string // by where they stand
	copies  strings.Builder
}

// Plant adds a mistake: between the offsets the file's text is another one. Numbers are above zero; two changes of one
// number are one mistake, if they are in different functions.
func (f *Field) Plant(number int, path string, start, end int, with string) error {
	s, err := f.open(path)
	if err != nil {
		return err
	}
	function := s.around(start)
	if function == nil || function.Recv == nil && function.Name.Name == "init" || recovers(function) {
		return errApart
	}
	name := fmt.Sprintf("planted%d%s", number, function.Name.Name) // not exported: tests call all methods of a type
	from, nameAt, to := s.offset(function.Pos()), s.offset(function.Name.Pos()), s.offset(function.End())
	// The compiler names the mistake where it cannot be compiled.
	fmt.Fprintf(&s.copies, "\n//line planted-%d.go:1\n%s%s%s%s%s\n", number,
		s.text[from:nameAt], name, s.text[nameAt+len(function.Name.Name):start], with, s.text[end:to])
	call := name + s.arguments(function)
	if function.Recv != nil {
		call = s.names(function.Recv)[0] + "." + call
	}
	detour := call + "; return"
	if function.Type.Results != nil {
		detour = "return " + call
	}
	s.inserts[s.offset(function.Body.Lbrace)+1] += fmt.Sprintf(" if planted == %d { %s }; ", number, detour)
	return nil
}

// Place returns the offset of a text that occurs exactly once in the function, or in the file if the function is "". A
// method is named with its type, as in Client.Do.
func (f *Field) Place(path, function, text string) (int, error) {
	s, err := f.open(path)
	if err != nil {
		return 0, err
	}
	start, end := 0, len(s.text)
	if function != "" {
		at := slices.IndexFunc(s.file.Decls, func(declaration ast.Decl) bool {
			declared, ok := declaration.(*ast.FuncDecl)
			return ok && fullName(declared) == function
		})
		if at < 0 {
			return 0, fmt.Errorf("%s has no function %s", filepath.Base(path), function)
		}
		start, end = s.offset(s.file.Decls[at].Pos()), s.offset(s.file.Decls[at].End())
	}
	if n := strings.Count(s.text[start:end], text); n != 1 {
		return 0, fmt.Errorf("%q occurs %d times in %s %s", text, n, filepath.Base(path), function)
	}
	return start + strings.Index(s.text[start:end], text), nil
}

// fullName is a function's name, after that of its receiver's type and a dot.
func fullName(function *ast.FuncDecl) string {
	if function.Recv == nil {
		return function.Name.Name
	}
	receiver := function.Recv.List[0].Type
	for {
		switch of := receiver.(type) {
		case *ast.StarExpr:
			receiver = of.X
		case *ast.IndexExpr:
			receiver = of.X
		case *ast.IndexListExpr:
			receiver = of.X
		case *ast.Ident:
			return of.Name + "." + function.Name.Name
		default:
			return function.Name.Name
		}
	}
}

// Write puts the changed sources into the folder, and tells the go command's -overlay.
func (f *Field) Write(folder string) (overlay string, err error) {
	replace, written := map[string]string{}, 0
	write := func(path, text string) error {
		written++
		replace[path] = filepath.Join(folder, strconv.Itoa(written)+".go")
		return os.WriteFile(replace[path], []byte(text), 0o600)
	}
	for path, s := range f.sources {
		choice := "package " + s.file.Name.Name + "\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar planted, _ = strconv.Atoi(os.Getenv(\"" + Variable + "\"))\n"
		if err := errors.Join(write(path, s.planted()), write(filepath.Join(filepath.Dir(path), "planted_choice.go"), choice)); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(folder, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

func (f *Field) open(path string) (*source, error) {
	if s := f.sources[path]; s != nil {
		return s, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &source{text: string(text), set: token.NewFileSet(), inserts: map[int]string{}}
	if s.file, err = parser.ParseFile(s.set, path, text, parser.SkipObjectResolution); err != nil {
		return nil, err
	}
	if f.sources == nil {
		f.sources = map[string]*source{}
	}
	f.sources[path] = s
	return s, nil
}

// planted is the file's text with detours and copies.
func (s *source) planted() string {
	at := make([]int, 0, len(s.inserts))
	for offset := range s.inserts {
		at = append(at, offset)
	}
	slices.Sort(at)
	text := s.text
	for _, offset := range slices.Backward(at) {
		text = text[:offset] + s.inserts[offset] + text[offset:]
	}
	return text + s.copies.String()
}

func (s *source) offset(p token.Pos) int { return s.set.Position(p).Offset }

// around is the function that holds the offset.
func (s *source) around(at int) *ast.FuncDecl {
	for _, declaration := range s.file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if ok && function.Body != nil && s.offset(function.Body.Lbrace) < at && at < s.offset(function.End()) {
			return function
		}
	}
	return nil
}

// recovers says whether the function itself calls recover, which works only where it is called by defer.
func recovers(function *ast.FuncDecl) bool {
	found := false
	ast.Inspect(function, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CallExpr:
			name, ok := n.Fun.(*ast.Ident)
			found = found || ok && name.Name == "recover"
		}
		return true
	})
	return found
}

// arguments passes the function's parameters on.
func (s *source) arguments(function *ast.FuncDecl) string {
	list := s.names(function.Type.Params)
	if n := function.Type.Params.NumFields(); n > 0 {
		if _, variadic := function.Type.Params.List[len(function.Type.Params.List)-1].Type.(*ast.Ellipsis); variadic {
			list[len(list)-1] += "..."
		}
	}
	arguments := "(" + strings.Join(list, ", ") + ")"
	if function.Type.TypeParams != nil {
		arguments = "[" + strings.Join(s.names(function.Type.TypeParams), ", ") + "]" + arguments
	}
	return arguments
}

// names are the names of the parameters; those without one get one.
func (s *source) names(list *ast.FieldList) []string {
	var names []string
	for _, field := range list.List {
		for _, parameter := range field.Names {
			name := parameter.Name
			if name == "_" {
				number := strconv.Itoa(int(parameter.Pos()))
				name += number
				s.inserts[s.offset(parameter.End())] = number
			}
			names = append(names, name)
		}
		if field.Names == nil {
			name := "_" + strconv.Itoa(int(field.Type.Pos()))
			s.inserts[s.offset(field.Type.Pos())] = name + " "
			names = append(names, name)
		}
	}
	return names
}
