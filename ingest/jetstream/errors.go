package jetstream

import "github.com/clinicaldoc/clinicaldoc-go/internal/redact"

// fail makes an error with a text that is safe to print: the engine knows only hashes, so that its words hold no names.
func fail(text string, causes ...error) error { return redact.Fail("jetstream: "+text, causes...) }

// unreachable is the failure of an engine that does not respond.
func unreachable(err error) error { return fail("the journal cannot be reached: "+err.Error(), err) }
