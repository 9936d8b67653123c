// Package fhir checks the output of examples/fhirexport, and the audit events of a recipe, against HL7's definitions
// of FHIR R4. A library for Node.js contains these. The tests are skipped without npm, but fail where everything must
// be tested:
//
//	go test -C internal/dev/fhir ./...
package fhir
