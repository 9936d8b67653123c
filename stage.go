package clinicaldoc

import "strconv"

// Stage is how far the service has come with a note. Its values are ordered; the zero value means "not set".
type Stage int

// The stages of a note's life, in order. A failed note stays failed whatever else it carries.
const (
	StageUploaded     Stage = iota + 1 // nothing has begun yet
	StageTranscribing                  // transcription has begun
	StageTranscribed                   // transcription is complete
	StageAnalysing                     // analysis has begun
	StageComplete                      // transcription and analysis are complete; ready to be edited and signed
	StageSigned                        // reviewed and signed
	StageFailed                        // the service reports an error state
)

var stageNames = [...]string{"unset", "uploaded", "transcribing", "transcribed", "analysing", "complete", "signed", "failed"}

// String returns the stage's name in lower case.
func (s Stage) String() string {
	if s < 0 || int(s) >= len(stageNames) {
		return "Stage(" + strconv.Itoa(int(s)) + ")"
	}
	return stageNames[s]
}

// AtLeast reports whether a note in stage s has come as far as t. A failed one has come nowhere but to its failure.
func (s Stage) AtLeast(t Stage) bool {
	return s >= t && (s != StageFailed || t == StageFailed)
}

// Stage derives the note's stage from its flags, timestamps and error state: failed beats signed beats complete, and
// what has started but not completed is the running stage.
func (n ProgressNote) Stage() Stage {
	transcribed := n.Has.Transcription || !n.TranscriptionCompletedAt.IsZero()
	analysed := n.Has.Content || !n.AnalysisCompletedAt.IsZero()
	switch {
	case n.ErrorState != nil && *n.ErrorState != "":
		return StageFailed
	case n.Has.Signed:
		return StageSigned
	case transcribed && analysed:
		return StageComplete
	case transcribed && !n.AnalysisStartedAt.IsZero():
		return StageAnalysing
	case transcribed:
		return StageTranscribed
	case !n.TranscriptionStartedAt.IsZero(), analysed, !n.AnalysisStartedAt.IsZero():
		return StageTranscribing
	}
	return StageUploaded
}
