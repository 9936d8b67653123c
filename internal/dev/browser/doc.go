// Package browser tests the developer proxy's page in a real browser.
package browser
