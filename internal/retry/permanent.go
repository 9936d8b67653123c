package retry

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
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
