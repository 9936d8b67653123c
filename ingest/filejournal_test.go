package ingest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk/disktest"
)

const service = "https://service.example.test"

func key(n int) ingest.Key {
	return ingest.Key{byte(n), byte(n >> 8), byte(n >> 16), 0xff}
}

// put writes an entry in some state for a key.
func put(t *testing.T, j ingest.Journal, n int, state ingest.State) {
	t.Helper()
	claim, err := j.Claim(t.Context(), key(n))
	require.NoError(t, err)
	defer claim.Release()
	require.NoError(t, claim.Save(t.Context(), entry(n, state)))
}

// entry is a synthetic one with all that its state has.
func entry(n int, state ingest.State) ingest.Entry {
	at := time.Date(2026, 1, 2, 3, 4, 5, n, time.UTC)
	e := ingest.Entry{
		Key: key(n), State: state, At: at, Patient: uint32(n % 3), Name: uint32(n), Size: int64(n),
		SentAt: at.Add(-time.Second),
	}
	switch state {
	case ingest.StateCreated:
		e.NoteID, e.Found = int64(n)+1, n%2 == 0
	case ingest.StateRefused:
		e.Why = "the service said no\nand no"
	case ingest.StateInDoubt:
		e.Until, e.Why = at.Add(10*time.Minute), "nobody knows"
	default: // have no more
	}
	return e
}

func load(t *testing.T, j ingest.Journal, n int) ingest.Entry {
	t.Helper()
	claim, err := j.Claim(t.Context(), key(n))
	require.NoError(t, err)
	defer claim.Release()
	return claim.Entry()
}

// written is a journal's file after a few entries of every state.
func written(t *testing.T) []byte {
	t.Helper()
	path := journalPath(t)
	j := openBound(t, path)
	for n, state := range []ingest.State{
		ingest.StateCommitting, ingest.StateCreated, ingest.StateRefused, ingest.StateInDoubt,
	} {
		put(t, j, n, state)
	}
	put(t, j, 0, ingest.StateCreated)
	require.NoError(t, j.Close())
	content := read(t, path)
	return content
}

func TestFileJournal_Reopened_ReturnsWhatWasSaved(t *testing.T) {
	t.Parallel()
	path := journalPath(t)
	require.NoError(t, os.WriteFile(path, written(t), 0o644))
	j := openBound(t, path)
	for n, state := range []ingest.State{
		ingest.StateCreated, ingest.StateCreated, ingest.StateClaimed, ingest.StateInDoubt,
	} {
		got := load(t, j, n)
		want := entry(n, state)
		if state == ingest.StateClaimed { // what was refused is tried once more
			assert.Equal(t, state, got.State)
			continue
		}
		assert.True(t, want.SentAt.Equal(got.SentAt) && want.Until.Equal(got.Until))
		got.SentAt, got.Until, got.Why, got.At = want.SentAt, want.Until, want.Why, want.At
		assert.Equal(t, want, got)
	}
	if runtime.GOOS != "windows" {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), "for this user alone")
	}
	_, err := j.Bind(t.Context(), ingest.Owner{Service: "https://other.example.test"})
	require.ErrorIs(t, err, ingest.ErrOtherService)
	entries := readEntries(t, path)
	var reasons []string
	for _, e := range entries {
		reasons = append(reasons, e.Why)
	}
	assert.ElementsMatch(t, []string{"", "", "the service said no and no", "nobody knows"}, reasons)
}

// An unresolved recording turned out to have no note, so it was claimed to be sent again, and then the process ended.
// The reopened journal does not show it as unresolved once more.
func TestFileJournal_ClaimedAfterUnresolved_StaysClaimed(t *testing.T) {
	t.Parallel()
	path := journalPath(t)
	j := openBound(t, path)
	for _, state := range []ingest.State{ingest.StateCommitting, ingest.StateInDoubt, ingest.StateClaimed} {
		put(t, j, 0, state)
	}
	put(t, j, 1, ingest.StateCreated)
	require.NoError(t, j.Close())
	j = openBound(t, path)
	assert.Equal(t, ingest.StateClaimed, load(t, j, 0).State)
	assert.Equal(t, ingest.StateCreated, load(t, j, 1).State)
}

func TestFileJournal_File_IsTextWithoutNames(t *testing.T) {
	t.Parallel()
	srv, path := newBox(t), journalPath(t)
	owner, err := ingest.OwnerOf(t.Context(), srv.Client())
	require.NoError(t, err)
	journal, err := ingest.BeginJournal(t.Context(), path, owner)
	require.NoError(t, err)
	r := recording(0)
	r.Key, r.Params.Name = "Synthetic Name.wav", "Visit of Synthetic Name"
	uploadOne(t, &ingest.Uploader{Client: srv.Client(), Journal: journal}, r)
	require.NoError(t, journal.Close())
	content := string(read(t, path))
	assert.NotContains(t, content, "Synthetic")
	lines := strings.Split(strings.TrimSpace(content), "\n")
	require.Len(t, lines, 4)
	assert.Contains(t, lines[0], "clinicaldoc-ingest 3 "+ingest.ServiceName(srv.URL))
	for i, state := range []string{"claimed", "committing", "created"} {
		assert.Regexp(t, `^[0-9a-f]{8} \d{4}-\d\d-\d\dT[0-9:.]+Z `+state+` [0-9a-f]{32}`, lines[i+1])
	}
	assert.Contains(t, lines[3], fmt.Sprintf("note=%d", srv.Notes()[0].ID))
}

// open tries a file's content as a journal.
func open(t *testing.T, content []byte) (*ingest.FileJournal, error) {
	t.Helper()
	d := disktest.New()
	d.Put("journal", content)
	j, err := openOrBegin(disk.With(t.Context(), d.Mount(nil)), service, "journal")
	if err == nil {
		t.Cleanup(func() { _ = j.Close() })
	}
	return j, err
}

func TestOpenJournal_FileCutOff_LosesOnlyTheLastLine(t *testing.T) {
	t.Parallel()
	content := written(t)
	tails := []string{"", strings.Repeat("\x00", 4096), strings.Repeat("\x00", 600_000)}
	for length := range content {
		for i, tail := range tails {
			if i == 1 && length%7 != 0 {
				continue
			}
			lines := bytes.Count(content[:length], []byte("\n"))
			if len(tail) > 5000 && (length%97 != 0 && !bytes.HasSuffix(content[:length], []byte("\n")) || lines == 0) {
				continue
			}
			j, err := open(t, append(bytes.Clone(content[:length]), tail...))
			if lines == 0 && content[length] != '\n' {
				require.ErrorIs(t, err, ingest.ErrJournalDamaged, "without its first line it is nobody's")
				continue
			}
			require.NoError(t, err, "%d", length)
			bind(t, j, service)
			kin := 0
			for patient := range uint32(3) {
				entries, err := j.EntriesForPatient(t.Context(), patient, time.Time{}.AddDate(1900, 0, 0))
				require.NoError(t, err)
				kin += len(entries)
			}
			whole := content[:bytes.LastIndexByte(content[:length], '\n')+1]
			if len(tail) < 5000 && content[length] == '\n' {
				whole = content[:length] // a line that lacks only its newline was written whole
			}
			want := 0
			for n := range 4 {
				latest := ""
				for line := range strings.Lines(string(whole)) {
					if strings.Contains(line, key(n).String()) {
						latest = strings.Fields(line)[2]
					}
				}
				if latest == "committing" || latest == "created" || latest == "in-doubt" {
					want++
				}
			}
			assert.Equal(t, want, kin, "cut at %d", length)
		}
	}
}

func TestOpenJournal_DamagedByte_IsReported(t *testing.T) {
	t.Parallel()
	content := written(t)
	for at := range content {
		for bit := range 8 {
			if bit != at%8 && at%11 != 0 {
				continue // a sample: nearly ten thousand bits would take long
			}
			damaged := bytes.Clone(content)
			damaged[at] ^= 1 << bit
			_, err := open(t, damaged)
			require.Error(t, err, "bit %d of byte %d", bit, at)
			if !errors.Is(err, ingest.ErrJournalVersion) { // without its first word it is another kind of file
				require.ErrorIs(t, err, ingest.ErrJournalDamaged, "bit %d of byte %d", bit, at)
			}
		}
	}
	lines := bytes.SplitAfter(content, []byte("\n"))
	for _, bad := range [][]byte{
		bytes.Replace(lines[0], []byte("ingest 3"), []byte("ingest 4"), 1), append(bytes.Clone(content),
			strings.Repeat("RIFF", 200_000)...),
		append(bytes.Clone(content), "\x00RIFF"+strings.Repeat("\x00", 600_000)...),
	} {
		_, err := open(t, bad)
		require.ErrorIs(t, err, ingest.ErrJournalDamaged)
	}
	for i := range len(lines) - 2 {
		left := append(bytes.Join(lines[:i], nil), bytes.Join(lines[i+1:], nil)...)
		_, err := open(t, left)
		require.Error(t, err, "line %d is missing", i+1)
	}
}

// A line that a later version wrote, for all its right checksum, is not passed over. SalvageJournal leaves it out.
func TestOpenJournal_UnknownLine_IsReported(t *testing.T) {
	t.Parallel()
	content := written(t)
	lines := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	created := "2026-01-02T03:04:05Z created " + key(1).String()
	for _, text := range []string{
		"2026-01-02T03:04:05Z something else", "2026-01-02T03:04:05Z owner " + service + " user=x", "yesterday owner " + service + " user=17", "yesterday gap",
		created + " found=maybe", created + " patient=1", created + " size=x", created + " sent=now", created + " odd=1", created + "00",
	} {
		path := journalPath(t)
		require.NoError(t, os.WriteFile(path, append(bytes.Clone(content), ingest.Line(string(lines[len(lines)-1][:8]), text)...), 0o600))
		_, err := ingest.OpenJournal(t.Context(), path)
		require.ErrorIs(t, err, ingest.ErrJournalDamaged, text)
		require.ErrorContains(t, err, fmt.Sprintf("line %d ", len(lines)+1))
		lost, err := ingest.SalvageJournal(t.Context(), path, ingest.Owner{Service: service})
		require.NoError(t, err)
		assert.Equal(t, 1, lost, text)
		require.NoError(t, openJournal(t, service, path).Close())
	}
}

func TestOpenJournal_OtherFile_IsRejected(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"text":          "not a journal\n",
		"short text":    "not a journal",
		"a word":        "note",
		"long":          strings.Repeat("RIFF", 100_000),
		"later version": line("clinicaldoc-ingest 4 " + service),
	} {
		_, err := open(t, []byte(content))
		require.ErrorIs(t, err, ingest.ErrJournalVersion, name)
	}
	_, err := open(t, nil)
	require.ErrorIs(t, err, ingest.ErrJournalDamaged, "what is empty was emptied")
}

// line has the checksum of a first line.
func line(text string) string {
	return fmt.Sprintf("%08x %s\n", ingest.Checksum(text), text)
}

func TestKey_Text_IsReadBack(t *testing.T) {
	t.Parallel()
	text, err := key(300).MarshalText()
	require.NoError(t, err)
	assert.Equal(t, key(300).String(), string(text))
	var read ingest.Key
	require.NoError(t, read.UnmarshalText(text))
	assert.Equal(t, key(300), read)
	require.Error(t, read.UnmarshalText([]byte("00")))
	require.Error(t, read.UnmarshalText(bytes.Repeat([]byte("x"), 32)))
}

func TestOpenJournal_OpenAlready_IsRejected(t *testing.T) {
	t.Parallel()
	path := journalPath(t)
	j := openJournal(t, service, path)
	_, err := ingest.OpenJournal(t.Context(), path)
	require.ErrorIs(t, err, ingest.ErrJournalInUse)
	require.ErrorIs(t, err, clinicaldoc.ErrInUse)
	require.EqualError(t, err,
		"ingest: the journal is already open, in this process or in another one; close it there, or try again later")
	assert.True(t, clinicaldoc.Retryable(err))
	require.NoError(t, j.Close())
	require.Error(t, j.Close())
	_, err = j.Claim(t.Context(), key(1))
	require.ErrorIs(t, err, fs.ErrClosed)
	openJournal(t, service, path)
}

func TestOpenJournal_UnusablePath_ReturnsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, path := range map[string]string{"no folder": dir + "/missing/journal", "a folder": dir} {
		_, err := ingest.OpenJournal(t.Context(), path)
		require.Error(t, err, name)
		assert.NotContains(t, err.Error(), dir, name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := journalPath(t)
	require.NoError(t, os.WriteFile(path, many(t, 10_000), 0o600))
	_, err := ingest.OpenJournal(ctx, path)
	require.ErrorIs(t, err, context.Canceled)
	openJournal(t, service, path)
}

// many is a journal with that many created entries.
func many(t *testing.T, count int) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, ingest.WriteJournal(&b, service, func(yield func(ingest.Entry) bool) {
		for n := range count {
			if !yield(entry(n, ingest.StateCreated)) {
				return
			}
		}
	}))
	return b.Bytes()
}

func TestFileJournal_DiskFull_LosesNothing(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{disktest.Write, disktest.Sync} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			srv := newBox(t)
			m := newMemory()
			ctx := disk.With(t.Context(), m)
			journal, err := openOrBegin(ctx, srv.URL, "journal")
			require.NoError(t, err)
			// The same client goes on later: it takes the notes that it has seen for explained.
			u := &ingest.Uploader{Client: srv.Client(), Journal: journal, Workers: 4}
			u.Find.Settle = time.Second
			results := 0
			for result, err := range u.Run(t.Context(), recordings(0, 100)) {
				if err != nil {
					require.ErrorIs(t, err, syscall.ENOSPC)
					continue
				}
				if results++; results == 10 {
					m.fail(operation)
				}
				if result.Status == ingest.Refused {
					require.ErrorIs(t, result.Err, syscall.ENOSPC)
				}
			}
			assert.Less(t, results, 30)
			_, err = collect(t.Context(), u, recordings(0, 1))
			require.Error(t, err, "it stays so until it is opened anew")
			_ = journal.Close()

			m.fail("")
			journal, err = openOrBegin(ctx, srv.URL, "journal")
			require.NoError(t, err)
			defer func() { _ = journal.Close() }()
			u.Journal = journal
			got := statuses(upload(t, u, recordings(0, 100)))
			assert.Equal(t, 100, got[ingest.Created]+got[ingest.AlreadyThere], got)
			assert.Equal(t, 100, len(srv.Notes())) //nolint:testifylint // the notes need not be printed
		})
	}
}

func TestCompaction_OutdatedLines_AreDropped(t *testing.T) {
	t.Parallel()
	m := newMemory()
	j := m.opened(t)
	states := []ingest.State{ingest.StateCommitting, ingest.StateInDoubt, ingest.StateRefused, ingest.StateCreated}
	const keys = 600
	for n := range keys {
		for _, state := range states[:1+n%4] {
			put(t, j, n, state)
		}
	}
	before := m.size("journal")
	bind(t, j, service)
	after := m.size("journal")
	assert.Less(t, after, before*2/3)
	assert.Equal(t, -1, m.size(".journal.clinicaldoc-journal"), "nothing is left behind")
	for n := range 4 * keys { // and once more, with lines that stay where they are
		put(t, j, n%100, states[n%4])
	}
	bind(t, j, service)
	assert.Less(t, m.size("journal"), after*4/3)
	for range 2 {
		put(t, j, keys, ingest.StateCreated)
		for n := range keys {
			got := load(t, j, n)
			want := states[n%4]
			if want == ingest.StateRefused {
				want = ingest.StateClaimed
			}
			require.Equal(t, want, got.State)
			if want == ingest.StateCreated {
				require.Equal(t, int64(n)+1, got.NoteID)
			}
		}
		require.NoError(t, j.Close())
		j = m.opened(t)
	}
}

// Bind compacts if more than half of the lines are outdated, and more than the journal's minimum of outdated lines.
func TestFileJournal_Bind_CompactsWhenMostLinesAreOutdated(t *testing.T) {
	t.Parallel()
	path := journalPath(t)
	j := openBound(t, path)
	ingest.CompactAbove(j, 0)
	for n := range 20 {
		put(t, j, n, ingest.StateCreated)
	}
	before, err := os.Stat(path)
	require.NoError(t, err)
	bindCompacts := func() bool {
		bind(t, j, service)
		after, err := os.Stat(path)
		require.NoError(t, err)
		return !os.SameFile(before, after)
	}
	assert.False(t, bindCompacts(), "18 of 41 lines are outdated")
	for range 5 { // each outdates a line
		put(t, j, 0, ingest.StateCreated)
	}
	assert.False(t, bindCompacts(), "23 of 46 lines are outdated: exactly half")
	put(t, j, 0, ingest.StateCreated)
	ingest.CompactAbove(j, 24)
	assert.False(t, bindCompacts(), "24 of 47 lines are outdated: more than half, but not more than 24")
	ingest.CompactAbove(j, 23)
	assert.True(t, bindCompacts(), "24 of 47 lines are outdated: more than half, and more than 23")
}

// The last line lacks only its newline, and the new file of a killed compaction is left. OpenJournal completes the one
// and removes the other.
func TestOpenJournal_LastNewlineMissing_AddsIt(t *testing.T) {
	t.Parallel()
	path, content := journalPath(t), written(t)
	require.NoError(t, os.WriteFile(path, bytes.TrimSuffix(content, []byte("\n")), 0o600))
	left := ingest.CompactedPath(path)
	require.NoError(t, os.WriteFile(left, []byte("half of it"), 0o600))
	require.NoError(t, openJournal(t, service, path).Close())
	got := read(t, path)
	assert.Equal(t, content, got)
	assert.NoFileExists(t, left)
}

func TestFileJournal_ConcurrentSaves_AreAllKept(t *testing.T) {
	t.Parallel()
	path := journalPath(t)
	j := openBound(t, path)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for n := worker; n < 400; n += 8 {
				put(t, j, n, ingest.StateCommitting)
				put(t, j, n, ingest.StateCreated)
				if n%100 == 0 {
					bind(t, j, service)
				}
			}
		})
	}
	all.Wait()
	require.NoError(t, j.Close())
	j = openBound(t, path)
	for n := range 400 {
		require.Equal(t, ingest.StateCreated, load(t, j, n).State)
	}
}

// The details of a lost create stay the same when later lines are read into the same buffer.
func TestOpenJournal_ManyLines_KeepsEachLoss(t *testing.T) {
	t.Parallel()
	path := journalPath(t)
	var content bytes.Buffer
	require.NoError(t, ingest.WriteJournal(&content, service, func(yield func(ingest.Entry) bool) {
		lost := entry(1, ingest.StateInDoubt)
		lost.Loss = []byte(`{"id":"synthetic"}`)
		yield(lost)
		for n := range 2000 { // more than a reader holds at a time
			yield(ingest.Entry{Key: key(n + 10), State: ingest.StateClaimed, At: lost.At})
		}
	}))
	require.NoError(t, os.WriteFile(path, content.Bytes(), 0o600))
	assert.JSONEq(t, `{"id":"synthetic"}`, string(load(t, openBound(t, path), 1).Loss))
}

// The user is unknown if the service does not show it. A refused token, or a service that cannot be asked now, is an
// error.
func TestOwnerOf_ServiceWithoutUser_ReturnsNoUser(t *testing.T) {
	t.Parallel()
	srv := newBox(t)
	for status, want := range map[int]error{
		403: nil, 404: nil, 401: clinicaldoc.ErrUnauthorized, 503: clinicaldoc.ErrServer,
	} {
		srv.ClearFaults()
		srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Answer(status, "synthetic").Always())
		owner, err := ingest.OwnerOf(t.Context(), srv.Client(quick()))
		require.ErrorIs(t, err, want, status)
		assert.Equal(t, err == nil, owner.Service != "")
		assert.Zero(t, owner.UserID)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := ingest.OwnerOf(ctx, srv.Client(quick()))
	require.ErrorIs(t, err, context.Canceled)
}
