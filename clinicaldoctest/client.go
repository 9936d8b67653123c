package clinicaldoctest

import (
	"net/http"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// Options returns the options that a client of this server needs, for programs that make their own client:
//
//	client, err := clinicaldoc.NewClient(srv.URL, srv.Token, srv.Options()...)
//
// They set the query names of the server's variant. If the server uses TLS or runs [InProcess], they also set an HTTP
// client that reaches it. Base URL and token are not options; pass [Server.URL] and [Server.Token], or set the
// variables of [clinicaldoc.NewClientFromEnv].
func (s *Server) Options() []clinicaldoc.Option {
	options := []clinicaldoc.Option{clinicaldoc.WithQueryNames(clinicaldoc.QueryNames(s.state().variant().Query))}
	if s.inProcess || s.certificate != nil {
		options = append(options, clinicaldoc.WithHTTPClient(&http.Client{Transport: s.transport}))
	}
	return options
}

// Client returns an SDK client for the server and its first user, made with
// [Server.Options] and then opts. It panics if an option is invalid.
func (s *Server) Client(opts ...clinicaldoc.Option) *clinicaldoc.Client {
	client, err := clinicaldoc.NewClient(s.URL, s.Token, append(s.Options(), opts...)...)
	if err != nil {
		panic("clinicaldoctest: " + err.Error())
	}
	return client
}
