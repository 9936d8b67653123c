package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
)

// change replaces an operator of a file.
type change struct {
	path         string
	line, column int
	start, end   int
	old, with    string
}

func (c change) name() string {
	return fmt.Sprintf("%s:%d:%d: %s -> %s", filepath.Base(c.path), c.line, c.column, c.old, c.with)
}

// replacements has what gremlins puts in the place of an operator.
var replacements = map[token.Token][]token.Token{
	token.LSS: {token.LEQ, token.GEQ},
	token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ},
	token.GEQ: {token.GTR, token.LSS},
	token.EQL: {token.NEQ},
	token.NEQ: {token.EQL},

	token.ADD: {token.SUB},
	token.SUB: {token.ADD},
	token.MUL: {token.QUO},
	token.QUO: {token.MUL},
	token.REM: {token.MUL},

	token.LAND: {token.LOR},
	token.LOR:  {token.LAND},

	token.AND:     {token.OR},
	token.OR:      {token.AND},
	token.XOR:     {token.AND},
	token.AND_NOT: {token.AND},
	token.SHL:     {token.SHR},
	token.SHR:     {token.SHL},

	token.INC: {token.DEC},
	token.DEC: {token.INC},

	token.ADD_ASSIGN:     {token.SUB_ASSIGN, token.ASSIGN},
	token.SUB_ASSIGN:     {token.ADD_ASSIGN, token.ASSIGN},
	token.MUL_ASSIGN:     {token.QUO_ASSIGN, token.ASSIGN},
	token.QUO_ASSIGN:     {token.MUL_ASSIGN, token.ASSIGN},
	token.REM_ASSIGN:     {token.MUL_ASSIGN, token.ASSIGN},
	token.AND_ASSIGN:     {token.OR_ASSIGN, token.ASSIGN},
	token.OR_ASSIGN:      {token.AND_ASSIGN, token.ASSIGN},
	token.XOR_ASSIGN:     {token.AND_ASSIGN, token.ASSIGN},
	token.AND_NOT_ASSIGN: {token.AND_ASSIGN, token.ASSIGN},
	token.SHL_ASSIGN:     {token.SHR_ASSIGN, token.ASSIGN},
	token.SHR_ASSIGN:     {token.SHL_ASSIGN, token.ASSIGN},

	token.BREAK:    {token.CONTINUE},
	token.CONTINUE: {token.BREAK},
}

// find returns the changes of a folder's files, except its tests.
func find(folder string) ([]change, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	var changes []change
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			at, operator := operatorOf(n)
			position := set.Position(at)
			for _, with := range replacements[operator] {
				changes = append(changes, change{
					path: path, line: position.Line, column: position.Column,
					start: position.Offset, end: position.Offset + len(operator.String()),
					old: operator.String(), with: with.String(),
				})
			}
			return true
		})
	}
	return changes, nil
}

// operatorOf returns the operator of a node and where it is. A node without one has token.ILLEGAL.
func operatorOf(n ast.Node) (token.Pos, token.Token) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		return n.OpPos, n.Op
	case *ast.IncDecStmt:
		return n.TokPos, n.Tok
	case *ast.AssignStmt:
		return n.TokPos, n.Tok
	case *ast.BranchStmt:
		return n.TokPos, n.Tok
	case *ast.UnaryExpr:
		if n.Op == token.SUB {
			return n.OpPos, n.Op
		}
	}
	return token.NoPos, token.ILLEGAL
}
