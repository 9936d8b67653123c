package clinicaldoc_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

func TestEveryEndpointRefusesOtherResponses(t *testing.T) {
	t.Parallel()
	for _, e := range endpoints() {
		for name, answer := range map[string]call{
			"HTML":      {response: "<html>secret", answerHeader: map[string]string{"Content-Type": "text/html; charset=secret", "X-Request-Id": "req-3"}},
			"truncated": {response: e.ok[:len(e.ok)-1], answerHeader: map[string]string{"X-Request-Id": "req-3"}},
			"trailing":  {response: e.ok + "secret", answerHeader: map[string]string{"X-Request-Id": "req-3"}},
			"empty":     {answerHeader: map[string]string{"X-Request-Id": "req-3"}},
		} {
			if name == "empty" && e.method == http.MethodDelete {
				continue // allowed
			}
			t.Run(e.operation+" "+name, func(t *testing.T) {
				t.Parallel()
				request := e.request()
				request.response, request.answerHeader = answer.response, answer.answerHeader
				calls := []call{request}
				if e.operation == "Notes.Sign" {
					calls = append(calls, call{url: "/v1/progress-notes/7", response: `{"id":7,"has":{"content":true,"transcription":true}}`})
				}
				value, err := e.call(t.Context(), serve(t, calls...))
				require.ErrorIs(t, err, clinicaldoc.ErrUnexpectedResponse)
				require.ErrorContains(t, err, "req-3")
				require.ErrorContains(t, err, e.operation)
				assert.NotContains(t, err.Error(), "secret")
				assert.Empty(t, value)
			})
		}
	}
}

func TestAnySuccessStatusIsSuccess(t *testing.T) {
	t.Parallel()
	for _, e := range endpoints() {
		for _, status := range []int{200, 201, 202, 203, 206, 299} {
			request := e.request()
			request.status = status
			_, err := e.call(t.Context(), serve(t, request))
			require.NoError(t, err, "%s %d", e.operation, status)
		}
	}
}
