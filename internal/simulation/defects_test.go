package simulation

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	plant = flag.String("plant", "", "pattern of the defects to plant, one after the other; .: all")
	past  = flag.Int("past", 0, "how many of the defects to leave out, from the first on")
)

// defect is a mistake that the SDK does not make: a change of its source, made for the compiler alone.
type defect struct {
	name      string
	file      string // from the repository's root
	old, with string // text of the file, which stands there once, and what it becomes
	survives  string // why nothing here can show it; "": it has to be caught
}

// TestDefects plants one defect after the other, and sees that the simulation catches it. A simulation that finds nothing
// is worth as much as it can find.
func TestDefects(t *testing.T) {
	t.Parallel()
	if *plant == "" {
		t.Skip("takes minutes; -plant . runs it")
	}
	chosen := regexp.MustCompile(*plant)
	var table strings.Builder
	fmt.Fprintf(&table, "| defect | sequences until caught | worlds until caught | broken promise |\n|---|---|---|---|\n")
	for _, d := range defects[*past:] {
		if chosen.MatchString(d.name) {
			d.try(t, &table)
		}
	}
	t.Log("\n" + table.String())
}

const root = "../.."

func (d defect) try(t *testing.T, table *strings.Builder) {
	t.Helper()
	binary, ok := d.build(t)
	if !ok {
		return
	}
	sequences := caught(t, binary, "TestSequences", `first in: (\w+).*\n(?s:.*)Should be zero, but was \d+.*\n.*\n.*of (\d+)`)
	worlds := caught(t, binary, "TestWorlds", `broken: ([^,]+), in \d+ of (\d+) worlds`)
	if sequences == nil && worlds == nil && d.survives == "" {
		t.Errorf("%s: not caught", d.name)
	}
	if (sequences != nil || worlds != nil) && d.survives != "" {
		t.Errorf("%s: is caught, although %s", d.name, d.survives)
	}
	cell := func(found []string, group int) string {
		if found == nil {
			return "-"
		}
		return found[group]
	}
	row := fmt.Sprintf("| %s | %s | %s | %s%s |\n", d.name, cell(sequences, 2), cell(worlds, 2), cell(worlds, 1), d.survives)
	t.Log(strings.TrimSpace(row))
	table.WriteString(row)
}

// build compiles the tests with the defect in place of what is right.
func (d defect) build(t *testing.T) (binary string, ok bool) {
	t.Helper()
	folder := t.TempDir()
	path, err := filepath.Abs(filepath.Join(root, d.file))
	require.NoError(t, err)
	source, err := os.ReadFile(path)
	require.NoError(t, err)
	if n := strings.Count(string(source), d.old); n != 1 {
		t.Errorf("%s: the text to change stands %d times in %s", d.name, n, d.file)
		return "", false
	}
	changed := filepath.Join(folder, "changed.go")
	require.NoError(t, os.WriteFile(changed, []byte(strings.Replace(string(source), d.old, d.with, 1)), 0o600))
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "overlay.json"), overlay, 0o600))
	binary = filepath.Join(folder, "simulation.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", filepath.Join(folder, "overlay.json"), "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("%s: %s", d.name, out)
		return "", false
	}
	return binary, true
}

// caught runs a test until it fails, and returns what the pattern finds in its output; nil if it does not fail.
func caught(t *testing.T, binary, test, pattern string) []string {
	t.Helper()
	run := exec.CommandContext(t.Context(), binary, "-test.run", "^"+test+"$", "-test.timeout", "10m", "-first", "-seeds", "2000", "-attempts", "3")
	began := time.Now()
	out, err := run.CombinedOutput()
	if err == nil {
		return nil
	}
	if found := regexp.MustCompile(pattern).FindStringSubmatch(string(out)); found != nil {
		return found
	}
	return []string{"", fmt.Sprintf("panic or hang after %s", time.Since(began).Round(time.Second)), "?"}
}
