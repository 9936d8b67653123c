package jetstream

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// The archives in testdata hold the storage folder of a NATS server to which earlier versions of this package wrote.
// The name is the format of the store. Format 1 has two notes in its journal and one recording in its queue. Format 2
// has two notes, a refused recording and an unresolved one, a queue with two recordings, and a dead letter.
func serverOfVersion(t *testing.T, version string) *server.Server {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", version+".tar.gz"))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	unzipped, err := gzip.NewReader(file)
	require.NoError(t, err)
	dir := t.TempDir()
	archive := tar.NewReader(unzipped)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return startServerIn(t, dir, 0)
		}
		require.NoError(t, err)
		if header.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(archive)
		require.NoError(t, err)
		path := filepath.Join(dir, filepath.FromSlash(header.Name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, content, 0o600))
	}
}

func TestEarlierVersion_StoreIsJoinedAndRemembers(t *testing.T) {
	t.Parallel()
	conn := connect(t, serverOfVersion(t, "format2"))
	f, err := joinUpgraded(t, conn)
	require.NoError(t, err)
	_, err = f.Journal().Bind(t.Context(), ingest.Owner{Service: service, UserID: 18})
	require.ErrorIs(t, err, ingest.ErrOtherUser)
	_, err = f.Journal().Bind(t.Context(), ingest.Owner{Service: service, UserID: 17})
	require.NoError(t, err)

	states := map[ingest.Key]ingest.State{}
	notes := map[ingest.Key]int64{}
	for entry, err := range f.Journal().Entries(t.Context()) {
		require.NoError(t, err)
		states[entry.Key] = entry.State
		notes[entry.Key] = entry.NoteID
		assert.Equal(t, uint32(7), entry.Patient)
	}
	assert.Equal(t, map[ingest.Key]ingest.State{
		key(1): ingest.StateCreated, key(2): ingest.StateRefused, key(3): ingest.StateInDoubt, key(4): ingest.StateCreated,
	}, states)
	assert.Equal(t, map[ingest.Key]int64{key(1): 11, key(2): 0, key(3): 0, key(4): 14}, notes)

	status, err := f.Status(t.Context())
	require.NoError(t, err)
	assert.Equal(t, [3]int{2, 1, 1}, [3]int{status.Waiting, status.Doubts, status.DeadLetters})
	buried := letters(t, f)
	require.Len(t, buried, 1)
	assert.Equal(t, "/var/spool/synthetic/0.wav", buried[0].Recording.File)
	require.NoError(t, f.Redrive(t.Context(), buried[0]))
	assert.Equal(t, 3, messages(t, f))
}

// A store of format 1 has no header. Begin must not create another fleet next to it, whose journal would be empty.
func TestEarlierVersion_StoreWithoutHeader_IsRejected(t *testing.T) {
	t.Parallel()
	conn := connect(t, serverOfVersion(t, "format1"))
	_, err := Join(t.Context(), conn, Params{})
	require.ErrorIs(t, err, ingest.ErrJournalVersion)
	require.ErrorContains(t, err, "written by another version of this program")
	_, err = Begin(t.Context(), conn, Params{})
	require.ErrorIs(t, err, ingest.ErrJournalVersion)
	require.ErrorIs(t, Repair(t.Context(), conn, Params{}), ingest.ErrJournalVersion)
}
