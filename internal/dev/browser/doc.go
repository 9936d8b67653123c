// Package browser tests the developer proxy's page and that of examples/webbackend in a real browser. It also renders the
// diagrams of the documentation.
package browser
