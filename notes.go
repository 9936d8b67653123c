package clinicaldoc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/clinicaldoc/clinicaldoc-go/internal/creates"
	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/tolerant"
)

// NotesService works on progress notes. Get it from [Client.Notes].
type NotesService struct{ client *Client }

var (
	createNote = &operation{"Notes.Create", http.MethodPost, "/v1/progress-notes", exchange.Creates}
	listNotes  = &operation{"Notes.List", http.MethodGet, "/v1/progress-notes", exchange.Reads}
	getNote    = &operation{"Notes.Get", http.MethodGet, "/v1/progress-notes/{id}", exchange.Reads}
	updateNote = &operation{"Notes.Update", http.MethodPut, "/v1/progress-notes/{id}", exchange.Repeatable}
	deleteNote = &operation{"Notes.Delete", http.MethodDelete, "/v1/progress-notes/{id}", exchange.Repeatable}
	signNote   = &operation{"Notes.Sign", http.MethodPut, "/v1/progress-notes/{id}/sign", exchange.Repeatable}
)

// CreateNoteParams describes the note to create. Zero fields are omitted; the service reports missing ones as
// validation errors.
type CreateNoteParams struct {
	hidden

	Name      string       `json:"name"`       // of the note
	PatientID int64        `json:"patient_id"` // whose encounter was recorded
	PromptID  int64        `json:"prompt_id"`  // selects the instructions for the analysis
	Audio     *AudioSource `json:"-"`          // the recording; nil: none is sent
	// Extra holds further parts of the form, by their names, for a service that accepts more than is described. Names
	// of the described parts, and names with quotes or control characters, are rejected with ErrInvalidArgument.
	Extra map[string]string `json:"-"`
	// OnProgress, if not nil, is called with the number of audio bytes sent and the total (-1 if not known), in the
	// goroutine of Create. A retried upload starts at 0.
	OnProgress func(sent, total int64) `json:"-"`
	// BeforeCommit, if not nil, is called for each attempt when everything except the last bytes of the request has
	// been sent, in the goroutine of Create. The last bytes are sent only if it returns nil. If it returns an error,
	// or the context ends while it runs, Create returns that error. The service then never has the complete request,
	// so the note does not exist. A journal written here is on disk before a note can exist. The context is that of
	// the attempt.
	BeforeCommit func(ctx context.Context) error `json:"-"`
}

// Create uploads a recording and creates its note. The audio is streamed, in constant memory.
//
// Create is retried only if the service cannot have processed it: it was not sent or only in part, or the response is a
// 429. After a lost response, a 408, a 5xx or a 2xx without a note, the error is an [*OutcomeUnknownError]. Resolve it
// with FindCreated. If the note names another patient than the requested one, the error is a [*ConflictError] with the
// note, and matches [ErrPatientMismatch]. Other errors match [ErrValidation], with Fields, or [ErrTooLarge]. The error
// matches [ErrInvalidArgument] if an ID is negative or the [AudioSource] is unusable.
//
// A file that is cut short, or is not a recording, is sent anyway. [WithLogger] logs a warning for it. The warning's
// attribute "error" matches ErrCutShort or ErrNotARecording of package ingest. The same applies to [AudioBytes]. Call
// CheckRecording of that package to reject such recordings.
func (s *NotesService) Create(ctx context.Context, params CreateNoteParams, opts ...CallOption) (*ProgressNote, error) {
	var made *ProgressNote // set also if the caller gets an error instead
	create := func(ctx context.Context, call *scope) (*ProgressNote, error) {
		upload, err := newUpload(params)
		if err != nil {
			return nil, err
		}
		defer upload.close()
		s.client.warnUnusable(ctx, upload.whyUnusable)
		// Until this create ends, FindCreated must not take its note for another create's.
		underWay := &OutcomeUnknownError{Params: params}
		end := s.client.creates.Begin(underWay.asCreate())
		defer end()
		sender := &requester{tenant: call.options.tenant()} // its token and time are set when the request is sent
		call.options.requester = sender
		call.requestedPatient = params.PatientID
		call.request.Body = upload.body()
		call.request.Progress = upload.progress(params.OnProgress)
		call.request.BeforeCommit = upload.beforeCommit(ctx, params.BeforeCommit)
		note, err := do(ctx, call, createNote, createNote.route, call.decodeNote(anyID))
		if unknown, isLost := errors.AsType[*OutcomeUnknownError](err); isLost { // so FindCreated can search for it
			unknown.Params = params
			s.client.identify(unknown, upload, sender)
			s.client.creates.AddLost(unknown.asCreate())
		}
		if err != nil {
			return nil, err
		}
		made = note
		s.client.creates.Returned(note.ref(sender.tokenFingerprint), sender.sentAt, time.Now())
		if params.PatientID != 0 && note.comparePatient(params.PatientID) == namesOther {
			const detail = "the note was created, but for another patient than requested"
			return nil, &ConflictError{Current: note, Err: ErrPatientMismatch, op: *createNote, detail: detail}
		}
		return note, nil
	}
	note, err := run(ctx, s.client, createNote.name, opts, create)
	if err != nil && made != nil { // it names another patient, or the audit function failed
		// Create returns an error instead of the note, so FindCreated may still return it, but only for this create.
		s.client.creates.Withhold(made.ID)
	}
	return note, err
}

// beforeCommit returns the caller's BeforeCommit. If the context asks for the recording's hash, as package ingest does,
// the function stores it there first.
func (u *upload) beforeCommit(ctx context.Context, callback func(context.Context) error) func(context.Context) error {
	sum, _ := ctx.Value(creates.WantedSum{}).(*string)
	if sum == nil || callback == nil {
		return callback
	}
	u.wantsHash = u.audio != nil
	return func(ctx context.Context) error {
		*sum = u.sentSum()
		return callback(ctx)
	}
}

// warnUnusable logs why a recording is probably of no use, if it is.
func (c *Client) warnUnusable(ctx context.Context, why error) {
	if why != nil && c.logger != nil {
		c.logger.WarnContext(ctx, "clinicaldoc: the recording is probably unusable and is sent anyway",
			"operation", createNote.name, "error", why)
	}
}

// maxCreates is how often CreateOnce uploads a recording at most.
const maxCreates = 3

// CreateOnce creates a note and resolves an unknown outcome. It calls Create, then FindCreated if the outcome is
// unknown, and Create again if the note was certainly not created. It uploads the recording at most three times.
//
// If FindCreated cannot decide, CreateOnce returns its [*OutcomeUnknownError] and does not upload again. A recording
// from [AudioReader] can be sent only once: the error then matches [ErrNotCreated].
//
// CreateOnce returns as soon as a note is proven to come from its create. If none is found, each search lasts until
// [FindCreatedParams].Settle has passed, 10 minutes by default, and up to 30 minutes longer while recordings cannot be
// read. Use a context with a deadline to bound it. FindCreatedParams.OnProgress reports that it is searching.
func (s *NotesService) CreateOnce(
	ctx context.Context, params CreateNoteParams, find FindCreatedParams, opts ...CallOption,
) (*ProgressNote, error) {
	opts = append(slices.Clip(opts), option(func(o *callOptions) { o.auditName = "Notes.CreateOnce" }))
	for uploads := 1; ; uploads++ {
		note, err := s.Create(ctx, params, opts...)
		lost, isLost := errors.AsType[*OutcomeUnknownError](err)
		if !isLost || errors.Is(err, ErrNotAudited) { // after a failed audit, nothing more may be read
			return note, err
		}
		note, err = s.FindCreated(ctx, lost, find, opts...)
		isAbsent := errors.Is(err, ErrNotCreated) && !errors.Is(err, ErrNotAudited)
		mayCreateAgain := isAbsent && params.Audio.canBeSentAgain()
		if !mayCreateAgain || uploads == maxCreates {
			return note, err
		}
	}
}

// Sort is the order of a list.
type Sort string

// The orders the service knows. Its default is not described.
const (
	SortLatest Sort = "latest"
	SortOldest Sort = "oldest"
)

// ListNotesParams selects and orders notes. Zero fields are not sent.
type ListNotesParams struct {
	PatientID int64 // only this patient's notes; every row is checked
	PerPage   int   // 1 to 100
	Sort      Sort
	Page      int    // from 1; not with Cursor
	Cursor    string // from PageMeta.NextCursor

	// Prefetch is how many pages All requests ahead of the current one, and how many requests it sends
	// concurrently, up to 64. If zero, each page is requested when it is needed. Concurrent requests need a service
	// that reports its last page.
	Prefetch int
	// TrustPatientFilter accepts rows without a patient ID in a list filtered by PatientID. Rows with a different
	// patient ID are still rejected.
	TrustPatientFilter bool
	// Verify makes All read the list again until nothing new appears and no row is missing, at most five times. Use
	// it for exports that must be complete, and for services that do not report a total.
	Verify bool
}

// List returns one page of notes. See [NotesService.All] for all of them.
//
// It returns an error matching [ErrInvalidArgument] if Prefetch or Verify is set, which are for All.
//
// With PatientID set, List fails with [ErrPatientMismatch] if a row belongs or may belong to another patient. If the
// service returns another page than the requested one, the error matches [ErrUnexpectedResponse]. If the page has
// another size, Meta.PerPageIgnored is set.
func (s *NotesService) List(
	ctx context.Context, params ListNotesParams, opts ...CallOption,
) (*Page[ProgressNote], error) {
	return s.list(params).page(ctx, opts)
}

// All ranges over all notes that params select, page by page, in the list's order. It sends requests only while it
// is ranged over, can be ranged over again, and yields no note twice.
//
// Notes may be created and deleted meanwhile, also by the loop. Every note that exists throughout is yielded, or
// the last error matches [ErrIncompleteList]. Some deletions cannot be noticed: one that a new note offsets in the
// total, and some if the service reports neither a total nor a cursor. Verify helps there.
//
// An error is yielded once, with a nil note, and ends the loop. See List for the other errors.
func (s *NotesService) All(
	ctx context.Context, params ListNotesParams, opts ...CallOption,
) iter.Seq2[*ProgressNote, error] {
	return s.list(params).rows(ctx, opts)
}

// list is the list of notes that params select.
func (s *NotesService) list(params ListNotesParams) *listing[ProgressNote] {
	notes := &listing[ProgressNote]{
		client: s.client, op: listNotes, allName: "Notes.All", fill: (*scope).fillNote, id: (*ProgressNote).id,
		asked: listQuery{
			PatientID: params.PatientID, PerPage: params.PerPage, Sort: params.Sort, Page: params.Page,
			Cursor: params.Cursor, Prefetch: params.Prefetch, Verify: params.Verify,
		},
	}
	if params.PatientID != 0 {
		notes.checkRows = params.checkPatient
	}
	return notes
}

// checkPatient returns an error if a row is another patient's, or may be.
func (p ListNotesParams) checkPatient(rows []ProgressNote) error {
	for i := range rows {
		switch match := rows[i].comparePatient(p.PatientID); {
		case match == namesOther:
			return redact.Fail("the service returned a note of another patient, or with an unreadable patient; "+
				"check the patient parameter in WithQueryNames", ErrPatientMismatch)
		case match == namesNone && !p.TrustPatientFilter:
			return redact.Fail("the service returned a note without a patient, so its patient cannot be checked; "+
				"TrustPatientFilter accepts such rows", ErrPatientMismatch)
		}
	}
	return nil
}

// Get returns the note with the ID. The error matches [ErrNotFound] if there is none, and [ErrInvalidArgument] if the
// ID is below 1.
func (s *NotesService) Get(ctx context.Context, id int64, opts ...CallOption) (*ProgressNote, error) {
	return run(ctx, s.client, getNote.name, opts, func(ctx context.Context, call *scope) (*ProgressNote, error) {
		path, err := getNote.path(id)
		if err != nil {
			return nil, err
		}
		return do(ctx, call, getNote, path, call.decodeNote(id))
	})
}

// UpdateNoteParams describes what to change. A nil field is not sent and stays as it is. new("text") sets a field, and
// new("") empties it, which a service may refuse.
type UpdateNoteParams struct {
	hidden

	Name          *string `json:"name,omitempty"`
	Transcription *string `json:"transcription,omitempty"`
	Analysis      *string `json:"analysis,omitempty"`

	// Extra holds further members of the request, for a service that accepts more than is described. A member that has
	// a field above, and a value that cannot be encoded as JSON, are rejected with ErrInvalidArgument.
	Extra map[string]any `json:"-"`
}

// Update changes a note and returns the changed note. The service may trim white space at the ends of texts.
//
// After a lost response, Update reads the note before it retries. If the note has the params' texts, Update returns it.
// If the note's updated_at may be of a later change, Update does not overwrite the note. That includes a time without a
// zone that is less than 12 hours old, and a date alone, or midnight of any zone, that is less than 24 hours old (36
// hours without a zone). The error is then a [*ConflictError] that also matches [ErrOutcomeUnknown].
//
// With [IfUnchanged], Update compares the note with what the caller read. An error after which the update may have been
// carried out matches ErrOutcomeUnknown. Other errors: [ErrForbidden], [ErrNotFound], [ErrValidation] with Fields,
// [ErrInvalidArgument] for text that is not UTF-8.
func (s *NotesService) Update(
	ctx context.Context, id int64, params UpdateNoteParams, opts ...CallOption,
) (*ProgressNote, error) {
	update := func(ctx context.Context, e *edit) (*ProgressNote, error) {
		note, err := do(ctx, e.scope, e.op, e.request.Path, e.decodeNote(id)) // retries after e.beforeRetry
		return e.checkWritten(note, err)
	}
	return runEdit(ctx, s.client, updateNote, id, params, opts, update)
}

// texts are the params' texts, in the order of noteTexts; nil for one that stays as it is.
func (p *UpdateNoteParams) texts() [len(noteTexts)]*string {
	return [...]*string{p.Name, p.Transcription, p.Analysis}
}

// encode returns the body of the request. It rejects text that is not UTF-8, because encoding/json would change it.
func (p *UpdateNoteParams) encode() ([]byte, error) {
	for i, text := range p.texts() {
		if text != nil && !utf8.ValidString(*text) {
			return nil, invalid("Notes.Update: "+noteTexts[i].field, "is not valid UTF-8")
		}
	}
	described, err := json.Marshal(p)
	if err != nil || len(p.Extra) == 0 {
		return described, err // err is nil, because texts can always be encoded
	}
	if err := p.checkExtra(); err != nil {
		return nil, err
	}
	extra, err := json.Marshal(p.Extra)
	if err != nil {
		return nil, invalidBecause("Notes.Update: Extra: a value cannot be encoded as JSON", err)
	}
	if !isUTF8(p.Extra) { // after Marshal, which rejects a value that contains itself: isUTF8 would not end
		return nil, invalid("Notes.Update: Extra", "a name or a text is not valid UTF-8")
	}
	return tolerant.Join(described, string(extra)), nil
}

// checkExtra returns an error if a member of Extra has no name, or the name of a member that has its own field.
func (p *UpdateNoteParams) checkExtra() error {
	for name := range p.Extra {
		hasOwnField := slices.ContainsFunc(noteTexts[:], func(text noteText) bool {
			return strings.EqualFold(text.member, name)
		})
		if name == "" || hasOwnField {
			return invalid("Notes.Update: Extra", "the name of a member is empty, or it has its own field")
		}
	}
	return nil
}

// isUTF8 reports whether all texts in a JSON value are UTF-8. It sees those in strings, and in slices and maps of the
// types that encoding/json decodes into.
func isUTF8(value any) bool {
	switch v := value.(type) {
	case string:
		return utf8.ValidString(v)
	case []any:
		return !slices.ContainsFunc(v, func(element any) bool { return !isUTF8(element) })
	case map[string]any:
		for name, element := range v {
			if !utf8.ValidString(name) || !isUTF8(element) {
				return false
			}
		}
	}
	return true
}

// extraApplied reports whether the note has all further members of the params, as they were sent. They may be described
// members, which the note has in its fields.
func (p *UpdateNoteParams) extraApplied(note *ProgressNote) bool {
	if len(p.Extra) == 0 {
		return true
	}
	encoded, err := json.Marshal(note)
	if err != nil {
		return false
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(encoded, &members); err != nil {
		return false
	}
	for name, value := range p.Extra {
		sent, err := json.Marshal(value)
		if err != nil || !sameJSON(sent, members[name]) {
			return false
		}
	}
	return true
}

// sameJSON reports whether two JSON documents have the same value. A document that is empty or cannot be decoded has
// none.
func sameJSON(a, b []byte) bool {
	one, err := decodeExact(a)
	if err != nil {
		return false
	}
	other, err := decodeExact(b)
	return err == nil && sameValue(one, other)
}

// decodeExact decodes a JSON document. It keeps numbers as their text, because a float64 may stand for several of them.
func decodeExact(document []byte) (value any, err error) {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	err = d.Decode(&value)
	return value, err
}

// sameValue reports whether two results of decodeExact are the same value.
func sameValue(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		number, ok := b.(json.Number)
		return ok && sameNumber(a, number)
	case []any:
		list, ok := b.([]any)
		return ok && slices.EqualFunc(a, list, sameValue)
	case map[string]any:
		object, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, object, sameValue)
	}
	return a == b
}

// sameNumber reports whether two numbers are the same, such as 7 and 7.0. Beyond the whole numbers that a float64 holds
// exactly, they must have the same text.
func sameNumber(a, b json.Number) bool {
	const maxExact = 1 << 53
	if a == b {
		return true
	}
	one, _ := a.Float64() // infinite if it is too large
	other, _ := b.Float64()
	return one == other && math.Abs(one) < maxExact
}

// Delete deletes a note and its files. If the response of an attempt was lost and the retry finds no note, the note is
// deleted, and Delete returns no error. Otherwise the error for a missing note matches [ErrNotFound]. An error after
// which the note may be deleted matches [ErrOutcomeUnknown].
//
// With [IfUnchanged], Delete deletes only the note that the caller read. If a note created less than a minute ago is
// not found after a lost response, the outcome stays unknown, because a replica may lag.
func (s *NotesService) Delete(ctx context.Context, id int64, opts ...CallOption) (*Confirmation, error) {
	remove := func(ctx context.Context, e *edit) (*Confirmation, error) {
		s.client.creates.SetDeleted(id) // from now on, a 404 is not a sign of a lagging replica
		return do(ctx, e.scope, e.op, e.request.Path, decodeConfirmation)
	}
	return runEdit(ctx, s.client, deleteNote, id, UpdateNoteParams{}, opts, remove)
}

// Sign marks a note as reviewed and signed, and returns it. If transcription and analysis are not both complete, the
// error matches [ErrNoteIncomplete], whatever status the service uses. To find out, Sign reads the note once after a
// refusal.
//
// After a lost response Sign reads the note too. If it is signed, Sign returns it. It is signed again only if its
// updated_at shows no change since; otherwise the error is a [*ConflictError]. An error after which the note may be
// signed, now or later, matches [ErrOutcomeUnknown]. [IfUnchanged] compares the note with what the caller read, before
// and after.
func (s *NotesService) Sign(ctx context.Context, id int64, opts ...CallOption) (*ProgressNote, error) {
	sign := func(ctx context.Context, e *edit) (*ProgressNote, error) {
		note, err := do(ctx, e.scope, e.op, e.request.Path, e.decodeNote(id))
		if err == nil && note.deniesSigned() {
			const detail = "the service accepted the request, but reports the note as not signed"
			err = withUnknownOutcome(&callError{op: signNote, detail: detail, causes: []error{ErrUnexpectedResponse}})
		}
		if noteMayExplain(err) {
			note, err = e.explainSign(ctx, err)
		}
		return e.checkWritten(note, err)
	}
	return runEdit(ctx, s.client, signNote, id, UpdateNoteParams{}, opts, sign)
}

const anyID = 0 // for decodeNote

// decodeNote returns the function that reads the note in a response. The function returns the note, warnings about its
// members that could not be read, and an error unless the note has the given id; anyID accepts every id.
func (s *scope) decodeNote(id int64) func([]byte) (*ProgressNote, []string, error) {
	return func(response []byte) (*ProgressNote, []string, error) {
		note, unreadable, err := tolerant.Record(response, s.fillNote, func(n *ProgressNote) int64 { return n.ID })
		switch {
		case err != nil:
			return note, unreadable, err
		case note.isBare():
			return nil, nil, errNotANote
		case id != anyID && note.ID != id:
			return nil, nil, errOtherID
		}
		return note, unreadable, nil
	}
}

// fillNote reads a note by its fill. It adds the note to the audit, and keeps whether a time came without a zone, or a
// text could not be read.
func (s *scope) fillNote(n *ProgressNote, d *jsonscan.Decoder) {
	n.fill(d)
	s.options.trail.addNote(n, s.requestID)
	s.zoneless = d.Zoneless
	if s.options.response != nil {
		s.options.response.zoneless = d.Zoneless
		s.options.response.textUnread = d.TextUnread
	}
}

// LogValue lists what may be logged of the params: whether a patient is named, not which.
func (p ListNotesParams) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Bool("patient", p.PatientID != 0), slog.String("sort", string(p.Sort)),
		slog.Int("page", p.Page), slog.Int("per_page", p.PerPage), slog.Int("prefetch", p.Prefetch),
	)
}

// Format implements [fmt.Formatter]. It prints the same fields as LogValue.
func (p ListNotesParams) Format(s fmt.State, _ rune) {
	redact.Format(s, "clinicaldoc.ListNotesParams", p)
}
