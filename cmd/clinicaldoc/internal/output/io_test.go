package output_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

// broken is a stream that cannot be written, such as a full disk.
type broken struct{}

var errBroken = errors.New("synthetic")

func (broken) Write([]byte) (int, error) { return 0, errBroken }

// Only a clear yes is consent: a deletion waits for it.
func TestAsk_OnlyYes_IsConsent(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]bool{
		"y\n": true, "Yes\n": true, "\tYES\t\r\n": true, "yes": true,
		"\n": false, "": false, "n\n": false, "no\n": false, "yess\n": false, "ye\n": false,
	} {
		var asked bytes.Buffer
		streams := &output.IO{In: bufio.NewReader(strings.NewReader(answer)), Err: &asked}
		got, err := streams.Ask(t.Context(), "Delete it?")
		require.NoError(t, err, answer)
		assert.Equal(t, want, got, answer)
		assert.Equal(t, "Delete it? [y/N] ", asked.String())
	}
}

// A question that nobody has seen has no answer.
func TestAsk_QuestionCannotBeShown_IsAnError(t *testing.T) {
	t.Parallel()
	streams := &output.IO{In: bufio.NewReader(strings.NewReader("y\n")), Err: broken{}}
	got, err := streams.Ask(t.Context(), "Delete it?")
	require.ErrorIs(t, err, errBroken)
	assert.False(t, got)
}

// Ctrl-C ends a question without Enter, and the shell's prompt begins on a line of its own.
func TestAsk_ContextEnds_DoesNotWaitForEnter(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	silent, typed := io.Pipe()
	defer func() { assert.NoError(t, typed.Close()) }()
	var asked bytes.Buffer
	cancel(output.ErrInterrupted)
	got, err := (&output.IO{In: bufio.NewReader(silent), Err: &asked}).Ask(ctx, "Delete it?")
	require.ErrorIs(t, err, output.ErrInterrupted)
	assert.False(t, got)
	assert.Equal(t, "Delete it? [y/N] \n", asked.String())
}

// A question needs somebody who sees it and somebody who can answer it.
func TestCanAsk_NeedsBothEnds(t *testing.T) {
	t.Parallel()
	for _, in := range []bool{false, true} {
		for _, err := range []bool{false, true} {
			assert.Equal(t, in && err, (&output.IO{InTTY: in, OutTTY: true, ErrTTY: err}).CanAsk())
		}
	}
}
