package house_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestExamplesAreTestedOnTheBox: a shell that has the variables for a program of its own must not have its service written
// to by go test.
func TestExamplesAreTestedOnTheBox(t *testing.T) {
	t.Parallel()
	files := sources(t)
	for name, source := range files {
		program, isTest := strings.CutSuffix(name, "_test.go")
		if !isTest || !strings.HasPrefix(name, "examples/") || !bytes.Contains(source, []byte(" run(t.Context()")) {
			continue
		}
		main := files[program+".go"]
		if bytes.Contains(main, []byte("func run(ctx context.Context, out io.Writer, client *clinicaldoc.Client")) {
			continue // the test gives it the box's
		}
		if bytes.Contains(main, []byte(".Connect(")) || bytes.Contains(main, []byte("NewClientFromEnv(")) {
			assert.Contains(t, string(source), "t.Setenv(clinicaldoc.EnvBaseURL,", name)
		}
	}
}
