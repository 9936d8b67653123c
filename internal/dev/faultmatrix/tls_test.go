package faultmatrix

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"sync"
)

// identity is the certificate that httptest has for this machine, and the configuration of a client that trusts it.
var identity = sync.OnceValues(func() (tls.Certificate, *tls.Config) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	transport := server.Client().Transport.(*http.Transport) //nolint:forcetypeassert // it is one
	return server.TLS.Certificates[0], transport.TLSClientConfig
})

// serverTLS offers one protocol only.
func serverTLS(protocol string) *tls.Config {
	certificate, _ := identity()
	return &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{protocol}}
}

func clientTLS() *tls.Config {
	_, trusting := identity()
	config := trusting.Clone()
	config.CurvePreferences = []tls.CurveID{tls.X25519} // the quickest
	return config
}
