package clinicaldoctest

import (
	"cmp"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// Stage is the processing stage of a note.
type Stage string

// The stages of a note, in order. A note can fail while transcribing or analysing.
const (
	StageUploaded     Stage = "uploaded"
	StageTranscribing Stage = "transcribing"
	StageTranscribed  Stage = "transcribed"
	StageAnalysing    Stage = "analysing"
	StageComplete     Stage = "complete"
	StageFailed       Stage = "failed"
	StageSigned       Stage = "signed"
)

// Delays is how long a note stays in each stage of its processing.
type Delays struct {
	Uploaded     time.Duration // before transcription starts
	Transcribing time.Duration
	Transcribed  time.Duration // before analysis starts
	Analysing    time.Duration
}

// defaultDelays pass quickly, yet let a polling client see the stages.
var defaultDelays = Delays{
	Uploaded:     5 * time.Millisecond,
	Transcribing: 20 * time.Millisecond,
	Transcribed:  5 * time.Millisecond,
	Analysing:    20 * time.Millisecond,
}

// Script sets the result of processing one note. Empty texts are replaced by
// synthetic ones.
type Script struct {
	Transcription string
	Analysis      string
	// TranscriptionError ends processing while transcribing, with this error_state.
	TranscriptionError string
	// AnalysisError ends processing while analysing, with this error_state.
	AnalysisError string
}

// ScriptNext sets the scripts of the next notes that are created, in that order.
func (s *Server) ScriptNext(scripts ...Script) {
	st := s.state()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.scripts = append(st.scripts, scripts...)
}

// Advance moves the server's clock forward. This affects the processing of notes,
// the expiry of URLs and audio, and the window of the rate limit.
func (s *Server) Advance(d time.Duration) { s.state().clock.advance(d) }

// Now returns the server's time, which it uses for notes and for the Date header.
func (s *Server) Now() time.Time { return s.state().now() }

// clock is the process's clock plus what was advanced, or one that stands
// still until it is advanced. No goroutine ticks: every request asks it.
type clock struct {
	mu     sync.Mutex
	frozen time.Time // zero: running
	offset time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frozen.IsZero() {
		return time.Now().Add(c.offset).UTC()
	}
	return c.frozen.Add(c.offset).UTC()
}

func (c *clock) freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frozen.IsZero() {
		c.frozen = time.Now().Add(c.offset).UTC()
		c.offset = 0
	}
}

func (c *clock) unfreeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.frozen.IsZero() {
		c.offset = time.Until(c.frozen.Add(c.offset))
		c.frozen = time.Time{}
	}
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
}

// settled returns a copy of the note that has left every stage that is over by now. A text that is complete and still
// empty is filled in, unless it was edited. The copy is made whenever a note is read, so stages need neither timers nor
// goroutines.
func (n *note) settled(now time.Time, delays Delays) *note {
	settled := *n
	for !n.stuck {
		stay, passing := delays.of(settled.stage)
		end := settled.stageSince.Add(stay)
		if !passing || now.Before(end) {
			break
		}
		settled.leaveStage(end)
	}
	id := strconv.FormatInt(n.id, 10)
	if !settled.transcriptionCompleted.IsZero() && !settled.transcriptionEdited {
		settled.transcription = cmp.Or(settled.transcription, "Synthetic transcription of note "+id+".")
	}
	if !settled.analysisCompleted.IsZero() && !settled.analysisEdited {
		settled.analysis = cmp.Or(settled.analysis, "Synthetic analysis of note "+id+".")
	}
	return &settled
}

// of returns how long a stage lasts. It reports false for a stage that does not end by itself.
func (d Delays) of(stage Stage) (stay time.Duration, passing bool) {
	switch stage {
	case StageUploaded:
		return d.Uploaded, true
	case StageTranscribing:
		return d.Transcribing, true
	case StageTranscribed:
		return d.Transcribed, true
	case StageAnalysing:
		return d.Analysing, true
	default:
		return 0, false
	}
}

// leaveStage moves the note to the stage after its present one.
func (n *note) leaveStage(at time.Time) {
	script := n.script
	if script == nil {
		script = &Script{}
	}
	switch n.stage {
	case StageUploaded:
		n.transcriptionStarted = at
		n.stage = StageTranscribing
	case StageTranscribing:
		if script.TranscriptionError != "" {
			n.fail(script.TranscriptionError)
			break
		}
		n.transcriptionCompleted = at
		n.stage = StageTranscribed
		if !n.transcriptionEdited { // a clinician's words outrank the machine's
			n.transcription = script.Transcription
		}
	case StageTranscribed:
		n.analysisStarted = at
		n.stage = StageAnalysing
	case StageAnalysing:
		if script.AnalysisError != "" {
			n.fail(script.AnalysisError)
			break
		}
		n.analysisCompleted = at
		n.stage = StageComplete
		if !n.analysisEdited {
			n.analysis = script.Analysis
		}
	default: // the others are not left by themselves
		return
	}
	n.stageSince = at
	n.updatedAt = at
}

func (n *note) fail(errorState string) {
	n.stage = StageFailed
	n.errorState = errorState
}

// enter takes a seeded note to a stage, as if it had just arrived there. A note that failed has failed in the analysis
// if it has a transcription, and otherwise in the transcription.
func (n *note) enter(stage Stage, at time.Time) error {
	switch stage {
	case StageFailed:
		failedIn := StageTranscribing
		hasTranscription := n.script != nil && n.script.Transcription != ""
		if hasTranscription {
			failedIn = StageAnalysing
		}
		if err := n.enter(failedIn, at); err != nil {
			return err
		}
		n.fail(cmp.Or(n.errorState, "processing failed"))
		return nil
	case StageSigned:
		if err := n.enter(StageComplete, at); err != nil {
			return err
		}
		n.stage = StageSigned
		return nil
	case StageUploaded, StageTranscribing, StageTranscribed, StageAnalysing, StageComplete:
		for n.stage != stage {
			n.leaveStage(at)
		}
		return nil
	}
	return fmt.Errorf("unknown stage %q", stage)
}
