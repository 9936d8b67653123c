package clinicaldoc_test

import (
	"testing"

	"go.uber.org/goleak"
)

// No test may leave a goroutine behind: a leaked one would hold a patient's audio or a connection.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
