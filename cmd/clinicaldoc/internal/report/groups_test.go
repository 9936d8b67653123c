package report_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/report"
)

// aNight is an upload in which equal things became of many recordings.
func aNight() report.Run {
	at := time.Date(2026, 11, 18, 3, 0, 0, 0, time.UTC)
	run := report.Run{
		ID: "20261118T030000.000Z-test", Began: at, Ended: at.Add(time.Hour), Total: 355, Code: 7,
		Counts: report.Counts{report.Complete: 1, report.Processing: 350, report.Unresolved: 2, report.Refused: 2},
	}
	add := func(status, why, do string, note int64) {
		key := fmt.Sprintf("%012x", len(run.Recordings)+1)
		run.Recordings = append(run.Recordings, report.Recording{
			Key: key, Position: len(run.Recordings) + 1, At: at, Status: status, NoteID: note, Error: why,
			Do: strings.ReplaceAll(do, "%s", key), File: "/share/" + key + ".wav",
		})
	}
	add(report.Complete, "", "", 1)
	for i := range 350 {
		add(report.Processing, "the run ended first", "run the command again", int64(i+2))
	}
	add(report.Unresolved, "POST /v1/progress-notes: no response (request id a)", `"clinicaldoc upload resolve %s"`, 0)
	add(report.Unresolved, "POST /v1/progress-notes: no response (request id b)", `"clinicaldoc upload resolve %s"`, 0)
	add(report.Refused, "POST /v1/progress-notes: 422 Unprocessable Content (request id c)", "correct it", 0)
	add(report.Refused, "the recording is empty", "look at the file", 0)
	return run
}

// Recordings that need the same step for the same reason are one group. The groups that need a person most come first.
func TestGroups_EqualRecordings_AreListedTogether(t *testing.T) {
	t.Parallel()
	groups := aNight().Groups()
	var titles []string
	for _, g := range groups {
		titles = append(titles, g.Title())
	}
	assert.Equal(t, []string{
		"2 recordings are unresolved: they may or may not have a note",
		"1 recording was refused: it has no note",
		"1 recording was refused: it has no note",
		"350 recordings are processing: their notes are not complete yet",
	}, titles)
	assert.Equal(t, `"clinicaldoc upload resolve KEY"`, groups[0].Do)
	assert.Equal(t, "somebody who may read the patients' notes", groups[0].By)
	assert.Equal(t, "whoever runs the uploads", groups[1].By)
	assert.Equal(t, "no response", groups[0].Why, "routes and ids of requests do not divide a group")
	assert.Equal(t, []string{"000000000160", "000000000161"}, groups[0].Keys)
	assert.Equal(t, "422 Unprocessable Content", groups[1].Why)
	assert.Len(t, groups[3].First(), 10)
	assert.Len(t, groups[3].Rest(), 340)
	assert.Len(t, groups[3].Keys, 350)
}

// Notes to compare differ for each recording, and stand with it.
func TestGroups_OtherCandidates_StayTogether(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"", ` and decide: "clinicaldoc upload resolve"`} {
		why := "it is not known (clinicaldoc: GET /v1/x: 403 Forbidden); " +
			"compare it with note %d of 2026-11-18T06:56:34Z, note 9" + end
		run := report.Run{Recordings: []report.Recording{
			{Key: "a", Status: report.Unresolved, Error: fmt.Sprintf(why, 4)},
			{Key: "b", Status: report.Unresolved, Error: fmt.Sprintf(why, 5)},
		}}
		groups := run.Groups()
		require.Len(t, groups, 1)
		assert.Equal(t, "it is not known (403 Forbidden)", groups[0].Why)
	}
}

// The time from which on a recording can be decided is shown until then.
func TestRecording_BeforeUntil_CanBeDecidedLater(t *testing.T) {
	t.Parallel()
	until := time.Now().Add(time.Hour)
	assert.Equal(t, "can be decided from "+report.Clock(until)+" on", report.Recording{Until: until}.TooEarly())
	assert.Empty(t, report.Recording{Until: time.Now().Add(-time.Minute)}.TooEarly())
	assert.Empty(t, report.Recording{}.TooEarly())
}

// A group of one names its own key.
func TestGroups_OneRecording_KeepsItsKey(t *testing.T) {
	t.Parallel()
	run := report.Run{Recordings: []report.Recording{{Key: "0a1b", Status: report.Failed, Do: `"resolve 0a1b"`}}}
	assert.Equal(t, `"resolve 0a1b"`, run.Groups()[0].Do)
	assert.Equal(t, "1 recording failed: it has a note that cannot be used, or none", run.Groups()[0].Title())
}

// Recordings with different messages of the service are different groups, because a person acts on the message.
func TestGroups_OtherWordsOfTheService_DivideThem(t *testing.T) {
	t.Parallel()
	run := report.Run{Recordings: []report.Recording{
		{Key: "a", Status: report.Failed, Words: "no speech"}, {Key: "b", Status: report.Failed, Words: "too noisy"},
		{Key: "c", Status: report.Failed, Words: "no speech"},
	}}
	groups := run.Groups()
	require.Len(t, groups, 2)
	assert.Equal(t, []string{"a", "c"}, groups[0].Keys)
	assert.Len(t, run.Hidden().Groups(), 1)
}

// A recording of an earlier upload is not counted among those of this one.
func TestGroups_EarlierUpload_HasItsOwn(t *testing.T) {
	t.Parallel()
	run := report.Run{
		Recordings: []report.Recording{{Key: "a", Status: report.Failed}},
		Followed:   []report.Recording{{Key: "b", Status: report.Failed}},
	}
	var titles []string
	for _, g := range run.Groups() {
		titles = append(titles, g.Title())
	}
	const failed = "1 recording failed: it has a note that cannot be used, or none"
	assert.Equal(t, []string{failed, "Of earlier uploads: " + failed}, titles)
}

func TestText_ManyRecordings_IsReadInAMinute(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	report.Text(&text, aNight().Hidden(), false)
	said := text.String()
	assert.Less(t, strings.Count(said, "\n"), 50)
	assert.Contains(t, said,
		"\n1 of 355 encounters is complete; 350 are processing, 2 are unresolved, 2 were refused.\n")
	assert.Contains(t, said, "\nWhat to do now\n  Whoever runs the uploads: run the same upload again later: ")
	assert.Contains(t, said, "\n  Whoever runs the uploads: 1 recording was refused: look at the file.\n")
	assert.Contains(t, said,
		"\n  Somebody who may read the patients' notes: decide about the 2 recordings that are unresolved")
	assert.Contains(t, said, "\n    and 340 more; --json lists all, --reveal shows files\n")
	assert.Equal(t, 1, strings.Count(said, "the run ended first"))
	assert.NotContains(t, said, "POST")
	assert.NotContains(t, said, "/share/")
}

// What is only processing needs no decision, so its long list is not printed on paper.
func TestHTML_LongGroups_ArePrintedIfSomebodyDecides(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]bool{report.Processing: false, report.Failed: true, report.Unresolved: true} {
		var page strings.Builder
		run := report.Run{Recordings: slices.Repeat([]report.Recording{{Key: "a", Status: status}}, 11)}
		require.NoError(t, report.HTML(&page, []report.Run{run}))
		assert.Contains(t, page.String(), "<summary>and 1 more</summary>")
		assert.Equal(t, want, strings.Contains(page.String(), `<details class="paper">`), status)
	}
}

// A program gets the same summary, with all keys, and all recordings.
func TestSummary_JSON_KeepsAll(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(aNight().Hidden().Summarized())
	require.NoError(t, err)
	var read struct {
		Summary struct {
			Headline string
			Next     []struct{ By, Do string }
			Groups   []struct {
				Count    int
				Status   string
				By, Do   string
				Keys     []string
				Wrong    string `json:"why"`
				Unwanted any    `json:"recordings"`
			}
		}
		Recordings []struct{ Key string }
	}
	require.NoError(t, json.Unmarshal(text, &read))
	assert.Len(t, read.Recordings, 355)
	assert.Len(t, read.Summary.Next, 4)
	require.Len(t, read.Summary.Groups, 4)
	processing := read.Summary.Groups[3]
	assert.Equal(t, 350, processing.Count)
	assert.Len(t, processing.Keys, 350)
	assert.Equal(t, "whoever runs the uploads", processing.By)
	assert.Nil(t, processing.Unwanted)
}

func TestSteps_EachOutcome_SaysWhoDoesWhat(t *testing.T) {
	t.Parallel()
	ended := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	for name, one := range map[string]struct {
		run  report.Run
		want []string
	}{
		"done": {report.Run{Ended: ended, Total: 1, Counts: report.Counts{report.Complete: 1}}, nil},
		"not logged in": {
			report.Run{Ended: ended, Code: 4, Total: 3, Reason: "nobody has logged in", Do: "clinicaldoc login URL"},
			[]string{`Whoever runs the uploads: run "clinicaldoc login URL", then run the same upload again`},
		},
		"running": {report.Run{Running: true, Total: 3}, nil},
		"the report could not be written": {
			report.Run{Empty: true},
			[]string{
				"Whoever runs the uploads: make room on the disk, and run the same upload again: " +
					"what is done is not sent twice",
			},
		},
		"killed": {
			report.Run{Total: 3},
			[]string{
				`Whoever runs the uploads: run the same upload again, or "clinicaldoc upload retry": ` +
					"what is done is not sent twice",
			},
		},
		"one failed": {
			report.Run{
				Ended: ended, Code: 9, Total: 1, Counts: report.Counts{report.Failed: 1}, Do: "keep their files",
				Recordings: []report.Recording{{Key: "a", Status: report.Failed}},
			},
			[]string{
				"Somebody who may read the patients' notes: decide whether the failed recording is sent again, as described below",
			},
		},
		"one of this upload and one of an earlier one failed": {
			report.Run{
				Ended: ended, Code: 9, Total: 1, Counts: report.Counts{report.Failed: 1},
				Recordings: []report.Recording{{Key: "a", Status: report.Failed}},
				Followed:   []report.Recording{{Key: "b", Status: report.Failed}},
			},
			[]string{
				"Somebody who may read the patients' notes: decide whether the 2 failed recordings are sent again, " +
					"as described below",
			},
		},
		"one is processing, as is one of an earlier upload": {
			report.Run{
				Ended: ended, Code: 8, Total: 1, Counts: report.Counts{report.Processing: 1}, Do: "wait",
				Recordings: []report.Recording{{Key: "a", Status: report.Processing}},
				Followed:   []report.Recording{{Key: "b", Status: report.Processing}},
			},
			[]string{
				"Whoever runs the uploads: run the same upload again later: it checks the notes again, " +
					"and sends nothing twice",
			},
		},
		"as many are processing as are unresolved": {
			report.Run{
				Ended: ended, Code: 7, Total: 2, Counts: report.Counts{report.Processing: 1, report.Unresolved: 1},
				Recordings: []report.Recording{{Key: "a", Status: report.Processing}, {Key: "b", Status: report.Unresolved}},
			},
			[]string{
				"Whoever runs the uploads: run the same upload again later: it checks the notes again, " +
					"and sends nothing twice",
				"Somebody who may read the patients' notes: decide about the recording that is unresolved, " +
					"if the next upload does not find its note; see below",
			},
		},
		"no recording needs anybody": {
			report.Run{Ended: ended, Code: 1, Total: 1, Counts: report.Counts{report.Complete: 1}, Do: "make room"},
			[]string{"Whoever runs the uploads: make room"},
		},
		"the service was down": {
			report.Run{
				Ended: ended, Code: 7, Total: 2, Counts: report.Counts{report.Unresolved: 1}, Do: "run the command again later",
				Reason:     "the service was failing",
				Recordings: []report.Recording{{Key: "a", Status: report.Unresolved}},
			},
			[]string{
				"Whoever runs the uploads: run the command again later",
				"Somebody who may read the patients' notes: decide about the recording that is unresolved, " +
					"if the next upload does not find its note; see below",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var steps []string
			for _, step := range one.run.Steps() {
				steps = append(steps, step.String())
			}
			assert.Equal(t, one.want, steps)
		})
	}
}

// Recordings that were refused for the reason that ended the upload are not a further step.
func TestSteps_OneCause_IsOneStep(t *testing.T) {
	t.Parallel()
	run := report.Run{
		Ended: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC), Code: 1, Total: 2, Counts: report.Counts{report.Refused: 1},
		Reason: "the disk is full", Do: "make room",
		Recordings: []report.Recording{{Key: "a", Status: report.Refused, Do: "make room"}},
	}
	assert.Equal(t, []report.Step{{By: "whoever runs the uploads", Do: "make room"}}, run.Steps())
}

// The report of a later version may contain an unknown status, and texts may begin with any character.
func TestText_UnknownStatus_IsShownSafely(t *testing.T) {
	t.Parallel()
	run := report.Run{Recordings: []report.Recording{{Key: "a", Status: "archived"}}}
	assert.Equal(t, "1 recording: archived", run.Groups()[0].Title())
	assert.Equal(t, "Élan.", report.Sentence("élan"))
}
