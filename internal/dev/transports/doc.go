// Package transports tests the SDK with transports that programs bring: HTTP/3, HTTP/2 without TLS, client
// certificates, telemetry, tokens of OAuth 2, compression and FIPS mode. It is a module of its own, so importers of
// the SDK do not get those libraries:
//
//	go test -C internal/dev/transports ./...
package transports
