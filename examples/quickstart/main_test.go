package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestWithNothingConfigured(t *testing.T) {
	t.Setenv(clinicaldoc.EnvBaseURL, "")
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), settings{patient: 1, prompt: 1}, &out))
	for _, step := range []string{"using the service in a box", "uploading 100 %", "complete", "edited and signed: signed", "equal to what was uploaded", "deleted note"} {
		assert.Contains(t, out.String(), step)
	}
	assert.NotContains(t, out.String(), "\r", "it may go into a file")
}

func TestAgainstAConfiguredService(t *testing.T) {
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithDelays(clinicaldoctest.Delays{}))
	t.Cleanup(srv.Close)
	t.Setenv(clinicaldoc.EnvBaseURL, srv.URL)
	t.Setenv(clinicaldoc.EnvToken, srv.Token)
	others := srv.AddNote(clinicaldoctest.Note{Name: "not the example's"})

	var out bytes.Buffer
	require.NoError(t, run(t.Context(), settings{patient: 7, prompt: 1, yes: true}, &out))
	assert.NotContains(t, out.String(), "in a box")
	assert.Contains(t, out.String(), "edited and signed: signed")
	notes := srv.Notes()
	require.Len(t, notes, 1, "the example deletes what it created and nothing else")
	assert.Equal(t, others, notes[0].ID)
	assert.Equal(t, int64(7), srv.Created()[0].PatientID)
}
