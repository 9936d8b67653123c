package clinicaldoctest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
)

// serverPair is two servers with the same notes, planted in the one and added one by one to the other.
type serverPair struct {
	t       *testing.T
	servers [2]*Server
}

func newPair(t *testing.T, v Variant) serverPair {
	t.Helper()
	pair := serverPair{t: t}
	for i := range pair.servers {
		srv := NewServer(InProcess(), WithToken("synthetic"), WithVariant(v), WithFrozenClock(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)), WithDelays(Delays{Transcribing: time.Hour, Analysing: time.Hour}))
		t.Cleanup(srv.Close)
		srv.signingKey = []byte("the same")
		pair.servers[i] = srv
	}
	return pair
}

// plant gives both the same made-up notes.
func (p serverPair) plant(count int) {
	boxlink.Plant(p.servers[0], count)
	for i := range count {
		n := synthetic(int64(i))
		n.CreatedAt = p.servers[1].Now().Add(-time.Duration(count-i) * time.Hour)
		p.servers[1].AddPatient(Patient{ID: n.PatientID})
		p.servers[1].AddNote(n)
	}
}

func (p serverPair) both(act func(*Server)) {
	for _, srv := range p.servers {
		act(srv)
	}
}

var chance = regexp.MustCompile(`/audio/[A-Z2-7]{26}[^"]*`) // the key of a recording that was sent

// ask sends a request to both, and returns the body that both answer with.
func (p serverPair) ask(method, address, contentType, body string) string {
	p.t.Helper()
	var answers [2]string
	var text string
	for i, srv := range p.servers {
		req := httptest.NewRequestWithContext(p.t.Context(), method, address, strings.NewReader(body))
		if !strings.Contains(address, memoryStorageHost) {
			req.Header.Set("Authorization", "Bearer synthetic")
		}
		req.Header.Set("Accept", "application/json")
		req.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		srv.Handler().ServeHTTP(w, req)
		text = chance.ReplaceAllString(w.Body.String(), "KEY")
		answers[i] = fmt.Sprintln(w.Code, w.Header().Get("Content-Type"), text)
	}
	require.Equal(p.t, answers[1], answers[0], "%s %s", method, address)
	return text
}

// look compares whatever can be read.
func (p serverPair) look() {
	p.t.Helper()
	notes := p.servers[0].URL + createPath
	names := p.servers[0].Variant().Query
	for _, query := range []string{"", names.Sort + "=oldest", names.PatientID + "=3", names.PatientID + "=3&" + names.Sort + "=oldest", names.PatientID + "=999", names.PatientID + "=x"} {
		for page := range 5 {
			p.ask(http.MethodGet, fmt.Sprintf("%s?%s&%s=6&%s=%d", notes, query, names.PerPage, names.Page, page), "", "")
		}
	}
	next := regexp.MustCompile(`"next":"([^"]+)"`)
	for address := notes; address != ""; {
		found := next.FindStringSubmatch(p.ask(http.MethodGet, address, "", ""))
		address = ""
		if len(found) > 0 {
			address = found[1]
		}
	}
	recording := regexp.MustCompile(`"url":"([^"]+)"`)
	for _, n := range p.servers[1].Notes() {
		p.ask(http.MethodGet, fmt.Sprintf("%s/%d", notes, n.ID), "", "")
		if found := recording.FindStringSubmatch(p.ask(http.MethodGet, fmt.Sprintf("%s/%d/audio-url", notes, n.ID), "", "")); len(found) > 0 && !strings.Contains(found[1], "KEY") {
			assert.NotEmpty(p.t, p.ask(http.MethodGet, found[1], "", ""))
		}
	}
	for _, path := range []string{"/0", "/9999", "/9999/audio-url"} {
		p.ask(http.MethodGet, notes+path, "", "")
	}
	p.ask(http.MethodGet, p.servers[0].URL+"/user", "", "")
	p.ask(http.MethodGet, p.servers[0].URL+"/v1/auth/tokens", "", "")
	assert.Equal(p.t, p.servers[1].Notes(), p.servers[0].Notes())
	assert.Equal(p.t, p.servers[1].Created(), p.servers[0].Created())
	assert.Equal(p.t, boxlink.Newest(p.servers[1], 7), boxlink.Newest(p.servers[0], 7))
}

// TestPlant_EveryVariant_AsIfAddedOneByOne compares notes that are made on demand with notes that were added one by
// one. It uses every variant and endpoint, with notes that are unchanged, changed, deleted, or read from a replica.
func TestPlant_EveryVariant_AsIfAddedOneByOne(t *testing.T) {
	t.Parallel()
	for _, v := range Variants() {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, v)
			notes := p.servers[0].URL + createPath
			form := func(patient int64) string {
				text := ""
				for name, value := range map[string]string{"name": "Visit", "patient_id": fmt.Sprint(patient), "prompt_id": "1", `file"; filename="visit.wav`: "RIFF"} {
					text += "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n"
				}
				return text + "--b--\r\n"
			}
			create := func(patient int64) {
				t.Helper()
				p.ask(http.MethodPost, notes, "multipart/form-data; boundary=b", form(patient))
			}
			p.look()
			p.plant(17)
			p.look()
			p.both(func(srv *Server) {
				srv.AddPatient(Patient{ID: 3, Name: "Renamed"})
				srv.AddNote(Note{PatientID: 3, CreatedAt: srv.Now().Add(-90 * time.Minute)})
				srv.AddUser(User{Token: "another", TeamID: 2})
				srv.AddNote(Note{UserID: 2, PatientID: 3})
			})
			p.look()
			create(6)
			create(7)
			for id := range int64(12) {
				at := fmt.Sprintf("%s/%d", notes, 2*id+1)
				switch id % 4 {
				case 0:
					p.ask(http.MethodPut, at, "application/json", `{"name":"Other","analysis":"Edited."}`)
				case 1:
					p.ask(http.MethodPut, at+"/sign", "", "")
				case 2:
					p.ask(http.MethodDelete, at, "", "")
				}
			}
			p.look()
			p.both(func(srv *Server) {
				srv.Advance(30 * time.Minute)
				srv.Inject(RouteListNotes, Vanish(2).Times(2))
				srv.Inject(RouteListNotes, Arrive(2).Times(2))
			})
			p.look()
			for _, behind := range []time.Duration{time.Minute, 31 * time.Minute, 5 * time.Hour} {
				p.both(func(srv *Server) {
					srv.ClearFaults()
					for _, route := range []string{RouteListNotes, RouteGetNote, RouteAudioURL} {
						srv.Inject(route, Lagging(behind).Always())
					}
				})
				p.look()
			}
			p.both(func(srv *Server) {
				srv.ClearFaults()
				srv.Advance(time.Hour)
				srv.SetDelays(Delays{Analysing: 2 * time.Hour})
			})
			p.look()
			p.both(func(srv *Server) { srv.Advance(48 * time.Hour) })
			p.look()
			p.both((*Server).Reset)
			p.plant(3)
			p.look()
			create(2)
			p.look()
		})
	}
}

// More can be planted where there are notes already, and they stand among the others.
func TestPlant_BesideOtherNotes_SortsThemIn(t *testing.T) {
	t.Parallel()
	p := newPair(t, Variant{})
	p.plant(10)
	p.both(func(srv *Server) { srv.Advance(90 * time.Minute) })
	p.look()
	p.plant(20)
	p.look()
	p.ask(http.MethodDelete, fmt.Sprintf("%s%s/%d", p.servers[0].URL, createPath, 15), "", "")
	p.look()
	assert.Equal(t, int64(8), p.servers[0].AddPatient(Patient{}).ID, "the next free one")
}
