package benchmarks_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/contender"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/service"
)

// BenchmarkMany is for profiles of many goroutines with one client, such as -mutexprofile and -blockprofile.
func BenchmarkMany(b *testing.B) {
	client, err := contender.SDKOver(nil, baseURL, service.Token)
	require.NoError(b, err)
	b.SetParallelism(128)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := client.Get(b.Context(), 42); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
