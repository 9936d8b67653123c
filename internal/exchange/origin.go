package exchange

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// SameOrigin reports whether a and b have the same scheme, host and effective port. Letter case of the host and a
// spelled-out default port do not matter.
func SameOrigin(a, b *url.URL) bool {
	return strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Hostname(), b.Hostname()) && Port(a) == Port(b)
}

// Loopback reports whether u names this machine: localhost or a loopback address. With a dot at its end, localhost is asked of
// a name server, which may say another machine.
func Loopback(u *url.URL) bool {
	if strings.EqualFold(u.Hostname(), "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return err == nil && addr.IsLoopback()
}

// Port is the effective one: the one that is spelled out, or that of the scheme.
func Port(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return map[string]string{"https": "443", "http": "80"}[strings.ToLower(u.Scheme)]
}

// Redirect returns where a response to a GET or HEAD of from leads if that is at home, else nil; home may be nil.
func Redirect(status int, method, location string, from, home *url.URL) *url.URL {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil
	}
	target, err := from.Parse(location)
	reads := method == http.MethodGet || method == http.MethodHead
	if home == nil || !reads || location == "" || err != nil || target.User != nil || !SameOrigin(target, home) {
		return nil
	}
	return target
}

// Service is the one name of a service, however its base URL is written: in lower case, without the default port, a dot or
// slashes at the end, user, query and fragment; this machine is localhost. What is no URL is returned as it is.
func Service(baseURL string) string {
	u, err := url.Parse(strings.TrimSpace(baseURL))
	if err != nil || u.Host == "" {
		return baseURL
	}
	scheme, host := strings.ToLower(u.Scheme), strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	}
	switch {
	case host == "127.0.0.1" || host == "::1":
		host = "localhost"
	case strings.Contains(host, ":"):
		host = "[" + host + "]"
	}
	if port := u.Port(); port != "" && port != Port(&url.URL{Scheme: scheme}) {
		host += ":" + port
	}
	return scheme + "://" + host + strings.TrimRight(u.EscapedPath(), "/")
}
