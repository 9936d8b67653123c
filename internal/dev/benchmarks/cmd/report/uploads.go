package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/contender"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/measure"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/service"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/synthetic"
)

// uploads is what uploading costs: time and CPU as ratios to a raw POST of the same size.
type uploads struct {
	smallBytes          float64 // allocated, per upload of smallUpload
	smallTime, smallCPU measure.Spread
	smallRSS            measure.Spread // bytes resident at the peak, beyond those before
	largeTime, largeCPU measure.Spread
	largeRSS            measure.Spread
}

const (
	smallUpload = 8 << 20
	largeUpload = 256 << 20
	rawPost     = "raw POST"
)

// usage is what one process tells of its uploads.
type usage struct{ Seconds, CPU, Memory, Bytes float64 }

// upload rounds: the contenders take turns, so that a busy machine slows all of them.
const (
	rounds      = 7
	closeRounds = 41 // of the SDK and a raw POST alone, whose large uploads differ by less than one varies from the next
)

func (r *report) measureUploads(ctx context.Context, baseURL string) error {
	names := []string{rawPost}
	for _, c := range contender.All() {
		client, err := c.New(baseURL, service.Token)
		if err != nil {
			return err
		}
		if _, ok := client.(contender.Uploader); ok {
			names = append(names, c.Name)
		}
	}
	small, err := uploadInTurns(ctx, baseURL, names, rounds, smallUpload, 10)
	if err != nil {
		return err
	}
	large, err := uploadInTurns(ctx, baseURL, names, rounds, largeUpload, 1)
	if err != nil {
		return err
	}
	pairs, err := uploadInTurns(ctx, baseURL, []string{rawPost, contender.SDK}, closeRounds, largeUpload, 1)
	if err != nil {
		return err
	}
	r.rows = append(r.rows, row{contender: rawPost})
	for i := range r.rows {
		name := r.rows[i].contender
		if len(small[name]) == 0 {
			continue
		}
		large := large
		if name == contender.SDK {
			large = pairs
		}
		r.rows[i].upload = &uploads{
			smallBytes: middle(small[name], func(_ int, u usage) float64 { return u.Bytes }).Median,
			smallRSS:   middle(small[name], func(_ int, u usage) float64 { return u.Memory }),
			smallTime:  middle(small[name], func(i int, u usage) float64 { return u.Seconds / small[rawPost][i].Seconds }),
			smallCPU:   middle(small[name], func(i int, u usage) float64 { return u.CPU / small[rawPost][i].CPU }),
			largeTime:  middle(large[name], func(i int, u usage) float64 { return u.Seconds / large[rawPost][i].Seconds }),
			largeCPU:   middle(large[name], func(i int, u usage) float64 { return u.CPU / large[rawPost][i].CPU }),
			largeRSS:   middle(large[name], func(_ int, u usage) float64 { return u.Memory }),
		}
	}
	return nil
}

func middle(all []usage, of func(int, usage) float64) measure.Spread {
	values := make([]float64, len(all))
	for i, u := range all {
		values[i] = of(i, u)
	}
	return measure.SpreadOf(values)
}

// uploadInTurns runs each upload in a process of its own, round after round.
func uploadInTurns(ctx context.Context, baseURL string, names []string, rounds int, size int64, count int) (map[string][]usage, error) {
	all := map[string][]usage{}
	for range rounds {
		for _, name := range names {
			got, err := uploadElsewhere(ctx, job{Contender: name, BaseURL: baseURL, Size: size, Count: count})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			all[name] = append(all[name], got)
		}
	}
	return all, nil
}

// job tells a process what to upload.
type job struct {
	Contender, BaseURL string
	Size               int64
	Count              int
}

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

// runUploadIfChild does the job of a process that uploadElsewhere started; in every other it does nothing.
func runUploadIfChild() {
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
	uploader, err := j.uploader()
	if err != nil {
		return usage{}, err
	}
	// Of several the first does not count: what a process costs at all is not the others' fault. A large one counts from cold.
	if j.Count > 1 {
		if _, err := uploader.Upload(ctx, "warm-up", synthetic.Recording{Size: 64 << 10}); err != nil {
			return usage{}, err
		}
	}
	debug.FreeOSMemory()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	idle, err := resident("VmRSS:")
	if err != nil {
		return usage{}, err
	}
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // starts the peak anew where that is allowed
	cpu, start := cpuTime(), time.Now()
	for range j.Count {
		if _, err := uploader.Upload(ctx, "measured", synthetic.Recording{Size: j.Size}); err != nil {
			return usage{}, err
		}
	}
	seconds, spent := time.Since(start).Seconds(), cpuTime()-cpu
	peak, err := resident("VmHWM:")
	runtime.ReadMemStats(&after)
	count := float64(j.Count)
	return usage{
		Seconds: seconds / count,
		CPU:     spent.Seconds() / count,
		Memory:  max(0, peak-idle),
		Bytes:   float64(after.TotalAlloc-before.TotalAlloc) / count,
	}, err
}

func (j job) uploader() (contender.Uploader, error) {
	base := j.BaseURL + service.Drained
	for _, c := range contender.All() {
		if c.Name != j.Contender {
			continue
		}
		client, err := c.New(base, service.Token)
		uploader, _ := client.(contender.Uploader)
		return uploader, err
	}
	return contender.Raw(base, service.Token), nil
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
