package report_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/report"
)

func TestARecordOfARunThatWasCutOffIsRead(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	w := report.Begin(folder, "v1")
	w.Run.Total = 3
	w.Update()
	w.Add(report.Recording{Key: "a", Status: report.Created, File: "/canary"})
	runs, err := report.List(folder, "")
	require.NoError(t, err)
	require.Len(t, runs, 1)
	assert.Equal(t, "still running", runs[0].Outcome())

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
	if runtime.GOOS != "windows" {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	require.NoError(t, w.Close())
}

func TestTheNumberOfRecordsIsBounded(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for range 205 {
		require.NoError(t, report.Begin(folder, "v1").Close())
	}
	runs, err := report.List(folder, "all")
	require.NoError(t, err)
	assert.Len(t, runs, 200)
}

func TestARecordThatCannotBeKeptIsToldAtTheEnd(t *testing.T) {
	t.Parallel()
	w := report.Begin(filepath.Join(t.TempDir(), "nowhere"), "v1")
	w.Add(report.Recording{Key: "a"})
	assert.Error(t, w.Close())
}

func TestThePageIsOneFileAndRunsNothing(t *testing.T) {
	t.Parallel()
	var page strings.Builder
	require.NoError(t, report.HTML(&page, []report.Run{{ID: "x", Total: 1, Code: 5, Counts: report.Counts{report.Refused: 1}, Error: "<script>alert(1)</script>", Recordings: []report.Recording{{Key: "a", Status: report.Refused, Error: "<b>", File: "f\"><img src=x>"}}}}))
	assert.NotContains(t, page.String(), "<script")
	assert.NotContains(t, page.String(), "<img")
	assert.NotRegexp(t, `(src|href)="(https?:)?//`, page.String())
	assert.Contains(t, page.String(), "default-src 'none'")
}

func TestCandidate_IsNamedByIDAndTime(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 11, 15, 3, 4, 5, 0, time.UTC)
	candidates := []report.Candidate{{NoteID: 17, CreatedAt: created, Name: "Synthetic name"}, {NoteID: 18}}
	run := report.Run{Recordings: []report.Recording{{Key: "k", Status: report.InDoubt, Candidates: candidates}}}
	hidden := run.Hidden().Recordings[0].Candidates
	assert.Equal(t, "note 17, created "+report.Clock(created), hidden[0].String())
	assert.Equal(t, "note 18", hidden[1].String())
	assert.Equal(t, "note 17, created "+report.Clock(created)+", Synthetic name", candidates[0].String(), "the caller's are as they were")

	var page strings.Builder
	require.NoError(t, report.HTML(&page, []report.Run{run.Hidden()}))
	assert.Contains(t, page.String(), "compare with note 17, created ")
	assert.NotContains(t, page.String(), "Synthetic name")
}
