package clinicaldoc

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/clinicaldoc/clinicaldoc-go/internal/idset"
)

const errNoMore = safeError("page after page brought no new row")

// position says where in a list a page stands: at a cursor, or else at a number, of which 0 means the first.
type position struct {
	page   int
	cursor string
}

func (p *Page[T]) after(at position) position {
	if p.Meta.NextCursor != "" {
		return position{cursor: p.Meta.NextCursor}
	}
	return position{page: max(at.page, 1) + 1}
}

// fetched is a page on its way, or arrived.
type fetched[T any] struct {
	at       position
	page     *Page[T]
	err      error
	response Response
	answered chan struct{} // closed when the answer is here, before it is decoded; not after a failure
	arrived  chan struct{}
}

// maxBarrenPages bounds how many pages in a row may bring no new row: a few can, when rows move while they are listed.
const maxBarrenPages = 3

// walk is the one iterator over pages, of the given size if it is not 0. Pages are fetched by up to prefetch goroutines
// ahead of the reader, or by the reader itself; either way they are read in order. When the loop ends, however it ends,
// none is left.
func walk[T any](
	ctx context.Context, start position, size, prefetch int, opts []CallOption,
	fetch func(context.Context, position, []CallOption) (*Page[T], error), id func(*T) int64,
) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var workers sync.WaitGroup
		defer workers.Wait()
		defer cancel()

		caller, err := newCallOptions(opts)
		if err != nil {
			yield(nil, err)
			return
		}
		begin := func(at position) *fetched[T] {
			f := &fetched[T]{at: at, answered: make(chan struct{}), arrived: make(chan struct{})}
			get := func() {
				defer close(f.arrived)
				own := append(slices.Clip(opts), whenResponded(func() { close(f.answered) }))
				if caller.response != nil {
					own = append(own, WithResponse(&f.response)) // several at once must not share one
				}
				f.page, f.err = fetch(ctx, at, own)
			}
			if prefetch > 0 {
				workers.Go(get)
			} else {
				get()
			}
			return f
		}

		var seen idset.Set
		barren := 0
		var page *Page[T] // the latest
		pending := []*fetched[T]{begin(start)}
		for len(pending) > 0 {
			current := pending[0]
			pending = pending[1:]
			if prefetch > 0 && page != nil && page.numbered() {
				select {
				case <-current.answered:
					pending = ahead(pending, current.at, page, prefetch, begin)
				case <-current.arrived:
				}
			}
			<-current.arrived
			if caller.response != nil {
				*caller.response = current.response
			}
			if current.err != nil {
				yield(nil, current.err)
				return
			}
			page = current.page
			if prefetch > 0 {
				pending = ahead(pending, current.at, page, prefetch, begin)
			}
			fresh := false
			for i := range page.Items {
				if !seen.Add(id(&page.Items[i])) {
					continue
				}
				fresh = true
				if !yield(&page.Items[i], nil) {
					return
				}
			}
			if barren++; fresh {
				barren = 0
			}
			// A second page of exactly the size asked for without a new row is the first one again: the service cuts pages and
			// does not know the page parameter.
			repeated := !page.told && !fresh && size > 0 && len(page.Items) == size
			switch {
			case !page.more, !page.told && !fresh && !repeated:
				return // a service that tells nothing has shown everything when nothing new comes
			case repeated, barren >= maxBarrenPages, page.after(current.at) == current.at:
				yield(nil, &callError{op: listNotes, detail: string(errNoMore), causes: []error{ErrUnexpectedResponse}})
				return
			case len(pending) == 0:
				pending = append(pending, begin(page.after(current.at)))
			}
		}
	}
}

// numbered tells that the service counts pages and says which is the last.
func (p *Page[T]) numbered() bool { return p.Meta.NextCursor == "" && p.Meta.LastPage > 0 }

// ahead requests pages beyond the current one, going by the latest page that was read: as many as allowed where the last
// page's number is known, else the next.
func ahead[T any](pending []*fetched[T], current position, page *Page[T], prefetch int, begin func(position) *fetched[T]) []*fetched[T] {
	last := current
	if len(pending) > 0 {
		last = pending[len(pending)-1].at
	}
	for page.more && len(pending) < prefetch {
		next := page.after(last)
		if page.numbered() && next.page > page.Meta.LastPage || !page.numbered() && len(pending) > 0 {
			break
		}
		last = next
		pending = append(pending, begin(next))
	}
	return pending
}
