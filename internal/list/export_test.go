package list

// Seen reports whether a row was on a page of this walk that was used.
func (w *Progress) Seen(id int64) bool { return w.seen.Has(id) }

// Count is how many rows this walk has seen.
func (w *Progress) Count() int { return w.seen.Len() }
