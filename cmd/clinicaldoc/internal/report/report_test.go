package report_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/report"
)

func TestRead_RunCutOff_IsRead(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	w := report.Begin(folder, "v1")
	w.Run.Total = 3
	w.Update()
	w.Add(report.Recording{Key: "a", Status: report.Created, File: "/canary"})
	runs, err := report.List(folder, "")
	require.NoError(t, err)
	require.Len(t, runs, 1)
	assert.Equal(t, "The upload is still running. 1 of 3 encounters has a note; 2 have no result", runs[0].Outcome())

	path := filepath.Join(folder, w.Run.ID+".jsonl")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	cut := filepath.Join(folder, "20010101T000000.000Z-cut.jsonl")
	require.NoError(t, os.WriteFile(cut, append(text, `{"recording":{"key":"b","st`...), 0o600))
	run, err := report.Read(cut)
	require.NoError(t, err)
	assert.True(t, run.CutOff())
	assert.Equal(t, 2, run.Left())
	assert.Equal(t, "/canary", run.Recordings[0].File)
	assert.Empty(t, run.Hidden().Recordings[0].File)
	again, err := report.Read(cut)
	require.NoError(t, err)
	assert.Equal(t, run, again, "reading changes nothing")
	if runtime.GOOS != "windows" {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	require.NoError(t, w.Close())
}

// The lines of a run stand among those that it lists.
func TestRead_RunEnded_HasEachList(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	w := report.Begin(folder, "v1")
	w.AddLeftOut(report.LeftOut{Reason: "no recording"})
	w.AddPause(report.Pause{Why: "no response"})
	w.Add(report.Recording{Key: "a", Status: report.Created})
	w.AddFollowed(report.Recording{Key: "b", Status: report.Failed})
	require.NoError(t, w.Close())
	runs, err := report.List(folder, "")
	require.NoError(t, err)
	require.Len(t, runs, 1)
	assert.Equal(t, []report.LeftOut{{Reason: "no recording"}}, runs[0].LeftOut)
	assert.Equal(t, []report.Pause{{Why: "no response"}}, runs[0].Pauses)
	assert.Equal(t, []report.Recording{{Key: "a", Status: report.Created}}, runs[0].Recordings)
	assert.Equal(t, []report.Recording{{Key: "b", Status: report.Failed}}, runs[0].Followed)
}

func TestBegin_ManyReports_OldestAreRemoved(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	id := func(i int) string { return fmt.Sprintf("20260301T090000.%03dZ-test", i) }
	for i := range 205 {
		require.NoError(t, os.WriteFile(filepath.Join(folder, id(i)+".jsonl"), []byte("{}"), 0o600))
	}
	w := report.Begin(folder, "v1")
	require.NoError(t, w.Close())
	runs, err := report.List(folder, "all")
	require.NoError(t, err)
	var ids []string
	for _, run := range runs {
		ids = append(ids, run.ID)
	}
	require.Len(t, ids, 200)
	assert.Equal(t, []string{id(6), id(204), w.Run.ID}, []string{ids[0], ids[198], ids[199]})
}

func TestList_EachSelector_NamesItsRuns(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	runs, err := report.List(folder, "")
	require.NoError(t, err)
	assert.Empty(t, runs)

	began := time.Date(2026, 3, 1, 9, 0, 0, 0, time.Local) //nolint:gosmopolitan // a day is one of this machine's
	name := func(began time.Time) string { return began.UTC().Format("20060102T150405.000Z") + "-test" }
	last := began.AddDate(0, 0, 1)
	for _, file := range []string{"other.jsonl", name(began) + ".jsonl", name(last) + ".jsonl", name(last) + ".txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, file), []byte("{}"), 0o600))
	}
	for which, want := range map[string][]string{
		"":                {name(last)},
		"all":             {name(began), name(last)},
		"2026-03-01":      {name(began)},
		"2026-03-03":      nil,
		name(began)[:19]:  {name(began)},
		name(last):        {name(last)},
		"other":           nil,
		"2026-03-01T0900": nil,
	} {
		runs, err := report.List(folder, which)
		require.NoError(t, err)
		var ids []string
		for _, run := range runs {
			ids = append(ids, run.ID)
		}
		assert.Equal(t, want, ids, which)
	}
}

func TestClose_ReportNotWritten_IsAnError(t *testing.T) {
	t.Parallel()
	w := report.Begin(filepath.Join(t.TempDir(), "nowhere"), "v1")
	w.Add(report.Recording{Key: "a"})
	assert.Error(t, w.Close())
}

func TestHTML_HostileTexts_RunNothing(t *testing.T) {
	t.Parallel()
	var page strings.Builder
	require.NoError(t, report.HTML(&page, []report.Run{{ID: "x", Total: 1, Code: 5, Counts: report.Counts{report.Refused: 1}, Error: "<script>alert(1)</script>", Recordings: []report.Recording{{Key: "a", Status: report.Refused, Error: "<b>", File: "f\"><img src=x>"}}}}))
	assert.NotContains(t, page.String(), "<script")
	assert.NotContains(t, page.String(), "<img")
	assert.NotRegexp(t, `(src|href)="(https?:)?//`, page.String())
	assert.Contains(t, page.String(), "default-src 'none'")
}

func TestCandidate_Hidden_IsNamedByIDAndTime(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 11, 15, 3, 4, 5, 0, time.UTC)
	candidates := []report.Candidate{{NoteID: 17, CreatedAt: created, Name: "Synthetic name"}, {NoteID: 18}}
	run := report.Run{Recordings: []report.Recording{{Key: "k", Status: report.Unresolved, Candidates: candidates}}}
	hidden := run.Hidden().Recordings[0].Candidates
	assert.Equal(t, "note 17, created "+report.Clock(created), hidden[0].String())
	assert.Equal(t, "note 18", hidden[1].String())
	assert.Equal(t, "note 17, created "+report.Clock(created)+", Synthetic name", candidates[0].String(), "the caller's are as they were")

	var page strings.Builder
	require.NoError(t, report.HTML(&page, []report.Run{run.Hidden()}))
	assert.Contains(t, page.String(), "compare with note 17, created ")
	assert.NotContains(t, page.String(), "Synthetic name")
}

// beginReport begins a report later than those that were begun before, by its name.
func beginReport(reports string) *report.Writer {
	for before := time.Now().UnixMilli(); time.Now().UnixMilli() == before; {
		runtime.Gosched()
	}
	return report.Begin(reports, "v1")
}

// files are the status of each file of an upload; "" is a file that the upload did not reach.
type files map[string]string

// earlier keeps the report of an upload. SHARE in the name of a file is the folder of recordings.
type earlier func(t *testing.T, reports, share string)

// uploaded is an upload that ended with an exit code.
func uploaded(code int, statuses files) earlier {
	return func(t *testing.T, reports, share string) {
		t.Helper()
		w := beginReport(reports)
		w.Run.Total = len(statuses)
		w.Run.Code = code
		for file, status := range statuses {
			file = strings.Replace(file, "SHARE", share, 1)
			w.Plan(report.Recording{File: file})
			if status != "" {
				w.Add(report.Recording{Key: "0123", Status: status, File: file})
			}
		}
		require.NoError(t, w.Close())
	}
}

// leftOut is an upload that could not read a folder.
func leftOut(folder string) earlier {
	return func(t *testing.T, reports, share string) {
		t.Helper()
		w := beginReport(reports)
		w.Run.Code = 2
		w.Run.Command = "clinicaldoc upload " + folder // another one than that of the last upload
		w.AddLeftOut(report.LeftOut{Reason: "it cannot be read", File: strings.Replace(folder, "SHARE", share, 1)})
		require.NoError(t, w.Close())
	}
}

// followedAFailure is an upload that found an earlier recording failed.
func followedAFailure(t *testing.T, reports, _ string) {
	t.Helper()
	w := beginReport(reports)
	w.Run.Code = 9
	w.AddFollowed(report.Recording{Key: "4567", Status: report.Failed})
	require.NoError(t, w.Close())
}

// cutOff is an upload that was killed after it had sent everything.
func cutOff(t *testing.T, reports, share string) {
	t.Helper()
	uploaded(0, files{"SHARE/a.wav": report.Created})(t, reports, share)
	list, err := filepath.Glob(filepath.Join(reports, "*.jsonl"))
	require.NoError(t, err)
	text, err := os.ReadFile(list[len(list)-1])
	require.NoError(t, err)
	ended := strings.LastIndex(string(text), `{"run"`)
	require.NoError(t, os.WriteFile(list[len(list)-1], text[:ended], 0o600))
}

// daysAgo is an upload with an unresolved recording that began before the day of the last one.
func daysAgo(t *testing.T, reports, _ string) {
	t.Helper()
	w := beginReport(reports)
	w.Run.Began = w.Run.Began.Add(-25 * time.Hour)
	w.Run.Code = 7
	w.Add(report.Recording{Key: "0123", Status: report.Unresolved})
	require.NoError(t, w.Close())
}

// emptyReport is an upload whose report could not be written.
func emptyReport(t *testing.T, reports, _ string) {
	t.Helper()
	w := beginReport(reports)
	require.NoError(t, w.Close())
	require.NoError(t, os.Truncate(filepath.Join(reports, w.Run.ID+".jsonl"), 0))
}

// ofAFleet is an upload by a fleet. This machine handled one of two recordings, which was refused.
func ofAFleet(t *testing.T, reports, share string) {
	t.Helper()
	w := beginReport(reports)
	w.Run.Total = 2
	w.Run.Fleet = true
	w.Run.Code = 9
	w.Add(report.Recording{Key: "0123", Status: report.Refused, File: share + "/a.wav"})
	require.NoError(t, w.Close())
}

// reportWithGap is an upload of a.wav and b.wav whose results could not be written.
func reportWithGap(t *testing.T, reports, share string) {
	t.Helper()
	w := beginReport(reports)
	w.Run.Total = 2
	w.Run.Code = 1
	for _, file := range []string{share + "/a.wav", share + "/b.wav"} {
		w.Plan(report.Recording{File: file})
		w.Add(report.Recording{Key: "0123", Status: report.Processing, File: file})
	}
	require.NoError(t, w.Close())
	path := filepath.Join(reports, w.Run.ID+".jsonl")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := slices.DeleteFunc(strings.SplitAfter(string(text), "\n"), func(line string) bool {
		return strings.HasPrefix(line, `{"recording"`)
	})
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600))
}

// The headline says how many recordings have a note and what happened to the others, without exit codes.
func TestOutcome_EachRun_CountsForPeople(t *testing.T) {
	t.Parallel()
	ended := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	followed := []report.Recording{
		{Status: report.Processing}, {Status: report.Processing}, {Status: report.Failed}, {Status: report.Complete},
	}
	for want, run := range map[string]report.Run{
		"All done: 12 encounters have a note":        {Total: 12, Counts: report.Counts{report.Created: 2, report.AlreadyThere: 10}},
		"All done: 1 encounter has a note":           {Total: 1, Counts: report.Counts{report.Created: 1}},
		"All done: 2 encounters are complete":        {Total: 2, Counts: report.Counts{report.Complete: 2}},
		"All done: 1 encounter is complete":          {Total: 1, Counts: report.Counts{report.Complete: 1}},
		"All done":                                   {Total: 1, Fleet: true},
		"This upload sent none of its 12 encounters": {Code: 4, Total: 12, Error: "not logged in"},
		"The encounter was not sent":                 {Code: 4, Total: 1},
		"Nothing was sent":                           {Code: 2},
		"The encounter was refused":                  {Code: 5, Total: 1, Error: "x", Counts: report.Counts{report.Refused: 1}},
		"The encounter is processing":                {Code: 8, Total: 1, Counts: report.Counts{report.Processing: 1}},
		"The encounter failed":                       {Code: 9, Total: 1, Counts: report.Counts{report.Failed: 1}},
		"The encounter is unresolved":                {Code: 7, Total: 1, Counts: report.Counts{report.Unresolved: 1}},
		"1 of 2 encounters has a note; 1 is unresolved": {
			Code: 7, Total: 2, Counts: report.Counts{report.Created: 1, report.Unresolved: 1},
		},
		"3 of 5 encounters have a note; 1 is unresolved, 1 was not sent": {
			Code: 7, Total: 5, Counts: report.Counts{report.Created: 1, report.AlreadyThere: 2, report.Unresolved: 1},
		},
		"2 of 3 encounters have a note; 1 was refused": {
			Code: 5, Total: 3, Counts: report.Counts{report.Created: 1, report.AlreadyThere: 1, report.Refused: 1},
		},
		"0 of 4 encounters are complete; 2 were refused, 2 were not sent": {
			Code: 6, Total: 4, Counts: report.Counts{report.Refused: 2},
		},
		"7 of 12 encounters are complete; 1 is processing, 3 failed, 1 is unresolved": {
			Code: 7, Total: 12,
			Counts: report.Counts{report.Complete: 7, report.Processing: 1, report.Failed: 3, report.Unresolved: 1},
		},
		"1 of 1 encounter is complete; of earlier uploads, 2 are processing, 1 failed": {
			Code: 9, Total: 1, Counts: report.Counts{report.Complete: 1}, Followed: followed,
		},
		"1 of 1 encounter has a note; 1 file or folder was left out": {
			Code: 9, Total: 1, Counts: report.Counts{report.Created: 1}, LeftOut: make([]report.LeftOut, 1),
		},
		"1 of 2 encounters that this machine handled has a note; 1 was refused": {
			Code: 9, Total: 9, Fleet: true, Counts: report.Counts{report.Created: 1, report.Refused: 1},
		},
	} {
		run.Ended = ended
		assert.Equal(t, want, run.Outcome())
	}
}

// Earlier runs are listed as long as they need somebody.
func TestEarlier_OpenRecordings_AreKept(t *testing.T) {
	t.Parallel()
	other := files{"/elsewhere/c.wav": report.Created}
	refused := uploaded(5, files{"SHARE/a.wav": report.Refused})
	for name, one := range map[string]struct {
		before []earlier
		last   files
		want   int
	}{
		"a recording that was refused": {
			[]earlier{uploaded(9, files{"SHARE/a.wav": report.Refused, "SHARE/b.wav": report.Created})}, other, 1,
		},
		"done since":                {[]earlier{refused, uploaded(0, files{"SHARE/a.wav": report.Created})}, other, 0},
		"in the last report itself": {[]earlier{refused}, files{"SHARE/a.wav": report.Refused}, 0},
		"named once, by the newest report that has it": {[]earlier{refused, refused}, other, 1},
		"a file that was removed since": {
			[]earlier{uploaded(5, files{"SHARE/gone.wav": report.Refused})}, nil, 0,
		},
		"a removed file that is unresolved may have a note": {
			[]earlier{uploaded(7, files{"SHARE/gone.wav": report.Unresolved})}, nil, 1,
		},
		"files of a share that is not mounted are not removed": {
			[]earlier{uploaded(6, files{"SHARE-away/a.wav": ""}), uploaded(6, files{"SHARE-empty/a.wav": ""})}, nil, 2,
		},
		"a mistyped command":              {[]earlier{uploaded(2, nil)}, nil, 0},
		"a folder that could not be read": {[]earlier{leftOut("SHARE-away")}, nil, 1},
		"a folder that could not be read twice is named once": {
			[]earlier{leftOut("SHARE-away"), leftOut("SHARE-away")}, nil, 1,
		},
		"a folder that could not be read, and one whose name begins like it": {
			[]earlier{leftOut("SHARE")}, files{"SHARE-empty/a.wav": report.Refused}, 1,
		},
		"a folder that was uploaded since": {
			[]earlier{leftOut("SHARE")}, files{"SHARE/a.wav": report.Refused}, 0,
		},
		"a report with a gap, whose files a later one names": {
			[]earlier{reportWithGap}, files{"SHARE/a.wav": report.Created, "SHARE/b.wav": report.Refused}, 0,
		},
		"a report with a gap, of which a later one names a part": {
			[]earlier{reportWithGap}, files{"SHARE/a.wav": report.Created}, 1,
		},
		"a recording of an earlier upload that failed": {[]earlier{followedAFailure}, nil, 1},
		"no report at all, and a later upload that came to its end": {
			[]earlier{emptyReport}, files{"SHARE/a.wav": report.Created, "SHARE/b.wav": report.Refused}, 0,
		},
		"no report at all, and a later upload that did not": {
			[]earlier{emptyReport}, files{"SHARE/a.wav": report.Created, "SHARE/b.wav": ""}, 1,
		},
		"no report at all, and a later upload that was killed": {
			[]earlier{emptyReport, cutOff}, files{"SHARE/a.wav": report.Created, "SHARE/b.wav": ""}, 1,
		},
		"no report at all, and a fleet's upload, which does not know all results": {
			[]earlier{emptyReport, ofAFleet}, files{"SHARE/a.wav": report.Created, "SHARE/b.wav": ""}, 1,
		},
		"no report at all, and a mistyped command": {
			[]earlier{emptyReport, uploaded(2, nil)}, files{"SHARE/a.wav": report.Created, "SHARE/b.wav": ""}, 1,
		},
		"days ago": {[]earlier{daysAgo}, nil, 0},
		"more than a report names": {
			[]earlier{
				uploaded(7, files{"/1.wav": report.Unresolved}), uploaded(7, files{"/2.wav": report.Unresolved}),
				uploaded(7, files{"/3.wav": report.Unresolved}), uploaded(7, files{"/4.wav": report.Unresolved}),
				uploaded(7, files{"/5.wav": report.Unresolved}), uploaded(7, files{"/6.wav": report.Unresolved}),
			}, nil, 5,
		},
		"a token that was refused": {[]earlier{uploaded(4, files{"SHARE/a.wav": ""})}, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reports := t.TempDir()
			share := filepath.Join(t.TempDir(), "share")
			require.NoError(t, os.Mkdir(share, 0o700))
			require.NoError(t, os.Mkdir(share+"-empty", 0o700))
			for _, file := range []string{"a.wav", "b.wav"} {
				require.NoError(t, os.WriteFile(filepath.Join(share, file), []byte("RIFF"), 0o600))
			}
			for _, upload := range one.before {
				upload(t, reports, share)
			}
			code := 0
			for _, status := range one.last {
				if status != report.Created {
					code = 5
				}
			}
			uploaded(code, one.last)(t, reports, share)
			runs, err := report.List(reports, "")
			require.NoError(t, err)
			assert.Len(t, runs[0].Earlier, one.want, "%+v", runs[0].Earlier)
		})
	}
}

// An earlier run is named with what became of it, and why.
func TestEarlier_OpenRun_IsNamedWithItsReason(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	var began []time.Time
	for _, reason := range []string{"", "the service was failing", "the last one"} {
		w := beginReport(folder)
		w.Run.Began = w.Run.Began.Add(-time.Hour)
		began = append(began, w.Run.Began)
		w.Run.Total = 1
		w.Run.Code = 7
		w.Run.Reason = reason
		w.Add(report.Recording{Key: "0123", Status: report.Unresolved, File: "/" + reason})
		require.NoError(t, w.Close())
	}
	runs, err := report.List(folder, "")
	require.NoError(t, err)
	var said []string
	for i, before := range runs[0].Earlier {
		said = append(said, before.How)
		assert.WithinDuration(t, began[1-i], before.Began, 0)
	}
	assert.Equal(t, []string{"The encounter is unresolved: the service was failing", "The encounter is unresolved"}, said)
}

// Words of narrow columns are not broken: only files and reasons, which may be long, break anywhere.
func TestHTML_LongColumns_Break(t *testing.T) {
	t.Parallel()
	var page strings.Builder
	require.NoError(t, report.HTML(&page, nil))
	style, _, ok := strings.Cut(page.String(), "</style>")
	require.True(t, ok)
	assert.Regexp(t, `(?m)^th \{[^}]*white-space: nowrap;`, style)
	assert.Regexp(t, `(?m)^th, td \{[^}]*overflow-wrap: break-word;`, style)
	for rule := range strings.SplitSeq(style, "}") {
		selector, declarations, _ := strings.Cut(rule, "{")
		breaks := strings.Contains(selector, "td") && strings.Contains(declarations, "overflow-wrap: anywhere")
		long := strings.Contains(selector, "recording")
		assert.False(t, breaks && !long, selector)
	}
}
