package command

import (
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/cmd/clinicaldoc/internal/progress"
	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/fileheader"
)

// exporting is an export of three notes of patient 7, which were changed a week ago.
func exporting(t *testing.T) (*exportOptions, *clinicaldoctest.Server, *console) {
	t.Helper()
	srv := newServer(t)
	for range 3 {
		srv.AddNote(clinicaldoctest.Note{PatientID: 7, CreatedAt: time.Now().AddDate(0, 0, -7)})
	}
	env, shown := newEnv(srv)
	return &exportOptions{Env: env, path: filepath.Join(t.TempDir(), "notes.jsonl"), patient: 7, workers: 1}, srv, shown
}

func TestExport_NoteCannotBeRead_WritesNothing(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]clinicaldoctest.Fault{
		"forbidden":       clinicaldoctest.Answer(http.StatusForbidden, `{"message":"no"}`),
		"another patient": clinicaldoctest.Answer(http.StatusOK, `{"id":2,"name":"n","patient":{"id":8}}`),
	} {
		o, srv, _ := exporting(t)
		srv.Inject(clinicaldoctest.RouteGetNote, fault.After(1))
		require.Error(t, o.run(t.Context()), name)
		assert.NoFileExists(t, o.path, name)
		srv.ForgetRequests()

		require.NoError(t, o.run(t.Context()), name)
		assert.Equal(t, 2, requestsTo(srv, clinicaldoctest.RouteGetNote), "what was read is not read again")
		text, err := os.ReadFile(o.path)
		require.NoError(t, err)
		assert.Equal(t, 3, strings.Count(string(text), "\n"))
		info, err := os.Stat(o.path)
		require.NoError(t, err)
		if runtime.GOOS != "windows" {
			assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
		}
		assert.NoFileExists(t, partPath(o.path))
	}
}

// If a note is deleted while the list is read, the notes after it move to an earlier page. A service without a total
// does not show that one of them is missing.
func TestExport_PagesShift_HasEachNote(t *testing.T) {
	t.Parallel()
	var srv *clinicaldoctest.Server
	var isDeleted atomic.Bool
	simple := clinicaldoctest.WithVariant(clinicaldoctest.Variant{Pagination: clinicaldoctest.PaginationSimple})
	srv = newServer(t, simple, clinicaldoctest.WithMiddleware(func(api http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("page") == "2" && isDeleted.CompareAndSwap(false, true) {
				_, err := srv.Client().Notes.Delete(r.Context(), 1)
				assert.NoError(t, err)
			}
			api.ServeHTTP(w, r)
		})
	}))
	for range 102 {
		srv.AddNote(clinicaldoctest.Note{CreatedAt: srv.Now().Add(-time.Hour)})
	}
	env, _ := newEnv(srv)
	path := filepath.Join(t.TempDir(), "notes.jsonl")
	require.NoError(t, (&exportOptions{Env: env, path: path, workers: 4}).run(t.Context()))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, 101, strings.Count(string(text), "\n"))
	assert.Contains(t, string(text), `"id":101,`, "it moved to the page that was read already")
}

// totals keeps what the last row of the progress showed.
type totals struct {
	progress.Reporter
	shown []string
}

func (s *totals) Total(text string) { s.shown = append(s.shown, text) }

// The progress of an export that goes on begins with what an earlier one has read.
func TestExport_GoesOn_CountsWhatWasRead(t *testing.T) {
	t.Parallel()
	o, srv, _ := exporting(t)
	srv.Inject(clinicaldoctest.RouteGetNote, clinicaldoctest.Answer(http.StatusForbidden, `{"message":"no"}`).After(1))
	require.Error(t, o.run(t.Context()))

	client, user, err := o.me(t.Context())
	require.NoError(t, err)
	part, err := openPart(o.path, fileheader.Header{
		Kind: partKind, Version: 1, Service: exchange.Service(client.BaseURL()), UserID: user.ID,
	})
	require.NoError(t, err)
	defer part.close()
	rows, err := o.list(t.Context(), client)
	require.NoError(t, err)
	show := &totals{}
	require.NoError(t, o.read(t.Context(), client, part, rows, show))
	assert.Equal(t, []string{"2/3 notes", "3/3 notes"}, show.shown)
}

func TestExport_NoteDeletedMeanwhile_IsCounted(t *testing.T) {
	t.Parallel()
	var srv *clinicaldoctest.Server
	var isDeleted atomic.Bool
	srv = newServer(t, clinicaldoctest.WithMiddleware(func(api http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/2") && isDeleted.CompareAndSwap(false, true) {
				_, err := srv.Client().Notes.Delete(r.Context(), 2)
				assert.NoError(t, err)
			}
			api.ServeHTTP(w, r)
		})
	}))
	for range 3 {
		srv.AddNote(clinicaldoctest.Note{})
	}
	env, shown := newEnv(srv)
	path := filepath.Join(t.TempDir(), "notes.jsonl")
	require.NoError(t, (&exportOptions{Env: env, path: path, workers: 1}).run(t.Context()))
	assert.Contains(t, shown.err.String(), "2 notes\n1 more was deleted during the export\n")
}

var updatedAt = regexp.MustCompile(`("updated_at":"[0-9]{4}-[0-9]{2}-[0-9]{2})[^"]*"`)

// datesAlone makes a service send the day of a change, without its time.
func datesAlone(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorded := httptest.NewRecorder()
		api.ServeHTTP(recorded, r)
		maps.Copy(w.Header(), recorded.Header())
		w.Header().Del("Content-Length")
		w.WriteHeader(recorded.Code)
		_, _ = w.Write(updatedAt.ReplaceAll(recorded.Body.Bytes(), []byte(`$1"`)))
	})
}

// The note is changed on the day on which the interrupted export had read it, and has the same date.
func TestExport_DatesAlone_ReadsChangedNoteAgain(t *testing.T) {
	t.Parallel()
	srv := newServer(t, clinicaldoctest.WithMiddleware(datesAlone))
	for range 2 {
		srv.AddNote(clinicaldoctest.Note{CreatedAt: time.Now().Add(-time.Hour)})
	}
	env, _ := newEnv(srv)
	o := &exportOptions{Env: env, path: filepath.Join(t.TempDir(), "notes.jsonl"), workers: 1}
	srv.Inject(clinicaldoctest.RouteGetNote, clinicaldoctest.Answer(http.StatusForbidden, `{"message":"no"}`).After(1))
	require.Error(t, o.run(t.Context()))
	texts := clinicaldoc.UpdateNoteParams{Analysis: new("corrected")}
	_, err := srv.Client().Notes.Update(t.Context(), 1, texts)
	require.NoError(t, err)
	require.NoError(t, o.run(t.Context()))
	text, err := os.ReadFile(o.path)
	require.NoError(t, err)
	assert.Contains(t, string(text), "corrected")
}

// Lists and notes may come from different copies of the service's data, of which one lags.
func TestExport_NotesLagBehindTheList_WritesNoOlderVersion(t *testing.T) {
	t.Parallel()
	lag := clinicaldoctest.Lagging(10 * time.Second)
	for name, change := range map[string]func(*testing.T, *clinicaldoctest.Server){
		"changed note": func(t *testing.T, srv *clinicaldoctest.Server) {
			t.Helper()
			texts := clinicaldoc.UpdateNoteParams{Analysis: new("corrected")}
			_, err := srv.Client().Notes.Update(t.Context(), 1, texts)
			require.NoError(t, err)
		},
		"new note": func(_ *testing.T, srv *clinicaldoctest.Server) {
			srv.AddNote(clinicaldoctest.Note{PatientID: 7, Analysis: "corrected"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, srv, shown := exporting(t)
			change(t, srv)
			listed := len(srv.Notes())
			srv.Inject(clinicaldoctest.RouteGetNote, lag.Always())
			require.ErrorIs(t, o.run(t.Context()), errBehind)
			assert.NoFileExists(t, o.path)

			// do: run the same command again later; it continues
			srv.ClearFaults()
			srv.Inject(clinicaldoctest.RouteGetNote, lag.Times(1)) // as if the copy caught up meanwhile
			require.NoError(t, o.run(t.Context()))
			text, err := os.ReadFile(o.path)
			require.NoError(t, err)
			assert.Equal(t, listed, strings.Count(string(text), "\n"))
			assert.Equal(t, 1, strings.Count(string(text), "corrected"))
			assert.NotContains(t, shown.err.String(), "deleted")
		})
	}
}
