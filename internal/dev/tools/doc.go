// Package tools pins the programs that maintainers run: the linter, and the one that finds mutants. It holds no code.
package tools
