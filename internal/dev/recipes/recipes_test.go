package recipes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// Every file of a recipe is on its page: its code without the package clause, or a link. The page of recipes shows no
// other code.
func TestPages_ShowOrLinkEveryFile(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		page, files, clause string
		without             []string
		isComplete          bool
	}{
		{"docs/recipes.md", "*_test.go", "package recipes\n\n", []string{"recipes_test.go"}, true},
		{"docs/backends.md", "backend/*.go", "", []string{"backend/backend_test.go", "backend/doc.go"}, false},
	} {
		page := readText(t, "../../../"+test.page)
		shown := map[string]bool{}
		for _, block := range regexp.MustCompile("(?s)\n```go\n(.*?)```").FindAllStringSubmatch(page, -1) {
			shown[block[1]] = true
		}
		files, err := filepath.Glob(test.files)
		require.NoError(t, err)
		require.Greater(t, len(files), len(test.without))
		for _, file := range files {
			code := strings.TrimPrefix(readText(t, file), test.clause)
			isLinked := strings.Contains(page, "](../internal/dev/recipes/"+file+")")
			isThere := shown[code] || isLinked || slices.Contains(test.without, file)
			assert.True(t, isThere, "%s neither shows nor links %s", test.page, file)
			delete(shown, code)
		}
		assert.True(t, len(shown) == 0 || !test.isComplete, "%s shows %v", test.page, shown)
	}
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

func inBox(t *testing.T) *clinicaldoctest.Server {
	t.Helper()
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithDelays(clinicaldoctest.Delays{}))
	t.Cleanup(srv.Close)
	return srv
}

func TestLimiter_Goroutines_ShareIt(t *testing.T) {
	srv := inBox(t)
	t.Setenv(clinicaldoc.EnvBaseURL, srv.URL)
	t.Setenv(clinicaldoc.EnvToken, srv.Token)
	client, err := newLimitedClient(50)
	require.NoError(t, err)
	began := time.Now()
	var all sync.WaitGroup
	for range 15 {
		all.Go(func() {
			_, err := client.Users.Me(t.Context())
			assert.NoError(t, err)
		})
	}
	all.Wait()
	assert.GreaterOrEqual(t, time.Since(began), 190*time.Millisecond, "five at once, then one in 20 ms")
	assert.Len(t, srv.Requests(), 15)
}

func TestCountCalls_CountsOutcomes(t *testing.T) {
	t.Parallel()
	srv := inBox(t)
	registry := prometheus.NewRegistry()
	client := srv.Client(clinicaldoc.WithHooks(countCalls(registry)), clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{}))
	_, err := client.Users.Me(t.Context())
	require.NoError(t, err)
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(http.StatusBadGateway, ""))
	_, err = client.Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: "synthetic", PatientID: 7})
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP clinicaldoc_outcomes_unknown_total Calls that may have acted.
# TYPE clinicaldoc_outcomes_unknown_total counter
clinicaldoc_outcomes_unknown_total{operation="Notes.Create"} 1
`), "clinicaldoc_outcomes_unknown_total"))
	count, err := testutil.GatherAndCount(registry, "clinicaldoc_call_seconds")
	require.NoError(t, err)
	assert.Equal(t, 2, count, "one series for each end")
}

// visit is a note's life.
func visit(ctx context.Context, client *clinicaldoc.Client) (*clinicaldoc.ProgressNote, error) {
	note, err := client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{
		Name: "synthetic", PatientID: 7, PromptID: 1, Audio: clinicaldoc.AudioBytes("visit.wav", []byte("synthetic audio")),
	})
	if err != nil {
		return nil, err
	}
	return client.Notes.Wait(ctx, note.ID, clinicaldoc.WaitParams{})
}

func TestOnTape_ReplaysWithoutAService(t *testing.T) {
	t.Parallel()
	tape := filepath.Join(t.TempDir(), "visit")
	srv := clinicaldoctest.NewServer(clinicaldoctest.WithDelays(clinicaldoctest.Delays{}))
	client, stop, err := onTape(tape, srv.URL, srv.Token)
	require.NoError(t, err)
	recorded, err := visit(t.Context(), client)
	require.NoError(t, err)
	require.NoError(t, stop())
	token := srv.Token
	srv.Close()
	kept, err := os.ReadFile(tape + ".yaml")
	require.NoError(t, err)
	assert.NotContains(t, string(kept), token)

	client, stop, err = onTape(tape, "http://127.0.0.1:9", "another")
	require.NoError(t, err)
	replayed, err := visit(t.Context(), client)
	require.NoError(t, err)
	require.NoError(t, stop())
	assert.Equal(t, recorded.ID, replayed.ID)
	assert.Equal(t, recorded.Transcription, replayed.Transcription)
	_, err = client.Notes.Get(t.Context(), 999)
	require.Error(t, err, "what is not on the tape is not made up")
}

func TestWriteParquet_EveryNote_IsARow(t *testing.T) {
	t.Parallel()
	srv := inBox(t)
	for range 120 {
		srv.AddNote(clinicaldoctest.Note{PatientID: 7, Transcription: "synthetic canary", Audio: []byte("synthetic audio")})
	}
	var file bytes.Buffer
	require.NoError(t, writeParquet(t.Context(), srv.Client(), &file))
	rows, err := parquet.Read[noteRow](bytes.NewReader(file.Bytes()), int64(file.Len()))
	require.NoError(t, err)
	require.Len(t, rows, 120)
	assert.Equal(t, "complete", rows[0].Stage)
	assert.WithinDuration(t, srv.Now(), rows[0].Created, time.Hour)
	assert.NotContains(t, file.String(), "canary")

	srv.Inject(clinicaldoctest.RouteListNotes, clinicaldoctest.Answer(http.StatusInternalServerError, "").After(1).Always())
	file.Reset()
	require.ErrorIs(t, writeParquet(t.Context(), srv.Client(clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{})), &file), clinicaldoc.ErrServer)
	_, err = parquet.Read[noteRow](bytes.NewReader(file.Bytes()), int64(file.Len()))
	require.Error(t, err, "half an export cannot be read")
}

func TestOverdue_Fake_NeedsNoServer(t *testing.T) {
	t.Parallel()
	deadline := time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)
	complete := clinicaldoc.Completion{Transcription: true, Content: true}
	ids, err := overdue(t.Context(), listed{
		{ID: 1, Has: complete, AnalysisCompletedAt: deadline.Add(-time.Hour)},
		{ID: 2, Has: complete, AnalysisCompletedAt: deadline.Add(time.Hour)},
		{ID: 3, CreatedAt: deadline.Add(-time.Hour)},
	}, deadline)
	require.NoError(t, err)
	assert.Equal(t, []int64{1}, ids)
	var _ lister = (*clinicaldoc.NotesService)(nil)
}

func TestDownload_Sum_IsOfWhatWasWritten(t *testing.T) {
	t.Parallel()
	srv := inBox(t)
	recording := bytes.Repeat([]byte("synthetic audio "), 20_000)
	id := srv.AddNote(clinicaldoctest.Note{Audio: recording})
	srv.Inject(clinicaldoctest.RouteAudio, clinicaldoctest.Truncate(100_000))
	var file bytes.Buffer
	sum, err := download(t.Context(), srv.Client(), id, &file)
	require.NoError(t, err)
	want := sha256.Sum256(recording)
	assert.Equal(t, hex.EncodeToString(want[:]), sum)
	assert.Equal(t, fmt.Sprintf("%x", want), fmt.Sprintf("%x", sha256.Sum256(file.Bytes())))
}

// auditEventsFile names the file that the events of TestAuditEvents_DescribeEachAccess are written to, for the check against R4.
const auditEventsFile = "CLINICALDOC_AUDIT_EVENTS"

func TestAuditEvents_DescribeEachAccess(t *testing.T) {
	t.Parallel()
	srv := inBox(t)
	id := srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: "Synthetic visit"})
	var events []json.RawMessage
	store := func(_ context.Context, event []byte) error {
		events = append(events, event)
		return nil
	}
	client := srv.Client(clinicaldoc.WithAudit(auditEvents(srv.URL, store)))
	ctx := context.WithValue(t.Context(), userKey{}, "Practitioner/5")
	_, err := client.Notes.List(ctx, clinicaldoc.ListNotesParams{})
	require.NoError(t, err)
	_, err = client.Notes.Get(t.Context(), id)
	require.NoError(t, err)
	_, err = client.Notes.AudioURL(ctx, id)
	require.NoError(t, err)
	_, err = client.Notes.Update(ctx, id, clinicaldoc.UpdateNoteParams{Analysis: new("reviewed")})
	require.NoError(t, err)
	_, err = client.Notes.Delete(ctx, id)
	require.NoError(t, err)
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
	params := clinicaldoc.CreateNoteParams{PatientID: 7, PromptID: 1, Audio: clinicaldoc.AudioBytes("a.wav", []byte("RIFF synthetic"))}
	_, err = client.Notes.Create(ctx, params)
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)

	var actions []any
	for _, event := range events {
		var decoded object
		require.NoError(t, json.Unmarshal(event, &decoded))
		actions = append(actions, decoded["action"])
	}
	assert.Equal(t, []any{"E", "R", "R", "U", "D", "C"}, actions)
	if path := os.Getenv(auditEventsFile); path != "" {
		text, err := json.Marshal(events)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, text, 0o600))
	}
}

func TestAuditFile_RotatesAndLosesNoLine(t *testing.T) {
	t.Parallel()
	srv := inBox(t)
	for range 40 {
		srv.AddNote(clinicaldoctest.Note{PatientID: 7})
	}
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	trail := &auditFile{path: path, most: 2000, user: func(context.Context) string { return "clinician 5" }}
	client := srv.Client(clinicaldoc.WithAudit(trail.audit))
	var workers sync.WaitGroup
	for range 3 {
		workers.Go(func() {
			notes, err := clinicaldoc.Collect(client.Notes.All(t.Context(), clinicaldoc.ListNotesParams{PerPage: 10}))
			if assert.NoError(t, err) {
				assert.Len(t, notes, 40)
			}
		})
	}
	workers.Wait()
	require.NoError(t, trail.file.Close())
	files, err := filepath.Glob(path + "*")
	require.NoError(t, err)
	assert.Greater(t, len(files), 5)
	count := map[int64]int{}
	for _, file := range files {
		info, err := os.Stat(file)
		require.NoError(t, err)
		assert.LessOrEqual(t, info.Size(), int64(2000))
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			var decoded auditLine
			require.NoError(t, json.Unmarshal([]byte(line), &decoded))
			assert.Equal(t, "clinician 5", decoded.User)
			assert.EqualValues(t, 7, decoded.PatientID)
			count[decoded.NoteID]++
		}
	}
	assert.Len(t, count, 40)
	for note, lines := range count {
		assert.Equal(t, 3, lines, note)
	}
}

// A disk that takes no line gives out no note.
func TestAuditFile_CannotBeWritten_WithholdsTheNote(t *testing.T) {
	t.Parallel()
	srv := inBox(t)
	id := srv.AddNote(clinicaldoctest.Note{})
	missing := filepath.Join(t.TempDir(), "missing", "audit.jsonl")
	trail := &auditFile{path: missing, most: 2000, user: func(context.Context) string { return "" }}
	note, err := srv.Client(clinicaldoc.WithAudit(trail.audit)).Notes.Get(t.Context(), id)
	assert.Nil(t, note)
	require.ErrorIs(t, err, clinicaldoc.ErrNotAudited)
	require.ErrorIs(t, err, os.ErrNotExist)
}
