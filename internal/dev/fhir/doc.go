// Package fhir checks the output of examples/fhirexport against HL7's definitions of FHIR R4, with a library for Node.js
// that contains them. Its tests are skipped without npm, but fail where everything must be tested.
package fhir
