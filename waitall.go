package clinicaldoc

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/idset"
	"github.com/clinicaldoc/clinicaldoc-go/internal/jitter"
	"github.com/clinicaldoc/clinicaldoc-go/internal/poll"
)

const (
	maxListPages    = 10 // of a tick
	maxListFailures = 3  // in a row, before the list is given up
	maxReadFailures = 3  // in a row, before a tick is given up
	minReads        = 20 // of a tick
	readsPerSecond  = 10 // of the pause before the tick, if that allows more
	unlisted        = -1 // the list does not show the note
)

// WaitAll waits for many notes and yields each as it ends: with no error when it has come to params.Until, as Get gives
// it, else with its [*WaitError] and as last seen (nil if it never was), which may be a row of the list. One note's end does
// not end the others: every id is yielded exactly once, in the order in which the notes end; an id given twice counts once.
// When the context ends, or the service responds with 401, all that remain are yielded with that error.
//
// It looks for every note once, and then polls by the schedule of Wait. Each tick lists the newest notes, 100 to a page and
// at most 10 pages, as long as that takes fewer requests than reading the notes one by one. A row of the list only tells
// that a note has ended: the note is then read. What the list does not show is read in turn, after each pause at most 10
// notes for each of its seconds, but 20 in any case. One of the listed notes is read too, until a row has shown an end. A
// list that fails three times in a row (other than by 429), or does not tell stages, is not asked again; in the second case
// every note is read at once. MaxFailures counts for each note, and a tick in which none can be read counts for all.
// OnUpdate is called for changes of any.
//
// It polls only while it is ranged over, and can be ranged over again. An id below 1 and senseless params are
// [ErrInvalidArgument], yielded once with a nil note before any request.
func (s *NotesService) WaitAll(ctx context.Context, ids []int64, params WaitParams, opts ...CallOption) iter.Seq2[*ProgressNote, error] {
	ids = slices.Clone(ids)
	return func(yield func(*ProgressNote, error) bool) {
		p, err := s.newPoller("Notes.WaitAll", params, opts)
		if err == nil && slices.ContainsFunc(ids, func(id int64) bool { return id < 1 }) {
			err = invalid("Notes.WaitAll: ids", "one is not a valid id; ids start at 1")
		}
		if err != nil {
			yield(nil, err)
			return
		}
		ctx, hooked := s.client.startCall(ctx, "Notes.WaitAll")
		defer hooked.end(ctx, nil)
		p.hooked = hooked
		ctx, cancel := poll.WithMaxWait(ctx)
		defer cancel()
		all := newWaitAllState(p, ids, yield)
		for all.tick(ctx); all.goesOn(); all.tick(ctx) {
			if err := p.sleep(ctx); err != nil {
				all.endAll(err)
			}
		}
	}
}

// waitAllState is the state of one WaitAll.
type waitAllState struct {
	*poller

	yield   func(*ProgressNote, error) bool
	stopped bool // by the caller: nothing is asked or yielded any more
	pending []*awaited
	ticks   int
	failed  int  // ticks in a row without a success
	reads   int  // of single notes
	shuffle bool // no read of the tick before succeeded

	listFailures int  // in a row
	listRefused  bool // the list is of no use
	listProved   bool // the list has shown that its rows tell when a note has ended
}

// awaited is one of many notes that are waited for.
type awaited struct {
	watched

	page     int  // of the list that showed it last; 0 before it was looked for, unlisted when the list does not show it
	checked  int  // number of the tick that looked for it last, in either way
	read     int  // number of the latest read of it, among those of all notes; 0 before
	rowEnded bool // a row has shown its end, and it was not read since
	misled   bool // its rows tell nothing, so that it was not looked for
	over     bool // it has been yielded

	rowStage   Stage // as its latest row tells
	rowUpdated time.Time
}

// due reports whether the note has to be read whatever the rate: for the first time, or for the last.
func (w *awaited) due() bool { return w.rowEnded || w.read == 0 && (w.note == nil || w.misled) }

func newWaitAllState(p *poller, ids []int64, yield func(*ProgressNote, error) bool) *waitAllState {
	s := &waitAllState{poller: p, yield: yield}
	var seen idset.Set
	for _, id := range ids {
		if seen.Add(id) {
			s.pending = append(s.pending, &awaited{watched: watched{id: id}})
		}
	}
	return s
}

func (s *waitAllState) goesOn() bool { return len(s.pending) > 0 && !s.stopped }

// tick looks for every pending note that the bounds allow: first by the list, then one by one.
func (s *waitAllState) tick(ctx context.Context) {
	s.ticks++
	listed := s.readList(ctx)
	refused := s.listRefused
	read := s.readNotes(ctx)
	if s.listRefused && !refused {
		read = s.readNotes(ctx) || read // what was looked for in vain
	}
	if s.failed++; listed || read {
		s.failed = 0
	}
	s.schedule.SetFailures(s.failed)
	s.pending = slices.DeleteFunc(s.pending, func(w *awaited) bool { return w.over })
	if s.schedule.PauseAsked() && slices.ContainsFunc(s.pending, (*awaited).due) {
		s.schedule.Restart() // the service decides how fast they can be read
	}
}

// readList lists as many pages as pay, and reports whether one came.
func (s *waitAllState) readList(ctx context.Context) (succeeded bool) {
	depth := s.worthwhileDepth()
	if depth == 0 {
		return false
	}
	expected := map[int64]*awaited{}
	for _, w := range s.pending {
		if w.page != unlisted && w.page <= depth && !w.rowEnded {
			expected[w.id] = w
		}
	}
	at := ListNotesParams{Sort: SortLatest, PerPage: maxPerPage}
	for number, beyond := 1, 0; ; number++ {
		page, err := ask(s.poller, func(opts []CallOption) (*Page[ProgressNote], error) {
			return s.service.List(ctx, at, opts...)
		})
		if err != nil {
			s.listFailed(err, expected)
			return succeeded
		}
		succeeded, s.listFailures = true, 0
		s.seeRows(page.Items, number, expected)
		if s.schedule.PauseAsked() {
			return true
		}
		if number >= depth {
			beyond++ // looking further than where notes were last seen must not cost more than reading them
		}
		next := at.after(page.Meta.NextCursor)
		if beyond >= len(expected) || !page.HasNext() || number == maxListPages || next == at {
			break
		}
		at = next
	}
	for _, w := range expected {
		w.page = unlisted
	}
	return true
}

// worthwhileDepth returns how many pages to list. A note that was not looked for yet is expected on the first page.
func (s *waitAllState) worthwhileDepth() int {
	if s.listRefused {
		return 0
	}
	var onPage [maxListPages + 1]int
	for _, w := range s.pending {
		if w.page != unlisted && !w.rowEnded {
			onPage[max(w.page, 1)]++
		}
	}
	return poll.Depth(onPage[1:], !s.listProved)
}

// seeRows takes in the rows of a page, and removes them from what is expected.
func (s *waitAllState) seeRows(rows []ProgressNote, number int, expected map[int64]*awaited) {
	for i := range rows {
		w := expected[rows[i].ID]
		if w == nil {
			continue
		}
		delete(expected, w.id)
		row := rows[i] // a copy, so that the note does not hold its whole page in memory
		w.page = number
		w.rowStage, w.rowUpdated = row.Stage(), row.UpdatedAt
		if w.rowStage == StageFailed || w.rowStage.AtLeast(s.params.Until) {
			w.rowEnded, s.listProved = true, true
			continue
		}
		w.checked = s.ticks
		if w.note != nil && !row.UpdatedAt.After(w.note.UpdatedAt) && w.note.Stage().AtLeast(w.rowStage) {
			w.found() // no news; the note as it was read is worth more than its row
			continue
		}
		if w.note != nil {
			w.read = -1 // it has changed: the first to be read, if any is
		}
		w.see(s.poller, &row)
	}
}

// listFailed decides what a failed list call means: trouble of the service, in which single reads would not help, or the
// list's own.
func (s *waitAllState) listFailed(err error, expected map[int64]*awaited) {
	if errors.Is(err, ErrUnauthorized) {
		s.endAll(err)
	}
	if !errors.Is(err, ErrRateLimited) {
		s.listFailures++
		s.listRefused = s.listFailures >= maxListFailures
	}
	for _, w := range s.pending {
		if expected[w.id] != nil && transient(err) && !errors.Is(err, ErrUnexpectedResponse) {
			s.missed(w, err)
		}
	}
}

// readNotes reads notes one by one, and reports whether the service responded to one. It stops when the service wants a
// pause or seems to be in trouble; if not one could be read, that counts for all.
func (s *waitAllState) readNotes(ctx context.Context) (succeeded bool) {
	failures := 0 // in a row
	for _, w := range s.toRead(ctx) {
		if !s.goesOn() || s.schedule.PauseAsked() || poll.Expired(ctx) != nil {
			return succeeded
		}
		err := s.readNote(ctx, w)
		if err == nil || !transient(err) {
			succeeded, failures = true, 0
			continue
		}
		if failures++; failures < maxReadFailures && !errors.Is(err, ErrRateLimited) {
			continue
		}
		for _, other := range s.pending {
			if !succeeded && !other.over && other.checked < s.ticks {
				s.missed(other, err)
			}
		}
		s.shuffle = !succeeded
		return succeeded
	}
	return succeeded
}

// toRead returns the notes to read in this tick: all that are due, and of those that the list did not show as many as the
// pause before allows, the one that waited longest first. As long as the list has not shown an end, one of the listed
// notes joins them: rows without flags and times would look like notes that nobody works on.
func (s *waitAllState) toRead(ctx context.Context) []*awaited {
	var due, others []*awaited
	var probe *awaited
	for _, w := range s.pending {
		switch looked := w.checked == s.ticks; {
		case w.over:
		case !looked && w.due():
			due = append(due, w)
		case !looked:
			others = append(others, w)
		case !s.listProved && w.page > 0 && w.failure == nil && (probe == nil || w.read < probe.read):
			probe = w
		}
	}
	slices.SortStableFunc(others, func(a, b *awaited) int { return cmp.Compare(a.read, b.read) })
	allowed := max(minReads, int(readsPerSecond*s.schedule.LastPause().Seconds()))
	notes := slices.Concat(due, others[:min(len(others), allowed)])
	if probe != nil {
		notes = append(notes, probe)
	}
	if s.shuffle { // a few notes that cannot be read must not stand for all of them
		jitter.Shuffle(ctx, len(notes), func(i, j int) { notes[i], notes[j] = notes[j], notes[i] })
		s.shuffle = false
	}
	return notes
}

func (s *waitAllState) readNote(ctx context.Context, w *awaited) error {
	listed := w.checked == s.ticks
	note, err := s.get(ctx, w.id)
	if !errors.Is(err, ErrRateLimited) { // or its turn is still to come
		s.reads++
		w.read = s.reads
	}
	switch {
	case errors.Is(err, ErrUnauthorized):
		s.endAll(err)
		return err
	case err != nil:
		s.missed(w, err)
		return err
	}
	w.see(s.poller, note)
	over, failed := w.verdict(s.poller)
	if over {
		s.end(w, failed)
	} else if w.rowEnded {
		w.page = unlisted // the list is not believed about this note
	}
	w.checked, w.rowEnded = s.ticks, false
	if listed && w.rowMisses(note, over) {
		s.refuseList()
	}
	return nil
}

// refuseList is for a list that does not tell stages. What was only seen there has not been looked for.
func (s *waitAllState) refuseList() {
	s.listRefused = true
	for _, w := range s.pending {
		if w.read == 0 {
			w.misled, w.checked = true, 0
		}
	}
}

func (s *waitAllState) missed(w *awaited, err error) {
	w.checked = s.ticks
	if w.miss(s.poller, err) {
		s.end(w, w.waitError(s.poller, err))
	}
}

// end yields the note for the last time.
func (s *waitAllState) end(w *awaited, err error) {
	w.over = true
	if !s.stopped {
		s.stopped = !s.yield(w.note, s.hooked.noted(err))
	}
}

func (s *waitAllState) endAll(cause error) {
	for _, w := range s.pending {
		if !w.over {
			s.end(w, w.waitError(s.poller, cause))
		}
	}
	s.pending = nil
}
