package clinicaldoc_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// deskNote is one note of a service that a test's clinician edits behind the program's back.
type deskNote struct {
	Name          string    `json:"name"`
	Transcription string    `json:"transcription"`
	Analysis      string    `json:"analysis"`
	UpdatedAt     time.Time `json:"updated_at,omitzero"`
	PatientID     int64     `json:"patient_id,omitzero"`
	Has           struct {
		Content       bool `json:"content"`
		Transcription bool `json:"transcription"`
		Signed        bool `json:"signed"`
	} `json:"has"`
}

// desk is the service: it holds note 9, and each write meets the next fault, if there is one.
type desk struct {
	mu      sync.Mutex
	note    deskNote
	gone    bool
	written []string // methods of the writes that came
	tokens  map[string]bool
	// fault says how a write goes: whether it is carried out, and its status, 0 for a response that is lost.
	faults []deskFault
	reads  []int // statuses of the next reads; 0: as it should
	clock  time.Duration
	short  bool // responses to writes leave texts out
}

type deskFault struct {
	acts   bool
	status int
	then   func(*deskNote) // what somebody else does before the program comes back
}

func newDesk() *desk {
	d := &desk{tokens: map[string]bool{}}
	d.note = deskNote{Name: "Visit", Transcription: "first words", Analysis: "first thoughts", UpdatedAt: time.Now().Add(-time.Hour).UTC()}
	d.note.Has.Content, d.note.Has.Transcription = true, true
	return d
}

func (d *desk) render(w http.ResponseWriter, status int, note deskNote) {
	document, _ := json.Marshal(struct {
		ID int64 `json:"id"`
		deskNote
		CreatedAt time.Time `json:"created_at"`
	}{9, note, time.Now().Add(-2 * time.Hour)})
	w.Header().Set("Date", time.Now().Add(d.clock).UTC().Format(http.TimeFormat))
	w.WriteHeader(status)
	_, _ = w.Write(document)
}

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tokens[r.Header.Get("Authorization")] = true
	if r.Method == http.MethodGet {
		status := 0
		if len(d.reads) > 0 {
			status, d.reads = d.reads[0], d.reads[1:]
		}
		switch {
		case status != 0:
			w.WriteHeader(status)
		case d.gone:
			w.WriteHeader(http.StatusNotFound)
		default:
			d.render(w, http.StatusOK, d.note)
		}
		return
	}
	d.written = append(d.written, r.Method)
	fault := deskFault{acts: true, status: http.StatusOK}
	if len(d.faults) > 0 {
		fault, d.faults = d.faults[0], d.faults[1:]
	}
	if fault.acts {
		d.act(r)
	}
	written := d.note
	if fault.then != nil {
		fault.then(&d.note)
	}
	switch {
	case fault.status == 0:
		panic(http.ErrAbortHandler)
	case fault.status != http.StatusOK:
		w.WriteHeader(fault.status)
	case r.Method == http.MethodDelete:
		_, _ = io.WriteString(w, `{"message":"deleted"}`)
	default:
		if d.short {
			written.Transcription, written.Analysis = "", ""
		}
		d.render(w, http.StatusOK, written)
	}
}

// act carries a write out.
func (d *desk) act(r *http.Request) {
	switch {
	case r.Method == http.MethodDelete:
		d.gone = true
	case strings.HasSuffix(r.URL.Path, "/sign"):
		d.note.Has.Signed = true
		d.note.UpdatedAt = time.Now().Add(d.clock).UTC()
	default:
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &d.note)
		d.note.UpdatedAt = time.Now().Add(d.clock).UTC()
	}
}

// byClinician is somebody else's edit, now.
func (d *desk) byClinician(n *deskNote) {
	n.Analysis = "the clinician's words"
	n.UpdatedAt = time.Now().Add(d.clock).UTC()
}

func (d *desk) client(t *testing.T, opts ...clinicaldoc.Option) *clinicaldoc.Client {
	t.Helper()
	srv := socketHandler(t, d.ServeHTTP)
	inStep := clinicaldoc.WithHTTPClient(&http.Client{Transport: deskTransport{d, socketTransport(t)}})
	return socketClient(t, srv.URL, append([]clinicaldoc.Option{inStep}, opts...)...)
}

// deskTransport keeps the test in step with the desk, whose handler may still be at work when its connection has ended.
type deskTransport struct {
	desk *desk
	http.RoundTripper
}

func (s deskTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	s.inStep()
	defer s.inStep()
	return s.RoundTripper.RoundTrip(r)
}

// inStep returns how many writes came, when no handler is at work.
func (s deskTransport) inStep() int {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	return len(s.desk.written)
}

// edits are the three that change a note, for what holds for all of them.
func edits() map[string]func(context.Context, *clinicaldoc.Client, ...clinicaldoc.CallOption) error {
	return map[string]func(context.Context, *clinicaldoc.Client, ...clinicaldoc.CallOption) error{
		"update": func(ctx context.Context, c *clinicaldoc.Client, opts ...clinicaldoc.CallOption) error {
			_, err := c.Notes.Update(ctx, 9, clinicaldoc.UpdateNoteParams{Analysis: new("ours")}, opts...)
			return err
		},
		"sign": func(ctx context.Context, c *clinicaldoc.Client, opts ...clinicaldoc.CallOption) error {
			_, err := c.Notes.Sign(ctx, 9, opts...)
			return err
		},
		"delete": func(ctx context.Context, c *clinicaldoc.Client, opts ...clinicaldoc.CallOption) error {
			_, err := c.Notes.Delete(ctx, 9, opts...)
			return err
		},
	}
}
