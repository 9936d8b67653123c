package benchmarks_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/contender"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/service"
	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/synthetic"
)

// BenchmarkRequests is for profiles; the report measures.
func BenchmarkRequests(b *testing.B) {
	for _, c := range contender.All() {
		client, err := c.New(baseURL, service.Token)
		require.NoError(b, err)
		editor, ok := client.(contender.Editor)
		if !ok {
			continue
		}
		edit := synthetic.Edit()
		for name, do := range map[string]func() (any, error){
			"get":    func() (any, error) { return client.Get(b.Context(), 42) },
			"page":   func() (any, error) { return client.Page(b.Context(), 3, 100) },
			"put":    func() (any, error) { return client.Update(b.Context(), 7, edit) },
			"sign":   func() (any, error) { return editor.Sign(b.Context(), 7) },
			"delete": func() (any, error) { return editor.Delete(b.Context(), 7) },
		} {
			b.Run(name+"/"+c.Name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := do(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
