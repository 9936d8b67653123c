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
)

// target is the service that the suite runs against. Nothing may be taken for granted there, and nothing changed but
// the suite's own notes, one thing at a time.
type target struct {
	client         *clinicaldoc.Client // with the query names that the report has found
	baseURL, token string
	transport      *http.Transport
	retry          clinicaldoc.RetryPolicy

	patientID, promptID int64
	trustFilter         bool   // the list's rows name no patient
	namePrefix          string // unique, so own notes can be distinguished from all others
	audio               []byte
	ownTone             bool // the audio is the suite's own tone, which may be shortened
	skipSign            bool
	pageSize            int
	interval            time.Duration // between polls
}

const (
	// cleanUpFor bounds a deletion after the end of its test.
	cleanUpFor = time.Minute
	// absentID is no note or token anywhere: the largest number that every JSON reader keeps.
	absentID = 1<<53 - 1
)

// envOptIn must be 1 for the suite to write to the service that the other variables name.
const envOptIn = "CLINICALDOC_INTEGRATION"

// fromEnvironment returns the target that the environment names, or nil.
func fromEnvironment(t *testing.T) *target {
	t.Helper()
	baseURL, token := os.Getenv(clinicaldoc.EnvBaseURL), os.Getenv(clinicaldoc.EnvToken)
	if os.Getenv(envOptIn) != "1" {
		if baseURL != "" {
			t.Logf("%s is not 1: the fake server is used, not the service that %s names", envOptIn, clinicaldoc.EnvBaseURL)
		}
		return nil
	}
	tg := newTarget(t, baseURL, token)
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

// newTarget returns a target of which only the address is known. Its client has the default query names.
func newTarget(t *testing.T, baseURL, token string) *target {
	t.Helper()
	tg := &target{
		baseURL: baseURL, token: token, namePrefix: "Synthetic test note " + rand.Text(), audio: tone(time.Second), ownTone: true,
		transport: &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true},
		retry:     clinicaldoc.RetryPolicy{MaxRetries: 5, MaxWait: 90 * time.Second}, // a limit per minute passes
		interval:  2 * time.Second, pageSize: 100,
	}
	t.Cleanup(tg.transport.CloseIdleConnections)
	tg.client = tg.newClient(t, token)
	return tg
}

// newClient returns another client for the same address.
func (tg *target) newClient(t *testing.T, token string, opts ...clinicaldoc.Option) *clinicaldoc.Client {
	t.Helper()
	opts = append(opts, clinicaldoc.WithRetry(tg.retry), clinicaldoc.WithHTTPClient(&http.Client{Transport: tg.transport}))
	client, err := clinicaldoc.NewClient(tg.baseURL, token, opts...)
	require.NoError(t, err)
	return client
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
		refusal, refused := errors.AsType[*clinicaldoc.Error](err)
		if !errors.Is(err, clinicaldoc.ErrTooLarge) && (!refused || refusal.Fields["file"] == nil) {
			return
		}
	}
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

// serial numbers the notes, so that each can be found by its name.
var serial atomic.Int64

// params describe one more synthetic note.
func (tg *target) params() clinicaldoc.CreateNoteParams {
	return clinicaldoc.CreateNoteParams{
		Name: fmt.Sprintf("%s %d", tg.namePrefix, serial.Add(1)), PatientID: tg.patientID, PromptID: tg.promptID,
		Audio: clinicaldoc.AudioBytes("synthetic.wav", tg.audio),
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

func (tg *target) waitParams() clinicaldoc.WaitParams {
	return clinicaldoc.WaitParams{Interval: tg.interval}
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
