package redact

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Cause describes why a request failed, in words that cannot contain a URL's query, a header, a body or a file's
// name. It repeats only texts of errors known to be harmless. Any other error is described by its type.
func Cause(err error) string {
	var op *net.OpError
	var path *fs.PathError
	var dns *net.DNSError
	var call *os.SyscallError
	var errno syscall.Errno
	safe, ok := SafeText(err)
	switch {
	case ok:
		return safe
	case wraps(err, context.DeadlineExceeded):
		return "the deadline passed (" + context.DeadlineExceeded.Error() + ")"
	case wraps(err, context.Canceled):
		return "the call was cancelled (" + context.Canceled.Error() + ")"
	case errors.As(err, &op) && op.Op == "proxyconnect": // before what it wraps, which would look like the server's
		const proxy = "the proxy (set by HTTPS_PROXY, HTTP_PROXY or WithHTTPClient) cannot be used: "
		return proxy + Cause(op.Err)
	case tlsText(err) != "":
		return tlsText(err)
	case errors.As(err, &path): // before the number it wraps
		return knownOperation(path.Op) + " of a local file failed: " + Cause(path.Err)
	case errors.As(err, &dns):
		return lookupText(dns) + "; check the host's name and the network"
	case errors.As(err, &op):
		return operationText(op)
	case errors.As(err, &call):
		return knownOperation(call.Syscall) + ": " + Cause(call.Err)
	case errors.As(err, &errno):
		return errno.Error()
	case errors.Is(err, net.ErrClosed):
		return "the connection was closed during the call (" + net.ErrClosed.Error() + ")"
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), is[flate.CorruptInputError](err):
		return "the response's compression is corrupt"
	}
	return untypedText(err)
}

// wraps reports whether target itself is in err's tree. It does not call Is methods: net's timeouts claim to be the
// deadline of a context, but are not the caller's deadline.
func wraps(err, target error) bool {
	if err == target { //nolint:errorlint // the point of it
		return true
	}
	switch parent := err.(type) { //nolint:errorlint // as errors.Is walks
	case interface{ Unwrap() error }:
		return wraps(parent.Unwrap(), target)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(parent.Unwrap(), func(err error) bool { return wraps(err, target) })
	}
	return false
}

// tlsText returns what went wrong with TLS, and what to do. It returns "" for other errors.
func tlsText(err error) string {
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case is[x509.UnknownAuthorityError](err):
		return "the server's certificate is signed by an authority that is unknown on this machine; " +
			"install that authority's certificate (a bare container has none), " +
			"or pass a client that trusts it to WithHTTPClient"
	case is[x509.HostnameError](err):
		return "the server's certificate is for another host name; check the address"
	case isInvalid && invalid.Reason == x509.Expired:
		return "the server's certificate has expired or is not yet valid; check this machine's clock"
	case isInvalid:
		return "the server's certificate is not valid: " + x509.CertificateInvalidError{Reason: invalid.Reason}.Error()
	case is[*tls.CertificateVerificationError](err): // some systems' own words
		return "the server's certificate cannot be verified; " +
			"check the address, or pass a client that trusts it to WithHTTPClient"
	case is[tls.RecordHeaderError](err), errors.Is(err, http.ErrSchemeMismatch):
		return "the server does not speak TLS on this port; check the base URL's scheme"
	}
	return ""
}

// lookupText returns why a host's name could not be resolved.
func lookupText(dns *net.DNSError) string {
	text := "lookup " + dns.Name + ": "
	switch {
	case dns.IsNotFound:
		return text + "no such host"
	case dns.IsTimeout:
		return text + "i/o timeout"
	}
	return text + "the name could not be resolved"
}

// operationText describes a network operation that failed. Of the error that it wraps, only a text that is safe to
// print is included: a TLS alert's, or what Cause returns.
func operationText(op *net.OpError) string {
	isAlert := fmt.Sprintf("%T", op.Err) == "tls.alert" // the type is not exported; its texts are constant
	if isAlert {
		const advice = "; pass a client certificate or other TLS settings with WithHTTPClient"
		return knownOperation(op.Op) + ": " + op.Err.Error() + advice
	}
	text := knownOperation(op.Op)
	if strings.HasPrefix(op.Net, "tcp") {
		text += " tcp"
	}
	if address, ok := op.Addr.(*net.TCPAddr); ok {
		text += " " + address.String()
	}
	text += ": " + Cause(op.Err)
	if op.Op == "dial" {
		text += "; check the address, and whether the server is running"
	}
	return text
}

// knownOperations are the operations that the errors of net and os name.
var knownOperations = []string{
	"dial", "read", "readfrom", "write", "close", "set", "connect", "connectex", "remote error", "local error",
	"socks connect", "open", "openat", "stat", "lstat", "fstat", "seek", "sync", "fsync", "truncate", "ftruncate",
	"chmod", "fchmod", "rename", "remove", "unlink", "pread", "pwrite", "readat", "writeat", "flock", "getsockopt",
	"setsockopt", "sendfile", "splice", "socket", "wsarecv", "wsasend", "CreateFile", "GetFileAttributesEx",
}

// knownOperation returns the name of an operation if it is a known one. Any other name may contain data.
func knownOperation(name string) string {
	if !slices.Contains(knownOperations, name) {
		return "an operation"
	}
	return name
}

// untypedText describes an error of unknown type: by a known text in its chain, or else by the type of the innermost
// one.
func untypedText(err error) string {
	innermost := err
	for e := err; e != nil; e = errors.Unwrap(e) {
		if text := transportText(e.Error()); text != "" {
			return text
		}
		innermost = e
	}
	if isTimeout(err) {
		return "timed out"
	}
	for _, known := range plain {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return fmt.Sprintf(unknownError+"%T", innermost)
}

const unknownError = "failed with an error of type "

// Known reports whether Cause can say more of the error than its type.
func Known(err error) bool { return !strings.HasPrefix(Cause(err), unknownError) }

// isTimeout reports whether the error says that it is a timeout.
func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// is reports whether an error of type E is in err's tree.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// Kind returns one of a few words for why the network or the file system failed, or "" if none of them fits.
func Kind(err error) string {
	op, isOp := errors.AsType[*net.OpError](err)
	switch {
	case tlsText(err) != "":
		return "tls"
	case is[*fs.PathError](err):
		return "file"
	case is[*net.DNSError](err):
		return "dns"
	case isOp && slices.Contains([]string{"dial", "proxyconnect", "socks connect"}, op.Op):
		return "connect"
	case isTimeout(err):
		return "timeout"
	}
	return ""
}
