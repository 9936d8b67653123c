package integration

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// testLife takes a note from its creation to completion, looking at each step.
func testLife(t *testing.T, tg *target) {
	t.Helper()
	created := tg.create(t)
	tg.assertCreated(t, created)
	read, err := tg.client.Notes.Get(t.Context(), created.ID)
	require.NoError(t, err)
	tg.assertCreated(t, read)

	ctx := patience(t)
	last := clinicaldoc.Stage(0)
	params := tg.waitParams()
	params.OnUpdate = func(note *clinicaldoc.ProgressNote) {
		assert.GreaterOrEqual(t, note.Stage(), last, "stages never go back")
		last = note.Stage()
	}
	complete, err := tg.client.Notes.Wait(ctx, created.ID, params)
	require.NoError(t, err)
	assert.Equal(t, clinicaldoc.StageComplete, complete.Stage())
	assert.True(t, complete.Has.Transcription)
	assert.True(t, complete.Has.Content)
	assert.Nil(t, complete.ErrorState)
}

func testWatching(t *testing.T, tg *target) {
	t.Helper()
	ctx := patience(t)
	var last *clinicaldoc.ProgressNote
	for note, err := range tg.client.Notes.Watch(ctx, tg.create(t).ID, tg.waitParams()) {
		require.NoError(t, err)
		last = note
	}
	require.NotNil(t, last)
	assert.Equal(t, clinicaldoc.StageComplete, last.Stage())

	pending := map[int64]bool{}
	var ids []int64
	for range 3 {
		id := tg.create(t).ID
		ids, pending[id] = append(ids, id), true
	}
	for note, err := range tg.client.Notes.WaitAll(ctx, ids, tg.waitParams()) {
		require.NoError(t, err)
		require.True(t, pending[note.ID], "a note that was not asked for, or a second time")
		delete(pending, note.ID)
		assert.Equal(t, clinicaldoc.StageComplete, note.Stage())
	}
	assert.Empty(t, pending)
}

// testIncompleteSign signs a note before it can be complete. Some services are faster.
func testIncompleteSign(t *testing.T, tg *target) {
	t.Helper()
	if tg.skipSign {
		return
	}
	note := tg.create(t)
	if note.Stage() >= clinicaldoc.StageComplete {
		t.Log("the note was complete at once: the refusal to sign could not be seen")
		return
	}
	_, err := tg.client.Notes.Sign(t.Context(), note.ID)
	if err == nil {
		t.Log("the note was signed at once: the refusal could not be seen")
		return
	}
	assertRefused(t, err)
	after, readErr := tg.client.Notes.Get(t.Context(), note.ID)
	require.NoError(t, readErr)
	assert.False(t, after.Has.Signed)
	if after.Stage() >= clinicaldoc.StageComplete {
		t.Log("the note was complete a moment after the refusal, so that its reason may not have shown")
		return
	}
	require.ErrorIs(t, err, clinicaldoc.ErrNoteIncomplete)
}

// testSign checks the note that the gap report has signed. One signed note is enough, because a service may keep it for
// ever.
func testSign(t *testing.T, tg *target, signed *clinicaldoc.ProgressNote) {
	t.Helper()
	if tg.skipSign {
		t.Skip("CLINICALDOC_SKIP_SIGN is set")
	}
	require.NotNil(t, signed, "the report could not sign a note")
	assert.True(t, signed.Has.Signed)
	assert.Equal(t, clinicaldoc.StageSigned, signed.Stage())
}

// assertRefused accepts any answer of the service that is a refusal of this request, and nothing else.
func assertRefused(t *testing.T, err error) {
	t.Helper()
	refusal := (*clinicaldoc.Error)(nil)
	require.ErrorAs(t, err, &refusal)
	assert.GreaterOrEqual(t, refusal.StatusCode, 400)
	assert.Less(t, refusal.StatusCode, 500)
	require.NotErrorIs(t, err, clinicaldoc.ErrUnauthorized)
	require.NotErrorIs(t, err, clinicaldoc.ErrRateLimited)
}
