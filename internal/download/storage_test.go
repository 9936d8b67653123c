package download

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

// tracked is a watch that can be looked at.
type tracked struct {
	progress int
	paused   bool
}

func (w *tracked) Progress()  { w.progress, w.paused = w.progress+1, false }
func (w *tracked) Pause()     { w.paused = true }
func (w *tracked) Bound(int)  {}
func (w *tracked) Err() error { return nil }

// newTest is a download to w of a recording whose size is not known.
func newTest(w io.Writer) *Download {
	return New(Source{
		Address:   func(context.Context) (*Address, error) { return &Address{URL: "https://storage.clinic.test/7"}, nil },
		Size:      func(context.Context) int64 { return -1 },
		PlainHTTP: func(*url.URL) bool { return false },

		MaxRetries: 3,
	}, NewWriter(w))
}

// reply is a response of storage.
type reply struct {
	status   int
	body     io.Reader
	length   int64    // -1: not told
	header   []string // keys and values
	unmarked bool     // without a length, its end is that of the connection
	http2    bool     // which marks the end
}

func respond(status int, body io.Reader, length int64, header ...string) reply {
	return reply{status: status, body: body, length: length, header: header}
}

// endsEarly gives the data, and then the error of a body that ends too early.
func endsEarly(data []byte) io.Reader {
	return io.MultiReader(bytes.NewReader(data), iotest.ErrReader(io.ErrUnexpectedEOF))
}

// take gives a reply to a download, under the watch if there is one, and returns what the attempt comes to.
func take(t *testing.T, d *Download, r reply, watches ...exchange.Watch) (int64, error) {
	t.Helper()
	resp := &http.Response{
		StatusCode: r.status, ProtoMajor: 1, ProtoMinor: 1, ContentLength: r.length, Header: http.Header{},
		Body: io.NopCloser(r.body),
	}
	if r.http2 {
		resp.ProtoMajor = 2
	}
	if r.length < 0 && !r.unmarked {
		resp.TransferEncoding = []string{"chunked"}
	}
	for i := 0; i+1 < len(r.header); i += 2 {
		resp.Header.Set(r.header[i], r.header[i+1])
	}
	n, err := d.Receive(t.Context(), resp, append(watches, new(tracked))[0])
	if err != nil && !errors.Is(err, exchange.ErrUnusable) { // as the exchange does
		err = Explain(&exchange.Attempt{Step: exchange.Network, Cause: err})
	}
	return n, err
}

// audio is made of bytes that are no text.
func audio(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i ^ i>>8)
	}
	return b
}

func TestReceive_WholeRecordingAgain_SkipsWhatIsThere(t *testing.T) {
	t.Parallel()
	data := audio(40)
	for at := 1; at < len(data); at++ {
		for _, length := range []int64{40, -1} {
			var got bytes.Buffer
			d := newTest(&got)
			_, err := take(t, d, respond(200, endsEarly(data[:at]), length, "ETag", `"1"`))
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.Equal(t, int64(at), d.Received())
			watch := new(tracked)
			n, err := take(t, d, respond(200, iotest.OneByteReader(bytes.NewReader(data)), length, "ETag", `"1"`), watch)
			require.NoError(t, err, at)
			assert.Equal(t, int64(40), n)
			assert.Equal(t, data, got.Bytes(), fmt.Sprint(at, length))
			assert.GreaterOrEqual(t, watch.progress, 40, "every byte is progress, skipped or not")
		}
	}
}

func TestReceive_Length_DecidesWhereTheRecordingEnds(t *testing.T) {
	t.Parallel()
	data := audio(1000)
	pieces := func() io.Reader { // the first piece ends where the service says the recording does
		return io.MultiReader(bytes.NewReader(data[:800]), bytes.NewReader(data[800:]))
	}
	for name, tt := range map[string]struct {
		size   int64
		length int64
		marked bool // the end of the body is
		http2  bool
		err    error
		got    int
	}{
		"told":                             {size: 1000, length: 1000, got: 1000},
		"told by storage alone":            {size: -1, length: 1000, got: 1000},
		"told otherwise":                   {size: 800, length: 1000, err: ErrSizeMismatch, got: 1000},
		"longer than told":                 {size: 1000, length: 900, err: exchange.ErrUnexpected, got: 800},
		"marked":                           {size: 1000, length: -1, marked: true, got: 1000},
		"marked, nobody tells":             {size: -1, length: -1, marked: true, got: 1000},
		"marked, the service says nothing": {size: 0, length: -1, marked: true, got: 1000},
		"marked, the service says less":    {size: 800, length: -1, marked: true, err: ErrSizeMismatch, got: 800},
		"marked, the service says more":    {size: 1001, length: -1, marked: true, err: ErrSizeMismatch, got: 1000},
		"marked by HTTP/2":                 {size: -1, length: -1, http2: true, got: 1000},
		"unmarked":                         {size: 1000, length: -1, got: 1000},
		"unmarked, nobody tells":           {size: -1, length: -1, err: exchange.ErrUnexpected},
		"unmarked, the service says less":  {size: 800, length: -1, err: ErrSizeMismatch, got: 800},
		"unmarked, the service says more":  {size: 1001, length: -1, err: io.ErrUnexpectedEOF, got: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got bytes.Buffer
			d := newTest(&got)
			asked := 0
			d.source.Size = func(context.Context) int64 { asked++; return tt.size }
			resp := respond(200, pieces(), tt.length)
			resp.unmarked = !tt.marked
			resp.http2 = tt.http2
			_, err := take(t, d, resp)
			if err == nil {
				err = d.CheckSize(t.Context())
			}
			d.Stop()
			assert.Equal(t, data[:tt.got], append([]byte{}, got.Bytes()...))
			assert.LessOrEqual(t, asked, 1, "the service is asked once")
			if tt.err == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, tt.err)
			assert.Equal(t, errors.Is(tt.err, ErrSizeMismatch), errors.Is(err, ErrSizeMismatch))
		})
	}
}

// The end of the connection may arrive together with the last bytes, of which the first ones have been written.
func TestReceive_EndWithTheLastBytes_IsComplete(t *testing.T) {
	t.Parallel()
	data := audio(100_000)
	for size, want := range map[int64]error{100_000: nil, 100_001: io.ErrUnexpectedEOF} {
		var got bytes.Buffer
		d := newTest(&got)
		d.source.Size = func(context.Context) int64 { return size }
		resp := respond(200, iotest.DataErrReader(bytes.NewReader(data)), -1)
		resp.unmarked = true
		_, err := take(t, d, resp)
		require.ErrorIs(t, err, want)
		assert.Equal(t, data, got.Bytes())
	}
}

func TestReceive_SlowWriterOrService_IsNotAStall(t *testing.T) {
	t.Parallel()
	watch := new(tracked)
	d := newTest(writerFunc(func(p []byte) (int, error) {
		assert.True(t, watch.paused, "a slow writer")
		return len(p), nil
	}))
	d.source.Size = func(context.Context) int64 {
		assert.True(t, watch.paused, "a slow service")
		return -1
	}
	body := bytes.NewReader(audio(100_000))
	_, err := take(t, d, respond(200, readerFunc(func(p []byte) (int, error) {
		assert.False(t, watch.paused, "a slow storage")
		return body.Read(p)
	}), -1), watch)
	require.NoError(t, err)
}

// The size is requested while the recording is received, neither before nor afterwards. Stop ends a request that is no
// longer needed.
func TestDownload_Size_IsRequestedDuringTheTransfer(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 206} {
		synctest.Test(t, func(t *testing.T) {
			d := newTest(io.Discard)
			d.recording, d.received = recording{`"synthetic"`, 200}, 100
			flows, asked := make(chan struct{}), make(chan struct{})
			d.source.Size = func(ctx context.Context) int64 {
				close(asked)
				select {
				case <-flows:
				case <-ctx.Done():
				}
				return 200
			}
			defer d.Stop()
			body := bytes.NewReader(audio(200))
			if status == 206 {
				body = bytes.NewReader(audio(200)[100:])
			}
			_, err := take(t, d, respond(status, readerFunc(func(p []byte) (int, error) {
				select {
				case <-asked:
				case <-time.After(time.Minute):
					return 0, errors.New("nobody asks")
				}
				return body.Read(p)
			}), 200, "ETag", `"synthetic"`, "Content-Range", "bytes 100-199/200"))
			require.NoError(t, err)
			close(flows)
			require.NoError(t, d.CheckSize(t.Context()))
		})
	}

	d := newTest(io.Discard)
	ended := false
	d.source.Size = func(ctx context.Context) int64 {
		<-ctx.Done()
		ended = true
		return -1
	}
	_, err := take(t, d, respond(200, bytes.NewReader(audio(100)), 200))
	require.Error(t, err)
	d.Stop()
	assert.True(t, ended)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestDownload_UnknownSize_IsRequestedOnce(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{0, -1, -7} {
		asked := 0
		d := newTest(io.Discard)
		d.source.Size = func(context.Context) int64 { asked++; return size }
		for range 3 {
			require.NoError(t, d.CheckSize(t.Context()))
		}
		assert.Equal(t, 1, asked)
	}
}

func TestReceive_PageAfterARestart_IsRefused(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "visit.wav"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	d := newTest(file)
	_, err = take(t, d, respond(200, endsEarly(audio(800)), 1000, "ETag", `"1"`))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = take(t, d, respond(206, bytes.NewReader(nil), 0, "ETag", `"2"`, "Content-Range", "bytes 800-999/1000"))
	require.ErrorContains(t, err, "does not fit")
	assert.Zero(t, d.Received())
	page := "<!DOCTYPE html><title>Sign in</title>" + strings.Repeat(" ", 1000)
	_, err = take(t, d, respond(200, strings.NewReader(page), int64(len(page)), "ETag", `"2"`))
	require.ErrorContains(t, err, textDocument, "the page is judged by its own beginning")
	left, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	assert.Empty(t, left)
}

// After a restart the same recording may come again. It can then be continued as before.
func TestReceive_SameRecordingAfterRestart_CanBeContinued(t *testing.T) {
	t.Parallel()
	p, err := OpenPart(t.Context(), filepath.Join(t.TempDir(), "visit.wav"), of)
	require.NoError(t, err)
	d := New(newTest(nil).source, p)
	for range 2 {
		_, err := take(t, d, respond(206, bytes.NewReader(nil), 0, "ETag", `"2"`, "Content-Range", "bytes 800-999/1000"))
		require.Error(t, err)
		_, err = take(t, d, respond(200, endsEarly(audio(800)), 1000, "ETag", `"1"`))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		kept, _, size := p.alreadyHas()
		assert.Equal(t, recording{`"1"`, 1000}, kept)
		assert.EqualValues(t, 800, size)
	}
	p.Leave()
}

// A response that nothing follows completes the recording, but only if it is about the recording that was received.
func TestReceive_EndOfAnotherRecording_IsNotTheEnd(t *testing.T) {
	t.Parallel()
	for tag, want := range map[string]bool{`"1"`: true, "": true, `"2"`: false} {
		for total, fits := range map[int64]bool{-1: true, 100: true, 1000: false} { // as storage told it before
			d := newTest(io.Discard)
			d.received, d.recording = 100, recording{`"1"`, total}
			told := progress{}
			d.source.Progress = func(received, total int64) { told = progress{received, total} }
			_, err := take(
				t, d, respond(http.StatusRequestedRangeNotSatisfiable, http.NoBody, 0, "Content-Range", "bytes */100", "ETag", tag),
			)
			if want && fits {
				require.NoError(t, err)
				assert.Equal(t, progress{100, 100}, told)
				continue
			}
			assert.Error(t, err, "%s %d", tag, total)
		}
	}
}

// A rest of unknown length is not appended, because only the rest itself would show where it ends.
func TestReceive_RestWithoutALength_Restarts(t *testing.T) {
	t.Parallel()
	d := newTest(io.Discard)
	d.received, d.recording = 100, recording{`"1"`, -1}
	_, err := take(t, d, respond(206, bytes.NewReader(audio(900)), -1, "ETag", `"1"`, "Content-Range", "bytes 100-999/*"))
	require.ErrorContains(t, err, "does not fit")
}

// Bytes that were received before a restart do not count as new when they are received again, wherever the next
// interruption is.
func TestNext_BytesReceivedAgain_AreNotNew(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "visit.wav"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	d := newTest(file)
	retries := 0
	for ; retries < 20; retries++ {
		_, err := prepare(t, d)
		require.NoError(t, err)
		_, err = take(t, d, respond(200, endsEarly(audio(800-100*(retries%2))), 1000))
		if !d.Next(failedWith(err)).Retry {
			break
		}
	}
	assert.Equal(t, 3, retries, "MaxRetries of newTest")
}

// A piece that waits for the address that another piece requests can be cancelled.
func TestShare_WaitForAnAddress_CanBeCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewStored()
		s.asking <- struct{}{}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p := s.Piece(Source{}, make([]byte, 1), 0)
		require.ErrorIs(t, p.Prepare((&http.Request{}).WithContext(ctx)), context.Canceled)
	})
}

// A long name is shortened between two characters, because some file systems accept only valid UTF-8. A hash keeps it
// different from other names.
func TestPartFile_LongName_IsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	long := "a" + strings.Repeat("\u00e9", 200)
	name := partFile(long, ".json")
	assert.True(t, utf8.ValidString(name))
	assert.LessOrEqual(t, len(name), 255)
	assert.NotEqual(t, name, partFile(long+"b", ".json"))
	longest := strings.Repeat("a", 180)
	assert.Equal(t, "."+longest+".clinicaldoc-part.json", partFile(longest, ".json"), "short enough to be kept")
}

func TestReceive_WriterFails_ReturnsItsError(t *testing.T) {
	t.Parallel()
	full := errors.New("synthetic: the disk is full")
	for want, written := range map[error]func(p []byte) (int, error){
		full:             func([]byte) (int, error) { return 1, full },
		io.ErrShortWrite: func(p []byte) (int, error) { return len(p) - 1, nil },
	} {
		d := newTest(writerFunc(written))
		_, err := take(t, d, respond(200, bytes.NewReader(audio(100)), 100))
		require.ErrorIs(t, err, want)
		assert.Positive(t, d.Received(), "what was written counts")
	}
}
