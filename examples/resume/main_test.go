package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// stopAt ends the program, as it were, once it has written a certain text.
type stopAt struct {
	bytes.Buffer
	text string
	stop context.CancelFunc
}

func (s *stopAt) Write(p []byte) (int, error) {
	n, err := s.Buffer.Write(p)
	if bytes.Contains(s.Bytes(), []byte(s.text)) {
		s.stop()
	}
	return n, err
}

func TestInterruptedWhileWaitingItGoesOnWithTheID(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithDelays(clinicaldoctest.Delays{Transcribing: 24 * time.Hour}))
	t.Cleanup(srv.Close)
	client := srv.Client()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := &stopAt{text: "transcribing\n", stop: cancel}
	err := resume(ctx, client, settings{patient: 7, prompt: 1}, first)
	var waiting *clinicaldoc.WaitError
	require.ErrorAs(t, err, &waiting)
	require.ErrorIs(t, err, context.Canceled)

	srv.Advance(25 * time.Hour)
	var second bytes.Buffer
	require.NoError(t, resume(t.Context(), client, settings{note: waiting.ID}, &second))
	assert.Contains(t, second.String(), "is complete")
	assert.Len(t, srv.Notes(), 1, "nothing is uploaded twice")
}
