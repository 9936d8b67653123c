package clinicaldoc

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net/url"
	"slices"
	"sync"

	"github.com/google/go-querystring/query"

	"github.com/clinicaldoc/clinicaldoc-go/internal/idset"
	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Page is one page of a list.
type Page[T any] struct {
	Items []T      // nil when the page is empty
	Meta  PageMeta // what the service said of the page

	nextURL string // as the service gave it; never followed
	told    bool   // the service said whether a page follows
	more    bool
}

// PageMeta is what the service said of a page; a field is zero where it said nothing.
type PageMeta struct {
	CurrentPage int
	LastPage    int
	PerPage     int
	Total       int
	NextCursor  string // for ListNotesParams.Cursor

	// PerPageIgnored tells that the page does not have the size asked for: the service limits it, or knows the parameter
	// by another name (see WithQueryNames).
	PerPageIgnored bool
}

// HasNext reports whether another page may follow: the one at Meta.NextCursor if that is set, else the next number. When
// the service tells nothing of it, only an empty page is known to be the last.
func (p *Page[T]) HasNext() bool { return p.more }

// query checks the params and gives them the service's names.
func (p ListNotesParams) query(names QueryNames) (url.Values, error) {
	switch {
	case p.PatientID < 0:
		return nil, invalid("Notes.List: PatientID", "must not be negative")
	case p.PerPage < 0 || p.PerPage > maxPerPage:
		return nil, invalid("Notes.List: PerPage", "%d is outside 1 to %d", p.PerPage, maxPerPage)
	case p.Sort != "" && p.Sort != SortLatest && p.Sort != SortOldest:
		return nil, invalid("Notes.List: Sort", "is neither SortLatest nor SortOldest")
	case p.Page < 0:
		return nil, invalid("Notes.List: Page", "must not be negative")
	case p.Page > 0 && p.Cursor != "":
		return nil, invalid("Notes.List: Page", "cannot be combined with Cursor")
	case p.Prefetch < 0 || p.Prefetch > maxPrefetch:
		return nil, invalid("Notes.List: Prefetch", "%d is outside 0 to %d", p.Prefetch, maxPrefetch)
	}
	defaults, err := query.Values(p)
	if err != nil {
		return nil, err
	}
	named := url.Values{}
	for from, to := range map[string]string{
		defaultQueryNames.PatientID: names.PatientID, defaultQueryNames.PerPage: names.PerPage, defaultQueryNames.Sort: names.Sort,
		defaultQueryNames.Page: names.Page, defaultQueryNames.Cursor: names.Cursor,
	} {
		if values := defaults[from]; values != nil {
			named[to] = values
		}
	}
	return named, nil
}

var (
	errOtherPage = safeError("it is another page than the one asked for; does WithQueryNames name the page parameter?")
	errNoRows    = safeError("it holds no list")
)

// check holds a page against what was asked for, and notes a page size that was ignored.
func (p ListNotesParams) check(page *Page[ProgressNote]) error {
	current := page.Meta.CurrentPage
	if p.Cursor == "" && current > 0 && current != max(p.Page, 1) {
		return unexpectedPage(errOtherPage)
	}
	page.Meta.PerPageIgnored = p.PerPage > 0 &&
		(page.Meta.PerPage > 0 && page.Meta.PerPage != p.PerPage || len(page.Items) > p.PerPage)
	for i := range page.Items {
		if page.Items[i].ID < 1 {
			return unexpectedPage("it holds a row without an id")
		}
		if err := p.checkPatient(&page.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p ListNotesParams) checkPatient(note *ProgressNote) error {
	if p.PatientID == 0 {
		return nil
	}
	id, named := note.Patient.ID()
	switch {
	case named && id == p.PatientID, !named && p.TrustPatientFilter:
		return nil
	case named:
		return mismatch("the service returned another patient's note; does WithQueryNames name the patient parameter?")
	}
	return mismatch("the service returned a note that names no patient, so that nothing can be verified; TrustPatientFilter accepts such rows")
}

func mismatch(detail safeError) error       { return sentinelError{detail, ErrPatientMismatch} }
func unexpectedPage(detail safeError) error { return sentinelError{detail, ErrUnexpectedResponse} }

// decodePage reads a list in any of the forms a Laravel service gives: rows in "data" with links and meta, or with the
// meta fields beside them, or alone; or a bare array.
// The size is the number of rows to make room for.
func decodePage[T any](answer []byte, names QueryNames, size int, fill func(*T, *jsonscan.Decoder)) (*Page[T], error) {
	if len(answer) == 0 {
		return nil, errEmpty
	}
	page := &Page[T]{}
	d := jsonscan.New(answer)
	found := d.Kind() == jsonscan.Array
	if found {
		page.fillItems(d, size, fill)
	} else {
		for key := range d.Fields() {
			switch {
			case string(key) == "data":
				found = true
				page.fillItems(d, size, fill)
			case string(key) == "meta" && d.Kind() == jsonscan.Object:
				for key := range d.Fields() {
					page.fillMeta(string(key), d)
				}
			case string(key) == "links" && d.Kind() == jsonscan.Object:
				for key := range d.Fields() {
					if string(key) == "next" {
						page.fillNextURL(d)
					}
				}
			default:
				page.fillMeta(string(key), d)
			}
		}
	}
	if err := d.End(); err != nil {
		return nil, err
	}
	if !found {
		return nil, errNoRows
	}
	page.findNext(names)
	return page, nil
}

func (p *Page[T]) fillItems(d *jsonscan.Decoder, size int, fill func(*T, *jsonscan.Decoder)) {
	list(d, func() {
		if p.Items == nil {
			p.Items = make([]T, 0, size)
		}
		p.Items = append(p.Items, *new(T))
		fill(&p.Items[len(p.Items)-1], d)
	})
}

// fillMeta reads one field of the meta data. Whatever is not of the expected kind counts as not told.
func (p *Page[T]) fillMeta(key string, d *jsonscan.Decoder) {
	switch key {
	case "current_page":
		p.Meta.CurrentPage = int(integerOrZero(d))
	case "last_page":
		p.Meta.LastPage = int(integerOrZero(d))
	case "per_page":
		p.Meta.PerPage = int(integerOrZero(d))
	case "total":
		p.Meta.Total = int(integerOrZero(d))
	case "next_cursor":
		p.told = true
		if d.Kind() == jsonscan.String {
			p.Meta.NextCursor = d.Text()
		}
	case "next_page_url":
		p.fillNextURL(d)
	}
}

func (p *Page[T]) fillNextURL(d *jsonscan.Decoder) {
	p.told = true
	if d.Kind() == jsonscan.String {
		p.nextURL = d.Text()
	}
}

// findNext finds out whether a page follows. Of the service's own link only the cursor's value is taken, never the
// address.
func (p *Page[T]) findNext(names QueryNames) {
	if p.Meta.NextCursor == "" {
		p.Meta.NextCursor = linkParameter(p.nextURL, names.Cursor)
	}
	switch {
	case p.Meta.NextCursor != "":
		p.more = true
	case p.Meta.CurrentPage > 0 && p.Meta.LastPage > 0:
		p.told = true
		p.more = p.Meta.CurrentPage < p.Meta.LastPage
	case p.told:
		p.more = p.nextURL != ""
	default:
		p.more = len(p.Items) > 0
	}
}

func linkParameter(link, name string) string {
	u, err := url.Parse(link)
	if err != nil {
		return ""
	}
	return u.Query().Get(name)
}

// LogValue lists what may be logged of the page: how many rows it has and where it stands.
func (p Page[T]) LogValue() slog.Value {
	return slog.GroupValue(slog.Int("items", len(p.Items)), slog.Any("meta", p.Meta))
}

// Format prints what LogValue lists for every verb.
func (p Page[T]) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.Page", p) }

// LogValue lists the numbers; a cursor may encode a row's data.
func (m PageMeta) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int("current_page", m.CurrentPage), slog.Int("last_page", m.LastPage),
		slog.Int("per_page", m.PerPage), slog.Int("total", m.Total), slog.Bool("per_page_ignored", m.PerPageIgnored),
	)
}

// Format prints what LogValue lists for every verb.
func (m PageMeta) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.PageMeta", m) }

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
				own := append(slices.Clip(opts), whenAnswered(func() { close(f.answered) }))
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
