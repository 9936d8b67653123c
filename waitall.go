package clinicaldoc

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/clinicaldoc/clinicaldoc-go/internal/idset"
)

const (
	maxListPages    = 10 // of a tick
	maxSingleReads  = 20 // of a tick
	maxListFailures = 3  // in a row, before the list is given up
	unlisted        = -1 // the list does not show the note
)

// WaitAll waits for many notes and yields each as it ends: with no error when it has come to params.Until, else with its
// [*WaitError] and as last seen (nil if it never was). One note's end does not end the others: every id is yielded exactly
// once, in the order in which the notes end; an id given twice counts once. When the context ends, or the service answers
// 401, all that are left are yielded with that error.
//
// It polls by the schedule of Wait. Each tick lists the newest notes, 100 to a page and at most 10 pages, as long as that
// takes fewer requests than reading the notes one by one; what the list does not show is read singly, at most 20 notes
// per tick in turn. A note that ends without a transcription in the list is read singly once, in case lists are shortened.
// A list that fails three times in a row, or shows less than the notes themselves, is not asked again. MaxFailures counts
// for each note, OnUpdate tells of changes of any.
//
// It polls only while it is ranged over, and can be ranged over again. An id below 1 and senseless params are
// [ErrInvalidArgument], yielded once with a nil note before any request.
func (s *NotesService) WaitAll(ctx context.Context, ids []int64, params WaitParams, opts ...CallOption) iter.Seq2[*ProgressNote, error] {
	ids = slices.Clone(ids)
	return func(yield func(*ProgressNote, error) bool) {
		p, err := newPolling("Notes.WaitAll", params, opts)
		if err == nil && slices.ContainsFunc(ids, func(id int64) bool { return id < 1 }) {
			err = invalid("Notes.WaitAll: ids", "one is not a valid id; ids start at 1")
		}
		if err != nil {
			yield(nil, err)
			return
		}
		ctx, cancel := limited(ctx)
		defer cancel()
		g := newGathering(s, p, ids)
		tell := func() bool {
			ends := g.ends
			g.ends = nil
			return !slices.ContainsFunc(ends, func(end noteEnd) bool { return !yield(end.note, end.err) })
		}
		for len(g.pending) > 0 {
			g.tick(ctx)
			if !tell() || len(g.pending) == 0 {
				return
			}
			if err := p.sleep(ctx); err != nil {
				g.endAll(err)
				tell()
			}
		}
	}
}

// gathering is the state of one WaitAll.
type gathering struct {
	service *NotesService
	polling *polling
	pending []*watched // in the order given
	ends    []noteEnd  // not yielded yet

	ticks        int
	answered     bool // a request of this tick succeeded
	listFailures int  // in a row
	listRefused  bool // the list is of no use
	listProved   bool // the list has shown that its rows tell stages
}

type noteEnd struct {
	note *ProgressNote
	err  error
}

func newGathering(s *NotesService, p *polling, ids []int64) *gathering {
	g := &gathering{service: s, polling: p}
	var seen idset.Set
	for _, id := range ids {
		if seen.Add(id) {
			g.pending = append(g.pending, &watched{id: id})
		}
	}
	return g
}

// tick looks for every pending note that the bounds allow: first by the list, then one by one.
func (g *gathering) tick(ctx context.Context) {
	g.ticks++
	g.answered = false
	rest := g.readList(ctx)
	slices.SortStableFunc(rest, func(a, b *watched) int { return cmp.Compare(a.lastRead, b.lastRead) })
	for _, w := range rest[:min(len(rest), maxSingleReads)] {
		if len(g.pending) == 0 || g.polling.asked > 0 {
			break // nothing is left, or the service wants a pause
		}
		g.readSingly(ctx, w)
	}
	if g.polling.failures++; g.answered {
		g.polling.failures = 0
	}
}

// readList lists as many pages as pay and returns the notes that are left to be read singly.
func (g *gathering) readList(ctx context.Context) []*watched {
	depth := g.worthwhileDepth()
	if depth == 0 {
		return slices.Clone(g.pending)
	}
	var rest []*watched
	expected := map[int64]*watched{}
	for _, w := range g.pending {
		if w.page == unlisted || w.page > depth {
			rest = append(rest, w)
		} else {
			expected[w.id] = w
		}
	}
	explored := 0
	at := position{}
	for number := 1; ; number++ {
		page, err := ask(g.polling, func(opts []CallOption) (*Page[ProgressNote], error) {
			return g.service.List(ctx, ListNotesParams{Sort: SortLatest, PerPage: maxPerPage, Page: at.page, Cursor: at.cursor}, opts...)
		})
		if err != nil {
			return g.listFailed(err, expected, rest)
		}
		g.answered, g.listFailures = true, 0
		for i := range page.Items {
			w := expected[page.Items[i].ID]
			if w == nil {
				continue
			}
			delete(expected, w.id)
			row := page.Items[i] // a copy, so that the note does not hold its whole page in memory
			if w.page = number; g.shortened(&row) {
				w.page = unlisted
				rest = append(rest, w)
				continue
			}
			g.listProved = g.listProved || row.Stage() > StageUploaded
			g.seen(w, &row)
		}
		next := page.after(at)
		if len(expected) == 0 || !page.HasNext() || number == maxListPages || next == at || g.polling.asked > 0 {
			break
		}
		if number >= depth {
			// Looking further than where notes were last seen must not cost more than reading them.
			if explored++; explored >= len(expected) {
				break
			}
		}
		at = next
	}
	if g.polling.asked == 0 {
		for _, w := range expected {
			w.page = unlisted
		}
	}
	return g.withProbe(append(rest, g.inOrder(expected)...))
}

// worthwhileDepth returns how many pages to list so that these and the single reads of what lies deeper are fewest. A note
// that was not looked for yet is expected on the first page.
func (g *gathering) worthwhileDepth() int {
	if g.listRefused {
		return 0
	}
	var onPage [maxListPages + 1]int
	listed := 0
	for _, w := range g.pending {
		if w.page != unlisted {
			onPage[max(w.page, 1)]++
			listed++
		}
	}
	best, fewest, deeper := 0, listed, listed
	for depth := 1; depth <= maxListPages; depth++ {
		deeper -= onPage[depth]
		if requests := depth + deeper; requests < fewest {
			best, fewest = depth, requests
		}
	}
	return best
}

// listFailed decides what a failed list call means, and returns what to read singly in this tick.
func (g *gathering) listFailed(err error, expected map[int64]*watched, rest []*watched) []*watched {
	if errors.Is(err, ErrUnauthorized) {
		g.endAll(err)
		return nil
	}
	g.listFailures++
	g.listRefused = g.listFailures >= maxListFailures
	if !passing(err) || errors.Is(err, ErrUnexpectedResponse) {
		return append(rest, g.inOrder(expected)...) // the list's own trouble
	}
	for _, w := range g.inOrder(expected) {
		g.missed(w, err)
	}
	return rest
}

// shortened reports whether a row of the list has come to its end without the text that belongs to it.
func (g *gathering) shortened(row *ProgressNote) bool {
	stage := row.Stage()
	return stage.AtLeast(g.polling.params.Until) && stage.AtLeast(StageTranscribed) && row.Transcription == ""
}

// withProbe adds one listed note to those that are read singly, as long as no row has shown that it tells its stage: a
// list without flags and times would look like notes that nobody works on.
func (g *gathering) withProbe(rest []*watched) []*watched {
	if g.listProved {
		return rest
	}
	var probe *watched
	for _, w := range g.pending {
		if w.page > 0 && w.note != nil && (probe == nil || w.lastRead < probe.lastRead) {
			probe = w
		}
	}
	if probe == nil || slices.Contains(rest, probe) {
		return rest
	}
	return append(rest, probe)
}

func (g *gathering) readSingly(ctx context.Context, w *watched) {
	w.lastRead = g.ticks
	row := w.note
	note, err := ask(g.polling, func(opts []CallOption) (*ProgressNote, error) { return g.service.Get(ctx, w.id, opts...) })
	switch {
	case errors.Is(err, ErrUnauthorized):
		g.endAll(err)
	case err != nil:
		g.missed(w, err)
	default:
		if w.page > 0 && row != nil && row.Stage() == StageUploaded && note.Stage() > StageUploaded &&
			(row.UpdatedAt.IsZero() || row.UpdatedAt.Equal(note.UpdatedAt)) {
			g.listRefused = true // the same version, but the row does not tell its stage
		}
		g.answered = true
		g.seen(w, note)
	}
}

func (g *gathering) seen(w *watched, note *ProgressNote) {
	w.see(g.polling, note)
	if over, err := w.verdict(g.polling); over {
		g.end(w, err)
	}
}

func (g *gathering) missed(w *watched, err error) {
	if w.miss(g.polling, err) {
		g.end(w, w.end(g.polling, err))
	}
}

func (g *gathering) end(w *watched, err error) {
	g.pending = slices.DeleteFunc(g.pending, func(other *watched) bool { return other == w })
	g.ends = append(g.ends, noteEnd{w.note, err})
}

func (g *gathering) endAll(cause error) {
	for _, w := range g.pending {
		g.ends = append(g.ends, noteEnd{w.note, w.end(g.polling, cause)})
	}
	g.pending = nil
}

// inOrder returns the notes of the map that are still pending, in the order given.
func (g *gathering) inOrder(notes map[int64]*watched) []*watched {
	var ordered []*watched
	for _, w := range g.pending {
		if notes[w.id] != nil {
			ordered = append(ordered, w)
		}
	}
	return ordered
}

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
