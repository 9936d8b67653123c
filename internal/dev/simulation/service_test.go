package simulation

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// The marks stand in all that nobody may print.
const (
	nameMark   = "Zebra"
	textMark   = "Quokka"
	uniqueMark = "of a name of its own" // stands in names that no other note has
	firstToken = "1|first-Numbat"
	otherToken = "2|other-Numbat"

	clinicianToken = "3|clinician-Numbat" // of the first user, at another device
	colleagueToken = "4|colleague-Numbat" // of a third user
	strangerToken  = "5|stranger-Numbat"  // of a fourth one, who has no notes
	leavingTokens  = 6                    // the id of the first of the tokens that programs revoke

	apiHost     = "api.clinicaldoc.test"
	storageHost = "storage.clinicaldoc.test"
	storageURL  = "https://" + storageHost
)

// leavingToken is the token that a program revokes.
func leavingToken(number int) string { return fmt.Sprintf("%d|leaving-Numbat", leavingTokens+number) }

// service is the box, the replica behind it, and the truth about both.
type service struct {
	world   *world
	primary *clinicaldoctest.Server
	replica *clinicaldoctest.Server // nil: there is none

	busy atomic.Int64 // the note that a program wrote to last, or tried to

	mu       sync.Mutex
	notes    map[int64]*fact
	former   []*fact // notes whose ids others have by now
	cache    cache
	editable []int64          // notes to work on
	older    []int64          // notes of long ago, all complete
	births   map[string]*fact // of the programs, by what was wanted; the last one that lives, or died last
	places   map[string]*fact // notes by the paths of their recordings in storage
}

// fact is the truth about one note.
type fact struct {
	id          int64
	fingerprint string
	name        string // that it was created with
	patient     int64
	born        time.Time
	death       atomic.Int64 // in Unix nanoseconds, as anybody may look at any time; 0: it lives
	by          *call        // that made it; nil: a clinician
	changes     []change
}

// wish is what the note was wanted of.
func (f *fact) wish() string { return wish(f.fingerprint, f.name) }

// isOthers reports whether the note is of the recording, and of nobody's wish or another actor's.
func (f *fact) isOthers(fingerprint, actor string) bool {
	return f.fingerprint == fingerprint && (f.by == nil || f.by.program.name != actor)
}

// died is when the note was deleted; zero if it lives.
func (f *fact) died() time.Time {
	if at := f.death.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
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
	s := &service{world: w, notes: map[int64]*fact{}, births: map[string]*fact{}, places: map[string]*fact{}, cache: cache{}}
	s.primary = newBox(w.design, w.design.clock)
	if w.design.lag > 0 {
		s.replica = newBox(w.design, w.design.clock-w.design.lag)
	}
	d := drawsAt(w.seed, hashOf("yesterday"))
	if w.design.yesterday {
		for range 1 + d.below(6) {
			age := d.within(pick(d, time.Hour, 30*time.Hour))
			if w.design.recent {
				age %= 3 * time.Minute
			}
			s.seed(d, fmt.Sprintf("%s %d", nameMark, d.below(w.design.names)), age)
		}
	}
	if w.design.focus == onEdits {
		for i := range 3 {
			s.editable = append(s.editable, s.seed(d, fmt.Sprintf("%s to edit %d", nameMark, i), 3*day))
		}
	}
	if w.design.manyOlder {
		for i := range 45 {
			s.older = append(s.older, s.seed(d, fmt.Sprintf("%s of before %d", nameMark, i), 7*day+time.Duration(i)*time.Minute))
		}
	}
	return s
}

// seed brings a note of before the day, which may look like those that the programs will make.
func (s *service) seed(d *draws, name string, age time.Duration) int64 {
	n := clinicaldoctest.Note{
		Name: name, PatientID: int64(1 + d.below(s.world.design.patients)), CreatedAt: s.primary.Now().Add(-time.Minute - age),
		AudioSize: int64(100 + d.below(3)), Transcription: textMark, Analysis: textMark,
	}
	id := s.primary.AddNote(n)
	if s.replica != nil {
		n.ID = id
		s.replica.AddNote(n)
	}
	s.notes[id] = &fact{id: id, patient: n.PatientID, born: time.Now().Add(-time.Hour)}
	return id
}

func newBox(d design, clock time.Duration) *clinicaldoctest.Server {
	if d.unnamed {
		d.variant.Patient = clinicaldoctest.PatientUnnamed
	}
	delays := clinicaldoctest.Delays{Uploaded: time.Second, Transcribing: 40 * time.Second, Transcribed: time.Second, Analysing: 20 * time.Second}
	if d.slowly {
		delays.Transcribing, delays.Analysing = 100*time.Second, 50*time.Second
	}
	box := clinicaldoctest.NewServer(clinicaldoctest.InProcess(), clinicaldoctest.WithVariant(d.variant), clinicaldoctest.WithToken(firstToken), clinicaldoctest.WithDelays(delays))
	box.Advance(clock)
	box.AddUser(clinicaldoctest.User{Token: otherToken})
	box.AddUser(clinicaldoctest.User{ID: 1, Token: clinicianToken})
	box.AddUser(clinicaldoctest.User{Token: colleagueToken})
	box.AddUser(clinicaldoctest.User{Token: strangerToken})
	for i := range d.programs {
		box.AddUser(clinicaldoctest.User{ID: 1, Token: leavingToken(i)})
	}
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
	storage             bool // it goes to where recordings lie
	knew                knowledge
}

func (r request) writes() bool { return r.method != http.MethodGet }

func (r request) id() int64 {
	id, _ := strconv.ParseInt(strings.Split(strings.TrimPrefix(r.path, "/v1/progress-notes/"), "/")[0], 10, 64)
	return id
}

// lists reports whether the request asks for a list of notes.
func (r request) lists() bool { return !r.writes() && r.path == "/v1/progress-notes" && !r.storage }

// addresses reports whether the request asks where a recording lies.
func (r request) addresses() bool { return strings.HasSuffix(r.path, "/audio-url") }

func (r request) signs() bool { return strings.HasSuffix(r.path, "/sign") }

func (r request) http() *http.Request {
	return &http.Request{
		Method: r.method, URL: &url.URL{Path: r.path, RawQuery: r.query}, Header: r.header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(bytes.NewReader(r.body)), ContentLength: int64(len(r.body)), Host: apiHost,
	}
}

func handle(box *clinicaldoctest.Server, r request) *http.Response {
	recorder := httptest.NewRecorder()
	req := r.http()
	if r.storage {
		_, req.Host, _ = strings.Cut(box.StorageURL, "://")
	}
	box.Handler().ServeHTTP(recorder, req)
	return recorder.Result()
}

// serve carries out a request at this instant, which belongs to it alone, and keeps the truth.
func (s *service) serve(r request) *http.Response {
	if !r.writes() {
		return handle(s.primary, r)
	}
	before := s.look(r.id())
	resp := s.handleWrite(s.primary, r)
	if resp.StatusCode >= 300 {
		return resp
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.method == http.MethodPost:
		s.recordBirth(r)
	case r.id() == 0: // a token
		r.call.carriedOut(change{at: time.Now(), by: r.call})
	case r.method == http.MethodDelete:
		s.notes[r.id()].death.Store(time.Now().UnixNano())
		s.world.acted(r, s.notes[r.id()], change{at: time.Now(), by: r.call, before: before})
	default:
		c := change{at: time.Now(), by: r.call, signed: r.signs() && before.Stage != clinicaldoctest.StageSigned, before: before, after: s.look(r.id())}
		s.world.acted(r, s.notes[r.id()], c)
		if c.signed || c.before.Name != c.after.Name || c.before.Transcription != c.after.Transcription || c.before.Analysis != c.after.Analysis {
			s.notes[r.id()].changes = append(s.notes[r.id()].changes, c)
		}
	}
	s.forward(r)
	return resp
}

// handleWrite is a write at one of the boxes. Which recordings cannot be analysed is decided by their fingerprint.
func (s *service) handleWrite(box *clinicaldoctest.Server, r request) *http.Response {
	if s.world.design.fails && r.method == http.MethodPost && r.call != nil && r.call.fingerprint != "" && hashOf(r.call.fingerprint)%5 == 0 {
		box.ScriptNext(clinicaldoctest.Script{AnalysisError: textMark + " cannot be analysed"})
	}
	return handle(box, r)
}

func (s *service) recordBirth(r request) {
	n := slices.MaxFunc(s.primary.Notes(), func(a, b clinicaldoctest.Note) int { return a.CreatedAt.Compare(b.CreatedAt) })
	f := &fact{id: n.ID, fingerprint: n.AudioSHA256, name: n.Name, patient: n.PatientID, born: time.Now(), by: r.call}
	s.world.born(f, s.births[f.wish()])
	if station := s.world.station; station != nil {
		station.bornAfter(f, r.sent)
	}
	if before := s.notes[n.ID]; before != nil {
		s.former = append(s.former, before)
		s.world.count("reached: an id is used again", 1)
		if before.patient != f.patient {
			s.world.count("reached: an id is used again for another patient", 1)
		}
	}
	s.notes[n.ID] = f
	if r.call != nil { // a note that others make of the same recording is not the program's
		s.births[f.wish()] = f
	}
	s.giveTitle(f)
	s.uploadAgain(r, n)
	if s.world.design.doubles && r.call != nil {
		s.world.running.Go(func() { s.double(r.call.program, n) })
	}
}

// double is a clinician's note of the same name as one that a program made, soon after it.
func (s *service) double(p *program, n clinicaldoctest.Note) {
	time.Sleep(4*time.Second + drawsAt(s.world.seed, uint64(n.ID), hashOf("double")).within(20*time.Second))
	s.world.slot(p.number + 128)
	c := &clinician{being: being{world: s.world, name: "d" + p.name, number: p.number + 128, step: int(n.ID)}}
	c.dictate(p.token, n.Name, n.PatientID)
}

// forward brings a write to the replica.
func (s *service) forward(r request) {
	if s.replica == nil {
		return
	}
	s.world.running.Go(func() {
		time.Sleep(s.world.design.lag)
		s.handleWrite(s.replica, r) //nolint:bodyclose // it is in memory
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

// fact returns the truth about a note; nil if there never was one.
func (s *service) fact(id int64) *fact {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notes[id]
}

// birth returns the note that was made for a wish; nil if there is none.
func (s *service) birth(wish string) *fact {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.births[wish]
}

// isOf reports whether the note that has this ID, or had it since that time, was made for the actor's request. If
// the request has no note, or a list may not show it, another actor's note of the recording counts: they cannot be
// distinguished. What the actor itself wanted of the recording besides is another note.
func (s *service) isOf(id int64, fingerprint, name, actor string, since time.Time) bool {
	own, f := s.birth(wish(fingerprint, name)), s.fact(id)
	if own != nil && own.id == id && (own == f || own.died().After(since)) {
		return true
	}
	s.mu.Lock()
	had := slices.ContainsFunc(s.former, func(f *fact) bool { return f.id == id && f.isOthers(fingerprint, actor) && f.died().After(since) })
	s.mu.Unlock()
	others := (had || f != nil && f.isOthers(fingerprint, actor)) && (own == nil || !own.died().IsZero() || s.world.design.misnamed())
	if others {
		s.world.count("reached: the same recording by others", 1)
	}
	return others
}

// throughout returns the notes of a patient, 0 for all, that existed during the entire period. It also reports
// whether others were created or deleted, or an ID was used again: a replica that lags undoes either.
func (s *service) throughout(patient int64, from, to time.Time) (ids []int64, deaths, births, reused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	died, born := map[int64]bool{}, map[int64]bool{}
	for _, f := range slices.AppendSeq(slices.Clone(s.former), maps.Values(s.notes)) {
		if patient != 0 && f.patient != patient {
			continue
		}
		if f.born.Before(from) && f.died().IsZero() || f.born.Before(from) && f.died().After(to) {
			ids = append(ids, f.id)
		}
		within := func(at time.Time) bool { return at.After(from) && at.Before(to) }
		deaths = deaths || within(f.died()) || s.replica != nil && within(f.born)
		births = births || within(f.born) || s.replica != nil && within(f.died())
		reused = reused || within(f.born) && died[f.id] || within(f.died()) && born[f.id]
		died[f.id], born[f.id] = died[f.id] || within(f.died()), born[f.id] || within(f.born)
	}
	slices.Sort(ids)
	return ids, deaths, births, reused
}
