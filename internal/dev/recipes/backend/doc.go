// Package backend holds the code of docs/backends.md and its tests.
package backend
