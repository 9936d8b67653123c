package contract

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Exchange is a request and its answer as they were held against the contract.
type Exchange struct {
	Operation   string     // its id; "" when the document has no such path and method
	Query       url.Values // of the request, with the document's names
	ContentType string     // of the request
	Body        []byte     // of the request, abridged; nil when it was not sent whole
	Answer      Answer     // zero when none came
	RequestErr  error      // how the request breaks the contract
	AnswerErr   error      // how the answer does
}

// Transport is an http.RoundTripper that checks what passes through it. It changes neither requests nor answers, and
// holds an upload's body against the contract while it is sent.
type Transport struct {
	Contract *Contract
	Base     *url.URL          // the service's base address
	Next     http.RoundTripper // sends the requests
	// Storage tells the addresses of the storage, which the document does not describe. What goes there is passed on,
	// but must not carry the token.
	Storage func(*url.URL) bool
	// QueryNames gives the document's name of a query parameter by the name in use: the document's are assumptions.
	QueryNames map[string]string
	// Observe is told of each exchange before its answer is returned. It may be called concurrently.
	Observe func(Exchange)
}

var (
	errElsewhere    = errors.New("the request goes elsewhere than to the service and its storage")
	errTokenStorage = errors.New("the request takes the token to the storage")
)

// RoundTrip sends a request and tells Observe how it and its answer keep the contract.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.Storage(req.URL) {
		if req.Header.Get("Authorization") != "" {
			t.Observe(Exchange{RequestErr: errTokenStorage})
		}
		return t.Next.RoundTrip(req)
	}
	e := Exchange{Query: t.translated(req.URL.Query()), ContentType: req.Header.Get("Content-Type")}
	defer func() { t.Observe(e) }()

	out := req.Clone(req.Context())
	out.GetBody = nil // a body that net/http sends again by itself would not be seen
	watched := watch(out)
	resp, err := t.Next.RoundTrip(out)
	var bodyErr error
	e.Body, bodyErr = watched.abridged()
	e.Operation, e.RequestErr = t.checkRequest(req, e, bodyErr)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(content))
	e.Answer = Answer{resp.StatusCode, resp.Header, content}
	if e.Operation != "" {
		e.AnswerErr = t.Contract.CheckAnswer(req.Context(), e.Operation, e.Answer)
	}
	return resp, nil
}

func (t *Transport) checkRequest(req *http.Request, e Exchange, bodyErr error) (operation string, err error) {
	path, inside := strings.CutPrefix(req.URL.Path, strings.TrimSuffix(t.Base.Path, "/"))
	if !inside || req.URL.Host != t.Base.Host || req.URL.Scheme != t.Base.Scheme {
		return "", errElsewhere
	}
	relative := req.Clone(req.Context())
	relative.URL = &url.URL{Path: path, RawQuery: e.Query.Encode()}
	operation, err = t.Contract.checkRequest(relative, e.Body, bodyErr == nil)
	if errors.Is(bodyErr, errNotSent) {
		bodyErr = nil // refused by its header, or lost: there is no whole body to check
	}
	return operation, errors.Join(err, bodyErr)
}

// translated gives query parameters the document's names.
func (t *Transport) translated(query url.Values) url.Values {
	named := url.Values{}
	for name, values := range query {
		if known := t.QueryNames[name]; known != "" {
			name = known
		}
		named[name] = append(named[name], values...)
	}
	return named
}

var errNotSent = errors.New("the body was not sent whole")

// watchedBody lets a body be read by whoever sends it, and abridges a copy of it meanwhile.
type watchedBody struct {
	io.ReadCloser
	copy *io.PipeWriter
	done chan struct{}

	short []byte
	err   error
}

// watch puts a watched body in the place of the request's, if it has one.
func watch(req *http.Request) *watchedBody {
	if req.Body == nil || req.Body == http.NoBody {
		return nil
	}
	reader, writer := io.Pipe()
	w := &watchedBody{ReadCloser: req.Body, copy: writer, done: make(chan struct{})}
	contentType := req.Header.Get("Content-Type")
	go func() {
		defer close(w.done)
		w.short, w.err = abridge(reader, contentType)
	}()
	req.Body = w
	return w
}

// Read reads for the sender.
func (w *watchedBody) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if n > 0 {
		_, _ = w.copy.Write(p[:n]) // the other end reads to the end
	}
	if errors.Is(err, io.EOF) {
		_ = w.copy.Close()
	}
	return n, err
}

// Close ends the copy too, whole or not: transports always close the bodies they are given.
func (w *watchedBody) Close() error {
	_ = w.copy.CloseWithError(errNotSent) // without effect after the body's end
	return w.ReadCloser.Close()
}

// abridged waits until the sender is done with the body and returns the copy.
func (w *watchedBody) abridged() ([]byte, error) {
	if w == nil {
		return nil, nil
	}
	<-w.done
	return w.short, w.err
}
