// Command clock lets programs be built whose wall clock is wrong. It prints the name of a file for the -overlay flag, with a
// package time that adds the seconds in CLINICALDOC_CLOCK_AHEAD to what the system says. The time between two moments of a
// process stays right, as it does when somebody sets a machine's clock.
//
//	CLINICALDOC_INGEST_CLOCKS=1 CLINICALDOC_INGEST_KILLS=100 go test -overlay "$(go run ./internal/dev/clock)" ./ingest -run TestCrashMatrix -v
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	reads = "	sec, nsec, mono := runtimeNow()\n	if mono == 0 {"
	wrong = "	sec, nsec, mono := runtimeNow()\n	sec += clockAhead\n	if mono == 0 {"
	ahead = `
var clockAhead = func() (seconds int64) {
	text, _ := syscall.Getenv("CLINICALDOC_CLOCK_AHEAD")
	for i := range len(text) {
		if '0' <= text[i] && text[i] <= '9' {
			seconds = 10*seconds + int64(text[i]-'0')
		}
	}
	if text != "" && text[0] == '-' {
		return -seconds
	}
	return seconds
}()
`
)

func main() {
	name, err := overlay()
	if err != nil {
		fmt.Fprintln(os.Stderr, "clock:", err)
		os.Exit(1)
	}
	fmt.Println(name)
}

func overlay() (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output() //nolint:noctx // it is over in a moment
	if err != nil {
		return "", err
	}
	source := filepath.Join(strings.TrimSpace(string(out)), "src", "time", "time.go")
	text, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	changed := strings.Replace(string(text), reads, wrong, 1)
	if changed == string(text) {
		return "", fmt.Errorf("%s reads the clock in another way than this program knows", source)
	}
	changed = strings.Replace(changed, "import (\n", "import (\n\t\"syscall\"\n", 1) + ahead
	dir := filepath.Join(os.TempDir(), "clinicaldoc-clock")
	name, file := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "time.go")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {source: file}})
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		return "", err
	}
	return name, os.WriteFile(name, replace, 0o600)
}
