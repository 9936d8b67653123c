package simulation

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// seededFault is a mistake that the SDK does not make: a change of its source, made for the compiler only.
type seededFault struct {
	name    string
	changes []replacement
	folder  string // of the test that has to notice the fault
	test    string // "": scenarios have to notice it
}

// replacement replaces a text that occurs exactly once in a function of a file, or in the file if there is no function.
type replacement struct{ file, function, old, with string }

// readFaults reads the folder faults. The README describes the format.
func readFaults(t *testing.T) (all []seededFault) {
	t.Helper()
	lists, err := filepath.Glob("faults/*.txt")
	require.NoError(t, err)
	for _, list := range lists {
		text, err := os.ReadFile(list)
		require.NoError(t, err)
		faults, err := parseFaults(string(text))
		require.NoError(t, err, list)
		all = append(all, faults...)
	}
	require.NotEmpty(t, all)
	return all
}

func parseFaults(text string) (faults []seededFault, err error) {
	file := ""
	text = strings.ReplaceAll(text, "\n        -> ", " -> ") // long changes take two lines
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if source, found := strings.CutPrefix(line, "== "); found {
			file = source
			continue
		}
		detail, indented := strings.CutPrefix(line, "    ")
		switch {
		case line == "":
		case !indented:
			faults = append(faults, newFault(file, line))
		case len(faults) == 0:
			return nil, fmt.Errorf("%q belongs to no fault", detail)
		default:
			fault := &faults[len(faults)-1]
			change, err := parseChange(file, detail)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", fault.name, err)
			}
			fault.changes = append(fault.changes, change)
		}
	}
	return faults, nil
}

// newFault parses the first line of a fault: its name and the test. A test of another folder follows that folder.
func newFault(file, line string) seededFault {
	name, test, _ := strings.Cut(line, " | ")
	fault := seededFault{name: name, folder: path.Dir(file), test: test}
	if folder, other, found := strings.Cut(test, " "); found {
		fault.folder = folder
		fault.test = other
	}
	return fault
}

// parseChange parses FUNCTION: "old" -> "with". A change of another file has that file before the function.
func parseChange(file, line string) (c replacement, err error) {
	where, texts, _ := strings.Cut(line, ": ")
	c = replacement{file: file, function: where}
	if other, function, found := strings.Cut(where, " "); found {
		c.file = other
		c.function = function
	}
	if c.function == "anywhere" {
		c.function = ""
	}
	old, err := strconv.QuotedPrefix(texts)
	if err != nil {
		return c, fmt.Errorf("no quoted text in %q", line)
	}
	with, found := strings.CutPrefix(texts[len(old):], " -> ")
	if !found {
		return c, fmt.Errorf("no -> after the text in %q", line)
	}
	if c.old, err = strconv.Unquote(old); err != nil {
		return c, err
	}
	if c.with, err = strconv.Unquote(with); err != nil {
		return c, fmt.Errorf("no quoted text after -> in %q", line)
	}
	return c, nil
}
