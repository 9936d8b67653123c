package devproxy

import (
	"net"
	"net/url"
	"strconv"

	origin "github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
)

// storageAddress returns the address of the audio storage if only the API's address is set. It is a free port of
// this machine, or the next port if others can reach the API, so they can reach the audio too.
func storageAddress(api string) string {
	host, port, err := net.SplitHostPort(api)
	if err != nil || origin.Loopback(&url.URL{Host: api}) {
		return "127.0.0.1:0"
	}
	number, err := strconv.Atoi(port)
	if err != nil || number == 0 || number == 65535 {
		return net.JoinHostPort(host, "0")
	}
	return net.JoinHostPort(host, strconv.Itoa(number+1))
}
