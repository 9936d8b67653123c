package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
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
			one, err := uploadElsewhere(ctx, name, r.url)
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

func uploadElsewhere(ctx context.Context, name, baseURL string) (usage, error) {
	cmd, err := child(ctx, name, baseURL)
	if err != nil {
		return usage{}, err
	}
	out, err := cmd.Output()
	if err != nil {
		return usage{}, err
	}
	var got usage
	err = json.Unmarshal(out, &got)
	return got, err
}

// uploadOnce prints what an upload has used.
func uploadOnce(ctx context.Context, name, baseURL string) error {
	by, err := newUploader(name, baseURL+drained)
	if err != nil {
		return err
	}
	debug.FreeOSMemory()
	idle, err := resident("VmRSS:")
	if err != nil {
		return err
	}
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // starts the peak anew where that is allowed
	cpu := cpuTime()
	start := time.Now()
	if _, err := by.upload(ctx, "measured", recording{uploadSize}); err != nil {
		return err
	}
	used := usage{Seconds: time.Since(start).Seconds(), CPU: (cpuTime() - cpu).Seconds()}
	peak, err := resident("VmHWM:")
	if err != nil {
		return err
	}
	used.Memory = max(0, peak-idle)
	return json.NewEncoder(os.Stdout).Encode(used)
}

func newUploader(name, baseURL string) (uploader, error) {
	if name == "sdk" {
		return newSDK(baseURL, token)
	}
	by, err := newFloor(baseURL, token)
	if name == "raw" {
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
