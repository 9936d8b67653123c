package clinicaldoc_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// stageFields are the fields of a note in each stage; %s stands for updated_at.
var stageFields = map[clinicaldoc.Stage]string{
	clinicaldoc.StageUploaded:     `"has":{"transcription":false,"content":false,"signed":false}`,
	clinicaldoc.StageTranscribing: `"has":{"transcription":false,"content":false,"signed":false},"transcription_started_at":"2026-01-02T03:04:06Z"`,
	clinicaldoc.StageTranscribed:  `"has":{"transcription":true,"content":false,"signed":false},"transcription":"Synthetic words."`,
	clinicaldoc.StageAnalysing:    `"has":{"transcription":true,"content":false,"signed":false},"transcription":"Synthetic words.","analysis_started_at":"2026-01-02T03:04:08Z"`,
	clinicaldoc.StageComplete:     `"has":{"transcription":true,"content":true,"signed":false},"transcription":"Synthetic words.","analysis":"Synthetic analysis."`,
	clinicaldoc.StageSigned:       `"has":{"transcription":true,"content":true,"signed":true},"transcription":"Synthetic words.","analysis":"Synthetic analysis."`,
	clinicaldoc.StageFailed:       `"has":{},"error_state":"synthetic secret of a patient"`,
}

// noteIn is a note's JSON in the given stage, with a time of its own for each stage.
func noteIn(id int64, stage clinicaldoc.Stage) string {
	return noteAt(id, stage, slices.Index(stagesInOrder, stage)+1)
}

// noteAt is a note's JSON in the given stage, changed so many seconds after it was made.
func noteAt(id int64, stage clinicaldoc.Stage, second int) string {
	return fmt.Sprintf(`{"id":%d,"name":"Synthetic note","team_id":1,"user_id":1,"created_at":"2026-01-02T03:04:05Z","updated_at":%q,%s}`,
		id, time.Date(2026, 1, 2, 3, 4, 5+second, 0, time.UTC).Format(time.RFC3339), stageFields[stage])
}

// poll is one request that a polled service saw.
type poll struct {
	at   time.Duration // since the start
	path string        // with its query
}

// polled is a service in virtual time. Its answer is decided by the number of the request (from 1) and the time passed.
type polled struct {
	started time.Time
	took    time.Duration // by each request
	answer  func(n int, at time.Duration, r *http.Request) *reply

	mu    sync.Mutex // a download asks for two things at once
	polls []poll
}

// reply is an answer to be given.
type reply struct{ *http.Response }

func made(r *http.Request, code int, body string, header ...string) *reply {
	return &reply{madeResponse(r, code, body, header...)} //nolint:bodyclose // the client closes it
}

func (p *polled) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(p.took)
	at := time.Since(p.started)
	p.mu.Lock()
	p.polls = append(p.polls, poll{at, r.URL.RequestURI()})
	n := len(p.polls)
	p.mu.Unlock()
	resp := p.answer(n, at, r)
	if resp == nil {
		return nil, io.ErrUnexpectedEOF
	}
	return resp.Response, nil
}

// pauses are the times between polls.
func (p *polled) pauses() []time.Duration {
	var pauses []time.Duration
	for i := 1; i < len(p.polls); i++ {
		pauses = append(pauses, p.polls[i].at-p.polls[i-1].at)
	}
	return pauses
}

// newPolled returns a service in virtual time and a client of it. The client has its retries, which polls must not use.
func newPolled(t *testing.T, answer func(n int, at time.Duration, r *http.Request) *reply, opts ...clinicaldoc.Option) (*polled, *clinicaldoc.Client) {
	t.Helper()
	p := &polled{started: time.Now(), answer: answer}
	opts = append([]clinicaldoc.Option{clinicaldoc.WithHTTPClient(&http.Client{Transport: p})}, opts...)
	client, err := clinicaldoc.NewClient("https://api.clinic.test", "1|synthetic-token", opts...)
	require.NoError(t, err)
	return p, client
}

// always answers every poll alike.
func always(status int, body string, header ...string) func(int, time.Duration, *http.Request) *reply {
	return func(_ int, _ time.Duration, r *http.Request) *reply {
		return made(r, status, body, header...)
	}
}

// inOrder answers the n-th poll with the n-th text: a note, or nothing for a lost answer. The last one stays.
func inOrder(bodies ...string) func(int, time.Duration, *http.Request) *reply {
	return func(n int, _ time.Duration, r *http.Request) *reply {
		body := bodies[min(n, len(bodies))-1]
		if body == "" {
			return nil
		}
		return made(r, http.StatusOK, body)
	}
}

// stagesInOrder are the stages that can be waited for, as they follow each other.
var stagesInOrder = []clinicaldoc.Stage{
	clinicaldoc.StageUploaded, clinicaldoc.StageTranscribing, clinicaldoc.StageTranscribed,
	clinicaldoc.StageAnalysing, clinicaldoc.StageComplete, clinicaldoc.StageSigned,
}
