package clinicaldoc

import "strconv"

// Stage is how far the service has come with a note. Its values are ordered as the note's life, with room between them;
// the zero value means "not set", and a failed note's is negative, so that no comparison takes it for a finished one.
// Encoded as JSON or any other text it is its name, such as "complete".
type Stage int

// The stages of a note's life, in order. A failed note stays failed whatever else it carries.
const (
	StageUploaded     Stage = 10  // nothing has begun yet
	StageTranscribing Stage = 20  // transcription has begun
	StageTranscribed  Stage = 30  // transcription is complete
	StageAnalysing    Stage = 40  // analysis has begun
	StageComplete     Stage = 50  // transcription and analysis are complete; ready to be edited and signed
	StageSigned       Stage = 60  // reviewed and signed
	StageFailed       Stage = -10 // the service reports an error state
)

var stageNames = map[Stage]string{
	0: "unset", StageUploaded: "uploaded", StageTranscribing: "transcribing", StageTranscribed: "transcribed",
	StageAnalysing: "analysing", StageComplete: "complete", StageSigned: "signed", StageFailed: "failed",
}

// known reports whether s is one of the constants, or not set.
func (s Stage) known() bool { return stageNames[s] != "" }

// AtLeast reports whether a note in stage s has come as far as t. A failed one has come nowhere but to its failure.
func (s Stage) AtLeast(t Stage) bool {
	if s == StageFailed || t == StageFailed {
		return s == t
	}
	return s >= t
}

// Stage derives the note's stage from its flags, timestamps and error state: failed beats signed beats complete, and
// what has started but not completed is the running stage. A note with both texts whose service tells neither flags nor
// times is complete.
func (n ProgressNote) Stage() Stage {
	transcribed := n.Has.Transcription || !n.TranscriptionCompletedAt.IsZero()
	analysed := n.Has.Content || !n.AnalysisCompletedAt.IsZero()
	switch {
	case n.ErrorState != nil && *n.ErrorState != "":
		return StageFailed
	case n.Has.Signed:
		return StageSigned
	case transcribed && analysed, n.onlyTexts() && !n.unflagged:
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

// onlyTexts reports whether the note has both texts while no flag is set and no time is set.
func (n *ProgressNote) onlyTexts() bool {
	return n.Transcription != "" && n.Analysis != "" && n.Has == Completion{} &&
		n.TranscriptionStartedAt.IsZero() && n.TranscriptionCompletedAt.IsZero() && n.AnalysisStartedAt.IsZero() && n.AnalysisCompletedAt.IsZero()
}

// String returns the stage's name in lower case.
func (s Stage) String() string {
	if !s.known() {
		return "Stage(" + strconv.Itoa(int(s)) + ")"
	}
	return stageNames[s]
}

// MarshalText returns the stage's name, "unset" for zero. A value that is no stage is [ErrInvalidArgument].
func (s Stage) MarshalText() ([]byte, error) {
	if !s.known() {
		return nil, invalid("Stage", "%d is not a stage", int(s))
	}
	return []byte(stageNames[s]), nil
}

// UnmarshalText reads a stage's name; an empty text is zero. Any other text is [ErrInvalidArgument].
func (s *Stage) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*s = 0
		return nil
	}
	for stage, name := range stageNames {
		if name == string(text) {
			*s = stage
			return nil
		}
	}
	return invalid("Stage", "the text is not a stage's name")
}
