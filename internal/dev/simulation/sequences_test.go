package simulation

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/internal/disk/disktest"
)

var attempts = flag.Int("attempts", 2, "most attempts of a sequence, up to 4")

// sequence is one call of one operation on a service of one note, and all that happened to it.
type sequence struct {
	*disktest.Choices

	op        string
	unchanged bool          // the caller says what he read
	attempts  int           // most that may be made
	clock     time.Duration // of the service, ahead of ours; its Date tells
	proxy     time.Duration // how far Date is off besides

	note   record
	events []event
	late   []func()
	writes int
	others bool // have had their turn

	reached    bool // the note was, at some time since the call began, as the call wants it
	acted      bool // the service carried an attempt out
	births     int
	overwrote  string // what a retry destroyed that it could have known of
	signedText string
}

// record is the service's note.
type record struct {
	exists, complete, signed bool
	transcription, analysis  string
	updated                  time.Time
	theirs                   bool // others changed it since the call began
}

// event is a request as the SDK sees it.
type event struct {
	outcome *outcome // of a write; nil: a read
	failed  bool     // the read was refused
	note    record   // as the response shows it, or as the service had it
	status  int      // of the service's own response
}

func (e event) String() string {
	switch {
	case e.outcome != nil:
		return fmt.Sprintf("%s (%d)", e.outcome.name, e.status)
	case e.failed:
		return "read fails"
	}
	return fmt.Sprintf("read %+v", e.note)
}

const ours, original = "our text", "first text"

// RoundTrip is the service and the way to it.
func (s *sequence) RoundTrip(req *http.Request) (*http.Response, error) {
	time.Sleep(100 * time.Millisecond)
	if len(s.events) > 0 {
		s.turnOfOthers()
	}
	if req.Method == http.MethodGet {
		return s.read(), nil
	}
	s.writes++
	list := middle
	if s.writes >= s.attempts && (s.op != "sign" || s.attempts > 2) { // Sign has the most by far
		list = outcomes
	}
	o := list[s.Choose(len(list))]
	if s.op == "revoke" && o.status == http.StatusUnauthorized {
		o = list[0] // that is the service's own way to say that the token is gone
	}
	at := len(s.events)
	s.events = append(s.events, event{outcome: &o})
	return o.strike(req, func() *http.Response {
		resp := s.act(at)
		if at < len(s.events) {
			s.events[at].status, s.events[at].note = resp.StatusCode, s.note
		}
		return resp
	}, func(f func()) { s.late = append(s.late, f) })
}

// turnOfOthers lets somebody else change the note, once in a sequence.
func (s *sequence) turnOfOthers() {
	if s.others || s.op == "create" || s.op == "revoke" {
		return
	}
	choice := s.Choose(4)
	if choice == 0 || !s.note.exists {
		return
	}
	s.others = true
	switch choice {
	case 1:
		s.note.analysis = "their text"
	case 2:
		s.note.transcription = "their other text"
	case 3:
		s.note.exists = false
	}
	s.note.updated, s.note.theirs = time.Now(), true
}

func (s *sequence) read() *http.Response {
	trouble := s.Choose(2) == 1
	s.events = append(s.events, event{failed: trouble, note: s.note})
	switch {
	case trouble:
		return respond(501, "text/html", "no")
	case !s.note.exists:
		return respond(404, "application/json", `{"message":"no such note"}`)
	}
	resp := respond(200, "application/json", s.json())
	resp.Header.Set("Date", time.Now().Add(s.clock+s.proxy).UTC().Format(http.TimeFormat))
	return resp
}

func (s *sequence) json() string {
	r := s.note
	return fmt.Sprintf(`{"id":7,"name":"n","transcription":%q,"analysis":%q,"has":{"content":%t,"transcription":true,"signed":%t},"created_at":"1999-12-31T00:00:00Z","updated_at":%q}`,
		r.transcription, r.analysis, r.complete, r.signed, r.updated.Add(s.clock).UTC().Format("2006-01-02T15:04:05.000000Z"))
}

// act carries the operation out, as the event of that number asks.
func (s *sequence) act(at int) *http.Response {
	if s.op == "create" {
		s.births++
		s.acted, s.reached = true, true
		s.note.exists = true
		return respond(201, "application/json", s.json())
	}
	switch {
	case !s.note.exists && s.op == "revoke": // it was the token in use
		return respond(401, "application/json", `{"message":"Unauthenticated."}`)
	case !s.note.exists:
		return respond(404, "application/json", `{"message":"no such note"}`)
	case s.op == "sign" && !s.note.complete:
		return respond(403, "application/json", `{"message":"no"}`)
	}
	s.noteOverwriting(at)
	s.acted, s.reached = true, true
	switch s.op {
	case "update":
		s.note.analysis = ours
	case "sign":
		s.note.signed = true
		s.signedText = s.note.transcription + s.note.analysis
	case "delete", "revoke":
		s.note.exists = false
		return respond(200, "application/json", `{"message":"deleted"}`)
	}
	s.note.updated = time.Now()
	return respond(200, "application/json", s.json())
}

// noteOverwriting looks whether a retry acts on a change by others that the SDK was shown, or would have been shown by the
// read that has to stand between.
func (s *sequence) noteOverwriting(at int) {
	if !s.note.theirs || s.events[at].outcome.late || s.op == "delete" && !s.unchanged {
		return
	}
	doubt := false
	for i := at - 1; i >= 0; i-- {
		e := s.events[i]
		if e.outcome == nil && !e.failed {
			if e.note.theirs {
				s.overwrote = "a change that was shown"
			}
			return
		}
		doubt = doubt || e.outcome != nil && e.outcome.doubtful(s.op)
	}
	if doubt && at > 0 {
		s.overwrote = "a change, without having looked"
	}
}

// run makes the call and returns a complaint, or "".
func (s *sequence) run(ctx context.Context) string {
	s.note = record{exists: s.op != "create", complete: true, transcription: original, analysis: original, updated: time.Now().Add(-time.Hour).Truncate(time.Second)}
	if s.op == "sign" {
		s.note.complete = s.Choose(2) == 0
	}
	if s.op != "create" && s.op != "revoke" {
		s.unchanged = s.Choose(2) == 1
	}
	if (s.op == "update" || s.op == "sign" && s.attempts > 2) && !s.unchanged {
		clocks := [][2]time.Duration{{}, {-90 * time.Second}, {0, 90 * time.Second}}[s.Choose(3)]
		s.clock, s.proxy = clocks[0], clocks[1]
	}
	client, err := clinicaldoc.NewClient("https://service.test", "7|token", clinicaldoc.WithHTTPClient(&http.Client{Transport: s}),
		clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: s.attempts - 1}))
	if err != nil {
		return err.Error()
	}
	var opts []clinicaldoc.CallOption
	if s.unchanged {
		opts = append(opts, clinicaldoc.IfUnchanged(&clinicaldoc.ProgressNote{
			ID: 7, Name: "n", Transcription: original, Analysis: original, UpdatedAt: s.note.updated.UTC(),
			Has: clinicaldoc.Completion{Content: s.note.complete, Transcription: true},
		}))
	}
	said := s.call(ctx, client, opts)
	atReturn := s.reached
	s.note.complete = true // by and by
	for _, act := range s.late {
		act()
	}
	return s.judge(said, atReturn)
}

func (s *sequence) call(ctx context.Context, client *clinicaldoc.Client, opts []clinicaldoc.CallOption) word {
	var err error
	switch s.op {
	case "create":
		_, err = client.Notes.Create(ctx, clinicaldoc.CreateNoteParams{Name: "n", PatientID: 4, PromptID: 1, Audio: clinicaldoc.AudioBytes("a.wav", []byte("synthetic sound"))}, opts...)
	case "update":
		_, err = client.Notes.Update(ctx, 7, clinicaldoc.UpdateNoteParams{Analysis: new(ours)}, opts...)
	case "sign":
		_, err = client.Notes.Sign(ctx, 7, opts...)
	case "delete":
		_, err = client.Notes.Delete(ctx, 7, opts...)
	case "revoke":
		_, err = client.Tokens.Revoke(ctx, 7)
	}
	return wordOf(err)
}

// word is what the SDK said.
type word struct {
	kind    string // done, conflict, incomplete, gone or failed
	unknown bool   // it may have been carried out
	claimed bool   // of a conflict: it was carried out
}

func wordOf(err error) word {
	var conflict *clinicaldoc.ConflictError
	w := word{unknown: errors.Is(err, clinicaldoc.ErrOutcomeUnknown)}
	switch {
	case err == nil:
		w.kind = "done"
	case errors.Is(err, clinicaldoc.ErrNoteIncomplete):
		w.kind = "incomplete"
	case errors.As(err, &conflict):
		w.kind, w.claimed = "conflict", strings.Contains(err.Error(), "the change was made")
	case errors.Is(err, clinicaldoc.ErrNotFound):
		w.kind = "gone"
	default:
		w.kind = "failed"
	}
	return w
}

// judge holds the word against the truth, and then against what the reference expects of the same events.
func (s *sequence) judge(said word, atReturn bool) string {
	switch {
	case s.births > 1:
		return fmt.Sprintf("%d notes", s.births)
	case s.overwrote != "":
		return "a retry acted on " + s.overwrote
	case (said.kind == "done" || said.claimed) && !atReturn && (s.op != "delete" || s.note.exists):
		return "said done, and it was not"
	case said.kind != "done" && !said.unknown && s.acted && !said.claimed:
		return "said not done, and it was"
	case said.kind == "done" && s.op == "sign" && s.unchanged && s.signedText != original+original:
		return "signed something else than what was read"
	}
	r := &reference{op: s.op, unchanged: s.unchanged, attempts: s.attempts, rest: s.events}
	if expected := r.expect(); said != expected {
		return fmt.Sprintf("said %+v, expected %+v", said, expected)
	}
	if len(r.rest) > 0 {
		return fmt.Sprintf("%d requests too many", len(r.rest))
	}
	return ""
}

func (s *sequence) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s, unchanged %t, path %v:", s.op, s.unchanged, s.Path())
	for _, e := range s.events {
		fmt.Fprintf(&text, "\n  %s", e)
	}
	return text.String()
}

// bubbleSize is how many sequences share a bubble; each would cost as much as a fifth of a sequence.
const bubbleSize = 1000

func TestSequences(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"create", "update", "sign", "delete", "revoke"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			var count, failed atomic.Int64
			began := time.Now()
			complaints := map[string]string{} // the first sequence of each
			choices := new(disktest.Choices)
			for more := true; more; {
				synctest.Test(t, func(t *testing.T) {
					for range bubbleSize {
						s := &sequence{Choices: choices, op: op, attempts: *attempts}
						if complaint := s.run(t.Context()); complaint != "" {
							failed.Add(1)
							if complaints[complaint] == "" {
								complaints[complaint] = s.String()
							}
						}
						count.Add(1)
						more = choices.Next() && (!*first || failed.Load() == 0)
						if !more {
							return
						}
					}
				})
			}
			t.Logf("%s: %d sequences of up to %d attempts in %s", op, count.Load(), *attempts, time.Since(began).Round(time.Millisecond))
			for complaint, first := range complaints {
				t.Errorf("%s\nfirst in: %s", complaint, first)
			}
			require.Zero(t, failed.Load(), "of %d", count.Load())
		})
	}
}
