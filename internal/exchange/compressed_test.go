package exchange

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func packed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	_, err := io.WriteString(zip, text)
	require.NoError(t, err)
	require.NoError(t, zip.Close())
	return b.Bytes()
}

func TestCompressionIsUndone(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("synthetic ", 10_000)
	for name, tc := range map[string]struct {
		method, coding string
		body           []byte
		disabled       bool
		want           string
		err            error
	}{
		"compressed":             {method: http.MethodGet, coding: "gzip", body: packed(t, text), want: text},
		"in capitals":            {method: http.MethodGet, coding: "GZIP", body: packed(t, text), want: text},
		"in two parts":           {method: http.MethodGet, coding: "gzip", body: append(packed(t, "ab"), packed(t, "cd")...), want: "abcd"},
		"empty":                  {method: http.MethodGet, coding: "gzip"},
		"not compressed":         {method: http.MethodGet, body: []byte(text), want: text},
		"cut":                    {method: http.MethodGet, coding: "gzip", body: packed(t, text)[:40], err: io.ErrUnexpectedEOF},
		"not what it says":       {method: http.MethodGet, coding: "gzip", body: []byte(text), err: gzip.ErrHeader},
		"without a body":         {method: http.MethodHead, coding: "gzip"},
		"which nobody asked for": {method: http.MethodGet, coding: "gzip", body: packed(t, text), disabled: true, want: string(packed(t, text))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peer, target := peerAt(t, func(w http.ResponseWriter, r *http.Request) {
				assert.Equal(t, tc.method == http.MethodGet && !tc.disabled, r.Header.Get("Accept-Encoding") == "gzip")
				if tc.coding != "" {
					w.Header().Set("Content-Encoding", tc.coding)
				}
				_, _ = w.Write(tc.body)
			})
			if standard, ok := peer.Transport.(*http.Transport); ok {
				standard.DisableCompression = tc.disabled
			}
			for range 3 { // what undoes it is used again, also after a failure
				c := &Call{Peer: peer, Method: tc.method, URL: target, Effect: Reads, Explain: ExplainFunc(func(a *Attempt) error { return a.Cause })}
				err := c.Do(t.Context())
				require.ErrorIs(t, err, tc.err)
				assert.Equal(t, tc.want, string(c.Last.Body))
				if tc.err == nil && c.unpacks() {
					assert.NotContains(t, c.Last.Header, "Content-Encoding")
				}
				c.Release()
			}
		})
	}
}

func TestAnUnpackerKeepsNoBody(t *testing.T) {
	t.Parallel()
	body := &struct{ io.Reader }{bytes.NewReader(packed(t, "synthetic"))}
	kept := weak.Make(body)
	g := &gunzip{body: body}
	_, err := io.ReadAll(g)
	require.NoError(t, err)
	unpacker := g.unpacker
	g.release()
	runtime.GC()
	assert.Nil(t, kept.Value())
	runtime.KeepAlive(unpacker)
}
