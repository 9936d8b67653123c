package clinicaldoctest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"time"
)

// WithTLS serves https with a certificate of the server's own, over HTTP/2 if the client supports it. [Server.Client]
// and [Server.Transport] know the certificate; others take it from [Server.Certificate].
func WithTLS() Option { return func(c *config) { c.tls = true } }

// Certificate returns the certificate of a server with TLS, or nil without TLS.
func (s *Server) Certificate() *x509.Certificate {
	if s.certificate == nil {
		return nil
	}
	return s.certificate.Leaf
}

// secure gives both origins and the transport a certificate.
func (s *Server) secure(host string) error {
	if s.inProcess {
		return errors.New("WithTLS cannot be combined with InProcess")
	}
	certificate, err := selfSigned(host)
	if err != nil {
		return err
	}
	s.certificate = certificate
	roots := x509.NewCertPool()
	roots.AddCert(certificate.Leaf)
	s.transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	s.transport.ForceAttemptHTTP2 = true
	return nil
}

// selfSigned makes a certificate for this machine and a host's name.
func selfSigned(host string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	const valid = 365 * 24 * time.Hour
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{Organization: []string{"clinicaldoctest"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true,
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = append(template.IPAddresses, ip)
	} else if host != "" {
		template.DNSNames = append(template.DNSNames, host)
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}
