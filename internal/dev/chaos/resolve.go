package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
)

const resolvers = 32

// resolver looks up creates whose outcome is unknown. Some it takes on at once, while the network may still deliver what
// the caller has given up; those that find no free worker wait for the end of the storm.
type resolver struct {
	client  *clinicaldoc.Client
	queue   chan *record
	workers sync.WaitGroup

	mu      sync.Mutex
	taken   map[*record]bool
	answers map[*record]answer // kept apart, for the records are their callers' until the storm is over
}

// answer is what looking up came to.
type answer struct {
	outcome outcome
	id      int64
}

func newResolver(ctx context.Context, client *clinicaldoc.Client) *resolver {
	v := &resolver{client: client, queue: make(chan *record), taken: map[*record]bool{}, answers: map[*record]answer{}}
	for range resolvers {
		v.workers.Go(func() {
			for r := range v.queue {
				v.note(r, v.lookUp(ctx, r))
			}
		})
	}
	return v
}

// settle is longer than the network of the storm can hold anything back.
const settle = 20 * time.Second

func (v *resolver) lookUp(ctx context.Context, r *record) answer {
	note, err := v.client.Notes.FindCreated(ctx, r.lost, clinicaldoc.FindCreatedParams{Settle: settle, UniqueName: r.title == r.name})
	switch {
	case err == nil:
		return answer{found, note.ID}
	case errors.Is(err, clinicaldoc.ErrNotCreated):
		return answer{notCreated, 0}
	}
	return answer{undecided, 0}
}

func (v *resolver) note(r *record, a answer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answers[r] = a
}

// offer hands a record to a free worker, if there is one.
func (v *resolver) offer(r *record) {
	select {
	case v.queue <- r:
		v.mu.Lock()
		defer v.mu.Unlock()
		v.taken[r] = true
	default:
	}
}

// finish looks up the rest, the oldest first, and enters all answers. Everybody waits for the same time to pass, so that the
// last outcome is known a good while after its answer was lost, however many there are.
func (v *resolver) finish(records []*record) {
	rest := slices.DeleteFunc(slices.Clone(records), func(r *record) bool { return r.outcome != lost || v.taken[r] })
	slices.SortFunc(rest, func(a, b *record) int { return a.lost.SentAt.Compare(b.lost.SentAt) })
	for _, r := range rest {
		v.queue <- r
	}
	close(v.queue)
	v.workers.Wait()
	for r, a := range v.answers {
		r.outcome, r.id = a.outcome, a.id
	}
}
