package guards_test

import (
	"bytes"
	"context"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/outside"
)

// arguments are those with which an example does its work in an empty folder that prepare has filled.
var arguments = map[string][]string{
	"export":     {},
	"fhirexport": {"-note", "1", "-patient", "7", "-subject", "Patient/7", "-device", "Device/1", "-signer", "Practitioner/1"},
	"nightly":    {"-manifest", "tonight.csv", "-journal", "uploads.journal", "-begin"},
	"quickstart": {},
	"webbackend": {"-addr", "127.0.0.1:0"},
}

// servers go on until they are ended: a signal is the way to do that, and no failure.
var servers = []string{"webbackend"}

// boxFile holds all that an example knows of the service in a box. Whoever copies the example deletes it.
const boxFile = "box.go"

// compile are the arguments of a go command that compiles packages and their tests, and links nothing.
var compile = []string{"list", "-export", "-test", "./..."}

// canary is in every text of the clinic. No program leaves it behind when it is ended.
const canary = "synthetic-canary"

// examples returns the files of each example by its name.
func examples(t *testing.T) map[string]map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "examples", "*", "*"))
	require.NoError(t, err)
	programs := map[string]map[string]string{}
	for _, path := range paths {
		name := filepath.Base(filepath.Dir(path))
		info, err := os.Stat(path)
		require.NoError(t, err)
		if programs[name] == nil {
			programs[name] = map[string]string{}
		}
		if info.IsDir() {
			continue
		}
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		programs[name][info.Name()] = string(content)
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(arguments)), slices.Collect(maps.Keys(programs)), "the table says how each is run")
	return programs
}

// An example is there to be copied, without its box: it compiles in a module of its own, and so do its tests.
func TestExamplesCanBeCopied(t *testing.T) {
	t.Parallel()
	together := map[string]string{} // those that need no more than this module requires
	for name, files := range examples(t) {
		assert.Contains(t, files[boxFile], "Delete this file", "%s: what is for trying it alone is one file, and says so", name)
		delete(files, boxFile)
		for file, source := range files {
			assert.True(t, isTest(file) || !strings.Contains(source, "clinicaldoctest"), "%s/%s knows the box", name, file)
		}
		if files["go.mod"] == "" {
			for file, source := range files {
				together[name+"/"+file] = source
			}
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			skipWithoutModules(t, name, files)
			require.NoError(t, outside.Go(t.Context(), root, files, compile...))
		})
	}
	require.NoError(t, outside.Go(t.Context(), root, together, compile...))
}

// A program is one example, built.
type program struct {
	name, path string
	files      map[string]string
}

// Examples are what people copy, so that all of them are held to the same rules, by running them.
func TestExamples(t *testing.T) {
	t.Parallel()
	programs := examples(t)
	folder := buildExamples(t, programs)
	for rule, test := range map[string]func(t *testing.T, p program){
		"fail without a service":      failsWithoutAService,
		"run on the box when told":    runsOnTheBoxWhenTold,
		"write to no service unasked": writesToNoServiceUnasked,
		"end at the first signal":     endsAtTheFirstSignal,
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			for name, files := range programs {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					skipWithoutModules(t, name, files)
					path := filepath.Join(folder, name)
					if runtime.GOOS == "windows" {
						path += ".exe"
					}
					test(t, program{name, path, files})
				})
			}
		})
	}
}

func (p program) serves() bool { return slices.Contains(servers, p.name) }

// writes finds the calls that change something at the service.
var writes = regexp.MustCompile(`\.(Create|Update|Sign|Delete|Revoke)\(|ingest\.Uploader`)

func (p program) canWrite() bool {
	for name, source := range p.files {
		if !isTest(name) && writes.MatchString(source) {
			return true
		}
	}
	return false
}

// command runs the program in a folder of its own that holds what it reads, with these variables and no others of the SDK's.
func (p program) command(t *testing.T, ctx context.Context, variables []string, args ...string) *exec.Cmd { //nolint:revive // t comes first
	t.Helper()
	cmd := exec.CommandContext(ctx, p.path, slices.Concat(arguments[p.name], args)...)
	cmd.Dir = t.TempDir()
	for name, content := range map[string]string{
		"tonight.csv":   "key,patient,prompt,name,path\nencounter-1,7,1,Visit,recording.wav\n",
		"recording.wav": "synthetic audio of " + p.name,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, name), []byte(content), 0o600))
	}
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CLINICALDOC_") })
	cmd.Env = append(cmd.Env, variables...)
	temporary := t.TempDir()
	cmd.Env = append(cmd.Env, "TMPDIR="+temporary, "TMP="+temporary) // the second on Windows
	t.Cleanup(func() {
		left, err := os.ReadDir(temporary)
		assert.NoError(t, err)
		assert.Empty(t, left, "%s leaves something in the temporary folder", p.name)
	})
	return cmd
}

// files lists what is in the program's folder.
func filesOf(t *testing.T, folder string) []string {
	t.Helper()
	var names []string
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, filepath.Base(path))
		}
		return err
	}))
	return names
}

// clinic is a service with a note of each kind, and what a program has to know of it.
func clinic(t *testing.T) (srv *clinicaldoctest.Server, variables []string) {
	t.Helper()
	srv = clinicaldoctest.NewServer(clinicaldoctest.WithDelays(clinicaldoctest.Delays{}))
	t.Cleanup(srv.Close)
	for _, stage := range []clinicaldoctest.Stage{clinicaldoctest.StageSigned, clinicaldoctest.StageComplete} {
		srv.AddNote(clinicaldoctest.Note{PatientID: 7, Stage: stage, Name: canary, Transcription: canary, Analysis: canary, Audio: []byte(canary)})
	}
	return srv, []string{clinicaldoc.EnvBaseURL + "=" + srv.URL, clinicaldoc.EnvToken + "=" + srv.Token}
}

// Half a configuration is none: no program goes on with a stand-in that nobody asked for, or says that all went well. Only
// quickstart, which is there to be tried, runs on the box with nothing configured, and says so.
func failsWithoutAService(t *testing.T, p program) {
	t.Helper()
	srv, variables := clinic(t)
	for what, given := range map[string][]string{"nothing": nil, "an address alone": variables[:1], "a token alone": variables[1:]} {
		if p.serves() && what == "an address alone" {
			continue // whoever logs in there brings a token
		}
		cmd := p.command(t, t.Context(), given, "-yes")
		if !p.canWrite() {
			cmd = p.command(t, t.Context(), given)
		}
		before := filesOf(t, cmd.Dir)
		out, err := cmd.CombinedOutput()
		if p.name == "quickstart" && given == nil {
			require.NoError(t, err, string(out))
			assert.Contains(t, string(out), "service in a box")
			continue
		}
		require.Error(t, err, "%s: %s", what, out)
		assert.Contains(t, string(out), "CLINICALDOC_", what)
		assert.NotContains(t, string(out), "in a box", what)
		assert.Equal(t, before, filesOf(t, cmd.Dir), what)
	}
	assert.Empty(t, srv.Requests())
}

// The box is what somebody asks for by its switch, and never together with a service.
func runsOnTheBoxWhenTold(t *testing.T, p program) {
	t.Helper()
	srv, variables := clinic(t)
	for _, given := range [][]string{variables, variables[:1], variables[1:]} {
		out, err := p.command(t, t.Context(), given, "-box").CombinedOutput()
		require.Error(t, err, string(out))
		assert.Contains(t, string(out), "-box")
	}
	assert.Empty(t, srv.Requests())
	if p.serves() {
		return // until it is ended, which is tested below
	}
	out, err := p.command(t, t.Context(), nil, "-box").CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Contains(t, string(out), "service in a box")
}

// Whoever tries an example may have the variables of a real service set. Whatever other switches it is given, no example
// writes there without -yes; those that would say so.
func writesToNoServiceUnasked(t *testing.T, p program) {
	t.Helper()
	help, err := exec.CommandContext(t.Context(), p.path, "-h").CombinedOutput()
	require.NoError(t, err, "%s -h: %s", p.name, help)
	assert.Contains(t, string(help), "Usage of ")

	srv, variables := clinic(t)
	cmd := p.command(t, t.Context(), variables, switches(string(help))...)
	out, err := cmd.CombinedOutput()
	for _, request := range srv.Requests() {
		assert.Equal(t, "GET", request.Method, "%s %v wrote: %s", p.name, cmd.Args[1:], request.Route)
	}
	if !p.canWrite() {
		require.NoError(t, err, string(out))
		return
	}
	require.Error(t, err, string(out))
	assert.Contains(t, string(out), "-yes", "it says how to allow it")
	assert.Contains(t, string(out), srv.URL, "and where it would write")
}

// switches returns every switch that the help text shows, but for those that choose where to write.
func switches(help string) []string {
	var names []string
	for _, found := range regexp.MustCompile(`(?m)^  (-\w+)(\t|$)`).FindAllStringSubmatch(help, -1) {
		if found[1] != "-yes" && found[1] != "-box" {
			names = append(names, found[1])
		}
	}
	return names
}

// patience is how long a program may take to end.
const patience = 90 * time.Second

// A signal ends a program at any time, with a failure that a script sees. It ends soon, whatever the service does,
// and leaves no patient's text in a file.
func endsAtTheFirstSignal(t *testing.T, p program) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a program cannot be interrupted from outside there")
	}
	srv, variables := clinic(t)
	if p.serves() {
		p.isEnded(t, srv, "", variables, syscall.SIGINT)
		p.isEnded(t, srv, "", variables, syscall.SIGTERM)
		return
	}
	out, err := p.command(t, t.Context(), variables, p.allowed()...).CombinedOutput()
	require.NoError(t, err, string(out))
	routes := map[string]bool{}
	for _, request := range srv.Requests() {
		routes[request.Route] = true
	}
	require.NotEmpty(t, routes)
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	for i, route := range slices.Sorted(maps.Keys(routes)) {
		t.Run(route, func(t *testing.T) {
			t.Parallel()
			srv, variables := clinic(t)
			p.isEnded(t, srv, route, variables, signals[i%2])
		})
	}
}

func (p program) allowed() []string {
	if p.canWrite() {
		return []string{"-yes"}
	}
	return nil
}

// isEnded starts the program, lets the service fall silent at the route, sends the signal, and looks at what is left.
func (p program) isEnded(t *testing.T, srv *clinicaldoctest.Server, route string, variables []string, signal os.Signal) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := p.command(t, ctx, variables, p.allowed()...)
	out := new(lines)
	cmd.Stdout, cmd.Stderr = out, out
	isReady := func() bool { return strings.Contains(out.String(), "http://") } // it listens
	if route != "" {
		srv.Inject(route, clinicaldoctest.Silent().Always())
		isReady = func() bool { return srv.Faults()[0].Struck > 0 }
	}
	require.NoError(t, cmd.Start())
	require.Eventually(t, isReady, patience, time.Millisecond, "%s", out)
	require.NoError(t, cmd.Process.Signal(signal))
	if route == clinicaldoctest.RouteCreateNote {
		srv.Close() // a recording that has left is given some seconds for its response, which need not pass here
	}
	err := cmd.Wait()
	require.NoError(t, ctx.Err(), "it goes on: %s", out)
	require.Equal(t, p.serves(), err == nil, "%v: %s", err, out)
	require.True(t, cmd.ProcessState.Exited(), "it was killed instead of ending: %v", cmd.ProcessState)
	require.NoError(t, filepath.WalkDir(cmd.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		assert.NotContains(t, string(content), canary, "%s is left with a text", entry.Name())
		return err
	}))
	assert.NotContains(t, out.String(), canary)
}

// lines is what a program prints.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// skipWithoutModules passes over an example with a module of its own until something has fetched what that requires: the
// tests of this module need no more than it requires itself.
func skipWithoutModules(t *testing.T, name string, files map[string]string) {
	t.Helper()
	if files["go.mod"] != "" && !hasModules(filepath.Join(root, "examples", name)) {
		t.Skip("not all of its modules are in the module cache")
	}
}

func hasModules(folder string) bool {
	found, _ := foundModules.LoadOrStore(folder, sync.OnceValue(func() bool {
		list := exec.Command("go", "list", "-deps", "-test", ".") //nolint:noctx // for all tests
		list.Dir = folder
		list.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=readonly", "GOPROXY=off")
		return list.Run() == nil
	}))
	return found.(func() bool)() //nolint:forcetypeassert // it is what was stored
}

var foundModules sync.Map // func() bool of a folder

// buildExamples returns a folder with the programs: those of this module by one command.
func buildExamples(t *testing.T, programs map[string]map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	build := func(dir, pattern string) {
		cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", folder+string(filepath.Separator), pattern)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=readonly -buildvcs=false")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	build(root, "./examples/...")
	for name, files := range programs {
		if place := filepath.Join(root, "examples", name); files["go.mod"] != "" && hasModules(place) {
			build(place, ".")
		}
	}
	return folder
}
