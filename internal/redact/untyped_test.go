package redact_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// The texts are those of Go 1.26 and 1.27, which give these errors no exported type.
func TestCause_TransportErrors_OmitTheServersWords(t *testing.T) {
	t.Parallel()
	const graceful = "http2: Transport received Server's graceful shutdown GOAWAY"
	for _, whole := range []string{
		"http: server closed idle connection", "http: CloseIdleConnections called", "net/http: TLS handshake timeout",
		"net/http: timeout awaiting response headers", "net/http: request canceled",
		"net/http: request canceled while waiting for connection", "net/http: cannot rewind body after connection loss",
		"operation was canceled", "i/o timeout", "malformed chunked encoding", "invalid byte in chunk length",
		"http: unexpected EOF reading trailer", "http2: timeout awaiting response headers",
	} {
		assert.Equal(t, whole, redact.Cause(errors.New(whole)))
		assert.NotContains(t, redact.Cause(errors.New(whole+" "+canary)), canary)
	}
	const (
		cannotRetry  = "http2: Transport: cannot retry err ["
		goAway       = "http2: server sent GOAWAY and closed the connection; LastStreamID=5, ErrCode="
		closed       = "the server, or a proxy before it, closed the connection (HTTP/2 GOAWAY)"
		shutDown     = "the server, or a proxy before it, closed the connection in an orderly way, as for a restart"
		ended        = "the server, or a proxy before it, ended the request (HTTP/2 stream error)"
		refused      = "a proxy refused the connection"
		checkProxy   = "; check that it allows this host and can reach it"
		credentials  = "a proxy requires credentials (407 Proxy Authentication Required); "
		malformed    = "the response's header is malformed"
		checkAddress = "; check the address and its port"
	)
	for want, texts := range map[string][]string{
		"http: server closed idle connection": {"http: server closed idle connection"},
		"net/http: request canceled":          {"net/http: request canceled"},
		"i/o timeout":                         {"i/o timeout"},
		"failed with an error of type *errors.errorString": {
			"net/http: request canceled " + canary, "i/o timeout " + canary, canary + " i/o timeout", "Forbidden " + canary, "",
		},
		"the server no longer responds on this connection (HTTP/2)": {"http2: client connection lost"},
		"the connection can no longer be used (HTTP/2)": {
			"http2: client conn is closed", "http2: client conn not usable",
		},
		"the connection failed (HTTP/2)": {"http2: unexpected ALPN protocol " + canary},
		shutDown + " (HTTP/2 GOAWAY)": {
			graceful,
			cannotRetry + graceful + "] after Request.Body was written; define Request.GetBody to avoid this error",
		},
		closed:                         {goAway + `unknown error code 0x63, debug="` + canary + ` CANCEL"`},
		closed + ": ENHANCE_YOUR_CALM": {goAway + `ENHANCE_YOUR_CALM, debug="` + canary + ` CANCEL"`},
		closed + ": PROTOCOL_ERROR":    {"http2: Transport received GOAWAY from server ErrCode:PROTOCOL_ERROR"},
		ended + ": REFUSED_STREAM": {
			"stream error: stream ID 3; REFUSED_STREAM",
			cannotRetry + "stream error: stream ID 3; REFUSED_STREAM] after Request.Body was written",
		},
		ended + ": INTERNAL_ERROR": {"stream error: stream ID 3; INTERNAL_ERROR; received from peer"},
		"the connection failed (HTTP/2 connection error): FRAME_SIZE_ERROR": {"connection error: FRAME_SIZE_ERROR"},
		"the response's header is too large": {
			"http2: response header list larger than advertised limit",
			"net/http: server response headers exceeded 1048576 bytes; aborted",
		},
		"the response is not HTTP" + checkAddress: {`malformed HTTP response "` + canary + ` CANCEL"`},
		malformed: {
			`bad Content-Length "` + canary + `"`, "malformed response from server: missing status pseudo header",
			"invalid empty Content-Length " + canary, `unsupported transfer encoding: "` + canary + `"`,
			"http: message cannot contain multiple Content-Length headers; " + canary,
		},
		malformed + checkAddress:                  {"malformed MIME header line: " + canary},
		"the TLS handshake failed":                {"tls: " + canary},
		refused + checkProxy:                      {"unknown status code"},
		refused + " (403 Forbidden)" + checkProxy: {"Forbidden"},
		credentials + "put them into the proxy's URL, in HTTPS_PROXY or WithHTTPClient": {
			"Proxy Authentication Required",
		},
	} {
		for _, text := range texts {
			assert.Equal(t, want, redact.Cause(errors.New(text)), text)
			assert.Equal(t, want, redact.Cause(fmt.Errorf(canary+": %w", errors.New(text))), text)
		}
	}
}

func TestOnProxyConnectResponse_Refusal_IsDescribed(t *testing.T) {
	t.Parallel()
	refuse := func(status int) error {
		return redact.OnProxyConnectResponse(t.Context(), nil, nil, &http.Response{StatusCode: status, Status: canary})
	}
	require.NoError(t, refuse(http.StatusOK))
	for status, want := range map[int]string{
		http.StatusCreated:             "(201 Created)", // net/http takes nothing but 200
		http.StatusForbidden:           "(403 Forbidden)",
		http.StatusProxyAuthRequired:   "requires credentials (407",
		http.StatusInternalServerError: "(500 Internal Server Error)",
		599:                            "(599)",
	} {
		err := refuse(status)
		require.Error(t, err)
		assert.Contains(t, redact.Cause(err), want)
		assert.NotContains(t, err.Error(), canary)
	}
}
