package command

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// A terminal shows that the client waits for the service's limit. A pipe does not get such a line.
func TestOptions_ServiceLimit_IsShownOnTerminalOnly(t *testing.T) {
	t.Parallel()
	for _, isTerminal := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer(t, clinicaldoctest.InProcess())
			id := srv.AddNote(clinicaldoctest.Note{})
			srv.Inject(clinicaldoctest.RouteGetNote, clinicaldoctest.TooManyRequests(57*time.Second))
			env, shown := newEnv(nil)
			env.IO.ErrTTY = isTerminal
			env.retries = 1
			_, err := srv.Client(env.options()...).Notes.Get(t.Context(), id)
			require.NoError(t, err)
			want := ""
			if isTerminal {
				want = "waiting 58 s for the service's limit\n"
			}
			assert.Equal(t, want, shown.err.String())
		})
	}
}
