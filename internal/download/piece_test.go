package download

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

// receivePiece gives storage's response with these bytes of a recording of 1000 bytes to a piece.
func receivePiece(t *testing.T, p *Piece, body io.Reader, from, last int) (int64, error) {
	t.Helper()
	resp := &http.Response{StatusCode: http.StatusPartialContent, Header: http.Header{}, Body: io.NopCloser(body)}
	resp.Header.Set("ETag", `"1"`)
	resp.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/1000", from, last))
	return p.Receive(t.Context(), resp, new(tracked))
}

// Each piece requests the bytes that it needs, and after an interruption those that are missing.
func TestPiece_RequestsWhatIsMissing(t *testing.T) {
	t.Parallel()
	data := audio(1000)
	source := newTest(io.Discard).source
	stored := NewStored()
	requests := func(p *Piece, want, condition string) {
		t.Helper()
		req := (&http.Request{}).WithContext(t.Context())
		require.NoError(t, p.Prepare(req))
		assert.Equal(t, want, req.Header.Get("Range"))
		assert.Equal(t, condition, req.Header.Get("If-Range"))
	}
	first := make([]byte, 600)
	p := stored.Piece(source, first, 0)
	requests(p, "bytes=0-599", "")
	n, err := receivePiece(t, p, bytes.NewReader(data[:600]), 0, 599)
	require.NoError(t, err)
	assert.EqualValues(t, 600, n)
	assert.Equal(t, data[:600], first)
	assert.EqualValues(t, 1000, stored.Size)
	assert.Equal(t, `"1"`, stored.ETag)

	rest := make([]byte, 400)
	p = stored.Piece(source, rest, 600)
	requests(p, "bytes=600-999", `"1"`)
	n, err = receivePiece(t, p, endsEarly(data[600:750]), 600, 999)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.EqualValues(t, 150, n)
	requests(p, "bytes=750-999", `"1"`)
	n, err = receivePiece(t, p, bytes.NewReader(data[750:]), 750, 999)
	require.NoError(t, err)
	assert.EqualValues(t, 250, n)
	assert.Equal(t, data[600:], rest)
}

// The first piece may ask for more than the recording has. It ends with the recording.
func TestPiece_ShortRecording_FillsTheBeginning(t *testing.T) {
	t.Parallel()
	data := audio(1000)
	into := make([]byte, 1200)
	p := NewStored().Piece(newTest(io.Discard).source, into, 0)
	_, err := receivePiece(t, p, bytes.NewReader(data), 0, 999)
	require.NoError(t, err)
	assert.Equal(t, data, into[:1000])
	assert.Equal(t, make([]byte, 200), into[1000:])
	assert.EqualValues(t, 1000, p.Received())
}

// Bytes of another place in the recording, or of another recording, are not used.
func TestPiece_OtherBytes_AreRejected(t *testing.T) {
	t.Parallel()
	data := audio(1000)
	source := newTest(io.Discard).source
	into := make([]byte, 100)
	_, err := receivePiece(t, NewStored().Piece(source, into, 0), bytes.NewReader(data[1:]), 1, 100)
	require.ErrorIs(t, err, exchange.ErrUnexpected)
	changed := &Stored{Size: 1000, ETag: `"2"`}
	_, err = receivePiece(t, changed.Piece(source, into, 0), bytes.NewReader(data), 0, 99)
	require.ErrorIs(t, err, ErrChanged)
	shorter := &Stored{Size: 999, ETag: `"1"`}
	_, err = receivePiece(t, shorter.Piece(source, into, 0), bytes.NewReader(data), 0, 99)
	require.ErrorIs(t, err, ErrChanged)
	document := bytes.NewReader(append([]byte("<html>"), data...))
	_, err = receivePiece(t, NewStored().Piece(source, into, 0), document, 0, 99)
	require.ErrorIs(t, err, exchange.ErrUnexpected)
	require.NotErrorIs(t, err, ErrChanged)
}
