package jetstream

import (
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
)

// A fleet needs at least this version of the server: older ones cannot pause consumers, and ignore settings that
// protect the journal.
const (
	minMajor = 2
	minMinor = 11
)

// checkServer returns an error matching ErrServerTooOld if the connection leads to a server that is too old.
func checkServer(conn *nats.Conn) error { return checkVersion(conn.ConnectedServerVersion()) }

// checkVersion checks what a server reports. An empty version means that there is no connection at the moment.
func checkVersion(version string) error {
	if version == "" {
		return nil
	}
	var major, minor int
	_, err := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d", &major, &minor)
	newEnough := major > minMajor || major == minMajor && minor >= minMinor
	if err == nil && newEnough {
		return nil
	}
	text := fmt.Sprintf("the NATS server has version %s, but a fleet needs %d.%d or later; nothing is uploaded. "+
		"Update the server", version, minMajor, minMinor)
	return fail(text, ErrServerTooOld, ErrStore)
}
