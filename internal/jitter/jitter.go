// Package jitter is the random part of pauses, which keeps many clients from coming back together. It protects nothing, so
// a simulation may replace it by one that can be repeated.
package jitter

import (
	"context"
	"math/rand/v2"
)

type sourceKey struct{}

// With makes the calls of a context take their randomness from source, which gives numbers from 0 to below 1. Several
// goroutines may ask it at once.
func With(ctx context.Context, source func() float64) context.Context {
	return context.WithValue(ctx, sourceKey{}, source)
}

// Float64 returns a number from 0 to below 1.
func Float64(ctx context.Context) float64 {
	if source, ok := ctx.Value(sourceKey{}).(func() float64); ok {
		return source()
	}
	return rand.Float64() //nolint:gosec // see the package's comment
}

// Shuffle brings n elements into a random order.
func Shuffle(ctx context.Context, n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, int(Float64(ctx)*float64(i+1)))
	}
}
