package command

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

func TestWatchTellsNewChangedAndGone(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	list := func(notes map[int64]sight, order ...int64) snapshot { return snapshot{order, notes} }
	first := list(map[int64]sight{1: {clinicaldoc.StageUploaded, at}, 2: {clinicaldoc.StageComplete, at}, 3: {clinicaldoc.StageSigned, at}}, 1, 2, 3)
	then := list(map[int64]sight{1: {clinicaldoc.StageTranscribing, at}, 2: {clinicaldoc.StageComplete, at.Add(time.Second)}, 4: {clinicaldoc.StageUploaded, at}}, 1, 2, 4)
	events := func(o *watchOptions, known map[int64]sight, now snapshot) map[int64]string {
		told := map[int64]string{}
		for _, c := range o.changes(known, now) {
			told[c.ID] = c.Event + " " + c.Stage.String()
		}
		return told
	}
	assert.Empty(t, events(&watchOptions{}, nil, first), "what is there at the start is no change")
	assert.Len(t, events(&watchOptions{initial: true}, nil, first), 3)
	assert.Empty(t, events(&watchOptions{}, first.notes, first))
	assert.Equal(t, map[int64]string{1: "changed transcribing", 2: "changed complete", 3: "gone signed", 4: "new uploaded"}, events(&watchOptions{}, first.notes, then))
	assert.Len(t, events(&watchOptions{}, map[int64]sight{}, first), 3, "an empty list was seen, so that these are new")
}
