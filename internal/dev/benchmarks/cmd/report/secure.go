package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/contender"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/measure"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/service"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/synthetic"
)

// secureUploads is what the SDK's uploads over TLS and HTTP/2 cost.
type secureUploads struct {
	bytes       float64        // allocated, per upload
	floorBytes  float64        // by the floor
	time        measure.Spread // x floor
	connections float64        // that ten in a row took
}

const secureRounds = 9

func (r *report) measureSecureUploads(ctx context.Context, baseURL string) error {
	address := r.server.TLS + service.Drained
	floor := contender.FloorOver(r.server.Transport(), address, service.Token)
	sdk, err := contender.SDKOver(r.server.Transport(), address, service.Token)
	if err != nil {
		return err
	}
	if _, err := uploadTen(ctx, floor); err != nil { // connects, and fills pools
		return err
	}
	before, err := r.connections(ctx, baseURL)
	if err != nil {
		return err
	}
	if _, err := uploadTen(ctx, sdk); err != nil {
		return err
	}
	after, err := r.connections(ctx, baseURL)
	if err != nil {
		return err
	}
	r.secure.connections = after - before
	var ratios, bytes, floorBytes []float64
	for range secureRounds {
		low, err := uploadTen(ctx, floor)
		if err != nil {
			return err
		}
		high, err := uploadTen(ctx, sdk)
		if err != nil {
			return err
		}
		ratios = append(ratios, high.Seconds/low.Seconds)
		bytes, floorBytes = append(bytes, high.Bytes), append(floorBytes, low.Bytes)
	}
	r.secure.time, r.secure.bytes, r.secure.floorBytes = measure.SpreadOf(ratios), measure.Median(bytes), measure.Median(floorBytes)
	return nil
}

// uploadTen uploads ten recordings one after the other and returns what one costs.
func uploadTen(ctx context.Context, uploader contender.Uploader) (usage, error) {
	const count = 10
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	for range count {
		if _, err := uploader.Upload(ctx, "measured", synthetic.Recording{Size: smallUpload}); err != nil {
			return usage{}, err
		}
	}
	seconds := time.Since(start).Seconds()
	runtime.ReadMemStats(&after)
	return usage{Seconds: seconds / count, Bytes: float64(after.TotalAlloc-before.TotalAlloc) / count}, nil
}

// connections is how many the server's secure address has had.
func (r *report) connections(ctx context.Context, baseURL string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, baseURL+"/connections", http.NoBody)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+service.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("status %d: %w", resp.StatusCode, err)
	}
	return strconv.ParseFloat(string(text), 64)
}
