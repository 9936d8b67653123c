package clinicaldoc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
	"github.com/clinicaldoc/clinicaldoc-go/internal/download"
	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/tolerant"
)

// AudioURL is a temporary, signed URL of a recording: whoever has it can listen. It does not print. Fetch it without
// the token: storage refuses requests that carry both.
type AudioURL struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // zero when the URL does not say
}

var audioURL = &operation{"Notes.AudioURL", http.MethodGet, "/v1/progress-notes/{id}/audio-url", exchange.Reads}

// AudioURL asks for a temporary URL of the note's recording. Errors: [ErrNotFound], [ErrUnexpectedResponse] when the
// response holds no http or https URL.
func (s *NotesService) AudioURL(ctx context.Context, id int64, opts ...CallOption) (*AudioURL, error) {
	return runOne(ctx, s.client, audioURL, id, opts, decodeAudioURL)
}

func decodeAudioURL(response []byte) (*AudioURL, []string, error) {
	signed := new(AudioURL)
	warnings, err := tolerant.Decode(response, "url", func(d *jsonscan.Decoder) {
		tolerant.Object(d, func(key []byte) {
			if string(key) == "url" {
				tolerant.RequiredText(d, &signed.URL)
			}
		})
	})
	if err != nil {
		return nil, nil, err
	}
	u, err := url.Parse(signed.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, nil, errNoURL
	}
	signed.ExpiresAt = urlExpiry(u.Query())
	return signed, warnings, nil
}

// urlExpiry reads the expiry from a signed URL: date plus lifetime as S3 and Google's storage write it, or a Unix time as
// Laravel and older signatures do. What is negative or beyond the year 9999 tells nothing.
func urlExpiry(query url.Values) time.Time {
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(query.Get(name), 10, 64)
		return n
	}
	expires := max(number("expires"), number("Expires"))
	for _, prefix := range []string{"X-Amz-", "X-Goog-"} {
		signed, err := time.Parse("20060102T150405Z", query.Get(prefix+"Date"))
		if lifetime := number(prefix + "Expires"); err == nil && lifetime > 0 {
			expires = signed.Unix() + lifetime
		}
	}
	if expires <= 0 || expires >= 253402300800 { // the year 10000, which a time's JSON and text cannot hold
		return time.Time{}
	}
	return time.Unix(expires, 0).UTC()
}

// LogValue lists what may be logged of the URL: when it expires.
func (u AudioURL) LogValue() slog.Value { return slog.GroupValue(slog.Time("expires_at", u.ExpiresAt)) }

// Format prints what LogValue lists for every verb.
func (u AudioURL) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.AudioURL", u) }

// DownloadParams adjusts a download. The zero value is ready to use.
type DownloadParams struct {
	// OnProgress, when set, gets how many bytes of the recording are written, and of how many (-1 when not known): once
	// at the start and after every piece. The number grows; a download that has to restart begins with 0. It is called
	// in the goroutine of the download.
	OnProgress func(received, total int64)

	// IgnoreSize takes the recording although its length is not the note's audio.size, as when the service keeps the size
	// of what was uploaded and stores it re-encoded. The length that storage tells is checked all the same.
	IgnoreSize bool
}

var downloadAudio = &operation{"Notes.DownloadAudio", http.MethodGet, "storage", exchange.Reads}

// DownloadAudio writes the note's recording to w, in constant memory, and returns how many bytes w has of it.
//
// It comes from storage by a temporary URL, without the token, by https unless [WithInsecureHTTP] is given or all is on this
// machine. A download that is cut goes on where it was; the retry policy counts anew with every new byte. Where storage gives no
// strong ETag, or another one, it restarts if w has Seek and Truncate, else it fails with [ErrAudioChanged].
//
// [ErrSizeMismatch]: the length is not the note's audio.size, for which the note is read meanwhile. [ErrUnexpectedResponse]: what
// came is no recording, or nothing proves its end. A refusal of storage also matches its status, as [ErrNotFound]. The call
// options apply to the requests to the service; with [WithoutRetry] storage too is asked once.
func (s *NotesService) DownloadAudio(ctx context.Context, id int64, w io.Writer, params DownloadParams, opts ...CallOption) (int64, error) {
	return run(ctx, s.client, downloadAudio.name, opts, func(ctx context.Context, call *scope) (int64, error) {
		if w == nil {
			return 0, invalid("Notes.DownloadAudio: w", "is nil")
		}
		return s.download(ctx, call, id, download.NewWriter(w), params)
	})
}

var (
	openAudio = &operation{"Notes.OpenAudio", http.MethodGet, "storage", exchange.Reads}
	readAudio = &operation{"AudioStream.ReadAt", http.MethodGet, "storage", exchange.Reads}
)

// How much Read fetches at a time: little after a Seek, twice as much whenever it goes on where it was.
const (
	minAhead = 64 << 10
	maxAhead = 1 << 20
)

// OpenAudio opens the note's recording for reading in any order, as a player does: [http.ServeContent] can serve it. Only the
// parts that are read are asked for, in memory of at most 1 MiB. The context is that of all reads too; close the stream.
//
// Where the recording comes from, what is retried, and the errors are as in [NotesService.DownloadAudio], [ErrSizeMismatch] apart.
// An expired URL is replaced also with [WithoutRetry]. [ErrAudioChanged] is a recording that was replaced since it was opened. A
// storage that knows no ranges or gives no strong ETag is [errors.ErrUnsupported]: download the recording instead.
func (s *NotesService) OpenAudio(ctx context.Context, id int64, opts ...CallOption) (*AudioStream, error) {
	return run(ctx, s.client, openAudio.name, opts, func(inner context.Context, call *scope) (*AudioStream, error) {
		if err := checkID(openAudio.name, id); err != nil {
			return nil, err
		}
		a := &AudioStream{service: s, id: id, options: call.options.inherited(), stored: download.NewStored(), ahead: make([]byte, minAhead)}
		n, err := a.fetch(inner, call, openAudio, a.ahead, 0)
		if err != nil {
			return nil, err
		}
		a.ahead = a.ahead[:n]
		a.ctx, a.cancel = context.WithCancelCause(ctx)
		return a, nil
	})
}

// AudioStream is a recording in storage, made by [NotesService.OpenAudio]. ReadAt may be called by several goroutines at once,
// and Close while others read. Nothing of it prints.
type AudioStream struct {
	hidden

	service *NotesService
	id      int64
	options CallOption
	stored  *download.Stored
	ctx     context.Context //nolint:containedctx // of all reads, until Close
	cancel  context.CancelCauseFunc

	mu    sync.Mutex // of Read and Seek
	at    int64      // where Read is
	start int64      // where ahead is
	ahead []byte     // bytes that are here already
	fault error      // which ended them, and comes when they are read; Seek forgets it
}

// Size is the recording's size in bytes, never 0.
func (a *AudioStream) Size() int64 { return a.stored.Size }

// ContentType is the recording's media type as storage tells it, such as "audio/wav"; empty when it does not. It is never that of
// HTML, XML or JSON.
func (a *AudioStream) ContentType() string { return a.stored.ContentType }

// ETag is storage's strong ETag of the recording, quotes included: a fit one for those who get the recording from here.
func (a *AudioStream) ETag() string { return a.stored.ETag }

// Close ends all reads, those under way too; they and later ones are [os.ErrClosed]. It returns nil.
func (a *AudioStream) Close() error {
	a.cancel(os.ErrClosed)
	return nil
}

// ReadAt fills p with the recording's bytes from off on. At the end of the recording there are fewer, and the error is
// [io.EOF]. A negative off is [ErrInvalidArgument]; the other errors are those of [NotesService.OpenAudio].
func (a *AudioStream) ReadAt(p []byte, off int64) (int, error) {
	switch err := a.ended(); {
	case err != nil:
		return 0, err
	case off < 0:
		return 0, invalid("AudioStream.ReadAt: off", "is negative")
	case off >= a.Size():
		return 0, io.EOF
	case len(p) == 0:
		return 0, nil
	}
	within := p[:min(int64(len(p)), a.Size()-off)]
	n, err := run(a.ctx, a.service.client, readAudio.name, []CallOption{a.options}, func(ctx context.Context, call *scope) (int, error) {
		return a.fetch(ctx, call, readAudio, within, off)
	})
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (a *AudioStream) fetch(ctx context.Context, call *scope, op *operation, p []byte, off int64) (int, error) {
	piece := a.stored.Piece(a.service.audioSource(a.id, DownloadParams{IgnoreSize: true}, &call.options, nil), p, off)
	err := a.service.fetch(ctx, call, op, piece)
	return int(piece.Received() - off), op.downloadError(err)
}

// Read is ReadAt where the stream is, by larger steps than those of most readers.
func (a *AudioStream) Read(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch err := a.ended(); {
	case err != nil:
		return 0, err
	case len(p) == 0:
		return 0, nil
	}
	if end := a.start + int64(len(a.ahead)); a.fault == nil && (a.at < a.start || a.at >= end) {
		size := minAhead
		if a.at == end {
			size = max(size, min(2*len(a.ahead), maxAhead))
		}
		if size > cap(a.ahead) {
			a.ahead = make([]byte, size)
		}
		n, err := a.ReadAt(a.ahead[:size], a.at)
		a.start, a.ahead, a.fault = a.at, a.ahead[:n], err
	}
	n := copy(p, a.ahead[a.at-a.start:])
	if n == 0 {
		err := a.fault
		a.fault = nil
		return 0, err
	}
	a.at += int64(n)
	return n, nil
}

// Seek says where the next Read begins, which may be beyond the end. It makes no request. A place before the beginning and an
// unknown whence are [ErrInvalidArgument].
func (a *AudioStream) Seek(offset int64, whence int) (int64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	base, known := map[int]int64{io.SeekStart: 0, io.SeekCurrent: a.at, io.SeekEnd: a.Size()}[whence]
	switch err := a.ended(); {
	case err != nil:
		return 0, err
	case !known:
		return 0, invalid("AudioStream.Seek: whence", "is none of those of package io")
	case base+offset < 0:
		return 0, invalid("AudioStream.Seek: offset", "is before the beginning")
	}
	a.at, a.fault = base+offset, nil
	return a.at, nil
}

// ended is the error of a stream that was closed or whose context is over.
func (a *AudioStream) ended() error {
	ended := redact.ContextErr(a.ctx)
	if ended == nil {
		return nil
	}
	return &callError{op: readAudio, detail: "nothing can be read any more: " + redact.Cause(ended), causes: []error{ended}}
}

// DownloadAudioFile downloads the note's recording, as [NotesService.DownloadAudio] does, to a file that only this user
// can read, and returns its size. An existing file is replaced; where path is a link, the file is the one that it leads to, and must
// be there.
//
// The recording is collected in hidden files beside it (".visit.wav.clinicaldoc-part...") and gets its name only when it is
// complete and on disk. When the download fails, the part stays, and the next call for the same note and path goes on from there,
// also in another process. Other files are never touched: one that is in the way is [os.ErrExist], and a part that others own,
// can write to or reach by a hard link is refused.
//
// One call at a time can download to a path: a second one is [ErrInUse]. An empty path and one of a directory are
// [ErrInvalidArgument]. Errors of the file system match what they are, such as [os.ErrPermission].
func (s *NotesService) DownloadAudioFile(ctx context.Context, id int64, path string, params DownloadParams, opts ...CallOption) (int64, error) {
	return run(ctx, s.client, "Notes.DownloadAudioFile", opts, func(ctx context.Context, call *scope) (int64, error) {
		if path == "" {
			return 0, invalid("Notes.DownloadAudioFile: path", "is empty")
		}
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			return 0, invalid("Notes.DownloadAudioFile: path", "is a directory or another thing than a file")
		}
		info, unusable := os.Lstat(path)
		switch target, err := filepath.EvalSymlinks(path); {
		case err == nil:
			path = target // or the link would be replaced, not what it leads to
		case info != nil && info.Mode()&os.ModeSymlink != 0: // as into a share that is not mounted
			return 0, &callError{op: downloadAudio, detail: "the path is a link that leads to no file", causes: []error{err}}
		case unusable != nil && !errors.Is(unusable, os.ErrNotExist): // as a name that is too long, of which only the end would tell
			return 0, &callError{op: downloadAudio, detail: "the file cannot be opened: " + redact.Cause(unusable), causes: []error{unusable}, transient: disk.Limited(unusable)}
		}
		if err := checkID(call.name, id); err != nil {
			return 0, err
		}
		part, err := download.OpenPart(ctx, path, fmt.Sprintf("note %d of %s", id, s.client.service()))
		switch {
		case errors.Is(err, disk.ErrHeld):
			return 0, &callError{op: downloadAudio, detail: "another download to the path is under way", causes: []error{ErrInUse}, kind: "in_use", transient: true}
		case err != nil:
			return 0, downloadAudio.downloadError(err)
		}
		defer part.Leave() // also when a callback of the caller's panics
		n, err := s.download(ctx, call, id, part, params)
		if err != nil {
			return n, err
		}
		return n, downloadAudio.downloadError(part.Finish())
	})
}

// download brings the note's recording to the target, and returns how much of it is there.
func (s *NotesService) download(ctx context.Context, scope *scope, id int64, to download.Target, params DownloadParams) (int64, error) {
	if err := checkID(scope.name, id); err != nil {
		return 0, err
	}
	var response Response // to the question for the size, which is asked while other things go on
	source := s.audioSource(id, params, &scope.options, &response)
	source.BeforeWrite = scope.recordingDisclosure(ctx, id)
	d := download.New(source, to)
	defer d.Stop()
	err := s.fetch(ctx, scope, downloadAudio, d)
	if err == nil {
		err = d.CheckSize(ctx)
		if err == nil {
			err = scope.auditDownload(ctx, source.BeforeWrite)
		}
		if options := &scope.options; options.response != nil && response.Attempts > 0 {
			*options.response = response
		}
	}
	return d.Received(), downloadAudio.downloadError(err)
}

// fetch makes a transfer from storage. Nothing of its result is to be released: the bytes went where they belong.
func (s *NotesService) fetch(ctx context.Context, scope *scope, op *operation, p exchange.Policy) error {
	scope.op = op
	call := &exchange.Request{Peer: s.client.storage, Method: op.method, URL: new(url.URL), Effect: op.effect, Caller: scope, Policy: p}
	result, err := call.Do(ctx)
	if result.Stopped && errors.Is(ctx.Err(), err) { // else it is of the call for an address, in that call's words
		return scope.explainStop(ctx, result, err)
	}
	rejected, ok := err.(*download.Error) //nolint:errorlint // what wraps one is no failure of storage
	if result.Stopped && ok {
		scope.refused(ctx, op.downloadError(rejected))
	}
	return err
}

// audioSource is what a download needs of the service; sized gets the response to the question for the size.
func (s *NotesService) audioSource(id int64, params DownloadParams, options *callOptions, sized *Response) download.Source {
	c, inherited := s.client, options.inherited()
	source := download.Source{
		Address: func(ctx context.Context) (*download.Address, error) {
			signed, err := s.AudioURL(ctx, id, inherited, WithResponse(cmp.Or(options.response, new(Response))))
			return (*download.Address)(signed), err
		},
		PlainHTTP: func(u *url.URL) bool {
			return c.insecureHTTP || c.baseURL.Scheme == "http" && exchange.Loopback(u)
		},
		Progress: params.OnProgress,
	}
	if !options.noRetry {
		source.MaxRetries = c.maxRetries
	}
	if !params.IgnoreSize {
		source.Size = func(ctx context.Context) int64 {
			note, err := s.Get(ctx, id, inherited, WithResponse(sized))
			if err != nil || note.Audio == nil {
				return -1
			}
			return note.Audio.Size
		}
	}
	return source
}

// downloadError gives a failure the shape of this package's errors. What the service failed with has it already.
func (op *operation) downloadError(err error) error {
	failure, ok := err.(*download.Error) //nolint:errorlint // what wraps one is no failure of storage
	if !ok {
		return err
	}
	causes := failure.Causes
	if failure.Status != 0 {
		causes = []error{&Error{
			StatusCode: failure.Status, RequestID: requestID(failure.Header), RetryAfter: exchange.RetryAfter(failure.Header, time.Now()),
			Operation: op.name, Method: op.method, Route: op.route,
		}}
	}
	return &callError{op: op, detail: failure.Text, causes: causes, transient: failure.Then == download.Retry || disk.Limited(err)}
}
