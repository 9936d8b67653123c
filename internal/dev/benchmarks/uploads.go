package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// uploads is what uploading costs: time and CPU as ratios to a raw POST of the same size.
type uploads struct {
	resident  spread // bytes at the peak, more than before
	time, cpu spread
}

const (
	uploadSize = 256 << 20
	rounds     = 41 // many, because the uploaders differ by less than one upload varies from the next
)

// uploaders are the names of those that are compared.
var uploaders = []string{"raw", "floor", "sdk"}

// usage is what one process reports of its uploads.
type usage struct{ Seconds, CPU, Memory float64 }

// measureUploads uploads by the raw POST, the floor and the SDK, each time in a process of its own. They take turns, so
// a busy machine slows all of them.
func (r *report) measureUploads(ctx context.Context) error {
	got := map[string][]usage{}
	for range rounds {
		for _, name := range uploaders {
			one, err := uploadElsewhere(ctx, job{Client: name, BaseURL: r.server.url})
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			got[name] = append(got[name], one)
		}
	}
	r.uploads = map[string]uploads{}
	for _, name := range uploaders {
		middle := func(value func(own, raw usage) float64) spread {
			values := make([]float64, rounds)
			for i := range values {
				values[i] = value(got[name][i], got["raw"][i])
			}
			return spreadOf(values)
		}
		r.uploads[name] = uploads{
			resident: middle(func(own, _ usage) float64 { return own.Memory }),
			time:     middle(func(own, raw usage) float64 { return own.Seconds / raw.Seconds }),
			cpu:      middle(func(own, raw usage) float64 { return own.CPU / raw.CPU }),
		}
	}
	return nil
}

// job tells a process who uploads, and where to.
type job struct{ Client, BaseURL string }

// jobVariable holds the job of a process that uploads.
const jobVariable = "CLINICALDOC_BENCHMARKS_UPLOAD"

func uploadElsewhere(ctx context.Context, j job) (usage, error) {
	encoded, err := json.Marshal(j)
	if err != nil {
		return usage{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return usage{}, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), jobVariable+"="+string(encoded))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return usage{}, err
	}
	var got usage
	err = json.Unmarshal(out, &got)
	return got, err
}

// uploadIfChild does the job of a process that uploadElsewhere started; in every other it does nothing.
func uploadIfChild() {
	encoded := os.Getenv(jobVariable)
	if encoded == "" {
		return
	}
	var j job
	err := json.Unmarshal([]byte(encoded), &j)
	if err == nil {
		var got usage
		if got, err = j.run(context.Background()); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(got)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (j job) run(ctx context.Context) (usage, error) {
	by, err := j.uploader()
	if err != nil {
		return usage{}, err
	}
	debug.FreeOSMemory()
	idle, err := resident("VmRSS:")
	if err != nil {
		return usage{}, err
	}
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // starts the peak anew where that is allowed
	cpu := cpuTime()
	start := time.Now()
	if _, err := by.upload(ctx, "measured", recording{uploadSize}); err != nil {
		return usage{}, err
	}
	seconds := time.Since(start).Seconds()
	spent := cpuTime() - cpu
	peak, err := resident("VmHWM:")
	return usage{Seconds: seconds, CPU: spent.Seconds(), Memory: max(0, peak-idle)}, err
}

func (j job) uploader() (uploader, error) {
	base := j.BaseURL + drained
	if j.Client == "sdk" {
		return newSDK(base, token)
	}
	by, err := newFloor(base, token)
	if j.Client == "raw" {
		return raw{by.(*floor)}, err //nolint:errcheck,forcetypeassert // newFloor returns nothing else
	}
	return by, err
}

// resident reads a field of the process's memory, in bytes.
func resident(field string) (float64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(status, []byte(field))
	line, _, _ := strings.Cut(string(rest), "kB")
	kilobytes, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
	return kilobytes * 1024, err
}

// cpuTime is what the process has used so far.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
