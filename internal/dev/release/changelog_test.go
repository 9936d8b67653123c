package main

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSection(t *testing.T) {
	t.Parallel()
	const changelog = "# Changelog\n\n## [Unreleased]\n\n## [0.3.0] - 2026-13-01\n\n- x\n\n## [0.2.0] - 2026-03-01\n\n### Changed\n\n- One.\n\n## [0.1.0] - 2026-02-01\n"
	text, err := section(changelog, "v0.2.0")
	require.NoError(t, err)
	assert.Equal(t, "### Changed\n\n- One.", text)
	assert.True(t, tellsOfBreaking(text))
	for v, want := range map[version]string{"v0.4.0": "no section", "v0.3.0": "the date", "v0.1.0": "says nothing"} {
		_, err := section(changelog, v)
		require.ErrorContains(t, err, want)
	}
	_, err = section("## [0.2.0] - 2026-03-01\n\n- One.\n", "v0.2.0")
	require.ErrorContains(t, err, "[Unreleased]")
}

// Every version that the changelog of this repository names has a date and says something.
func TestSection_ThisRepository_EveryVersionHasOne(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../CHANGELOG.md")
	require.NoError(t, err)
	headings := regexp.MustCompile(`(?m)^## \[(\d\S*)\]`).FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, headings)
	for _, heading := range headings {
		v, err := parseVersion("v" + heading[1])
		require.NoError(t, err)
		_, err = section(string(text), v)
		require.NoError(t, err)
	}
}
