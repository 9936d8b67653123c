package download

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
)

const of = "note 7 of https://api.clinic.test"

// begun is a part with some bytes of a recording in it.
func begun(t *testing.T, path string, content []byte) *Part {
	t.Helper()
	p, err := OpenPart(t.Context(), path, of)
	require.NoError(t, err)
	p.begin(recording{`"1"`, 1000}, "somewhere")
	_, err = p.Write(content)
	require.NoError(t, err)
	return p
}

// Received bytes are synced, and their number is written to the companion, each time there are enough of them.
func TestPart_EnoughBytes_WritesACheckpoint(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "visit.wav")
	p := begun(t, path, nil)
	p.checkpointEvery = 80
	for _, described := range []int64{0, 0, 80, 80, 160, 160, 240} {
		assert.Equal(t, described, p.info.Size)
		_, err := p.Write(make([]byte, 40))
		require.NoError(t, err)
	}
	p.Leave()
}

// A download that ended before its first byte leaves nothing behind.
func TestPart_NoBytes_IsRemoved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "visit.wav")
	begun(t, path, nil).Leave()
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestOpenPart_Companion_NamesThePart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "visit.wav")
	data := audio(700)
	p := begun(t, path, data)
	_, err := OpenPart(t.Context(), path, of)
	require.ErrorIs(t, err, disk.ErrHeld)
	name := p.partPath()
	p.Leave()

	p, err = OpenPart(t.Context(), path, of)
	require.NoError(t, err)
	assert.Equal(t, name, p.partPath())
	known, _, size := p.alreadyHas()
	assert.Equal(t, recording{`"1"`, 1000}, known)
	assert.Equal(t, int64(700), size)
	require.NoError(t, p.rewind(0))
	p.Leave()
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Empty(t, left, "an empty part is of no use")

	p = begun(t, path, data)
	assert.NotEqual(t, name, p.partPath(), "every part has a name of its own")
	gone := p.partPath()
	p.Leave()
	require.NoError(t, os.Remove(gone))
	p, err = OpenPart(t.Context(), path, of)
	require.NoError(t, err)
	_, _, size = p.alreadyHas()
	assert.Zero(t, size, "its companion alone is nothing to go on from")
	p.Leave()
}

// A file of another program that has the companion's name is not reported as a download that is running, however often
// it is tried.
func TestOpenPart_OtherProgramsFile_IsNotHeld(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "visit.wav")
	require.NoError(t, os.WriteFile(partFile(path, ".json"), []byte(`{"synthetic":true}`), 0o600))
	for range 2 {
		_, err := OpenPart(t.Context(), path, of)
		require.ErrorIs(t, err, os.ErrExist)
		require.NotErrorIs(t, err, disk.ErrHeld)
	}
}

// Leave does nothing after Finish, so it does not touch the part of the next download.
func TestPart_LeaveAfterFinish_TouchesNoOther(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "visit.wav")
	first := begun(t, path, audio(1000))
	require.NoError(t, first.Finish())
	next := begun(t, path, audio(700))
	first.Leave()
	next.Leave()
	again, err := OpenPart(t.Context(), path, of)
	require.NoError(t, err)
	_, _, size := again.alreadyHas()
	assert.EqualValues(t, 700, size)
	again.Leave()
}

// A recording that cannot get its name is kept and unlocked. The next download continues it.
func TestPart_FinishFails_IsKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "visit.wav")
	p := begun(t, path, audio(1000))
	require.NoError(t, os.MkdirAll(filepath.Join(path, "in the way"), 0o700))
	require.Error(t, p.Finish())
	p.Leave()
	again, err := OpenPart(t.Context(), path, of)
	require.NoError(t, err)
	_, _, size := again.alreadyHas()
	assert.EqualValues(t, 999, size)
	again.Leave()
}

// renaming is a disk on which something happens just before a file gets its name.
type renaming struct {
	disk.FS

	before func()
}

func (r renaming) Rename(from, to string) error {
	r.before()
	return r.FS.Rename(from, to)
}

// A part stays locked until it has the recording's name.
func TestPart_Finish_IsLockedUntilRenamed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "visit.wav")
	p := begun(t, path, audio(1000))
	var other error
	p.fs = renaming{p.fs, func() { _, other = OpenPart(t.Context(), path, of) }}
	require.NoError(t, p.Finish())
	require.ErrorIs(t, other, disk.ErrHeld)
	require.FileExists(t, path)
}

// stuck is a companion that cannot be removed.
type stuck struct{ disk.Record }

func (s stuck) Remove() error {
	_ = s.Close()
	return errors.New("synthetic")
}

// If the companion cannot be removed, the recording is complete anyway, and the next download starts again.
func TestPart_CompanionCannotBeRemoved_NextDownloadStartsAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "visit.wav")
	p := begun(t, path, audio(1000))
	p.companion = stuck{p.companion}
	require.NoError(t, p.Finish())
	p.Leave()
	require.FileExists(t, path)
	require.FileExists(t, partFile(path, ".json"))
	next, err := OpenPart(t.Context(), path, of)
	require.NoError(t, err)
	_, _, size := next.alreadyHas()
	assert.Zero(t, size)
	next.Leave()
	assert.NoFileExists(t, partFile(path, ".json"))
}

// described is what the companion says, read by who has it locked: on Windows nobody else can.
func described(p *Part) ([]byte, error) {
	return io.ReadAll(io.NewSectionReader(p.companion, 0, maxCompanion))
}

func TestPart_DescribeCutAnywhere_NamesThePart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "visit.wav")
	p := begun(t, path, audio(700))
	for _, tag := range []string{`"a much longer ETag than the one before"`, `"1"`} {
		p.info.ETag = tag
		require.NoError(t, p.describe())
		text, err := described(p)
		require.NoError(t, err)
		for n := len(partPrefix) + partDigits + 1; n <= len(text); n++ {
			named := partName.FindSubmatch(text[:n])
			require.NotNil(t, named, "a crash may leave no more than this: %s", text[:n])
			assert.Equal(t, p.info.Part, string(named[1]))
		}
		assert.True(t, json.Valid(text), "nothing of a longer one before it remains")
	}
	p.Leave()
}

func TestPartInfo_CanContinue_OnlyIfItIsConsistent(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		info partInfo
		want bool
	}{
		"complete":             {partInfo{Location: "1", ETag: `"1"`, Size: 600, SizeAgain: 600, Total: 600}, true},
		"incomplete":           {partInfo{Location: "1", ETag: `"1"`, Size: 600, SizeAgain: 600, Total: 1000}, true},
		"of unknown length":    {partInfo{Location: "1", ETag: `"1"`, Size: 600, SizeAgain: 600, Total: unknown}, true},
		"as much as is needed": {partInfo{Location: "1", ETag: `"1"`, Size: headSize, SizeAgain: headSize, Total: 1000}, true},
		"too little":           {partInfo{Location: "1", ETag: `"1"`, Size: headSize - 1, SizeAgain: headSize - 1, Total: 1000}, false},
		"more than there is":   {partInfo{Location: "1", ETag: `"1"`, Size: 600, SizeAgain: 600, Total: 599}, false},
		"torn":                 {partInfo{Location: "1", ETag: `"1"`, Size: 600, SizeAgain: 700, Total: 1000}, false},
		"without an ETag":      {partInfo{Location: "1", Size: 600, SizeAgain: 600, Total: 1000}, false},
		"without a location":   {partInfo{ETag: `"1"`, Size: 600, SizeAgain: 600, Total: 1000}, false},
	} {
		assert.Equal(t, tt.want, tt.info.canContinue(), name)
	}
}

// A crash can leave only the beginning of a companion, with zeros behind it. Anything else was written by another
// program.
func TestOpenPart_CutCompanion_IsReplaced(t *testing.T) {
	t.Parallel()
	digits := strings.Repeat("0a", partDigits/2)
	for content, isOurs := range map[string]bool{
		"":                            true,
		partPrefix[:5]:                true,
		partPrefix:                    true,
		partPrefix + "\x00\x00":       true,
		partPrefix + digits[:7]:       true,
		partPrefix + digits:           true,
		partPrefix + digits + "0":     false,
		partPrefix + digits[:7] + "x": false,
		partPrefix[:5] + "x":          false,
	} {
		path := filepath.Join(t.TempDir(), "visit.wav")
		require.NoError(t, os.WriteFile(partFile(path, ".json"), []byte(content), 0o600))
		p, err := OpenPart(t.Context(), path, of)
		if !isOurs {
			require.ErrorIs(t, err, os.ErrExist, content)
			continue
		}
		require.NoError(t, err, content)
		p.Leave()
	}
}

func TestOpenPart_TornCompanion_StartsAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "visit.wav")
	p := begun(t, path, audio(539)) // less is never continued
	require.NoError(t, p.checkpoint())
	old, err := described(p)
	require.NoError(t, err)
	_, err = p.Write(audio(552)[539:])
	require.NoError(t, err)
	require.NoError(t, p.checkpoint())
	latest, err := described(p)
	require.NoError(t, err)
	_, err = p.Write(make([]byte, 50)) // which is not on the disk
	require.NoError(t, err)
	p.Leave()
	content, err := os.ReadFile(p.partPath())
	require.NoError(t, err)
	for n := range old {
		require.NoError(t, os.WriteFile(p.partPath(), content, 0o600))
		require.NoError(t, os.WriteFile(partFile(path, ".json"), append(latest[:n:n], old[n:]...), 0o600))
		p, err := OpenPart(t.Context(), path, of)
		require.NoError(t, err)
		assert.Contains(t, []int64{0, 539, 552}, p.size, "%s", latest[:n])
		_ = p.file.Close()
		_ = p.companion.Close()
	}
}

func TestOpenPart_CreateFails_LeavesNoCompanion(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("paths have another longest length")
	}
	const longest = 4095
	dir := t.TempDir()
	for len(dir) < longest-300 {
		dir = filepath.Join(dir, strings.Repeat("d", 200))
	}
	require.NoError(t, os.MkdirAll(dir, 0o700))
	room := longest - len(dir) - len("/..clinicaldoc-part.json")
	dir = filepath.Join(dir, strings.Repeat("d", room-100-1))
	require.NoError(t, os.MkdirAll(dir, 0o700))
	// The part's name is longer than the companion's.
	_, err := OpenPart(t.Context(), filepath.Join(dir, strings.Repeat("a", 100)), of)
	require.Error(t, err)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}
