package devproxy

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// replayHeader names the request that one repeats. It is never passed on.
const replayHeader = "X-Devproxy-Replays"

const replayTimeout = time.Minute

// edited is a request to send again, as it was but for what is set.
type edited struct {
	Method *string  `json:"method"`
	Target *string  `json:"target"`
	Header []string `json:"header"` // lines; nil: as they were
	Body   *string  `json:"body"`
	Base64 bool     `json:"base64"` // how the body is written
}

// replay sends a recorded request to the box again and waits until its response is there.
func (b *box) replay(ctx context.Context, recorded *request, change edited) error {
	ctx, cancel := context.WithTimeout(ctx, replayTimeout)
	defer cancel()
	req, err := b.replayRequest(ctx, recorded, change)
	if err != nil {
		return err
	}
	resp, err := b.transport.RoundTrip(req)
	if err != nil {
		return nil // a fault may have met it, which the list shows
	}
	_, _ = io.Copy(io.Discard, resp.Body) // so may one have met the body
	_ = resp.Body.Close()
	return nil
}

// replayRequest returns a recorded request with the changes.
func (b *box) replayRequest(ctx context.Context, recorded *request, change edited) (*http.Request, error) {
	rec := recorded.record
	content, err := change.body(rec)
	if err != nil {
		return nil, err
	}
	uri := rec.uri
	if change.Target != nil {
		uri = *change.Target
	}
	method := rec.method
	if change.Method != nil {
		method = *change.Method
	}
	switch {
	case !strings.HasPrefix(uri, "/"):
		return nil, errors.New("a target must begin with /")
	case strings.HasPrefix(uri, pagePath):
		return nil, errors.New("requests to the inspector itself are not sent")
	}
	address := b.origin()
	if rec.storage {
		address = b.StorageURL
	}
	req, err := http.NewRequestWithContext(ctx, method, address+uri, bytes.NewReader(content))
	if err != nil {
		return nil, errors.New("that is not a request: check method and target")
	}
	req.Header, err = rec.header(change.Header, b.Token)
	if err != nil {
		return nil, err
	}
	if rec.chunked && len(content) > 0 {
		req.ContentLength = -1
	}
	req.Header.Set(replayHeader, strconv.FormatInt(recorded.ID, 10))
	if _, given := req.Header["User-Agent"]; !given {
		req.Header["User-Agent"] = nil // or net/http adds its own
	}
	return req, nil
}

// body returns the body to send: the changed one, or the recorded one if it was kept completely.
func (change edited) body(rec *record) ([]byte, error) {
	if change.Body == nil {
		content, whole := rec.requestBody.bytes()
		if !whole {
			return nil, errors.New("the request's body was not kept completely: it cannot be sent again")
		}
		return content, nil
	}
	if !change.Base64 {
		return []byte(*change.Body), nil
	}
	content, err := base64.StdEncoding.DecodeString(*change.Body)
	if err != nil {
		return nil, errors.New("the body is not in base64")
	}
	return content, nil
}

// header is what is sent again. What was withheld is sent as it was, or with the box's own token where it came from a
// file.
func (rec *record) header(lines []string, token string) (http.Header, error) {
	header := http.Header{}
	if lines == nil {
		lines = headerLines(rec.requestHeader)
	}
	for _, line := range lines {
		name, value, found := strings.Cut(line, ":")
		if strings.TrimSpace(line) == "" {
			continue
		}
		if !found || strings.TrimSpace(name) == "" {
			return nil, fmt.Errorf("%q is not a header; write NAME: VALUE", line)
		}
		value = strings.TrimSpace(value)
		switch name = http.CanonicalHeaderKey(strings.TrimSpace(name)); {
		case name == "Content-Length" || name == "Connection":
			continue // they belong to a connection
		case name == "Authorization" && value == withheld && rec.authorization != nil:
			header[name] = rec.authorization
			continue
		case name == "Authorization" && value == withheld:
			value = "Bearer " + token
		}
		header.Add(name, value)
	}
	return header, nil
}
