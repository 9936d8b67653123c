package main

import (
	"bytes"
	"testing"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

func TestRun(t *testing.T) {
	t.Setenv(clinicaldoc.EnvBaseURL, "") // the box, whatever the shell has
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(out.Bytes(), []byte("25 requests took")) {
		t.Fatalf("unexpected output: %s", &out)
	}
}
