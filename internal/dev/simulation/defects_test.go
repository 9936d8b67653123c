package simulation

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	plant = flag.String("plant", "", "pattern of the defects to plant, one after the other; .: all")
	past  = flag.Int("past", 0, "how many of the defects to leave out, from the first on")
	keep  = flag.String("keep", "", "where to leave the binary with all defects, of which PLANTED in the environment chooses one; then none is tried")
)

// defect is a mistake that the SDK does not make: a change of its source, made for the compiler alone.
type defect struct {
	name      string
	file      string // from the repository's root
	old, with string // text of the file, which stands there once, and what it becomes
	also      []patch
	only      string // the operation, after a slash, that sequences try; "": all
	attempts  int    // that a sequence needs to show it; 0: 2
	survives  string // why nothing here can show it; "": it has to be caught
	held      string // the package and the test that show it then
}

// patch is a further change that belongs to a defect, in another function.
type patch struct{ file, old, with string }

// TestDefects plants one defect after the other, and sees that the simulation catches it. A simulation that finds nothing
// is worth as much as it can find.
func TestDefects(t *testing.T) {
	t.Parallel()
	if *plant == "" {
		t.Skip("takes minutes; -plant . runs it")
	}
	n := newPlanting(t)
	binary := n.build()
	if *keep != "" {
		require.NoError(t, os.Rename(binary, *keep))
		for i, d := range defects {
			t.Logf("PLANTED=%d %s", i+1, d.name)
		}
		return
	}
	chosen := regexp.MustCompile(*plant)
	var table strings.Builder
	fmt.Fprintf(&table, "| defect | sequences until caught | worlds until caught | broken promise |\n|---|---|---|---|\n")
	rows := make([]string, len(defects))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(defects); i = int(next.Add(1)) - 1 {
				if i >= *past && chosen.MatchString(defects[i].name) {
					rows[i] = defects[i].try(t, n, binary, i)
				}
			}
		})
	}
	workers.Wait()
	t.Log("\n" + table.String() + strings.Join(rows, ""))
}

// TestEachDefectFindsItsPlace sees that the text which a defect replaces stands exactly once, within a function. Whoever
// changes that text changes the defect with it, and not a night later.
func TestEachDefectFindsItsPlace(t *testing.T) {
	t.Parallel()
	newPlanting(t).plantAll()
}

// try runs the simulation with the defect and returns its row of the table.
func (d defect) try(t *testing.T, n *planting, binary string, number int) string {
	t.Helper()
	sequences := d.caught(t, binary, number, 0, "TestSequences"+d.only, `first in: (\w+).*\n(?s:.*)Should be zero, but was \d+.*\n.*\n.*of (\d+)`)
	limit := 2000
	if d.survives != "" {
		limit = 600
	}
	worlds := d.caught(t, binary, number, limit, "TestWorlds", `broken: ([^,]+), in \d+ of (\d+) worlds`)
	found := sequences != nil || worlds != nil
	if !found && d.survives == "" {
		t.Errorf("%s: not caught", d.name)
	}
	if found && d.survives != "" {
		t.Errorf("%s: is caught, although %s", d.name, d.survives)
	}
	why := d.survives
	if d.held != "" {
		why += "; " + n.held(d, number)
	}
	cell := func(found []string, group int) string {
		if found == nil {
			return "-"
		}
		return found[group]
	}
	row := fmt.Sprintf("| %s | %s | %s | %s |\n", d.name, cell(sequences, 2), cell(worlds, 2), strings.TrimPrefix(cell(worlds, 1)+why, "-"))
	t.Log(strings.TrimSpace(row))
	return row
}

// caught runs a test until it fails, and returns what the pattern finds in its output; nil if it does not fail.
func (d defect) caught(t *testing.T, binary string, number, limit int, test, pattern string) []string {
	t.Helper()
	run := exec.CommandContext(t.Context(), binary, "-test.run", test+"$", "-test.timeout", "60m", "-first", "-seeds", strconv.Itoa(limit), "-attempts", strconv.Itoa(cmp.Or(d.attempts, 2)))
	run.Env = append(os.Environ(), "PLANTED="+strconv.Itoa(number+1), "GOMAXPROCS=1") // one world after the other: the count is the same each time
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

// planting makes one binary of all defects. Each lies in a copy of its function, to which the function itself leads when the
// environment says so. The sources stay as they are: the go command takes the others in their place.
type planting struct {
	t       *testing.T
	folder  string
	overlay map[string]string
	sources map[string]*source
	written int
}

// source is a file with defects.
type source struct {
	path, text string
	file       *ast.File
	set        *token.FileSet
	detours    map[int]string // by where they stand
	copies     strings.Builder
}

const root = "../../.."

func newPlanting(t *testing.T) *planting {
	t.Helper()
	return &planting{t: t, folder: t.TempDir(), overlay: map[string]string{}, sources: map[string]*source{}}
}

func (n *planting) plantAll() {
	n.t.Helper()
	for i, d := range defects {
		for _, p := range append([]patch{{d.file, d.old, d.with}}, d.also...) {
			n.plant(i, d.name, p)
		}
	}
}

func (n *planting) build() (binary string) {
	n.t.Helper()
	n.plantAll()
	for _, s := range n.sources {
		text := s.text
		at := make([]int, 0, len(s.detours))
		for offset := range s.detours {
			at = append(at, offset)
		}
		slices.Sort(at)
		for _, offset := range slices.Backward(at) {
			text = text[:offset] + s.detours[offset] + text[offset:]
		}
		n.write(s.path, text+s.copies.String())
		n.write(filepath.Join(filepath.Dir(s.path), "planted.go"), "package "+s.file.Name.Name+"\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar planted, _ = strconv.Atoi(os.Getenv(\"PLANTED\"))\n")
	}
	overlay, err := json.Marshal(map[string]any{"Replace": n.overlay})
	require.NoError(n.t, err)
	require.NoError(n.t, os.WriteFile(n.overlayPath(), overlay, 0o600))
	binary = filepath.Join(n.folder, "simulation.test")
	out, err := exec.CommandContext(n.t.Context(), "go", "test", "-c", "-vet=off", "-overlay", n.overlayPath(), "-o", binary, ".").CombinedOutput()
	require.NoError(n.t, err, string(out))
	return binary
}

// held runs the test that notices a defect which worlds and sequences cannot show, and says so.
func (n *planting) held(d defect, number int) string {
	n.t.Helper()
	folder, test, _ := strings.Cut(d.held, " ")
	run := exec.CommandContext(n.t.Context(), "go", "test", "-count=1", "-vet=off", "-overlay", n.overlayPath(), "-run", "^"+test+"$", "./"+folder)
	run.Dir, run.Env = root, append(os.Environ(), "PLANTED="+strconv.Itoa(number+1))
	if out, err := run.CombinedOutput(); err == nil || !strings.Contains(string(out), "--- FAIL: "+test) {
		n.t.Errorf("%s: %s does not notice it: %v\n%s", d.name, test, err, out)
	}
	return test + " holds it"
}

func (n *planting) overlayPath() string { return filepath.Join(n.folder, "overlay.json") }

func (n *planting) write(path, text string) {
	n.t.Helper()
	n.written++
	instead := filepath.Join(n.folder, strconv.Itoa(n.written)+".go")
	require.NoError(n.t, os.WriteFile(instead, []byte(text), 0o600))
	n.overlay[path] = instead
}

// plant adds a copy of the function with the defect, and the detour to it.
func (n *planting) plant(number int, defect string, d patch) {
	n.t.Helper()
	s := n.sources[d.file]
	if s == nil {
		path, err := filepath.Abs(filepath.Join(root, d.file))
		require.NoError(n.t, err)
		text, err := os.ReadFile(path)
		require.NoError(n.t, err)
		s = &source{path: path, text: string(text), set: token.NewFileSet(), detours: map[int]string{}}
		s.file, err = parser.ParseFile(s.set, path, text, parser.SkipObjectResolution)
		require.NoError(n.t, err)
		n.sources[d.file] = s
	}
	require.Equal(n.t, 1, strings.Count(s.text, d.old), "%s: the text to change in %s", defect, d.file)
	at := strings.Index(s.text, d.old)
	function := s.around(at)
	require.NotNil(n.t, function, "%s: not within a function", defect)
	offset := func(p token.Pos) int { return s.set.Position(p).Offset }
	name := fmt.Sprintf("%sPlanted%d", function.Name.Name, number+1)
	start, nameAt, end := offset(function.Pos()), offset(function.Name.Pos()), offset(function.End())
	fmt.Fprintf(&s.copies, "\n%s%s%s%s%s\n", s.text[start:nameAt], name, s.text[nameAt+len(function.Name.Name):at], d.with, s.text[at+len(d.old):end])
	for _, field := range function.Type.Params.List {
		for _, parameter := range field.Names {
			if parameter.Name == "_" { // which cannot be passed on: it gets a name
				s.detours[offset(parameter.End())] = strconv.Itoa(int(parameter.Pos()))
			}
		}
	}
	call := name + callArguments(function)
	if function.Recv != nil {
		call = function.Recv.List[0].Names[0].Name + "." + call
	}
	detour := call + "\n\t\treturn"
	if function.Type.Results != nil {
		detour = "return " + call
	}
	s.detours[offset(function.Body.Lbrace)+1] += fmt.Sprintf("\n\tif planted == %d {\n\t\t%s\n\t}\n", number+1, detour)
}

// around is the function that holds the offset.
func (s *source) around(at int) *ast.FuncDecl {
	for _, declaration := range s.file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if ok && s.set.Position(function.Body.Lbrace).Offset < at && at < s.set.Position(function.End()).Offset {
			return function
		}
	}
	return nil
}

// callArguments passes the function's parameters on.
func callArguments(function *ast.FuncDecl) string {
	var types, list []string
	if function.Type.TypeParams != nil {
		for _, field := range function.Type.TypeParams.List {
			for _, name := range field.Names {
				types = append(types, name.Name)
			}
		}
	}
	for _, field := range function.Type.Params.List {
		for _, name := range field.Names {
			argument := name.Name
			if argument == "_" {
				argument += strconv.Itoa(int(name.Pos()))
			}
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				argument += "..."
			}
			list = append(list, argument)
		}
	}
	arguments := "(" + strings.Join(list, ", ") + ")"
	if types != nil {
		arguments = "[" + strings.Join(types, ", ") + "]" + arguments
	}
	return arguments
}
