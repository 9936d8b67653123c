package download

import (
	"errors"
	"net/http"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Error is why an attempt or the whole download failed.
type Error struct {
	Kind   Kind
	Text   string  // safe to print
	Causes []error // for errors.Is and errors.As
	Then   Then    // what could help

	// Of a response that was Refused.
	Status     int
	Header     http.Header
	RetryAfter time.Duration
}

// Kind says where a failure belongs.
type Kind int

// The kinds of failures.
const (
	Failed       Kind = iota // at this end: the target, the context
	Broken                   // no response, or none that was whole
	Refused                  // storage's status says no
	Unexpected               // what storage sent is not what was asked for
	SizeMismatch             // what storage sent has another size than Source tells
	Changed                  // the target has a part of another recording and cannot be rewound
)

// Then says what could help after a failure.
type Then int

// What could help.
const (
	Stop  Then = iota // nothing: it would be the same
	Retry             // waiting: the failure may pass
	Renew             // a fresh address: storage refuses the one it was asked with, as it does when that has expired
)

func (e *Error) Error() string { return e.Text }

// SafeText is the error's text: it holds no data.
func (e *Error) SafeText() string { return e.Text }

func (e *Error) Unwrap() []error { return e.Causes }

// Is matches [exchange.ErrUnusable], unless the request or the response broke off.
func (e *Error) Is(target error) bool { return target == exchange.ErrUnusable && e.Kind != Broken }

// Break is a request or a response that broke off; what is one already stays as it is. Who drives the download may know
// better why.
func Break(err error) *Error {
	if broken, ok := errors.AsType[*Error](err); ok {
		return broken
	}
	if exchange.Permanent(err) {
		return &Error{Text: "no response: " + redact.Cause(err), Causes: []error{err}}
	}
	return &Error{Kind: Broken, Text: "the download broke off: " + redact.Cause(err), Causes: []error{err}, Then: Retry}
}

// Explain is the error of one attempt, for [Download.Next] to decide by.
func Explain(a *exchange.Attempt) error {
	if a.Step == exchange.Context {
		return failed("the download broke off", a.Cause)
	}
	return Break(a.Cause)
}

// failed is what failed at this end; nil if nothing did.
func failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Text: what + ": " + redact.Cause(err), Causes: []error{err}}
}

func unexpected(text string) error { return &Error{Kind: Unexpected, Text: text} }
