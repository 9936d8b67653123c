// Command places runs uploads of the command line in hostile environments: a mounted single file, file systems in
// user space, full disks, few descriptors, no environment. It also runs an earlier version next to this one. The
// service in a box counts the notes: whatever a place does, no recording may have two, and after the last run none
// may lack one.
//
//	go run ./internal/dev/places                  all of them, in some minutes; as root on Linux, for the mounts
//	go run ./internal/dev/places -only tmpfs      those with this in their name
//	go run ./internal/dev/places -before v0.1.0   which version is the one before; without it the newest tag, or the last of format 1
//
// A place that this machine does not have is listed with the reason. FUSE wants /dev/fuse and the packages gocryptfs, bindfs,
// exfat-fuse and exfatprogs.
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func main() {
	only := flag.String("only", "", "only places with this in their name")
	before := flag.String("before", "", "the commit or tag of the version before")
	flag.Parse()
	if err := run(context.Background(), *only, *before); err != nil {
		fmt.Fprintln(os.Stderr, "places:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only, before string) error {
	root, err := os.MkdirTemp("", "places")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(root) }()
	m := &machine{root: root, program: filepath.Join(root, "clinicaldoc")}
	if err := command(ctx, "go", "build", "-C", "cmd/clinicaldoc", "-o", m.program, "."); err != nil {
		return err
	}
	m.earlier, m.noEarlier = buildEarlier(ctx, root, before)
	failed := 0
	fmt.Printf("%-46s %10s %6s %8s %5s  %s\n", "place", "recordings", "notes", "doubled", "lost", "")
	for n, p := range places {
		if !strings.Contains(p.name, only) {
			continue
		}
		t := &trial{machine: m, dir: filepath.Join(root, strconv.Itoa(n))}
		begun := time.Now()
		err := t.run(ctx, p)
		if _, absent := errors.AsType[absentError](err); absent {
			fmt.Printf("%-46s NOT RUN: %v\n", p.name, err)
			continue
		}
		verdict := fmt.Sprintf("ok, %.1f s", time.Since(begun).Seconds())
		if err != nil || t.doubled+t.lost > 0 {
			failed++
			verdict = fmt.Sprintf("FAILED: %v\n%s", err, t.said())
		}
		fmt.Printf("%-46s %10d %6d %8d %5d  %s\n", p.name, t.count, t.notes, t.doubled, t.lost, verdict)
	}
	if failed > 0 {
		return fmt.Errorf("%d places failed", failed)
	}
	return nil
}

// absentError is why a place is not there.
type absentError struct{ why string }

func (e absentError) Error() string { return e.why }

func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, lastLine(out))
	}
	return nil
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// buildEarlier builds the command of the version before, or says why it cannot.
func buildEarlier(ctx context.Context, root, version string) (program, why string) {
	output := func(args ...string) string {
		out, _ := exec.CommandContext(ctx, "git", args...).Output()
		return strings.TrimSpace(string(out))
	}
	if version == "" {
		version = output("describe", "--tags", "--abbrev=0")
	}
	if version == "" {
		if changed := strings.Fields(output("log", "--format=%h", "-S", "fileVersion = 2", "--reverse", "--", "ingest")); len(changed) > 0 {
			version = changed[0] + "~1"
		}
	}
	if version == "" {
		return "", "this clone has no history that tells the version before"
	}
	source, program := filepath.Join(root, "earlier"), filepath.Join(root, "clinicaldoc-earlier")
	unpack := fmt.Sprintf("mkdir -p %[1]q && git archive %[2]q | tar -x -C %[1]q", source, version)
	if err := command(ctx, "bash", "-o", "pipefail", "-c", unpack); err != nil {
		return "", err.Error()
	}
	if err := command(ctx, "go", "build", "-C", filepath.Join(source, "cmd", "clinicaldoc"), "-o", program, "."); err != nil {
		return "", err.Error()
	}
	return program, ""
}

// machine is what all trials share.
type machine struct {
	root, program, earlier, noEarlier string
}

// trial is one place, its box and its processes.
type trial struct {
	*machine
	dir   string
	box   *clinicaldoctest.Server
	count int // of recordings
	undo  []func()
	mu    sync.Mutex
	log   []string

	notes, doubled, lost int
}

func (t *trial) run(ctx context.Context, p place) (err error) {
	t.box = clinicaldoctest.NewServer()
	defer t.box.Close()
	defer func() {
		for n := range t.undo {
			t.undo[len(t.undo)-1-n]()
		}
	}()
	if err := os.MkdirAll(filepath.Join(t.dir, "recordings"), 0o700); err != nil {
		return err
	}
	t.box.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Delay(10*time.Millisecond).Always())
	if err := p.try(ctx, t); err != nil {
		return err
	}
	made := map[string]int{}
	for _, note := range t.box.Notes() {
		made[note.AudioSHA256]++
	}
	t.notes = len(t.box.Notes())
	for n := range t.count {
		sum := sha256.Sum256(content(n))
		switch count := made[hex.EncodeToString(sum[:])]; {
		case count > 1:
			t.doubled++
		case count == 0:
			t.lost++
		}
	}
	return nil
}

func content(n int) []byte { return fmt.Appendf(nil, "RIFF synthetic recording %04d", n) }

// record makes recordings up to this number.
func (t *trial) record(count int) {
	for ; t.count < count; t.count++ {
		_ = os.WriteFile(filepath.Join(t.dir, "recordings", fmt.Sprintf("encounter-%04d.wav", t.count)), content(t.count), 0o600)
	}
}

// process is an upload of all recordings.
type process struct {
	program string   // empty: today's
	prefix  []string // what starts it
	journal string   // empty: the default one
	env     []string // instead of the usual
	workers int
	begin   bool
	patient bool // it waits until what everybody fails with has passed
}

func (t *trial) command(ctx context.Context, p process) *exec.Cmd {
	args := append(append([]string{}, p.prefix...), cmp.Or(p.program, t.program), "upload", "--patient", "7", "--prompt", "1", "--settle", "3s", "--workers", strconv.Itoa(cmp.Or(p.workers, 4)))
	if p.program == "" && !p.patient {
		args = append(args, "--max-pause", "0")
	}
	if p.journal != "" {
		args = append(args, "--journal", p.journal)
	}
	if p.begin {
		args = append(args, "--begin")
	}
	c := exec.CommandContext(ctx, args[0], append(args[1:], filepath.Join(t.dir, "recordings"))...)
	c.Env = append([]string{"CLINICALDOC_BASE_URL=" + t.box.URL, "CLINICALDOC_TOKEN=" + t.box.Token, "CLINICALDOC_KEYRING=off"}, p.env...)
	if p.env == nil {
		c.Env = append(c.Env, "HOME="+t.dir, "PATH="+os.Getenv("PATH"))
	}
	return c
}

// upload runs a process to its end and returns its exit code.
func (t *trial) upload(ctx context.Context, p process) int {
	c := t.command(ctx, p)
	out, err := c.CombinedOutput()
	code := -1
	if c.ProcessState != nil {
		code = c.ProcessState.ExitCode()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	lines = lines[max(0, len(lines)-5):]
	t.log = append(t.log, fmt.Sprintf("  %s, exit code %d, %v:\n    %s", filepath.Base(cmp.Or(p.program, t.program)), code, err, strings.Join(lines, "\n    ")))
	return code
}

// said is what the processes printed.
func (t *trial) said() string { return strings.Join(t.log, "\n") }
