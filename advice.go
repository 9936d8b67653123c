package clinicaldoc

import "net/http"

// kinds maps statuses to what to call them and what to do about them.
var kinds = map[int]struct {
	sentinel error
	advice   string
}{
	http.StatusBadRequest:            {nil, "the request was not understood; is the base URL's scheme right?"},
	http.StatusUnauthorized:          {ErrUnauthorized, "the token is missing, wrong, expired or revoked; get a new one"},
	http.StatusForbidden:             {ErrForbidden, "the token's user may not do this"},
	http.StatusNotFound:              {ErrNotFound, "it does not exist, or not for this token's user"},
	http.StatusProxyAuthRequired:     {nil, "a proxy in between wants credentials; put them into the proxy's URL"},
	http.StatusConflict:              {ErrConflict, "the record's state does not allow this"},
	http.StatusRequestEntityTooLarge: {ErrTooLarge, "the service or a proxy before it refuses a body of this size"},
	http.StatusUnprocessableEntity:   {ErrValidation, "see Fields for what the service objects to"},
	http.StatusTooManyRequests:       {ErrRateLimited, "send fewer requests, or share a WithLimiter among clients"},
}

// namesNoRecord reports whether the call asked for nothing that could be missing.
func (e *Error) namesNoRecord() bool {
	return e.Method == http.MethodGet && (e.Route == listNotes.route || e.Route == listTokens.route || e.Route == getUser.route)
}
