package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

// line hands over what the program prints, line by line.
type line chan string

func (l line) Write(p []byte) (int, error) {
	l <- string(bytes.TrimSpace(p))
	return len(p), nil
}

func TestRunServesTheBoxUntilItIsEnded(t *testing.T) {
	t.Setenv(clinicaldoc.EnvBaseURL, "") // the box, whatever the shell has
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	printed, ended := make(line, 10), make(chan error, 1)
	go func() { ended <- run(ctx, "127.0.0.1:0", false, printed) }()

	assert.Contains(t, <-printed, "service in a box")
	try := regexp.MustCompile(`^try: curl -b (\S+) (http://\S+)$`).FindStringSubmatch(<-printed)
	require.NotNil(t, try)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, try[2], nil)
	require.NoError(t, err)
	request.Header.Set("Cookie", try[1])
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, 200, response.StatusCode, string(body))
	assert.Contains(t, string(body), `"id":1`)

	cancel()
	require.NoError(t, <-ended)
}
