package redact_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// printed is all that can be printed of an error, and of each error that Unwrap returns from there on.
func printed(t *testing.T, err error) string {
	t.Helper()
	var b strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
		fmt.Fprintf(&b, verb+"\n", err)
	}
	b.WriteString(err.Error())
	for _, handler := range []slog.Handler{slog.NewTextHandler(&b, nil), slog.NewJSONHandler(&b, nil)} {
		slog.New(handler).InfoContext(t.Context(), "m", "err", err)
	}
	encoded, _ := json.Marshal(err)
	b.Write(encoded)
	switch parent := err.(type) { //nolint:errorlint // a step of the walk
	case interface{ Unwrap() error }:
		if inner := parent.Unwrap(); inner != nil {
			b.WriteString(printed(t, inner))
		}
	case interface{ Unwrap() []error }:
		for _, inner := range parent.Unwrap() {
			b.WriteString(printed(t, inner))
		}
	}
	return b.String()
}

func TestOpaque_Error_IsMatchedButNotPrinted(t *testing.T) {
	t.Parallel()
	inner := errors.New(canary)
	foreign := &url.Error{
		Op: "Get", URL: "https://storage.test/?sig=" + canary, Err: fmt.Errorf("%s: %w", canary, errors.Join(inner, io.EOF)),
	}
	err := redact.Opaque(foreign)
	text := printed(t, err)
	assert.NotContains(t, text, canary)
	assert.NotContains(t, text, fmt.Sprintf("%x", canary))
	safe := redact.Cause(foreign) // describes why a request failed, without the texts of foreign errors
	assert.Equal(t, safe, err.Error())
	assert.Equal(t, safe, redact.Cause(err))
	assert.Equal(t, safe, redact.Cause(fmt.Errorf("x: %w", err)))
	encoded, failed := json.Marshal(err)
	require.NoError(t, failed)
	assert.Equal(t, `"`+safe+`"`, string(encoded))

	require.NoError(t, errors.Unwrap(err), "unwrapping would reach the foreign errors, whose texts are not safe")
	require.ErrorIs(t, err, inner)
	require.ErrorIs(t, err, io.EOF)
	require.ErrorIs(t, err, foreign)
	require.ErrorIs(t, err, redact.Opaque(foreign), "every look at a chain makes a new one")
	require.NotErrorIs(t, err, redact.Opaque(errors.New(canary)))
	require.NotErrorIs(t, err, io.ErrUnexpectedEOF)
	asked, ok := errors.AsType[*url.Error](err)
	require.True(t, ok, "who asks for it by its type gets it")
	assert.Same(t, foreign, asked)
	_, ok = errors.AsType[*net.OpError](err)
	assert.False(t, ok)
}

func TestOpaque_HarmlessError_IsUnchanged(t *testing.T) {
	t.Parallel()
	require.NoError(t, redact.Opaque(nil))
	ours := redact.New("constant")
	for _, err := range []error{
		context.Canceled, context.DeadlineExceeded, io.EOF, fs.ErrNotExist, syscall.ECONNRESET, ours,
		redact.Fail("with a cause", errors.New(canary)), redact.Opaque(errors.New(canary)),
	} {
		same := err == redact.Opaque(err) //nolint:errorlint // the very same
		assert.True(t, same, "%T", err)
	}
	// A type is trusted by itself, not by what it embeds.
	foreign := struct{ safeError }{safeError{canary}}
	assert.NotContains(t, printed(t, redact.Opaque(foreign)), canary)
	assert.Equal(t, "failed with an error of type struct { redact_test.safeError }", redact.Opaque(foreign).Error())
	assert.NotContains(t,
		printed(t, redact.Opaque(fmt.Errorf(canary+": %w", ours))), canary, "what is around a harmless one may be harmful",
	)
}

func TestNew_Error_MatchesOnlyItself(t *testing.T) {
	t.Parallel()
	a, b := redact.New("same"), redact.New("same")
	assert.Equal(t, "same", a.Error())
	assert.Equal(t, "same", redact.Cause(fmt.Errorf("x: %w", a)))
	require.ErrorIs(t, fmt.Errorf("x: %w", a), a)
	require.NotErrorIs(t, a, b)
}

// ContextErr matches the context's error and its cause. Of the cause, it prints only the text of the first error in its
// chain whose type is trusted.
func TestContextErr_Cause_IsPrintedOnlyIfTrusted(t *testing.T) {
	t.Parallel()
	cancelled := func(t *testing.T, cause error) error {
		t.Helper()
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		return redact.ContextErr(ctx)
	}
	t.Run("context has not ended", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, redact.ContextErr(t.Context()))
	})
	t.Run("no cause", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, context.Canceled, cancelled(t, nil))
	})
	t.Run("foreign cause", func(t *testing.T) {
		t.Parallel()
		cause := errors.New(canary)
		err := cancelled(t, cause)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, cause)
		assert.NotContains(t, printed(t, err), canary)
		assert.Equal(t, "the call was cancelled (context canceled)", err.Error())
		assert.Equal(t, err.Error(), redact.Cause(err))
	})
	t.Run("foreign cause that embeds a trusted one", func(t *testing.T) {
		t.Parallel()
		cause := struct{ safeError }{safeError{canary}} // %#v would print its field
		assert.NotContains(t, printed(t, cancelled(t, cause)), canary)
	})
	t.Run("foreign cause that wraps a trusted one", func(t *testing.T) {
		t.Parallel()
		cause := fmt.Errorf(canary+": %w", redact.New("the shift is over"))
		longPast := time.Unix(1, 0)
		ctx, cancel := context.WithDeadlineCause(t.Context(), longPast, cause)
		defer cancel()
		err := redact.ContextErr(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, "the deadline passed (context deadline exceeded): the shift is over", err.Error())
		assert.NotContains(t, printed(t, err), canary)
	})
}

// wrapper is of this module and has a safe text, but leaves the printing of what it wraps to fmt.
type wrapper struct {
	safeError
	inner error
}

func (w wrapper) Unwrap() error { return w.inner }

func init() { redact.Trust(func(wrapper) string { return "safe text" }) }

func TestOpaque_TrustedWrapper_HidesWhatItWraps(t *testing.T) {
	t.Parallel()
	err := redact.Opaque(wrapper{safeError: safeError{canary}, inner: &url.Error{Err: io.EOF}})
	assert.NotContains(t, printed(t, err), canary)
	assert.Equal(t, "safe text", err.Error())
	require.ErrorIs(t, err, io.EOF)
}
