package clinicaldoc_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// memoryChild tells the test's binary that it is the process whose memory is measured.
const memoryChild = "CLINICALDOC_TEST_MEMORY_CHILD"

// sparseFile is a recording that takes no space on disk.
func sparseFile(tb testing.TB, size int64) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "sparse.wav")
	file, err := os.Create(path)
	require.NoError(tb, err)
	require.NoError(tb, file.Truncate(size))
	require.NoError(tb, file.Close())
	return path
}

// transfer sends a file of the given size up and down.
func transfer(tb testing.TB, size int64) {
	tb.Helper()
	path := sparseFile(tb, size)
	taken := make(chan int64, 1)
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	defer srv.Close()
	mux.HandleFunc("POST /v1/progress-notes", func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		taken <- n
		_, _ = io.WriteString(w, socketNote(7))
	})
	mux.HandleFunc("GET /v1/progress-notes/7/audio-url", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"url":"%s/audio"}`, srv.URL)
	})
	mux.HandleFunc("GET /audio", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"synthetic-1"`)
		w.Header().Set("Content-Type", "audio/wav")
		file, err := os.Open(path)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		defer func() { _ = file.Close() }()
		http.ServeContent(w, r, "", time.Time{}, file)
	})
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client, err := clinicaldoc.NewClient(srv.URL, socketToken, clinicaldoc.WithHTTPClient(&http.Client{Transport: transport}))
	require.NoError(tb, err)
	source, err := clinicaldoc.AudioFile(path)
	require.NoError(tb, err)
	_, err = client.Notes.Create(tb.Context(), clinicaldoc.CreateNoteParams{Name: "Synthetic note", PatientID: 7, PromptID: 3, Audio: source})
	require.NoError(tb, err)
	require.Greater(tb, <-taken, size)
	n, err := client.Notes.DownloadAudio(tb.Context(), 7, writerFunc(func(p []byte) (int, error) { return len(p), nil }), clinicaldoc.DownloadParams{})
	require.NoError(tb, err)
	require.Equal(tb, size, n)
}

// memoryGrowth is how much more memory the process had to ask the system for, in all, while it transferred.
func memoryGrowth(tb testing.TB, size int64) uint64 {
	tb.Helper()
	var before, after runtime.MemStats
	transfer(tb, 8<<20) // what every transfer needs, whatever its size
	runtime.ReadMemStats(&before)
	transfer(tb, size)
	runtime.ReadMemStats(&after)
	return after.Sys - before.Sys
}

func TestTransfersTakeFlatMemory(t *testing.T) {
	t.Parallel()
	const size, allowed = 256 << 20, 16 << 20
	if os.Getenv(memoryChild) != "" {
		growth := memoryGrowth(t, size)
		require.Less(t, growth, uint64(allowed), "bytes more for %d bytes up and down", size)
		t.Logf("grew by %d KiB", growth>>10)
		return
	}
	if testing.Short() {
		t.Skip("moves half a gigabyte")
	}
	binary, err := os.Executable()
	require.NoError(t, err)
	// A process of its own, because the other tests use memory too.
	child := exec.CommandContext(t.Context(), binary, "-test.run=^TestTransfersTakeFlatMemory$", "-test.v", "-test.count=1")
	child.Env = append(os.Environ(), memoryChild+"=1")
	output, err := child.CombinedOutput()
	require.NoError(t, err, string(output))
	require.Contains(t, string(output), "grew by")
	for line := range strings.Lines(string(output)) {
		if strings.Contains(line, "grew by") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// BenchmarkTransferOfAGigabyte sends a gigabyte up and down and reports how much the process' memory grew by it.
func BenchmarkTransferOfAGigabyte(b *testing.B) {
	var growth uint64
	for b.Loop() {
		growth = max(growth, memoryGrowth(b, 1<<30))
	}
	b.SetBytes(2 << 30)
	b.ReportMetric(float64(growth)/(1<<20), "MiB-growth")
	if growth > 16<<20 {
		b.Errorf("memory grew by %d MiB", growth>>20)
	}
}
