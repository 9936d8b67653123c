package clinicaldoc_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// signable is a service with one note. The n-th PUT is answered by the n-th step; a GET tells the note's state.
type signable struct {
	mu               sync.Mutex
	complete, signed bool
	missing          bool // GET fails
	busy             bool // GET is asked to wait
	log              []string
	puts             int
	steps            []func(s *signable, w http.ResponseWriter, r *http.Request)
}

func (s *signable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, r.Method)
	if r.Method == http.MethodPut {
		step := s.steps[min(s.puts, len(s.steps)-1)]
		s.puts++
		step(s, w, r)
		return
	}
	if s.busy {
		socketStatus(http.StatusTooManyRequests, `{}`)(w, r)
		return
	}
	if s.missing {
		socketStatus(http.StatusForbidden, `{"message":"synthetic"}`)(w, r)
		return
	}
	socketStatus(http.StatusOK, s.note())(w, r)
}

func (s *signable) note() string {
	return fmt.Sprintf(`{"id":9,"name":"Synthetic note","team_id":1,"user_id":1,"updated_at":"2026-01-02T03:04:05Z","has":{"content":%t,"transcription":%t,"signed":%t}}`, s.complete, s.complete, s.signed)
}

func signed(s *signable, w http.ResponseWriter, r *http.Request) {
	s.signed = true
	socketStatus(http.StatusOK, s.note())(w, r)
}

func answered(code int, message string) func(*signable, http.ResponseWriter, *http.Request) {
	return func(_ *signable, w http.ResponseWriter, r *http.Request) {
		socketStatus(code, fmt.Sprintf(`{"message":%q}`, message))(w, r)
	}
}

// signLost breaks the connection, having signed the note before or not.
func signLost(t *testing.T, sign bool) func(*signable, http.ResponseWriter, *http.Request) {
	t.Helper()
	return func(s *signable, w http.ResponseWriter, _ *http.Request) {
		s.signed = s.signed || sign
		socketReset(t, w)
	}
}

func TestSignAfterALostResponse(t *testing.T) {
	t.Parallel()
	type step = func(*signable, http.ResponseWriter, *http.Request)
	for _, tc := range []struct {
		name       string
		incomplete bool
		steps      []step
		opts       []clinicaldoc.CallOption
		puts       int
		want       []error // none: signed
	}{
		{name: "signed all the same", steps: []step{signLost(t, true)}, puts: 1},
		{name: "signed all the same, without retries", steps: []step{signLost(t, true)}, opts: []clinicaldoc.CallOption{clinicaldoc.WithoutRetry()}, puts: 1},
		{name: "not signed", steps: []step{signLost(t, false), signed}, puts: 2},
		{name: "signed, and a bad gateway answers", steps: []step{func(s *signable, w http.ResponseWriter, r *http.Request) {
			s.signed = true
			socketStatus(http.StatusBadGateway, "")(w, r)
		}}, puts: 1},
		{name: "signed, and no note answers", steps: []step{func(s *signable, w http.ResponseWriter, r *http.Request) {
			s.signed = true
			socketStatus(http.StatusOK, "<html></html>")(w, r)
		}}, puts: 1},
		{name: "signed, and a redirect answers", steps: []step{func(s *signable, w http.ResponseWriter, r *http.Request) {
			s.signed = true
			socketStatus(http.StatusFound, "", "Location", "/home")(w, r)
		}}, puts: 1},
		{name: "not complete", incomplete: true, steps: []step{signLost(t, false)}, puts: 1, want: []error{clinicaldoc.ErrNoteIncomplete}},
		{name: "failing to the end", steps: []step{answered(http.StatusBadGateway, "")}, puts: 4, want: []error{clinicaldoc.ErrServer}},
		{name: "limited, then signed", steps: []step{answered(http.StatusTooManyRequests, ""), signed}, puts: 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			service := &signable{complete: !tc.incomplete, steps: tc.steps}
			srv := socketHandler(t, service.ServeHTTP)
			note, err := socketClient(t, srv.URL).Notes.Sign(socketContext(t), 9, tc.opts...)
			if len(tc.want) == 0 {
				require.NoError(t, err)
				assert.True(t, note.Has.Signed)
			}
			for _, want := range tc.want {
				require.ErrorIs(t, err, want)
			}
			assert.Equal(t, tc.puts, service.puts)
		})
	}
}

func TestSignRefused(t *testing.T) {
	t.Parallel()
	const telling = "A note without complete transcription and analysis cannot be signed."
	for _, code := range []int{400, 403, 409, 422, 423, 500} {
		for _, opts := range [][]clinicaldoc.CallOption{nil, {clinicaldoc.WithoutRetry()}} {
			for _, tc := range []struct {
				name, message        string
				complete, unreadable bool
				wantIncomplete       bool
			}{
				{name: "telling message", message: telling, wantIncomplete: true},
				{name: "telling message, complete flags", message: telling, complete: true},
				{name: "other message, not complete", message: "synthetic", wantIncomplete: true},
				{name: "other message, complete", message: "synthetic", complete: true},
				{name: "other message, unreadable", message: "synthetic", unreadable: true},
			} {
				t.Run(fmt.Sprintf("%d %s, retry %t", code, tc.name, opts == nil), func(t *testing.T) {
					t.Parallel()
					service := &signable{complete: tc.complete, missing: tc.unreadable, steps: []func(*signable, http.ResponseWriter, *http.Request){answered(code, tc.message)}}
					srv := socketHandler(t, service.ServeHTTP)
					_, err := socketClient(t, srv.URL).Notes.Sign(socketContext(t), 9, opts...)
					var refusal *clinicaldoc.Error
					require.ErrorAs(t, err, &refusal)
					assert.Equal(t, code, refusal.StatusCode)
					assert.Equal(t, tc.message, refusal.Message)
					if tc.wantIncomplete {
						require.ErrorIs(t, err, clinicaldoc.ErrNoteIncomplete)
					} else {
						require.NotErrorIs(t, err, clinicaldoc.ErrNoteIncomplete)
					}
					if code < 500 {
						assert.Equal(t, []string{"PUT", "GET"}, service.log, "the message suggests, the note decides")
					}
				})
			}
		}
	}
}

func TestSignCostsNoReadWhereNothingCanBeLearnt(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]error{
		http.StatusUnauthorized: clinicaldoc.ErrUnauthorized, http.StatusNotFound: clinicaldoc.ErrNotFound,
		http.StatusTooManyRequests: clinicaldoc.ErrRateLimited, http.StatusTemporaryRedirect: clinicaldoc.ErrUnexpectedResponse,
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			service := &signable{steps: []func(*signable, http.ResponseWriter, *http.Request){answered(code, "synthetic")}}
			srv := socketHandler(t, service.ServeHTTP)
			_, err := socketClient(t, srv.URL).Notes.Sign(socketContext(t), 9)
			require.ErrorIs(t, err, want)
			assert.NotContains(t, strings.Join(service.log, " "), "GET")
		})
	}
	t.Run("lost, then asked to wait", func(t *testing.T) {
		t.Parallel()
		service := &signable{complete: true, steps: []func(*signable, http.ResponseWriter, *http.Request){signLost(t, false), answered(http.StatusTooManyRequests, "synthetic")}}
		srv := socketHandler(t, service.ServeHTTP)
		once := clinicaldoc.RetryPolicy{MaxRetries: 1, MinWait: socketPolicy.MinWait, MaxWait: socketPolicy.MaxWait}
		_, err := socketClient(t, srv.URL, clinicaldoc.WithRetry(once)).Notes.Sign(socketContext(t), 9)
		require.ErrorIs(t, err, clinicaldoc.ErrRateLimited)
		require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		assert.Equal(t, []string{"PUT", "GET", "PUT"}, service.log)
	})
	t.Run("lost, and the read asked to wait", func(t *testing.T) {
		t.Parallel()
		service := &signable{complete: true, busy: true, steps: []func(*signable, http.ResponseWriter, *http.Request){answered(http.StatusBadGateway, "synthetic")}}
		srv := socketHandler(t, service.ServeHTTP)
		once := clinicaldoc.RetryPolicy{MaxRetries: 1, MinWait: socketPolicy.MinWait, MaxWait: socketPolicy.MaxWait}
		_, err := socketClient(t, srv.URL, clinicaldoc.WithRetry(once)).Notes.Sign(socketContext(t), 9)
		require.ErrorIs(t, err, clinicaldoc.ErrOutcomeUnknown)
		assert.Equal(t, []string{"PUT", "GET", "GET"}, service.log)
	})
	t.Run("refused here", func(t *testing.T) {
		t.Parallel()
		service := &signable{}
		srv := socketHandler(t, service.ServeHTTP)
		_, err := socketClient(t, srv.URL).Notes.Sign(socketContext(t), 9, clinicaldoc.WithHeader("Authorization", "synthetic"))
		require.ErrorIs(t, err, clinicaldoc.ErrInvalidArgument)
		assert.Empty(t, service.log)
	})
}
