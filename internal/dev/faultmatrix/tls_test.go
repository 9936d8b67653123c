package faultmatrix

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"sync"
	"time"
)

// identity is a certificate for this machine and a pool that trusts it. Its key is of the kind that is quick to use.
var identity = sync.OnceValues(func() (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
})

// serverTLS offers one protocol only.
func serverTLS(protocol string) *tls.Config {
	certificate, _ := identity()
	return &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{protocol}, MinVersion: tls.VersionTLS12}
}

func clientTLS() *tls.Config {
	_, pool := identity()
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12, CurvePreferences: []tls.CurveID{tls.X25519}} // the quickest
}
