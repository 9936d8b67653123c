// Package guards contains tests of the repository: its dependencies, documents, examples and workflows. The go command
// does not notice that a file outside the module internal/dev has changed, so pass -count=1:
//
//	go test -C internal/dev ./guards -count=1
package guards
