package redact

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// transportTexts are the errors that net/http gives no exported type: how their text begins, and what to say. What
// stands behind the beginning may be the server's words and is not repeated. Nothing to say means: the beginning, which
// must then be the whole text.
var transportTexts = []struct{ prefix, says string }{
	{"http: server closed idle connection", ""},
	{"http: CloseIdleConnections called", ""},
	{"net/http: TLS handshake timeout", ""},
	{"net/http: timeout awaiting response headers", ""},
	{"net/http: request canceled", ""},
	{"net/http: request canceled while waiting for connection", ""},
	{"net/http: cannot rewind body after connection loss", ""},
	{"operation was canceled", ""},
	{"i/o timeout", ""},
	{"malformed chunked encoding", ""},
	{"invalid byte in chunk length", ""},
	{"http: unexpected EOF reading trailer", ""},
	{"http2: timeout awaiting response headers", ""},
	{"http2: client connection lost", "the server no longer responds on this connection (HTTP/2)"},
	{"http2: client conn", "the connection can no longer be used (HTTP/2)"}, // closed, not usable, could not be established
	{"http2: Transport received Server's graceful shutdown GOAWAY", "the server, or a proxy before it, closed the connection in good order, as for a restart (HTTP/2 GOAWAY)"},
	{"http2: server sent GOAWAY and closed the connection", "the server, or a proxy before it, closed the connection (HTTP/2 GOAWAY)"},
	{"http2: Transport received GOAWAY from server", "the server, or a proxy before it, closed the connection (HTTP/2 GOAWAY)"},
	{"http2: response header list larger than advertised limit", "the response's header is too large"},
	{"net/http: server response headers exceeded", "the response's header is too large"},
	{"http2: ", "the connection failed (HTTP/2)"},
	{"stream error: stream ID ", "the server, or a proxy before it, ended the request (HTTP/2 stream error)"},
	{"connection error: ", "the connection failed (HTTP/2 connection error)"},
	{"malformed HTTP ", "the response is not HTTP; are the address and its port right?"},
	{"malformed MIME header", "the response's header is malformed; are the address and its port right?"},
	{"malformed response from server", "the response's header is malformed"},
	{"bad Content-Length", "the response's header is malformed"},
	{"invalid empty Content-Length", "the response's header is malformed"},
	{"http: message cannot contain multiple Content-Length headers", "the response's header is malformed"},
	{"unsupported transfer encoding", "the response's header is malformed"},
	{"tls: ", "the TLS handshake failed"},
	{"unknown status code", proxyRefused},
}

// transportText explains a text of net/http's; it is empty for any other.
func transportText(text string) string {
	text = strings.TrimPrefix(text, "http2: Transport: cannot retry err [") // the reason follows
	for _, known := range transportTexts {
		switch {
		case known.says == "" && text == known.prefix:
			return text
		case known.says != "" && strings.HasPrefix(text, known.prefix):
			return known.says + http2Code(known.says, text)
		}
	}
	for status := http.StatusMultipleChoices; status < 600; status++ {
		if name := http.StatusText(status); name != "" && text == name { // all that net/http keeps of a proxy's refusal
			return (&ProxyError{status}).Error()
		}
	}
	return ""
}

var http2Codes = []string{
	"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR", "REFUSED_STREAM",
	"CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
}

// http2Code finds the code in the text of an HTTP/2 error, ahead of the server's own words.
func http2Code(says, text string) string {
	if !strings.Contains(says, "HTTP/2") {
		return ""
	}
	text, _, _ = strings.Cut(text, "debug=")
	for _, field := range strings.FieldsFunc(text, func(r rune) bool { return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') }) {
		if slices.Contains(http2Codes, field) {
			return ": " + field
		}
	}
	return ""
}

// ProxyError is the refusal of a proxy to let a TLS connection through.
type ProxyError struct{ StatusCode int }

const proxyRefused = "the proxy in between refused the connection; does it let this host through, and reach it?"

func (e *ProxyError) Error() string {
	status := Status(e.StatusCode)
	if e.StatusCode == http.StatusProxyAuthRequired {
		return "the proxy in between wants credentials (" + status + "); put them into the proxy's URL, in HTTPS_PROXY or WithHTTPClient"
	}
	return "the proxy in between refused the connection (" + status + "); does it let this host through, and reach it?"
}

// SafeText is the error's text: it holds a status only.
func (e *ProxyError) SafeText() string { return e.Error() }

// OnProxyConnectResponse is for the field of that name of an http.Transport, which otherwise keeps nothing of a proxy's
// refusal but the words beside its status.
func OnProxyConnectResponse(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	return &ProxyError{resp.StatusCode}
}
