// Package recipes holds the code of docs/recipes.md, and package backend that of docs/backends.md, with tests. The
// tests also compare the code with the pages. It is a module of its own, so importers of the SDK do not get the
// libraries that the recipes use:
//
//	go test -C internal/dev/recipes ./...
package recipes
