package faultmatrix

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// replaying is a transport of the caller's that keeps the body and sends everything up to three times.
type replaying struct{ next http.RoundTripper }

func (t replaying) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	return threeTimes(func() (*http.Response, error) {
		again := r.Clone(r.Context())
		if r.Body != nil {
			again.Body = io.NopCloser(bytes.NewReader(body))
		}
		return t.next.RoundTrip(again)
	})
}

// stubborn sends the request again as it is, with a fresh body where the request offers one.
type stubborn struct{ next http.RoundTripper }

func (t stubborn) RoundTrip(r *http.Request) (*http.Response, error) {
	return threeTimes(func() (*http.Response, error) {
		if r.GetBody != nil {
			body, err := r.GetBody()
			if err != nil {
				return nil, err
			}
			r = r.Clone(r.Context())
			r.Body = body
		}
		return t.next.RoundTrip(r)
	})
}

func threeTimes(send func() (*http.Response, error)) (resp *http.Response, err error) {
	for range 3 {
		if resp != nil {
			_ = resp.Body.Close()
		}
		if resp, err = send(); err == nil && resp.StatusCode < 500 {
			return resp, nil
		}
	}
	return resp, err
}

// callersTransports retry by themselves. That is theirs to do, but for a create.
func callersTransports() []fault {
	creates := promises{}.with(unknown(1), "Create", "Create+", "Create!", "Create+!", "DoPOST", "Create-", "Create+-")
	never := creates.with(fails(1, errRefused).wire(0, 1), "Create-", "Create+-")
	var rows []fault
	for _, t := range []struct {
		name string
		wrap func(http.RoundTripper) http.RoundTripper
	}{
		{"a replaying transport", func(next http.RoundTripper) http.RoundTripper { return replaying{next} }},
		{"a stubborn transport", func(next http.RoundTripper) http.RoundTripper { return stubborn{next} }},
	} {
		set := setting{retrying: t.wrap}
		rows = append(rows,
			fault{name: t.name + ", answer lost", setting: set, commits: true, strike: func(s *strike) { s.carryOut(); s.reset() }, promises: never},
			fault{name: t.name + ", answer cut", setting: set, commits: true, strike: func(s *strike) {
				s.send(s.carryOut().head("X-Synthetic: 1")[:20])
				s.hangUp()
			}, promises: never},
			fault{name: t.name + ", 503", setting: set, commits: true, strike: func(s *strike) { s.carryOut(); says(503, refusal)(s) }, promises: never},
		)
	}
	return rows
}

// sizes are recordings whose length is not what the note tells.
func sizes() []fault {
	other := func(body string) string { return strings.ReplaceAll(body, `"size":49152`, `"size":4711`) }
	return []fault{{
		name: "audio of another size than the note tells", note: other,
		promises: promises{}.with(fails(1, clinicaldoc.ErrSizeMismatch), "Download").with(succeeds(1), "DownloadAny"),
	}}
}
