package exchange_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

func TestSameOrigin_SchemeHostAndPort_Decide(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"https://api.clinic.test/v1", "https://api.clinic.test/other?x=1#y", true},
		{"https://api.clinic.test", "https://API.Clinic.TEST:443/", true},
		{"http://api.clinic.test", "http://api.clinic.test:80", true},
		{"HTTPS://api.clinic.test", "https://api.clinic.test", true},
		{"https://[::1]:8443", "https://[::1]:8443", true},
		{"https://api.clinic.test", "http://api.clinic.test", false},
		{"https://api.clinic.test", "http://api.clinic.test:443", false},
		{"https://api.clinic.test", "https://api.clinic.test:8443", false},
		{"https://api.clinic.test", "https://api.clinic.test.evil.test", false},
		{"https://api.clinic.test", "https://sub.api.clinic.test", false},
		{"https://api.clinic.test", "https://clinic.test", false},
		{"https://api.clinic.test", "https://api.clinic.test.", false},
		{"https://api.clinic.test", "//api.clinic.test", false},
		{"https://api.clinic.test", "https:api.clinic.test", false},
		{"https://api.clinic.test", "/v1", false},
		{"https://api.clinic.test", "https://api.clinic.test@evil.test", false},
		{"http://127.0.0.1:1", "http://localhost:1", false},
		{"ftp://api.clinic.test", "ftp://api.clinic.test:21", false},
	} {
		a, err := url.Parse(tc.a)
		require.NoError(t, err)
		b, err := url.Parse(tc.b)
		require.NoError(t, err)
		assert.Equal(t, tc.want, exchange.SameOrigin(a, b), "%s %s", tc.a, tc.b)
		assert.Equal(t, tc.want, exchange.SameOrigin(b, a), "%s %s", tc.b, tc.a)
	}
}

func TestLoopback_OnlyThisMachine(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"http://localhost:8080": true, "http://LOCALHOST": true, "http://localhost.:8080": false, "http://127.0.0.1": true,
		"http://127.9.9.9:1": true, "http://[::1]:1": true,
		"http://[::ffff:127.0.0.1]": true, "http://localhost.evil.test": false, "http://127.0.0.1.evil.test": false,
		"http://10.0.0.1": false,
		"http://0.0.0.0":  false, "http://[fe80::1]": false, "http://clinic.test": false, "/path": false,
		"http://2130706433": false, "http://127.1": false, "http://127.0.0.1.": false,
	} {
		u, err := url.Parse(address)
		require.NoError(t, err)
		assert.Equal(t, want, exchange.Loopback(u), address)
	}
}

func TestRedirect_OnlyReadsOnTheOrigin(t *testing.T) {
	t.Parallel()
	const home = "https://api.clinic.test/prefix"
	for _, tc := range []struct {
		method   string
		status   int
		location string
		want     string // empty: not followed
	}{
		{"GET", 301, "/v1/b", "https://api.clinic.test/v1/b"},
		{"GET", 302, "b?c=d", "https://api.clinic.test/v1/b?c=d"},
		{"GET", 303, "https://API.clinic.test:443/x", "https://API.clinic.test:443/x"},
		{"HEAD", 307, "//api.clinic.test/x", "https://api.clinic.test/x"},
		{"GET", 308, "/x", "https://api.clinic.test/x"},
		{"GET", 200, "/x", ""},
		{"GET", 300, "/x", ""},
		{"GET", 304, "/x", ""},
		{"GET", 305, "/x", ""},
		{"GET", 302, "", ""},
		{"GET", 302, "https://api.clinic.test:8443/x", ""},
		{"GET", 302, "http://api.clinic.test/x", ""},
		{"GET", 302, "//elsewhere.test/x", ""},
		{"GET", 302, "https://user:secret@api.clinic.test/x", ""},
		{"GET", 302, "https://api.clinic.test.elsewhere.test/x", ""},
		{"GET", 302, "https:x", ""},
		{"GET", 302, "%zz", ""},
		{"POST", 307, "/x", ""},
		{"PUT", 303, "/x", ""},
		{"DELETE", 302, "/x", ""},
	} {
		t.Run(fmt.Sprint(tc.method, tc.status, tc.location), func(t *testing.T) {
			t.Parallel()
			base, err := url.Parse(home)
			require.NoError(t, err)
			from, err := url.Parse("https://api.clinic.test/v1/a")
			require.NoError(t, err)
			target := exchange.Redirect(tc.status, tc.method, tc.location, from, base)
			if tc.want == "" {
				assert.Nil(t, target)
				return
			}
			require.NotNil(t, target)
			assert.Equal(t, tc.want, target.String())
		})
	}
}

func TestRedirect_NoOrigin_ReturnsNil(t *testing.T) {
	t.Parallel()
	from, err := url.Parse("https://api.clinic.test/1")
	require.NoError(t, err)
	assert.Nil(t, exchange.Redirect(http.StatusFound, http.MethodGet, "/2", from, nil))
	assert.Equal(t,
		"https://api.clinic.test/2", exchange.Redirect(http.StatusFound, http.MethodGet, "/2", from, from).String(),
	)
}

func TestService_EverySpelling_HasOneForm(t *testing.T) {
	t.Parallel()
	for want, spellings := range map[string][]string{
		"https://api.example.test": {
			"https://api.example.test", "https://API.example.TEST/", "HTTPS://api.example.test:443", "https://api.example.test.",
			"https://api.example.test///",
			"https://user:secret@api.example.test?x=1#y", " https://api.example.test ", "https://api.example.test.:443/",
		},
		"https://api.example.test/A%20b": {"https://api.example.test/A%20b", "https://api.example.test/A%20b/"},
		"https://api.example.test:8443":  {"https://api.example.test:8443/"},
		"http://localhost": {
			"http://localhost:80", "http://127.0.0.1", "http://[::1]/", "http://LOCALHOST.", "http://[::ffff:127.0.0.1]:80",
		},
		"http://localhost:443": {"http://localhost:443", "http://127.0.0.1:443"},
		"http://localhost:8790": {
			"http://Localhost:8790/", "http://127.0.0.1:8790", "http://[0:0:0:0:0:0:0:1]:8790",
		},
		"http://127.0.0.2:8790":     {"http://127.0.0.2:8790"},
		"http://[2001:db8::1]:8790": {"http://[2001:DB8:0::1]:8790"},
		"no url":                    {"no url"},
	} {
		for _, spelling := range spellings {
			assert.Equal(t, want, exchange.Service(spelling), spelling)
		}
		assert.Equal(t, want, exchange.Service(want))
	}
}
