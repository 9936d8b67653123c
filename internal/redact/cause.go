package redact

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
)

// Safe is an error whose text is known to hold neither secrets nor patients' data.
type Safe interface {
	error
	SafeText() string
}

// Cause describes why a request failed, in words that cannot hold a URL's query, a header, a body or a file's name.
// Only texts of errors known to be harmless are repeated; of any other error just its type is told.
func Cause(err error) string {
	var safe Safe
	var unknownAuthority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var dns *net.DNSError
	var op *net.OpError
	var call *os.SyscallError
	var errno syscall.Errno
	var path *fs.PathError
	switch {
	case errors.As(err, &safe):
		return safe.SafeText()
	case errors.Is(err, context.DeadlineExceeded):
		return "the deadline passed (" + context.DeadlineExceeded.Error() + ")"
	case errors.Is(err, context.Canceled):
		return "the call was cancelled (" + context.Canceled.Error() + ")"
	case errors.As(err, &op) && op.Op == "proxyconnect": // before what it wraps, or the proxy's trouble looks like the server's
		return "the proxy in between (set by HTTPS_PROXY, HTTP_PROXY or WithHTTPClient) cannot be used: " + Cause(op.Err)
	case errors.As(err, &unknownAuthority):
		return "the server's certificate is signed by an authority unknown here; install that authority's certificate (a bare container has none), or give WithHTTPClient a client that trusts it"
	case errors.As(err, &hostname):
		return "the server's certificate is for another host name than the one asked for; check the address"
	case errors.As(err, &invalid):
		return invalid.Error()
	case errors.As(err, &verification): // some systems' own words
		return "the server's certificate cannot be verified; check the address, or give WithHTTPClient a client that trusts it"
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return "the server does not speak TLS on this port; is the base URL's scheme right?"
	case errors.As(err, &path): // before the number it wraps
		return path.Op + " of a local file failed: " + Cause(path.Err)
	case errors.As(err, &dns):
		return dns.Error() + "; check the host's name and the network"
	case errors.As(err, &op):
		return operation(op)
	case errors.As(err, &call):
		return call.Syscall + ": " + Cause(call.Err)
	case errors.As(err, &errno):
		return errno.Error()
	}
	for _, plain := range []error{io.ErrUnexpectedEOF, io.EOF, io.ErrClosedPipe, net.ErrClosed, fs.ErrNotExist, fs.ErrPermission} {
		if errors.Is(err, plain) {
			return plain.Error()
		}
	}
	return unnamed(err)
}

// operation prints a network operation without trusting the text of what it wraps.
func operation(op *net.OpError) string {
	if fmt.Sprintf("%T", op.Err) == "tls.alert" { // has no exported type; its texts are constant
		return op.Op + ": " + op.Err.Error() + "; what TLS needs, such as a client certificate, goes into WithHTTPClient"
	}
	text := op.Op + " " + op.Net
	if op.Addr != nil {
		text += " " + op.Addr.String()
	}
	text += ": " + Cause(op.Err)
	if op.Op == "dial" {
		text += "; is the server running there, and the address right?"
	}
	return text
}

// constantTexts are errors that net/http gives no type to and whose text never varies.
var constantTexts = map[string]bool{
	"http: server closed idle connection":                 true,
	"net/http: TLS handshake timeout":                     true,
	"net/http: timeout awaiting response headers":         true,
	"net/http: request canceled":                          true,
	"http2: server sent GOAWAY and closed the connection": true,
	"operation was canceled":                              true,
	"i/o timeout":                                         true,

	"net/http: server response headers exceeded 1048576 bytes; aborted": true, // the limit of the SDK's own transport
}

// unnamed looks for a constant text along the chain of an error of no known type.
func unnamed(err error) string {
	for e := err; e != nil; e = errors.Unwrap(e) {
		switch refusal := proxyRefusal(e.Error()); {
		case constantTexts[e.Error()]:
			return e.Error()
		case refusal != "":
			return refusal
		case strings.HasPrefix(e.Error(), "malformed HTTP "):
			return "the answer is not HTTP; are the address and its port right?"
		}
	}
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "timed out"
	}
	innermost := err
	for e := err; e != nil; e = errors.Unwrap(e) {
		innermost = e
	}
	return fmt.Sprintf("failed with an error of type %T", innermost)
}

// proxyRefusal explains a proxy that does not let a TLS connection through. Of its answer net/http keeps nothing but the
// words beside the status, and only those of the standard are repeated.
func proxyRefusal(text string) string {
	switch text {
	case "":
		return ""
	case "unknown status code":
		return "the proxy in between refused the connection; does it let this host through, and reach it?"
	}
	for status := http.StatusMultipleChoices; status < 600; status++ {
		if text != http.StatusText(status) {
			continue
		}
		if status == http.StatusProxyAuthRequired {
			return fmt.Sprintf("the proxy in between wants credentials (%d %s); put them into the proxy's URL, in HTTPS_PROXY or WithHTTPClient", status, text)
		}
		return fmt.Sprintf("the proxy in between refused the connection (%d %s); does it let this host through, and reach it?", status, text)
	}
	return ""
}
