package boxlink_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
)

func TestListening_ReturnsWhereClientsReachTheServer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ ip, host, want string }{
		{"127.0.0.1", "", "http://127.0.0.1:8790"},
		{"::1", "", "http://[::1]:8790"},
		{"::", "", "http://127.0.0.1:8790"},
		{"0.0.0.0", "", "http://127.0.0.1:8790"},
		{"192.0.2.7", "", "http://192.0.2.7:8790"},
		{"::", "box", "http://box:8790"},
		{"::", "::1", "http://[::1]:8790"},
	} {
		assert.Equal(t, test.want, boxlink.Listening(&net.TCPAddr{IP: net.ParseIP(test.ip), Port: 8790}, test.host))
	}
	assert.Equal(t, "http://pipe", boxlink.Listening(&net.UnixAddr{Name: "pipe"}, ""))
}
