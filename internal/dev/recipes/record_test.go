package recipes

import (
	"net/http"
	"net/url"

	"gopkg.in/dnaeon/go-vcr.v4/pkg/cassette"
	"gopkg.in/dnaeon/go-vcr.v4/pkg/recorder"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// onTape returns a client that replays a recorded session, or records one if there is none, and a
// function that saves it. A session contains notes: record against the fake server, never with
// patient data.
func onTape(tape, baseURL, token string) (*clinicaldoc.Client, func() error, error) {
	r, err := recorder.New(tape,
		recorder.WithMode(recorder.ModeRecordOnce),
		recorder.WithMatcher(sameRequest),
		recorder.WithHook(withoutToken, recorder.AfterCaptureHook),
	)
	if err != nil {
		return nil, nil, err
	}
	client, err := clinicaldoc.NewClient(baseURL, token,
		clinicaldoc.WithHTTPClient(&http.Client{Transport: r}),
	)
	return client, r.Stop, err
}

// sameRequest compares neither the body, whose boundary is random, nor the host: the fake
// server has a different port each time.
func sameRequest(r *http.Request, i cassette.Request) bool {
	recorded, err := url.Parse(i.URL)
	return err == nil && r.Method == i.Method && r.URL.RequestURI() == recorded.RequestURI()
}

func withoutToken(i *cassette.Interaction) error {
	i.Request.Headers.Del("Authorization")
	return nil
}
