package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// full is a run with something in every member that may name or describe a patient.
func full() Run {
	const canary = "canary"
	recording := Recording{
		Key: "k", Status: Unresolved, File: canary, Name: canary, OwnKey: canary, Patient: 4711, Prompt: 4711, Words: canary,
		Fields: map[string][]string{canary: {canary}}, Candidates: []Candidate{{NoteID: 1, Name: canary}},
	}
	return Run{
		Command: canary, Folder: canary, Recordings: []Recording{recording}, Unfinished: []Recording{recording},
		Followed: []Recording{
			{Key: "k", Status: Failed, Words: canary, Fields: map[string][]string{canary: {canary}}},
		},
		LeftOut: []LeftOut{{Reason: "r", File: canary}},
	}
}

func TestHidden_Run_NamesNoPatient(t *testing.T) {
	t.Parallel()
	run := full()
	hidden, err := json.Marshal(run.Hidden())
	require.NoError(t, err)
	assert.NotContains(t, string(hidden), "canary")
	assert.NotContains(t, string(hidden), "4711")
	assert.Equal(t, full(), run, "the report itself stays as it was")
}

func TestWriter_LineAfterATornOne_IsRead(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	w := Begin(folder, "v1")
	w.Run.Total = 1
	_, err := w.file.WriteString(`{"recording":{"key":"half`)
	require.NoError(t, err)
	w.torn = true
	w.Add(Recording{Key: "whole", Status: Created})
	require.NoError(t, w.Close())
	runs, err := List(folder, "")
	require.NoError(t, err)
	require.Len(t, runs[0].Recordings, 1)
	assert.Equal(t, "whole", runs[0].Recordings[0].Key)
}

// A recording whose result could not be written is counted, and not taken for one that was never begun.
func TestRead_RecordingsNotWritten_AreCounted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "20260101T000000.000Z-a.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join([]string{
		`{"planned":{"key":"","file":"/a.wav"}}`, `{"planned":{"key":"","file":"/b.wav"}}`,
		`{"recording":{"key":"a","status":"created","file":"/a.wav"}}`,
		`{"run":{"id":"x","began":"2026-01-01T00:00:00Z","ended":"2026-01-01T00:00:01Z","total":2,"counts":{"created":2}}}`,
	}, "\n")+"\n"), 0o600))
	run, err := Read(path)
	require.NoError(t, err)
	assert.Equal(t, 1, run.Missing())
	assert.Empty(t, run.Unfinished)
}

func TestList_NotAFile_IsPassedOver(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, Begin(folder, "v1").Close())
	require.NoError(t, os.Mkdir(filepath.Join(folder, "20260101T000000.000Z-folder.jsonl"), 0o700))
	runs, err := List(folder, "all")
	require.NoError(t, err)
	assert.Len(t, runs, 1)
}

func TestRun_Processing_IsNotDone(t *testing.T) {
	t.Parallel()
	for status, done := range map[string]bool{
		Created: true, AlreadyThere: true, Complete: true, Processing: false, Failed: false, Refused: false, Unresolved: false,
	} {
		run := Run{Recordings: []Recording{{Status: status}}}
		assert.Equal(t, done, len(run.Done()) == 1, status)
		assert.Equal(t, !done, len(run.Open()) == 1, status)
	}
}

func TestRun_CutOff_IsNotGood(t *testing.T) {
	t.Parallel()
	assert.Equal(t, classGood, Run{Ended: time.Now()}.Class())
	assert.Equal(t, "bad", Run{}.Class(), "it never said how it ended")
	assert.Equal(t, "bad", Run{Ended: time.Now(), Code: 5}.Class())
	assert.Equal(t, "some", Run{Ended: time.Now(), Code: 5, Counts: Counts{Complete: 1}}.Class())
}

// FuzzReport reads reports of any content. Everything that can be read is shown, and nothing panics.
func FuzzReport(f *testing.F) {
	for _, text := range []string{
		"", "{}", "\n\n", `{"run":{"id":"x","total":3,"counts":{"created":9}}}`, `{"recording":{"key":"a","status":"refused"}}` + "\n" + `{"pl`,
		`{"run":{"ended":"2026-01-01T00:00:00Z"}}` + "\n" + `{"followed":{"status":"failed"}}` + "\n" + `{"left_out":{"reason":"r"}}`,
		`{"pause":{"at":"2026-01-01T00:00:00Z","why":"w"}}`, `{"run":{"total":-1,"fleet":true,"exit_code":-5}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		folder := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(folder, "20260101T000000.000Z-a.jsonl"), text, 0o600))
		runs, err := List(folder, "all")
		require.NoError(t, err)
		require.Len(t, runs, 1)
		run := runs[0]
		require.GreaterOrEqual(t, run.Left(), 0)
		require.NotEmpty(t, run.Outcome())
		for _, group := range run.Groups() {
			require.NotEmpty(t, group.Recordings)
		}
		var page strings.Builder
		require.NoError(t, HTML(&page, []Run{run, run.Hidden()}))
		require.NotContains(t, page.String(), "<script")
	})
}
