package fetch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tracked is a watch that counts.
type tracked struct{ progress, pauses int }

func (w *tracked) Progress() { w.progress++ }
func (w *tracked) Pause()    { w.pauses++ }

// newTest is a download to w of a recording whose size nobody tells.
func newTest(w io.Writer) *Download {
	return New(Source{
		Address:   func(context.Context) (Address, error) { return Address{URL: "https://storage.clinic.test/7"}, nil },
		Size:      func(context.Context) int64 { return -1 },
		PlainHTTP: func(*url.URL) bool { return false },
	}, NewWriter(w))
}

// respond makes a response with these headers; its length is told if header has none of its own.
func respond(status int, body io.Reader, length int64, header ...string) *http.Response {
	resp := &http.Response{StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, ContentLength: length, Header: http.Header{}, Body: io.NopCloser(body)}
	if length < 0 {
		resp.TransferEncoding = []string{"chunked"}
	}
	for i := 0; i+1 < len(header); i += 2 {
		resp.Header.Set(header[i], header[i+1])
	}
	return resp
}

// audio is made of bytes that are no text.
func audio(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i ^ i>>8)
	}
	return b
}

func TestTakeSkipsWhatIsThereToAByte(t *testing.T) {
	t.Parallel()
	data := audio(40)
	for at := 1; at < len(data); at++ {
		for _, length := range []int64{40, -1} {
			var got bytes.Buffer
			d := newTest(&got)
			_, err := d.Take(t.Context(), respond(200, io.MultiReader(bytes.NewReader(data[:at]), iotest.ErrReader(io.ErrUnexpectedEOF)), length, "ETag", `"1"`), new(tracked))
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.Equal(t, int64(at), d.Received())
			watch := new(tracked)
			n, err := d.Take(t.Context(), respond(200, iotest.OneByteReader(bytes.NewReader(data)), length, "ETag", `"1"`), watch)
			require.NoError(t, err, at)
			assert.Equal(t, int64(40), n)
			assert.Equal(t, data, got.Bytes(), fmt.Sprint(at, length))
			assert.GreaterOrEqual(t, watch.progress, 40, "every byte is progress, skipped or not")
		}
	}
}
