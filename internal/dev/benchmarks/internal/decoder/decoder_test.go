package decoder_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/benchmarks/internal/decoder"
)

func TestDecodersAgree(t *testing.T) {
	t.Parallel()
	document := decoder.Document(10)
	want, err := decoder.All()[0].Decode(document)
	require.NoError(t, err)
	require.Len(t, want.Data, 10)
	for _, d := range decoder.All() {
		got, err := d.Decode(document)
		require.NoError(t, err, d.Name)
		assert.Equal(t, want, got, d.Name)
	}
}

func BenchmarkDecoders(b *testing.B) {
	document := decoder.Document(100)
	for _, d := range decoder.All() {
		b.Run(d.Name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(document)))
			for b.Loop() {
				if _, err := d.Decode(document); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
