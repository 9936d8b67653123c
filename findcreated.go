package clinicaldoc

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
	"github.com/clinicaldoc/clinicaldoc-go/internal/download"
	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/list"
	"github.com/clinicaldoc/clinicaldoc-go/internal/poll"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

var findCreated = &operation{"Notes.FindCreated", http.MethodGet, "/v1/progress-notes", exchange.Reads}

// Bounds on one search.
const (
	defaultSettle   = 10 * time.Minute
	maxOverdue      = 30 * time.Minute // after which a search that could have been decided ends
	minPollPause    = 5 * time.Second
	maxPollPause    = 2 * time.Minute
	maxLatePause    = 5 * time.Minute // after many requests, or when only recordings are waited for
	slowRequests    = 14              // after each of which pauses may be two minutes longer
	maxRequests     = 180             // without those to storage
	maxFailedPolls  = 10              // in a row
	maxSearchedRows = 5000            // of one list
	maxCandidates   = 100             // that an error names
)

// FindCreatedParams configures [NotesService.FindCreated]. The zero value is ready to use, and assumes the least.
type FindCreatedParams struct {
	hidden

	// Settle is how long after the response was lost the service, or a proxy in front of it, may still be processing
	// the create. If zero, it defaults to 10 minutes. Values shorter than the upload itself are raised to its duration.
	Settle time.Duration
	// Exclude lists notes that come from other creates, by ID and CreatedAt. A note without a CreatedAt excludes any
	// note with its ID. Notes that Create of this client returned with the same token do not need to be listed.
	Exclude []*ProgressNote
	// Unresolved lists other creates for the same patient whose outcome is unknown, of this or another process.
	// FindCreated does not return a note that one of them may have made.
	Unresolved []*OutcomeUnknownError
	// UniqueName states that no other note of the patient has, or will have, exactly the name in Params, and that
	// neither the service nor a person changes it. The name alone then identifies the note. White space at the ends of
	// a name does not count, nor does how its characters are composed: names are compared in Unicode's form NFC.
	UniqueName bool
	// TrustPatientFilter accepts rows without a patient ID; see [ListNotesParams].
	TrustPatientFilter bool
	// WithoutAudio forbids reading recordings back in order to compare them.
	WithoutAudio bool
	// OnProgress, if not nil, is called in the goroutine of the call after each search that could not decide. It
	// receives the reason, and the time from which a search can decide.
	OnProgress func(reason string, decidable time.Time)
}

// Assumptions states what you know about the service. The zero value assumes nothing. FindCreated never infers any of
// this: a service may keep one recording as it was sent and compress the next one.
type Assumptions struct {
	// RecordingsUnchanged states that the service stores every recording exactly as it was sent, for good. FindCreated
	// then rules out a note whose recording differs.
	RecordingsUnchanged bool
	// NamesUnchanged states that neither the service nor a person changes the name of a note. FindCreated then rules
	// out a note with another name. It does not rule out a note that the service sends without a name.
	NamesUnchanged bool
}

// FindCreated determines the outcome of a Create that ended with an [*OutcomeUnknownError]. It searches the patient's
// notes, first immediately and then with growing pauses, until it can decide or the context ends.
//
//   - It returns the note if the response contained its ID, if its recording is byte for byte what was sent, or if it
//     has the unique name that the caller promises. Names, sizes, users and times that are merely alike prove nothing.
//   - It returns an error matching [ErrNotCreated] if no note can come from the create. For that, Settle must have
//     passed, and the list must be complete. The create must have been sent with the same token or by the same user.
//     Every note made since must be known to come from elsewhere. Creating the note again is then safe.
//   - Otherwise it returns an [*OutcomeUnknownError] that contains the reason and the time from which another call can
//     help. Another process can make that call, with the error decoded from JSON. The error's Candidates are the notes
//     that a person should compare.
//
// Pass the same headers and query parameters as in Create. They may select a tenant, so FindCreated does not decide
// with different ones. Headers that only name a request, such as X-Request-Id, may differ.
//
// If you construct the error yourself, set at least Params and SentAt, and AudioSHA256 or Params.Audio. FindCreated
// returns ErrNotCreated only if Service and UserID are set too. Without LostAt, Settle counts from now.
//
// A search ends at the latest 30 minutes after Settle, and makes at most 250 requests. It returns an error matching
// [ErrInvalidArgument] for invalid params.
func (s *NotesService) FindCreated(
	ctx context.Context, lost *OutcomeUnknownError, params FindCreatedParams, opts ...CallOption,
) (*ProgressNote, error) {
	return run(ctx, s.client, findCreated.name, opts, func(ctx context.Context, call *scope) (*ProgressNote, error) {
		if err := params.check(lost); err != nil {
			return nil, err
		}
		search := s.newSearch(lost, params, &call.options)
		if reason := search.cannotStart(); reason != "" {
			return nil, search.undecided(string(reason))
		}
		return search.run(ctx)
	})
}

// check rejects invalid params, and an error that no Create can have returned.
func (p *FindCreatedParams) check(lost *OutcomeUnknownError) error {
	switch {
	case lost == nil, lost.SentAt.IsZero():
		return invalid("Notes.FindCreated", "needs the error of a Create")
	case lost.NoteID < 0, lost.Params.PatientID < 0:
		return invalid("Notes.FindCreated", "needs the error of a Create; its ids must not be negative")
	case p.Settle < 0:
		return invalid("Notes.FindCreated: Settle", "must not be negative")
	case p.UniqueName && strings.TrimSpace(lost.Params.Name) == "":
		return invalid("Notes.FindCreated: UniqueName", "needs a name in the params of the Create")
	case !noneOrSHA256.MatchString(lost.AudioSHA256):
		return invalid("Notes.FindCreated: AudioSHA256", "is not 64 hexadecimal digits")
	case slices.ContainsFunc(p.Exclude, func(n *ProgressNote) bool { return n == nil || n.ID < 1 }):
		return invalid("Notes.FindCreated: Exclude", "contains a note without an ID")
	case slices.Contains(p.Unresolved, nil):
		return invalid("Notes.FindCreated: Unresolved", "contains nil")
	}
	return nil
}

var noneOrSHA256 = regexp.MustCompile(`^([0-9a-fA-F]{64})?$`)

// search is one call of FindCreated. It polls the patient's notes until it can decide.
type search struct {
	lost         OutcomeUnknownError
	params       FindCreatedParams
	notes        *NotesService
	opts         []CallOption
	registry     *creates.Registry
	create       creates.Create
	unresolved   []creates.Create
	audioSum     string // SHA-256 of the recording; empty if nothing can be compared
	sumIsCertain bool   // false if what was sent may differ, for example because the file has changed since

	window          creates.Window
	settledAt       time.Time // when the service must be done with the create, by our clock
	settledAtLatest time.Time // the same if our clock may have been set since the response was lost
	deadline        time.Time // of the search

	requester           requester
	response            *Response      // to the latest request
	clocksFurthestAhead creates.Clocks // when the service's clock was furthest ahead of ours
	sorting             sorting
	polls               int
	failedPolls         int // in a row
	rows                map[int64]row
	foundNote           *ProgressNote
	reading             creates.Reading
	unreadable          map[creates.Ref]bool // recordings that can never be read

	// These fields belong to the latest poll.
	seenWith   string // fingerprint of the token, headers and query that showed the notes
	clocks     creates.Clocks
	listAge    time.Duration // how much older the list may be than our clock says
	retryAfter time.Duration // as the service or storage asked
	candidates []*ProgressNote
}

// row is a note as the list last showed it.
type row struct {
	*ProgressNote

	made     creates.Made // by the clocks of its page
	lastPoll int          // the number of the poll that showed it last
}

// sorting is whether the service sorts lists as it is asked to.
type sorting int

const (
	sortingUnknown sorting = iota
	sortingIgnored
	sortingFollowed
)

// newSearch returns the search for a lost create. It registers the create, and the others that the caller lists, with
// the client, whose other searches then know of them.
func (s *NotesService) newSearch(lost *OutcomeUnknownError, params FindCreatedParams, options *callOptions) *search {
	l := &search{
		lost: *lost, params: params, notes: s, registry: s.client.creates,
		rows: map[int64]row{}, unreadable: map[creates.Ref]bool{},
		requester: requester{tenant: options.tenant()}, response: cmp.Or(options.response, new(Response)),
	}
	l.opts = []CallOption{
		options.inherited(),
		WithHeader("Cache-Control", "no-cache"), // a cached list may be older than the note
		option(func(inner *callOptions) {
			inner.requester = &l.requester
			inner.response = l.response
		}),
	}
	l.completeLoss()
	l.setTimes(time.Now())
	l.register()
	return l
}

// completeLoss adds what the error leaves out but implies: the size and the hash of the recording, and the form of the
// service's address that is compared.
func (l *search) completeLoss() {
	l.lost.AudioSize = l.lost.audioSize()
	l.lost.Service = exchange.Service(l.lost.Service)
	if !l.params.WithoutAudio {
		l.audioSum, l.sumIsCertain = l.lost.audioSum()
	}
	if l.sumIsCertain {
		l.lost.AudioSHA256 = l.audioSum
	}
}

// register registers the lost create and the others that the caller lists with the client.
func (l *search) register() {
	l.create = l.lost.asCreate()
	if !l.lost.details.NoteIDUnproven {
		l.create.Note = l.lost.NoteID
	}
	l.addUnresolved()
	l.registry.AddLost(l.create)
	foundBefore := l.registry.ClaimedNote(l.create)
	if l.isExcluded(foundBefore) { // the caller knows by now that it is another create's
		l.registry.Unclaim(l.create)
	}
}

// addUnresolved adds the other lost creates of the patient to the search. It hashes what they sent if the hash is not
// known yet.
func (l *search) addUnresolved() {
	for _, other := range l.params.Unresolved {
		if other.Params.PatientID != l.lost.Params.PatientID {
			continue
		}
		hashed := *other
		if sum, isCertain := other.audioSum(); isCertain {
			hashed.AudioSHA256 = sum
		}
		create := hashed.asCreate()
		l.registry.LearnRecording(create)
		l.unresolved = append(l.unresolved, create)
	}
}

// setTimes determines when the service must be done with the create: Settle after the response was lost, or as long as
// the upload took if that was longer. A time that another process noted counts only together with the service's
// clock, because ours may have been set since.
func (l *search) setTimes(now time.Time) {
	lostAt := now
	settle := cmp.Or(l.params.Settle, defaultSettle)
	if !l.lost.LostAt.IsZero() {
		upload := max(l.lost.LostAt.Sub(l.lost.SentAt), 0)
		settle = max(settle, upload)
		lostAt = l.lost.SentAt.Add(upload)
	}
	details := l.lost.details
	settleFrom := now // by our clock
	switch {
	case l.lost.fromThisProcess: // its times are of a clock that cannot be set
		settleFrom = lostAt
	case details.clocksCompared():
		settleFrom = details.ClocksReadAt
	}
	if details.clocksCompared() {
		// StaleFor then notices if our clock was set forward since.
		l.clocksFurthestAhead = creates.Clocks{Known: true, ServiceAhead: details.ahead()}
	}
	l.window = creates.Window{Sent: l.lost.SentAt.Unix(), Settled: lostAt.Add(settle).Unix()}
	l.settledAt = settleFrom.Add(settle)
	l.settledAtLatest = now.Add(settle)
	l.deadline = l.settledAtLatest.Add(maxOverdue)
}

// cannotStart returns why nothing can be decided about this create by this client, or "".
func (l *search) cannotStart() creates.Reason {
	details := l.lost.details // without a token if the caller constructed the error
	isAnonymous := l.lost.Params.PatientID == 0 && strings.TrimSpace(l.lost.Params.Name) == ""
	switch {
	case l.lost.Service != "" && l.lost.Service != l.notes.client.service():
		return creates.OtherService
	case details.TokenFingerprint != "" && details.Tenant != l.requester.tenant:
		return creates.OtherTenant
	case isAnonymous && l.lost.NoteID == 0 && l.audioSum == "":
		return creates.Nameless
	}
	return ""
}

// run polls until the outcome of the create is decided, or until waiting does not help.
func (l *search) run(ctx context.Context) (*ProgressNote, error) {
	reason := creates.NoList
	for {
		observed, failure := l.observe(ctx)
		if ctx.Err() != nil {
			return nil, l.undecided(string(reason)+": "+redact.Cause(ctx.Err()), ctx.Err(), context.Cause(ctx))
		}
		verdict := creates.Decide(observed)
		reason = verdict.Reason
		switch verdict.Outcome {
		case creates.NotCreated:
			l.registry.Resolve(l.create)
			return nil, &callError{op: findCreated, detail: notCreated, causes: []error{ErrNotCreated}}
		case creates.Found:
			if !l.registry.Claim(l.create, l.foundNote.ref(l.seenWith)) {
				return nil, l.undecided(string(creates.LostTwice))
			}
			return l.foundNote, nil
		case creates.Undecided:
		}
		if !verdict.Wait {
			return nil, l.undecidedAfter(failure, string(reason))
		}
		if l.requester.requests >= maxRequests || time.Now().After(l.deadline) {
			return nil, l.undecidedAfter(failure, string(reason)+": the search took too long; search again later")
		}
		if l.params.OnProgress != nil {
			l.params.OnProgress(string(reason), l.settledAt)
		}
		l.pause(ctx, observed.Settled, failure)
	}
}

// undecidedAfter is undecided with the failure of the last poll, which may be nil.
func (l *search) undecidedAfter(failure error, reason string) error {
	if failure == nil {
		return l.undecided(reason)
	}
	return l.undecided(reason+": "+redact.Cause(failure), failure)
}

const notCreated = "the note was not created; creating it again is safe"

// pause waits until the next poll. It waits longer with each poll and after many requests. Before settledAt it waits at
// most until a list can be from after that time, unless the service asks for a longer pause.
func (l *search) pause(ctx context.Context, settled bool, failure error) {
	longest := min(maxPollPause*time.Duration(1+l.requester.requests/slowRequests), maxLatePause)
	if settled {
		longest = maxLatePause
	}
	const noRetryAfter = 0 // it is honored below, within other bounds
	wait := exchange.Backoff(l.polls-1, minPollPause, longest, noRetryAfter, exchange.Jitter(ctx))
	if remaining := time.Until(l.settledAt); remaining > 0 {
		wait = min(wait, remaining+l.listAge) // a list of the same age is then of after settledAt
	}
	l.honorRetryAfter(failure)
	_ = poll.Sleep(ctx, max(wait, min(l.retryAfter, maxPollPause)))
}

// honorRetryAfter makes the next pause as long as the response asks for, if the failure is a response.
func (l *search) honorRetryAfter(failure error) {
	if refused, ok := errors.AsType[*Error](failure); ok {
		l.retryAfter = max(l.retryAfter, refused.RetryAfter)
	}
}

// undecided returns the lost create with the reason why its outcome is still unknown.
func (l *search) undecided(reason string, causes ...error) error {
	detail := "cannot determine whether the note was created: " + reason
	unknown := l.lost
	unknown.Candidates = nil
	for _, note := range l.candidates[:min(len(l.candidates), maxCandidates)] {
		unknown.Candidates = append(unknown.Candidates, note.ID)
	}
	if len(l.candidates) > 0 {
		detail += "; compare it with " + describe(l.candidates)
	}
	if time.Now().Before(l.settledAt) {
		detail += "; a search can decide it from " + l.settledAt.UTC().Format(time.RFC3339) + " on"
	}
	unknown.Err = &callError{op: findCreated, detail: detail, causes: causes}
	return &unknown
}

// describe names a few notes by their id and when they were created.
func describe(notes []*ProgressNote) string {
	const most = 5
	var names []string
	for _, note := range notes[:min(len(notes), most)] {
		name := "note " + strconv.FormatInt(note.ID, 10)
		if !note.CreatedAt.IsZero() {
			name += " of " + note.CreatedAt.UTC().Format(time.RFC3339)
		}
		names = append(names, name)
	}
	if more := len(notes) - most; more > 0 {
		names = append(names, strconv.Itoa(more)+" more")
	}
	return strings.Join(names, ", ")
}

// observe polls once: it reads the note that the create's response named, the list, and recordings. The error, if any,
// is why not more could be observed.
func (l *search) observe(ctx context.Context) (creates.Observation, error) {
	began := time.Now()
	l.startPoll(began)
	var observed creates.Observation
	var err error
	observed.Named, err = l.readNamed(ctx)
	if observed.Named == creates.NamedFits {
		return observed, nil
	}
	if err == nil {
		observed.List, err = l.list(ctx)
	}
	if err == nil && l.requester.tokenChanged {
		err = errTokenChanged
	}
	if err != nil {
		observed.List = l.countFailure(err)
		return observed, err
	}
	l.failedPolls = 0
	l.keepClocks(began)
	observed.Settled = l.isSettled(began.Add(-l.listAge))
	observed.SentInFuture = l.window.InFuture(l.clocks)
	observed.ReadableLater = l.readRecordings(ctx)
	l.compareNotes(&observed)
	err = l.observeSender(ctx, &observed)
	return observed, err
}

// startPoll clears what belongs to the poll before.
func (l *search) startPoll(now time.Time) {
	l.polls++
	l.seenWith = ""
	l.clocks = creates.Clocks{Now: now.Unix()}
	l.listAge = 0
	l.retryAfter = 0
	l.requester.startPoll()
	l.reading.Begin(now)
}

// observeSender adds to the observation whether the caller sent the create. isSender may cost a request, so it is
// called only if everything else shows that the note was not created. Otherwise SameSender does not matter and is true.
// While the search is undecided, learnUser may request the user, for a later search.
func (l *search) observeSender(ctx context.Context, observed *creates.Observation) (err error) {
	observed.SameSender = true
	switch creates.Decide(*observed).Outcome {
	case creates.Found:
	case creates.NotCreated:
		observed.SameSender, err = l.isSender(ctx)
		if err != nil {
			observed.List = l.countFailure(err)
		}
	case creates.Undecided:
		l.learnUser(ctx) // for a later search
	}
	return err
}

// isSettled reports whether the service must have been done with the create when the list was made, by our clock.
func (l *search) isSettled(listed time.Time) bool {
	if listed.Before(l.settledAt) {
		return false
	}
	wouldNoticeStep := l.lost.fromThisProcess || l.clocks.Known // if our clock had been set
	return wouldNoticeStep || !listed.Before(l.settledAtLatest)
}

const errTokenChanged = redact.Text("the token changed from one request to the next, perhaps to another user's")

// countFailure counts a failed poll, and returns what the failure means for the list.
func (l *search) countFailure(err error) creates.List {
	l.failedPolls++
	if mayPass(err) && !exchange.Permanent(err) && l.failedPolls < maxFailedPolls {
		return creates.ListFailing
	}
	return creates.ListUnreadable
}

// keepClocks keeps in the error how the clocks compare, unless it has that already. Another process may search next.
func (l *search) keepClocks(now time.Time) {
	if !l.clocks.Known || l.lost.details.clocksCompared() {
		return
	}
	l.lost.details.setClocks(now, l.clocks)
	l.lost.details.SentAtClockUnknown = !l.lost.fromThisProcess
}

// learnUser adds the user who sent the create to the error, if this search uses the sender's token and the error does
// not name the user yet. A later search, in another process, may use another token of the same user. Without the
// user, for example because the request for it failed, the error stays as it is.
func (l *search) learnUser(ctx context.Context) {
	if l.retryAfter > 0 { // the service wants no request now
		return
	}
	isKnown := l.lost.details.UserFingerprint != ""
	if isKnown || !l.hasSendersToken() {
		return
	}
	user, err := l.user(ctx)
	if err != nil {
		l.honorRetryAfter(err)
		return
	}
	l.lost.UserID = user.ID
	l.lost.details.UserFingerprint = user.Fingerprint
}

// hasSendersToken reports whether this search uses the token that sent the create.
func (l *search) hasSendersToken() bool {
	return l.lost.details.TokenFingerprint != "" && l.lost.details.TokenFingerprint == l.requester.tokenFingerprint
}

// isSender reports whether the caller is the sender of the create, and would see its note. The token is the same,
// or the service names the same user for both tokens.
func (l *search) isSender(ctx context.Context) (bool, error) {
	switch {
	case l.lost.Service == "": // the caller constructed the error and does not state it
		return false, nil
	case l.hasSendersToken():
		return true, nil
	case l.lost.UserID == 0: // the sender is not known
		return false, nil
	}
	user, err := l.user(ctx)
	if err != nil {
		return false, err
	}
	if l.lost.details.TokenFingerprint != "" {
		return user.Fingerprint == l.lost.details.UserFingerprint, nil
	}
	return user.ID == l.lost.UserID, nil // the caller constructed the error and states who sent it
}

// user returns the user whose token this search uses.
func (l *search) user(ctx context.Context) (creates.User, error) {
	if user := l.registry.Users.Get(l.requester.tokenFingerprint); user.ID != 0 {
		return user, nil
	}
	// The caller's WithResponse must show the list, not the user.
	opts := slices.Concat(l.opts, []CallOption{WithResponse(new(Response))})
	if _, err := l.notes.client.Users.Me(ctx, opts...); err != nil {
		return creates.User{}, err
	}
	return l.registry.Users.Get(l.requester.tokenFingerprint), nil // where Me has stored it
}

// readNamed reads the note whose id the response to the create held, or that an earlier search found for it. It returns
// whether that is the create's note, which it then stores in foundNote.
func (l *search) readNamed(ctx context.Context) (creates.Named, error) {
	foundBefore := l.registry.ClaimedNote(l.create)
	id := foundBefore.ID
	if id == 0 && !l.lost.details.NoteIDUnproven {
		id = l.lost.NoteID
	}
	if id == 0 {
		return creates.NotNamed, nil
	}
	asked := time.Now()
	note, err := l.notes.Get(ctx, id, l.opts...)
	switch {
	case errors.Is(err, ErrNotFound):
		return creates.NamedGone, nil
	case err != nil:
		return creates.NotNamed, err
	}
	l.seenWith = l.requester.tokenFingerprint
	l.readClocks(asked)
	fits := l.fitsCreate(note)
	if foundBefore.ID != 0 { // all else was compared when it was found, and may have been edited since
		fits = foundBefore.Is(note.ref(anyTenant)) && l.isOfPatient(note)
	}
	if fits {
		l.foundNote = note
		return creates.NamedFits, nil
	}
	if l.isOfPatient(note) {
		l.rows[note.ID] = row{note, l.window.Compare(note.CreatedAt, l.clocks), l.polls}
	}
	return creates.NamedDiffers, nil
}

// fitsCreate reports whether the create can have made the note. No other create is known to have made it, and its
// patient, time, name, user and size do not differ. The response to the create held its id.
func (l *search) fitsCreate(note *ProgressNote) bool {
	var sentByOthers []string // no recording counts as another create's, because the response held this id
	switch {
	case l.isOfAnotherCreate(note, sentByOthers), !l.isOfPatient(note):
		return false
	case l.window.Compare(note.CreatedAt, l.clocks) != creates.MadeSince:
		return false
	case creates.CompareNames(l.lost.Params.Name, note.Name) == creates.NameOther:
		return false
	case l.hasOtherUser(note):
		return false
	}
	return !l.hasOtherSize(note)
}

// hasOtherUser reports whether the note was made by another user. An unknown user is not another one.
func (l *search) hasOtherUser(note *ProgressNote) bool {
	maker := note.maker()
	if maker == 0 || l.lost.UserID == 0 {
		return false
	}
	return maker != l.lost.UserID
}

// hasOtherSize reports whether the note's recording has another size. An unknown size is not another one.
func (l *search) hasOtherSize(note *ProgressNote) bool {
	if note.Audio == nil || note.Audio.Size <= 0 {
		return false
	}
	return l.lost.AudioSize >= 0 && l.lost.AudioSize != note.Audio.Size
}

// isOfPatient reports whether the note may be the patient's, or names no patient if the create had none.
func (l *search) isOfPatient(note *ProgressNote) bool {
	patient := l.lost.Params.PatientID
	if patient == 0 {
		return namesNoPatient(note)
	}
	return note.comparePatient(patient) != namesOther
}

// namesNoPatient reports whether the note names no patient at all. A patient without a readable id is a patient.
func namesNoPatient(note *ProgressNote) bool {
	return note.comparePatient(0) == namesNone && slices.Contains([]string{"", "{}", "[]"}, note.Patient.raw)
}

// view returns what other creates mean for this one.
func (l *search) view() creates.View {
	return l.registry.View(l.create, l.unresolved, l.params.UniqueName)
}

// compareNotes adds to the observation what the notes that were seen so far show. It sets candidates to those that may
// be the create's and still exist.
func (l *search) compareNotes(observed *creates.Observation) {
	view := l.view()
	observed.Twin = view.Twin
	observed.AnotherUnderWay = view.AnotherUnderWay
	l.candidates = nil
	for _, row := range l.nearestFirst() {
		if l.isOfAnotherCreate(row.ProgressNote, view.Recordings) {
			continue
		}
		gone := l.isGone(row)
		if !gone {
			l.candidates = append(l.candidates, row.ProgressNote)
		}
		observed.Unexplained++ // also if it differs or is gone: no other create explains it
		switch l.match(row) {
		case creates.Equal:
			l.addMatch(observed, row, gone)
		case creates.Unread:
			observed.UnreadMayMatch = true
		case creates.Differs: // the service may have changed the recording, so the note remains unexplained
		}
	}
}

// isGone reports whether the latest poll did not show a row that an earlier one has shown.
func (l *search) isGone(row row) bool { return row.lastPoll != l.polls }

// addMatch adds to the observation a note that has the recording, or the name if that is unique.
func (l *search) addMatch(observed *creates.Observation, row row, gone bool) {
	switch {
	case gone: // a deleted note cannot be returned; it is counted only as unexplained
	case row.made == creates.MadeSince, l.params.UniqueName: // a unique name is proof, also of a note made earlier
		observed.Matching++
		l.foundNote = row.ProgressNote
	default:
		observed.HasEarlierMatch = true
	}
}

// match compares a note with the create: by its name if that is unique, or else by its recording.
func (l *search) match(row row) creates.Match {
	if !l.params.UniqueName {
		return l.recordingOf(row.ProgressNote).Compare(l.lost.AudioSize, l.audioSum)
	}
	if creates.CompareNames(l.lost.Params.Name, row.Name) == creates.NameEqual {
		return creates.Equal
	}
	return creates.Differs
}

// recordingOf returns what is known of the note's recording. It is zero if the recording was not read.
func (l *search) recordingOf(note *ProgressNote) creates.Recording {
	return l.registry.Recordings.Get(note.ref(l.seenWith))
}

// isOfAnotherCreate reports whether the note is known to come from another create: the caller excluded it, its create
// is known, or its recording or its name rules out this create. Other lost creates sent recordings with these hashes.
func (l *search) isOfAnotherCreate(note *ProgressNote, sentByOthers []string) bool {
	ref := note.ref(l.seenWith)
	if l.isExcluded(ref) || l.registry.Explains(l.create, l.lost.SentAt, ref) {
		return true
	}
	return l.hasOtherRecording(note, sentByOthers) || l.hasOtherName(note)
}

// hasOtherRecording reports whether the note's recording rules out this create. Either another lost create sent it, or
// it differs from what was sent and the service is known to keep recordings unchanged.
func (l *search) hasOtherRecording(note *ProgressNote, sentByOthers []string) bool {
	if !l.sumIsCertain {
		return false
	}
	recording := l.recordingOf(note)
	if recording.SHA256 != l.audioSum && slices.Contains(sentByOthers, recording.SHA256) {
		return true
	}
	differs := recording.Compare(l.lost.AudioSize, l.audioSum) == creates.Differs
	return l.notes.client.assumptions.RecordingsUnchanged && differs
}

// hasOtherName reports whether the note's name differs, and names are known not to change.
func (l *search) hasOtherName(note *ProgressNote) bool {
	keepsNames := l.notes.client.assumptions.NamesUnchanged || l.params.UniqueName
	return keepsNames && creates.CompareNames(l.lost.Params.Name, note.Name) == creates.NameOther
}

// isExcluded reports whether the caller excludes the note.
func (l *search) isExcluded(note creates.Ref) bool {
	return slices.ContainsFunc(l.params.Exclude, func(n *ProgressNote) bool { return n.ref(anyTenant).Is(note) })
}

// nearestFirst returns the notes that were seen so far, sorted by how near they were made to when the create was sent.
func (l *search) nearestFirst() []row {
	sentByService := l.lost.SentAt.Add(time.Duration(l.clocks.ServiceAhead) * time.Second)
	rows := make([]row, 0, len(l.rows))
	for _, row := range l.rows {
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b row) int {
		byTime := cmp.Compare(a.CreatedAt.Sub(sentByService).Abs(), b.CreatedAt.Sub(sentByService).Abs())
		return cmp.Or(byTime, cmp.Compare(a.ID, b.ID))
	})
	return rows
}

// readRecordings reads the recordings of the notes that this create may have made, except those that earlier polls have
// read. It reports whether a later poll may read more.
func (l *search) readRecordings(ctx context.Context) (readableLater bool) {
	if l.audioSum == "" || l.params.UniqueName {
		return false
	}
	sentByOthers := l.view().Recordings
	for _, row := range l.nearestFirst() {
		ref := row.ref(l.seenWith)
		if l.isGone(row) || l.unreadable[ref] {
			continue
		}
		if l.match(row) != creates.Unread || l.isOfAnotherCreate(row.ProgressNote, sentByOthers) {
			continue
		}
		wasRead := l.readRecording(ctx, ref)
		if !wasRead && !l.unreadable[ref] {
			readableLater = true
		}
	}
	return readableLater && l.reading.MayReadLater()
}

// readRecording reads a recording, up to the first byte that shows another length. It reports whether the recording
// can be compared now. A read is not retried: the next poll reads it again.
func (l *search) readRecording(ctx context.Context, note creates.Ref) bool {
	if l.retryAfter > 0 || l.requester.requests >= maxRequests {
		return false
	}
	if !l.reading.MayRead(time.Now()) || ctx.Err() != nil {
		return false
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	size := l.lost.AudioSize
	hash := sha256.New()
	var got creates.Recording
	onProgress := func(received, total int64) {
		got.Size = max(total, 0)
		if size > 0 && received > size {
			got.LongerThan = size
		}
		if got.Compare(size, l.audioSum) == creates.Differs {
			stop()
		}
	}
	params := DownloadParams{OnProgress: onProgress, IgnoreSize: true}
	_, err := l.notes.DownloadAudio(ctx, note.ID, hash, params, append(l.opts, WithoutRetry())...)
	if err == nil {
		got.SHA256 = hex.EncodeToString(hash.Sum(nil))
	}
	if got.Compare(size, l.audioSum) == creates.Unread {
		l.readFailed(note, err)
		return false
	}
	l.reading.Done()
	l.registry.Recordings.Put(note, got)
	return true
}

// readFailed records that a recording could not be read, now or for good.
func (l *search) readFailed(note creates.Ref, err error) {
	l.honorRetryAfter(err)
	if exchange.Permanent(err) || errors.Is(err, download.ErrAddress) {
		l.unreadable[note] = true
		l.reading.Done() // not Failed: later polls do not read it again, so they need no pause for it
		return
	}
	l.reading.Failed(errors.Is(err, ErrNotFound))
}

// list reads the patient's notes until no further note can matter.
func (l *search) list(ctx context.Context) (creates.List, error) {
	rule := list.Twice
	if l.polls > 1 && time.Now().Before(l.settledAt) {
		// The search can end with NotCreated only by a poll after settledAt, which reads the list twice.
		rule = list.AsGiven
	}
	var made []time.Time // when the notes of this walk were created
	for visit, err := range list.Through(ctx, list.List[fetchedPage[ProgressNote]]{Fetch: l.fetch, Rule: rule}) {
		if err != nil {
			return l.listEnded(ctx, err, made)
		}
		if visit.At == (list.Position{}) { // a walk begins: the first one, or its repetition
			made = nil
		}
		if len(made) >= maxSearchedRows {
			return creates.ListUnreadable, errTooMany
		}
		for i := range visit.Value.Items {
			made = append(made, visit.Value.Items[i].CreatedAt)
			l.addRow(&visit.Value.Items[i])
		}
		if visit.Enough == nil { // the walk does not continue with a next page
			continue
		}
		*visit.Enough, err = l.isPastWindow(ctx, made)
		if err != nil {
			return creates.ListUnreadable, err
		}
	}
	return creates.ListComplete, nil
}

const errTooMany = redact.Text("there are too many notes to search; check the sort parameter in WithQueryNames")

// listEnded returns what was seen of a list that ended with an error. A list that is not complete, for example
// because its total counts deleted notes, may still have been read past the window.
func (l *search) listEnded(ctx context.Context, err error, made []time.Time) (creates.List, error) {
	incomplete, isIncomplete := errors.AsType[*list.IncompleteError](err)
	switch {
	case !isIncomplete:
		return creates.ListUnreadable, err
	case incomplete.Err != nil:
		return creates.ListUnreadable, incomplete.Err
	}
	isPast, err := l.isPastWindow(ctx, made)
	switch {
	case err != nil:
		return creates.ListUnreadable, err
	case isPast:
		return creates.ListComplete, nil
	}
	return creates.ListUnproven, nil
}

// isPastWindow reports whether the rest of the list is older than the create, so none of it can be the create's note.
// The argument is when the notes so far were created. If these are sorted, it also finds out whether the service sorts,
// or whether they are in this order by accident.
func (l *search) isPastWindow(ctx context.Context, made []time.Time) (bool, error) {
	if !l.window.Past(made, l.clocks) {
		return false, nil
	}
	if l.sorting == sortingUnknown {
		if err := l.learnSorting(ctx, made); err != nil {
			return false, err
		}
	}
	return l.sorting == sortingFollowed, nil
}

// learnSorting requests the list in the other order, and sets sorting to whether the service follows. If the request
// fails, sorting stays unknown. The error is returned only if the service asks for a pause.
func (l *search) learnSorting(ctx context.Context, made []time.Time) error {
	_, page, err := l.fetch(ctx, list.Position{Size: 1, Reversed: true})
	l.honorRetryAfter(err)
	switch {
	case l.retryAfter > 0:
		return err
	case err != nil:
		return nil //nolint:nilerr // the list itself could be read
	}
	l.sorting = sortingIgnored
	if len(page.Items) > 0 && creates.ReversedBeginsWithOldest(made, page.Items[0].CreatedAt) {
		l.sorting = sortingFollowed
	}
	return nil
}

// fetch requests a page and compares the clocks. It fails if the search has made too many requests.
func (l *search) fetch(ctx context.Context, at list.Position) (list.Page, fetchedPage[ProgressNote], error) {
	if l.requester.requests >= maxRequests {
		return list.Page{}, fetchedPage[ProgressNote]{}, errTooMany
	}
	params := ListNotesParams{
		PatientID: l.lost.Params.PatientID, PerPage: maxPerPage, Sort: SortLatest,
		TrustPatientFilter: l.params.TrustPatientFilter,
	}
	asked := time.Now()
	page, fetched, err := pageSource[ProgressNote]{list: l.notes.list(params), opts: l.opts}.fetch(ctx, at)
	if err == nil {
		l.seenWith = l.requester.tokenFingerprint
		l.readClocks(asked)
		l.listAge = max(l.listAge, l.clocks.StaleFor(&l.clocksFurthestAhead))
	}
	return page, fetched, err
}

// readClocks sets clocks: how far the service's clock is ahead by the latest response, and how far its notes' times are
// off, as this client's creates and the error show. The request was sent at this time.
func (l *search) readClocks(asked time.Time) {
	atLoss := l.lost.details
	byCreates := l.registry.Clocks(asked)
	clocks := creates.ReadClocks(l.response.Header, asked, time.Now())
	clocks.NotesBackdatedBy = max(atLoss.NotesBackdatedBy, byCreates.NotesBackdatedBy)
	clocks.NoteTimesVerified = atLoss.NoteTimesVerified || byCreates.NoteTimesVerified
	wereCompared := clocks.Known && clocks.NoteTimesVerified // the notes' times with ours, by the service's clock
	clocks.Zoneless = l.response.zoneless
	clocks.MayBeHoursOff = clocks.Zoneless || !wereCompared
	if !l.lost.fromThisProcess {
		compareWithLoss(&clocks, atLoss)
	}
	l.clocks = clocks
}

// compareWithLoss adds to the clocks how much further ahead the service's was when another process lost the create. If
// that process did not know it, the times may be off by hours.
func compareWithLoss(clocks *creates.Clocks, atLoss lossDetails) {
	if atLoss.SentAtClockUnknown || !atLoss.clocksCompared() {
		clocks.MayBeHoursOff = true
	}
	if !atLoss.clocksCompared() {
		return
	}
	furtherAhead := atLoss.ahead() - clocks.ServiceAhead
	if !clocks.Known || max(furtherAhead, -furtherAhead) > clocks.AheadUncertainty {
		clocks.FurtherAheadWhenSent = furtherAhead
	}
}

// addRow adds a note of the list to rows if it may be the create's. A note that was made outside the window cannot be,
// unless the caller promises a unique name and the note has one that may be it. If the create had no patient, a note
// with a patient cannot be either.
func (l *search) addRow(note *ProgressNote) {
	if l.lost.Params.PatientID == 0 && !namesNoPatient(note) {
		return
	}
	made := l.window.Compare(note.CreatedAt, l.clocks)
	hasName := strings.TrimSpace(note.Name) != ""
	mayHaveUniqueName := l.params.UniqueName && hasName &&
		creates.CompareNames(l.lost.Params.Name, note.Name) != creates.NameOther
	if mayHaveUniqueName || made != creates.MadeOutside {
		l.rows[note.ID] = row{note, made, l.polls}
	}
}

// requester records who makes the requests of a call, and how many.
type requester struct {
	tokenFingerprint string // of the latest token and the tenant; empty before the first request of a poll
	tenant           string // see callOptions.tenant
	tokenChanged     bool   // two requests of this poll had different tokens
	requests         int
	sentAt           time.Time // when the latest request was sent
}

// startPoll forgets the token of earlier requests.
func (r *requester) startPoll() {
	r.tokenFingerprint = ""
	r.tokenChanged = false
}

// recordRequest records that a request with this Authorization header is about to be sent. It sets tokenChanged if the
// request before, of the same poll, had another header. A nil requester records nothing.
func (r *requester) recordRequest(authorization string) {
	if r == nil {
		return
	}
	before := r.tokenFingerprint
	r.tokenFingerprint = fingerprint(authorization + r.tenant)
	if before != "" && before != r.tokenFingerprint {
		r.tokenChanged = true
	}
	r.requests++
	r.sentAt = time.Now()
}

func fingerprint(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

func (c *Client) service() string { return exchange.Service(c.base) }

// identify records in the error of a lost create which create it was, who sent it to which tenant, what was sent, and
// how the clocks compared.
func (c *Client) identify(e *OutcomeUnknownError, u *upload, by *requester) {
	user := c.creates.Users.Get(by.tokenFingerprint)
	e.ID = rand.Text()
	e.Service = c.service()
	e.UserID = user.ID
	e.AudioSize = u.audioSize()
	e.AudioSHA256 = u.sentSum()
	e.fromThisProcess = true
	e.details.TokenFingerprint = by.tokenFingerprint
	e.details.UserFingerprint = user.Fingerprint
	e.details.Tenant = by.tenant
	clocks := c.creates.Clocks(e.LostAt)
	e.details.NotesBackdatedBy = clocks.NotesBackdatedBy
	e.details.NoteTimesVerified = clocks.NoteTimesVerified
	e.details.SentAtClockUnknown = !clocks.Known
	if clocks.Known {
		e.details.setClocks(e.LostAt, clocks)
	}
}

const anyTenant = "" // for references that are only compared by Ref.Is, which ignores the tenant

// ref identifies the note, as it was seen with a token at a tenant. Some services select the tenant by the token alone.
func (n *ProgressNote) ref(tokenFingerprint string) creates.Ref {
	return creates.NewRef(n.ID, n.CreatedAt, tokenFingerprint)
}

// maker returns the ID of the user who made the note, or 0 if the note names no user, or two different ones.
func (n *ProgressNote) maker() int64 {
	userID, named := n.User.ID()
	id := cmp.Or(n.UserID, userID)
	if named && userID != id {
		return 0
	}
	return max(id, 0)
}

// audioSize returns the size of the recording that was sent: -1 if it is not known, 0 if there was none.
func (e *OutcomeUnknownError) audioSize() int64 {
	if e.AudioSize == 0 && e.Params.Audio != nil {
		return e.Params.Audio.Size()
	}
	return e.AudioSize
}

// asCreate returns the create, as the registry of this client remembers it.
func (e *OutcomeUnknownError) asCreate() creates.Create {
	sum := strings.ToLower(e.AudioSHA256)
	return creates.NewCreate(e.Params.PatientID, e.Params.Name, e.audioSize(), e.ID, e.SentAt, sum)
}

// audioSum returns the SHA-256 of the recording, empty if it is not known, and whether it is certainly of what was
// sent. It is computed here and not by Create, whose caller should not wait for it.
func (e *OutcomeUnknownError) audioSum() (sum string, isCertain bool) {
	if e.AudioSHA256 != "" {
		return strings.ToLower(e.AudioSHA256), true
	}
	sum, err := e.Params.Audio.sum()
	isCertain = err == nil && e.fromThisProcess && e.Params.Audio.immutable
	return sum, isCertain
}

// lossDetails holds what else FindCreated has to know of a lost create, as its JSON keeps it.
type lossDetails struct {
	TokenFingerprint   string    `json:"token_fingerprint,omitempty"` // that sent it
	UserFingerprint    string    `json:"user_fingerprint,omitempty"`  // whom the service named for that token
	Tenant             string    `json:"where,omitempty"`             // see callOptions.tenant
	ClocksReadAt       time.Time `json:"clock_read_at,omitzero"`      // when both clocks were read, by ours
	ServiceClock       time.Time `json:"service_clock,omitzero"`      // and by the service's
	SentAtClockUnknown bool      `json:"clock_unknown,omitempty"`     // the clock that gave SentAt was never compared
	// NoteIDUnproven is set if the response contained an id and nothing that shows that it is a note's.
	NoteIDUnproven    bool  `json:"note_id_unproven,omitempty"`
	NotesBackdatedBy  int64 `json:"late_seconds,omitempty"` // see creates.Clocks
	NoteTimesVerified bool  `json:"times_tried,omitempty"`
}

// setClocks records how the clocks compare at a time of ours.
func (d *lossDetails) setClocks(now time.Time, clocks creates.Clocks) {
	d.ClocksReadAt = now
	d.ServiceClock = now.Add(time.Duration(clocks.ServiceAhead) * time.Second)
}

// clocksCompared reports whether ClocksReadAt and ServiceClock are known.
func (d lossDetails) clocksCompared() bool { return !d.ServiceClock.IsZero() }

// ahead returns how far the service's clock was ahead of ours, in seconds.
func (d lossDetails) ahead() int64 {
	return int64(d.ServiceClock.Sub(d.ClocksReadAt).Round(time.Second) / time.Second)
}

// storedLoss is the JSON of an OutcomeUnknownError.
type storedLoss struct {
	publicLoss
	lossDetails

	Error string `json:"error"`
}

type publicLoss OutcomeUnknownError // without its methods

// MarshalJSON encodes all that FindCreated needs, also in another process. The JSON contains patient data: the note's
// name and the patient's ID. It keeps the text of Err, and the SHA-256 of the recording, for which the recording is
// read.
func (e OutcomeUnknownError) MarshalJSON() ([]byte, error) {
	if sum, isCertain := e.audioSum(); isCertain {
		e.AudioSHA256 = sum
	}
	e.AudioSize = e.audioSize()
	e.SentAt = e.SentAt.UTC()
	e.LostAt = e.LostAt.UTC()
	e.details.ClocksReadAt = e.details.ClocksReadAt.UTC()
	e.details.ServiceClock = e.details.ServiceClock.UTC()
	stored := storedLoss{publicLoss: publicLoss(e), lossDetails: e.details}
	if e.Err != nil {
		stored.Error = text(e.Err)
	}
	return json.Marshal(stored)
}

// UnmarshalJSON decodes what MarshalJSON encoded. The JSON of version 0.1 does not identify who sent the create:
// FindCreated returns ErrNotCreated for it only if you set Service and UserID.
func (e *OutcomeUnknownError) UnmarshalJSON(data []byte) error {
	var stored storedLoss
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	*e = OutcomeUnknownError(stored.publicLoss)
	e.details = stored.lossDetails
	if stored.Error != "" {
		e.Err = redact.Text(stored.Error)
	}
	return nil
}
