package faultmatrix

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
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

// dumping shows what it is about to send, by a connection that leads nowhere.
type dumping struct{ next http.RoundTripper }

func (t dumping) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := httputil.DumpRequestOut(r, true); err != nil {
		return nil, err
	}
	return t.next.RoundTrip(r)
}

// marking adds a header to the request that it gets, as the Proxy function of an http.Transport can. It must find none that
// it has added before.
type marking struct{ next http.RoundTripper }

func (t marking) RoundTrip(r *http.Request) (*http.Response, error) {
	if len(r.Header["X-Synthetic-Mark"]) > 0 {
		return nil, errors.New("the header of another attempt")
	}
	r.Header.Set("X-Synthetic-Mark", "1")
	return t.next.RoundTrip(r)
}

// harmlessTransports change nothing of what is promised.
func harmlessTransports() []fault {
	var rows []fault
	for name, wrap := range map[string]func(http.RoundTripper) http.RoundTripper{
		"a dumping transport": func(next http.RoundTripper) http.RoundTripper { return dumping{next} },
		"a marking transport": func(next http.RoundTripper) http.RoundTripper { return marking{next} },
	} {
		set := setting{retrying: wrap}
		rows = append(rows,
			fault{name: name, setting: set, promises: everywhere(succeeds(1))},
			fault{name: name + ", 429", setting: set, strike: says(429, refusal), promises: everywhere(succeeds(2))},
			fault{name: name + ", 502", setting: set, strike: says(502, refusal), promises: safeToRepeat(succeeds(2), afterOne(502))},
		)
	}
	return append(rows, fault{
		name: "101, and then nothing", strike: func(s *strike) {
			s.take()
			s.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: synthetic\r\nConnection: Upgrade\r\n\r\n")
			s.silent = true
		},
		promises: promises{reads: fails(1).withStatus(101), repeats: breaks(1).withStatus(101).wire(1, 2), creates: unknown(1).withStatus(101), storage: fails(1)},
	})
}

// sizes are recordings whose length is not what the note tells.
func sizes() []fault {
	other := func(body string) string { return strings.ReplaceAll(body, `"size":49152`, `"size":4711`) }
	return []fault{{
		name: "audio of another size than the note tells", note: other,
		promises: promises{}.with(fails(1, clinicaldoc.ErrSizeMismatch), "Download").with(succeeds(1), "DownloadAny", "Open"),
	}}
}
