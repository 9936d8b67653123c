package simulation

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// The marks stand in all that nobody may print.
const (
	nameMark   = "Zebra"
	textMark   = "Quokka"
	firstToken = "1|first-Numbat"
	otherToken = "2|other-Numbat"

	clinicianToken = "3|clinician-Numbat" // of the first user, at another device
)

// service is the box, the replica behind it, and the truth about both.
type service struct {
	world   *world
	primary *clinicaldoctest.Server
	replica *clinicaldoctest.Server // nil: there is none

	mu     sync.Mutex
	busy   int64 // the note that a program wrote to last, or tried to
	notes  map[int64]*fact
	births map[string]*fact // by the recording's fingerprint; the last one that lives, or died last
}

// fact is the truth about one note.
type fact struct {
	id          int64
	fingerprint string
	patient     int64
	born, died  time.Time // died zero: it lives
	by          *call     // that made it; nil: a clinician
	changes     []change
}

// change is one write to a note.
type change struct {
	at     time.Time
	by     *call // nil: a clinician
	signed bool  // it signed the note
	before clinicaldoctest.Note
	after  clinicaldoctest.Note
}

func newService(w *world) *service {
	s := &service{world: w, notes: map[int64]*fact{}, births: map[string]*fact{}}
	s.primary = newBox(w.design, w.design.clock)
	if w.design.lag > 0 {
		s.replica = newBox(w.design, w.design.clock-w.design.lag)
	}
	if w.design.yesterday {
		s.seed()
	}
	return s
}

// seed brings notes of the day before, which look like those that the programs will make.
func (s *service) seed() {
	d := drawsAt(s.world.seed, hashOf("yesterday"))
	for range 1 + d.below(6) {
		n := clinicaldoctest.Note{
			Name: fmt.Sprintf("%s %d", nameMark, d.below(s.world.design.names)), PatientID: int64(1 + d.below(s.world.design.patients)),
			CreatedAt: s.primary.Now().Add(-time.Minute - d.within(pick(d, time.Hour, 30*time.Hour))), AudioSize: int64(100 + d.below(3)),
			Transcription: textMark, Analysis: textMark,
		}
		id := s.primary.AddNote(n)
		if s.replica != nil {
			n.ID = id
			s.replica.AddNote(n)
		}
		s.notes[id] = &fact{id: id, patient: n.PatientID, born: time.Now().Add(-time.Hour)}
	}
}

func newBox(d design, clock time.Duration) *clinicaldoctest.Server {
	delays := clinicaldoctest.Delays{Uploaded: time.Second, Transcribing: 40 * time.Second, Transcribed: time.Second, Analysing: 20 * time.Second}
	box := clinicaldoctest.NewServer(clinicaldoctest.InProcess(), clinicaldoctest.WithVariant(d.variant), clinicaldoctest.WithToken(firstToken), clinicaldoctest.WithDelays(delays))
	box.Advance(clock)
	box.AddUser(clinicaldoctest.User{Token: otherToken})
	box.AddUser(clinicaldoctest.User{ID: 1, Token: clinicianToken})
	return box
}

func (s *service) close() {
	s.primary.Close()
	if s.replica != nil {
		s.replica.Close()
	}
}

// request is what arrives at the service.
type request struct {
	method, path, query string
	header              http.Header
	body                []byte
	call                *call // of the program; nil: a clinician's
	attempt             int   // of the call, among its writes
	sent                time.Time
}

func (r request) writes() bool { return r.method != http.MethodGet }

func (r request) id() int64 {
	id, _ := strconv.ParseInt(strings.Split(strings.TrimPrefix(r.path, "/v1/progress-notes/"), "/")[0], 10, 64)
	return id
}

func (r request) signs() bool { return strings.HasSuffix(r.path, "/sign") }

func (r request) http() *http.Request {
	return &http.Request{
		Method: r.method, URL: &url.URL{Path: r.path, RawQuery: r.query}, Header: r.header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(bytes.NewReader(r.body)), ContentLength: int64(len(r.body)), Host: "api.clinicaldoc.test",
	}
}

func handle(box *clinicaldoctest.Server, r request) *http.Response {
	recorder := httptest.NewRecorder()
	box.Handler().ServeHTTP(recorder, r.http())
	return recorder.Result()
}

// serve carries out a request at this instant, which belongs to it alone, and keeps the truth.
func (s *service) serve(r request) *http.Response {
	if !r.writes() {
		return handle(s.primary, r)
	}
	before := s.look(r.id())
	resp := handle(s.primary, r)
	if resp.StatusCode >= 300 {
		return resp
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.method {
	case http.MethodPost:
		s.recordBirth(r)
	case http.MethodDelete:
		s.notes[r.id()].died = time.Now()
		s.world.acted(r, s.notes[r.id()], change{at: time.Now(), by: r.call, before: before})
	default:
		c := change{at: time.Now(), by: r.call, signed: r.signs() && before.Stage != clinicaldoctest.StageSigned, before: before, after: s.look(r.id())}
		s.world.acted(r, s.notes[r.id()], c)
		s.notes[r.id()].changes = append(s.notes[r.id()].changes, c)
	}
	s.forward(r)
	return resp
}

func (s *service) recordBirth(r request) {
	all := s.primary.Notes()
	n := all[len(all)-1]
	f := &fact{id: n.ID, fingerprint: n.AudioSHA256, patient: n.PatientID, born: time.Now(), by: r.call}
	s.world.born(f, s.births[f.fingerprint])
	if station := s.world.station; station != nil {
		station.bornAfter(f, r.sent)
	}
	s.notes[n.ID], s.births[f.fingerprint] = f, f
}

// forward brings a write to the replica.
func (s *service) forward(r request) {
	if s.replica == nil {
		return
	}
	s.world.running.Go(func() {
		time.Sleep(s.world.design.lag)
		handle(s.replica, r) //nolint:bodyclose // it is in memory
	})
}

// look is a note as it is now; zero if there is none.
func (s *service) look(id int64) clinicaldoctest.Note {
	for _, n := range s.primary.Notes() {
		if n.ID == id {
			return n
		}
	}
	return clinicaldoctest.Note{}
}

// aim notes which note a program writes to.
func (s *service) aim(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = id
}

func (s *service) target() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy
}

// fact returns the truth about a note; nil if there never was one.
func (s *service) fact(id int64) *fact {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notes[id]
}

// birth returns the note that was made of a recording; nil if there is none.
func (s *service) birth(fingerprint string) *fact {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.births[fingerprint]
}

// throughout returns the notes of a patient, 0 for all, that lived all the time between, and whether others came or went
// meanwhile: a replica that lags takes either back.
func (s *service) throughout(patient int64, from, to time.Time) (ids []int64, deaths, births bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, f := range s.notes {
		if patient != 0 && f.patient != patient {
			continue
		}
		if f.born.Before(from) && f.died.IsZero() || f.born.Before(from) && f.died.After(to) {
			ids = append(ids, id)
		}
		within := func(at time.Time) bool { return at.After(from) && at.Before(to) }
		deaths = deaths || within(f.died) || s.replica != nil && within(f.born)
		births = births || within(f.born) || s.replica != nil && within(f.died)
	}
	slices.Sort(ids)
	return ids, deaths, births
}
