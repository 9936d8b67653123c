package guards_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/dev/outside"
)

// everyName is a program of another module that uses every public name with the type it is promised to have. Programs
// compile against these: adding to them is fine, renaming is not.
const everyName = `package names

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"time"

	sdk "github.com/clinicaldoc/clinicaldoc-go"
)

var (
	_ func(baseURL, token string, opts ...sdk.Option) (*sdk.Client, error) = sdk.NewClient
	_ func(...sdk.Option) (*sdk.Client, error)                 = sdk.NewClientFromEnv
	_                                                          = sdk.Client{Notes: (*sdk.NotesService)(nil), Tokens: (*sdk.TokensService)(nil), Users: (*sdk.UsersService)(nil)}
	_ interface {
		Do(ctx context.Context, method, path string, body, out any, opts ...sdk.CallOption) error
	} = (*sdk.Client)(nil)

	_ func(*http.Client) sdk.Option                        = sdk.WithHTTPClient
	_ func(sdk.TokenSource) sdk.Option                     = sdk.WithTokenSource
	_ func(sdk.RetryPolicy) sdk.Option                     = sdk.WithRetry
	_ func(sdk.Limiter) sdk.Option                         = sdk.WithLimiter
	_ func(*slog.Logger) sdk.Option                        = sdk.WithLogger
	_ func(sdk.Hooks) sdk.Option                           = sdk.WithHooks
	_ func(sdk.QueryNames) sdk.Option                      = sdk.WithQueryNames
	_ func(string) sdk.Option                              = sdk.WithUserAgent
	_ func() sdk.Option                                    = sdk.WithInsecureHTTP
	_ func(time.Duration) sdk.Option                       = sdk.WithStallTimeout
	_ func(int64) sdk.Option                               = sdk.WithMaxResponseSize
	_ func(*sdk.Response) sdk.CallOption                   = sdk.WithResponse
	_ func(string, string) sdk.CallOption                  = sdk.WithHeader
	_ func(string, string) sdk.CallOption                  = sdk.WithQuery
	_ func() sdk.CallOption                                = sdk.WithoutRetry

	_ sdk.Limiter     = limiter{}
	_ sdk.TokenSource = source{}
	_ interface{ Wait(context.Context) error }             = sdk.Limiter(nil)
	_ interface{ Token(context.Context) (string, error) }  = sdk.TokenSource(nil)
	_ = sdk.RetryPolicy{MaxRetries: 1, MinWait: time.Second, MaxWait: time.Second}
	_ = sdk.QueryNames{PatientID: "a", PerPage: "b", Sort: "c", Page: "d", Cursor: "e"}
)

type (
	limiter struct{}
	source  struct{}
)

func (limiter) Wait(context.Context) error            { return nil }
func (source) Token(context.Context) (string, error) { return "", nil }

type (
	note  = *sdk.ProgressNote
	notes = iter.Seq2[*sdk.ProgressNote, error]
	opts  = []sdk.CallOption
)

// The variadic options come last in every method.
var (
	_ func(*sdk.NotesService, context.Context, sdk.CreateNoteParams, ...sdk.CallOption) (note, error)                         = (*sdk.NotesService).Create
	_ func(*sdk.NotesService, context.Context, sdk.ListNotesParams, ...sdk.CallOption) (*sdk.Page[sdk.ProgressNote], error)   = (*sdk.NotesService).List
	_ func(*sdk.NotesService, context.Context, sdk.ListNotesParams, ...sdk.CallOption) notes                                  = (*sdk.NotesService).All
	_ func(*sdk.NotesService, context.Context, int64, ...sdk.CallOption) (note, error)                                        = (*sdk.NotesService).Get
	_ func(*sdk.NotesService, context.Context, int64, sdk.UpdateNoteParams, ...sdk.CallOption) (note, error)                  = (*sdk.NotesService).Update
	_ func(*sdk.NotesService, context.Context, int64, ...sdk.CallOption) (*sdk.Confirmation, error)                           = (*sdk.NotesService).Delete
	_ func(*sdk.NotesService, context.Context, int64, ...sdk.CallOption) (note, error)                                        = (*sdk.NotesService).Sign
	_ func(*sdk.NotesService, context.Context, int64, ...sdk.CallOption) (*sdk.AudioURL, error)                               = (*sdk.NotesService).AudioURL
	_ func(*sdk.NotesService, context.Context, int64, io.Writer, sdk.DownloadParams, ...sdk.CallOption) (int64, error)        = (*sdk.NotesService).DownloadAudio
	_ func(*sdk.NotesService, context.Context, int64, ...sdk.CallOption) (*sdk.AudioStream, error)                            = (*sdk.NotesService).OpenAudio
	_ func(*sdk.NotesService, context.Context, int64, string, sdk.DownloadParams, ...sdk.CallOption) (int64, error)           = (*sdk.NotesService).DownloadAudioFile
	_ func(*sdk.NotesService, context.Context, int64, sdk.WaitParams, ...sdk.CallOption) (note, error)                        = (*sdk.NotesService).Wait
	_ func(*sdk.NotesService, context.Context, int64, sdk.WaitParams, ...sdk.CallOption) notes                                = (*sdk.NotesService).Watch
	_ func(*sdk.NotesService, context.Context, []int64, sdk.WaitParams, ...sdk.CallOption) notes                              = (*sdk.NotesService).WaitAll
	_ func(*sdk.NotesService, context.Context, *sdk.OutcomeUnknownError, sdk.FindCreatedParams, ...sdk.CallOption) (note, error) = (*sdk.NotesService).FindCreated
	_ func(*sdk.TokensService, context.Context, ...sdk.CallOption) ([]sdk.Token, error)                                       = (*sdk.TokensService).List
	_ func(*sdk.TokensService, context.Context, int64, ...sdk.CallOption) (*sdk.Confirmation, error)                          = (*sdk.TokensService).Revoke
	_ func(*sdk.UsersService, context.Context, ...sdk.CallOption) (*sdk.User, error)                                          = (*sdk.UsersService).Me

	_ func(notes) ([]note, error)                              = sdk.Collect[sdk.ProgressNote]
	_ func(string) (*sdk.AudioSource, error)                   = sdk.AudioFile
	_ func(string, []byte) *sdk.AudioSource                    = sdk.AudioBytes
	_ func(string, io.ReaderAt, int64) *sdk.AudioSource        = sdk.AudioReaderAt
	_ func(string, io.Reader) *sdk.AudioSource                 = sdk.AudioReader
)

func values(n sdk.ProgressNote, at time.Time) []any {
	audio := sdk.AudioBytes("a.wav", nil)
	audio.ContentType = "audio/wav"
	var id int64
	var ok bool
	id, ok = n.Patient.ID()
	id, ok = n.PatientID()
	var err error = n.User.Decode(&id)
	ok = n.User.IsZero() || ok
	var stage sdk.Stage = n.Stage()
	var zero sdk.Stage
	page := &sdk.Page[sdk.Token]{Items: []sdk.Token{{}}, Meta: sdk.PageMeta{}}
	return []any{
		id, ok, err, stage, zero == 0, page.HasNext(), opts(nil), int(sdk.StageUploaded),
		sdk.CreateNoteParams{Name: "n", PatientID: id, PromptID: id, Audio: audio, OnProgress: func(sent, total int64) {}},
		sdk.ListNotesParams{PatientID: id, PerPage: 1, Sort: sdk.SortLatest, Page: 1, Cursor: "c", Prefetch: 1, TrustPatientFilter: true, Verify: true},
		[]sdk.Sort{sdk.SortLatest, sdk.SortOldest, sdk.Sort("latest")},
		sdk.UpdateNoteParams{Name: new("n"), Transcription: new(""), Analysis: new("x")},
		sdk.WaitParams{Until: sdk.StageComplete, Interval: time.Second, MaxInterval: time.Second, MaxFailures: 1, OnUpdate: func(*sdk.ProgressNote) {}},
		sdk.DownloadParams{OnProgress: func(received, total int64) {}, IgnoreSize: true},
		sdk.FindCreatedParams{Settle: time.Minute, UniqueName: true, TrustPatientFilter: true},
		sdk.ProgressNote{
			ID: id, Name: "n", Transcription: "t", Analysis: "a", Template: &sdk.Template{ID: id, Name: "n", Description: "d"}, Patient: sdk.Object{},
			Audio: &sdk.AudioInfo{Duration: 1.5, Bitrate: id, Size: id, UploadedAt: at, ExpiresAt: at, FileURL: "u"},
			Has: sdk.Completion{Content: true, Transcription: true, Signed: true}, TeamID: id, UserID: id, User: sdk.Object{},
			TranscriptionStartedAt: at, TranscriptionCompletedAt: at, AnalysisStartedAt: at, AnalysisCompletedAt: at, ErrorState: new("e"), CreatedAt: at, UpdatedAt: at, Extra: sdk.Object{},
		},
		[]sdk.Stage{sdk.StageUploaded, sdk.StageTranscribing, sdk.StageTranscribed, sdk.StageAnalysing, sdk.StageComplete, sdk.StageSigned, sdk.StageFailed},
		sdk.AudioURL{URL: "u", ExpiresAt: at},
		sdk.Token{ID: id, Name: "n", CreatedAt: at, LastUsedAt: at},
		sdk.User{ID: id, Name: "n", Email: "e", CreatedAt: at, UpdatedAt: at},
		sdk.Confirmation{Message: "m"},
		sdk.PageMeta{CurrentPage: 1, LastPage: 1, PerPage: 1, Total: 1, NextCursor: "c"},
		sdk.Response{StatusCode: 1, Header: http.Header{}, RequestID: "r", RateLimit: sdk.RateLimit{Limit: 1, Remaining: 1, Reset: at}, Attempts: 1, Body: []byte{}},
		sdk.Hooks{
			CallStart:    func(ctx context.Context, _ sdk.Call) context.Context { return ctx },
			AttemptStart: func(ctx context.Context, _ sdk.Attempt) (context.Context, sdk.TraceContext) { return ctx, sdk.TraceContext{} },
			AttemptEnd:   func(context.Context, sdk.Attempt) {},
			CallEnd:      func(context.Context, sdk.Call) {},
		},
		sdk.TraceContext{Traceparent: "p", Tracestate: "s"},
		sdk.Call{Operation: "o", Attempts: 1, Duration: 1, ErrorType: "e", OutcomeUnknown: true, Err: err},
		sdk.Attempt{
			Operation: "o", Method: "m", Route: "r", ServerAddress: "a", ServerPort: 1, Number: 1, StatusCode: 1, Duration: 1, RateLimitWait: 1, RequestID: "r",
			ErrorType: "e", BytesSent: id, BytesReceived: id, RateLimitRemaining: -1, OutcomeUnknown: true, Err: err,
		},
	}
}

var failures = []error{
	&sdk.Error{StatusCode: 1, Message: "m", Fields: map[string][]string{}, RequestID: "r", RetryAfter: time.Second, Operation: "o", Method: "m", Route: "r"},
	&sdk.OutcomeUnknownError{Params: sdk.CreateNoteParams{}, SentAt: time.Time{}, LostAt: time.Time{}, AudioSize: 1, NoteID: 1, Err: io.EOF},
	&sdk.WaitError{ID: 1, Note: &sdk.ProgressNote{}, Polls: 1, Elapsed: time.Second, Err: io.EOF},
	sdk.ErrUnauthorized, sdk.ErrForbidden, sdk.ErrNotFound, sdk.ErrConflict, sdk.ErrTooLarge, sdk.ErrValidation, sdk.ErrRateLimited, sdk.ErrServer,
	sdk.ErrNoteIncomplete, sdk.ErrInvalidArgument, sdk.ErrUnexpectedResponse, sdk.ErrOutcomeUnknown, sdk.ErrNotCreated, sdk.ErrProcessingFailed, sdk.ErrPatientMismatch, sdk.ErrSizeMismatch,
	sdk.ErrIncompleteList,
}

var _ = values
`

// laterNames came after the first version, each with a use of it. Add to them as names are added.
var laterNames = map[string]string{
	"Version":                           `var _ string = sdk.Version`,
	"WithToken":                         `var _ func(string) sdk.CallOption = sdk.WithToken`,
	"IfUnchanged":                       `var _ func(*sdk.ProgressNote) sdk.CallOption = sdk.IfUnchanged`,
	"IfVersion":                         `var _ func(string) sdk.CallOption = sdk.IfVersion`,
	"ProgressNote.Version":              `var _ func(sdk.ProgressNote) string = sdk.ProgressNote.Version`,
	"FindCreatedParams":                 `var _ = sdk.FindCreatedParams{Settle: time.Second, UniqueName: true, TrustPatientFilter: true}`,
	"FindCreatedParams.Exclude":         `var _ = sdk.FindCreatedParams{Exclude: []*sdk.ProgressNote{}, Unresolved: []*sdk.OutcomeUnknownError{}}`,
	"FindCreatedParams.OnProgress":      `var _ = sdk.FindCreatedParams{OnProgress: func(string, time.Time) {}}`,
	"OutcomeUnknownError.Candidates":    `var _ = sdk.OutcomeUnknownError{Candidates: []int64{1}}`,
	"WithAssumptions":                   `var _ = sdk.WithAssumptions(sdk.Assumptions{RecordingsUnchanged: true, NamesUnchanged: true})`,
	"Client.Assumptions":                `var _ func(*sdk.Client) sdk.Assumptions = (*sdk.Client).Assumptions`,
	"NotesService.CreateOnce":           `var _ func(*sdk.NotesService, context.Context, sdk.CreateNoteParams, sdk.FindCreatedParams, ...sdk.CallOption) (*sdk.ProgressNote, error) = (*sdk.NotesService).CreateOnce`,
	"Client.BaseURL":                    `var _ func(*sdk.Client) string = (*sdk.Client).BaseURL`,
	"AudioSource.Size":                  `var _ func(sdk.AudioSource) int64 = sdk.AudioSource.Size`,
	"Collect":                           `var _ func(iter.Seq2[*sdk.User, error]) ([]*sdk.User, error) = sdk.Collect[sdk.User]`,
	"Retryable":                         `var _ func(error) bool = sdk.Retryable`,
	"CreateNoteParams.BeforeCommit":     `var _ = sdk.CreateNoteParams{BeforeCommit: func(context.Context) error { return nil }}`,
	"ListNotesParams.Verify":            `var _ = sdk.ListNotesParams{Verify: true}`,
	"DownloadParams.IgnoreSize":         `var _ = sdk.DownloadParams{IgnoreSize: true}`,
	"ProgressNote.Extra":                `var _ = sdk.ProgressNote{Extra: sdk.Object{}}`,
	"ProgressNote.PatientID":            `var _ func(sdk.ProgressNote) (int64, bool) = sdk.ProgressNote.PatientID`,
	"Stage.MarshalText":                 `var _ encoding.TextMarshaler = sdk.StageComplete`,
	"ConflictError":                     `var _ error = &sdk.ConflictError{Current: &sdk.ProgressNote{}}`,
	"OutcomeUnknownError.LostAt":        `var _ = sdk.OutcomeUnknownError{LostAt: time.Time{}}`,
	"OutcomeUnknownError.AudioSize":     `var _ = sdk.OutcomeUnknownError{AudioSize: int64(1)}`,
	"OutcomeUnknownError.NoteID":        `var _ = sdk.OutcomeUnknownError{NoteID: int64(1)}`,
	"OutcomeUnknownError.Err":           `var _ = sdk.OutcomeUnknownError{Err: io.EOF}`,
	"OutcomeUnknownError.MarshalJSON":   `var _ json.Marshaler = &sdk.OutcomeUnknownError{}`,
	"OutcomeUnknownError.UnmarshalJSON": `var _ json.Unmarshaler = &sdk.OutcomeUnknownError{}`,
	"ErrNotCreated":                     `var _ error = sdk.ErrNotCreated`,
	"ErrAudioChanged":                   `var _ error = sdk.ErrAudioChanged`,
	"ErrSizeMismatch":                   `var _ error = sdk.ErrSizeMismatch`,
	"ErrStalled":                        `var _ error = sdk.ErrStalled`,
	"ErrIncompleteList":                 `var _ error = sdk.ErrIncompleteList`,
}

func TestPublicNamesCompileInAnotherModule(t *testing.T) {
	t.Parallel()
	exported := exportedNames(t)
	program := []string{
		"package later", "import (", `"context"`, `"encoding"`, `"encoding/json"`, `"io"`, `"iter"`, `"time"`, `sdk "` + thisModule + `"`, ")",
		"type _ struct { context.Context; encoding.TextMarshaler; json.Marshaler; io.Reader; f iter.Seq[time.Time]; c sdk.Client }",
	}
	for name, use := range laterNames {
		assert.True(t, exported[name], "%s is promised", name)
		program = append(program, use)
	}
	buildOutside(t, map[string]string{"names.go": everyName, "later/later.go": strings.Join(program, "\n")})
}

// exportedNames returns the root package's names, with fields and methods as Type.Name.
func exportedNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for file, source := range sources(t) {
		if !inRoot(file) || isTest(file) {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, declaration := range parsed.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				names[receiver(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					addNames(names, spec)
				}
			}
		}
	}
	return names
}

func addNames(names map[string]bool, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			names[name.Name] = true
		}
	case *ast.TypeSpec:
		names[s.Name.Name] = true
		if structure, ok := s.Type.(*ast.StructType); ok {
			for _, field := range structure.Fields.List {
				for _, name := range field.Names {
					names[s.Name.Name+"."+name.Name] = true
				}
			}
		}
	}
}

// receiver returns the name of a method's type and a dot, nothing for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	kind := f.Recv.List[0].Type
	if pointer, ok := kind.(*ast.StarExpr); ok {
		kind = pointer.X
	}
	name, _ := kind.(*ast.Ident) // the type of a generic one is none, and needs no mention here
	if name == nil {
		return "."
	}
	return name.Name + "."
}

// buildOutside builds the files as a module of their own that uses this one, as a user's program does.
func buildOutside(t *testing.T, files map[string]string) {
	t.Helper()
	require.NoError(t, outside.Build(t.Context(), root, files))
}
