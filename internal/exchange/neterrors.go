package exchange

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"regexp"
)

// Permanent reports whether a transport error is a matter of configuration and will be the same next time: an
// untrusted certificate, TLS spoken to a plain port, a host name that does not exist.
func Permanent(err error) bool {
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var authority x509.UnknownAuthorityError
	var dns *net.DNSError
	switch {
	case errors.As(err, &verification), errors.As(err, &authority), errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return true
	case errors.As(err, &dns):
		return dns.IsNotFound
	}
	return false
}

// refusal matches HTTP/2's errors for a request that the server has not taken: REFUSED_STREAM, and a graceful GOAWAY that
// names an earlier stream as the last one. net/http exports no types for them. Anchored, because other texts can quote
// what a server sent.
var refusal = regexp.MustCompile(`^(http2: Transport: cannot retry err \[)?(http2: Transport received Server's graceful shutdown GOAWAY|stream error: stream ID \d+; REFUSED_STREAM)`)

// Refused reports whether the error says that the server took nothing of the request.
func Refused(err error) bool { return err != nil && refusal.MatchString(err.Error()) }
