package simulation

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/plant"
)

var (
	plantOnly = flag.String("plant", "", "pattern of the faults to inject, one after the other; .: all")
	some      = flag.Int("some", 0, "how many to inject of those that a named test has to notice; 0: all, and the others too")
	pickedBy  = flag.String("pick", "", "what chooses those, such as the name of a commit")
)

// TestDefects injects one fault after the other, and sees that a test or the simulation notices it. A simulation that
// finds nothing is worth as much as it can find.
func TestDefects(t *testing.T) {
	t.Parallel()
	if *plantOnly == "" {
		t.Skip("takes minutes; -plant . runs it")
	}
	n := newPlanting(t)
	chosen := n.choose()
	rows := make([]string, len(chosen))
	t.Cleanup(func() {
		const head = "| fault | scenarios until noticed | broken promise |\n|---|---|---|"
		t.Logf("\n%s\n%s", head, strings.Join(rows, "\n"))
	})
	for row, index := range chosen {
		t.Run(n.faults[index].name, func(t *testing.T) {
			t.Parallel()
			rows[row] = n.try(t, index)
			t.Log(rows[row])
		})
	}
}

// choose returns the indices of the faults to inject.
func (n *planting) choose() (chosen []int) {
	pattern := regexp.MustCompile(*plantOnly)
	for i, f := range n.faults {
		if pattern.MatchString(f.name) && (*some == 0 || f.test != "") {
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

// TestEachDefectFindsItsPlace sees that the text which a fault replaces occurs exactly once in its function. Whoever
// changes that text changes the fault with it, and not a night later.
func TestEachDefectFindsItsPlace(t *testing.T) {
	t.Parallel()
	newPlanting(t)
}

// try runs the fault's test, or the simulation, with the fault and returns its row of the table.
func (n *planting) try(t *testing.T, index int) (row string) {
	t.Helper()
	f := n.faults[index]
	if f.test != "" {
		n.runTest(t, f, index+1)
		return fmt.Sprintf("| %s | | %#q notices it |", f.name, f.test)
	}
	return n.runScenarios(t, f, index+1)
}

// runScenarios runs scenarios with the fault until one breaks a promise, and returns the fault's row of the table.
func (n *planting) runScenarios(t *testing.T, f seededFault, number int) (row string) {
	t.Helper()
	run := exec.CommandContext(t.Context(), n.build(t, here), "-test.run", "^TestWorlds$", "-test.timeout", "60m",
		"-first", "-seeds", "2000")
	// One scenario runs after the other, so the count is the same each time.
	run.Env = append(os.Environ(), plant.Variable+"="+strconv.Itoa(number), "GOMAXPROCS=1")
	began := time.Now()
	out, err := run.CombinedOutput()
	if err == nil {
		t.Errorf("%s: not noticed", f.name)
		return fmt.Sprintf("| %s | - | - |", f.name)
	}
	broken := regexp.MustCompile(`broken: ([^,]+), in \d+ of (\d+) worlds`).FindStringSubmatch(string(out))
	if broken == nil {
		return fmt.Sprintf("| %s | ? | panic or hang after %s |", f.name, time.Since(began).Round(time.Second))
	}
	return fmt.Sprintf("| %s | %s | %s |", f.name, broken[2], broken[1])
}

// planting makes one binary of all faults for each folder whose tests have to notice some.
type planting struct {
	t      *testing.T
	faults []seededFault
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
	n := &planting{t: t, faults: readFaults(t), folder: t.TempDir(), binaries: map[string]string{}}
	n.overlay = sync.OnceValue(func() string {
		path, err := n.field.Write(n.folder)
		require.NoError(t, err)
		return path
	})
	for i, f := range n.faults {
		require.NotEmpty(t, f.changes, f.name)
		for _, c := range f.changes {
			n.plant(i+1, f.name, c)
		}
	}
	return n
}

func (n *planting) plant(number int, fault string, c replacement) {
	n.t.Helper()
	path, err := filepath.Abs(filepath.Join(root, c.file))
	require.NoError(n.t, err)
	at, err := n.field.Place(path, c.function, c.old)
	require.NoError(n.t, err, fault)
	require.NoError(n.t, n.field.Plant(number, path, at, at+len(c.old), c.with), fault)
}

// build makes the binary of a folder's tests, with all faults.
func (n *planting) build(t *testing.T, folder string) (binary string) {
	t.Helper()
	n.building.Lock()
	defer n.building.Unlock()
	if made, ok := n.binaries[folder]; ok {
		return made
	}
	binary = filepath.Join(n.folder, strings.ReplaceAll(folder, "/", "-")+".test")
	out, err := exec.CommandContext(t.Context(), "go", "test", "-C", filepath.Join(root, folder), "-c", "-vet=off",
		"-ldflags=-w", "-overlay", n.overlay(), "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	n.binaries[folder] = binary
	return binary
}

// runTest runs the test that has to notice the fault, without and with the fault.
func (n *planting) runTest(t *testing.T, f seededFault, number int) {
	t.Helper()
	run := func(number int, limit string) (out []byte, err error) {
		test := exec.CommandContext(t.Context(), n.build(t, f.folder),
			"-test.run", "^"+f.test+"$", "-test.timeout", limit, "-test.v")
		test.Dir = filepath.Join(root, f.folder)
		test.Env = append(os.Environ(), plant.Variable+"="+strconv.Itoa(number))
		return test.CombinedOutput()
	}
	out, err := run(0, "5m")
	if err != nil || !strings.Contains(string(out), "--- PASS: "+f.test) {
		t.Errorf("%s: %s does not pass without it: %v\n%s", f.name, f.test, err, out)
	}
	if out, err := run(number, "1m"); err == nil {
		t.Errorf("%s: %s does not notice it\n%s", f.name, f.test, out)
	}
}
