package guards_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/outside"
)

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
		if info.IsDir() || filepath.Ext(path) != ".go" && !strings.HasPrefix(info.Name(), "go.") {
			continue
		}
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		if programs[name] == nil {
			programs[name] = map[string]string{}
		}
		programs[name][info.Name()] = string(content)
	}
	require.NotEmpty(t, programs)
	return programs
}

// An example is there to be copied: it and its tests compile in a module of their own.
func TestExamplesCanBeCopied(t *testing.T) {
	t.Parallel()
	for name, files := range examples(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			skipWithoutModules(t, name, files)
			require.NoError(t, outside.Vet(t.Context(), root, t.TempDir(), files))
		})
	}
}

// writes finds the calls that change something at the service.
var writes = regexp.MustCompile(`\.(Create|Update|Sign|Delete|Revoke)\(|ingest\.Uploader`)

func canWrite(files map[string]string) bool {
	for name, source := range files {
		if !isTest(name) && writes.MatchString(source) {
			return true
		}
	}
	return false
}

// Whoever tries an example may have the variables of a real service set. Whatever other switches it is given, no example
// writes there without -yes; those that would say so.
func TestExamplesWriteToNoServiceUnasked(t *testing.T) {
	t.Parallel()
	programs := examples(t)
	binaries := buildExamples(t, programs)
	for name, files := range programs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			skipWithoutModules(t, name, files)
			program := filepath.Join(binaries, name)
			if runtime.GOOS == "windows" {
				program += ".exe"
			}
			help, err := exec.CommandContext(t.Context(), program, "-h").CombinedOutput()
			require.NoError(t, err, "%s -h: %s", name, help)
			assert.Contains(t, string(help), "Usage of ")

			srv := clinicaldoctest.NewServer()
			t.Cleanup(srv.Close)
			srv.AddToken(1, "synthetic device")
			srv.AddNote(clinicaldoctest.Note{Audio: []byte("synthetic audio")})
			srv.Advance(100 * 24 * time.Hour)
			cmd := exec.CommandContext(t.Context(), program, switches(string(help))...)
			cmd.Dir = t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "recording.wav"), []byte("synthetic audio"), 0o600))
			cmd.Env = append(os.Environ(), clinicaldoc.EnvBaseURL+"="+srv.URL, clinicaldoc.EnvToken+"="+srv.Token)
			out, err := cmd.CombinedOutput()

			for _, request := range srv.Requests() {
				assert.Equal(t, "GET", request.Method, "%s %v wrote: %s", name, cmd.Args[1:], request.Route)
			}
			if !canWrite(files) {
				require.NoError(t, err, string(out))
				return
			}
			require.Error(t, err, string(out))
			assert.Contains(t, string(out), "-yes", "it says how to allow it")
			assert.Contains(t, string(out), srv.URL, "and where it would write")
		})
	}
}

// skipWithoutModules passes over an example with a module of its own until something has fetched what that requires: the
// tests of this module need no more than it requires itself.
func skipWithoutModules(t *testing.T, name string, files map[string]string) {
	t.Helper()
	if files["go.mod"] != "" && !hasModules(t, name) {
		t.Skip("not all of its modules are in the module cache")
	}
}

func hasModules(t *testing.T, name string) bool {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-test", ".")
	list.Dir = filepath.Join(root, "examples", name)
	list.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly", "GOPROXY=off")
	return list.Run() == nil
}

// switches returns every switch that the help text shows, but for the one that allows writing.
func switches(help string) []string {
	var names []string
	for _, found := range regexp.MustCompile(`(?m)^  (-\w+)(\t|$)`).FindAllStringSubmatch(help, -1) {
		if found[1] != "-yes" {
			names = append(names, found[1])
		}
	}
	return names
}

// buildExamples returns a folder with the programs. Two commands do, whatever their number: one for those of this module.
func buildExamples(t *testing.T, programs map[string]map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	build := func(dir, pattern string) {
		cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", folder+string(filepath.Separator), pattern)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	build(root, "./examples/...")
	for name, files := range programs {
		if files["go.mod"] != "" && hasModules(t, name) {
			build(filepath.Join(root, "examples", name), ".")
		}
	}
	return folder
}

// TestExamplesAreTestedOnTheBox: a shell that has the variables for a program of its own must not have its service written
// to by go test.
func TestExamplesAreTestedOnTheBox(t *testing.T) {
	t.Parallel()
	files := sources(t)
	for name, source := range files {
		program, isTest := strings.CutSuffix(name, "_test.go")
		if !isTest || !strings.HasPrefix(name, "examples/") || !bytes.Contains(source, []byte(" run(t.Context()")) {
			continue
		}
		if bytes.Contains(files[program+".go"], []byte("NewClientFromEnv(")) {
			assert.Contains(t, string(source), "t.Setenv(clinicaldoc.EnvBaseURL,", name)
		}
	}
}
