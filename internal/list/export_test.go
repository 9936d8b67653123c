package list

import "context"

// NewLine returns a line of which up to depth values are under way ahead, or wait to be read.
func NewLine[P comparable, V any](
	ctx context.Context, depth int, fetch func(context.Context, P) (V, error), next func(P) (P, bool),
) *Line[P, V] {
	return &Line[P, V]{ctx: ctx, depth: depth, fetch: fetch, next: next}
}

// Seen reports whether a row was on a page of this walk that was used.
func (w *Progress) Seen(id int64) bool { return w.seen.Has(id) }

// Count is how many rows this walk has seen.
func (w *Progress) Count() int { return w.seen.Len() }
