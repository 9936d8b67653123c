package exchange

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync"
)

// compressed reports whether responses are asked for compressed, where net/http would do so by itself: with a second map of
// headers for each request.
func (p *Peer) compressed() bool {
	standard, ok := p.Transport.(*http.Transport)
	return ok && !standard.DisableCompression
}

// unpacks reports whether the call asks for a compressed response, and so has to undo that.
func (c *Call) unpacks() bool { return c.Method != http.MethodHead && c.Peer.compressed() }

// plainBody is the response's body, with its compression undone if that was asked for. The function must be called when it
// has been read.
func (c *Call) plainBody(resp *http.Response) (io.Reader, func()) {
	if !c.unpacks() || !strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		return resp.Body, func() {}
	}
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	g := &gunzip{body: resp.Body}
	return g, g.release
}

// emptyHeader is how compressed data begin. Without it a reader that is reset keeps what it read from.
const emptyHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

var unpackers = sync.Pool{New: func() any { return new(gzip.Reader) }}

// gunzip begins with the first read, so that the watchdog sees all that is read.
type gunzip struct {
	body     io.Reader
	unpacker *gzip.Reader
}

func (g *gunzip) Read(p []byte) (int, error) {
	if g.unpacker == nil {
		g.unpacker, _ = unpackers.Get().(*gzip.Reader)
		if err := g.unpacker.Reset(g.body); err != nil {
			return 0, err
		}
	}
	return g.unpacker.Read(p)
}

func (g *gunzip) release() {
	if g.unpacker != nil {
		_ = g.unpacker.Reset(strings.NewReader(emptyHeader)) // or it would keep the body
		unpackers.Put(g.unpacker)
		g.unpacker = nil
	}
}
