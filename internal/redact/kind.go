package redact

import (
	"errors"
	"io/fs"
	"net"
)

// Kind is one word for why the network or the file system failed, out of few, and empty where none of them fits.
func Kind(err error) string {
	var path *fs.PathError
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case security(err) != "":
		return "tls"
	case errors.As(err, &path):
		return "file"
	case errors.As(err, &dns):
		return "dns"
	case errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect" || op.Op == "socks connect"):
		return "connect"
	case isTimeout(err):
		return "timeout"
	}
	return ""
}
