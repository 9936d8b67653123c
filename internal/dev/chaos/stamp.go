package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go"
)

const (
	callHeader = "X-Synthetic-Call"
	sentHeader = "X-Synthetic-Sent"
)

// stamping notes on each request when it was sent, so that a copy that the network held back can be told from a retry.
type stamping struct{ next http.RoundTripper }

func (s stamping) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(sentHeader, strconv.FormatInt(time.Now().UnixNano(), 10))
	return s.next.RoundTrip(r)
}

func sentAt(h http.Header) time.Time {
	nanoseconds, err := strconv.ParseInt(h.Get(sentHeader), 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}

// replaying is a transport as some callers bring: it keeps the body and sends everything up to three times.
type replaying struct{ next http.RoundTripper }

func (t replaying) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	var body []byte
	if r.Body != nil {
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	for range 3 {
		if resp != nil {
			_ = resp.Body.Close()
		}
		again := r.Clone(r.Context())
		if r.Body != nil {
			again.Body = io.NopCloser(bytes.NewReader(body))
		}
		if resp, err = t.next.RoundTrip(again); err == nil && resp.StatusCode < http.StatusInternalServerError {
			return resp, nil
		}
	}
	return resp, err
}

// call is one edit of a caller's, as it can be told on the wire.
type call struct {
	kind    string
	note    int64
	guarded bool      // it carries the note as it was read
	since   time.Time // when the caller had read that
	unruly  bool      // the caller's transport retries by itself
}

// lastEdit is the name of the caller's latest edit on the wire.
func (c *caller) lastEdit() string { return fmt.Sprintf("%d-%d", c.patientID, c.editing) }

// begin notes a call and returns the options that mark its requests; a guarded one reads the note first.
func (c *caller) begin(kind string, r *record, guard *clinicaldoc.ProgressNote, since time.Time) []clinicaldoc.CallOption {
	c.editing++
	id := c.lastEdit()
	c.edits[id] = &call{kind: kind, note: r.id, guarded: guard != nil, since: since, unruly: c.unruly}
	opts := []clinicaldoc.CallOption{clinicaldoc.WithHeader(callHeader, id)}
	if guard != nil {
		opts = append(opts, clinicaldoc.IfUnchanged(guard))
	}
	return opts
}
