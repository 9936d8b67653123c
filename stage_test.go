package clinicaldoc_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// everyCombination lists notes with every combination of what a stage is derived from: 3 error states, 3 flags, 4 times.
func everyCombination() []clinicaldoc.ProgressNote {
	at := func(set bool) time.Time {
		if set {
			return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		}
		return time.Time{}
	}
	var notes []clinicaldoc.ProgressNote
	for bits := range 1 << 7 {
		has := func(bit int) bool { return bits&(1<<bit) != 0 }
		for _, state := range []*string{nil, new(""), new("synthetic failure")} {
			notes = append(notes, clinicaldoc.ProgressNote{
				ID: 7, ErrorState: state,
				Has:                      clinicaldoc.Completion{Transcription: has(0), Content: has(1), Signed: has(2)},
				TranscriptionStartedAt:   at(has(3)),
				TranscriptionCompletedAt: at(has(4)),
				AnalysisStartedAt:        at(has(5)),
				AnalysisCompletedAt:      at(has(6)),
			})
		}
	}
	return notes
}

func TestEveryCombinationHasAStage(t *testing.T) {
	t.Parallel()
	seen := map[clinicaldoc.Stage]int{}
	for _, n := range everyCombination() {
		stage := n.Stage()
		seen[stage]++
		transcribed := n.Has.Transcription || !n.TranscriptionCompletedAt.IsZero()
		analysed := n.Has.Content || !n.AnalysisCompletedAt.IsZero()
		begun := !n.TranscriptionStartedAt.IsZero() || !n.AnalysisStartedAt.IsZero()
		failed := n.ErrorState != nil && *n.ErrorState != ""
		assert.Equal(t, failed, stage == clinicaldoc.StageFailed, "failed beats all: %v", n)
		assert.Equal(t, !failed && n.Has.Signed, stage == clinicaldoc.StageSigned, "signed beats complete: %v", n)
		if failed || n.Has.Signed {
			continue
		}
		assert.Equal(t, transcribed && analysed, stage == clinicaldoc.StageComplete, "%v", n)
		assert.Equal(t, !transcribed && !analysed && !begun, stage == clinicaldoc.StageUploaded, "%v", n)
		if transcribed && !analysed {
			assert.Equal(t, !n.AnalysisStartedAt.IsZero(), stage == clinicaldoc.StageAnalysing, "started, not completed, is running: %v", n)
			assert.Equal(t, n.AnalysisStartedAt.IsZero(), stage == clinicaldoc.StageTranscribed, "%v", n)
		}
		if !transcribed && (analysed || begun) {
			assert.Equal(t, clinicaldoc.StageTranscribing, stage, "%v", n)
		}
	}
	for stage := clinicaldoc.StageUploaded; stage <= clinicaldoc.StageFailed; stage++ {
		assert.Positive(t, seen[stage], "%v", stage)
	}
	assert.Len(t, seen, int(clinicaldoc.StageFailed), "no note has another stage")
}

func TestStagesAreOrderedAndNamed(t *testing.T) {
	t.Parallel()
	names := []string{"unset", "uploaded", "transcribing", "transcribed", "analysing", "complete", "signed", "failed"}
	for i, name := range names {
		assert.Equal(t, name, clinicaldoc.Stage(i).String())
	}
	assert.Equal(t, "Stage(8)", clinicaldoc.Stage(8).String())
	assert.Equal(t, "Stage(-1)", clinicaldoc.Stage(-1).String())
	for s := clinicaldoc.StageUploaded; s <= clinicaldoc.StageFailed; s++ {
		for u := clinicaldoc.StageUploaded; u <= clinicaldoc.StageFailed; u++ {
			want := s >= u
			if s == clinicaldoc.StageFailed {
				want = u == clinicaldoc.StageFailed // a failed note has come nowhere else
			}
			assert.Equal(t, want, s.AtLeast(u), "%v at least %v", s, u)
		}
	}
}
