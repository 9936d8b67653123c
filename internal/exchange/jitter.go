package exchange

import (
	"context"
	"math/rand/v2"
)

type sourceKey struct{}

// WithJitter makes the calls of a context take their randomness from source, which gives numbers from 0 to below 1. Several
// goroutines may ask it at once.
func WithJitter(ctx context.Context, source func() float64) context.Context {
	return context.WithValue(ctx, sourceKey{}, source)
}

// Jitter returns a number from 0 to below 1.
func Jitter(ctx context.Context) float64 {
	if source, ok := ctx.Value(sourceKey{}).(func() float64); ok {
		return source()
	}
	return rand.Float64() //nolint:gosec // see the package's comment
}

// Shuffle brings n elements into a random order.
func Shuffle(ctx context.Context, n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, int(Jitter(ctx)*float64(i+1)))
	}
}
