package redact

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// plainTexts are errors of net/http without an exported type whose whole text may be repeated.
var plainTexts = []string{
	"http: server closed idle connection", "http: CloseIdleConnections called", "net/http: TLS handshake timeout",
	"net/http: timeout awaiting response headers", "net/http: request canceled",
	"net/http: request canceled while waiting for connection", "net/http: cannot rewind body after connection loss",
	"operation was canceled", "i/o timeout", "malformed chunked encoding", "invalid byte in chunk length",
	"http: unexpected EOF reading trailer", "http2: timeout awaiting response headers",
}

const (
	shutDown  = "the server, or a proxy before it, closed the connection in an orderly way, as for a restart " + goAway
	goAway    = "(HTTP/2 GOAWAY)"
	goneAway  = "the server, or a proxy before it, closed the connection " + goAway
	tooLarge  = "the response's header is too large"
	malformed = "the response's header is malformed"

	checkProxy = "check that it allows this host and can reach it"
)

// transportTexts are other errors of net/http: how their text begins, and what to say instead. The rest of the text
// may be the server's words.
var transportTexts = []struct{ prefix, says string }{
	{"http2: client connection lost", "the server no longer responds on this connection (HTTP/2)"},
	// The connection was closed, is not usable, or could not be established.
	{"http2: client conn", "the connection can no longer be used (HTTP/2)"},
	{"http2: Transport received Server's graceful shutdown GOAWAY", shutDown},
	{"http2: server sent GOAWAY and closed the connection", goneAway},
	{"http2: Transport received GOAWAY from server", goneAway},
	{"http2: response header list larger than advertised limit", tooLarge},
	{"net/http: server response headers exceeded", tooLarge},
	{"http2: ", "the connection failed (HTTP/2)"},
	{"stream error: stream ID ", "the server, or a proxy before it, ended the request (HTTP/2 stream error)"},
	{"connection error: ", "the connection failed (HTTP/2 connection error)"},
	{"malformed HTTP ", "the response is not HTTP; check the address and its port"},
	{"malformed MIME header", malformed + "; check the address and its port"},
	{"malformed response from server", malformed},
	{"bad Content-Length", malformed},
	{"invalid empty Content-Length", malformed},
	{"http: message cannot contain multiple Content-Length headers", malformed},
	{"unsupported transfer encoding", malformed},
	{"tls: ", "the TLS handshake failed"},
	{"unknown status code", "a proxy refused the connection; " + checkProxy},
}

// transportText returns what to say for the text of an error of net/http. It returns "" for any other text.
func transportText(text string) string {
	text = strings.TrimPrefix(text, "http2: Transport: cannot retry err [") // the reason follows
	if slices.Contains(plainTexts, text) {
		return text
	}
	for _, known := range transportTexts {
		if strings.HasPrefix(text, known.prefix) {
			return known.says + http2Code(known.says, text)
		}
	}
	for status := http.StatusMultipleChoices; status < 600; status++ {
		name := http.StatusText(status)
		if name != "" && text == name { // net/http keeps only that of a proxy's refusal
			return proxyText(status)
		}
	}
	return ""
}

var http2Codes = regexp.MustCompile(`\b(NO_ERROR|PROTOCOL_ERROR|INTERNAL_ERROR|FLOW_CONTROL_ERROR|SETTINGS_TIMEOUT|` +
	`STREAM_CLOSED|FRAME_SIZE_ERROR|REFUSED_STREAM|CANCEL|COMPRESSION_ERROR|CONNECT_ERROR|ENHANCE_YOUR_CALM|` +
	`INADEQUATE_SECURITY|HTTP_1_1_REQUIRED)\b`)

// http2Code returns the code in the text of an HTTP/2 error, to be appended to what is said. It does not search the
// server's own words, which follow "debug=".
func http2Code(says, text string) string {
	text, _, _ = strings.Cut(text, "debug=")
	code := http2Codes.FindString(text)
	if code != "" && strings.Contains(says, "HTTP/2") {
		return ": " + code
	}
	return ""
}

// proxyText returns what to say for a status with which a proxy refused a connection.
func proxyText(status int) string {
	if status == http.StatusProxyAuthRequired {
		return "a proxy requires credentials (" + Status(status) + "); " +
			"put them into the proxy's URL, in HTTPS_PROXY or WithHTTPClient"
	}
	return "a proxy refused the connection (" + Status(status) + "); " + checkProxy
}

// OnProxyConnectResponse is for the field of that name of an http.Transport. Without it, the transport keeps only
// the reason phrase of a proxy's refusal.
func OnProxyConnectResponse(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	return Fail(proxyText(resp.StatusCode))
}
