package clinicaldoc_test

import (
	"encoding/json"
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// stages are the stages of a note's life, in order, with their names.
var stages = []struct {
	stage clinicaldoc.Stage
	name  string
}{
	{clinicaldoc.StageUploaded, "uploaded"},
	{clinicaldoc.StageTranscribing, "transcribing"},
	{clinicaldoc.StageTranscribed, "transcribed"},
	{clinicaldoc.StageAnalysing, "analysing"},
	{clinicaldoc.StageComplete, "complete"},
	{clinicaldoc.StageSigned, "signed"},
}

// stageTable says which stage a note is in, by what it carries: 1 there, 0 not there, * either. In order: the error state;
// the flags signed, transcription and content; the times transcription completed and analysis completed, then
// transcription started and analysis started; both texts.
var stageTable = map[string]clinicaldoc.Stage{
	"1 *** ** ** *": clinicaldoc.StageFailed,
	"0 1** ** ** *": clinicaldoc.StageSigned,
	// Transcription and analysis are both complete, each by its flag or its time.
	"0 011 ** ** *": clinicaldoc.StageComplete,
	"0 010 *1 ** *": clinicaldoc.StageComplete,
	"0 001 1* ** *": clinicaldoc.StageComplete,
	"0 000 11 ** *": clinicaldoc.StageComplete,
	// Only the transcription is.
	"0 010 *0 *1 *": clinicaldoc.StageAnalysing,
	"0 000 10 *1 *": clinicaldoc.StageAnalysing,
	"0 010 *0 *0 *": clinicaldoc.StageTranscribed,
	"0 000 10 *0 *": clinicaldoc.StageTranscribed,
	// It is not, although something has begun, or even come to its end.
	"0 001 0* ** *": clinicaldoc.StageTranscribing,
	"0 000 01 ** *": clinicaldoc.StageTranscribing,
	"0 000 00 1* *": clinicaldoc.StageTranscribing,
	"0 000 00 01 *": clinicaldoc.StageTranscribing,
	// Neither a flag nor a time tells of anything.
	"0 000 00 00 1": clinicaldoc.StageComplete,
	"0 000 00 00 0": clinicaldoc.StageUploaded,
}

func TestEveryCombinationHasAStage(t *testing.T) {
	t.Parallel()
	at := map[byte]time.Time{'1': moment(1, 0)}
	text := map[byte]string{'1': "Synthetic words."}
	for combination := range combinations("* *** ** ** *") {
		note := clinicaldoc.ProgressNote{
			ID:                       7,
			Has:                      clinicaldoc.Completion{Signed: combination[2] == '1', Transcription: combination[3] == '1', Content: combination[4] == '1'},
			TranscriptionCompletedAt: at[combination[6]], AnalysisCompletedAt: at[combination[7]],
			TranscriptionStartedAt: at[combination[9]], AnalysisStartedAt: at[combination[10]],
			Transcription: text[combination[12]], Analysis: text[combination[12]],
		}
		var want []clinicaldoc.Stage
		for pattern, stage := range stageTable {
			for covered := range combinations(pattern) {
				if covered == combination {
					want = append(want, stage)
				}
			}
		}
		require.Len(t, want, 1, "the table knows each combination once: %s", combination)
		for _, state := range map[byte][]*string{'0': {nil, new("")}, '1': {new("synthetic failure")}}[combination[0]] {
			note.ErrorState = state
			assert.Equal(t, want[0], note.Stage(), combination)
		}
	}
}

// combinations yields a pattern with every choice of 0 and 1 for its stars.
func combinations(pattern string) map[string]bool {
	all := map[string]bool{"": true}
	for _, c := range pattern {
		longer := map[string]bool{}
		for start := range all {
			if c != '*' {
				longer[start+string(c)] = true
				continue
			}
			longer[start+"0"], longer[start+"1"] = true, true
		}
		all = longer
	}
	return all
}

// A service may tell neither flags nor times. Where it does tell a flag, that counts and not the texts.
func TestTextsAloneMakeANoteComplete(t *testing.T) {
	t.Parallel()
	const both = `"transcription":"Synthetic words.","analysis":"Synthetic analysis."`
	for fields, want := range map[string]clinicaldoc.Stage{
		both:                                    clinicaldoc.StageComplete,
		both + `,"has":null`:                    clinicaldoc.StageComplete,
		both + `,"has":[]`:                      clinicaldoc.StageComplete,
		both + `,"has":{}`:                      clinicaldoc.StageComplete,
		both + `,"has":{"other":false}`:         clinicaldoc.StageComplete,
		both + `,"has":{"content":null}`:        clinicaldoc.StageComplete,
		both + `,"error_state":"synthetic"`:     clinicaldoc.StageFailed,
		both + `,"has":{"content":false}`:       clinicaldoc.StageUploaded,
		both + `,"has":{"signed":0}`:            clinicaldoc.StageUploaded,
		`"has":{"transcription":false},` + both: clinicaldoc.StageUploaded,
		both + `,"has":{"content":false,"transcription":false,"signed":false}`:    clinicaldoc.StageUploaded,
		both + `,"has":{"content":"unreadable"}`:                                  clinicaldoc.StageUploaded,
		both + `,"has":{"transcription":true}`:                                    clinicaldoc.StageTranscribed,
		both + `,"transcription_started_at":"2024-05-01T10:11:12Z"`:               clinicaldoc.StageTranscribing,
		both + `,"has":{"content":false},"analysis_started_at":"2024-05-01"`:      clinicaldoc.StageTranscribing,
		`"transcription":"Synthetic words."`:                                      clinicaldoc.StageUploaded,
		`"analysis":"Synthetic analysis."`:                                        clinicaldoc.StageUploaded,
		`"transcription":"","analysis":"Synthetic analysis."`:                     clinicaldoc.StageUploaded,
		`"transcription":"Synthetic words.","analysis":"","has":{"content":true}`: clinicaldoc.StageTranscribing,
	} {
		note, err := get(t, withField(fields))
		require.NoError(t, err)
		assert.Equal(t, want, note.Stage(), fields)
		assertRoundTrip(t, *note)
		stored, err := json.Marshal(note)
		require.NoError(t, err)
		var back clinicaldoc.ProgressNote
		require.NoError(t, json.Unmarshal(stored, &back))
		assert.Equal(t, want, back.Stage(), "a stored note keeps its stage: %s", stored)
	}
}

func TestStagesAreOrderedAndFailureIsNoEnd(t *testing.T) {
	t.Parallel()
	for i, s := range stages {
		for j, u := range stages {
			assert.Equal(t, i >= j, s.stage.AtLeast(u.stage), "%v at least %v", s, u)
		}
		assert.True(t, s.stage.AtLeast(0))
		assert.False(t, clinicaldoc.StageFailed.AtLeast(s.stage), "a failed note has come nowhere else")
		assert.False(t, s.stage.AtLeast(clinicaldoc.StageFailed))
		assert.Less(t, clinicaldoc.StageFailed, s.stage, "no comparison takes a failed note for a finished one")
		if i > 0 {
			assert.Greater(t, s.stage, stages[i-1].stage+1, "room for a stage in between")
		}
	}
	assert.True(t, clinicaldoc.StageFailed.AtLeast(clinicaldoc.StageFailed))
	assert.False(t, clinicaldoc.StageFailed.AtLeast(0))
	assert.Negative(t, clinicaldoc.StageFailed)
	assert.Positive(t, clinicaldoc.StageUploaded-1, "room before the first")
}

func TestStagesAreTexts(t *testing.T) {
	t.Parallel()
	type stored struct {
		Stage  clinicaldoc.Stage         `json:"stage"`
		Counts map[clinicaldoc.Stage]int `json:"counts,omitempty"`
	}
	for _, s := range append(stages, stages[0], struct {
		stage clinicaldoc.Stage
		name  string
	}{clinicaldoc.StageFailed, "failed"}, struct {
		stage clinicaldoc.Stage
		name  string
	}{0, "unset"}) {
		assert.Equal(t, s.name, s.stage.String())
		value := stored{s.stage, map[clinicaldoc.Stage]int{s.stage: 1}}
		encoded, err := json.Marshal(value)
		require.NoError(t, err)
		assert.JSONEq(t, `{"stage":"`+s.name+`","counts":{"`+s.name+`":1}}`, string(encoded))
		var back stored
		require.NoError(t, json.Unmarshal(encoded, &back))
		assert.Equal(t, value, back)
	}
	var until clinicaldoc.Stage
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	flags.TextVar(&until, "until", clinicaldoc.StageComplete, "")
	require.NoError(t, flags.Parse([]string{"-until=signed"}))
	assert.Equal(t, clinicaldoc.StageSigned, until)

	require.NoError(t, until.UnmarshalText(nil))
	assert.Zero(t, until)
	until = clinicaldoc.StageSigned
	for _, text := range []string{"secret", "Complete", "5", "Stage(5)"} {
		err := until.UnmarshalText([]byte(text))
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
		assert.NotContains(t, err.Error(), "secret")
		assert.Equal(t, clinicaldoc.StageSigned, until, "stays as it was")
	}
	for _, unknown := range []clinicaldoc.Stage{1, clinicaldoc.StageComplete + 1, -1} {
		_, err := unknown.MarshalText()
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
	}
	assert.Equal(t, "Stage(1)", clinicaldoc.Stage(1).String())
	assert.Equal(t, "Stage(-1)", clinicaldoc.Stage(-1).String())
}
