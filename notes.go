package clinicaldoc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/retry"
)

// ProgressNote is the record of one patient encounter. In fmt and slog it prints as its id, stage and flags; encoding it
// as JSON is explicit and gives everything.
type ProgressNote struct {
	ID                       int64      `json:"id"`
	Name                     string     `json:"name"`
	Transcription            string     `json:"transcription,omitempty"`
	Analysis                 string     `json:"analysis,omitempty"`
	Template                 *Template  `json:"template,omitempty"` // nil when absent
	Patient                  Object     `json:"patient,omitzero"`   // fields not described; when the service names the patient only by a patient_id beside the other fields, {"id": that}
	Audio                    *AudioInfo `json:"audio,omitempty"`    // nil when absent
	Has                      Completion `json:"has"`
	TeamID                   int64      `json:"team_id"`
	UserID                   int64      `json:"user_id"`
	User                     Object     `json:"user,omitzero"` // fields not described
	TranscriptionStartedAt   time.Time  `json:"transcription_started_at,omitzero"`
	TranscriptionCompletedAt time.Time  `json:"transcription_completed_at,omitzero"`
	AnalysisStartedAt        time.Time  `json:"analysis_started_at,omitzero"`
	AnalysisCompletedAt      time.Time  `json:"analysis_completed_at,omitzero"`
	ErrorState               *string    `json:"error_state"` // nil or empty when processing met no error
	CreatedAt                time.Time  `json:"created_at,omitzero"`
	UpdatedAt                time.Time  `json:"updated_at,omitzero"`
}

// Template is the template a note was made with.
type Template struct {
	ID          int64  `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// AudioInfo describes a note's recording. FileURL is a temporary, signed address: whoever has it can listen. It is not
// printed; fetch a fresh one with [NotesService.AudioURL], or the recording itself with [NotesService.DownloadAudio].
type AudioInfo struct {
	Duration   float64   `json:"duration,omitempty"` // in seconds
	Bitrate    int64     `json:"bitrate,omitempty"`
	Size       int64     `json:"size,omitempty"` // in bytes; 0 when not told
	UploadedAt time.Time `json:"uploaded_at,omitzero"`
	ExpiresAt  time.Time `json:"expires_at,omitzero"` // when the service drops the recording
	FileURL    string    `json:"file_url,omitempty"`
}

// Completion holds a note's flags.
type Completion struct {
	Content       bool `json:"content"`       // analysis completed
	Transcription bool `json:"transcription"` // transcription completed
	Signed        bool `json:"signed"`        // reviewed and signed
}

// Confirmation is the service's word that something was done. Message is empty when it answered with nothing.
type Confirmation struct {
	Message string `json:"message"`
}

// NotesService works on progress notes. Get it from [Client.Notes].
type NotesService struct{ client *Client }

var (
	createNote = operation{"Notes.Create", http.MethodPost, "/v1/progress-notes", retry.Creates}
	listNotes  = operation{"Notes.List", http.MethodGet, "/v1/progress-notes", retry.Reads}
	getNote    = operation{"Notes.Get", http.MethodGet, "/v1/progress-notes/{id}", retry.Reads}
	updateNote = operation{"Notes.Update", http.MethodPut, "/v1/progress-notes/{id}", retry.Repeatable}
	deleteNote = operation{"Notes.Delete", http.MethodDelete, "/v1/progress-notes/{id}", retry.Repeatable}
	signNote   = operation{"Notes.Sign", http.MethodPut, "/v1/progress-notes/{id}/sign", retry.Repeatable}
)

// CreateNoteParams says what note to create. Zero fields are not sent: the service says what it misses.
type CreateNoteParams struct {
	Name      string       // of the note
	PatientID int64        // whose encounter was recorded
	PromptID  int64        // the prompt to use
	Audio     *AudioSource // the recording; nil: none is sent
	// OnProgress, when set, is told how many bytes of the audio have left, and of how many (-1 when not known). It is
	// called from one goroutine at a time and never after Create has returned; a repeated upload starts at 0 again.
	OnProgress func(sent, total int64)
}

// Create uploads a recording and creates its note. The audio is streamed, in constant memory.
//
// It is repeated only when the service cannot have processed it: not sent, sent in part, or answered 429. A lost answer,
// a 5xx and a 2xx without a note are an [*OutcomeUnknownError]; resolve it with FindCreated. Other errors: [ErrValidation]
// with Fields, [ErrTooLarge], [ErrInvalidArgument] for a negative id or an unusable [AudioSource].
func (s *NotesService) Create(ctx context.Context, params CreateNoteParams, opts ...CallOption) (*ProgressNote, error) {
	upload, err := newUpload(params)
	if err != nil {
		return nil, err
	}
	defer upload.end()
	note, err := do(ctx, s.client, request{op: createNote, path: createNote.route, body: upload}, opts, noteWithID(0))
	if unknown, ok := errors.AsType[*OutcomeUnknownError](err); ok {
		unknown.Params = params
	}
	return note, err
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
	PatientID int64  `url:"patient_id,omitempty"` // only this patient's notes; every row is checked
	PerPage   int    `url:"per_page,omitempty"`   // 1 to 100
	Sort      Sort   `url:"sort,omitempty"`
	Page      int    `url:"page,omitempty"`   // from 1; not with Cursor
	Cursor    string `url:"cursor,omitempty"` // from PageMeta.NextCursor

	// Prefetch is how many pages All requests ahead of the one being read, at most, up to 64; 0 requests each when it is
	// needed. More than one at a time needs a service that tells its last page.
	Prefetch int `url:"-"`
	// TrustPatientFilter accepts rows that name no patient although PatientID is set. Rows of another patient are refused
	// all the same.
	TrustPatientFilter bool `url:"-"`
	// Verify makes All walk through the list again until a walk brings nothing new, five times at most: for exports that
	// must be whole, and for services that do not tell how many notes there are.
	Verify bool `url:"-"`
}

const (
	maxPerPage  = 100
	maxPrefetch = 64
)

// List returns one page of notes. See [NotesService.All] for all of them.
//
// With PatientID set, a row that is or may be another patient's makes it fail with [ErrPatientMismatch]. Another page
// than the one asked for is [ErrUnexpectedResponse]; another page size is told by Meta.PerPageIgnored.
func (s *NotesService) List(ctx context.Context, params ListNotesParams, opts ...CallOption) (*Page[ProgressNote], error) {
	query, err := params.query(s.client.config.names)
	if err != nil {
		return nil, err
	}
	page, err := do(ctx, s.client, request{op: listNotes, path: listNotes.route, query: query}, opts, func(answer []byte) (*Page[ProgressNote], error) {
		return decodePage(answer, s.client.config.names, params.PerPage, (*ProgressNote).fill)
	})
	if err != nil {
		return nil, err
	}
	if err := params.check(page); err != nil {
		return nil, &callError{op: listNotes, detail: redact.Cause(err), causes: []error{err}}
	}
	if page.Meta.PerPageIgnored && s.client.config.logger != nil {
		s.client.config.logger.WarnContext(ctx, "clinicaldoc: the service ignored the page size asked for; does WithQueryNames name its parameter?",
			"asked", params.PerPage, "rows", len(page.Items))
	}
	return page, nil
}

// All ranges over all notes that params select, page by page. It asks nothing before it is ranged over, can be ranged
// over again, asks nothing more after a break, and yields no note twice. An error is yielded once, with a nil note, and
// ends it; see List for the errors.
func (s *NotesService) All(ctx context.Context, params ListNotesParams, opts ...CallOption) iter.Seq2[*ProgressNote, error] {
	return noteList{service: s, params: params, opts: opts}.all(ctx)
}

// Get returns the note with the given id. Errors: [ErrNotFound], [ErrInvalidArgument] for an id below 1.
func (s *NotesService) Get(ctx context.Context, id int64, opts ...CallOption) (*ProgressNote, error) {
	r, err := getNote.withID(id)
	if err != nil {
		return nil, err
	}
	return do(ctx, s.client, r, opts, noteWithID(id))
}

// UpdateNoteParams says what to change. A nil field is not sent and stays as it is; new("text") sets it, new("") empties
// it (which a service may refuse).
type UpdateNoteParams struct {
	Name          *string `json:"name,omitempty"`
	Transcription *string `json:"transcription,omitempty"`
	Analysis      *string `json:"analysis,omitempty"`
}

// Update changes a note and returns it as it is then. The service may trim white space at the ends of texts.
//
// It is repeated after a lost answer, which leaves the same texts in place. Errors: [ErrForbidden], [ErrNotFound],
// [ErrValidation] with Fields, [ErrInvalidArgument] for text that is not UTF-8.
func (s *NotesService) Update(ctx context.Context, id int64, params UpdateNoteParams, opts ...CallOption) (*ProgressNote, error) {
	r, err := updateNote.withID(id)
	if err != nil {
		return nil, err
	}
	r.body, err = params.encode()
	if err != nil {
		return nil, err
	}
	return do(ctx, s.client, r, opts, noteWithID(id))
}

// encode refuses text that is not UTF-8: encoding/json would change it without a word.
func (p UpdateNoteParams) encode() (jsonBody, error) {
	for name, text := range map[string]*string{"Name": p.Name, "Transcription": p.Transcription, "Analysis": p.Analysis} {
		if text != nil && !utf8.ValidString(*text) {
			return nil, invalid("Notes.Update: "+name, "is not valid UTF-8")
		}
	}
	body, err := json.Marshal(p)
	if err != nil {
		return nil, invalid("Notes.Update: params", "cannot be encoded as JSON")
	}
	return body, nil
}

// Delete deletes a note and its files. When an attempt's answer was lost and the repeat finds no note, the note is
// deleted and that is no error. Otherwise a missing note is [ErrNotFound].
func (s *NotesService) Delete(ctx context.Context, id int64, opts ...CallOption) (*Confirmation, error) {
	r, err := deleteNote.withID(id)
	if err != nil {
		return nil, err
	}
	return do(ctx, s.client, r, opts, decodeConfirmation)
}

// Sign marks a note as reviewed and signed, and returns it. A note whose transcription and analysis are not both complete
// is refused with [ErrNoteIncomplete], whatever status the service uses: where its message does not tell, the note is
// read once to find out. After a lost answer the note is read too, and signed again only if it is not signed yet.
func (s *NotesService) Sign(ctx context.Context, id int64, opts ...CallOption) (*ProgressNote, error) {
	r, err := signNote.withID(id)
	if err != nil {
		return nil, err
	}
	// Read in between and afterwards without the caller's options, which are meant for signing.
	r.settled = func(ctx context.Context) bool {
		note, err := s.Get(ctx, id)
		return err == nil && note.Stage() != StageComplete
	}
	unsure := false
	r.unsure = &unsure
	note, err := do(ctx, s.client, r, opts, noteWithID(id))
	if err == nil {
		return note, nil
	}
	return s.explainSign(ctx, id, err, unsure)
}

// explainSign finds out what a failed Sign means: done after all, refused for an incomplete note, or what it looks like.
// It reads the note only where that can tell: the service refused, or it is unsure whether it acted.
func (s *NotesService) explainSign(ctx context.Context, id int64, failure error, unsure bool) (*ProgressNote, error) {
	var answered *Error
	refused := errors.As(failure, &answered) && answered.maySpeakOfState()
	switch {
	case answered != nil && tellsIncomplete(answered.Message):
		answered.incomplete = true
		return nil, failure
	case !refused && !unsure, errors.Is(failure, ErrUnauthorized), errors.Is(failure, ErrNotFound):
		return nil, failure
	}
	note, err := s.Get(ctx, id)
	switch {
	case err != nil:
		return nil, failure
	case unsure && note.Has.Signed:
		return note, nil
	case note.Stage().AtLeast(StageComplete):
		return nil, failure
	case answered != nil:
		answered.incomplete = true
		return nil, failure
	}
	return nil, &callError{
		op: signNote, detail: "not signed: transcription and analysis are not both complete; wait for the note, then sign",
		causes: []error{ErrNoteIncomplete, failure},
	}
}

// tellsIncomplete recognises the refusal that the service's description words: a note without complete transcription and
// analysis cannot be signed.
func tellsIncomplete(message string) bool {
	message = strings.ToLower(message)
	return strings.Contains(message, "complete") && (strings.Contains(message, "transcription") || strings.Contains(message, "analysis"))
}

func noteWithID(id int64) func([]byte) (*ProgressNote, error) {
	return func(answer []byte) (*ProgressNote, error) {
		note, err := single(answer, (*ProgressNote).fill, (*ProgressNote).id)
		if err == nil && id != 0 && note.ID != id {
			return nil, errOtherID
		}
		return note, err
	}
}

// decodeConfirmation accepts any JSON and nothing at all: the status has said what matters.
func decodeConfirmation(answer []byte) (*Confirmation, error) {
	c := new(Confirmation)
	if len(bytes.TrimSpace(answer)) == 0 {
		return c, nil
	}
	d := jsonscan.New(answer)
	if d.Kind() == jsonscan.Object {
		c.fill(d)
	} else {
		d.Skip()
	}
	if err := d.End(); err != nil {
		return nil, err
	}
	return c, nil
}

// LogValue lists what may be logged of the params: whether a patient is named, not which.
func (p ListNotesParams) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Bool("patient", p.PatientID != 0), slog.String("sort", string(p.Sort)),
		slog.String("page", strconv.Itoa(p.Page)), slog.Int("per_page", p.PerPage), slog.Int("prefetch", p.Prefetch),
	)
}

// Format prints what LogValue lists for every verb.
func (p ListNotesParams) Format(s fmt.State, _ rune) {
	redact.Format(s, "clinicaldoc.ListNotesParams", p)
}
