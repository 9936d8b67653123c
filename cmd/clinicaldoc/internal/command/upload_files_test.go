package command

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

func TestRecordings_Folder_TakesAudioFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, name := range []string{"a.wav", ".hidden/b.wav", "notes.txt", "deep/c.WAV", ".d.wav"} {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(name), 0o600))
	}
	file := filepath.Join(folder, "a.wav")
	o := &uploadOptions{paths: []string{folder, file, file}, patient: 7, prompt: 1, workers: 1}
	list, err := o.recordings(t.Context())
	require.NoError(t, err)
	var names []string
	for _, r := range list {
		name, err := filepath.Rel(folder, r.File)
		require.NoError(t, err)
		names = append(names, filepath.ToSlash(name))
	}
	assert.ElementsMatch(t, []string{"a.wav", "deep/c.WAV"}, names)
	require.Len(t, o.left, 1)
	assert.Equal(t, filepath.Join(folder, "notes.txt"), o.left[0].File)
	require.Error(t, o.leftOutError())
}

// A folder that cannot be read is reported as left out, and the files next to it are uploaded.
func TestRecordings_UnreadableFolder_IsLeftOut(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(folder, "shut"), 0o700))
	info, err := os.Stat(filepath.Join(folder, "shut"))
	require.NoError(t, err)
	o := &uploadOptions{}
	taken, skip := o.visit(filepath.Join(folder, "shut"), fs.FileInfoToDirEntry(info), &fs.PathError{Op: "open", Path: "shut", Err: syscall.EACCES})
	assert.False(t, taken)
	require.ErrorIs(t, skip, fs.SkipDir)
	assert.Equal(t, []leftOut{{Reason: "it cannot be read: permission denied", File: filepath.Join(folder, "shut")}}, o.left)
}

// A link to a recording is no second recording: under another name it would become a second note. A folder may be named by a link.
func TestRecordings_TwoNamesOfAFile_AreTakenOnce(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, "visits", name) }
	require.NoError(t, os.Mkdir(filepath.Join(folder, "visits"), 0o700))
	for _, name := range []string{"b.wav", "c.wav"} {
		require.NoError(t, os.WriteFile(in(name), []byte("synthetic"), 0o600))
		require.NoError(t, os.Chtimes(in(name), time.Time{}, time.Unix(1, 0)))
	}
	if err := os.Symlink("b.wav", in("a.wav")); err != nil {
		t.Skip("there are no links here:", err)
	}
	require.NoError(t, os.Link(in("c.wav"), in("d.wav")))
	require.NoError(t, os.Mkdir(in("e"), 0o700))
	require.NoError(t, os.Link(in("c.wav"), in("e/c.wav"))) // makes the same note as c.wav
	require.NoError(t, os.Symlink("visits", filepath.Join(folder, "tonight")))
	o := &uploadOptions{paths: []string{in(""), in("b.wav")}, patient: 7, prompt: 1, workers: 1}
	list, err := o.recordings(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 3)
	want := []string{in("b.wav"), in("c.wav"), in("e/c.wav")}
	assert.Equal(t, want, []string{list[0].File, list[1].File, list[2].File})
	const why = "it is another name of a file that this upload already contains"
	assert.Equal(t, []leftOut{{Reason: why, File: in("d.wav")}, {Reason: why, File: in("a.wav")}}, o.left)

	o = &uploadOptions{paths: []string{filepath.Join(folder, "tonight")}, patient: 7, prompt: 1, workers: 1}
	list, err = o.recordings(t.Context())
	require.NoError(t, err)
	assert.Len(t, list, 3)
}

// A folder that is named is wanted, whatever its name. Hidden folders in it are not.
func TestRecordings_HiddenFolderIsNamed_IsTaken(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, name := range []string{".visits/a.wav", ".visits/.old/b.wav", ".visits/in/c.wav"} {
		path := filepath.Join(folder, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("synthetic"), 0o600))
	}
	visits := filepath.Join(folder, ".visits")
	parent := filepath.Join(visits, "in") + string(filepath.Separator) + ".."
	for _, path := range []string{visits, visits + string(filepath.Separator), parent} {
		o := &uploadOptions{paths: []string{path}, patient: 7, prompt: 1, workers: 1}
		list, err := o.recordings(t.Context())
		require.NoError(t, err, path)
		require.Len(t, list, 2, path)
		assert.Empty(t, o.left)
	}
}

// The names of files that are left out come from whoever wrote them.
func TestLeftOut_HostileName_IsPrintedHarmless(t *testing.T) {
	t.Parallel()
	env, shown := newEnv(nil)
	o := &uploadOptions{Env: env, reveal: true}
	o.leaveOut("a\x1b[31m\nb.txt", "synthetic")
	o.sumLeftOut()
	assert.Equal(t, "left out: a\ufffd[31m b.txt: synthetic\n", shown.err.String())
}

func TestRecordings_UniqueNames_AreCheckedByPatient(t *testing.T) {
	t.Parallel()
	named := func(patient int64, name string) ingest.Recording {
		return ingest.Recording{Params: clinicaldoc.CreateNoteParams{PatientID: patient, Name: name}}
	}
	require.NoError(t, checkUnique([]ingest.Recording{named(7, "Visit"), named(8, "Visit"), named(9, "Visit 1")}))
	require.EqualError(t, checkUnique([]ingest.Recording{named(7, "Visit 1"), named(8, "Visit"), named(7, "Visit")}),
		"--unique-names: the name of recording 1 begins with the name of recording 3 of the same patient")
	require.Error(t, checkUnique([]ingest.Recording{named(7, " Visit "), named(7, "Visit 1")}), "spaces do not count")
}

func TestRecordings_ManifestWithMistakes_IsRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a.wav"), []byte("RIFF"), 0o600))
	path := filepath.Join(folder, "tonight.csv")
	require.NoError(t, os.WriteFile(path, []byte("path,patient\na.wav,7\nb.wav,7\n"), 0o600))
	o := &uploadOptions{manifest: path, patient: 7, prompt: 1, workers: 1}
	list, err := o.recordings(t.Context())
	_, listed := errors.AsType[*ingest.ManifestError](err)
	assert.True(t, listed, err)
	assert.Empty(t, list)
}

// A note always has a name, also that of a file whose name is only an extension.
func TestNameOf_EachFile_IsNotEmpty(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{"visit.wav": "visit", "a.b.wav": "a.b", "visit": "visit", ".wav": ".wav"} {
		assert.Equal(t, want, nameOf(filepath.Join("visits", file)))
	}
}

func TestRecordings_OptionOutOfRange_IsRejected(t *testing.T) {
	t.Parallel()
	for want, set := range map[string]func(*uploadOptions){
		"--workers must be 1 to 64":         func(o *uploadOptions) { o.workers = 65 },
		"--settle must not be negative":     func(o *uploadOptions) { o.settle = -time.Second },
		"--max-wait must not be negative":   func(o *uploadOptions) { o.maxWait = -time.Second },
		"--max-pause must not be negative":  func(o *uploadOptions) { o.maxPause = -time.Second },
		"--ignore needs a pattern":          func(o *uploadOptions) { o.ignore = []string{"["} },
		"--patient and --prompt are needed": func(o *uploadOptions) { o.prompt = 0 },
		"name files or a manifest":          func(o *uploadOptions) { o.manifest = "tonight.csv" },
	} {
		o := &uploadOptions{paths: []string{t.TempDir()}, patient: 7, prompt: 1, workers: 1}
		set(o)
		_, err := o.recordings(t.Context())
		require.ErrorContains(t, err, want)
		assert.Equal(t, codeUsage, exitCode(t.Context(), err), want)
	}
}
