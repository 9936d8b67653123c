package exchange

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// SameOrigin reports whether a and b have the same scheme, host and effective port. Letter case of the host and a
// spelled-out default port do not matter.
func SameOrigin(a, b *url.URL) bool {
	if !strings.EqualFold(a.Scheme, b.Scheme) || !strings.EqualFold(a.Hostname(), b.Hostname()) {
		return false
	}
	return Port(a) == Port(b)
}

// Loopback reports whether u names this machine: localhost or a loopback address. "localhost." does not count, because
// a name server resolves it, perhaps to another machine.
func Loopback(u *url.URL) bool {
	if strings.EqualFold(u.Hostname(), "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return err == nil && addr.IsLoopback()
}

// Port returns the effective port: the one in the URL, or that of the scheme.
func Port(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return map[string]string{"https": "443", "http": "80"}[strings.ToLower(u.Scheme)]
}

// Redirect returns the target of a redirect of a GET or HEAD of from, if it is on the origin of home; otherwise nil.
// Home may be nil.
func Redirect(status int, method, location string, from, home *url.URL) *url.URL {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil
	}
	if !slices.Contains([]string{http.MethodGet, http.MethodHead}, method) {
		return nil
	}
	if home == nil || location == "" {
		return nil
	}
	target, err := from.Parse(location)
	if err != nil || target.User != nil {
		return nil
	}
	if !SameOrigin(target, home) {
		return nil
	}
	return target
}

// Service returns the normal form of a base URL: in lower case, without the default port, a dot or slashes at the end,
// user, query and fragment. This machine is localhost. A text that is not a URL is returned unchanged.
func Service(baseURL string) string {
	u, err := url.Parse(strings.TrimSpace(baseURL))
	if err != nil || u.Host == "" {
		return baseURL
	}
	scheme := strings.ToLower(u.Scheme)
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	}
	switch {
	case host == "127.0.0.1", host == "::1":
		host = "localhost"
	case strings.Contains(host, ":"):
		host = "[" + host + "]"
	}
	if port := u.Port(); port != "" && port != Port(&url.URL{Scheme: scheme}) {
		host += ":" + port
	}
	return scheme + "://" + host + strings.TrimRight(u.EscapedPath(), "/")
}
