package otelclinicaldoc_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// page shows what these tests find: go test -run Page -update writes it there.
const page = "../docs/telemetry.md"

var update = flag.Bool("update", false, "write what the tests find to "+page)

// assertShown demands that the part of the page that the pattern's group finds is this text.
func assertShown(t *testing.T, pattern, text string) {
	t.Helper()
	content, err := os.ReadFile(page)
	require.NoError(t, err)
	shown := strings.ReplaceAll(string(content), "\r\n", "\n")
	found := regexp.MustCompile(pattern).FindStringSubmatchIndex(shown)
	require.NotNil(t, found, pattern)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(shown[:found[2]]+text+shown[found[3]:]), 0o600))
		return
	}
	assert.Equal(t, text, shown[found[2]:found[3]])
}

//nolint:paralleltest // with -update they write to one file
func TestPage_ShowsTheTrace(t *testing.T) {
	d := newTracedBox(t)
	ctx, span := d.tracer.Start(t.Context(), "encounter")
	require.NoError(t, d.encounter(ctx, clinicaldoc.CreateNoteParams{
		Name: canary, PatientID: canaryPatient, PromptID: 1, Audio: clinicaldoc.AudioBytes(canary+".wav", recording(5000)),
	}))
	span.End()
	assertNoCanary(t, d.tree())
	assertShown(t, "(?s)## A trace\n.*?```text\n(.*?)```", d.tree())
}

//nolint:paralleltest // with -update they write to one file
func TestPage_ListsTheMetrics(t *testing.T) {
	d := newTracedBox(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{RateLimit: 1000, RateWindow: time.Hour}))
	d.ingest(t)
	callWithCanaries(t, d)
	counted := d.metrics(t)
	table := "| Name, kind, unit | What it is | Attributes |\n|---|---|---|\n" // five columns do not fit a page
	for _, name := range slices.Sorted(maps.Keys(counted)) {
		m := counted[name]
		keys := map[attribute.Key]bool{}
		for _, p := range series(m) {
			for _, kv := range p.set.ToSlice() {
				keys[kv.Key] = true
			}
		}
		var quoted []string
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			quoted = append(quoted, "`"+string(key)+"`")
		}
		table += fmt.Sprintf("| %#q %s, %#q | %s | %s |\n", name, kind(m), m.Unit, m.Description, strings.Join(quoted, ", "))
	}
	assertShown(t, `(?s)## Metrics\n\n(\|.*?\n)\n`, table)
}

func kind(m metricdata.Metrics) string {
	switch m.Data.(type) {
	case metricdata.Sum[int64]:
		return "counter"
	case metricdata.Gauge[int64]:
		return "gauge"
	}
	return "histogram"
}

//nolint:paralleltest // with -update they write to one file
func TestPage_ShowsOrLinksTheRecipes(t *testing.T) {
	recipes, err := filepath.Glob("recipe_*_test.go")
	require.NoError(t, err)
	content, err := os.ReadFile(page)
	require.NoError(t, err)
	shown := 0
	for _, recipe := range recipes {
		if strings.Contains(string(content), "](../otelclinicaldoc/"+recipe+")") {
			continue
		}
		source, err := os.ReadFile(recipe)
		require.NoError(t, err)
		_, code, found := strings.Cut(strings.ReplaceAll(string(source), "\r\n", "\n"), "package otelclinicaldoc_test\n\n")
		require.True(t, found)
		// The heading of a recipe names it: recipe_setup_test.go stands under "Setup".
		name := strings.TrimSuffix(strings.TrimPrefix(recipe, "recipe_"), "_test.go")
		assertShown(t, "(?si)\n##+ [^\n]*"+name+"[^\n]*\n.*?```go\n(.*?)```", code)
		shown++
	}
	assert.Equal(t, shown, strings.Count(string(content), "```go"), "all code of the page is compiled")
}
