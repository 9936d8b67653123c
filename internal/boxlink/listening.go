package boxlink

import "net"

// Listening returns the URL at which clients reach a plain http server: with the host's name, if one is passed, or the
// address at which it listens. A server that listens at every address is reached at 127.0.0.1.
func Listening(at net.Addr, host string) string {
	address, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return "http://" + at.String()
	}
	listensEverywhere := net.ParseIP(address).IsUnspecified()
	if listensEverywhere {
		address = "127.0.0.1"
	}
	if host != "" {
		address = host
	}
	return "http://" + net.JoinHostPort(address, port)
}
