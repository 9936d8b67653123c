package clinicaldoc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/list"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

var findCreated = operation{"Notes.FindCreated", http.MethodGet, "/v1/progress-notes", exchange.Reads}

const (
	defaultSettle   = 10 * time.Minute
	minLookPause    = time.Second
	maxLookPause    = time.Minute
	maxFailedLooks  = 10   // in a row
	maxSearchedRows = 5000 // of one list
)

// FindCreatedParams says how sure [NotesService.FindCreated] has to be. The zero value is the careful choice.
type FindCreatedParams struct {
	// Settle is how long after the response was lost the service, or a proxy before it, may still be at work on the create;
	// 0 means 10 minutes. It never counts less than the upload itself took.
	Settle time.Duration
	// ExcludeIDs are notes that are known to come from elsewhere. Those that Create of this client returned need not be named.
	ExcludeIDs []int64
	// UniqueName vouches that no other note of the patient has or will have the name in Params, or one that begins like it,
	// and that nobody renames the note meanwhile. Then the name alone decides, whatever sizes, users and clocks tell.
	UniqueName bool
	// TrustPatientFilter accepts rows that name no patient; see [ListNotesParams].
	TrustPatientFilter bool
}

// LogValue lists what may be logged of the params.
func (p FindCreatedParams) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Duration("settle", p.Settle), slog.Int("exclude_ids", len(p.ExcludeIDs)),
		slog.Bool("unique_name", p.UniqueName), slog.Bool("trust_patient_filter", p.TrustPatientFilter),
	)
}

// Format prints what LogValue lists for every verb.
func (p FindCreatedParams) Format(s fmt.State, _ rune) {
	redact.Format(s, "clinicaldoc.FindCreatedParams", p)
}

// FindCreated finds out what became of a Create whose outcome is unknown, by looking among the patient's newest notes: at
// once and then in growing pauses, until it can decide or the context ends.
//
//   - It returns a note only when everything fits (patient, name, size where both sides tell it, made by this token's user,
//     not before it was sent by either clock and not after Settle) and nothing else explains it: no other note fits, it is
//     not one that this client's Create returned or that was found for another lost create.
//   - It returns [ErrNotCreated] only when Settle has passed since the response was lost, the list was surely seen whole, or
//     newest first to before that time, and no note of about a day resembles it by name or size or was made since, or
//     within 15 minutes before, without an explanation. Creating it again is safe then, unless the clock that gave SentAt
//     was further off, and the note was renamed and its recording changed in size.
//   - Everything else is undecided: an [*OutcomeUnknownError], at once when waiting cannot help. Its Err says why and from
//     when on it can be decided. It can be asked again, also by another process, from its JSON.
//
// Of losses that another process suffered, this client knows those that it was asked about. Who has several asks about each
// once, with a context that has ended, before he waits for any: one's note may look like another's.
//
// An error put together from Params, SentAt and AudioSize is enough; without LostAt, Settle counts from now. When the error
// holds a NoteID, that note is read and returned if it is the patient's. Bad params are [ErrInvalidArgument].
func (s *NotesService) FindCreated(ctx context.Context, lost *OutcomeUnknownError, params FindCreatedParams, opts ...CallOption) (*ProgressNote, error) {
	return run(ctx, s.client, findCreated.name, opts, func(ctx context.Context, call *scope) (*ProgressNote, error) {
		l, err := s.newSearch(lost, params, &call.options)
		if err != nil {
			return nil, err
		}
		return l.find(ctx)
	})
}

// find looks until it can decide.
func (l *search) find(ctx context.Context) (*ProgressNote, error) {
	losses := l.notes.client.losses
	if l.lost.NoteID == 0 && l.lost.Params.PatientID == 0 && strings.TrimSpace(l.lost.Params.Name) == "" {
		return nil, l.undecided("the note was created without a name and a patient, so that nothing can tell it from others")
	}
	reason := creates.NoList
	for {
		evidence, failure := l.look(ctx)
		if ctx.Err() != nil {
			return nil, l.expired(ctx, reason)
		}
		v := creates.Decide(evidence)
		reason = v.Reason
		switch {
		case v.Outcome == creates.Found && losses.Claim(l.loss, l.found.ID):
			return l.found, nil
		case v.Outcome == creates.Found:
			return nil, l.undecided(string(creates.Several))
		case v.Outcome == creates.NotCreated:
			losses.Remove(l.loss)
			return nil, &callError{op: findCreated, detail: "the note was not created; creating it again is safe", causes: []error{ErrNotCreated}}
		case !v.Wait && failure != nil:
			return nil, l.undecided(string(reason)+": "+redact.Cause(failure), failure)
		case !v.Wait:
			return nil, l.undecided(string(reason))
		}
		if !l.pause(ctx, failure) {
			return nil, l.expired(ctx, reason)
		}
	}
}

// pause waits for the next look, which is not later than the time from which on it can be decided. It reports false when the
// context ends first.
func (l *search) pause(ctx context.Context, failure error) bool {
	wait := exchange.Backoff(ctx, l.looks-1, minLookPause, maxLookPause, 0)
	if remaining := time.Until(l.settledAt); remaining > 0 { // later, what a cache keeps grows old as fast as time goes
		wait = min(wait, remaining+l.cached)
	}
	if refused, ok := errors.AsType[*Error](failure); ok {
		wait = max(wait, min(refused.RetryAfter, maxLookPause))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// expired is the error of a search whose context has ended.
func (l *search) expired(ctx context.Context, reason creates.Reason) error {
	when := "; ask again"
	if time.Now().Before(l.settledAt) {
		when = "; it can be decided after " + l.settledAt.UTC().Format(time.RFC3339)
	}
	return l.undecided(string(reason)+": "+redact.Cause(ctx.Err())+when, ctx.Err(), context.Cause(ctx))
}

// undecided is the lost create once more, with the reason why it is lost still.
func (l *search) undecided(reason string, causes ...error) error {
	unknown := l.lost
	unknown.Err = &callError{op: findCreated, detail: "cannot tell whether the note was created: " + reason, causes: causes}
	return &unknown
}

// audioSize is the size of the recording that was sent: -1 when it is not known, 0 when there was none.
func (e *OutcomeUnknownError) audioSize() int64 {
	if e.AudioSize == 0 && e.Params.Audio != nil {
		return e.Params.Audio.length
	}
	return e.AudioSize
}

// loss is what this client remembers the lost create by.
func (e *OutcomeUnknownError) loss() creates.Loss {
	return creates.NewCreate(e.Params.PatientID, e.Params.Name, e.audioSize()).Lost(e.SentAt)
}

// storedLoss is an OutcomeUnknownError in JSON.
type storedLoss struct {
	Params    storedParams `json:"params"`
	SentAt    time.Time    `json:"sent_at"`
	LostAt    time.Time    `json:"lost_at"`
	AudioSize int64        `json:"audio_size"`
	NoteID    int64        `json:"note_id"`
	Error     string       `json:"error"`
}

type storedParams struct {
	Name      string `json:"name"`
	PatientID int64  `json:"patient_id"`
	PromptID  int64  `json:"prompt_id"`
}

// MarshalJSON gives all that FindCreated needs, in another process too. That includes the note's name and the patient: what
// is encoded is a patient's data. Of Err only its text is kept.
func (e OutcomeUnknownError) MarshalJSON() ([]byte, error) {
	stored := storedLoss{
		Params: storedParams{e.Params.Name, e.Params.PatientID, e.Params.PromptID},
		SentAt: e.SentAt.UTC(), LostAt: e.LostAt.UTC(), AudioSize: e.audioSize(), NoteID: e.NoteID,
	}
	if e.Err != nil {
		stored.Error = text(e.Err)
	}
	return json.Marshal(stored)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (e *OutcomeUnknownError) UnmarshalJSON(data []byte) error {
	var stored storedLoss
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	*e = OutcomeUnknownError{
		Params: CreateNoteParams{Name: stored.Params.Name, PatientID: stored.Params.PatientID, PromptID: stored.Params.PromptID},
		SentAt: stored.SentAt, LostAt: stored.LostAt, AudioSize: stored.AudioSize, NoteID: stored.NoteID,
	}
	if stored.Error != "" {
		e.Err = safeError(stored.Error)
	}
	return nil
}

// clockDifference is how far the service's clock is ahead of ours, as its Date header tells.
func clockDifference(h http.Header) time.Duration {
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return time.Until(date).Round(time.Second)
}

// search is one call of FindCreated: what is looked for, and what was seen of it so far.
type search struct {
	lost   OutcomeUnknownError
	params FindCreatedParams
	notes  *NotesService
	opts   []CallOption
	loss   creates.Loss

	window    creates.Window
	settledAt time.Time // from then on the service has surely done with it

	response *Response // of the latest request
	clocks   creates.Clocks
	cached   time.Duration // the longest that a response of the latest look had been in a cache

	orderKnown    bool // the list was requested in the other order too
	orderFollowed bool

	userID int64 // of this token; 0: not known
	looks  int
	failed int // looks in a row
	seen   map[int64]sighting
	found  *ProgressNote // that fits, or that the response named
}

// sighting is a note as the list showed it, and in which look last.
type sighting struct {
	creates.Note
	row  *ProgressNote
	look int
}

func (s *NotesService) newSearch(lost *OutcomeUnknownError, params FindCreatedParams, options *callOptions) (*search, error) {
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
	l := &search{lost: *lost, params: params, notes: s, response: options.response, seen: map[int64]sighting{}}
	if l.response == nil {
		l.response = new(Response)
	}
	// What a cache gives may be older than the note.
	l.opts = []CallOption{options.inherited(), WithResponse(l.response), WithHeader("Cache-Control", "no-cache")}
	l.lost.AudioSize = lost.audioSize()
	l.settledAt = params.settledAt(lost)
	l.window = creates.NewWindow(lost.SentAt, l.settledAt)
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
func (l *search) look(ctx context.Context) (creates.Evidence, error) {
	l.looks++
	asked := time.Now()
	l.clocks, l.cached = creates.Clocks{Now: asked.Unix()}, 0
	e := creates.Evidence{UniqueName: l.params.UniqueName}
	var err error
	view := l.notes.client.losses.View(l.loss)
	// A note that was found for this very loss before is as good as named.
	if id := cmp.Or(l.lost.NoteID, view.Note); id != 0 {
		e.Named, err = l.readNamed(ctx, id, view)
	} else {
		e.Look, err = l.list(ctx)
	}
	if err != nil && e.Named == creates.NotNamed {
		if l.failed++; mayRecover(err) && l.failed < maxFailedLooks {
			e.Look = creates.LookFailing
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
func (l *search) compare(e *creates.Evidence) {
	view := l.notes.client.losses.View(l.loss)
	e.Forgot = view.Forgot || !l.notes.client.created.Forgot().Before(l.lost.SentAt)
	sized := true
	for id, s := range l.seen {
		s.Known = l.known(id, view)
		gone := s.look != l.looks
		e.Add(s.Note, gone)
		if !gone && s.Fits(l.params.UniqueName) {
			l.found = s.row
			sized = sized && s.Size == creates.SizeEqual
		}
	}
	equalUnderWay, equalLost := view.EqualUnderWay, view.EqualLost
	if !sized {
		equalUnderWay, equalLost = view.AlikeUnderWay, view.AlikeLost
	}
	switch {
	case equalLost:
		e.Others = creates.EqualLost
	case equalUnderWay:
		e.Others = creates.EqualUnderWay
	case view.UnderWay:
		e.Others = creates.OthersUnderWay
	}
}

func (l *search) known(id int64, view creates.View) creates.Known {
	switch {
	case slices.Contains(l.params.ExcludeIDs, id), l.notes.client.created.Has(id):
		return creates.Explained
	case view.Claimed[id]:
		return creates.Claimed
	}
	return creates.Unexplained
}

// readNamed reads the note whose id the response held: that the service gave it is the evidence, if it is the patient's. What
// an odd response calls an id may be another thing's, so the note has to resemble what was sent as well.
func (l *search) readNamed(ctx context.Context, id int64, view creates.View) (creates.Named, error) {
	asked := time.Now()
	note, err := l.notes.Get(ctx, id, l.opts...)
	switch {
	case errors.Is(err, ErrNotFound):
		return creates.NamedGone, err
	case err != nil:
		return creates.NotNamed, err
	}
	patient := l.lost.Params.PatientID
	if patient != 0 && note.comparePatient(patient) == namesOther || patient == 0 && !namesNoPatient(note) {
		return creates.NamedOther, mismatch("the note names another patient than the create did")
	}
	l.clocks = creates.ReadClocks(l.response.Header, asked, time.Now())
	if l.known(id, view) != creates.Unexplained || id != view.Note && !l.observe(note).Resembles(false) {
		return creates.NamedOther, nil
	}
	l.found = note
	return creates.NamedHere, nil
}

// list looks through the list, newest first if the service does as requested, until it is proven that no other note can
// matter.
func (l *search) list(ctx context.Context) (creates.Look, error) {
	if l.userID == 0 && !l.params.UniqueName {
		user, err := l.notes.client.Users.Me(ctx, l.opts...)
		switch {
		case err == nil:
			l.userID = user.ID
		case mayRecover(err) && l.failed < maxFailedLooks-1: // else the list may still show that there is no note
			return creates.LookRefused, err
		}
	}
	var rows int // of this walk
	var order creates.Order
	look := creates.LookToEnd
	for visit, err := range list.Through(ctx, list.List[fetchedPage]{
		Fetch: l.fetch, Rule: list.Twice, MaxSize: maxPerPage, Orders: SortLatest.orders(),
		Enough: func(fetchedPage) bool {
			if !order.Past(l.window, l.clocks) || !l.followsOrder(ctx, &order) {
				return false
			}
			look = creates.LookPastWindow
			return true
		},
	}) {
		incomplete, ok := errors.AsType[*list.IncompleteError](err)
		switch {
		case ok && incomplete.Err == nil:
			return creates.LookUnproven, nil
		case ok:
			return creates.LookRefused, incomplete.Err
		case err != nil:
			return creates.LookRefused, err
		case visit.Value.at == list.Position{}: // a walk begins
			rows, order = 0, creates.Order{}
		case rows >= maxSearchedRows:
			return creates.LookRefused, errTooMany
		}
		rows += len(visit.Value.Items)
		for i := range visit.Value.Items {
			order.Add(visit.Value.Items[i].CreatedAt)
			l.see(&visit.Value.Items[i])
		}
	}
	return look, nil
}

const errTooMany = safeError("there are too many notes to search; does WithQueryNames name the sort parameter?")

// fetch gets a page, and with it the time by the service's clock.
func (l *search) fetch(ctx context.Context, at list.Position, responded func()) (list.Page, fetchedPage, error) {
	params := ListNotesParams{PatientID: l.lost.Params.PatientID, PerPage: maxPerPage, Sort: SortLatest, TrustPatientFilter: l.params.TrustPatientFilter}
	asked := time.Now()
	page, fetched, err := noteList{service: l.notes, params: params, opts: l.opts}.fetch(ctx, at, responded)
	if err != nil {
		return page, fetched, err
	}
	l.clocks = creates.ReadClocks(l.response.Header, asked, time.Now())
	l.cached = max(l.cached, l.clocks.Cached)
	if !tellZones(l.response.Body) {
		l.clocks.Behind = creates.MostBehind
	}
	return page, fetched, nil
}

// followsOrder reports whether the service follows the order of a list: that its rows fall in time may be an accident. The
// other order is requested once; a request that fails shows nothing.
func (l *search) followsOrder(ctx context.Context, order *creates.Order) bool {
	if !l.orderKnown {
		_, page, err := l.fetch(ctx, list.Position{Order: string(SortOldest), Size: 1}, func() {})
		if err != nil {
			return false
		}
		l.orderKnown = true
		l.orderFollowed = len(page.Items) > 0 && order.Followed(page.Items[0].CreatedAt)
	}
	return l.orderFollowed
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
func (l *search) observe(row *ProgressNote) creates.Note {
	return creates.Note{
		Patient: l.lost.Params.PatientID != 0 || namesNoPatient(row), // the list's own check has seen to the patient
		Name:    creates.CompareNames(l.lost.Params.Name, row.Name),
		Size:    l.compareSize(row),
		User:    l.compareUser(row),
		Made:    l.window.Made(row.CreatedAt, l.clocks),
	}
}

func (l *search) compareSize(row *ProgressNote) creates.Size {
	size := int64(0)
	if row.Audio != nil {
		size = row.Audio.Size
	}
	switch sent := l.lost.AudioSize; {
	case sent > 0 && size > 0 && sent == size:
		return creates.SizeEqual
	case sent > 0 && size > 0:
		return creates.SizeOther
	case sent > 0, sent < 0 && size > 0:
		return creates.SizeOneSided
	}
	return creates.SizeUntold
}

func (l *search) compareUser(row *ProgressNote) creates.User {
	inside, named := row.User.ID()
	id := cmp.Or(row.UserID, inside)
	switch {
	case l.userID == 0, id <= 0, named && inside != id:
		return creates.UserUntold
	case id == l.userID:
		return creates.UserOwn
	}
	return creates.UserOther
}

// namesNoPatient is strict: a patient that is there but has no readable id is one.
func namesNoPatient(note *ProgressNote) bool {
	return note.comparePatient(0) == namesNone && slices.Contains([]string{"", "{}", "[]"}, note.Patient.raw)
}

// mayRecover reports whether a list that failed may work later, as a proxy's login page may be gone then.
func mayRecover(err error) bool {
	for _, lasting := range []error{ErrPatientMismatch, errOtherPage, exchange.ErrTooLong, errTooMany} {
		if errors.Is(err, lasting) {
			return false
		}
	}
	return transient(err) && !exchange.Permanent(err)
}
