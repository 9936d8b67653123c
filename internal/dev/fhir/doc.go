// Package fhir holds what examples/fhirexport prints against HL7's definitions of FHIR R4, with a library for Node.js that knows
// them. Without npm its tests are skipped, but not where everything must be tested.
package fhir
