package simulation

import (
	"cmp"
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/plant"
)

var (
	plantOnly = flag.String("plant", "", "pattern of the defects to plant, one after the other; .: all")
	past      = flag.Int("past", 0, "how many of the defects to leave out, from the first on")
	some      = flag.Int("some", 0, "how many to plant of those that a test of their own has to notice; 0: all, and the others too")
	pickedBy  = flag.String("pick", "", "what chooses those, such as the name of a commit")
	keep      = flag.String("keep", "", "where to leave the binary with all defects, of which PLANTED in the environment chooses one; then none is tried")
)

// defect is a mistake that the SDK does not make: a change of its source, made for the compiler alone.
type defect struct {
	name      string
	file      string // from the repository's root
	in        string // the function to change, a method as Type.Name; "": any of the file
	old, with string // text that occurs once in the function, or in the file, and what it becomes
	also      []patch
	only      string // the operation, after a slash, that sequences try; "": all
	attempts  int    // that a sequence needs to show it; 0: 2
	survives  string // why nothing here can show it; "": it has to be caught
	held      string // the folder and the test that show it then; without survives, the simulation is not asked
}

// patch is a further change that belongs to a defect, in another function.
type patch struct{ file, in, old, with string }

// TestDefects plants one defect after the other, and sees that the simulation catches it. A simulation that finds nothing
// is worth as much as it can find.
func TestDefects(t *testing.T) {
	t.Parallel()
	if *plantOnly == "" {
		t.Skip("takes minutes; -plant . runs it")
	}
	n := newPlanting(t)
	if *keep != "" {
		require.NoError(t, os.Rename(n.build(here), *keep))
		for i, d := range defects {
			t.Logf("%s=%d %s", plant.Variable, i+1, d.name)
		}
		return
	}
	chosen := chooseDefects()
	rows := make([]string, len(defects))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(chosen); i = int(next.Add(1)) - 1 {
				rows[i] = defects[chosen[i]].try(t, n, chosen[i]+1)
			}
		})
	}
	workers.Wait()
	t.Log("\n| defect | sequences until caught | worlds until caught | broken promise |\n|---|---|---|---|\n" + strings.Join(rows, ""))
}

// chooseDefects are the indices of those to plant.
func chooseDefects() (chosen []int) {
	pattern := regexp.MustCompile(*plantOnly)
	for i, d := range defects {
		if i >= *past && pattern.MatchString(d.name) && (*some == 0 || d.onlyHeld()) {
			chosen = append(chosen, i)
		}
	}
	if *some > 0 && *some < len(chosen) {
		sum := sha256.Sum256([]byte(*pickedBy))
		rand.New(rand.NewChaCha8(sum)).Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		chosen = chosen[:*some]
	}
	return chosen
}

// TestEachDefectFindsItsPlace sees that the text which a defect replaces occurs exactly once in its function. Whoever
// changes that text changes the defect with it, and not a night later.
func TestEachDefectFindsItsPlace(t *testing.T) {
	t.Parallel()
	newPlanting(t)
}

// onlyHeld says whether the defect is left to a test of its own, as nothing in worlds comes near to it.
func (d defect) onlyHeld() bool { return d.held != "" && d.survives == "" }

// try runs the simulation with the defect and returns its row of the table.
func (d defect) try(t *testing.T, n *planting, number int) string {
	t.Helper()
	if d.onlyHeld() {
		row := fmt.Sprintf("| %s | | | %s |\n", d.name, n.held(d, number))
		t.Log(strings.TrimSpace(row))
		return row
	}
	binary := n.build(here)
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
	run.Env = append(os.Environ(), plant.Variable+"="+strconv.Itoa(number), "GOMAXPROCS=1") // one world after the other: the count is the same each time
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

// planting makes one binary of all defects, and others of the tests that hold some of them.
type planting struct {
	t      *testing.T
	field  plant.Field
	folder string

	overlay  func() string
	building sync.Mutex
	binaries map[string]string // of tests, by their folders
}

const (
	root = "../../.."
	here = "internal/dev/simulation"
)

func newPlanting(t *testing.T) *planting {
	t.Helper()
	n := &planting{t: t, folder: t.TempDir(), binaries: map[string]string{}}
	n.overlay = sync.OnceValue(func() string {
		path, err := n.field.Write(n.folder)
		require.NoError(t, err)
		return path
	})
	for i, d := range defects {
		for _, p := range append([]patch{{d.file, d.in, d.old, d.with}}, d.also...) {
			n.plant(i+1, d.name, p)
		}
	}
	return n
}

func (n *planting) plant(number int, defect string, p patch) {
	n.t.Helper()
	path, err := filepath.Abs(filepath.Join(root, p.file))
	require.NoError(n.t, err)
	text, err := n.field.Text(path)
	require.NoError(n.t, err)
	start, end := 0, len(text)
	if p.in != "" {
		start, end, err = n.field.Function(path, p.in)
		require.NoError(n.t, err, defect)
	}
	require.Equal(n.t, 1, strings.Count(text[start:end], p.old), "%s: %q in %s %s", defect, p.old, p.file, p.in)
	at := start + strings.Index(text[start:end], p.old)
	require.NoError(n.t, n.field.Plant(number, path, at, at+len(p.old), p.with), defect)
}

// build makes the binary of a folder's tests, with all defects.
func (n *planting) build(folder string) (binary string) {
	n.t.Helper()
	n.building.Lock()
	defer n.building.Unlock()
	if made, ok := n.binaries[folder]; ok {
		return made
	}
	binary = filepath.Join(n.folder, strings.ReplaceAll(folder, "/", "-")+".test")
	out, err := exec.CommandContext(n.t.Context(), "go", "test", "-C", filepath.Join(root, folder), "-c", "-vet=off", "-ldflags=-w", "-overlay", n.overlay(), "-o", binary, ".").CombinedOutput()
	require.NoError(n.t, err, string(out))
	n.binaries[folder] = binary
	return binary
}

// held runs the test that has to notice the defect, and says so.
func (n *planting) held(d defect, number int) string {
	n.t.Helper()
	folder, test, _ := strings.Cut(d.held, " ")
	run := func(number int, limit string) (out []byte, err error) {
		test := exec.CommandContext(n.t.Context(), n.build(folder), "-test.run", "^"+test+"$", "-test.timeout", limit, "-test.v")
		test.Dir, test.Env = filepath.Join(root, folder), append(os.Environ(), plant.Variable+"="+strconv.Itoa(number))
		return test.CombinedOutput()
	}
	if out, err := run(0, "5m"); err != nil || !strings.Contains(string(out), "--- PASS: "+test) {
		n.t.Errorf("%s: %s does not pass without it: %v\n%s", d.name, test, err, out)
	}
	if out, err := run(number, "1m"); err == nil {
		n.t.Errorf("%s: %s does not notice it\n%s", d.name, test, out)
	}
	return "`" + test + "` holds it"
}
