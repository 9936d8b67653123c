package clinicaldoc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/losses"
	"github.com/clinicaldoc/clinicaldoc-go/internal/retry"
	"github.com/clinicaldoc/clinicaldoc-go/internal/verdict"
)

// search is one call of FindCreated: what is looked for, and what was seen of it so far.
type search struct {
	lost   OutcomeUnknownError
	params FindCreatedParams
	notes  *NotesService
	opts   []CallOption
	loss   losses.Loss

	window    verdict.Window
	settledAt time.Time // from then on the service has surely done with it

	response *Response // of the latest request
	clocks   verdict.Clocks
	cached   time.Duration // the longest that a response of the latest look had been in a cache
	userID   int64         // of this token; 0: not known
	looks    int
	failed   int // looks in a row
	seen     map[int64]sighting
	found    *ProgressNote // that fits, or that the response named
}

// sighting is a note as the list showed it, and in which look last.
type sighting struct {
	verdict.Note
	row  *ProgressNote
	look int
}

func (s *NotesService) newSearch(lost *OutcomeUnknownError, params FindCreatedParams, opts []CallOption) (*search, error) {
	switch {
	case lost == nil || lost.SentAt.IsZero():
		return nil, invalid("Notes.FindCreated", "needs the error of a Create")
	case lost.NoteID < 0 || lost.Params.PatientID < 0:
		return nil, invalid("Notes.FindCreated", "needs the error of a Create; its ids must not be negative")
	case params.Settle < 0:
		return nil, invalid("Notes.FindCreated: Settle", "must not be negative")
	case params.UniqueName && strings.TrimSpace(lost.Params.Name) == "":
		return nil, invalid("Notes.FindCreated: UniqueName", "needs a name in the params of the Create")
	case slices.ContainsFunc(params.ExcludeIDs, func(id int64) bool { return id < 1 }):
		return nil, invalid("Notes.FindCreated: ExcludeIDs", "holds an id below 1")
	}
	caller, err := newCallOptions(opts)
	if err != nil {
		return nil, err
	}
	l := &search{lost: *lost, params: params, notes: s, response: caller.response, seen: map[int64]sighting{}}
	if l.response == nil {
		l.response = new(Response)
	}
	// What a cache gives may be older than the note.
	l.opts = append(slices.Clip(opts), WithResponse(l.response), WithHeader("Cache-Control", "no-cache"))
	l.lost.AudioSize = lost.audioSize()
	l.settledAt = params.settledAt(lost)
	l.window = verdict.NewWindow(lost.SentAt, l.settledAt)
	l.loss = lost.loss()
	s.client.losses.Add(l.loss)
	return l, nil
}

// settledAt is when the service surely has done with a create: Settle after its response was lost, or as long as the upload
// took if that was longer.
func (p FindCreatedParams) settledAt(lost *OutcomeUnknownError) time.Time {
	settle := cmp.Or(p.Settle, defaultSettle)
	if lost.LostAt.IsZero() {
		return time.Now().Add(settle)
	}
	upload := max(lost.LostAt.Sub(lost.SentAt), 0)
	return lost.SentAt.Add(upload + max(settle, upload))
}

// look gathers evidence. The error, if any, is why there is not more of it.
func (l *search) look(ctx context.Context) (verdict.Evidence, error) {
	l.looks++
	asked := time.Now()
	l.clocks, l.cached = verdict.Clocks{Now: asked.Unix()}, 0
	e := verdict.Evidence{UniqueName: l.params.UniqueName}
	var err error
	view := l.notes.client.losses.View(l.loss)
	// A note that was found for this very loss before is as good as named.
	if id := cmp.Or(l.lost.NoteID, view.Note); id != 0 {
		e.Named, err = l.readNamed(ctx, id, view)
	} else {
		e.Look, err = l.list(ctx)
	}
	if err != nil && e.Named == verdict.NotNamed {
		if l.failed++; mayRecover(err) && l.failed < maxFailedLooks {
			e.Look = verdict.LookFailing
		}
	} else {
		l.failed = 0
	}
	e.Clock = l.window.Clock(l.clocks)
	e.Settled = !asked.Add(-l.cached).Before(l.settledAt)
	l.compare(&e)
	return e, err
}

// compare holds all notes that were seen against what this client knows. It asks first which creates are under way: one that
// ends in between has left its note's id by then.
func (l *search) compare(e *verdict.Evidence) {
	view := l.notes.client.losses.View(l.loss)
	e.Forgot = view.Forgot || !l.notes.client.created.Forgot().Before(l.lost.SentAt)
	sized := true
	for id, s := range l.seen {
		s.Known = l.known(id, view)
		gone := s.look != l.looks
		e.Add(s.Note, gone)
		if !gone && s.Fits(l.params.UniqueName) {
			l.found = s.row
			sized = sized && s.Size == verdict.SizeEqual
		}
	}
	equalUnderWay, equalLost := view.EqualUnderWay, view.EqualLost
	if !sized {
		equalUnderWay, equalLost = view.AlikeUnderWay, view.AlikeLost
	}
	switch {
	case equalLost:
		e.Others = verdict.EqualLost
	case equalUnderWay:
		e.Others = verdict.EqualUnderWay
	case view.UnderWay:
		e.Others = verdict.OthersUnderWay
	}
}

func (l *search) known(id int64, view losses.View) verdict.Known {
	switch {
	case slices.Contains(l.params.ExcludeIDs, id), l.notes.client.created.Has(id):
		return verdict.Explained
	case view.Claimed[id]:
		return verdict.Claimed
	}
	return verdict.Unexplained
}

// readNamed reads the note whose id the response held: that the service gave it is the evidence, if it is the patient's. What
// an odd response calls an id may be another thing's, so the note has to resemble what was sent as well.
func (l *search) readNamed(ctx context.Context, id int64, view losses.View) (verdict.Named, error) {
	asked := time.Now()
	note, err := l.notes.Get(ctx, id, l.opts...)
	switch {
	case errors.Is(err, ErrNotFound):
		return verdict.NamedGone, err
	case err != nil:
		return verdict.NotNamed, err
	}
	patient := l.lost.Params.PatientID
	if patient != 0 && note.comparePatient(patient) == namesOther || patient == 0 && !namesNoPatient(note) {
		return verdict.NamedOther, mismatch("the note names another patient than the create did")
	}
	l.clocks = verdict.ReadClocks(l.response.Header, asked, time.Now())
	if l.known(id, view) != verdict.Unexplained || id != view.Note && !l.observe(note).Resembles(false) {
		return verdict.NamedOther, nil
	}
	l.found = note
	return verdict.NamedHere, nil
}

// list looks through the list, and a second time where it has several pages: a note deleted meanwhile moves the others up, and
// one of them past the reader.
func (l *search) list(ctx context.Context) (verdict.Look, error) {
	if l.userID == 0 && !l.params.UniqueName {
		user, err := l.notes.client.Users.Me(ctx, l.opts...)
		switch {
		case err == nil:
			l.userID = user.ID
		case mayRecover(err) && l.failed < maxFailedLooks-1: // else the list may still show that there is no note
			return verdict.LookRefused, err
		}
	}
	look, pages, err := l.walk(ctx)
	if err == nil && pages > 1 && (look == verdict.LookToEnd || look == verdict.LookPastWindow) {
		look, _, err = l.walk(ctx)
	}
	return look, err
}

const errTooMany = safeError("there are too many notes to search; does WithQueryNames name the sort parameter?")

// walk goes through the pages, newest first if the service does as it is asked, until it is proven that no more can matter.
// A page that only brings known notes proves nothing: the service may not know the page parameter.
func (l *search) walk(ctx context.Context) (look verdict.Look, pages int, err error) {
	list := ListNotesParams{PatientID: l.lost.Params.PatientID, PerPage: maxPerPage, Sort: SortLatest, TrustPatientFilter: l.params.TrustPatientFilter}
	var order verdict.Order
	walked := map[int64]bool{}
	total := 0 // as the first page told it
	for pages = 1; ; pages++ {
		asked := time.Now()
		page, err := l.notes.List(ctx, list, l.opts...)
		if err != nil {
			return verdict.LookRefused, pages, err
		}
		l.clocks = verdict.ReadClocks(l.response.Header, asked, time.Now())
		l.cached = max(l.cached, l.clocks.Cached)
		if !tellZones(l.response.Body) {
			l.clocks.Behind = verdict.MostBehind
		}
		known := len(walked)
		if pages == 1 {
			total = page.Meta.Total
		}
		for i := range page.Items {
			row := &page.Items[i]
			order.Add(row.CreatedAt)
			walked[row.ID] = true
			l.see(row)
		}
		// A service that tells nothing of its pages may count them from 0: it is asked for the first one by its number too.
		unnumbered := page.Meta.CurrentPage == 0 && page.Meta.NextCursor == ""
		switch {
		case order.Past(l.window, l.clocks):
			return verdict.LookPastWindow, pages, nil
		case !page.HasNext() && min(cmp.Or(total, page.Meta.Total), page.Meta.Total) <= len(walked): // rows that came in since the first page cannot matter
			return verdict.LookToEnd, pages, nil
		case !page.HasNext(), len(walked) == known && (!unnumbered || list.Page != 1):
			return verdict.LookUnproven, pages, nil
		case len(walked) >= maxSearchedRows:
			return verdict.LookRefused, pages, errTooMany
		case page.Meta.NextCursor != "":
			list.Cursor, list.Page = page.Meta.NextCursor, 0
		case unnumbered:
			list.Page++
		default:
			list.Page = max(list.Page, 1) + 1
		}
	}
}

// tellZones reports whether the rows of a list give their time of creation with a zone.
func tellZones(list []byte) bool {
	type row struct {
		CreatedAt string `json:"created_at"`
	}
	var wrapped struct{ Data []row }
	if json.Unmarshal(list, &wrapped) != nil && json.Unmarshal(list, &wrapped.Data) != nil {
		return false
	}
	return !slices.ContainsFunc(wrapped.Data, func(r row) bool { return r.CreatedAt != "" && !hasZone(r.CreatedAt) })
}

// hasZone reports whether a time as the service gives it says of which place it is.
func hasZone(moment string) bool {
	const date = len("2006-01-02")
	return len(moment) > date && strings.ContainsAny(moment[date:], "Zz+-")
}

// see remembers a row that may matter.
func (l *search) see(row *ProgressNote) {
	if note := l.observe(row); note.Resembles(l.params.UniqueName) {
		l.seen[row.ID] = sighting{note, row, l.looks}
	}
}

// observe holds a row against what was to be created.
func (l *search) observe(row *ProgressNote) verdict.Note {
	return verdict.Note{
		Patient: l.lost.Params.PatientID != 0 || namesNoPatient(row), // the list's own check has seen to the patient
		Name:    verdict.CompareNames(l.lost.Params.Name, row.Name),
		Size:    l.compareSize(row),
		User:    l.compareUser(row),
		Made:    l.window.Made(row.CreatedAt, l.clocks),
	}
}

func (l *search) compareSize(row *ProgressNote) verdict.Size {
	size := int64(0)
	if row.Audio != nil {
		size = row.Audio.Size
	}
	switch sent := l.lost.AudioSize; {
	case sent > 0 && size > 0 && sent == size:
		return verdict.SizeEqual
	case sent > 0 && size > 0:
		return verdict.SizeOther
	case sent > 0, sent < 0 && size > 0:
		return verdict.SizeOneSided
	}
	return verdict.SizeUntold
}

func (l *search) compareUser(row *ProgressNote) verdict.User {
	inside, named := row.User.ID()
	id := cmp.Or(row.UserID, inside)
	switch {
	case l.userID == 0, id <= 0, named && inside != id:
		return verdict.UserUntold
	case id == l.userID:
		return verdict.UserOwn
	}
	return verdict.UserOther
}

// namesNoPatient is strict: a patient that is there but has no readable id is one.
func namesNoPatient(note *ProgressNote) bool {
	return note.comparePatient(0) == namesNone && slices.Contains([]string{"", "{}", "[]"}, note.Patient.raw)
}

// mayRecover reports whether a list that failed may work later, as a proxy's login page may be gone then.
func mayRecover(err error) bool {
	for _, lasting := range []error{ErrPatientMismatch, errOtherPage, errTooLong, errTooMany} {
		if errors.Is(err, lasting) {
			return false
		}
	}
	return transient(err) && !retry.Permanent(err)
}
