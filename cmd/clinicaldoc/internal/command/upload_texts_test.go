package command

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The time that is named is still to come, and is not called the end of the search.
func TestLostText_NamesNoTimeThatHasPassed(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 22, 0, 0, 0, time.UTC)
	first := lostText(now, now.Add(10*time.Minute))
	assert.Contains(t, first, "cannot rule out a note before 2026-03-01T22:10:00Z")
	assert.NotContains(t, first, "at the latest")
	assert.NotContains(t, lostText(now.Add(24*time.Hour), now), "2026", "the second night")
}

// A method of the library is nothing that somebody at a terminal knows; the route is.
func TestErrorText_NamesRoutesInsteadOfMethods(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"clinicaldoc: Notes.Get (GET /v1/progress-notes/{id}): 404 Not Found": "GET /v1/progress-notes/{id}: 404 Not Found",
		"1 failed: Notes.Create (POST /v1/progress-notes): 422":               "1 failed: POST /v1/progress-notes: 422",
		"a file (a.wav) of Visit (second)":                                    "a file (a.wav) of Visit (second)",
	} {
		assert.Equal(t, want, errorText(errors.New(text)))
	}
}
