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
	"slices"
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

// AudioURL is a temporary, signed URL of a recording: anyone who has it can listen. It is not printed. Request it
// without the token, because storage refuses requests with both.
type AudioURL struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // zero if the URL does not contain it
}

var audioURL = &operation{"Notes.AudioURL", http.MethodGet, "/v1/progress-notes/{id}/audio-url", exchange.Reads}

// AudioURL returns a temporary URL of the note's recording. The error matches [ErrNotFound] if there is none, and
// [ErrUnexpectedResponse] if the response has no http or https URL.
func (s *NotesService) AudioURL(ctx context.Context, id int64, opts ...CallOption) (*AudioURL, error) {
	return runOne(ctx, s.client, audioURL, id, opts, decodeAudioURL)
}

// decodeAudioURL reads a signed URL, and rejects one that is not http or https.
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
	if err != nil || u.Host == "" {
		return nil, nil, errNoURL
	}
	if !slices.Contains(webSchemes, u.Scheme) {
		return nil, nil, errNoURL
	}
	signed.ExpiresAt = urlExpiry(u.Query())
	return signed, warnings, nil
}

// urlExpiry returns the expiry in a signed URL: date plus lifetime as in S3 and Google's storage, or a Unix time as in
// Laravel and older signatures. It returns zero for negative times and times after the year 9999.
func urlExpiry(query url.Values) time.Time {
	const year10000 = 253402300800 // which a time's JSON and text cannot represent
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(query.Get(name), 10, 64)
		return n
	}
	expires := max(number("expires"), number("Expires")) // a Unix time
	for _, prefix := range []string{"X-Amz-", "X-Goog-"} {
		signed, err := time.Parse("20060102T150405Z", query.Get(prefix+"Date"))
		if lifetime := number(prefix + "Expires"); err == nil && lifetime > 0 {
			expires = signed.Unix() + lifetime
		}
	}
	if expires <= 0 || expires >= year10000 {
		return time.Time{}
	}
	return time.Unix(expires, 0).UTC()
}

// LogValue implements [slog.LogValuer]. It lists ExpiresAt.
func (u AudioURL) LogValue() slog.Value { return slog.GroupValue(slog.Time("expires_at", u.ExpiresAt)) }

// Format implements [fmt.Formatter]. It prints the same fields as LogValue.
func (u AudioURL) Format(s fmt.State, _ rune) { redact.Format(s, "clinicaldoc.AudioURL", u) }

// DownloadParams adjusts a download. The zero value is ready to use.
type DownloadParams struct {
	// OnProgress, if not nil, is called with the number of bytes written and the total (-1 if not known), at the start
	// and after every piece. The number grows, except that a download that has to restart begins with 0. It is called
	// in the goroutine of the download.
	OnProgress func(received, total int64)

	// IgnoreSize accepts a recording whose length differs from the note's audio.size. A service may report the size of
	// the upload, but store the recording re-encoded. The length that storage reports is still checked.
	IgnoreSize bool
}

var downloadAudio = &operation{"Notes.DownloadAudio", http.MethodGet, "storage", exchange.Reads}

// DownloadAudio writes the note's recording to w, in constant memory, and returns the number of bytes written.
//
// The recording is requested from storage by a temporary URL, without the token. It uses https unless
// [WithInsecureHTTP] is set or all servers are on this machine. A download that is cut short continues where it
// stopped, and the retry policy starts again with every new byte. If storage sends no strong ETag, or another one, the
// download has to restart. It can do so if w has Seek and Truncate; otherwise it fails with [ErrAudioChanged].
//
// The error matches [ErrSizeMismatch] if the length differs from the note's audio.size. DownloadAudio reads the note
// for this during the download. It matches [ErrUnexpectedResponse] if the response is not a recording, or may be
// incomplete. If storage refuses the request, the error also matches the sentinel of that status, such as
// [ErrNotFound]. The call options apply to the requests to the service. With [WithoutRetry], storage also gets only
// one request.
func (s *NotesService) DownloadAudio(
	ctx context.Context, id int64, w io.Writer, params DownloadParams, opts ...CallOption,
) (int64, error) {
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

// The bytes that Read requests at a time: few after a Seek, twice as many with each read that continues.
const (
	minAhead = 64 << 10
	maxAhead = 1 << 20
)

// OpenAudio opens the note's recording for reading in any order, as a player does; [http.ServeContent] can serve it.
// Only the parts that are read are requested, with at most 1 MiB in memory. The context also applies to all reads. The
// caller must close the stream.
//
// The source of the recording, the retries and the errors are the same as in [NotesService.DownloadAudio], except
// [ErrSizeMismatch]. An expired URL is replaced, also with [WithoutRetry]. The error matches [ErrAudioChanged] if the
// recording was replaced since it was opened. It matches [errors.ErrUnsupported] if storage does not support ranges or
// sends no strong ETag: download the recording instead.
func (s *NotesService) OpenAudio(ctx context.Context, id int64, opts ...CallOption) (*AudioStream, error) {
	return run(ctx, s.client, openAudio.name, opts, func(inner context.Context, call *scope) (*AudioStream, error) {
		if err := checkID(openAudio.name, id); err != nil {
			return nil, err
		}
		a := &AudioStream{
			service: s,
			id:      id,
			options: call.options.inherited(),
			stored:  download.NewStored(),
			ahead:   make([]byte, minAhead),
		}
		n, err := a.fetch(inner, call, openAudio, a.ahead, 0)
		if err != nil {
			return nil, err
		}
		a.ahead = a.ahead[:n]
		a.ctx, a.cancel = context.WithCancelCause(ctx)
		return a, nil
	})
}

// AudioStream is a recording in storage, opened by [NotesService.OpenAudio]. Its methods are safe for concurrent use.
// None of its fields are printed.
type AudioStream struct {
	hidden

	service *NotesService
	id      int64
	options CallOption
	stored  *download.Stored
	ctx     context.Context //nolint:containedctx // of all reads, until Close
	cancel  context.CancelCauseFunc

	mu          sync.Mutex // of Read and Seek
	offset      int64      // of the next Read
	ahead       []byte     // bytes that were received but not all read
	aheadOffset int64      // of the first byte of ahead
	aheadErr    error      // which ended ahead; Read returns it after those bytes, and Seek clears it
}

// Size returns the recording's size in bytes, which is never 0.
func (a *AudioStream) Size() int64 { return a.stored.Size }

// ContentType returns the recording's media type as storage reports it, such as "audio/wav", or "" if it does not. It
// is never that of HTML, XML or JSON.
func (a *AudioStream) ContentType() string { return a.stored.ContentType }

// ETag returns storage's strong ETag of the recording, including the quotes. Send it as the ETag of your own response
// when you serve the recording.
func (a *AudioStream) ETag() string { return a.stored.ETag }

// Close ends all reads, also those under way. Their errors, and those of later reads, match [os.ErrClosed]. It returns
// nil.
func (a *AudioStream) Close() error {
	a.cancel(os.ErrClosed)
	return nil
}

// ReadAt implements [io.ReaderAt]. It returns [io.EOF] if the recording ends before p is full. The error for a negative
// off matches [ErrInvalidArgument]. See [NotesService.OpenAudio] for other errors.
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
	read := func(ctx context.Context, call *scope) (int, error) { return a.fetch(ctx, call, readAudio, within, off) }
	n, err := run(a.ctx, a.service.client, readAudio.name, []CallOption{a.options}, read)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// fetch reads the recording into p, from the offset off, in a call of the operation. It returns how many bytes it read.
func (a *AudioStream) fetch(ctx context.Context, call *scope, op *operation, p []byte, off int64) (int, error) {
	var noSize *Response // the size is ignored
	source := a.service.audioSource(a.id, DownloadParams{IgnoreSize: true}, &call.options, noSize)
	piece := a.stored.Piece(source, p, off)
	err := a.service.fetch(ctx, call, op, piece)
	return int(piece.Received() - off), op.downloadError(err)
}

// Read implements [io.Reader]. It requests more than p can hold, because most readers read small pieces.
func (a *AudioStream) Read(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch err := a.ended(); {
	case err != nil:
		return 0, err
	case len(p) == 0:
		return 0, nil
	}
	end := a.aheadOffset + int64(len(a.ahead))
	isAhead := a.aheadOffset <= a.offset && a.offset < end
	if !isAhead && a.aheadErr == nil {
		continues := a.offset == end
		a.readAhead(continues) // from a.offset; sets aheadErr if no byte follows
	}
	n := copy(p, a.ahead[a.offset-a.aheadOffset:])
	if n == 0 { // readAhead got nothing
		err := a.aheadErr
		a.aheadErr = nil // the next Read tries again
		return 0, err
	}
	a.offset += int64(n)
	return n, nil
}

// readAhead replaces the bytes in ahead by those at the current offset. It requests more of them each time if the
// stream continues where ahead ended.
func (a *AudioStream) readAhead(continues bool) {
	size := minAhead
	if continues {
		size = max(size, min(2*len(a.ahead), maxAhead))
	}
	if size > cap(a.ahead) {
		a.ahead = make([]byte, size)
	}
	n, err := a.ReadAt(a.ahead[:size], a.offset)
	a.aheadOffset = a.offset
	a.ahead = a.ahead[:n]
	a.aheadErr = err
}

// Seek implements [io.Seeker]. It sends no request. The offset may be after the end. The error matches
// [ErrInvalidArgument] if the offset is before the start of the recording, or whence is unknown.
func (a *AudioStream) Seek(offset int64, whence int) (int64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	base, known := map[int]int64{io.SeekStart: 0, io.SeekCurrent: a.offset, io.SeekEnd: a.Size()}[whence]
	switch err := a.ended(); {
	case err != nil:
		return 0, err
	case !known:
		return 0, invalid("AudioStream.Seek: whence", "must be io.SeekStart, io.SeekCurrent or io.SeekEnd")
	case base+offset < 0:
		return 0, invalid("AudioStream.Seek: offset", "is before the start of the recording")
	}
	a.offset = base + offset
	a.aheadErr = nil
	return a.offset, nil
}

// ended returns an error if the stream was closed or its context has ended.
func (a *AudioStream) ended() error {
	ended := redact.ContextErr(a.ctx)
	if ended == nil {
		return nil
	}
	detail := "the recording cannot be read further: " + redact.Cause(ended)
	return &callError{op: readAudio, detail: detail, causes: []error{ended}}
}

// DownloadAudioFile downloads the note's recording to a file that only this user can read, and returns its size. The
// download is the same as in [NotesService.DownloadAudio]. An existing file is replaced. If path is a symbolic link,
// the file that it points to is replaced, and must exist.
//
// The recording is written to hidden files in the same directory (".visit.wav.clinicaldoc-part...") and gets its name
// only when it is complete and on disk. If the download fails, the part is kept. The next call for the same note and
// path continues with it, also in another process. The recording's temporary URL must then be the same except for its
// query. Other files are never changed: if one is in the way, the error matches [os.ErrExist]. A part is rejected if
// other users own it, can write to it, or reach it by a hard link.
//
// Only one call at a time can download to a path: the error of a second one matches [ErrInUse]. If the path is empty or
// a directory, it matches [ErrInvalidArgument]. Errors of the file system match their kind, such as [os.ErrPermission].
func (s *NotesService) DownloadAudioFile(
	ctx context.Context, id int64, path string, params DownloadParams, opts ...CallOption,
) (int64, error) {
	return run(ctx, s.client, "Notes.DownloadAudioFile", opts, func(ctx context.Context, call *scope) (int64, error) {
		target, err := targetFile(path)
		if err != nil {
			return 0, err
		}
		if err := checkID(call.name, id); err != nil {
			return 0, err
		}
		part, err := download.OpenPart(ctx, target, fmt.Sprintf("note %d of %s", id, s.client.service()))
		switch {
		case errors.Is(err, disk.ErrHeld):
			const detail = "another download to this path is in progress; wait for it, or use another path"
			return 0, &callError{
				op: downloadAudio, detail: detail, causes: []error{ErrInUse}, errorType: "in_use", transient: true,
			}
		case err != nil:
			return 0, downloadAudio.downloadError(err)
		}
		defer part.Leave() // also if a callback panics
		n, err := s.download(ctx, call, id, part, params)
		if err != nil {
			return n, err
		}
		return n, downloadAudio.downloadError(part.Finish())
	})
}

// targetFile returns the path of the file to write: what path points to if it is a symbolic link.
func targetFile(path string) (string, error) {
	if path == "" {
		return "", invalid("Notes.DownloadAudioFile: path", "is empty")
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return "", invalid("Notes.DownloadAudioFile: path", "is not a regular file")
	}
	target, err := filepath.EvalSymlinks(path)
	if err == nil {
		return target, nil
	}
	info, lstatErr := os.Lstat(path)
	if errors.Is(lstatErr, os.ErrNotExist) {
		return path, nil
	}
	if lstatErr != nil {
		// For example a name that is too long, which would otherwise fail only at the end of the download.
		detail := "the file cannot be opened: " + redact.Cause(lstatErr)
		return "", &callError{
			op: downloadAudio, detail: detail, causes: []error{lstatErr}, transient: disk.Limited(lstatErr),
		}
	}
	isLink := info.Mode()&os.ModeSymlink != 0
	if isLink { // for example into a share that is not mounted
		const detail = "the path is a link to a file that does not exist"
		return "", &callError{op: downloadAudio, detail: detail, causes: []error{err}}
	}
	return path, nil
}

// download writes the note's recording to the target, and returns how many bytes were written.
func (s *NotesService) download(
	ctx context.Context, call *scope, id int64, to download.Target, params DownloadParams,
) (int64, error) {
	if err := checkID(call.name, id); err != nil {
		return 0, err
	}
	var sized Response // to the request for the size, which is sent concurrently; zero if the size is ignored
	source := s.audioSource(id, params, &call.options, &sized)
	source.BeforeWrite = call.recordingDisclosure(ctx, id)
	d := download.New(source, to)
	defer d.Stop()
	if err := s.fetch(ctx, call, downloadAudio, d); err != nil {
		return d.Received(), downloadAudio.downloadError(err)
	}
	err := d.CheckSize(ctx) // waits for the response with the size
	wasSized := sized.Attempts > 0
	if response := call.options.response; response != nil && wasSized {
		*response = sized
	}
	if err == nil {
		err = call.auditDownload(ctx, source.BeforeWrite)
	}
	return d.Received(), downloadAudio.downloadError(err)
}

// fetch makes a transfer from storage, which the policy drives. An address that the policy rejects is reported as an
// attempt that was not sent. The result does not need to be released, because the bytes were written elsewhere.
func (s *NotesService) fetch(ctx context.Context, call *scope, op *operation, policy exchange.Policy) error {
	call.op = op
	request := &exchange.Request{
		Peer: s.client.storage, Method: op.method, URL: new(url.URL), Effect: op.effect, Caller: call, Policy: policy,
	}
	result, err := request.Do(ctx)
	if !result.Stopped {
		return err
	}
	contextEnded := errors.Is(ctx.Err(), err)
	if contextEnded { // otherwise err is that of the call for an address
		return call.explainStop(ctx, result, err)
	}
	rejected, ok := err.(*download.Error) //nolint:errorlint // an error that wraps one is not a failure of storage
	if ok {
		call.reportNotSent(ctx, op.downloadError(rejected))
	}
	return err
}

// audioSource returns the functions by which a download calls the service. The response with the size is stored in
// sized, which may be nil if the size is ignored.
func (s *NotesService) audioSource(
	id int64, params DownloadParams, options *callOptions, sized *Response,
) download.Source {
	c := s.client
	inherited := options.inherited()
	source := download.Source{
		Address: func(ctx context.Context) (*download.Address, error) {
			signed, err := s.AudioURL(ctx, id, inherited, WithResponse(cmp.Or(options.response, new(Response))))
			return (*download.Address)(signed), err
		},
		PlainHTTP: func(u *url.URL) bool {
			if c.insecureHTTP {
				return true
			}
			return c.baseURL.Scheme == "http" && exchange.Loopback(u)
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

// downloadError returns the error of this package for a failure of a download: of storage, of this machine's disk, or
// of the caller's writer. Other errors, such as nil and those of the service, are returned unchanged.
func (op *operation) downloadError(err error) error {
	failure, ok := err.(*download.Error) //nolint:errorlint // an error that wraps one is another call's
	if !ok {
		return err
	}
	causes := failure.Causes
	isRefusal := failure.Status != 0 // storage responded
	if isRefusal {
		causes = []error{&Error{
			StatusCode: failure.Status,
			RequestID:  requestID(failure.Header),
			RetryAfter: exchange.RetryAfter(failure.Header, time.Now()),
			Operation:  op.name,
			Method:     op.method,
			Route:      op.route,
		}}
	}
	transient := failure.Then == download.Retry || disk.Limited(err)
	return &callError{op: op, detail: failure.Text, causes: causes, transient: transient}
}
