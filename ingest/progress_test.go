package ingest_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/ingest"
)

// A run that waits for a limit of the service reports one event, however many workers wait.
func TestRun_ServiceLimitsRates_ReportsOneWait(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		var uploads atomic.Int32
		limited := transportFunc(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodPost || uploads.Add(1) > 4 {
				return srv.Transport().RoundTrip(r)
			}
			time.Sleep(time.Second) // until all four are under way
			header := http.Header{"Retry-After": {"50"}}
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: header, Request: r}, nil
		})
		u.Client = srv.Client(clinicaldoc.WithHTTPClient(&http.Client{Transport: limited}))
		u.Workers = 4
		u.AllNew = true
		var waits []time.Duration
		u.OnEvent = func(e ingest.Event) {
			if e.RateLimitWait > 0 {
				waits = append(waits, e.RateLimitWait)
				assert.Contains(t, e.LogValue().String(), "rate_limit_wait=50s")
			}
		}
		assert.Equal(t, counts{ingest.Created: 8}, statuses(upload(t, u, recordings(0, 8))))
		assert.Equal(t, []time.Duration{50 * time.Second}, waits)
	})
}

func TestRun_Events_ReportEachRecordingAndTheProgress(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest())
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, `{"message":"synthetic"}`))
		srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Delay(time.Second).Always())
		var events []ingest.Event
		u.Workers = 1
		u.Total = 40
		u.OnEvent = func(e ingest.Event) { events = append(events, e) }
		results := upload(t, u, recordings(0, 40))
		assert.Equal(t, counts{ingest.Created: 39, ingest.Refused: 1}, statuses(results))

		ended := 0
		states := map[ingest.State]int{}
		for _, e := range events {
			states[e.State]++
			assert.Equal(t, 40, e.Progress.Total)
			assert.Equal(t, e.Recording.Key != "", e.JournalKey != ingest.Key{},
				"every event of a recording has its key")
			if e.State == ingest.StateInDoubt {
				assert.Equal(t, 1, e.Progress.Doubts)
				assert.True(t, e.Until.After(time.Now().Add(-time.Hour)))
			}
			if e.Result == nil {
				continue
			}
			ended++
			assert.GreaterOrEqual(t, e.Result.Took, min(time.Second, time.Duration(e.Result.NoteID)*time.Second),
				"each takes a second, but the one that is refused")
			assert.Equal(t, ended, e.Progress.Done())
			if ended == 20 { // a second for each of the 20 that are left, were it not for the unresolved one
				assert.Equal(t, 1, e.Progress.Doubts)
				assert.InDelta(t, 10*60-20, e.Progress.Left.Seconds(), 3)
			}
			if ended < 8 {
				assert.Zero(t, e.Progress.Left, "too few to tell")
			}
		}
		assert.Equal(t, 40, ended)
		assert.Equal(t, 1, states[ingest.StateInDoubt])
		assert.Equal(t, 41, states[ingest.StateClaimed], "and the unresolved one once more")
		last := events[len(events)-1].Progress
		assert.Equal(t, ingest.Progress{Total: 40, Created: 39, Refused: 1, Elapsed: last.Elapsed}, last)
	})
}

func TestProgress_Left_FollowsThePace(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, srv *clinicaldoctest.Server, u *ingest.Uploader) {
		u.Workers = 2
		u.Total = 200
		u.OnEvent = func(e ingest.Event) {
			// half of them were there already
			if done := e.Progress.Done(); e.Result != nil && done >= 100 && done < 200 {
				assert.InDelta(t, float64(200-done)/2, e.Progress.Left.Seconds(), 50*float64(max(0, 164-done))/64+2,
					"after %d", done)
			}
		}
		for _, count := range []int{100, 200} {
			srv.ClearFaults()
			// an unresolved recording that was decided does not count
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterCommit())
			srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Delay(time.Second).Always())
			upload(t, u, recordings(0, count))
		}
	})
}

// unhurried is a recording that takes a while to be read.
type unhurried struct{}

func (unhurried) ReadAt(p []byte, _ int64) (int, error) {
	time.Sleep(50 * time.Millisecond)
	return len(p), nil
}

// The recording's OnProgress is called as its bytes leave; events report them a few times a second.
func TestRun_Upload_ReportsBytesAFewTimesASecond(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, _ *clinicaldoctest.Server, u *ingest.Uploader) {
		const size = 8 << 20
		calls, events, last, shortest := 0, 0, time.Time{}, time.Hour
		r := recording(0)
		r.Params.Audio = clinicaldoc.AudioReaderAt("a.wav", unhurried{}, size)
		r.Params.OnProgress = func(int64, int64) { calls++ }
		u.OnEvent = func(e ingest.Event) {
			if e.Sent == 0 {
				return
			}
			events++
			assert.Equal(t, int64(size), e.Size)
			shortest = min(shortest, time.Since(last))
			last = time.Now()
		}
		result := uploadOne(t, u, r)
		require.Equal(t, ingest.Created, result.Status, result)
		assert.Greater(t, calls, events)
		assert.Equal(t, 200*time.Millisecond, shortest)
		assert.Greater(t, events, 2)
	})
}

// No value of this package prints a name, a path or a key.
func TestFormat_EveryType_PrintsNoNames(t *testing.T) {
	t.Parallel()
	const secret = "Synthetic-Name"
	r := ingest.Recording{
		Key: secret, File: "/" + secret,
		Params: clinicaldoc.CreateNoteParams{Name: secret, PatientID: 8765432109876543},
	}
	result := ingest.Result{
		Recording: r, Status: ingest.InDoubt, Until: time.Now(), Err: fmt.Errorf("about %s", secret),
	}
	event := ingest.Event{Recording: r, Result: &result}
	pause := ingest.Pause{Why: result.Err, Next: time.Now()}
	report := ingest.Report{
		Results: []ingest.Result{result}, Left: []ingest.Recording{r}, Pauses: []ingest.Pause{pause}, Err: result.Err,
	}
	for _, value := range []any{
		r, result, event, &event, []ingest.Result{result}, ingest.Progress{}, pause, ingest.Event{Pause: &pause},
		report, &report,
	} {
		var out bytes.Buffer
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			fmt.Fprintf(&out, verb+"\n", value)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("value", "value", value)
		assert.NotContains(t, out.String(), secret)
		assert.NotContains(t, strings.ReplaceAll(out.String(), "patient", ""), "8765432109876543")
	}
	_, err := ingest.FileKey("/"+secret+"/missing.wav", r.Params)
	require.Error(t, err)
	assert.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), secret)
}

func TestFormat_ResultsPausesAndReports_PrintWhatHappened(t *testing.T) {
	t.Parallel()
	at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	created := ingest.Result{Status: ingest.Created, NoteID: 4711}
	refused := ingest.Result{Status: ingest.Refused, Err: clinicaldoc.ErrNotFound}
	unresolved := ingest.Result{Status: ingest.InDoubt, Until: at}
	pause := ingest.Pause{Why: clinicaldoc.ErrNotFound, Next: at}
	report := ingest.Report{
		Results: []ingest.Result{created, refused, refused}, Pauses: make([]ingest.Pause, 3), Took: time.Second,
		Err: clinicaldoc.ErrNotFound,
	}
	for _, c := range []struct {
		value any
		want  string
	}{
		{created, "ingest.Result{status=created note_id=4711}"},
		{refused, "ingest.Result{status=refused error=not found}"},
		{unresolved, "ingest.Result{status=unresolved until=2000-01-01 00:00:00 +0000 UTC}"},
		{pause, "ingest.Pause{paused=true why=not found next=2000-01-01 00:00:00 +0000 UTC}"},
		{ingest.Pause{}, "ingest.Pause{paused=false}"},
		{ingest.StateInDoubt, "in-doubt"},
		{ingest.StateInDoubt + 1, "State(6)"},
		{report, "ingest.Report{complete=0 processing=0 failed=0 created=1 already_there=0 refused=2 in_doubt=0 " +
			"left=0 earlier=0 pauses=2 took=1s error=not found}"},
	} {
		assert.Equal(t, c.want, fmt.Sprint(c.value))
	}
}

// An event prints the progress of the run, then what happened.
func TestFormat_Events_PrintWhatHappened(t *testing.T) {
	t.Parallel()
	created := ingest.Result{Status: ingest.Created, NoteID: 4711}
	for want, event := range map[string]ingest.Event{
		"result={status=created note_id=4711}}": {Result: &created},
		"pause={paused=false}}":                 {Pause: &ingest.Pause{}},
		"state=claimed}":                        {State: ingest.StateClaimed},
		"sent=2 size=3}":                        {Sent: 2, Size: 3},
	} {
		progress, happened, _ := strings.Cut(fmt.Sprint(event), "left=0s} ")
		assert.Contains(t, progress, "ingest.Event{progress={total=0 created=0 ")
		assert.Equal(t, want, happened)
	}
}

func TestProgress_Done_CountsEveryEnding(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 10, ingest.Progress{Created: 1, AlreadyThere: 2, Refused: 3, InDoubt: 4}.Done())
}

// A run without a total knows it once the iterator has ended, which is while the last recordings are being sent.
func TestProgress_TotalUnknown_IsKnownAtTheEnd(t *testing.T) {
	t.Parallel()
	withUploader(t, func(t *testing.T, _ *clinicaldoctest.Server, u *ingest.Uploader) {
		var last ingest.Progress
		u.OnEvent = func(e ingest.Event) { last = e.Progress }
		slowly := func(yield func(ingest.Recording, error) bool) {
			for recording, err := range recordings(0, 30) {
				recording.Params.OnProgress = func(_, _ int64) { time.Sleep(time.Second) }
				if !yield(recording, err) {
					return
				}
			}
		}
		upload(t, u, slowly)
		assert.Equal(t, 30, last.Total)
		assert.Equal(t, 30, last.Created)
	})
}

// A wrong total is the caller's. Left is never negative.
func TestProgress_TotalUnknownOrWrong_HasNoTimeLeft(t *testing.T) {
	t.Parallel()
	_, u := newUploader(t)
	for total, shown := range map[int]int{0: 0, -1: 0, 10: 10} {
		var last ingest.Progress
		u.Total = total
		u.OnEvent = func(e ingest.Event) {
			assert.Contains(t, []int{shown, 30}, e.Progress.Total)
			assert.GreaterOrEqual(t, e.Progress.Left, time.Duration(0))
			last = e.Progress
		}
		upload(t, u, recordings(0, 30))
		assert.Equal(t, 30, last.Created+last.AlreadyThere)
		assert.Zero(t, last.Left)
	}
}
