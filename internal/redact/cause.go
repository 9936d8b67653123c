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
	case errors.As(err, &unknownAuthority):
		return "the server's certificate is signed by an authority unknown here; if that is intended, give WithHTTPClient a client that trusts it"
	case errors.As(err, &hostname):
		return "the server's certificate is for another host name than the base URL's"
	case errors.As(err, &invalid):
		return invalid.Error()
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return "the server does not speak TLS on this port; is the base URL's scheme right?"
	case errors.As(err, &path): // before the number it wraps
		return path.Op + " of a local file failed: " + Cause(path.Err)
	case errors.As(err, &dns):
		return dns.Error()
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
	text := op.Op + " " + op.Net
	if op.Addr != nil {
		text += " " + op.Addr.String()
	}
	return text + ": " + Cause(op.Err)
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
}

// unnamed looks for a constant text along the chain of an error of no known type.
func unnamed(err error) string {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if constantTexts[e.Error()] {
			return e.Error()
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
