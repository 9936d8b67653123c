// Package transports tests the SDK with transports that programs bring: recorders, mocks, debuggers, telemetry, tokens,
// compression, proxies. It is a module of its own, so that importers of the SDK do not get those libraries.
package transports
