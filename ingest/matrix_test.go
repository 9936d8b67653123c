package ingest_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

const (
	matrixRecordings = 6 // each of which becomes a note, and one of them a letter too
	matrixKnown      = 3 // to a journal that is restored from a backup
)

// matrixService is a service of the matrix: what it does before the first night, and between the nights.
type matrixService struct {
	first   func(t *testing.T, m *matrixCell, odd bool) // for the recordings with even or odd numbers
	between func(t *testing.T, m *matrixCell)
}

var matrixServices = map[string]matrixService{
	"keeps recordings": {},
	"re-encodes": {first: func(_ *testing.T, m *matrixCell, _ bool) {
		m.srv.SetVariant(clinicaldoctest.Variant{Audio: clinicaldoctest.AudioReencoded})
	}},
	"re-encodes later": {between: func(_ *testing.T, m *matrixCell) { m.reencodes.Store(true) }},
	"re-encodes one format": {first: func(_ *testing.T, m *matrixCell, odd bool) {
		if odd {
			m.srv.SetVariant(clinicaldoctest.Variant{})
			return
		}
		m.srv.SetVariant(clinicaldoctest.Variant{Audio: clinicaldoctest.AudioReencoded})
	}},
	"hides recordings": {first: func(_ *testing.T, m *matrixCell, odd bool) {
		if !odd {
			m.srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(403, "synthetic").Always())
		}
	}},
	"renames notes": {between: func(t *testing.T, m *matrixCell) {
		for _, note := range m.srv.Notes() {
			name := fmt.Sprint("Renamed ", note.ID)
			_, err := m.srv.Client().Notes.Update(t.Context(), note.ID, clinicaldoc.UpdateNoteParams{Name: &name})
			require.NoError(t, err)
		}
	}},
	"recordings expire": {
		first: func(_ *testing.T, m *matrixCell, _ bool) {
			m.srv.SetVariant(clinicaldoctest.Variant{AudioRetention: time.Hour})
		},
		between: func(_ *testing.T, m *matrixCell) { m.srv.Advance(2 * time.Hour) },
	},
	"fails to process": {first: func(_ *testing.T, m *matrixCell, odd bool) {
		if !odd {
			m.srv.ScriptNext(failure())
		}
	}},
	"processes late": {
		first: func(_ *testing.T, m *matrixCell, _ bool) {
			m.srv.SetDelays(clinicaldoctest.Delays{Transcribing: 10 * time.Hour})
		},
		between: func(_ *testing.T, m *matrixCell) { m.srv.Advance(24 * time.Hour) },
	},
}

// matrixJournals are what becomes of the journal between the nights. Each returns the path of the journal of the second
// night.
var matrixJournals = map[string]func(t *testing.T, m *matrixCell) (path string){
	"complete": func(_ *testing.T, m *matrixCell) string { return m.path },
	"lost":     func(t *testing.T, _ *matrixCell) string { return journalPath(t) },
	"restored": func(t *testing.T, m *matrixCell) string {
		require.NoError(t, os.WriteFile(m.path, m.backup, 0o600))
		return m.path
	},
	// of another place, which knows other recordings of the patients
	"foreign": func(t *testing.T, m *matrixCell) string {
		path := journalPath(t)
		m.run(t, path, recordings(100, 103))
		return path
	},
	"of 0.2.0": func(t *testing.T, m *matrixCell) string {
		downgrade(t, m.path)
		return m.path
	},
}

var laterFields = regexp.MustCompile(` (stage|replaced|excluded)=\S+`)

// downgrade makes a journal what the version before stages wrote.
func downgrade(t *testing.T, path string) {
	t.Helper()
	rewrite(t, path, func(text string) string {
		text = strings.Replace(text, "clinicaldoc-ingest 3 ", "clinicaldoc-ingest 2 ", 1)
		return laterFields.ReplaceAllString(text, "")
	})
}

// rewrite changes the text of each line of a journal.
func rewrite(t *testing.T, path string, change func(text string) string) {
	t.Helper()
	content := read(t, path)
	sum := ""
	var written strings.Builder
	for line := range strings.Lines(string(content)) {
		_, text, found := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		require.True(t, found)
		line := ingest.Line(sum, change(text))
		sum = line[:8]
		written.WriteString(line)
	}
	require.NoError(t, os.WriteFile(path, []byte(written.String()), 0o600))
}

// matrixCell is a service and a journal.
type matrixCell struct {
	srv       *clinicaldoctest.Server
	reencodes atomic.Bool // from now on, what was uploaded before too
	path      string
	backup    []byte // of the journal, as it was in the middle of the first night
}

// wanted are the recordings of both nights. One of them is wanted as two notes.
func (m *matrixCell) wanted(first, last int) (list []ingest.Recording) {
	for n := first; n < last; n++ {
		r := recording(n)
		if n%2 == 1 {
			r.Params.Audio = clinicaldoc.AudioBytes("a.mp3", sound(n))
		}
		list = append(list, r)
		if n == matrixRecordings-1 {
			list = append(list, letterOf(r))
		}
	}
	return list
}

func (m *matrixCell) run(t *testing.T, path string, list func(func(ingest.Recording, error) bool)) *ingest.Report {
	t.Helper()
	journal, err := openOrBegin(t.Context(), m.srv.URL, path)
	require.NoError(t, err)
	u := &ingest.Uploader{Client: m.srv.Client(quick()), Journal: journal, Workers: 1, MaxWait: -1}
	report := u.RunAll(t.Context(), list)
	require.NoError(t, report.Err)
	require.NoError(t, journal.Close())
	return report
}

// firstNight uploads everything, with a backup of the journal on the way.
func (m *matrixCell) firstNight(t *testing.T, service matrixService) {
	t.Helper()
	for n, r := range m.wanted(0, matrixRecordings) {
		if service.first != nil {
			service.first(t, m, n%2 == 1)
		}
		m.run(t, m.path, ingest.Recordings(r))
		if n == matrixKnown-1 {
			backup := read(t, m.path)
			m.backup = backup
		}
	}
	require.Len(t, m.srv.Created(), matrixRecordings+1)
}

// alter is the service behind what re-encodes recordings some time after their upload.
func (m *matrixCell) alter(next http.Handler) http.Handler {
	sizes := regexp.MustCompile(`"size":(\d+)`)
	const more = 64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !m.reencodes.Load() || r.Method != http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		r.Header.Del("Range")
		r.Header.Del("Accept-Encoding")
		recorder := httptest.NewRecorder()
		next.ServeHTTP(recorder, r)
		body := recorder.Body.Bytes()
		if strings.HasPrefix(r.URL.Path, "/audio/") {
			body = append(body, make([]byte, more)...)
		}
		body = sizes.ReplaceAllFunc(body, func(found []byte) []byte {
			size, _ := strconv.Atoi(string(bytes.TrimPrefix(found, []byte(`"size":`))))
			return fmt.Appendf(nil, `"size":%d`, size+more)
		})
		maps.Copy(w.Header(), recorder.Header())
		w.Header().Del("Content-Length")
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(body)
	})
}

// matrixRow is what became of the recordings of a cell.
type matrixRow struct {
	service, journal                         string
	notes                                    int // that were made of the recordings
	complete, processing, failed, unresolved int
	doubled, wrong, forgotten                int
}

func (r matrixRow) String() string {
	return fmt.Sprintf("%-22s %-9s %6d %9d %11d %7d %11d %8d %6d %10d", r.service, r.journal, r.notes, r.complete, r.processing,
		r.failed, r.unresolved, r.doubled, r.wrong, r.forgotten)
}

const matrixTitle = "service                journal     notes  complete  processing  failed  unresolved  doubled  wrong  forgotten"

// judge compares the results of a night with what the service made.
func (m *matrixCell) judge(row *matrixRow, results []ingest.Result) {
	made := map[string]int{}
	byID := map[int64]string{}
	for _, creation := range m.srv.Created() {
		what := creation.Name + " " + creation.AudioSHA256
		made[what]++
		byID[creation.NoteID] = what
	}
	for _, result := range results {
		own := result.Recording.Params.Name + " " + sumOf(result.Recording)
		row.notes += made[own]
		if made[own] > 1 {
			row.doubled++
		}
		isUnexplained := result.Err == nil
		switch result.Status {
		case ingest.Complete:
			row.complete++
			isUnexplained = false
		case ingest.Processing:
			row.processing++
		case ingest.Failed:
			row.failed++
		case ingest.InDoubt:
			row.unresolved++
			isUnexplained = isUnexplained || len(result.Candidates) == 0
		default:
			isUnexplained = true
		}
		if isUnexplained {
			row.forgotten++
		}
		if result.NoteID != 0 && result.Status != ingest.InDoubt && byID[result.NoteID] != own {
			row.wrong++
		}
	}
}

// No recording becomes two notes, and none is taken for another, whatever the service does and whatever happens to the
// journal. Each recording ends as complete, in processing, failed with a reason, or unresolved with candidates.
func TestRunAll_EveryServiceAndJournal_DoublesNothing(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var rows []matrixRow
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		for service, does := range matrixServices {
			for journal, becomes := range matrixJournals {
				t.Run(service+", journal "+journal, func(t *testing.T) {
					t.Parallel()
					m := &matrixCell{path: journalPath(t)}
					m.srv = newBox(t, clinicaldoctest.WithMiddleware(m.alter))
					m.srv.SetDelays(clinicaldoctest.Delays{})
					m.firstNight(t, does)
					if does.between != nil {
						does.between(t, m)
					}
					path := becomes(t, m)
					row := matrixRow{service: service, journal: journal}
					for range 2 { // and the night after
						row = matrixRow{service: service, journal: journal}
						report := m.run(t, path, ingest.Recordings(m.wanted(0, matrixRecordings)...))
						assert.Len(t, report.Results, matrixRecordings+1)
						m.judge(&row, report.Results)
						assert.Zero(t, row.doubled, "%s", row)
						assert.Zero(t, row.wrong, "%s", row)
						assert.Zero(t, row.forgotten, "%s", row)
						assert.Equal(t, matrixRecordings+1, row.notes, "%s", row)
					}
					mu.Lock()
					defer mu.Unlock()
					rows = append(rows, row)
				})
			}
		}
	})
	t.Cleanup(func() {
		slices.SortFunc(rows,
			func(a, b matrixRow) int { return strings.Compare(a.service+a.journal, b.service+b.journal) })
		t.Log(matrixTitle)
		for _, row := range rows {
			t.Log(row)
		}
	})
}
