// Package browser tests pages in a real Chromium: the developer proxy's inspector, examples/webbackend and the report
// of uploads. It also renders the diagrams of the documentation. It is a module of its own; without Chromium its tests
// are skipped:
//
//	go test -C internal/dev/browser ./...
package browser
