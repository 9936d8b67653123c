package otelclinicaldoc_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A program links OpenTelemetry's API with this module: which SDK and exporters, it decides itself.
func TestOnlyTheAPIIsLinked(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".").Output()
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
