package redact_test

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// canary stands where an address' query, a file's name or a body could be.
const canary = "canary-of-a-patient"

type safeError struct{ name string }

func (safeError) Error() string { return canary }

func init() { redact.Trust(func(safeError) string { return "safe text" }) }

type timeoutError struct{}

func (timeoutError) Error() string { return canary }
func (timeoutError) Timeout() bool { return true }

// dialTimeout is the error of a dialer whose own time is up, which claims to be a context's deadline.
func dialTimeout(t *testing.T) error {
	t.Helper()
	dialer := net.Dialer{Deadline: time.Unix(1, 0)}
	_, err := dialer.DialContext(t.Context(), "tcp", "127.0.0.1:1")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	return err
}

// dialCancelled is the error of a dialer whose context ended, which is not the caller's.
func dialCancelled(t *testing.T) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:1")
	require.ErrorIs(t, err, context.Canceled)
	return err
}

func TestCause_KnownErrors_AreDescribedWithoutData(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err  error
		want string // contained
	}{
		{safeError{}, "safe text"},
		{fmt.Errorf(canary+": %w", safeError{}), "safe text"},
		{errors.Join(errors.New(canary), safeError{}), "safe text"},
		{context.DeadlineExceeded, "deadline"},
		{context.Canceled, "cancelled"},
		{fmt.Errorf(canary+": %w", context.Canceled), "cancelled"},
		{x509.UnknownAuthorityError{}, "authority that is unknown"},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, "authority that is unknown"},
		{&tls.CertificateVerificationError{Err: errors.New(canary)}, "cannot be verified"},
		{x509.HostnameError{Host: canary, Certificate: &x509.Certificate{DNSNames: []string{canary}}}, "another host name"},
		{x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}, "x509"},
		{
			x509.CertificateInvalidError{Reason: x509.Expired, Detail: canary},
			"has expired or is not yet valid; check this machine's clock",
		},
		{
			x509.CertificateInvalidError{Reason: x509.CANotAuthorizedForThisName, Detail: canary},
			"not authorized to sign for this name",
		},
		{tls.RecordHeaderError{Msg: canary}, "does not speak TLS"},
		{http.ErrSchemeMismatch, "does not speak TLS"},
		{&net.DNSError{Name: "api.clinic.test", Err: canary, IsNotFound: true}, "lookup api.clinic.test: no such host"},
		{&net.DNSError{Name: "api.clinic.test", Err: canary, IsTimeout: true}, "lookup api.clinic.test: i/o timeout"},
		{
			&net.DNSError{Name: "api.clinic.test", Err: canary, Server: canary},
			"lookup api.clinic.test: the name could not be resolved",
		},
		{errors.Join(errors.New(canary), context.Canceled), "the call was cancelled"},
		{errors.Join(errors.New(canary), fmt.Errorf(canary+": %w", context.DeadlineExceeded)), "the deadline passed"},
		{
			&net.OpError{Op: "proxyconnect", Net: "tcp", Err: &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}},
			"the proxy (set by HTTPS_PROXY",
		},
		{dialCancelled(t), "operation was canceled"},
		{dialTimeout(t), "dial tcp 127.0.0.1:1: i/o timeout; check the address, and whether the server is running"},
		{os.ErrDeadlineExceeded, "i/o timeout"},
		{
			&net.OpError{Op: canary, Net: canary, Addr: &net.UnixAddr{Name: canary}, Err: syscall.EPIPE},
			"an operation: broken pipe",
		},
		{
			&net.OpError{Op: "write", Net: "tcp", Err: net.ErrClosed},
			"closed during the call (use of closed network connection)",
		},
		{&os.SyscallError{Syscall: canary, Err: syscall.EPIPE}, "an operation: broken pipe"},
		{&fs.PathError{Op: canary, Err: syscall.ENOENT}, "an operation of a local file"},
		{
			&net.OpError{
				Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1},
				Err: os.NewSyscallError("connect", syscall.ECONNREFUSED),
			},
			"dial tcp 127.0.0.1:1: connect: connection refused",
		},
		{&net.OpError{Op: "read", Net: "tcp", Err: errors.New(canary)}, "read tcp: failed with an error of type"},
		{&os.SyscallError{Syscall: "read", Err: errors.New(canary)}, "read: failed with an error of type"},
		{os.NewSyscallError("write", syscall.EPIPE), "write: broken pipe"},
		{syscall.ECONNRESET, "connection reset"},
		{
			&fs.PathError{Op: "open", Path: "/home/" + canary, Err: syscall.ENOENT},
			"open of a local file failed: " + syscall.ENOENT.Error(),
		},
		{&fs.PathError{Op: "read", Path: "/home/" + canary, Err: fs.ErrClosed}, "read of a local file failed"},
		{&os.LinkError{Op: "rename", Old: canary, New: canary, Err: syscall.EXDEV}, "cross-device"},
		{io.ErrUnexpectedEOF, "unexpected EOF"},
		{io.EOF, "EOF"},
		{io.ErrClosedPipe, "closed pipe"},
		{net.ErrClosed, "closed network connection"},
		{fs.ErrNotExist, "not exist"},
		{fs.ErrPermission, "permission"},
		{fmt.Errorf("%s: %w", canary, io.ErrUnexpectedEOF), "unexpected EOF"},
		{errors.New("http: server closed idle connection"), "server closed idle connection"},
		{fmt.Errorf(canary+": %w", errors.New("net/http: TLS handshake timeout")), "TLS handshake timeout"},
		{timeoutError{}, "timed out"},
		{errors.New(canary), "*errors.errorString"},
		{fmt.Errorf("%s: %w", canary, errors.New(canary)), "*errors.errorString"},
		{
			&url.Error{Op: "Get", URL: "https://storage.test/" + canary + "?sig=" + canary, Err: errors.New(canary)},
			"*errors.errorString",
		},
		{&url.Error{Op: "Get", URL: "https://storage.test/" + canary + "?sig=" + canary, Err: io.EOF}, "EOF"},
		{gzip.ErrChecksum, "compression is corrupt"},
		{fmt.Errorf(canary+": %w", flate.CorruptInputError(5)), "compression is corrupt"},
		{textproto.ProtocolError("malformed MIME header line: " + canary), "header is malformed"},
		{errors.New(`malformed HTTP status code "` + canary + `"`), "is not HTTP"},
		{&url.Error{Op: "parse", URL: canary, Err: url.EscapeError(canary)}, "url.EscapeError"},
		{errors.New("http: server closed idle connection " + canary), "*errors.errorString"},
		{nil, "nil"},
	} {
		text := redact.Cause(tc.err)
		assert.Contains(t, text, tc.want, "%T", tc.err)
		assert.NotContains(t, text, canary, "%T", tc.err)
	}
}
