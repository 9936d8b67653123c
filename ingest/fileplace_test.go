package ingest_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk/disktest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk/durable"
)

// addOutdatedLines adds enough outdated lines that the next Bind compacts the journal.
func addOutdatedLines(t *testing.T, j *ingest.FileJournal) {
	t.Helper()
	bind(t, j, service)
	ingest.CompactAbove(j, 0)
	for n := range 10 {
		for _, state := range []ingest.State{ingest.StateCommitting, ingest.StateInDoubt, ingest.StateCreated} {
			put(t, j, n, state)
		}
	}
}

func lines(t *testing.T, path string) int {
	t.Helper()
	return bytes.Count(read(t, path), []byte("\n"))
}

// needLink makes a link, or skips the test where that needs rights.
func needLink(t *testing.T, to, link string) {
	t.Helper()
	if !makeLink(t, to, link) {
		t.Skip("no links can be made here")
	}
}

// makeLink makes a link and reports whether it leads to the file.
func makeLink(t *testing.T, to, link string) bool {
	t.Helper()
	err := os.Symlink(to, link)
	if err == nil {
		_, err = os.Stat(link)
	}
	require.True(t, err == nil || runtime.GOOS == "windows", "%v", err)
	return err == nil
}

// Another file may have the journal's name with something behind it, such as a second journal or a copy.
func TestFileJournal_FileWithALongerName_IsKept(t *testing.T) {
	t.Parallel()
	path := journalPath(t)
	for _, ending := range []string{".new", ".old", ".tmp", "~", ".damaged"} {
		openJournal(t, service, path+ending)
	}
	j := openJournal(t, service, path)
	addOutdatedLines(t, j)
	bind(t, j, service)
	require.NoError(t, j.Close())
	before := lines(t, path)
	assert.Less(t, before, 20, "it was compacted")
	openJournal(t, service, path)
	for _, ending := range []string{".new", ".old", ".tmp", "~", ".damaged"} {
		assert.FileExists(t, path+ending)
	}
}

func TestFileJournal_BehindALink_IsLockedUnderEveryName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "data", "uploads.journal"), filepath.Join(dir, "link.journal")
	require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
	openJournal(t, service, path)
	// Not closed by the test's end yet: the same file under the link's name is in use.
	needLink(t, path, link)
	_, err := ingest.OpenJournal(t.Context(), link)
	require.ErrorIs(t, err, ingest.ErrJournalInUse)

	// One that is begun behind a link is its file as well, wherever the link leads later.
	folder := filepath.Join(dir, "folder")
	needLink(t, filepath.Join(dir, "data"), folder)
	j, err := ingest.BeginJournal(t.Context(), filepath.Join(folder, "second.journal"), ingest.Owner{Service: service})
	require.NoError(t, err)
	bind(t, j, service)
	require.NoError(t, os.Remove(folder))
	needLink(t, dir, folder)
	put(t, j, 1, ingest.StateCreated)
	require.NoError(t, j.Close())
	assert.Len(t, readEntries(t, filepath.Join(dir, "data", "second.journal")), 1)
}

func TestCompaction_BehindALink_ReplacesTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "uploads.journal"), filepath.Join(dir, "link.journal")
	require.NoError(t, openJournal(t, service, path).Close())
	needLink(t, path, link)
	j := openJournal(t, service, link)
	addOutdatedLines(t, j)
	before := lines(t, path)
	bind(t, j, service)
	assert.Less(t, lines(t, path), before, "outdated lines are dropped")
	_, err := ingest.OpenJournal(t.Context(), path)
	require.ErrorIs(t, err, ingest.ErrJournalInUse, "the lock is kept")
	info, err := os.Lstat(link)
	require.NoError(t, err)
	assert.NotZero(t, info.Mode()&fs.ModeSymlink, "the link is a link")
	put(t, j, 11, ingest.StateCreated)
	assert.Len(t, readEntries(t, path), 11)
	require.NoError(t, j.Close())
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{path, link}, names, "nothing is left behind")
}

func TestOpenJournal_HardLink_IsRejected(t *testing.T) {
	t.Parallel()
	path := journalPath(t)
	j := openBound(t, path)
	require.NoError(t, os.Link(path, path+"-2"))
	claim, err := j.Claim(t.Context(), key(1))
	require.NoError(t, err)
	require.Error(t, claim.Save(t.Context(), entry(1, ingest.StateCommitting)), "from now on it could be two")
	_ = j.Close()
	for _, name := range []string{path, path + "-2"} {
		_, err := ingest.OpenJournal(t.Context(), name)
		require.ErrorContains(t, err, "hard link")
	}
	require.NoError(t, os.Remove(path+"-2"))
	openJournal(t, service, path)
}

func TestFileJournal_FileMoved_SavesNothing(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("an open journal cannot be moved there")
	}
	for _, inItsPlace := range []string{"nothing", "another file"} {
		path := journalPath(t)
		j := openBound(t, path)
		claim, err := j.Claim(t.Context(), key(1))
		require.NoError(t, err)
		require.NoError(t, os.Rename(path, path+".moved"))
		if inItsPlace == "another file" {
			require.NoError(t, os.WriteFile(path, nil, 0o600))
		}
		err = claim.Save(t.Context(), entry(1, ingest.StateCommitting))
		require.ErrorIs(t, err, ingest.ErrJournalMoved)
		_ = j.Close()
		assert.Empty(t, readEntries(t, path+".moved"))
	}
}

// Bind does not compact a journal with a line that cannot be read any more. It would drop the line.
func TestCompaction_DamagedLine_ChangesNothing(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("nobody else can write to an open journal there")
	}
	path := journalPath(t)
	j := openJournal(t, service, path)
	addOutdatedLines(t, j)
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteAt([]byte("?"), 200)
	require.NoError(t, errors.Join(err, file.Close()))
	before := read(t, path)
	bind(t, j, service)
	require.ErrorIs(t, j.Warning(), ingest.ErrJournalDamaged)
	assert.True(t, bytes.Equal(before, read(t, path)), "the file has the same bytes")
}

// Two mounts of one folder may not share locks. If another process writes to the file, that is noticed before anything
// is sent.
func TestFileJournal_AnotherWriter_SavesNothing(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("nobody else can write to an open journal there")
	}
	srv, path := newBox(t), journalPath(t)
	u := &ingest.Uploader{Client: srv.Client(quick()), Journal: openJournal(t, srv.URL, path)}
	upload(t, u, recordings(0, 3))
	other, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = other.WriteString("0")
	require.NoError(t, errors.Join(err, other.Close()))
	_, err = collect(t.Context(), u, recordings(0, 6))
	require.ErrorIs(t, err, ingest.ErrJournalInUse)
	assert.Len(t, srv.Notes(), 3)
}

func TestBeginJournal_OnlyMissingFile_IsBegun(t *testing.T) {
	t.Parallel()
	path := journalPath(t)
	_, err := ingest.OpenJournal(t.Context(), path)
	require.ErrorIs(t, err, fs.ErrNotExist)
	assert.NoFileExists(t, path)
	owner := ingest.Owner{Service: service, UserID: 17}
	_, err = ingest.BeginJournal(t.Context(), path, ingest.Owner{})
	require.Error(t, err)
	j, err := ingest.BeginJournal(t.Context(), path, owner)
	require.NoError(t, err)
	_, err = ingest.OpenJournal(t.Context(), path)
	require.ErrorIs(t, err, ingest.ErrJournalInUse)
	_, err = j.Claim(t.Context(), key(1))
	require.Error(t, err, "nobody has said whose it is")
	bind(t, j, service)
	put(t, j, 1, ingest.StateCreated)
	require.NoError(t, j.Close())
	_, err = ingest.BeginJournal(t.Context(), path, owner)
	require.ErrorIs(t, err, fs.ErrExist)
	_, err = openJournal(t, service, path).Bind(t.Context(), ingest.Owner{Service: service, UserID: 18})
	require.ErrorIs(t, err, ingest.ErrOtherUser)
	require.NoError(t, os.WriteFile(path+"-2", nil, 0o600))
	_, err = ingest.BeginJournal(t.Context(), path+"-2", owner)
	require.ErrorIs(t, err, fs.ErrExist, "what is empty may have been emptied")
	assert.Len(t, readEntries(t, path), 1)
}

func TestFileJournal_OtherUser_IsRejected(t *testing.T) {
	t.Parallel()
	path := journalPath(t)
	j := openJournal(t, service, path)
	_, err := j.Bind(t.Context(), ingest.Owner{Service: strings.ToUpper(service) + "/", UserID: 17})
	require.NoError(t, err, "nobody knew whose it is")
	require.NoError(t, j.Close())
	j = openJournal(t, service, path)
	_, err = j.Bind(t.Context(), ingest.Owner{Service: service, UserID: 18})
	require.ErrorIs(t, err, ingest.ErrOtherUser)
	binding, err := j.Bind(t.Context(), ingest.Owner{Service: strings.ToUpper(service) + "/", UserID: 17})
	require.NoError(t, err)
	assert.Equal(t, ingest.Binding{Origin: service}, binding)
	owner, _, err := ingest.ReadJournal(t.Context(), path)
	require.NoError(t, err)
	assert.Equal(t, ingest.Owner{Service: service, UserID: 17}, owner)
}

// stubborn is a disk on which some things cannot be done.
type stubborn struct {
	durable.FS
	fail func(what string) error
}

func (s *stubborn) Open(name string, unlocked bool) (disk.File, error) {
	if err := s.fail("open"); err != nil && (!unlocked || !errors.Is(err, disk.ErrNoLocks)) {
		return nil, err
	}
	return s.FS.Open(name, unlocked)
}

func (s *stubborn) Create(name string, unlocked bool) (disk.File, error) {
	if err := s.fail("create"); err != nil && (!unlocked || !errors.Is(err, disk.ErrNoLocks)) {
		return nil, err
	}
	f, err := s.FS.Create(name, unlocked)
	return &stubbornFile{f, s}, err
}

func (s *stubborn) Replace(made disk.File, from string, old disk.File, to string) (disk.File, error) {
	if err := s.fail("lost"); err != nil {
		_ = made.Close()
		_ = old.Close()
		return nil, err
	}
	if err := s.fail("rename"); err != nil {
		_ = made.Close()
		return old, err
	}
	return s.FS.Replace(made.(*stubbornFile).File, from, old, to) //nolint:forcetypeassert // it is from Create
}

func (s *stubborn) SyncDir(name string) error {
	if err := s.fail("folder"); err != nil {
		return err
	}
	return s.FS.SyncDir(name)
}

type stubbornFile struct {
	disk.File
	disk *stubborn
}

func (f *stubbornFile) Write(p []byte) (int, error) {
	if err := f.disk.fail("write"); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

// The journal works without dropping outdated lines and without syncing its folder. Where these are impossible, it
// continues.
func TestCompaction_Impossible_JournalContinues(t *testing.T) {
	t.Parallel()
	for operation, err := range map[string]error{
		"rename": syscall.EBUSY, // a file that is mounted by itself
		"folder": syscall.EINVAL, "create": syscall.EMFILE, "write": syscall.ENOSPC,
	} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			path := journalPath(t)
			require.NoError(t, openJournal(t, service, path).Close())
			j, err := ingest.OpenJournal(onDiskWhere(t, operation, err), path)
			require.NoError(t, err)
			addOutdatedLines(t, j)
			before := lines(t, path)
			for range 2 {
				bind(t, j, service)
			}
			assert.Equal(t, before, lines(t, path))
			require.ErrorContains(t, j.Warning(), "outdated lines")
			put(t, j, 20, ingest.StateCreated)
			require.NoError(t, j.Close())
			names, err := filepath.Glob(path + "*")
			require.NoError(t, err)
			assert.Equal(t, []string{path}, names, "nothing is left behind")
			j = openBound(t, path)
			assert.Equal(t, ingest.StateCreated, load(t, j, 20).State)
			assert.NoError(t, j.Warning())
		})
	}
}

func TestCompaction_FileLost_IsAnError(t *testing.T) {
	t.Parallel()
	path := journalPath(t)
	require.NoError(t, openJournal(t, service, path).Close())
	j, err := ingest.OpenJournal(onDiskWhere(t, "lost", syscall.EMFILE), path)
	require.NoError(t, err)
	addOutdatedLines(t, j)
	_, err = j.Bind(t.Context(), ingest.Owner{Service: service})
	require.ErrorIs(t, err, syscall.EMFILE)
	require.ErrorContains(t, err, "opened after its outdated lines were removed")
	_, err = j.Claim(t.Context(), key(1))
	require.ErrorIs(t, err, syscall.EMFILE)
	require.NoError(t, j.Close())
	require.Error(t, j.Close())
}

func TestOpenJournal_NoLocks_IsRejectedUnlessAllowed(t *testing.T) {
	t.Parallel()
	path := journalPath(t)
	require.NoError(t, openJournal(t, service, path).Close())
	for failure, withoutLock := range map[error]error{
		disk.ErrNoLocks: nil,
		syscall.ENOLCK:  syscall.ENOLCK, // others may have a lock
	} {
		ctx := onDiskWhere(t, "open", failure)
		_, err := ingest.OpenJournal(ctx, path)
		require.ErrorIs(t, err, failure)
		j, err := ingest.OpenJournal(ctx, path, ingest.WithoutLock())
		require.ErrorIs(t, err, withoutLock)
		if err == nil {
			require.NoError(t, j.Close())
		}
	}
}

// version1 is a journal as the version before wrote it.
func version1() string {
	const common = " patient=00000001 name=00000001 size=1 sent=2026-01-02T03:04:04Z"
	return string(seal([]byte("clinicaldoc-ingest 1 http://127.0.0.1:8790\n" +
		"2026-01-02T03:04:05Z claimed " + key(1).String() + "\n" +
		"2026-01-02T03:04:05Z committing " + key(1).String() + common + "\n" +
		"2026-01-02T03:04:06Z created " + key(1).String() + common + " note=2\n" +
		"2026-01-02T03:04:07Z in-doubt " + key(2).String() + common +
		" until=2026-01-02T03:14:04Z why=nobody knows\n")))
}

func TestOpenJournal_EarlierVersion_IsUpgraded(t *testing.T) {
	t.Parallel()
	for _, replaceable := range []bool{true, false} {
		path := journalPath(t)
		require.NoError(t, os.WriteFile(path, []byte(version1()), 0o600))
		ctx := t.Context()
		if !replaceable {
			ctx = onDiskWhere(t, "rename", syscall.EBUSY)
		}
		// A process of that version is at work: it locks a file beside the journal.
		older, err := disk.Take(path + ".lock")
		require.NoError(t, err)
		_, err = ingest.OpenJournal(ctx, path)
		require.ErrorIs(t, err, ingest.ErrJournalInUse)
		require.NoError(t, disk.Remove(older))

		j, err := ingest.OpenJournal(ctx, path)
		require.NoError(t, err)
		binding, err := j.Bind(t.Context(), ingest.Owner{Service: "http://localhost:8790", UserID: 17})
		require.NoError(t, err)
		assert.Equal(t, "http://127.0.0.1:8790", binding.Origin, "keys are hashed with the name it had")
		assert.Equal(t, ingest.StateCreated, load(t, j, 1).State)
		unresolved := load(t, j, 2)
		assert.Equal(t, ingest.StateInDoubt, unresolved.State)
		assert.Equal(t, time.Date(2026, 1, 2, 3, 14, 4, 0, time.UTC), unresolved.Until.UTC())
		content := string(read(t, path))
		if replaceable {
			assert.Contains(t, content, "clinicaldoc-ingest 3 ", "that version says that it is too old")
			assert.NoFileExists(t, path+".lock")
		} else {
			assert.Regexp(t, `(?m)^[0-9a-f]{8} \S+ owner `, content, "that version cannot read this line")
			assert.FileExists(t, path+".lock")
		}
		require.NoError(t, j.Close())
		assert.NoFileExists(t, path+".lock")
		require.NoError(t, openJournal(t, service, path).Close())
	}
}

func TestSalvageJournal_Damage_KeepsCompleteLines(t *testing.T) {
	t.Parallel()
	content, owner := written(t), ingest.Owner{Service: service}
	complete := bytes.Count(content, []byte("\n"))
	for at := 0; at < len(content); at += 11 {
		path := journalPath(t)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		damage(t, path, at)
		damaged := read(t, path)
		if _, err := ingest.OpenJournal(t.Context(), path); errors.Is(err, ingest.ErrJournalVersion) {
			continue // its first line says nothing of the kind
		}
		lost := salvageGaps(t, path, owner)
		assert.LessOrEqual(t, lost, 3, "what is damaged, and the line behind it")
		assert.Positive(t, lost)
		assert.GreaterOrEqual(t, lines(t, path), complete-2)
		kept, err := filepath.Glob(path + ".damaged-*")
		require.NoError(t, err)
		require.Len(t, kept, 1)
		assert.Equal(t, damaged, read(t, kept[0]), "nothing is thrown away")
	}
}

func TestForget_OldNotes_AreDroppedUnlessSeen(t *testing.T) {
	t.Parallel()
	path := journalPath(t)
	j := openBound(t, path)
	for n := range 4 {
		put(t, j, n, ingest.StateCreated)
	}
	put(t, j, 4, ingest.StateInDoubt)
	require.NoError(t, j.Close())
	j = openBound(t, path)
	load(t, j, 1) // it is still there
	forgotten, err := j.Forget(t.Context(), entry(2, ingest.StateCreated).At)
	require.NoError(t, err)
	assert.Equal(t, 1, forgotten, "0 is older, 1 was seen, 2 and 3 are not older, 4 is in doubt")
	forgotten, err = j.Forget(t.Context(), time.Now())
	require.NoError(t, err)
	assert.Equal(t, 2, forgotten)
	require.NoError(t, j.Close())
	assert.Len(t, readEntries(t, path), 2)
	j = openJournal(t, service, path)
	binding, err := j.Bind(t.Context(), ingest.Owner{Service: service})
	require.NoError(t, err)
	assert.True(t, binding.Gaps)
	assert.Equal(t, ingest.StateCreated, load(t, j, 1).State)
	assert.Equal(t, ingest.StateClaimed, load(t, j, 0).State)
}

// The owner of a journal changed: its service had another name at first, and its user was not known. SalvageJournal
// accepts the latest owner.
func TestSalvageJournal_Renamed_BelongsToTheLatestOwner(t *testing.T) {
	t.Parallel()
	srv, path := newBox(t), journalPath(t)
	owner, err := ingest.OwnerOf(t.Context(), srv.Client())
	require.NoError(t, err)
	j, err := ingest.BeginJournal(t.Context(), path, ingest.Owner{Service: service})
	require.NoError(t, err)
	require.NoError(t, j.Rename(t.Context(), srv.Client()), "it knows of no notes")
	_, err = j.Bind(t.Context(), owner)
	require.NoError(t, err)
	put(t, j, 1, ingest.StateCreated)
	put(t, j, 2, ingest.StateCreated)
	require.NoError(t, j.Close())
	damage(t, path, len(read(t, path))-3)
	_, err = ingest.SalvageJournal(t.Context(), path, ingest.Owner{Service: owner.Service, UserID: owner.UserID + 1})
	require.ErrorIs(t, err, ingest.ErrOtherUser)
	_, err = ingest.SalvageJournal(t.Context(), path, ingest.Owner{Service: service})
	require.ErrorIs(t, err, ingest.ErrOtherService, "it is that no longer")
	lost, err := ingest.SalvageJournal(t.Context(), path, owner)
	require.NoError(t, err)
	assert.Equal(t, 1, lost)
	j = openJournal(t, srv.URL, path)
	binding, err := j.Bind(t.Context(), owner)
	require.NoError(t, err)
	assert.Equal(t, service, binding.Origin)
	assert.Equal(t, ingest.StateCreated, load(t, j, 1).State)
}

// Forget keeps the notes that this process created, whatever time is passed.
func TestForget_NotesOfThisProcess_AreKept(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	// it could not be found again
	srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(403, "synthetic").Always())
	journal := openJournal(t, srv.URL, journalPath(t))
	for _, want := range []ingest.Status{ingest.Created, ingest.AlreadyThere} {
		results := upload(t, &ingest.Uploader{Client: srv.Client(), Journal: journal}, recordings(0, 3))
		require.Equal(t, counts{want: 3}, statuses(results), results)
		forgotten, err := journal.Forget(t.Context(), time.Now().Add(time.Hour))
		require.NoError(t, err)
		assert.Zero(t, forgotten)
	}
}

// saveEntry saves an entry under its own key.
func saveEntry(t *testing.T, j *ingest.FileJournal, e ingest.Entry) {
	t.Helper()
	claim, err := j.Claim(t.Context(), e.Key)
	require.NoError(t, err)
	defer claim.Release()
	require.NoError(t, claim.Save(t.Context(), e))
	assert.Equal(t, e, claim.Entry())
}

// The journal keeps all that is known of a lost create, and who decided about a recording, for this process and the
// next.
func TestFileJournal_LossAndDecision_AreKept(t *testing.T) {
	t.Parallel()
	path := journalPath(t)
	j := openBound(t, path)
	lost := entry(1, ingest.StateInDoubt)
	lost.SHA256 = strings.Repeat("ab", 32)
	lost.Loss = []byte(`{"id": "a b", "clock":{"difference":-3}}`)
	saveEntry(t, j, lost)
	decided := entry(2, ingest.StateRefused)
	decided.By = "a person = 100% & sure"
	saveEntry(t, j, decided)
	for range 2 {
		got := load(t, j, 1)
		assert.Equal(t, lost.SHA256, got.SHA256)
		assert.JSONEq(t, string(lost.Loss), string(got.Loss))
		got = load(t, j, 2)
		assert.Equal(t, ingest.StateClaimed, got.State)
		assert.Equal(t, decided.By, got.By, "a claim does not take its place")
		require.NoError(t, j.Close())
		j = openBound(t, path)
	}
	content := read(t, path)
	assert.Equal(t, 1, strings.Count(string(content), ` loss={"id":"a\u0020b"`))
}

// A text that is too long for a line is cut, a loss is left out, and control characters become spaces.
func TestFileJournal_LongTexts_AreCut(t *testing.T) {
	t.Parallel()
	path := journalPath(t)
	j := openBound(t, path)
	long := entry(3, ingest.StateInDoubt)
	long.Why = "x" + strings.Repeat("\x7fé", 150)
	long.Loss = []byte(`"` + strings.Repeat("x", 4000) + `"`)
	long.By = strings.Repeat("a pers\u00f6n ", 30)
	saveEntry(t, j, long)
	assert.Equal(t, long.By, load(t, j, 3).By, "this process has all of it")
	require.NoError(t, j.Close())
	entries := readEntries(t, path)
	require.Len(t, entries, 1)
	assert.Equal(t, "x"+strings.Repeat(" é", 99)+" ", entries[0].Why)
	assert.Equal(t, long.By[:200], entries[0].By)
	assert.Empty(t, entries[0].Loss)
}

// damage changes a bit of a file.
func damage(t *testing.T, path string, at int) {
	t.Helper()
	content := read(t, path)
	content[at] ^= 1
	require.NoError(t, os.WriteFile(path, content, 0o600))
}

// onDiskWhere returns a context with a disk on which one kind of operation fails.
func onDiskWhere(t *testing.T, operation string, err error) context.Context {
	t.Helper()
	return disk.With(t.Context(), &stubborn{durable.From(t.Context()), func(done string) error {
		if done == operation {
			return err
		}
		return nil
	}})
}

// A compaction would put the journal in the place of the other file.
func TestCompaction_FileMoved_KeepsTheOtherFile(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("an open journal cannot be moved there")
	}
	path := journalPath(t)
	j := openJournal(t, service, path)
	addOutdatedLines(t, j)
	require.NoError(t, os.Rename(path, path+".moved"))
	require.NoError(t, os.WriteFile(path, []byte("another's"), 0o600))
	bind(t, j, service)
	require.Error(t, j.Warning())
	assert.Equal(t, "another's", string(read(t, path)))
}

// A journal whose beginning failed has no owner, and can be repaired immediately.
func TestBeginJournal_DiskFull_CanBeSalvaged(t *testing.T) {
	t.Parallel()
	path, owner := journalPath(t), ingest.Owner{Service: service, UserID: 17}
	_, err := ingest.BeginJournal(onDiskWhere(t, "write", syscall.ENOSPC), path, owner)
	require.ErrorIs(t, err, syscall.ENOSPC)
	_, err = ingest.SalvageJournal(t.Context(), path, owner)
	require.NoError(t, err)
}

// On a disk without locks, WithoutLock allows to begin, compact, open and salvage a journal.
func TestJournal_WithoutLock_NeedsNone(t *testing.T) {
	t.Parallel()
	ctx := disk.With(t.Context(), &stubborn{durable.From(t.Context()), func(done string) error {
		if done == "open" || done == "create" {
			return disk.ErrNoLocks
		}
		return nil
	}})
	path, owner := journalPath(t), ingest.Owner{Service: service}
	_, err := ingest.BeginJournal(ctx, path, owner)
	require.ErrorIs(t, err, disk.ErrNoLocks)
	j, err := ingest.BeginJournal(ctx, path, owner, ingest.WithoutLock())
	require.NoError(t, err)
	addOutdatedLines(t, j)
	bind(t, j, service)
	require.NoError(t, j.Warning(), "its outdated lines are dropped")
	require.NoError(t, j.Close())
	damage(t, path, len(read(t, path))/2)
	_, err = ingest.OpenJournal(ctx, path, ingest.WithoutLock())
	require.ErrorIs(t, err, ingest.ErrJournalDamaged)
	lost, err := ingest.SalvageJournal(ctx, path, owner, ingest.WithoutLock())
	require.NoError(t, err)
	assert.Positive(t, lost)
}

// salvageGaps salvages a journal, and checks that it is known to have gaps from then on.
func salvageGaps(t *testing.T, path string, owner ingest.Owner) (lost int) {
	t.Helper()
	lost, err := ingest.SalvageJournal(t.Context(), path, owner)
	require.NoError(t, err)
	binding, err := openJournal(t, service, path).Bind(t.Context(), owner)
	require.NoError(t, err)
	assert.Equal(t, ingest.Binding{Origin: service, Gaps: true}, binding)
	return lost
}

func TestSalvageJournal_UndamagedEmptiedOrAnothers_IsTreatedSo(t *testing.T) {
	t.Parallel()
	content, owner, path := written(t), ingest.Owner{Service: service}, journalPath(t)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	lost, err := ingest.SalvageJournal(t.Context(), path, owner)
	require.NoError(t, err)
	assert.Zero(t, lost, "it is not damaged")
	_, err = ingest.SalvageJournal(t.Context(), path, ingest.Owner{})
	require.Error(t, err)
	damage(t, path, len(content)-3)
	_, err = ingest.SalvageJournal(t.Context(), path, ingest.Owner{Service: "https://other.example.test"})
	require.ErrorIs(t, err, ingest.ErrOtherService)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	salvageGaps(t, path, owner)

	d := newMemory()
	content[len(content)-3] ^= 1
	d.Put("journal", content)
	d.failOnce(disktest.Write)
	_, err = ingest.SalvageJournal(disk.With(t.Context(), d), "journal", owner)
	require.ErrorIs(t, err, syscall.ENOSPC, "without a copy nothing is thrown away")
	_, err = ingest.OpenJournal(disk.With(t.Context(), d), "journal")
	require.ErrorIs(t, err, ingest.ErrJournalDamaged)
}
