package command

import (
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/output"
)

// edited is an edit of a note on a server of its own, after the editor has ended.
type edited struct {
	*editOptions
	srv    *clinicaldoctest.Server
	client *clinicaldoc.Client
	note   *clinicaldoc.ProgressNote
	folder string
	shown  *console
}

func newEdit(t *testing.T, field, text string) edited {
	t.Helper()
	srv := newServer(t)
	id := srv.AddNote(clinicaldoctest.Note{
		Name: "Visit", Transcription: "said", Analysis: "found", CreatedAt: srv.Now().Add(-time.Hour),
	})
	env, shown := newEnv(srv)
	client, err := env.client()
	require.NoError(t, err)
	o := &editOptions{Env: env, id: id, text: noteTexts[slices.Index(editable(), field)]}
	return edited{o, srv, client, textsOf(t, srv, id), editedFolder(t, text), shown}
}

// editedFolder is a folder with the text that an editor left.
func editedFolder(t *testing.T, text string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "edit")
	require.NoError(t, os.Mkdir(folder, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "mine.txt"), []byte(text), 0o600))
	return folder
}

func (e edited) puts() int { return requestsTo(e.srv, clinicaldoctest.RouteUpdateNote) }

func TestEdit_EmptyOrUnchangedText_IsNotSent(t *testing.T) {
	t.Parallel()
	const blanks = " \n\t\u00a0\n"
	for _, field := range editable() {
		before := map[string]string{"analysis": "found", "transcription": "said", "name": "Visit"}[field]
		for text, want := range map[string]string{
			"": "is empty", blanks: "is empty", "\ufeff\n\ufeff": "is empty", before: "not changed", before + "\n\n": "not changed",
		} {
			e := newEdit(t, field, text)
			require.NoError(t, e.save(t.Context(), e.client, e.note, e.folder, text))
			assert.Zero(t, e.puts(), "%s %q", field, text)
			assert.Contains(t, e.shown.err.String(), want, "%s %q", field, text)
			assert.NoDirExists(t, e.folder, "the text is not left on disk")
		}
	}
}

// A note may have no text yet. If the editor leaves none either, nothing was emptied.
func TestEdit_NoteWithoutText_WasNotEmptied(t *testing.T) {
	t.Parallel()
	e := newEdit(t, "analysis", "")
	e.note.Analysis = ""
	require.NoError(t, e.save(t.Context(), e.client, e.note, e.folder, "\n"))
	assert.Equal(t, "The text was not changed. Nothing is sent.\n", e.shown.err.String())
}

func TestEdit_ChangedText_IsSentAsItsFieldAlone(t *testing.T) {
	t.Parallel()
	for _, field := range editable() {
		e := newEdit(t, field, "other")
		require.NoError(t, e.save(t.Context(), e.client, e.note, e.folder, "other"))
		want := map[string]string{"name": "Visit", "transcription": "said", "analysis": "found"}
		want[field] = "other"
		got := textsOf(t, e.srv, e.id)
		for _, text := range noteTexts {
			assert.Equal(t, want[text.name], text.of(got), "%s after an edit of %s", text.name, field)
		}
		assert.NoDirExists(t, e.folder, field)
	}
}

// Only a newline at the end is an editor's own. Other spaces may be somebody's work.
func TestEdit_OnlySpacesChanged_IsSent(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"  found", "found  ", "\nfound"} {
		e := newEdit(t, "analysis", text)
		require.NoError(t, e.save(t.Context(), e.client, e.note, e.folder, text))
		assert.Equal(t, 1, e.puts(), "%q", text)
	}
}

func TestNoteTexts_EveryTextOfANote_IsShownAndEdited(t *testing.T) {
	t.Parallel()
	for _, field := range reflect.VisibleFields(reflect.TypeFor[clinicaldoc.UpdateNoteParams]()) {
		if field.Type != reflect.TypeFor[*string]() {
			continue
		}
		note := &clinicaldoc.ProgressNote{ID: 1}
		reflect.ValueOf(note).Elem().FieldByName(field.Name).SetString("canary")
		assert.Contains(t, noteText(note), "canary", "%s is not shown", field.Name)

		member, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		index := slices.Index(editable(), member)
		require.GreaterOrEqual(t, index, 0, "%s cannot be edited", member)
		o := &editOptions{text: noteTexts[index]}
		assert.Equal(t, "canary", o.text.of(note), member)
		changed := reflect.ValueOf(o.params("other")).FieldByIndex(field.Index)
		require.False(t, changed.IsNil(), "%s is not sent", member)
		assert.Equal(t, "other", changed.Elem().String(), member)
	}
}

func TestEdit_NameOfSeveralLines_IsKeptAndNotSent(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"two\nlines", "two\rlines"} {
		e := newEdit(t, "name", text)
		err := e.save(t.Context(), e.client, e.note, e.folder, text)
		require.ErrorContains(t, err, "a name must be one line")
		assert.Zero(t, e.puts())
		assert.FileExists(t, filepath.Join(e.folder, "mine.txt"))
	}
}

func TestEdit_SomebodyWasQuicker_KeepsBothTexts(t *testing.T) {
	t.Parallel()
	e := newEdit(t, "analysis", "mine")
	theirs, err := e.client.Notes.Update(t.Context(), e.id, clinicaldoc.UpdateNoteParams{Analysis: new("theirs")})
	require.NoError(t, err)
	err = e.save(t.Context(), e.client, e.note, e.folder, "mine")
	require.ErrorIs(t, err, clinicaldoc.ErrConflict)
	assert.Equal(t, "theirs", textsOf(t, e.srv, e.id).Analysis)
	for name, want := range map[string]string{"mine.txt": "mine", "theirs.txt": "theirs"} {
		text, err := os.ReadFile(filepath.Join(e.folder, name))
		require.NoError(t, err)
		assert.Equal(t, want, string(text))
	}
	assert.Contains(t, e.shown.out.String(), "| mine")
	assert.Contains(t, e.shown.out.String(), "--- on the service since "+exactTime(theirs.UpdatedAt)+"\n  | theirs")
}

func TestEdit_ServiceRefuses_KeepsTheText(t *testing.T) {
	t.Parallel()
	e := newEdit(t, "analysis", "mine")
	e.srv.Inject(clinicaldoctest.RouteUpdateNote, clinicaldoctest.Answer(http.StatusForbidden, `{"message":"no"}`))
	require.ErrorIs(t, e.save(t.Context(), e.client, e.note, e.folder, "mine"), clinicaldoc.ErrForbidden)
	assert.FileExists(t, filepath.Join(e.folder, "mine.txt"))
	assert.Contains(t, e.shown.err.String(), "Your text is kept in "+e.folder)
}

func TestEdit_SignedNote_NeedsAWord(t *testing.T) {
	t.Parallel()
	env, _ := newEnv(nil)
	signed := &clinicaldoc.ProgressNote{ID: 1}
	signed.Has.Signed = true
	for _, c := range []struct {
		note  *clinicaldoc.ProgressNote
		given bool
		fails bool
	}{{&clinicaldoc.ProgressNote{ID: 1}, false, false}, {signed, false, true}, {signed, true, false}} {
		err := (&editOptions{Env: env, signed: c.given}).mayChange(t.Context(), c.note)
		assert.Equal(t, c.fails, err != nil)
	}
	for answer, want := range map[string]error{"y\n": nil, "n\n": errDeclined, "\n": errDeclined} {
		env.answers(answer)
		assert.Equal(t, want, (&editOptions{Env: env}).mayChange(t.Context(), signed), answer)
	}
}

func TestEdit_EditorFails_KeepsOnlyWork(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text, unread, beside string
		kept                 bool
	}{
		"unchanged": {text: "before\n"}, "changed": {text: "after", kept: true}, "emptied": {},
		"too long to be read": {unread: "after", kept: true},
		"another file":        {text: "before", beside: ".mine.txt.swp", kept: true},
	} {
		env, _ := newEnv(nil)
		folder := editedFolder(t, c.text+c.unread)
		if c.beside != "" {
			require.NoError(t, os.WriteFile(filepath.Join(folder, c.beside), []byte("half"), 0o600))
		}
		require.NoError(t, (&editOptions{Env: env}).keepOrRemove(folder, c.text, "before"))
		_, err := os.Stat(folder)
		assert.Equal(t, c.kept, err == nil, name)
	}
}

// A byte order mark, CRLF and a final newline, which editors add to a complete file, do not count as edits. A path that
// is not a regular file, or a file that is too long, is rejected.
func TestEdit_EachEditor_ReadsWhatItLeft(t *testing.T) { //nolint:paralleltest // it sets a variable
	if runtime.GOOS == "windows" {
		t.Skip("the editors of this test are scripts of a shell")
	}
	for script, want := range map[string]string{
		`printf '\357\273\277one\r\ntwo\r\n' > "$1"`: "one\ntwo",
		`rm "$1" && mkfifo "$1"`:                     "did not leave a regular file",
		`truncate -s 67108865 "$1"`:                  (&output.TooLongError{Limit: output.MaxText}).Error(),
		`rm "$1"`:                                    "removed the file",
		`exit 3`:                                     "the editor failed",
		`exit 130`:                                   output.ErrInterrupted.Error(),
	} {
		folder := t.TempDir()
		editor := filepath.Join(folder, "editor.sh")
		require.NoError(t, os.WriteFile(editor, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
		t.Setenv("VISUAL", editor)
		text, err := edit(t.Context(), filepath.Join(folder, "mine.txt"), "one\ntwo")
		if err != nil {
			text = err.Error()
		}
		assert.Contains(t, text, want, script)
		assert.NotContains(t, text, "\ufeff", script)
		assert.NotContains(t, text, "\r", script)
	}
}

// A note may contain a byte order mark or CRLF. An editor that changes nothing leaves them, so nothing is sent.
func TestEdit_NoteHasMarks_TheyStay(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the editor of this test is a program of a shell")
	}
	t.Setenv("VISUAL", "true")
	for _, before := range []string{"\ufeffone", "one\r\ntwo", "\ufeffone\r\n\r\ntwo"} {
		text, err := edit(t.Context(), filepath.Join(t.TempDir(), "mine.txt"), before)
		require.NoError(t, err)
		assert.Equal(t, before, text)
	}
}

// The editor gets a text whose last line is complete, and no line that the note does not have.
func TestEdit_Editor_GetsTheLinesOfTheText(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the editor of this test is a program of a shell")
	}
	got := filepath.Join(t.TempDir(), "got.txt")
	t.Setenv("VISUAL", "sh -c 'cp \"$1\" "+got+"' editor")
	for before, want := range map[string]string{"": "", "one": "one\n", "one\ntwo\n": "one\ntwo\n"} {
		_, err := edit(t.Context(), filepath.Join(t.TempDir(), "mine.txt"), before)
		require.NoError(t, err)
		text, err := os.ReadFile(got)
		require.NoError(t, err)
		assert.Equal(t, want, string(text))
	}
}

func TestPrograms_Environment_HasNoSecrets(t *testing.T) {
	t.Parallel()
	seen := strings.Join(withoutAccount([]string{
		"PATH=/bin", "CLINICALDOC_TOKEN=canary", "clinicaldoc_token=canary", "CLINICALDOC_BASE_URL=canary", "CLINICALDOC_NATS=canary", "HOME=/h",
	}), " ")
	assert.Equal(t, "PATH=/bin HOME=/h", seen)
}
