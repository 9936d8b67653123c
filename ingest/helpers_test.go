package ingest_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

func TestMain(m *testing.M) {
	runIfLife()
	// the heap is small, so that the collector would run without end
	debug.SetGCPercent(400)
	if err := flag.Set("test.parallel", "16"); err != nil { // they wait for disks, processes and time
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func newBox(t *testing.T, opts ...clinicaldoctest.Option) *clinicaldoctest.Server {
	t.Helper()
	srv := clinicaldoctest.NewServer(opts...)
	t.Cleanup(srv.Close)
	return srv
}

// quick waits little between attempts.
func quick() clinicaldoc.Option {
	return clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 1, MinWait: 1, MaxWait: 1})
}

// openJournal opens the service's journal and begins it if there is none.
func openJournal(t *testing.T, baseURL, path string) *ingest.FileJournal {
	t.Helper()
	j, err := openOrBegin(t.Context(), baseURL, path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func openOrBegin(ctx context.Context, baseURL, path string) (*ingest.FileJournal, error) {
	j, err := ingest.OpenJournal(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return ingest.BeginJournal(ctx, path, ingest.Owner{Service: ingest.ServiceName(baseURL)})
	}
	return j, err
}

// inVirtualTime runs a test in virtual time, with a fake server and the path of a journal that does not exist yet.
func inVirtualTime(t *testing.T, test func(t *testing.T, srv *clinicaldoctest.Server, path string)) {
	t.Helper()
	path := journalPath(t)
	synctest.Test(t, func(t *testing.T) {
		srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess())
		defer srv.Close()
		test(t, srv, path)
	})
}

// withJournal runs a test in virtual time, with a fake server and a new journal. It checks the entries of the journal
// afterwards.
func withJournal(t *testing.T, test func(t *testing.T, srv *clinicaldoctest.Server, journal *ingest.FileJournal)) {
	t.Helper()
	inVirtualTime(t, func(t *testing.T, srv *clinicaldoctest.Server, path string) {
		journal, err := openOrBegin(t.Context(), srv.URL, path)
		require.NoError(t, err)
		test(t, srv, journal)
		require.NoError(t, journal.Close())
		checkEntries(t, path)
	})
}

// checkEntries looks whether what a journal says of each recording fits together: nothing is left of the states before.
func checkEntries(t *testing.T, path string) {
	t.Helper()
	_, entries, err := ingest.ReadJournal(t.Context(), path)
	require.NoError(t, err)
	for _, e := range entries {
		assert.WithinRange(t, e.At, e.SentAt, time.Now(), e)
		if e.State == ingest.StateCommitting && len(e.Loss) > 0 {
			assert.JSONEq(t, `{"user_unknown":true}`, string(e.Loss), e)
			continue
		}
		if e.State != ingest.StateInDoubt {
			assert.Empty(t, e.Loss, e)
			assert.Zero(t, e.Until, e)
		}
		assert.Equal(t, e.State == ingest.StateCreated, !e.NoteCreatedAt.IsZero(), e)
		isOpen := e.State == ingest.StateRefused || e.State == ingest.StateInDoubt
		assert.Equal(t, isOpen && e.By == "" || e.Stage == clinicaldoc.StageFailed, e.Why != "", e)
		if e.State == ingest.StateClaimed {
			continue
		}
		switch sent := !e.SentAt.IsZero(); e.State {
		case ingest.StateCreated:
			assert.Positive(t, e.NoteID, e)
			assert.NotEmpty(t, e.SHA256, e)
			assert.True(t, sent, e)
			assert.True(t, e.Found || e.By == "", "no response named what a person found: %v", e)
		case ingest.StateInDoubt:
			assert.Equal(t, sent, !e.Until.IsZero(), e)
			assert.True(t, !sent || len(e.Loss) > 0, e)
		default:
			assert.Zero(t, e.NoteID, e)
		}
		if e.SentAt.IsZero() && len(e.Loss) > 0 { // it was not sent, but there are notes that it may have
			assert.NotEmpty(t, e.Candidates(), e)
			continue
		}
		for name, value := range lossOf(t, e) {
			assert.NotContains(t, []string{"params", "error"}, name, value)
			if name == "candidates" {
				assert.NotEmpty(t, value)
				continue
			}
			mayBeZero := slices.Contains([]string{"note_id", "user_id", "service"}, name)
			assert.True(t, value != 0.0 && value != "" || mayBeZero, "what is not known is left out: %s", name)
		}
	}
}

// lossOf is what an entry tells of a lost create.
func lossOf(t *testing.T, e ingest.Entry) (members map[string]any) {
	t.Helper()
	if len(e.Loss) > 0 {
		require.NoError(t, json.Unmarshal(e.Loss, &members))
		assert.NotEmpty(t, members["id"], "by which the client knows it")
		assert.Equal(t, e.SentAt.UTC().Format(time.RFC3339Nano), members["sent_at"])
	}
	if len(e.Loss) > 0 && e.SHA256 != "" {
		assert.Equal(t, e.SHA256, members["audio_sha256"])
	}
	return members
}

func bind(t *testing.T, j *ingest.FileJournal, service string) {
	t.Helper()
	_, err := j.Bind(t.Context(), ingest.Owner{Service: service})
	assert.NoError(t, err)
}

func journalPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "uploads.journal")
}

// sound is a synthetic recording of its own content.
func sound(n int) []byte {
	return fmt.Appendf(nil, "RIFF synthetic recording %d %s", n, make([]byte, n%7))
}

// recordings are synthetic ones in memory, from the first number to before the last.
func recordings(first, last int) iter.Seq2[ingest.Recording, error] {
	return func(yield func(ingest.Recording, error) bool) {
		for n := first; n < last; n++ {
			if !yield(recording(n), nil) {
				return
			}
		}
	}
}

func recording(n int) ingest.Recording {
	return ingest.Recording{
		Key: fmt.Sprintf("recording %d", n),
		Params: clinicaldoc.CreateNoteParams{
			Name: fmt.Sprintf("Encounter #%d.", n), PatientID: int64(1 + n%3), PromptID: 1,
			Audio: clinicaldoc.AudioBytes("a.wav", sound(n)),
		},
	}
}

// files writes recordings into a new folder.
func files(t *testing.T, count int) []string {
	t.Helper()
	dir := t.TempDir()
	paths := make([]string, count)
	for n := range paths {
		paths[n] = filepath.Join(dir, fmt.Sprintf("recording-%d.wav", n))
		require.NoError(t, os.WriteFile(paths[n], sound(n), 0o600))
	}
	return paths
}

func paramsOf(path string) clinicaldoc.CreateNoteParams {
	return clinicaldoc.CreateNoteParams{Name: filepath.Base(path), PatientID: 7, PromptID: 1}
}

// collect runs the uploader to its end and returns the results by key.
func collect(ctx context.Context, u *ingest.Uploader, recordings iter.Seq2[ingest.Recording, error]) (results []ingest.Result, failure error) {
	for result, err := range u.Run(ctx, recordings) {
		if err != nil {
			return results, err
		}
		results = append(results, result)
	}
	return results, nil
}

func statuses(results []ingest.Result) map[ingest.Status]int {
	counts := map[ingest.Status]int{}
	for _, r := range results {
		counts[r.Status]++
	}
	return counts
}

func noteNames(srv *clinicaldoctest.Server) []string {
	var names []string
	for _, note := range srv.Notes() {
		names = append(names, note.Name)
	}
	slices.Sort(names)
	return names
}
