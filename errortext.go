package clinicaldoc

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	"github.com/clinicaldoc/clinicaldoc-go/internal/origin"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

// callError is a failure that is not a response of the service: nothing was sent, nothing came back, or what came back
// is not what was promised.
type callError struct {
	op        operation
	requestID string
	detail    string  // safe to print
	causes    []error // for errors.Is and errors.As; not printed
	transient bool    // the failure may pass by itself; whether the service may have acted is marked around the error
}

func (e *callError) Error() string {
	suffix := ""
	if e.requestID != "" {
		suffix = " (request id " + e.requestID + ")"
	}
	return fmt.Sprintf("clinicaldoc: %s (%s %s): %s%s", e.op.name, e.op.method, e.op.route, e.detail, suffix)
}

func (e *callError) SafeText() string           { return e.detail }
func (e *callError) Unwrap() []error            { return opaque(e.causes...) }
func (e *callError) retryable() bool            { return e.transient }
func (e *callError) Format(s fmt.State, _ rune) { printError(s, e) }
func (e *callError) LogValue() slog.Value       { return slog.StringValue(e.Error()) }

// argumentError is an argument refused before any request. The text of its cause, which may be nil, may name a file.
type argumentError struct {
	what  string
	cause error
}

// invalid makes an argumentError of a text; its values are the caller's and must not be patients' data.
func invalid(what, format string, args ...any) error {
	return &argumentError{what: what + ": " + fmt.Sprintf(format, args...)}
}

func (e *argumentError) Error() string {
	text := "clinicaldoc: " + e.what + ": "
	if e.cause != nil {
		text += redact.Cause(e.cause) + ": "
	}
	return text + ErrInvalidArgument.Error()
}

func (e *argumentError) SafeText() string           { return e.Error() }
func (e *argumentError) Unwrap() []error            { return opaque(ErrInvalidArgument, e.cause) }
func (e *argumentError) Format(s fmt.State, _ rune) { printError(s, e) }

// opaque makes causes fit for a chain that others walk and print.
func opaque(causes ...error) []error {
	var kept []error
	for _, cause := range causes {
		if cause != nil {
			kept = append(kept, redact.Opaque(cause))
		}
	}
	return kept
}

func printError(s fmt.State, err error) { _, _ = s.Write([]byte(text(err))) }

// text is an error's own text if it is one of this package, else what may be said of it.
func text(err error) string {
	if err == nil {
		return "clinicaldoc: no error"
	}
	return redact.Opaque(err).Error()
}

func statusText(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

func isHeaderValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r != '\t' && (r < ' ' || r == 0x7f) })
}

// isIdentifier reports whether s is short and made of ASCII letters, digits and the given extra characters: what a
// server sent may then stand in a log line.
func isIdentifier(s string, maxLen int, extra string) bool {
	if s == "" || len(s) > maxLen {
		return false
	}
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune(extra, r):
		default:
			return false
		}
	}
	return true
}

// kinds maps statuses to what to call them and what to do about them.
var kinds = map[int]struct {
	sentinel error
	advice   string
}{
	http.StatusNotModified:                   {nil, "no condition was sent that this could respond to; is a cache in between?"},
	http.StatusBadRequest:                    {nil, "the request was not understood; is the base URL's scheme right?"},
	http.StatusUnauthorized:                  {ErrUnauthorized, "the token is missing, wrong, expired or revoked; get a new one"},
	http.StatusForbidden:                     {ErrForbidden, "the token's user may not do this"},
	http.StatusNotFound:                      {ErrNotFound, "it does not exist, or not for this token's user"},
	http.StatusProxyAuthRequired:             {nil, "a proxy in between wants credentials; put them into the proxy's URL"},
	http.StatusConflict:                      {ErrConflict, "the record's state does not allow this"},
	http.StatusRequestEntityTooLarge:         {ErrTooLarge, "the service or a proxy before it refuses a body of this size"},
	http.StatusUnprocessableEntity:           {ErrValidation, "see Fields for what the service objects to"},
	http.StatusTooManyRequests:               {ErrRateLimited, "send fewer requests, or share a WithLimiter among clients"},
	http.StatusNetworkAuthenticationRequired: {nil, "not the service but the network responds: it wants a login first, as guest networks do"},
}

func (e *Error) whatToDo() string {
	byStatus := kinds[e.StatusCode].advice
	switch {
	case e.advice != "":
		return e.advice
	case e.Route == downloadAudio.route && e.StatusCode >= 400 && e.StatusCode < 500:
		return "the recording's temporary address has expired, or the recording is gone"
	case byStatus == "" && e.redirect():
		return "redirects are followed only for GET and on the base URL's own origin; check the base URL"
	case byStatus == "" && e.StatusCode >= 500 && e.reads():
		return "the service, or a proxy before it, failed; trying later may help"
	case byStatus == "" && e.StatusCode >= 500: // whether trying again is safe is said by who knows what was sent
		return "the service, or a proxy before it, failed"
	case e.StatusCode == http.StatusNotFound && e.namesNoRecord():
		return "although no record was named; is the base URL's path right?"
	}
	return byStatus
}

// explain finds the advice that only the whole response can give. Redirects of a request without a body are followed where
// that is allowed, so that one which arrives here came too often.
func (e *Error) explain(header http.Header, base *url.URL, bodyless bool) {
	page := redact.MediaType(header.Get("Content-Type")) == webPage
	switch {
	case bodyless && e.redirectsWithin(header.Get("Location"), base):
		e.advice = "the service, or a proxy before it, redirects in a circle, or too often to be followed"
	case e.StatusCode == http.StatusNotFound && strings.HasSuffix(base.Path, "/v1"):
		e.advice = "the base URL ends in /v1, which is added to it; leave it out"
	case page && (e.StatusCode == http.StatusUnauthorized || e.StatusCode == http.StatusForbidden || e.StatusCode == http.StatusNotFound):
		e.advice = "this is a web page, as of a firewall, a proxy or another server than the service; check the base URL and what is in between"
	}
}

func (e *Error) redirectsWithin(location string, base *url.URL) bool {
	switch e.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return false
	}
	target, err := base.Parse(location)
	return location != "" && err == nil && target.User == nil && origin.Same(target, base) && (e.Method == http.MethodGet || e.Method == http.MethodHead)
}

// namesNoRecord reports whether the call asked for nothing that could be missing.
func (e *Error) namesNoRecord() bool {
	return e.Method == http.MethodGet && (e.Route == listNotes.route || e.Route == listTokens.route || e.Route == getUser.route)
}

// unexpectedText says what came instead of what the service describes.
func unexpectedText(status int, contentType string, body []byte, cause error) string {
	kind := redact.MediaType(contentType)
	switch {
	case len(body) == 0:
		kind = "no body"
	case kind == webPage:
		return "the response is a web page (" + statusText(status) + " with " + kind + "), as of a login, a firewall or another server; check the base URL, and for proxies in between"
	case kind == "":
		kind = "no content type that is known"
	}
	return "the response is " + statusText(status) + " with " + kind + ", but not what the service describes: " + redact.Cause(cause)
}

// cutUpload says what it means that the connection ended within an upload. Only a reset shows that it was the server's will.
func cutUpload(err error) string {
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return "the connection ended within the upload, which often means that the server refuses it (size, token): "
	}
	return "the connection ended within the upload: "
}

const webPage = "text/html"

var _ redact.Safe = (*callError)(nil)
