package clinicaldoctest

import (
	"net/http"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// Client returns an SDK client for the server and its first user, set to the
// variant's query names. It panics on options that make no client.
func (s *Server) Client(opts ...clinicaldoc.Option) *clinicaldoc.Client {
	ready := []clinicaldoc.Option{clinicaldoc.WithQueryNames(clinicaldoc.QueryNames(s.state().variant().Query))}
	if s.inProcess || s.certificate != nil {
		ready = append(ready, clinicaldoc.WithHTTPClient(&http.Client{Transport: s.transport}))
	}
	client, err := clinicaldoc.NewClient(s.URL, s.Token, append(ready, opts...)...)
	if err != nil {
		panic("clinicaldoctest: " + err.Error())
	}
	return client
}
