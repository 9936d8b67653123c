package redact_test

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
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// canary stands where an address' query, a file's name or a body could be.
const canary = "canary-of-a-patient"

type safeError struct{}

func (safeError) Error() string    { return canary }
func (safeError) SafeText() string { return "safe text" }

type timeoutError struct{}

func (timeoutError) Error() string { return canary }
func (timeoutError) Timeout() bool { return true }

func TestCause(t *testing.T) {
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
		{x509.UnknownAuthorityError{}, "authority unknown"},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, "authority unknown"},
		{x509.HostnameError{Host: canary, Certificate: &x509.Certificate{DNSNames: []string{canary}}}, "another host name"},
		{x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}, "x509"},
		{tls.RecordHeaderError{Msg: canary}, "does not speak TLS"},
		{http.ErrSchemeMismatch, "does not speak TLS"},
		{&net.DNSError{Name: "api.clinic.test", Err: "no such host", IsNotFound: true}, "no such host"},
		{&net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, "dial tcp 127.0.0.1:1: connect: connection refused"},
		{&net.OpError{Op: "read", Net: "tcp", Err: errors.New(canary)}, "read tcp: failed with an error of type"},
		{&os.SyscallError{Syscall: "read", Err: errors.New(canary)}, "read: failed with an error of type"},
		{os.NewSyscallError("write", syscall.EPIPE), "write: broken pipe"},
		{syscall.ECONNRESET, "connection reset"},
		{&fs.PathError{Op: "open", Path: "/home/" + canary, Err: syscall.ENOENT}, "no such file"},
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
		{&url.Error{Op: "Get", URL: "https://storage.test/" + canary + "?sig=" + canary, Err: errors.New(canary)}, "*errors.errorString"},
		{&url.Error{Op: "Get", URL: "https://storage.test/" + canary + "?sig=" + canary, Err: io.EOF}, "EOF"},
		{&url.Error{Op: "parse", URL: canary, Err: url.EscapeError(canary)}, "url.EscapeError"},
		{errors.New("http: server closed idle connection " + canary), "*errors.errorString"},
		{nil, "nil"},
	} {
		text := redact.Cause(tc.err)
		assert.Contains(t, text, tc.want, "%T", tc.err)
		assert.NotContains(t, text, canary, "%T", tc.err)
	}
}
