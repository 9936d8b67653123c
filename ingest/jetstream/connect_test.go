package jetstream_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/ingest/jetstream"
)

// A server's URL may hold a password, which neither the error nor what it wraps may print.
func TestConnectPrintsNoPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"nats://user:CANARY@127.0.0.1:x", "nats://user:CANARY@127.0.0.1:1", "nats://user:CANARY@ho st", "CANARY://\x7f"} {
		_, err := jetstream.Connect(url)
		require.Error(t, err)
		for wrapped := err; wrapped != nil; {
			assert.NotContains(t, fmt.Sprintf("%v %+v %#v", wrapped, wrapped, wrapped), "CANARY")
			parent, ok := wrapped.(interface{ Unwrap() error })
			if !ok {
				break
			}
			wrapped = parent.Unwrap()
		}
	}
}
