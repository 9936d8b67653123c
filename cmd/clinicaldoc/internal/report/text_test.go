package report_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/report"
)

// tenFiles are the lines of as many files as a report names.
var tenFiles = strings.Repeat("    file\n", 10)

// textOfEverything is the text of a run that has something in every part.
var textOfEverything = `Upload of CLOCK, ended CLOCK

0 of 15 encounters are complete; 2 are unresolved, 1 was refused, 12 were not sent; 12 files or folders were left out.
The service was failing.

What to do now
  Whoever runs the uploads: run it again.
  Whoever runs the uploads: 1 recording was refused: correct it.
  Somebody who may read the patients' notes: decide about the 2 recordings that are unresolved, ` +
	`if the next upload does not find their notes; see below.

2 recordings are unresolved: they may or may not have a note.
    a  recording 3  CLOCK  perhaps note 5  a.wav  patient 7
      can be decided from LATER on
      compare with note 5
    b  CLOCK

1 recording was refused: it has no note.
  service   invalid
  field     prompt_id: no prompt
  do        correct it
    c  CLOCK  note 6

Left out
  12 files or folders: no recording
` + tenFiles + `    and 2 more; --json lists all

12 recordings were not sent
    and 2 more; --json lists all

Pauses
  CLOCK  paused, because every upload failed in the same way: no response
  CLOCK  went on

Earlier uploads that still need action
  CLOCK  One failed. See "clinicaldoc upload report run-0".

Details
  service   https://service.example
  journal   uploads.journal
  command   clinicaldoc upload visits
  folder    /share
  report    run-1
  error     the upload failed

`

// A report shows what there is, and has no title for a part without content.
func TestText_EachPart_IsShownIfThereIsOne(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 18, 3, 0, 0, 0, time.UTC)
	later := time.Now().Add(time.Hour)
	everything := report.Run{
		ID: "run-1", Began: at, Ended: at, Total: 15, Code: 7,
		Reason: "the service was failing", Do: "run it again", Error: "the upload failed",
		Service: "https://service.example", Journal: "uploads.journal",
		Command: "clinicaldoc upload visits", Folder: "/share",
		Counts: report.Counts{report.Unresolved: 2, report.Refused: 1},
		Recordings: []report.Recording{
			{
				Key: "a", Position: 3, At: at, Status: report.Unresolved, NoteID: 5, File: "a.wav", Patient: 7, Until: later,
				Candidates: []report.Candidate{{NoteID: 5}},
			},
			{Key: "b", At: at, Status: report.Unresolved},
			{
				Key: "c", At: at, Status: report.Refused, NoteID: 6, Words: "invalid", Do: "correct it",
				Fields: map[string][]string{"prompt_id": {"no prompt"}},
			},
		},
		LeftOut:    slices.Repeat([]report.LeftOut{{Reason: "no recording", File: "file"}}, 12),
		Unfinished: make([]report.Recording, 12),
		Pauses:     []report.Pause{{At: at, Why: "POST /v1/progress-notes: no response"}, {At: at}},
		Earlier:    []report.Earlier{{ID: "run-0", Began: at, How: "one failed"}},
	}
	done := report.Run{
		Began: at, Ended: at, Total: 1, Counts: report.Counts{report.Complete: 1},
		Recordings: []report.Recording{{Key: "a", Status: report.Complete}},
	}
	withGap := done
	withGap.Recordings = nil
	for name, one := range map[string]struct {
		run  report.Run
		want string
	}{
		"everything": {everything, textOfEverything},
		"done": {done, `Upload of CLOCK, ended CLOCK

All done: 1 encounter is complete.
There is nothing to do about this upload.
`},
		"results that could not be written": {withGap, `Upload of CLOCK, ended CLOCK

All done: 1 encounter is complete.
The results of 1 recording could not be written to this report. ` +
			`The journal has them: "clinicaldoc upload status --json" lists what is unresolved or failed.
There is nothing to do about this upload.
`},
		"running": {report.Run{
			Began: at, Running: true, Total: 2, Unfinished: []report.Recording{{File: "a.wav"}, {File: "b.wav"}},
		}, `Upload of CLOCK

The upload is still running. 2 encounters have no result.

2 recordings have no result
    a.wav
    b.wav
`},
		"left out, without names": {report.Run{
			Began: at, Ended: at, Fleet: true, LeftOut: slices.Repeat([]report.LeftOut{{Reason: "no recording"}}, 12),
		}, `Upload of CLOCK, ended CLOCK

All done.
There is nothing to do about this upload.

Left out
  12 files or folders: no recording
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var text strings.Builder
			report.Text(&text, one.run, true)
			said := strings.NewReplacer(report.Clock(at), "CLOCK", report.Clock(later), "LATER").Replace(text.String())
			assert.Equal(t, one.want, strings.TrimSuffix(said, "\nDetails\n\n"))
		})
	}
}

func TestWhy_NothingWasSent_IsTheError(t *testing.T) {
	t.Parallel()
	const text = "POST /v1/progress-notes: no response (request id a)"
	for name, one := range map[string]struct {
		run  report.Run
		want string
	}{
		"nothing was sent":         {report.Run{Code: 4, Error: text}, "no response"},
		"a reason for people":      {report.Run{Code: 4, Error: text, Reason: "the disk is full"}, "the disk is full"},
		"no mistake":               {report.Run{Error: text}, ""},
		"a recording has an error": {report.Run{Code: 5, Error: text, Counts: report.Counts{report.Refused: 1}}, ""},
		"one of an earlier upload": {report.Run{Code: 9, Error: text, Followed: make([]report.Recording, 1)}, ""},
		"one was left out":         {report.Run{Code: 9, Error: text, LeftOut: make([]report.LeftOut, 1)}, ""},
		"one has an error, and one is of an earlier upload": {
			report.Run{
				Code: 9, Error: text, Counts: report.Counts{report.Refused: 1}, Followed: make([]report.Recording, 1),
			}, "",
		},
		"one of an earlier upload, and one left out": {
			report.Run{Code: 9, Error: text, Followed: make([]report.Recording, 1), LeftOut: make([]report.LeftOut, 1)}, "",
		},
	} {
		assert.Equal(t, one.want, one.run.Why(), name)
	}
}
