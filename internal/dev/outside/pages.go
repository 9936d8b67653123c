package outside

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Programs makes a program of each Go block of a Markdown page, by the path of its file. Blocks of one package are one program, with
// its tests. A block without a package clause may use ctx, client, params and ids and the packages below, so that the page
// shows only what matters.
func Programs(page string) map[string]string {
	files := map[string]string{}
	for i, block := range goBlock.FindAllStringSubmatch(strings.ReplaceAll(page, "\r\n", "\n"), -1) {
		folder, code, kind := fmt.Sprintf("block%d", i+1), block[1], ""
		if whole := packageClause.FindStringSubmatch(code); whole != nil {
			folder = strings.TrimSuffix(whole[1], "_test")
		} else {
			code = program(code)
		}
		if strings.Contains(code, "\nfunc Test") {
			kind = "_test"
		}
		files[fmt.Sprintf("%s/block%d%s.go", folder, i+1, kind)] = code
	}
	return files
}

var (
	goBlock       = regexp.MustCompile("(?s)(?:^|\n)```go\n(.*?\n)```")
	endsInReturn  = regexp.MustCompile(`(?:^|\n)return [^\n]*\n$`)
	packageClause = regexp.MustCompile(`^package (\w+)\n`)
)

func program(code string) string {
	if !strings.HasPrefix(code, "func ") && !strings.HasPrefix(code, "type ") {
		const start = "func _(ctx context.Context, client *clinicaldoc.Client, params clinicaldoc.CreateNoteParams, ids []int64) error {\n{\n"
		end := "}\nreturn nil\n}\n"
		if endsInReturn.MatchString(code) {
			end = "}\n}\n"
		}
		code = start + code + end
	}
	return "package block\n\n" + imports(code) + code
}

// packages are those that a block may use without importing them.
var packages = map[string]string{
	"clinicaldoc": thisModule, "clinicaldoctest": thisModule + "/clinicaldoctest", "ingest": thisModule + "/ingest", "snapshot": thisModule + "/snapshot",
	"context": "context", "errors": "errors", "fmt": "fmt", "http": "net/http", "io": "io", "json": "encoding/json", "os": "os", "filepath": "path/filepath",
	"slog": "log/slog", "strings": "strings", "time": "time", "tls": "crypto/tls", "x509": "crypto/x509",
}

func imports(code string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		if regexp.MustCompile(`\b` + name + `\.[A-Z]`).MatchString(code) {
			fmt.Fprintf(&b, "import %s %q\n", name, packages[name])
		}
	}
	return b.String()
}
