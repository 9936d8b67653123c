package house_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// aroundFragment makes a program of a piece of code that stands in the README without one. What it may use is declared
// before it, so that the piece itself shows only what matters.
const aroundFragment = `package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

var (
	_ = errors.New
	_ = fmt.Println
	_ = os.Args
	_ = time.Second
	_ = clinicaldoctest.NewServer
	_ = ingest.OpenJournal
)

func fragment(ctx context.Context, client *clinicaldoc.Client, params clinicaldoc.CreateNoteParams, ids []int64) error {
%s
	return nil
}

func main() { _ = fragment }
`

func TestReadmeCodeCompilesInAnotherModule(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)\n```go\n(.*?)\n```").FindAllStringSubmatch(strings.ReplaceAll(string(readme), "\r\n", "\n"), -1)
	require.NotEmpty(t, blocks)
	files := map[string]string{}
	for i, block := range blocks {
		code := block[1]
		if !strings.HasPrefix(code, "package ") {
			code = fmt.Sprintf(aroundFragment, code)
		}
		files[fmt.Sprintf("block%d/main.go", i+1)] = code
	}
	buildElsewhere(t, files)
}

// Who follows the README runs what the checks run.
func TestDocumentsNameTheSameTestCommand(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		return strings.ReplaceAll(string(text), "\r\n", "\n")
	}
	checks := regexp.MustCompile(`(?m)^ *check 'test' (.+)$`).FindStringSubmatch(read(".ci/run"))
	require.NotNil(t, checks)
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "Makefile"} {
		assert.Regexp(t, `(?m)^\s*`+regexp.QuoteMeta(checks[1])+`( +#.*)?$`, read(name), name)
	}
	assert.Contains(t, read(".github/workflows/ci.yml"), "- run: "+checks[1]+"\n")
}
