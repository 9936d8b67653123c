package main

import (
	"debug/buildinfo"
	"encoding/json"
	"runtime/debug"
	"strings"
)

// component is a part of a program, in the words of CycloneDX.
type component struct {
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// bill is a CycloneDX document.
type bill struct {
	Format   string `json:"bomFormat"`
	Spec     string `json:"specVersion"`
	Version  int    `json:"version"`
	Metadata struct {
		Component component `json:"component"`
	} `json:"metadata"`
	Components []component `json:"components"`
}

// billOfMaterials lists what a binary was built from, as the Go linker wrote it into the binary itself.
func billOfMaterials(binary string, v version) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	main := info.Main
	main.Version = string(v)
	document := bill{Format: "CycloneDX", Spec: "1.6", Version: 1}
	document.Metadata.Component = componentOf("application", &main)
	standard := strings.TrimPrefix(info.GoVersion, "go")
	document.Components = append(document.Components, component{Type: "library", Name: "std", Version: standard, PURL: "pkg:golang/std@" + standard})
	for _, dependency := range info.Deps {
		document.Components = append(document.Components, componentOf("library", dependency))
	}
	return json.MarshalIndent(document, "", "  ")
}

// componentOf describes a module. Its sum is no hash of a file, so it is a property and no hash.
func componentOf(kind string, m *debug.Module) component {
	c := component{Type: kind, Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + m.Version}
	if m.Sum != "" {
		c.Properties = []property{{"go:sum", m.Sum}}
	}
	return c
}
