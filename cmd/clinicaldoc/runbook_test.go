//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// runbook is what docs/runbook.md tells somebody to type.
type runbook struct {
	*cron
	lines []string // that were not typed yet
}

func newRunbook(t *testing.T) *runbook {
	t.Helper()
	page, err := os.ReadFile("../../docs/runbook.md")
	require.NoError(t, err)
	book := &runbook{cron: newCron(t)}
	for _, block := range regexp.MustCompile("(?s)\n```sh\n(.*?)```").FindAllStringSubmatch(strings.ReplaceAll(string(page), "\r\n", "\n"), -1) {
		book.lines = append(book.lines, strings.Split(strings.TrimSpace(block[1]), "\n")...)
	}
	require.NotEmpty(t, book.lines)
	return book
}

// types does what the page's line that begins so says, and returns what was printed.
func (r *runbook) types(code int, begins string, env ...string) string {
	r.t.Helper()
	at := slices.IndexFunc(r.lines, func(line string) bool { return strings.HasPrefix(line, begins) })
	require.GreaterOrEqual(r.t, at, 0, "the page does not say, or says it once: %s", begins)
	line := r.lines[at]
	r.lines = slices.Delete(r.lines, at, at+1)
	return r.exits(code, line, env...)
}

// Every command of the runbook runs in a simulated clinic in which each of its problems has occurred. In the end each
// recording has one note.
func TestRunbook_EveryLine_Works(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	book := newRunbook(t)
	var recordings [][]byte
	list := "key,patient,prompt,name,path\n"
	add := func(patient int) {
		i := len(recordings)
		recordings = append(recordings, fmt.Appendf(nil, "RIFF synthetic %d", i))
		require.NoError(t, os.WriteFile(filepath.Join(book.home, fmt.Sprintf("%d.wav", i)), recordings[i], 0o600))
		list += fmt.Sprintf("encounter-%d,%d,1,Visit %d,%d.wav\n", i, patient, i, i)
		require.NoError(t, os.WriteFile(filepath.Join(book.home, "tonight.csv"), []byte(list), 0o600))
	}
	upload := func(code int, flags string) string {
		said, got := book.runs("clinicaldoc upload --retries 0 --max-pause 0s --settle 1s --manifest tonight.csv " + flags)
		require.Equal(t, code, got, said)
		return said
	}

	// Another token: the first one is one as well.
	book.env = append(book.env, "CLINICALDOC_KEYRING=off")
	old := srv.AddToken(1, "synthetic device")
	fresh := srv.AddToken(1, "synthetic device")
	book.exits(0, `printf '%s' "$TOKEN" | clinicaldoc login "$URL"`, "TOKEN="+old.Secret, "URL="+srv.URL)
	book.types(0, "printf", "TOKEN="+fresh.Secret, "URL="+srv.URL)
	book.types(0, "clinicaldoc whoami")
	assert.Contains(t, book.types(0, "clinicaldoc tokens list"), fmt.Sprint(old.ID))
	book.types(0, "clinicaldoc tokens revoke", fmt.Sprint("OLD=", old.ID))
	book.types(0, "clinicaldoc doctor")

	// A lost journal: what is there is found, and nothing is sent twice.
	add(7)
	add(7)
	upload(0, "--begin")
	journals := filepath.Join(book.home, ".local", "state", "clinicaldoc", "journals")
	require.NoError(t, os.RemoveAll(journals))
	assert.Contains(t, book.types(0, "clinicaldoc upload --begin --manifest tonight.csv"), "0 created, 2 already there")

	// A damaged one.
	files, err := filepath.Glob(filepath.Join(journals, "*.journal"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	content, err := os.ReadFile(files[0])
	require.NoError(t, err)
	lines := strings.SplitAfter(string(content), "\n")
	lines[1] = "#" + lines[1][1:]
	require.NoError(t, os.WriteFile(files[0], []byte(strings.Join(lines, "")), 0o600))
	upload(5, "")
	book.types(0, "clinicaldoc upload salvage")
	upload(0, "")
	book.types(0, "clinicaldoc upload rename", "JOURNAL="+files[0])
	upload(0, "")

	// Two unresolved recordings: the patient has a note of this name, and its recording cannot be read. One is the recording's, one is not.
	srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(403, "").Always())
	doubt := func(patient int, audio string) (key string, note int64) {
		name := fmt.Sprintf("Visit %d", len(recordings))
		note = srv.AddNote(clinicaldoctest.Note{PatientID: int64(patient), Name: name, Audio: []byte(audio)})
		add(patient)
		upload(7, "")
		said := book.exits(0, "clinicaldoc upload status --jq '.[].to_resolve[].key'")
		return strings.TrimSpace(said), note
	}
	key, note := doubt(8, "RIFF synthetic 2")
	assert.Equal(t, key, strings.TrimSpace(book.types(0, "clinicaldoc upload status --jq")))
	report := book.exits(0, "clinicaldoc upload report")
	assert.Regexp(t, fmt.Sprintf(`compare with note %d, created \d{4}-\d\d-\d\d`, note), report)
	assert.NotContains(t, report, "Visit 2")
	candidates := book.types(0, `clinicaldoc upload resolve "$KEY" `, "KEY="+key)
	assert.Regexp(t, fmt.Sprintf(`(?m)^%d\s+\d{4}-\d\d-\d\dT\S+$`, note), candidates)
	assert.Contains(t, candidates, "clinicaldoc upload resolve "+key[:12]+" --none")
	assert.Contains(t, book.types(0, `clinicaldoc upload resolve "$KEY" --reveal`, "KEY="+key), "Visit 2")
	book.types(0, `clinicaldoc upload resolve "$KEY" --note`, "KEY="+key, fmt.Sprint("NOTE=", note))
	upload(0, "")
	key, _ = doubt(9, "RIFF other audio")
	book.types(0, `clinicaldoc upload resolve "$KEY" --none`, "KEY="+key)
	upload(0, "")
	require.NoError(t, srv.CreatedOnce(recordings[0], recordings[1], recordings[3]))
	assert.Len(t, srv.Notes(), 5, "these, and two that were there")

	// What was refused is sent again.
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, `{"message":"no"}`))
	add(10)
	upload(9, "")
	assert.Contains(t, book.types(0, "clinicaldoc upload report"), "1 recording was refused: ")
	assert.Contains(t, book.types(0, "clinicaldoc upload retry"), "1 created")
	book.types(0, "clinicaldoc upload status ")

	// What the service could not process is sent again by a decision.
	srv.ScriptNext(clinicaldoctest.Script{TranscriptionError: "synthetic state"})
	add(12)
	upload(9, "")
	upload(9, "")
	key = strings.TrimSpace(book.types(0, "clinicaldoc upload status --jq"))
	assert.Contains(t, book.types(0, "clinicaldoc upload report --reveal"), "synthetic state")
	book.types(0, `clinicaldoc upload resolve "$KEY" --send-again`, "KEY="+key)
	assert.Contains(t, book.types(0, "clinicaldoc upload retry"), "1 sent again")
	assert.Len(t, srv.CreatedFrom(recordings[5]), 2, "the failed note, and the one that replaces it")
	upload(0, "")
	assert.Len(t, srv.CreatedFrom(recordings[5]), 2)

	// Each recording has a complete note, so its file may be deleted. A note that a person named for a recording that was
	// never sent may have other bytes.
	deletable := book.types(0, "clinicaldoc upload status --deletable  ")
	assert.Contains(t, deletable, "6 files of earlier uploads: 5 may be deleted")
	assert.Contains(t, deletable, "its note was found without comparing recordings")
	assert.Regexp(t, `\tyes\t.*5\.wav`, book.types(0, "clinicaldoc upload status --deletable --reveal"))

	// So is a dead letter.
	queue := "CLINICALDOC_NATS=" + natsServer(t)
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, `{"message":"no"}`))
	require.NoError(t, os.WriteFile(filepath.Join(book.home, "last.wav"), []byte("RIFF the last one"), 0o600))
	const fleet = "clinicaldoc upload --begin --patient 11 --prompt 1 last.wav"
	said, code := book.runs(fleet, queue)
	require.NotZero(t, code, said)
	assert.Contains(t, book.types(0, "clinicaldoc fleet status", queue), "last.wav")
	assert.Contains(t, book.types(8, "clinicaldoc upload retry", queue), "1 recording is in the queue again")
	said, code = book.runs(fleet, queue)
	require.Zero(t, code, said)
	for _, recording := range [][]byte{recordings[0], recordings[1], recordings[3], recordings[4], []byte("RIFF the last one")} {
		assert.Len(t, srv.CreatedFrom(recording), 1)
	}
	assert.Empty(t, book.lines, "each line of the page was typed")
}
