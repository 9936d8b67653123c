package account

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKeyring_Silent_IsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silent := make(chan struct{})
		defer close(silent)
		begun := time.Now()
		_, err := within(func() (string, error) {
			<-silent
			return "", nil
		})
		require.ErrorIs(t, err, ErrKeyring)
		assert.Equal(t, keyringLimit, time.Since(begun))
	})
}
