package clinicaldoc

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	"github.com/clinicaldoc/clinicaldoc-go/internal/jsonscan"
	"github.com/clinicaldoc/clinicaldoc-go/internal/origin"
	"github.com/clinicaldoc/clinicaldoc-go/internal/redact"
)

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
	http.StatusMethodNotAllowed:              {nil, "nothing there takes this method; is the base URL's path right?"},
	statusPageExpired:                        {nil, "as a service's web pages refuse, not its API; is the base URL's path right?"},
	http.StatusProxyAuthRequired:             {nil, "a proxy in between wants credentials; put them into the proxy's URL"},
	http.StatusConflict:                      {ErrConflict, "the record's state does not allow this"},
	http.StatusRequestEntityTooLarge:         {ErrTooLarge, "the service or a proxy before it refuses a body of this size"},
	http.StatusUnprocessableEntity:           {ErrValidation, "see Fields for what the service objects to"},
	http.StatusTooManyRequests:               {ErrRateLimited, "send fewer requests, or share a WithLimiter among clients"},
	http.StatusNetworkAuthenticationRequired: {nil, "not the service but the network responds: it wants a login first, as guest networks do"},
}

// statusPageExpired is how web frameworks refuse a form whose session has ended.
const statusPageExpired = 419

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
	case e.StatusCode == http.StatusBadRequest && e.Message != "" && e.Operation == listNotes.name:
		return "does it know the list's parameters by other names? See WithQueryNames"
	case e.StatusCode == http.StatusBadRequest && e.Message != "": // a server that expects TLS says it in plain text
		return "the service does not understand the request; see Message"
	case e.StatusCode == http.StatusNotFound && e.Operation == createNote.name:
		return "is the base URL's path right, and do patient and prompt exist?"
	}
	return byStatus
}

// explain finds the advice that only the whole response can give. Redirects of a request without a body are followed where
// that is allowed, so that one which arrives here came too often.
func (e *Error) explain(header http.Header, base *url.URL, bodyless bool) {
	page, pasted := redact.MediaType(header.Get("Content-Type")) == webPage, pastedEnd(base)
	switch {
	case bodyless && e.redirectsWithin(header.Get("Location"), base):
		e.advice = "the service, or a proxy before it, redirects in a circle, or too often to be followed"
	case e.StatusCode == http.StatusNotFound && pasted != "":
		e.advice = "the base URL ends in " + pasted + ", which is added to it; leave it out"
	case page && (e.StatusCode == http.StatusUnauthorized || e.StatusCode == http.StatusForbidden || e.StatusCode == http.StatusNotFound):
		e.advice = "this is a web page, as of a firewall, a proxy or another server than the service; check the base URL and what is in between"
	}
	switch e.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed: // some servers look at the path last
		if pasted != "" {
			e.advice = e.whatToDo() + "; or is it the base URL, which ends in " + pasted + "? That is added to it"
		}
	}
}

// pastedEnd returns what of the base URL's path is added by each call, and so should not be there; "" if nothing is.
func pastedEnd(base *url.URL) string {
	for _, end := range []string{"/v1", listNotes.route, listTokens.route, getUser.route} {
		if strings.HasSuffix(base.Path, end) {
			return end
		}
	}
	return ""
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
func unexpectedText(base *url.URL, status int, contentType string, body []byte, cause error) string {
	kind, pasted := redact.MediaType(contentType), pastedEnd(base)
	switch {
	case len(body) == 0:
		kind = "no body"
	case kind == webPage && pasted != "":
		return "the response is a web page (" + statusText(status) + " with " + kind + "): the base URL ends in " + pasted + ", which is added to it; leave it out"
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

// Bounds on what is kept of an error's body.
const (
	maxErrorFields   = 100
	maxFieldMessages = 20
)

// decodeErrorBody fills in what an error's body tells, as far as it can be read: it may be cut, or something else, which is
// no second error.
func decodeErrorBody(body []byte, e *Error) {
	d := jsonscan.New(body)
	if d.Kind() != jsonscan.Object {
		return
	}
	for key := range d.Fields() {
		switch {
		case string(key) == "message" && d.Kind() == jsonscan.String:
			if message := d.Text(); d.Err() == nil {
				e.Message = message
			}
		case string(key) == "errors" && d.Kind() == jsonscan.Object:
			for key := range d.Fields() {
				if len(e.Fields) == 0 {
					e.Fields = map[string][]string{}
				}
				if name := string(key); len(e.Fields) < maxErrorFields {
					e.Fields[name] = fieldMessages(d)
				}
			}
		}
	}
	_ = d.End() // gives its memory back
}

// fieldMessages reads a field's messages: a list of texts, or a single one.
func fieldMessages(d *jsonscan.Decoder) []string {
	messages := []string{}
	add := func() {
		if text := d.Text(); d.Err() == nil && len(messages) < maxFieldMessages {
			messages = append(messages, text)
		}
	}
	switch d.Kind() {
	case jsonscan.String:
		add()
	case jsonscan.Array:
		for range d.Elements() {
			if d.Kind() == jsonscan.String {
				add()
			}
		}
	default: // tells nothing
	}
	return messages
}

func statusText(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

const webPage = "text/html"
