package download

import (
	"net/http"

	"github.com/clinicaldoc/clinicaldoc-go/internal/exchange"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// Error is the reason why an attempt or the download failed.
type Error struct {
	Text   string  // safe to print
	Causes []error // for errors.Is and errors.As
	Then   Then    // what could help

	// These are set for a response that is not a success.
	Status int
	Header http.Header
}

// Errors that an [Error] may match in addition to [exchange.ErrUnexpected].
var (
	// ErrSizeMismatch: storage sent another number of bytes than Source reports.
	ErrSizeMismatch = redact.New("size mismatch")
	// ErrChanged: the target has a part of another recording, and cannot be rewound.
	ErrChanged = redact.New("recording may have changed")
	// ErrAddress: the address is not safe to use, now or later.
	ErrAddress = redact.New("address cannot be used")
)

// Then is what could help after a failure.
type Then int

// Steps that could help.
const (
	Stop  Then = iota // nothing: the failure is permanent
	Retry             // waiting: the failure may pass
	Renew             // a fresh address: storage rejects this one, for example because it has expired
)

func (e *Error) Error() string { return e.Text }

func init() { redact.Trust(func(e *Error) string { return e.Text }) }

func (e *Error) Unwrap() []error { return e.Causes }

// Is matches [exchange.ErrUnusable]. An interrupted download becomes an Error only in [Explain].
func (e *Error) Is(target error) bool { return target == exchange.ErrUnusable }

// Explain returns the error of an attempt, by which [Download.Next] decides.
func Explain(a *exchange.Attempt) error {
	switch {
	case a.Step == exchange.Content:
		return a.Cause
	case a.Step == exchange.Context:
		return failed("the download was interrupted", a.Cause)
	case a.Permanent:
		return failed("no response", a.Cause)
	}
	return &Error{Text: "the download was interrupted: " + redact.Cause(a.Cause), Causes: []error{a.Cause}, Then: Retry}
}

// failed returns an error of this machine, such as a full disk; nil if err is nil.
func failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Text: what + ": " + redact.Cause(err), Causes: []error{err}}
}

func unexpected(text string, causes ...error) error {
	return &Error{Text: text, Causes: append(causes, exchange.ErrUnexpected)}
}

func sizeMismatch(text string) error {
	const advice = " (the note's audio.size); if the service re-encodes recordings, set DownloadParams.IgnoreSize"
	return unexpected(text+advice, ErrSizeMismatch)
}
