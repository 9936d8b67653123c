package exchange

import (
	"maps"
	"net/http"
)

const jsonType = "application/json"

// header returns the headers of one attempt. Most are alike, and net/http's own transport never changes those of a request.
func (c *Call) header(authorization string) http.Header {
	_, document := c.Body.(JSON)
	_, standard := c.Peer.Transport.(*http.Transport)
	usual := standard && c.Authorization == nil && c.Hook == nil && len(c.Header) == 0 && c.Method != http.MethodHead
	switch {
	case usual && c.Body == nil:
		return c.Peer.usualHeaders(authorization).bare
	case usual && document && c.Effect != Creates:
		return c.Peer.usualHeaders(authorization).document
	case c.Body == nil:
		return newHeader(c.Header, c.Peer.UserAgent, authorization, "", c.unpacks())
	}
	return newHeader(c.Header, c.Peer.UserAgent, authorization, c.Body.ContentType(), c.unpacks())
}

// newHeader makes the headers that every request has, beside others. Their values share one array.
func newHeader(others http.Header, userAgent, authorization, contentType string, compressed bool) http.Header {
	values := [...]string{jsonType, userAgent, authorization, contentType, "gzip"}
	header := make(http.Header, len(others)+len(values))
	maps.Copy(header, others)
	header["Accept"] = values[0:1:1] // without it the service puts errors into redirects
	header["User-Agent"] = values[1:2:2]
	if authorization != "" {
		header["Authorization"] = values[2:3:3]
	}
	if contentType != "" {
		header["Content-Type"] = values[3:4:4]
	}
	if compressed {
		header["Accept-Encoding"] = values[4:5:5]
	}
	return header
}

// usualHeaders are for requests without headers of their own, with one token. Once made they are only read, which a
// transport may do long after the request.
type usualHeaders struct {
	authorization  string
	compressed     bool
	bare, document http.Header // without a body, and with a document
}

func (p *Peer) usualHeaders(authorization string) *usualHeaders {
	usual, compressed := p.usual.Load(), p.compressed()
	if usual == nil || usual.authorization != authorization || usual.compressed != compressed {
		usual = &usualHeaders{authorization: authorization, compressed: compressed}
		usual.bare = newHeader(nil, p.UserAgent, authorization, "", compressed)
		usual.document = newHeader(nil, p.UserAgent, authorization, jsonType, compressed)
		p.usual.Store(usual)
	}
	return usual
}
