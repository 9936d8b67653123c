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
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/list"
	"github.com/clinicaldoc/clinicaldoc-go/internal/poll"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

var findCreated = &operation{"Notes.FindCreated", http.MethodGet, "/v1/progress-notes", exchange.Reads}

const (
	defaultSettle   = 10 * time.Minute
	minLookPause    = time.Second
	maxLookPause    = time.Minute
	maxLatePause    = 4 * time.Minute // when only recordings are waited for
	maxFailedLooks  = 10              // in a row
	maxSearchedRows = 5000            // of one list
	maxRequests     = 180             // after which no recording is waited for
	slowRequests    = 40              // after so many the pauses grow on
)

// FindCreatedParams says how sure [NotesService.FindCreated] has to be. The zero value is the careful choice.
type FindCreatedParams struct {
	hidden

	// Settle is how long after the response was lost the service, or a proxy before it, may still be at work on the create, until
	// its lists show the note; 0 means 10 minutes. It never counts less than the upload itself took.
	Settle time.Duration
	// ExcludeIDs are notes that come from elsewhere, as somebody knows who has just looked at them, also if one was found for this
	// create before. Those that Create of this client returned need not be named.
	ExcludeIDs []int64
	// ExcludeNotes are such notes that were seen at some time, by ID and CreatedAt: a service may use an id again. One without a
	// CreatedAt says of a note that was made since only that it is not to be returned.
	ExcludeNotes []*ProgressNote
	// UniqueName guarantees that no other note of the patient has or will have the name in Params, to the letter, and that
	// nobody renames the note meanwhile. Then the name alone decides, whatever sizes, users and clocks say.
	UniqueName bool
	// TrustPatientFilter accepts rows that name no patient; see [ListNotesParams].
	TrustPatientFilter bool
	// WithoutAudio forbids to read recordings back in order to compare them.
	WithoutAudio bool
	// Result, when set, is filled with how the note was found.
	Result *FindCreatedResult
}

// FindCreatedResult says how [NotesService.FindCreated] came to its result.
type FindCreatedResult struct {
	// By is how the note was found: "response", its id was in the response; "name", no other has its name; "content", its
	// recording is what was sent; "likeness", everything else fits. Empty: it was not found.
	By string
	// Recordings is how many were read back and compared.
	Recordings int
}

// FindCreated finds out what became of a Create whose outcome is unknown, by looking among the patient's newest notes: at
// once and then in growing pauses, until it can decide or the context ends.
//
//   - It returns a note when everything fits (patient, name, size, user, time) and nothing else explains it, or when its
//     recording is byte for byte what was sent. Recordings are read only where all else does not decide.
//   - It returns [ErrNotCreated] only to the user who sent it, when Settle has passed, the list was surely seen whole and no
//     note resembles it. Creating it again is safe then.
//   - Everything else is undecided: an [*OutcomeUnknownError], at once when waiting cannot help. Its Err says why and from
//     when on it can be decided. It can be asked again, also by another process, from its JSON.
//
// Headers and query of the Create are given again: any of them may pick a tenant, and with others nothing is said. Only those that
// name a request, such as X-Request-Id, do not matter.
//
// To resolve several lost creates, ask about each once with a cancelled context first: a note may fit more than one.
//
// An error put together from Params, SentAt and AudioSize is enough to find a note; that there is none is said only if Service and
// UserID are filled in too. Without LostAt, Settle counts from now. When the error holds a NoteID, that note is read and returned
// if it is the patient's. Bad params are [ErrInvalidArgument].
func (s *NotesService) FindCreated(ctx context.Context, lost *OutcomeUnknownError, params FindCreatedParams, opts ...CallOption) (*ProgressNote, error) {
	return run(ctx, s.client, findCreated.name, opts, func(ctx context.Context, call *scope) (*ProgressNote, error) {
		l, err := s.newSearch(lost, params, &call.options)
		if err != nil {
			return nil, err
		}
		return l.find(ctx)
	})
}

func (l *search) find(ctx context.Context) (*ProgressNote, error) {
	switch {
	case l.lost.Service != "" && l.lost.Service != l.notes.client.service():
		return nil, l.undecided(string(creates.Elsewhere))
	case l.lost.kept.Token != "" && l.lost.kept.Where != l.asker.where:
		return nil, l.undecided(string(creates.OtherTenant))
	case l.lost.NoteID == 0 && l.lost.Params.PatientID == 0 && strings.TrimSpace(l.lost.Params.Name) == "":
		return nil, l.undecided("the note was created without a name and a patient, so that nothing can tell it from others")
	}
	reason := creates.NoList
	for {
		evidence, failure := l.look(ctx)
		if ctx.Err() != nil {
			when := "; ask again"
			if time.Now().Before(l.settledAt) {
				when = "; it can be decided after " + l.settledAt.UTC().Format(time.RFC3339)
			}
			return nil, l.undecided(string(reason)+": "+redact.Cause(ctx.Err())+when, ctx.Err(), context.Cause(ctx))
		}
		v := creates.Decide(evidence)
		reason = v.Reason
		switch {
		case v.By == creates.NotCreated:
			l.registry.Resolve(l.loss)
			return nil, &callError{op: findCreated, detail: "the note was not created; creating it again is safe", causes: []error{ErrNotCreated}}
		case v.By != "" && l.registry.Claim(l.loss, l.found.ref(l.asker.where), v.By == creates.ByContent):
			l.params.Result.By = string(v.By)
			return l.found, nil
		case v.By != "":
			return nil, l.undecided(string(creates.Several))
		case !v.Wait && failure != nil:
			return nil, l.undecided(string(reason)+": "+redact.Cause(failure), failure)
		case !v.Wait:
			return nil, l.undecided(string(reason))
		case evidence.Settled && l.asker.requests > maxRequests:
			return nil, l.undecided(string(reason) + ": it took too many requests; ask again")
		}
		l.pause(ctx, evidence.Settled, failure)
	}
}

// pause waits for the next look, which is not later than the time from which on it can be decided, or for the context's end.
func (l *search) pause(ctx context.Context, settled bool, failure error) {
	longest := min(maxLookPause*time.Duration(1+l.asker.requests/slowRequests), maxLatePause)
	if settled {
		longest = maxLatePause
	}
	wait := exchange.Backoff(l.looks-1, minLookPause, longest, 0, exchange.Jitter(ctx))
	if remaining := time.Until(l.settledAt); remaining > 0 { // later, what a cache keeps grows old as fast as time goes
		wait = min(wait, remaining+l.stale)
	}
	l.heed(failure)
	_ = poll.Sleep(ctx, max(wait, min(l.retryAfter, maxLookPause)))
}

// heed takes in how long a refusal asks to wait.
func (l *search) heed(failure error) {
	if refused, ok := errors.AsType[*Error](failure); ok {
		l.retryAfter = max(l.retryAfter, refused.RetryAfter)
	}
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
		return e.Params.Audio.Size()
	}
	return e.AudioSize
}

// create is what this client remembers the create by.
func (e *OutcomeUnknownError) create() creates.Create {
	return creates.NewCreate(e.Params.PatientID, e.Params.Name, e.audioSize(), e.ID, e.SentAt, e.AudioSHA256)
}

var noneOrSHA256 = regexp.MustCompile(`^([0-9a-fA-F]{64})?$`)

// recording returns the SHA-256 of the recording, empty if it is not known, and whether it surely is of what was sent. It is
// computed here, and not by Create: the caller of that has lost enough time.
func (e *OutcomeUnknownError) recording() (sum string, exact bool) {
	if e.AudioSHA256 != "" {
		return strings.ToLower(e.AudioSHA256), true
	}
	sum, err := e.Params.Audio.sum()
	return sum, err == nil && e.exact && e.Params.Audio.fixed
}

// sender is who made the latest request of a call.
type sender struct {
	token    string // its fingerprint, and that of where it was sent
	where    string // see callOptions.where
	changed  bool   // there was another token before
	requests int    // with the token
	sent     time.Time
}

// sends takes in that a request is about to be sent. Without a sender nobody wants to know.
func (s *sender) sends(authorization string) {
	if s != nil {
		before := s.token
		s.token, s.requests, s.sent = fingerprint(authorization+s.where), s.requests+1, time.Now()
		s.changed = s.changed || before != "" && before != s.token
	}
}

func fingerprint(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

func (c *Client) service() string { return exchange.Service(c.base) }

// maxControl is the largest recording in memory that a client holds on to.
const maxControl = 1 << 20

// remember keeps what a note that Create returned shows of others; nil: none was returned.
func (c *Client) remember(note *ProgressNote, u *upload, s *sender) {
	if note == nil {
		return
	}
	c.creates.Returned(note.ref(s.where), s.sent, time.Now())
	if user := note.maker(); user != 0 {
		c.creates.Users.Put(s.token, user)
	}
	control := creates.Control{Note: note.ref(""), Size: u.audioSize(), SHA256: u.sentSum()}
	if a := u.audio; a != nil && a.fixed && (a.length <= maxControl || !a.memory) {
		control.Compute = a.sum
	}
	c.creates.SetControl(u.mediaType, control)
}

// identify says of a lost create which one it is, where it was sent, by whom, and what.
func (c *Client) identify(e *OutcomeUnknownError, u *upload, s *sender) {
	e.ID, e.Service, e.UserID = rand.Text(), c.service(), c.creates.Users.Get(s.token)
	e.AudioSize, e.AudioSHA256, e.exact = u.audioSize(), u.sentSum(), true
	clocks := c.creates.Clocks(e.LostAt)
	e.kept = lossDetails{Token: s.token, Where: s.where, AudioType: u.mediaType, NoClock: !clocks.Known, Late: clocks.Late, Control: c.creates.Controls.Get(u.mediaType)}
	if clocks.Known {
		e.kept.ClockRead, e.kept.Clock = e.LostAt, e.LostAt.Add(time.Duration(clocks.Ahead)*time.Second)
	}
}

// ref names the note, as it was seen there.
func (n *ProgressNote) ref(where string) creates.Ref { return creates.NewRef(n.ID, n.CreatedAt, where) }

// maker is the user who made the note; 0: it does not say, or names two.
func (n *ProgressNote) maker() int64 {
	inside, named := n.User.ID()
	id := cmp.Or(n.UserID, inside)
	if id < 0 || named && inside != id {
		return 0
	}
	return id
}

// lossDetails is what FindCreated has to know of a lost create besides, as JSON keeps it.
type lossDetails struct {
	Token     string          `json:"token_fingerprint,omitempty"` // it was sent with
	Where     string          `json:"where,omitempty"`             // see callOptions.where
	AudioType string          `json:"audio_type,omitempty"`
	ClockRead time.Time       `json:"clock_read_at,omitzero"`  // when both clocks were read, at the loss or later, by ours
	Clock     time.Time       `json:"service_clock,omitzero"`  // and by the service's
	NoClock   bool            `json:"clock_unknown,omitempty"` // nobody has compared the clock that gave SentAt
	Late      int64           `json:"late_seconds,omitempty"`  // see creates.Clocks
	Control   creates.Control `json:"control,omitzero"`
}

// ahead is how far the service's clock was ahead, in seconds.
func (d lossDetails) ahead() int64 {
	return int64(d.Clock.Sub(d.ClockRead).Round(time.Second) / time.Second)
}

type storedLoss struct {
	publicLoss
	lossDetails

	Error string `json:"error"`
}

type publicLoss OutcomeUnknownError // without its methods

// MarshalJSON gives all that FindCreated needs, in another process too. That includes the note's name and the patient: what
// is encoded is a patient's data. Of Err only its text is kept, of the recording its SHA-256, for which it is read.
func (e OutcomeUnknownError) MarshalJSON() ([]byte, error) {
	if sum, exact := e.recording(); exact {
		e.AudioSHA256 = sum
	}
	e.SentAt, e.LostAt, e.AudioSize = e.SentAt.UTC(), e.LostAt.UTC(), e.audioSize()
	e.kept.ClockRead, e.kept.Clock, e.kept.Control = e.kept.ClockRead.UTC(), e.kept.Clock.UTC(), e.kept.Control.Computed()
	stored := storedLoss{publicLoss: publicLoss(e), lossDetails: e.kept}
	if e.Err != nil {
		stored.Error = text(e.Err)
	}
	return json.Marshal(stored)
}

// UnmarshalJSON reads what MarshalJSON wrote. What an earlier version wrote has no identity: FindCreated will not say of it
// that there is no note unless Service and UserID are filled in.
func (e *OutcomeUnknownError) UnmarshalJSON(data []byte) error {
	var stored storedLoss
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	*e = OutcomeUnknownError(stored.publicLoss)
	e.kept = stored.lossDetails
	if stored.Error != "" {
		e.Err = redact.Text(stored.Error)
	}
	return nil
}

// search is one call of FindCreated: what is looked for, and what was seen of it so far.
type search struct {
	lost     OutcomeUnknownError
	params   FindCreatedParams
	notes    *NotesService
	opts     []CallOption
	registry *creates.Registry
	loss     creates.Create
	sum      string // SHA-256 of the recording; empty: nothing can be compared
	exact    bool   // it is of what was sent
	excluded []creates.Ref

	window    creates.Window
	settledAt time.Time // from then on the service has surely done with it, by our clock
	latest    time.Time // the same, where nobody knows whether our clock was set meanwhile

	asker         sender
	response      *Response      // to the latest request
	furthest      creates.Clocks // when the service's clock was the furthest ahead of ours
	orderKnown    bool           // the list was requested in the other order too
	orderFollowed bool
	looks         int
	failed        int // looks in a row
	seen          map[int64]sighting
	longest       int           // name, in bytes
	found         *ProgressNote // that fits, or that the response named
	reading       creates.Reading

	// Of the latest look.
	clocks     creates.Clocks
	stale      time.Duration // how much older what it showed may be than our clock says
	retryAfter time.Duration // that the service or storage asks for
}

// sighting is a note as the list showed it, and in which look last.
type sighting struct {
	row  *ProgressNote
	made creates.Made // by the clocks of its page
	look int
}

func (s *NotesService) newSearch(lost *OutcomeUnknownError, params FindCreatedParams, options *callOptions) (*search, error) {
	if err := params.check(lost); err != nil {
		return nil, err
	}
	l := &search{
		lost: *lost, params: params, notes: s, registry: s.client.creates, seen: map[int64]sighting{},
		asker: sender{where: options.where()}, response: cmp.Or(options.response, new(Response)),
	}
	l.params.Result = cmp.Or(params.Result, new(FindCreatedResult))
	*l.params.Result = FindCreatedResult{}
	// What a cache gives may be older than the note.
	l.opts = []CallOption{options.inherited(), WithHeader("Cache-Control", "no-cache"), always(func(inner *callOptions) {
		inner.sender, inner.response = &l.asker, l.response
	})}
	l.lost.AudioSize = lost.audioSize()
	if l.lost.kept.AudioType == "" && lost.Params.Audio != nil && lost.Params.Audio.audioState != nil {
		l.lost.kept.AudioType, _ = lost.Params.Audio.mediaType()
	}
	l.lost.Service = exchange.Service(l.lost.Service)
	if !params.WithoutAudio {
		if l.sum, l.exact = lost.recording(); l.exact {
			l.lost.AudioSHA256 = l.sum
		}
	}
	if l.lost.Service == s.client.service() && l.registry.Controls.Get(l.lost.kept.AudioType).Note.ID == 0 {
		l.registry.SetControl(l.lost.kept.AudioType, l.lost.kept.Control)
	}
	l.settleAt(time.Now())
	l.loss = l.lost.create()
	for _, note := range params.ExcludeNotes {
		l.excluded = append(l.excluded, note.ref(""))
	}
	l.registry.Lost(l.loss)
	// What was found for this loss before may be another's, as the caller knows by now.
	if found := l.registry.View(l.loss).Note; slices.Contains(params.ExcludeIDs, found.ID) || slices.ContainsFunc(l.excluded, found.Is) {
		l.registry.Claim(l.loss, creates.Ref{}, false)
		l.excluded = append(l.excluded, found)
	}
	return l, nil
}

func (p *FindCreatedParams) check(lost *OutcomeUnknownError) error {
	switch {
	case lost == nil || lost.SentAt.IsZero():
		return invalid("Notes.FindCreated", "needs the error of a Create")
	case lost.NoteID < 0 || lost.Params.PatientID < 0:
		return invalid("Notes.FindCreated", "needs the error of a Create; its ids must not be negative")
	case p.Settle < 0:
		return invalid("Notes.FindCreated: Settle", "must not be negative")
	case p.UniqueName && strings.TrimSpace(lost.Params.Name) == "":
		return invalid("Notes.FindCreated: UniqueName", "needs a name in the params of the Create")
	case !noneOrSHA256.MatchString(lost.AudioSHA256):
		return invalid("Notes.FindCreated: AudioSHA256", "is not 64 hexadecimal digits")
	case slices.ContainsFunc(p.ExcludeIDs, func(id int64) bool { return id < 1 }):
		return invalid("Notes.FindCreated: ExcludeIDs", "holds an id below 1")
	case slices.ContainsFunc(p.ExcludeNotes, func(n *ProgressNote) bool { return n == nil || n.ID < 1 }):
		return invalid("Notes.FindCreated: ExcludeNotes", "holds a note without an id")
	}
	return nil
}

// settleAt finds out when the service surely has done with the create: Settle after its response was lost, or as long as the
// upload took if that was longer. A time that another process has noted counts only with the service's clock beside it, for
// ours may have been set since: else it is counted from now.
func (l *search) settleAt(now time.Time) {
	lostAt, from := now, now
	settle := cmp.Or(l.params.Settle, defaultSettle)
	if !l.lost.LostAt.IsZero() {
		upload := max(l.lost.LostAt.Sub(l.lost.SentAt), 0)
		settle, lostAt = max(settle, upload), l.lost.SentAt.Add(upload)
	}
	switch {
	case l.lost.exact: // its times were read in this process, from a clock that nobody can set
		from = lostAt
	case !l.lost.kept.Clock.IsZero():
		from = l.lost.kept.ClockRead
	}
	l.window = creates.Window{Sent: l.lost.SentAt.Unix(), Settled: lostAt.Add(settle).Unix()}
	l.settledAt, l.latest = from.Add(settle), now.Add(settle)
	if !l.lost.kept.Clock.IsZero() {
		l.furthest = creates.Clocks{Known: true, Ahead: l.lost.kept.ahead()}
	}
}

// look gathers evidence. The error, if any, is why there is not more of it.
func (l *search) look(ctx context.Context) (creates.Evidence, error) {
	l.looks++
	asked := time.Now()
	l.clocks, l.stale, l.retryAfter = creates.Clocks{Now: asked.Unix()}, 0, 0
	l.asker.token, l.asker.changed = "", false
	l.reading.Begin(asked)
	e := creates.Evidence{UniqueName: l.params.UniqueName}
	var err error
	view := l.registry.View(l.loss)
	// A note that was found for this very loss before is as good as named.
	if id := cmp.Or(l.lost.NoteID, view.Note.ID); id != 0 {
		e.Look, err = l.readNamed(ctx, id, view)
	} else if e.Look, err = l.list(ctx); err == nil {
		err = l.knowUser(ctx)
	}
	named := e.Look >= creates.NamedHere
	if l.asker.changed && !named {
		e.Look, err = creates.LookRefused, cmp.Or[error](err, redact.Text("the token changed from one request to the next, perhaps to another user's"))
	}
	if err != nil && !named {
		if l.failed++; mayPass(err) && !exchange.Permanent(err) && l.failed < maxFailedLooks {
			e.Look = creates.LookFailing
		}
	} else {
		l.failed = 0
	}
	if l.clocks.Known && l.lost.kept.Clock.IsZero() {
		l.lost.kept.ClockRead, l.lost.kept.Clock = asked, asked.Add(time.Duration(l.clocks.Ahead)*time.Second)
		l.lost.kept.NoClock = l.lost.kept.NoClock && !l.lost.exact
	}
	shown := asked.Add(-l.stale)
	e.Settled = !shown.Before(l.settledAt) && (l.lost.exact || l.clocks.Known || !shown.Before(l.latest))
	if l.sameToken() && l.lost.UserID == 0 {
		l.lost.UserID = l.user() // who sent it is known from now on
	}
	e.Future, e.Ahead = l.window.Future(l.clocks)
	e.Own = l.lost.Service != "" && (l.sameToken() || l.lost.UserID != 0 && l.lost.UserID == l.user())
	compared := l.compare(e)
	// Recordings are read only where all else does not decide.
	if err == nil && !named && creates.Decide(compared).By == "" {
		e.Later = l.readRecordings(ctx)
		compared = l.compare(e)
	}
	return compared, err
}

// knowUser finds out whose token asks, where that matters: notes were seen, or another token sent it.
func (l *search) knowUser(ctx context.Context) error {
	matters := len(l.seen) > 0 && !l.params.UniqueName || l.lost.UserID != 0 && !l.sameToken()
	if l.user() != 0 || !matters {
		return nil
	}
	user, err := l.notes.client.Users.Me(ctx, append(l.opts, WithResponse(new(Response)))...) // the caller's shows the list
	switch {
	case err == nil:
		l.registry.Users.Put(l.asker.token, user.ID)
	case mayPass(err) && !exchange.Permanent(err) && l.failed < maxFailedLooks-1: // else the list may still show that there is no note
		return err
	}
	return nil
}

// user is whose token asks; 0: not known.
func (l *search) user() int64 { return l.registry.Users.Get(l.asker.token) }

func (l *search) sameToken() bool {
	return l.lost.kept.Token != "" && l.lost.kept.Token == l.asker.token
}

// compare holds all notes that were seen against what this client knows. It asks first which creates are under way: one that
// ends in between has left its note's id by then.
func (l *search) compare(e creates.Evidence) creates.Evidence {
	view := l.registry.View(l.loss)
	e.Forgot, e.Others = view.Forgot, view.Sized
	var proven *ProgressNote
	for _, s := range l.seen {
		n := l.judge(s)
		if n.Proven() {
			proven = s.row
		}
		if e.Add(n) == creates.Fitting {
			l.found = s.row
			if n.Size != creates.Equal {
				e.Others = view.Unsized
			}
		}
	}
	if e.Prove(view.Same); e.Proof == creates.ProofFound {
		l.found = proven
	}
	return e
}

// readRecordings compares the recordings of notes that may be the lost one to what was sent: the nearest to when that was
// first, each once. It reports whether more may be known by a later look.
func (l *search) readRecordings(ctx context.Context) (later bool) {
	if l.sum == "" {
		return false
	}
	mediaType := l.lost.kept.AudioType
	control := l.registry.Controls.Get(mediaType)
	telling := l.exact && control.Note.ID != 0 && control.Shows != creates.Differs // that another recording is another note
	var unread []*ProgressNote
	differs := false
	for _, s := range l.seen {
		n := l.judge(s)
		differs = differs || n.Content == creates.Differs
		worth := telling && n.Known != creates.Explained || n.Known <= creates.Excluded && n.Size != creates.Differs
		if !n.Gone && n.Patient && n.Content == creates.Untold && worth {
			unread = append(unread, s.row)
		}
	}
	sent := l.lost.SentAt.Add(time.Duration(l.clocks.Ahead) * time.Second)
	slices.SortFunc(unread, func(a, b *ProgressNote) int {
		return cmp.Or(cmp.Compare(a.CreatedAt.Sub(sent).Abs(), b.CreatedAt.Sub(sent).Abs()), cmp.Compare(a.ID, b.ID))
	})
	for _, row := range unread {
		content := l.readRecording(ctx, row.ref(l.asker.where), l.lost.AudioSize, l.sum)
		differs, later = differs || content == creates.Differs, later || content == creates.Untold
		if content == creates.Equal { // then recordings are kept as they are sent
			control = creates.Control{Note: row.ref(""), Size: l.lost.AudioSize, SHA256: l.sum, Shows: creates.Equal}
			l.registry.SetControl(mediaType, control)
		}
	}
	if differs && telling && control.Shows == creates.Untold {
		if control = control.Computed(); control.SHA256 != "" {
			control.Shows = l.readRecording(ctx, control.Note, control.Size, control.SHA256)
			later = later || control.Shows == creates.Untold
			l.registry.SetControl(mediaType, control)
		}
	}
	l.params.Result.Recordings = l.reading.Read
	return later && l.reading.Left()
}

// readRecording compares one, up to the first byte that shows another length, if it may be read now: the next look is its retry.
func (l *search) readRecording(ctx context.Context, note creates.Ref, size int64, sum string) creates.Match {
	known := l.registry.Recordings.Get(note).Compare(size, sum)
	if known != creates.Untold || ctx.Err() != nil || l.retryAfter > 0 || !l.reading.May(time.Now()) {
		return known
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	got, read, otherLength := sha256.New(), creates.Recording{}, false
	expect := func(received, total int64) {
		read.Size = max(received, total)
		if otherLength = size > 0 && (read.Size > size || total > 0 && total < size); otherLength {
			stop()
		}
	}
	_, err := l.notes.DownloadAudio(ctx, note.ID, got, DownloadParams{OnProgress: expect, IgnoreSize: true}, append(l.opts, WithoutRetry())...)
	if err != nil && !otherLength {
		l.heed(err)
		l.reading.Failed(errors.Is(err, ErrNotFound))
		return creates.Untold
	}
	l.reading.Read++
	if !otherLength {
		read.SHA256 = hex.EncodeToString(got.Sum(nil))
	}
	l.registry.Recordings.Put(note, read)
	return read.Compare(size, sum)
}

// readNamed reads the note whose id the response held: that the service gave it is the evidence, if it is the patient's. What
// an odd response calls an id may be another thing's, so the note has to resemble what was sent as well.
func (l *search) readNamed(ctx context.Context, id int64, view creates.View) (creates.Look, error) {
	asked := time.Now()
	note, err := l.notes.Get(ctx, id, l.opts...)
	switch {
	case errors.Is(err, ErrNotFound):
		return creates.NamedGone, err
	case err != nil:
		return creates.LookRefused, err
	}
	l.readClocks(asked)
	before, n := view.Note.ID == id, l.judge(sighting{note, l.window.Made(note.CreatedAt, l.clocks), l.looks})
	switch {
	case !n.Patient || note.comparePatient(l.lost.Params.PatientID) == namesOther:
		return creates.NamedOther, mismatch("the note names another patient than the create did")
	case before && !view.Note.Is(note.ref("")) || n.Known > creates.Reused || !before && n.Like(false) == creates.Unlike:
		return creates.NamedOther, nil
	}
	l.found = note
	return creates.NamedHere, nil
}

// list looks through the list until it is proven that no other note can matter.
func (l *search) list(ctx context.Context) (creates.Look, error) {
	var order []time.Time // in which notes of this walk were made
	for visit, err := range list.Through(ctx, list.List[fetchedPage]{Fetch: l.fetch, Rule: list.Twice}) {
		incomplete, ok := errors.AsType[*list.IncompleteError](err)
		switch {
		case ok && incomplete.Err == nil:
			return creates.LookUnproven, nil
		case ok:
			return creates.LookRefused, incomplete.Err
		case err != nil:
			return creates.LookRefused, err
		case visit.At == list.Position{}: // a walk begins
			order = nil
		case len(order) >= maxSearchedRows:
			return creates.LookRefused, errTooMany
		}
		for i := range visit.Value.Items {
			order = append(order, visit.Value.Items[i].CreatedAt)
			l.see(&visit.Value.Items[i])
		}
		if visit.Enough != nil && l.window.Past(order, l.clocks) {
			if *visit.Enough, err = l.followsOrder(ctx, order); err != nil {
				return creates.LookRefused, err
			}
		}
	}
	return creates.LookProven, nil
}

const errTooMany = redact.Text("there are too many notes to search; does WithQueryNames name the sort parameter?")

// fetch gets a page, and with it the time by the service's clock.
func (l *search) fetch(ctx context.Context, at list.Position) (list.Page, fetchedPage, error) {
	params := ListNotesParams{PatientID: l.lost.Params.PatientID, PerPage: maxPerPage, Sort: SortLatest, TrustPatientFilter: l.params.TrustPatientFilter}
	asked := time.Now()
	page, fetched, err := noteList{service: l.notes, params: params, opts: l.opts}.fetch(ctx, at)
	if err == nil {
		l.readClocks(asked)
		l.stale = max(l.stale, l.clocks.Stale(&l.furthest))
		if l.response.zoneless {
			l.clocks.Behind = creates.MostBehind
		}
	}
	return page, fetched, err
}

// readClocks takes in the clocks at the latest response. The difference that they had when it was lost may be another: then its
// times are of another machine.
func (l *search) readClocks(asked time.Time) {
	l.clocks = creates.ReadClocks(l.response.Header, asked, time.Now())
	l.clocks.Late = max(l.lost.kept.Late, l.registry.Clocks(asked).Late)
	kept := l.lost.kept
	switch moved := kept.ahead() - l.clocks.Ahead; {
	case l.lost.exact || !l.clocks.Known:
	case kept.NoClock:
		l.clocks.Moved = creates.MostMoved
	case !kept.Clock.IsZero() && max(moved, -moved) > l.clocks.Spread:
		l.clocks.Moved = moved
	}
}

// followsOrder reports whether the service follows the order of a list: that its rows fall in time may be an accident. The
// other order is requested once; a request that fails shows nothing, and is an error if the service wants a pause.
func (l *search) followsOrder(ctx context.Context, order []time.Time) (bool, error) {
	if !l.orderKnown {
		_, page, err := l.fetch(ctx, list.Position{Size: 1, Reversed: true})
		if l.heed(err); l.retryAfter > 0 {
			return false, err
		}
		l.orderKnown = err == nil
		l.orderFollowed = err == nil && len(page.Items) > 0 && creates.Followed(order, page.Items[0].CreatedAt)
	}
	return l.orderFollowed, nil
}

func (l *search) see(row *ProgressNote) {
	l.longest = max(l.longest, len(strings.TrimSpace(row.Name)))
	s := sighting{row, l.window.Made(row.CreatedAt, l.clocks), l.looks}
	if n := l.judge(s); n.Like(l.params.UniqueName) > creates.Unlike || n.Made >= creates.MadeUnclear && n.Size != creates.Differs {
		l.seen[row.ID] = s
	}
}

// judge holds a note against what was to be created and against what this client knows, which may be more once all rows were seen.
func (l *search) judge(s sighting) creates.Note {
	ref := s.row.ref(l.asker.where)
	n := creates.Note{
		Gone:    s.look != l.looks,
		Patient: l.lost.Params.PatientID != 0 || namesNoPatient(s.row), // the list's own check has seen to the patient
		Name:    creates.CompareNames(l.lost.Params.Name, s.row.Name, l.longest),
		Size:    l.compareSize(s.row),
		User:    l.compareUser(s.row),
		Made:    s.made,
		Known:   l.registry.Knows(l.loss, l.lost.SentAt, l.excluded, ref),
		Content: l.registry.Recordings.Get(ref).Compare(l.lost.AudioSize, l.sum),
	}
	keepsBytes := l.registry.Controls.Get(l.lost.kept.AudioType).Shows == creates.Equal
	other := n.Content == creates.Differs && l.exact && keepsBytes
	if other || slices.Contains(l.params.ExcludeIDs, ref.ID) || n.Known == creates.Excluded && n.Made < creates.MadeJustBefore {
		n.Known = creates.Explained
	}
	return n
}

func (l *search) compareSize(row *ProgressNote) creates.Match {
	sent, size := l.lost.AudioSize, max(cmp.Or(row.Audio, &AudioInfo{}).Size, 0)
	if sent > 0 && size == 0 || sent < 0 && size > 0 {
		return creates.OneSided
	}
	return creates.Compare(max(sent, 0), size)
}

func (l *search) compareUser(row *ProgressNote) creates.Match {
	sent := l.lost.UserID
	if sent == 0 && l.lost.kept.Token == "" {
		sent = l.user()
	}
	return creates.Compare(sent, row.maker())
}

// namesNoPatient is strict: a patient that is there but has no readable id is one.
func namesNoPatient(note *ProgressNote) bool {
	return note.comparePatient(0) == namesNone && slices.Contains([]string{"", "{}", "[]"}, note.Patient.raw)
}
