package boxlink

import "net"

// Listening returns the origin of a plain http server by which its clients reach it: with the host's name, if one is
// given, or the address it listens at. A server that listens at every address is reached at this machine's own.
func Listening(at net.Addr, host string) string {
	address, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return "http://" + at.String()
	}
	if ip := net.ParseIP(address); ip != nil && ip.IsUnspecified() {
		address = "127.0.0.1"
	}
	if host != "" {
		address = host
	}
	return "http://" + net.JoinHostPort(address, port)
}
