package guards_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A dependency is a row of the table in docs/regulated.md.
type dependency struct{ licence, use string }

var (
	dependencyRow = regexp.MustCompile("(?m)^\\| (`[^|]+`) \\| ([^|]+) \\| ([^|]+) \\| ([^|]+) \\|$")
	quotedName    = regexp.MustCompile("`([^`]+)`")
)

// listedDependencies returns the table's rows by module. A row may name several modules.
func listedDependencies(t *testing.T) map[string]dependency {
	t.Helper()
	listed := map[string]dependency{}
	for _, row := range dependencyRow.FindAllStringSubmatch(documents(t)["docs/regulated.md"], -1) {
		for _, name := range quotedName.FindAllStringSubmatch(row[1], -1) {
			require.NotContains(t, listed, name[1], "listed twice")
			listed[name[1]] = dependency{licence: row[2], use: row[3]}
		}
	}
	require.NotEmpty(t, listed)
	return listed
}

// publishedModules returns the folders of the modules that others can require, as docs/releases.md defines them.
func publishedModules(t *testing.T) (published []string) {
	t.Helper()
	for _, folder := range folders(t, "go.mod") {
		parts := strings.Split(folder, "/")
		if !slices.Contains(parts, "internal") && !slices.Contains(parts, "examples") {
			published = append(published, filepath.Join(root, folder))
		}
	}
	return published
}

// requiredBy returns the versions of the modules of others that a go.mod requires. Of the root module it also returns
// what is required indirectly, because every importer gets it.
func requiredBy(t *testing.T, folder string) map[string]string {
	t.Helper()
	var file struct {
		Require []struct {
			Path, Version string
			Indirect      bool
		}
	}
	place, err := filepath.Abs(filepath.Join(folder, "go.mod"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal([]byte(goText(t, "mod", "edit", "-json", place)), &file))
	versions := map[string]string{}
	for _, required := range file.Require {
		own := required.Path == thisModule || strings.HasPrefix(required.Path, thisModule+"/")
		skipped := required.Indirect && folder != root
		if !own && !skipped {
			versions[required.Path] = required.Version
		}
	}
	return versions
}

// Whoever assesses the SDK for regulated use has to know each dependency. The page must not lag behind go.mod.
func TestRegulatedPage_ListsExactlyTheDependencies(t *testing.T) {
	t.Parallel()
	listed := listedDependencies(t)
	required := map[string]bool{}
	for _, folder := range publishedModules(t) {
		for module := range requiredBy(t, folder) {
			required[module] = true
			assert.Contains(t, listed, module, "%s/go.mod requires it, docs/regulated.md does not list it", folder)
		}
	}
	for module := range listed {
		assert.Contains(t, required, module, "docs/regulated.md lists it, no go.mod requires it")
	}
}

// A module that only tests use is a smaller risk than one that programs link, so the page must not confuse them.
func TestRegulatedPage_TellsLinkedModulesFromTestTools(t *testing.T) {
	t.Parallel()
	listed := listedDependencies(t)
	for _, folder := range publishedModules(t) {
		if folder != root && !hasModules(folder) {
			continue // TestRegulatedPage_ListsExactlyTheDependencies does not need the modules themselves
		}
		linked := linkedBy(t, folder)
		for module := range requiredBy(t, folder) {
			assert.Equal(t, slices.Contains(linked, module), listed[module].use != "tests", "%s: %s", folder, module)
		}
	}
}

// linkedBy returns the modules that importers of a module, or its command, link.
func linkedBy(t *testing.T, folder string) []string {
	t.Helper()
	place, err := filepath.Abs(folder)
	require.NoError(t, err)
	return goOutput(t, "list", "-C", place, "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./...")
}

// licenceWords are words of a licence's text that no other listed licence has.
var licenceWords = map[string]string{
	"Apache-2.0":   "Apache License",
	"BSD-3-Clause": "Redistribution and use in source and binary forms",
	"MIT":          "Permission is hereby granted, free of charge",
	"MPL-2.0":      "Mozilla Public License",
}

// The named licences are those in the modules' own files, as far as the modules are on this machine. Those of the root
// always are.
func TestRegulatedPage_NamesTheLicences(t *testing.T) {
	t.Parallel()
	cache := strings.TrimSpace(goText(t, "env", "GOMODCACHE"))
	listed := listedDependencies(t)
	for _, folder := range publishedModules(t) {
		for module, version := range requiredBy(t, folder) {
			files, err := filepath.Glob(filepath.Join(cache, module+"@"+version, "LICENSE*"))
			require.NoError(t, err)
			if len(files) == 0 {
				assert.NotEqual(t, root, folder, "the licence of %s was not found", module)
				continue
			}
			text, err := os.ReadFile(files[0])
			require.NoError(t, err)
			for name, words := range licenceWords {
				named := slices.Contains(strings.Split(listed[module].licence, ", "), name)
				assert.Equal(t, named, strings.Contains(string(text), words), "%s and %s", module, name)
			}
		}
	}
}
