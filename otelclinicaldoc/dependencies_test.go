package otelclinicaldoc_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// This module links only OpenTelemetry's API. A program chooses the SDK and exporters itself.
func TestModule_LinksOnlyTheAPI(t *testing.T) {
	t.Parallel()
	const format = "{{with .Module}}{{.Path}}{{end}}"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", format, ".").Output()
	require.NoError(t, err)
	modules := slices.Sorted(slices.Values(strings.Fields(string(out))))
	assert.Equal(t, []string{
		"github.com/cespare/xxhash/v2",
		"github.com/clinicaldoc/clinicaldoc-go",
		"github.com/clinicaldoc/clinicaldoc-go/otelclinicaldoc",
		"github.com/go-logr/logr",
		"github.com/go-logr/stdr",
		"github.com/google/go-querystring",
		"github.com/hashicorp/go-cleanhttp",
		"github.com/hashicorp/go-retryablehttp",
		"go.opentelemetry.io/auto/sdk",
		"go.opentelemetry.io/otel",
		"go.opentelemetry.io/otel/log",
		"go.opentelemetry.io/otel/metric",
		"go.opentelemetry.io/otel/trace",
	}, slices.Compact(modules))
}
