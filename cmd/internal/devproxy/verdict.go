package devproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"syscall"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// verdict is what a Go program gets that makes a request with the SDK and receives that response, without retries.
type verdict struct {
	Type      string   `json:"type"`
	Text      string   `json:"text"`
	Matches   []string `json:"matches,omitempty"`  // the errors that errors.Is finds
	Happened  string   `json:"happened,omitempty"` // in the words of docs/errors.md
	Do        string   `json:"do,omitempty"`
	Retryable bool     `json:"retryable"`
	Failed    bool     `json:"failed"`
	Docs      string   `json:"docs,omitempty"` // the page that says more
}

const maxVerdict = 64 << 10 // bytes of a result are shown

// think asks the SDK itself: a client gets the recorded response from a transport that knows no other. A result shows
// its values if asked for, and otherwise what a log shows.
func think(r *request, names clinicaldoctest.QueryNames, values bool) *verdict {
	if _, whole := r.record.responseBody.bytes(); !whole {
		return nil
	}
	client, err := replayClient(r, names)
	if err != nil {
		return &verdict{Type: fmt.Sprintf("%T", err), Text: err.Error(), Failed: true}
	}
	value, err := callOf(r.Route, r.record, names).make(r.Route, client)
	if err != nil {
		return failure(err)
	}
	return &verdict{Type: fmt.Sprintf("%T", value), Text: resultText(value, values)}
}

// replayClient returns a client that gets the recorded response.
func replayClient(r *request, names clinicaldoctest.QueryNames) (*clinicaldoc.Client, error) {
	rec := r.record
	content, _ := rec.responseBody.bytes()
	cut := int64(len(content)) < rec.announced // never if none was announced
	player := &player{status: r.Status, header: rec.responseHeader, content: content, cut: cut}
	if r.Route == clinicaldoctest.RouteAudio {
		player.first = `{"url":"http://127.0.0.1/recording"}`
	}
	return clinicaldoc.NewClient("http://127.0.0.1", "synthetic",
		clinicaldoc.WithHTTPClient(&http.Client{Transport: player}),
		clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{}),
		clinicaldoc.WithQueryNames(clinicaldoc.QueryNames(names)))
}

// failure says what an error is, in the words of its text and of the errors page.
func failure(err error) *verdict {
	v := &verdict{
		Type: exportedType(err), Text: err.Error(), Retryable: clinicaldoc.Retryable(err), Failed: true,
		Docs: "docs/errors.md#which-errors-there-are",
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			v.Matches = append(v.Matches, s.name)
			v.Docs = s.docs
			v.Happened, v.Do = advice(s.name)
		}
	}
	if _, ok := errors.AsType[*clinicaldoc.OutcomeUnknownError](err); ok {
		v.Happened, v.Do = advice("*OutcomeUnknownError")
	}
	return v
}

// resultText shows a result with its values as JSON, or as a log shows it.
func resultText(value any, values bool) string {
	if _, isText := value.(string); isText || !values {
		return fmt.Sprintf("%v", value)
	}
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Sprintf("%v", value)
	}
	if len(text) > maxVerdict {
		return strings.ToValidUTF8(string(text[:maxVerdict]), "") + "\n(more is in the response below)"
	}
	return string(text)
}

// exportedType is the outermost type of an error that a program can name.
func exportedType(err error) string {
	for _, inner := range chain(err) {
		if name, found := strings.CutPrefix(fmt.Sprintf("%T", inner), "*clinicaldoc."); found && name[0] <= 'Z' {
			return "*clinicaldoc." + name
		}
	}
	return "error"
}

// chain returns an error and all that it wraps.
func chain(err error) []error {
	all := []error{err}
	switch wrapper := err.(type) { //nolint:errorlint // it is unwrapped here
	case interface{ Unwrap() error }:
		if inner := wrapper.Unwrap(); inner != nil {
			all = append(all, chain(inner)...)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range wrapper.Unwrap() {
			all = append(all, chain(inner)...)
		}
	}
	return all
}

// sentinels are the errors that a program tests for, the most telling last.
var sentinels = []struct {
	name string
	err  error
	docs string
}{
	{"ErrServer", clinicaldoc.ErrServer, "docs/errors.md#which-errors-there-are"},
	{"ErrUnauthorized", clinicaldoc.ErrUnauthorized, "docs/errors.md#which-errors-there-are"},
	{"ErrForbidden", clinicaldoc.ErrForbidden, "docs/errors.md#which-errors-there-are"},
	{"ErrNotFound", clinicaldoc.ErrNotFound, "docs/errors.md#which-errors-there-are"},
	{"ErrTooLarge", clinicaldoc.ErrTooLarge, "docs/errors.md#which-errors-there-are"},
	{"ErrValidation", clinicaldoc.ErrValidation, "docs/errors.md#what-the-service-said"},
	{"ErrRateLimited", clinicaldoc.ErrRateLimited, "docs/errors.md#may-i-try-again"},
	{"ErrStalled", clinicaldoc.ErrStalled, "docs/errors.md#which-errors-there-are"},
	{"ErrUnexpectedResponse", clinicaldoc.ErrUnexpectedResponse, "docs/errors.md#the-first-connection"},
	{"ErrConflict", clinicaldoc.ErrConflict, "docs/edits.md#others-edits-are-noticed"},
	{"ErrNoteIncomplete", clinicaldoc.ErrNoteIncomplete, "docs/edits.md#signing"},
	{"ErrPatientMismatch", clinicaldoc.ErrPatientMismatch, "docs/lists.md#one-patients-notes"},
	{"ErrIncompleteList", clinicaldoc.ErrIncompleteList, "docs/lists.md#complete-lists"},
	{"ErrSizeMismatch", clinicaldoc.ErrSizeMismatch, "docs/downloads.md#what-they-do-for-you"},
	{"ErrAudioChanged", clinicaldoc.ErrAudioChanged, "docs/downloads.md#what-they-do-for-you"},
	{"ErrInvalidArgument", clinicaldoc.ErrInvalidArgument, "docs/errors.md#which-errors-there-are"},
	{"ErrOutcomeUnknown", clinicaldoc.ErrOutcomeUnknown, "docs/retries.md#a-create-without-a-response"},
}

// make makes the call with a client.
func (c goCall) make(route string, client *clinicaldoc.Client) (any, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	id, _ := strconv.ParseInt(c.id, 10, 64) // of a path without one the SDK says so
	number := func(text string) int64 {
		n, _ := strconv.ParseInt(text, 10, 64)
		return n
	}
	switch route {
	case clinicaldoctest.RouteListTokens:
		return client.Tokens.List(ctx)
	case clinicaldoctest.RouteRevokeToken:
		return client.Tokens.Revoke(ctx, id)
	case clinicaldoctest.RouteCreateNote:
		return client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{
			Name: c.fields["name"], PatientID: number(c.fields["patient_id"]), PromptID: number(c.fields["prompt_id"]),
			Audio: clinicaldoc.AudioBytes("recording.wav", []byte("as it was sent")),
		})
	case clinicaldoctest.RouteListNotes:
		return client.Notes.List(ctx, clinicaldoc.ListNotesParams{
			PatientID: number(c.query.Get("patient_id")), PerPage: int(number(c.query.Get("per_page"))),
			Page: int(number(c.query.Get("page"))), Sort: clinicaldoc.Sort(c.query.Get("sort")),
			Cursor: c.query.Get("cursor"),
		})
	case clinicaldoctest.RouteGetNote:
		return client.Notes.Get(ctx, id)
	case clinicaldoctest.RouteUpdateNote:
		return client.Notes.Update(ctx, id, c.update())
	case clinicaldoctest.RouteDeleteNote:
		return client.Notes.Delete(ctx, id)
	case clinicaldoctest.RouteSignNote:
		return client.Notes.Sign(ctx, id)
	case clinicaldoctest.RouteAudioURL:
		return client.Notes.AudioURL(ctx, id)
	case clinicaldoctest.RouteMe:
		return client.Users.Me(ctx)
	case clinicaldoctest.RouteAudio:
		n, err := client.Notes.DownloadAudio(ctx, 1, io.Discard, clinicaldoc.DownloadParams{})
		return fmt.Sprintf("%d bytes", n), err
	}
	var out json.RawMessage
	err := client.Do(ctx, c.method, "/"+strings.TrimPrefix(c.path, "/"), nil, &out)
	return fmt.Sprintf("%d bytes of JSON", len(out)), err
}

// update returns the texts of an update. A member is a text of UpdateNoteParams only if it has exactly its name in
// JSON.
func (c goCall) update() (params clinicaldoc.UpdateNoteParams) {
	value := reflect.ValueOf(&params).Elem()
	for _, field := range reflect.VisibleFields(value.Type()) {
		member, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		text, isSent := c.fields[member]
		if isSent && field.Type == reflect.TypeFor[*string]() {
			value.FieldByIndex(field.Index).Set(reflect.ValueOf(&text))
		}
	}
	return params
}

// player is a transport that plays back one response.
type player struct {
	first   string // what comes before it
	status  int    // 0: none came
	header  http.Header
	content []byte
	cut     bool // the connection broke off
	played  bool
}

// RoundTrip reads the request to its end, as a service does, and gives the response.
func (p *player) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close()
	}
	if p.first != "" {
		content := []byte(p.first)
		p.first = ""
		header := http.Header{"Content-Type": {"application/json"}}
		return respondWith(r, http.StatusOK, header, bytes.NewReader(content), int64(len(content))), nil
	}
	if p.played || p.status == 0 { // nothing is known of what else the SDK may ask
		return nil, fmt.Errorf("read: %w", syscall.ECONNRESET)
	}
	p.played = true
	length := int64(len(p.content))
	var content io.Reader = bytes.NewReader(p.content)
	if p.cut {
		length++
		content = io.MultiReader(content, broken{})
	}
	return respondWith(r, p.status, p.header.Clone(), content, length), nil
}

func respondWith(r *http.Request, status int, header http.Header, content io.Reader, length int64) *http.Response {
	return &http.Response{
		StatusCode: status, Status: strconv.Itoa(status) + " " + http.StatusText(status),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(content), ContentLength: length, Request: r,
	}
}

// broken is a connection that broke off.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
