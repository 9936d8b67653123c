package integration

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// target is the service that the suite runs against.
type target struct {
	client         *clinicaldoc.Client
	baseURL, token string
	// newClient makes another client for the same address.
	newClient func(t *testing.T, token string, opts ...clinicaldoc.Option) *clinicaldoc.Client

	box                 *clinicaldoctest.Server // nil: somebody else's server, of which nothing is known
	patientID, promptID int64
	trustFilter         bool   // the list's rows name no patient
	reusesIDs           bool   // a deleted note's id is another's next
	namePrefix          string // unique, so that own notes can be told from all others
	audio               []byte
	ownTone             bool // the audio is the suite's own tone, which may be shortened
	skipSign            bool
	interval            time.Duration // between polls
}

const (
	// cleanUpFor bounds a deletion after the end of its test.
	cleanUpFor = time.Minute
	// step is how long a note stays in each stage in the box, whose clock stands still between polls.
	step = time.Second
	// absentID is no note or token anywhere: the largest number that every JSON reader keeps.
	absentID = 1<<53 - 1
)

// foreign tells that nothing may be taken for granted and nothing done but with own notes, one thing at a time.
func (tg *target) foreign() bool { return tg.box == nil }

// parallel runs the test beside others where they cannot meet: in the box each has a patient of its own, and its notes have ids
// of their own.
func (tg *target) parallel(t *testing.T) {
	t.Helper()
	if !tg.foreign() && !tg.reusesIDs {
		t.Parallel()
	}
}

// newBox starts a box. Its clock stands still: each poll of a wait takes it one stage further.
func newBox(t *testing.T, variant clinicaldoctest.Variant) *target {
	t.Helper()
	box := clinicaldoctest.NewServer(
		clinicaldoctest.WithVariant(variant), clinicaldoctest.WithFrozenClock(time.Now()),
		clinicaldoctest.WithDelays(clinicaldoctest.Delays{Uploaded: step, Transcribing: step, Transcribed: step, Analysing: step}),
	)
	t.Cleanup(box.Close)
	transport := clinicaldoc.WithHTTPClient(&http.Client{Transport: box.Transport()})
	return &target{
		client: box.Client(transport), baseURL: box.URL, token: box.Token, box: box,
		newClient: func(t *testing.T, token string, opts ...clinicaldoc.Option) *clinicaldoc.Client {
			t.Helper()
			return newClient(t, box.URL, token, append([]clinicaldoc.Option{transport}, opts...)...)
		},
		patientID: box.AddPatient(clinicaldoctest.Patient{}).ID, promptID: 1,
		trustFilter: variant.Patient == clinicaldoctest.PatientUnnamed, reusesIDs: variant.ReuseIDs,
		namePrefix: newNamePrefix(), audio: tone(time.Second), interval: 50 * time.Millisecond,
	}
}

func newClient(t *testing.T, baseURL, token string, opts ...clinicaldoc.Option) *clinicaldoc.Client {
	t.Helper()
	client, err := clinicaldoc.NewClient(baseURL, token, opts...)
	require.NoError(t, err)
	return client
}

func newNamePrefix() string { return "Synthetic test note " + rand.Text() }

// envOptIn must be 1 for the suite to write to the service that the other variables name.
const envOptIn = "CLINICALDOC_INTEGRATION"

// fromEnvironment returns the target that the environment names, or nil.
func fromEnvironment(t *testing.T) *target {
	t.Helper()
	baseURL, token := os.Getenv(clinicaldoc.EnvBaseURL), os.Getenv(clinicaldoc.EnvToken)
	if os.Getenv(envOptIn) != "1" {
		if baseURL != "" {
			t.Logf("%s is not 1: the service in a box is used, not the one that %s names", envOptIn, clinicaldoc.EnvBaseURL)
		}
		return nil
	}
	tg := newForeign(t, baseURL, token)
	tg.patientID, tg.promptID = idFromEnvironment(t, envPatientID), idFromEnvironment(t, envPromptID)
	tg.skipSign = os.Getenv("CLINICALDOC_SKIP_SIGN") == "1"
	if path := os.Getenv(envAudioFile); path != "" {
		var err error
		tg.audio, err = os.ReadFile(path)
		require.NoError(t, err)
		tg.ownTone = false
	}
	return tg
}

// newForeign is a target of which only the address is known. Its client has the default query names; see learn.
func newForeign(t *testing.T, baseURL, token string) *target {
	t.Helper()
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	tg := &target{
		baseURL: baseURL, token: token, namePrefix: newNamePrefix(), audio: tone(time.Second), ownTone: true, interval: 2 * time.Second,
		newClient: func(t *testing.T, token string, opts ...clinicaldoc.Option) *clinicaldoc.Client {
			t.Helper()
			return newClient(t, baseURL, token, append([]clinicaldoc.Option{
				clinicaldoc.WithHTTPClient(&http.Client{Transport: transport}),
				// Long enough for a limit per minute to pass.
				clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 5, MaxWait: 90 * time.Second}),
			}, opts...)...)
		},
	}
	tg.client = tg.newClient(t, token)
	return tg
}

// fitTone shortens the suite's own tone to what the service takes.
func (tg *target) fitTone(t *testing.T) {
	t.Helper()
	for _, length := range []time.Duration{time.Second, 100 * time.Millisecond, 10 * time.Millisecond} {
		if !tg.ownTone {
			return
		}
		tg.audio = tone(length)
		note, err := tg.client.Notes.Create(t.Context(), tg.params())
		tg.deleteLater(t, note, err)
		if !refusesFile(err) {
			return
		}
	}
}

// refusesFile tells whether a creation failed for its recording.
func refusesFile(err error) bool {
	refusal, _ := errors.AsType[*clinicaldoc.Error](err)
	return errors.Is(err, clinicaldoc.ErrTooLarge) || errors.Is(err, clinicaldoc.ErrValidation) && refusal.Fields["file"] != nil
}

// hint says which variables may help where a service refuses the synthetic notes.
func hint(err error) string {
	refusal, refused := errors.AsType[*clinicaldoc.Error](err)
	if !refused {
		return ""
	}
	var hints []string
	for field, variable := range map[string]string{
		"patient_id": envPatientID + ", a patient of that service", "prompt_id": envPromptID + ", a prompt of that service",
		"file": envAudioFile + ", a recording that it takes",
	} {
		if refusal.Fields[field] != nil || field == "file" && errors.Is(err, clinicaldoc.ErrTooLarge) {
			hints = append(hints, variable)
		}
	}
	slices.Sort(hints)
	if len(hints) == 0 {
		return ""
	}
	return "set " + strings.Join(hints, "; ")
}

// What the synthetic notes refer to, and what they are made of.
const (
	envPatientID = "CLINICALDOC_PATIENT_ID"
	envPromptID  = "CLINICALDOC_PROMPT_ID"
	envAudioFile = "CLINICALDOC_AUDIO_FILE"
)

func idFromEnvironment(t *testing.T, name string) int64 {
	t.Helper()
	id, err := strconv.ParseInt(cmp.Or(os.Getenv(name), "1"), 10, 64)
	require.NoError(t, err, name)
	return id
}

// withPatient returns the target with a patient of the test's own, where there can be one.
func (tg *target) withPatient() *target {
	own := *tg
	if !tg.foreign() {
		own.patientID = tg.box.AddPatient(clinicaldoctest.Patient{}).ID
	}
	return &own
}

// tick lets the box's time pass.
func (tg *target) tick() {
	if !tg.foreign() {
		tg.box.Advance(step)
	}
}

// serial numbers the notes, so that each can be found by its name.
var serial atomic.Int64

// params describe one more synthetic note.
func (tg *target) params() clinicaldoc.CreateNoteParams {
	return clinicaldoc.CreateNoteParams{
		Name: fmt.Sprintf("%s %d", tg.namePrefix, serial.Add(1)), PatientID: tg.patientID, PromptID: tg.promptID, Audio: clinicaldoc.AudioBytes("synthetic.wav", tg.audio),
	}
}

// create makes a note that is deleted at the end of the test.
func (tg *target) create(t *testing.T) *clinicaldoc.ProgressNote {
	t.Helper()
	note, err := tg.client.Notes.Create(t.Context(), tg.params())
	tg.deleteLater(t, note, err)
	require.NoError(t, err, hint(err))
	return note
}

// deleteLater deletes what a creation has brought about, also if its answer was lost.
func (tg *target) deleteLater(t *testing.T, note *clinicaldoc.ProgressNote, err error) {
	t.Helper()
	lost := (*clinicaldoc.OutcomeUnknownError)(nil)
	if note == nil && !errors.As(err, &lost) {
		return
	}
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(ctx, cleanUpFor)
		defer cancel()
		if note == nil {
			params := clinicaldoc.FindCreatedParams{UniqueName: true, TrustPatientFilter: true}
			var err error
			if note, err = tg.client.Notes.FindCreated(ctx, lost, params); err != nil {
				t.Logf("a note may have been left behind: %v", err)
				return
			}
		}
		if _, err := tg.client.Notes.Delete(ctx, note.ID); err != nil && !errors.Is(err, clinicaldoc.ErrNotFound) {
			t.Logf("note %d was left behind, if signed because the service keeps signed notes: %v", note.ID, err)
		}
	})
}

// waitParams drive the box's clock with every poll.
func (tg *target) waitParams() clinicaldoc.WaitParams {
	return clinicaldoc.WaitParams{Interval: tg.interval, OnUpdate: func(*clinicaldoc.ProgressNote) { tg.tick() }}
}

// patience bounds a wait, so that it ends before go test would end everything and leave the notes behind.
func patience(t *testing.T) context.Context {
	t.Helper()
	until := time.Now().Add(*waitFor)
	if end, limited := t.Deadline(); limited && end.Add(-2*cleanUpFor).Before(until) {
		until = end.Add(-2 * cleanUpFor)
	}
	ctx, cancel := context.WithDeadline(t.Context(), until)
	t.Cleanup(cancel)
	return ctx
}

// complete waits until the note is complete.
func (tg *target) complete(t *testing.T, id int64) *clinicaldoc.ProgressNote {
	t.Helper()
	ctx := patience(t)
	note, err := tg.client.Notes.Wait(ctx, id, tg.waitParams())
	require.NoError(t, err, "a recording that the service cannot transcribe? see CLINICALDOC_AUDIO_FILE")
	require.Equal(t, clinicaldoc.StageComplete, note.Stage())
	return note
}
