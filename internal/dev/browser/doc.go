// Package browser tests the developer proxy's page, and that of examples/webbackend, in a real browser.
package browser
