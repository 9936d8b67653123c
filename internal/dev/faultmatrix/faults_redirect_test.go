package faultmatrix

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// place is where a redirect leads.
type place struct {
	name   string
	secure bool // home speaks TLS
	url    func(*strike) string
}

func places() []place {
	return []place{
		{"the same origin", false, func(s *strike) string { return s.front.url }},
		{"another port", false, func(s *strike) string { return s.front.world.elsewhere.url }},
		{"another host", false, func(s *strike) string { return strings.Replace(s.front.url, "127.0.0.1", canary+".test", 1) }},
		{"down to http", true, func(s *strike) string { return s.front.world.elsewhere.url }},
	}
}

// movedTo redirects to the same record at a place.
func movedTo(status int, url func(*strike) string) func(*strike) {
	return func(s *strike) {
		says(status, "", "Location", url(s)+movedPrefix+s.request.URL.RequestURI())(s)
	}
}

// refusedRedirect: a 302 or 303 may follow an action that was carried out; the others say that it has to be asked elsewhere.
func refusedRedirect(status int) promises {
	refused := fails(1, clinicaldoc.ErrUnexpectedResponse).withStatus(status)
	if status == http.StatusFound || status == http.StatusSeeOther {
		return safeToRepeat(refused, unknown(1, clinicaldoc.ErrUnexpectedResponse).withStatus(status))
	}
	return everywhere(refused)
}

// redirects lead everywhere; only reads follow, and only at home.
func redirects() []fault {
	var rows []fault
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, to := range places() {
			p := refusedRedirect(status)
			if to.name == "the same origin" {
				p.reads = succeeds(1).wire(2, 2)
			}
			rows = append(rows, fault{
				name: fmt.Sprintf("%d to %s", status, to.name), methods: true, setting: setting{secure: to.secure},
				strike: movedTo(status, to.url), promises: p,
			})
		}
	}
	round := refusedRedirect(307)
	round.reads = fails(1, clinicaldoc.ErrUnexpectedResponse).withStatus(307).wire(6, 6)
	return append(rows,
		fault{
			name: "307 round and round", methods: true, times: forEver, promises: round,
			strike: func(s *strike) { says(307, "", "Location", s.request.URL.RequestURI())(s) },
		},
		fault{name: "302 to nowhere", methods: true, strike: says(302, ""), promises: refusedRedirect(302)},
		fault{
			name: "307 to a password", methods: true, promises: refusedRedirect(307),
			strike: movedTo(307, func(s *strike) string { return strings.Replace(s.front.url, "://", "://"+canary+":"+canary+"@", 1) }),
		},
		fault{
			name: "308 without a scheme", methods: true, promises: refusedRedirect(308),
			strike: movedTo(308, func(s *strike) string { return strings.TrimPrefix(s.front.world.elsewhere.url, "http:") }),
		},
	)
}
