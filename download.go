package clinicaldoc

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
	"github.com/clinicaldoc/clinicaldoc-go/internal/retry"
)

// DownloadParams adjusts a download. The zero value is ready to use.
type DownloadParams struct {
	// OnProgress, when set, is told how many bytes of the recording are written, and of how many (-1 when not known): once
	// at the start and after every piece. The number grows; a download that has to start again tells 0 anew. It is called
	// in the goroutine of the download.
	OnProgress func(received, total int64)
}

var downloadAudio = operation{"Notes.DownloadAudio", http.MethodGet, "storage", retry.Reads}

// DownloadAudio writes the note's recording to w, in constant memory, and returns how many bytes w has of it.
//
// The recording comes from storage, whose temporary address it asks the service for, without the token, cookies, the
// limiter or the client's timeout. Storage must be reached by https; plain http is accepted with [WithInsecureHTTP], and
// on this machine when the base URL is plain http too. Redirects of storage are not followed.
//
// A download that is cut goes on where it was, and asks for a fresh address when the old one has expired. The client's
// retry policy says how often and how soon; it counts anew with every new byte, and so does the one fresh address. Going
// on needs a strong ETag that stays the same. Where that is missing, or storage answers with the whole file, the download
// starts again if w has Seek and Truncate as an *os.File has, else it fails with [ErrAudioChanged].
//
// The length is checked against what storage tells and, with one Get, against the note's audio.size. An answer
// whose end nothing proves, that is empty, compressed, XML, HTML or JSON, or longer than it was said to be, is
// [ErrUnexpectedResponse]. What storage refuses also matches the status' sentinel, such as [ErrNotFound] or
// [ErrForbidden]. The call options apply to the requests to the service; with [WithoutRetry] storage too is asked once.
func (s *NotesService) DownloadAudio(ctx context.Context, id int64, w io.Writer, params DownloadParams, opts ...CallOption) (int64, error) {
	if w == nil {
		return 0, invalid("Notes.DownloadAudio: w", "is nil")
	}
	d, err := s.newDownload(id, newWriterTarget(w), params, opts)
	if err != nil {
		return 0, err
	}
	return d.run(ctx)
}

// audioTarget is where a download goes.
type audioTarget interface {
	io.Writer
	// begin is told what recording the bytes from the first on belong to.
	begin(recording) error
	// rewind drops all that was written. An error means that it cannot.
	rewind() error
}

// recording is what tells one recording from another.
type recording struct {
	etag  string // strong, or empty: then nothing can be appended later
	total int64  // -1: not known
}

// download is one recording on its way from storage, over any number of attempts.
type download struct {
	service  *NotesService
	id       int64
	opts     []CallOption
	to       audioTarget
	progress func(received, total int64)
	policy   RetryPolicy

	recording
	received int64 // bytes that the target has
	furthest int64 // the most it ever had
	reported recordingProgress

	address  *AudioURL // nil: to be asked for
	tried    bool      // the address was used
	renewed  bool      // a refused address was replaced since the last new byte
	attempts int
	failures int           // attempts since the last new byte
	asked    time.Duration // Retry-After of the latest attempt
	size     int64         // audio.size, once it was asked for: -1 when the note does not tell
}

type recordingProgress struct{ received, total int64 }

func (s *NotesService) newDownload(id int64, to audioTarget, params DownloadParams, opts []CallOption) (*download, error) {
	if id < 1 {
		return nil, invalid("Notes.DownloadAudio: id", "%d is not a valid id; ids start at 1", id)
	}
	var caller callOptions
	for _, opt := range opts {
		if err := opt(&caller); err != nil {
			return nil, err
		}
	}
	d := &download{
		service: s, id: id, opts: opts, to: to, progress: params.OnProgress, policy: s.client.config.retry,
		recording: recording{total: -1}, reported: recordingProgress{received: -1},
	}
	if caller.noRetry {
		d.policy.MaxRetries = 0
	}
	return d, nil
}

// next says what may follow a failed attempt.
type next int

const (
	giveUp     next = iota
	repeat          // the failure may pass
	newAddress      // storage refuses the address, as it does when that has expired
)

// run makes attempts until the recording is complete or none may follow.
func (d *download) run(ctx context.Context) (int64, error) {
	for {
		if err := d.findAddress(ctx); err != nil {
			return d.received, err
		}
		before := d.furthest
		then, err := d.attempt(ctx)
		if err == nil {
			return d.received, d.checkSize(ctx)
		}
		if d.furthest > before {
			d.failures, d.renewed = 0, false
		}
		switch {
		case then == newAddress && !d.renewed && d.policy.MaxRetries > 0:
			d.renewed, d.address = true, nil
			continue
		case then != repeat || d.failures >= d.policy.MaxRetries:
			return d.received, err
		}
		d.failures++
		if !d.pause(ctx) {
			if over := redact.ContextErr(ctx); over != nil {
				err = d.fail("gave up waiting to repeat: "+redact.Cause(over), over, err)
			}
			return d.received, err
		}
	}
}

// findAddress asks for an address when there is none or the one there is has expired. One that was not tried yet is not
// judged by this machine's clock.
func (d *download) findAddress(ctx context.Context) error {
	if d.address != nil {
		expires := d.address.ExpiresAt
		if !d.tried || expires.IsZero() || time.Now().Before(expires) {
			return nil
		}
	}
	address, err := d.service.AudioURL(ctx, d.id, d.opts...)
	d.address, d.tried = address, false
	return err
}

// pause waits before the next attempt, or reports that the wait does not fit.
func (d *download) pause(ctx context.Context) bool {
	wait := retry.Backoff(d.failures-1, d.policy.MinWait, d.policy.MaxWait, d.asked)
	if deadline, limited := ctx.Deadline(); d.asked > d.policy.MaxWait || limited && time.Until(deadline) <= wait {
		return false
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

// start is called with the first byte of a recording at hand. What the target has of another one is dropped.
func (d *download) start(r recording) error {
	if err := d.restart("storage answered with the whole recording instead of the rest"); err != nil {
		return err
	}
	d.recording = r
	if err := d.to.begin(r); err != nil {
		return d.fail("the target failed: "+redact.Cause(err), err)
	}
	return nil
}

// restart drops what the target has.
func (d *download) restart(why string) error {
	if d.received == 0 {
		return nil
	}
	if err := d.to.rewind(); err != nil {
		return d.fail(why+", and the writer cannot be rewound", ErrAudioChanged, err)
	}
	d.received, d.recording = 0, recording{total: -1}
	return nil
}

// checkSize holds a complete recording against what the note tells of it.
func (d *download) checkSize(ctx context.Context) error {
	if size := d.noteSize(ctx); size > 0 && size != d.received {
		return d.fail("the recording is complete by what storage tells, but its length is not the note's audio.size", ErrUnexpectedResponse)
	}
	return nil
}

// noteSize is the recording's size as the note tells it, -1 when it does not. It is asked for once.
func (d *download) noteSize(ctx context.Context) int64 {
	if d.size == 0 {
		d.size = -1
		if note, err := d.service.Get(ctx, d.id, d.opts...); err == nil && note.Audio != nil && note.Audio.Size > 0 {
			d.size = note.Audio.Size
		}
	}
	return d.size
}

func (d *download) report() {
	now := recordingProgress{d.received, d.total}
	if d.progress != nil && now != d.reported {
		d.reported = now
		d.progress(now.received, now.total)
	}
}

func (d *download) fail(detail string, causes ...error) error {
	return &callError{op: downloadAudio, detail: detail, causes: causes}
}

// failForNow is fail for what may pass by itself.
func (d *download) failForNow(detail string, causes ...error) error {
	return &callError{op: downloadAudio, detail: detail, causes: causes, transient: true}
}

// writerTarget is a caller's writer.
type writerTarget struct {
	io.Writer
	rewinder rewinder // nil when the writer cannot be rewound
	base     int64    // where the recording begins
}

type rewinder interface {
	io.Seeker
	Truncate(size int64) error
}

func newWriterTarget(w io.Writer) *writerTarget {
	t := &writerTarget{Writer: w}
	if r, ok := w.(rewinder); ok {
		if base, err := r.Seek(0, io.SeekCurrent); err == nil { // a pipe is an *os.File too
			t.rewinder, t.base = r, base
		}
	}
	return t
}

func (t *writerTarget) begin(recording) error { return nil }

const errNoRewind = safeError("it has no Seek and Truncate")

func (t *writerTarget) rewind() error {
	if t.rewinder == nil {
		return errNoRewind
	}
	if err := t.rewinder.Truncate(t.base); err != nil {
		return err
	}
	_, err := t.rewinder.Seek(t.base, io.SeekStart)
	return err
}
