// Package contract tests what goes over the wire against docs/openapi.json: every request of the SDK, and every
// response of the fake server in its default variant. It also fails if the document describes something that never
// occurs. It is a module of its own, so the validator does not enter the module graph of the SDK's importers:
//
//	go test -C internal/dev/contract ./...
package contract
