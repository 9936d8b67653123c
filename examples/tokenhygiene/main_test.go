package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestTidyRevokesTheUnusedAndKeepsTheOneInUse(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	old := srv.AddToken(1, "synthetic device")
	srv.Advance(100 * 24 * time.Hour)
	recent := srv.AddToken(1, "another synthetic device")
	before := srv.Now().Add(-90 * 24 * time.Hour)
	client := srv.Client()

	var listed bytes.Buffer
	require.NoError(t, tidy(t.Context(), client, before, false, &listed))
	assert.Equal(t, 1, strings.Count(listed.String(), "would be revoked"), listed.String())
	require.NoError(t, tidy(t.Context(), client, before, true, &listed))

	tokens, err := client.Tokens.List(t.Context())
	require.NoError(t, err, "the token in use must still work")
	ids := []int64{}
	for _, token := range tokens {
		ids = append(ids, token.ID)
	}
	assert.NotContains(t, ids, old.ID)
	assert.Contains(t, ids, recent.ID)
	assert.Len(t, ids, 2)
}

func TestTidyRevokesNothingWhenUseIsNotTold(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	srv.AddToken(1, "synthetic device")

	// As if nothing had been used since: what a service without such records looks like.
	err := tidy(t.Context(), srv.Client(), srv.Now().Add(time.Hour), true, &bytes.Buffer{})
	require.ErrorContains(t, err, "nothing revoked")
	tokens, err := srv.Client().Tokens.List(t.Context())
	require.NoError(t, err)
	assert.Len(t, tokens, 2)
}
