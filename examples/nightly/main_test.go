package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// night is a clinic with recordings of the day.
type night struct {
	srv      *clinicaldoctest.Server
	manifest string
	journal  string
	audio    [][]byte
}

func newNight(t *testing.T, recordings int) *night {
	t.Helper()
	folder := t.TempDir()
	n := &night{manifest: filepath.Join(folder, "tonight.csv"), journal: filepath.Join(folder, "uploads.journal")}
	n.srv = clinicaldoctest.NewServer(clinicaldoctest.InProcess(), clinicaldoctest.WithDelays(clinicaldoctest.Delays{}))
	t.Cleanup(n.srv.Close)
	list := "key,patient,prompt,name,path\n"
	for i := range recordings {
		n.audio = append(n.audio, fmt.Appendf(nil, "synthetic audio %d", i))
		file := fmt.Sprintf("garcia-%d.wav", i)
		require.NoError(t, os.WriteFile(filepath.Join(folder, file), n.audio[i], 0o600))
		list += fmt.Sprintf("garcia-%d,7,1,Visit %d,%s\n", i, i, file)
	}
	require.NoError(t, os.WriteFile(n.manifest, []byte(list), 0o600))
	return n
}

func (n *night) run(t *testing.T, begin bool) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), n.srv.Client(), n.manifest, n.journal, begin, &out)
	assert.NotContains(t, out.String(), "garcia", "keys and files may be named after patients")
	return out.String(), err
}

func TestASecondNightUploadsNothing(t *testing.T) {
	t.Parallel()
	n := newNight(t, 5)
	out, err := n.run(t, true)
	require.NoError(t, err)
	assert.Equal(t, 5, strings.Count(out, "complete, note"), out)
	out, err = n.run(t, false)
	require.NoError(t, err)
	assert.Equal(t, 5, strings.Count(out, "complete, note"), out)
	assert.Contains(t, out, "5 of 5 recordings have complete notes\n")
	assert.NoError(t, n.srv.CreatedOnce(n.audio...))
}

func TestALostResponseMakesNoSecondNote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // the search for the note takes seconds
		n := newNight(t, 3)
		n.srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
		_, err := n.run(t, true)
		require.NoError(t, err)
		assert.NoError(t, n.srv.CreatedOnce(n.audio...))
	})
}

func TestARefusedRecordingIsToldAndHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	n := newNight(t, 2)
	n.srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, `{"message":"refused"}`))
	out, err := n.run(t, true)
	require.ErrorContains(t, err, "the next run continues")
	assert.Regexp(t, `recording [12]: refused \([0-9a-f]{32}\): `, out)
	assert.Contains(t, out, "1 of 2 recordings have complete notes\n")
	_, err = n.run(t, false)
	require.NoError(t, err)
	assert.NoError(t, n.srv.CreatedOnce(n.audio...))
}

// A recording that the service cannot process is not done: the files of the night are kept.
func TestNightly_FailedProcessingIsAnError(t *testing.T) {
	t.Parallel()
	n := newNight(t, 2)
	n.srv.ScriptNext(clinicaldoctest.Script{TranscriptionError: "synthetic"})
	for begin := range 2 {
		out, err := n.run(t, begin == 0)
		require.ErrorContains(t, err, "could not process")
		assert.Regexp(t, `recording [12]: failed \([0-9a-f]{32}\): `, out)
		assert.Contains(t, out, "1 of 2 recordings have complete notes\n")
	}
	assert.NoError(t, n.srv.CreatedOnce(n.audio...))
}

// No journal is begun in silence: in the wrong place it would know of nothing.
func TestAMissingJournalUploadsNothing(t *testing.T) {
	t.Parallel()
	n := newNight(t, 1)
	_, err := n.run(t, false)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "-begin")
	assert.Empty(t, n.srv.Notes())
}
