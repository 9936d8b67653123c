package command

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
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

func TestArguments_TooFewOrTooMany_AreRejected(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		check cobra.PositionalArgs
		takes []bool // by the number of arguments
	}{
		{noArgs, []bool{true, false}},
		{exactly(1, "an id"), []bool{false, true, false}},
		{between(0, 1, "at most one date"), []bool{true, true, false}},
		{between(1, 2, "a method and a path"), []bool{false, true, true, false}},
		{atLeast(1, "ids"), []bool{false, true, true}},
	} {
		for n, takes := range one.takes {
			err := one.check(&cobra.Command{}, make([]string, n))
			if takes {
				require.NoError(t, err)
				continue
			}
			require.Error(t, err)
			assert.Equal(t, codeUsage, exitCode(t.Context(), err))
		}
	}
}
