package clinicaldoc_test

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jarcoal/httpmock"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// shelf is a service that keeps notes and, if told so, loses the responses of creates. Its lists are numbered, newest first.
type shelf struct {
	t     *testing.T
	mu    sync.Mutex
	notes []shelved // in the order of their making
	lists int       // pages that were asked for
	users int       // how often the user was

	post    func(r *http.Request, sent shelved) (*http.Response, error) // nil: the response is lost, nothing is kept
	list    func(rows []string, r *http.Request) string                 // nil: numbered pages
	onList  func()                                                      // before each page
	fail    func(list int) int                                          // status of the list of that number; 0: it succeeds
	instead func(list int, r *http.Request) *http.Response              // of the list of that number; nil: it is given
	oldest  bool                                                        // first, whatever is asked for
	ahead   time.Duration                                               // of its clock
	zone    time.Duration                                               // its times are local, given as if they were UTC
	age     time.Duration                                               // in a cache, of every list
	noDate  bool
	noUser  bool // GET /user fails
	busy    int  // so often GET /user fails before it succeeds, in a way that passes
}

// shelved is a note of the shelf; what is zero is not told, but for the user, who is the client's.
type shelved struct {
	id            int64
	name          string
	patient, size int64 // -1: a patient without an id, -2: two patients
	user          int64 // -1: not told
	made          time.Time
}

const (
	shelfUser    = 2
	shelfPatient = 4711

	shelfRetryAfter = 30 * time.Second
)

func newShelf(t *testing.T) *shelf {
	t.Helper()
	return &shelf{t: t}
}

// visit is the note that the tests create: a name, a patient, five bytes of a recording.
func visit() clinicaldoc.CreateNoteParams {
	return clinicaldoc.CreateNoteParams{Name: "Visit", PatientID: shelfPatient, PromptID: 3, Audio: clinicaldoc.AudioBytes("a.wav", []byte("sound"))}
}

// visited is the note that visit makes, now.
func visited() shelved {
	return shelved{name: "Visit", patient: shelfPatient, size: 5, made: time.Now()}
}

func (n shelved) ago(d time.Duration) shelved { n.made = n.made.Add(-d); return n }

func (n shelved) named(name string) shelved { n.name = name; return n }

func (n shelved) sized(size int64) shelved { n.size = size; return n }

func (n shelved) by(user int64) shelved { n.user = user; return n }

// keep puts notes on the shelf and returns the last one's id.
func (s *shelf) keep(notes ...shelved) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range notes {
		n.id = int64(len(s.notes) + 1)
		s.notes = append(s.notes, n)
	}
	return int64(len(s.notes))
}

// change changes a note, or removes it.
func (s *shelf) change(id int64, how func(*shelved)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.notes {
		if s.notes[i].id == id {
			how(&s.notes[i])
		}
	}
}

func (s *shelf) client(opts ...clinicaldoc.Option) *clinicaldoc.Client {
	s.t.Helper()
	transport := httpmock.NewMockTransport()
	transport.RegisterNoResponder(httpmock.NewNotFoundResponder(s.t.Error))
	transport.RegisterResponder(http.MethodPost, testBase+notesPath, s.create)
	transport.RegisterResponder(http.MethodGet, testBase+notesPath, s.page)
	transport.RegisterResponder(http.MethodGet, `=~^`+testBase+notesPath+`/(\d+)$`, s.read)
	transport.RegisterResponder(http.MethodGet, testBase+"/user", func(r *http.Request) (*http.Response, error) {
		s.users++
		if s.users <= s.busy {
			return s.respond(r, http.StatusServiceUnavailable, `{"message":"Service Unavailable"}`), nil
		}
		if s.noUser {
			return s.respond(r, http.StatusForbidden, `{"message":"This action is unauthorized."}`), nil
		}
		return s.respond(r, http.StatusOK, fmt.Sprintf(`{"id":%d}`, shelfUser)), nil
	})
	return clientOn(s.t, &http.Client{Transport: transport}, opts...)
}

func (s *shelf) respond(r *http.Request, status int, body string) *http.Response {
	resp := httpmock.NewStringResponse(status, body)
	resp.Request = r
	resp.Header.Set("Content-Type", "application/json")
	if !s.noDate {
		resp.Header.Set("Date", time.Now().Add(s.ahead-s.age).UTC().Format(http.TimeFormat))
	}
	if s.age > 0 {
		resp.Header.Set("Age", strconv.Itoa(int(s.age.Seconds())))
	}
	return resp
}

func (s *shelf) create(r *http.Request) (*http.Response, error) {
	sent := shelved{}
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, err
	}
	for part, err := parts.NextPart(); err == nil; part, err = parts.NextPart() {
		content, err := io.ReadAll(part)
		if err != nil {
			return nil, err
		}
		switch part.FormName() {
		case "name":
			sent.name = string(content)
		case "patient_id":
			sent.patient, _ = strconv.ParseInt(string(content), 10, 64)
		case "file":
			sent.size = int64(len(content))
		}
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	if s.post == nil {
		return nil, io.ErrUnexpectedEOF
	}
	return s.post(r, sent)
}

// commit keeps a note that was sent and returns the response of its create.
func (s *shelf) commit(r *http.Request, sent shelved) *http.Response {
	sent.made = time.Now()
	sent.id = s.keep(sent)
	return s.respond(r, http.StatusCreated, s.json(sent))
}

func (s *shelf) json(n shelved) string {
	fields := []string{fmt.Sprintf(`"id":%d,"name":%q`, n.id, n.name)}
	switch {
	case n.patient == -1:
		fields = append(fields, `"patient":{"name":"not told"}`)
	case n.patient == -2:
		fields = append(fields, fmt.Sprintf(`"patient":{"id":%d},"patient_id":5`, shelfPatient))
	case n.patient > 0:
		fields = append(fields, fmt.Sprintf(`"patient":{"id":%d}`, n.patient))
	}
	if n.size != 0 {
		fields = append(fields, fmt.Sprintf(`"audio":{"size":%d}`, n.size))
	}
	if n.user >= 0 {
		fields = append(fields, fmt.Sprintf(`"user_id":%d`, cmp.Or(n.user, shelfUser)))
	}
	if !n.made.IsZero() {
		fields = append(fields, fmt.Sprintf(`"created_at":%q`, n.made.Add(s.ahead+s.zone).UTC().Format("2006-01-02T15:04:05.000000Z")))
	}
	return "{" + strings.Join(fields, ",") + "}"
}

func (s *shelf) read(r *http.Request) (*http.Response, error) {
	id := httpmock.MustGetSubmatchAsInt(r, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.notes {
		if n.id == id {
			return s.respond(r, http.StatusOK, s.json(n)), nil
		}
	}
	return s.respond(r, http.StatusNotFound, `{"message":"Resource not found"}`), nil
}

func (s *shelf) page(r *http.Request) (*http.Response, error) {
	if s.onList != nil {
		s.onList()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	if s.instead != nil {
		if resp := s.instead(s.lists, r); resp != nil {
			return resp, nil
		}
	}
	if s.fail != nil {
		if status := s.fail(s.lists); status != 0 {
			resp := s.respond(r, status, `{"message":"Canary"}`)
			resp.Header.Set("Retry-After", strconv.Itoa(int(shelfRetryAfter.Seconds())))
			return resp, nil
		}
	}
	notes := slices.Clone(s.notes)
	if patient := r.URL.Query().Get("patient_id"); patient != "" {
		notes = slices.DeleteFunc(notes, func(n shelved) bool { return n.patient != 0 && strconv.FormatInt(n.patient, 10) != patient })
	}
	notes = slices.DeleteFunc(notes, func(n shelved) bool { return n.id == 0 })
	slices.SortStableFunc(notes, func(a, b shelved) int { return a.made.Compare(b.made) })
	if !s.oldest {
		slices.Reverse(notes)
	}
	rows := make([]string, len(notes))
	for i, n := range notes {
		rows[i] = s.json(n)
	}
	if s.list == nil {
		return s.respond(r, http.StatusOK, numbered(rows, r)), nil
	}
	return s.respond(r, http.StatusOK, s.list(rows, r)), nil
}

func pageOf(r *http.Request) int {
	page, _ := strconv.Atoi(r.URL.Query().Get("page"))
	return page
}

// cut returns the rows of a page, of which the first has the number 0.
func cut(rows []string, page, size int) string {
	from := min(page*size, len(rows))
	return strings.Join(rows[from:min(from+size, len(rows))], ",")
}

func numbered(rows []string, r *http.Request) string {
	page := max(pageOf(r), 1)
	return fmt.Sprintf(`{"data":[%s],"links":{},"meta":{"current_page":%d,"last_page":%d,"total":%d}}`,
		cut(rows, page-1, 100), page, max(1, (len(rows)+99)/100), len(rows))
}

// lose makes a create whose response is lost.
func lose(t *testing.T, client *clinicaldoc.Client, params clinicaldoc.CreateNoteParams) *lostCreate {
	t.Helper()
	note, err := client.Notes.Create(t.Context(), params)
	require.Nil(t, note)
	var lost *lostCreate
	require.ErrorAs(t, err, &lost)
	return lost
}

// requireUndecided demands that nothing was decided, for that reason, and returns what can be asked again.
func requireUndecided(t *testing.T, note *clinicaldoc.ProgressNote, err error, reason string) *lostCreate {
	t.Helper()
	require.Nil(t, note)
	require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
	require.NotErrorIs(t, err, clinicaldoc.ErrNotCreated)
	require.ErrorContains(t, err, "clinicaldoc: Notes.FindCreated (GET /v1/progress-notes): cannot tell whether the note was created: ")
	require.ErrorContains(t, err, reason)
	var again *lostCreate
	require.ErrorAs(t, err, &again)
	return again
}

type (
	findParams = clinicaldoc.FindCreatedParams
	lostCreate = clinicaldoc.OutcomeUnknownError //nolint:errname // what it stands for in these tests
)

const defaultSettle = 10 * time.Minute

func ago(e *lostCreate, d time.Duration) {
	e.SentAt, e.LostAt = e.SentAt.Add(-d), e.LostAt.Add(-d)
}
