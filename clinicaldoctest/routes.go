package clinicaldoctest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
)

// The routes of the service, for [Server.Inject] and in [Request.Route]. RouteAudio is a route of storage.
//
//nolint:gosec // paths, no credentials
const (
	RouteListTokens  = "GET /v1/auth/tokens"
	RouteRevokeToken = "DELETE /v1/auth/tokens/{id}"
	RouteCreateNote  = "POST /v1/progress-notes"
	RouteListNotes   = "GET /v1/progress-notes"
	RouteGetNote     = "GET /v1/progress-notes/{id}"
	RouteUpdateNote  = "PUT /v1/progress-notes/{id}"
	RouteDeleteNote  = "DELETE /v1/progress-notes/{id}"
	RouteSignNote    = "PUT /v1/progress-notes/{id}/sign"
	RouteAudioURL    = "GET /v1/progress-notes/{id}/audio-url"
	RouteMe          = "GET /user"
	RouteAudio       = "GET /audio/{key}"
)

// createPath is where notes are created.
const createPath = "/v1/progress-notes"

// call is one authenticated request to an endpoint.
type call struct {
	*http.Request
	route string
	user  user
	id    string // the path's {id}, as it was sent
	now   time.Time
	// allowed are the methods that the path knows.
	allowed []string
}

// effect carries out a request that has been read, and returns the answer. It
// may be called long after the request is over; see [Fault.CommitAfter].
type effect func(now time.Time) answer

var endpoints = map[string]func(*state, call) effect{
	RouteListTokens:  bodiless((*state).listTokens),
	RouteRevokeToken: bodiless((*state).revokeToken),
	RouteCreateNote:  (*state).createNote,
	RouteListNotes:   bodiless((*state).listNotes),
	RouteGetNote:     bodiless((*state).getNote),
	RouteUpdateNote:  (*state).updateNote,
	RouteDeleteNote:  bodiless((*state).deleteNote),
	RouteSignNote:    bodiless((*state).signNote),
	RouteAudioURL:    bodiless((*state).audioURL),
	RouteMe:          bodiless((*state).me),
}

// bodiless is an endpoint that reads nothing before it acts.
func bodiless(act func(*state, call) answer) func(*state, call) effect {
	return func(s *state, c call) effect {
		return func(now time.Time) answer {
			c.now = now
			return act(s, c)
		}
	}
}

// always returns the effect of a request that changes nothing and always gets this answer.
func always(a answer) effect { return func(time.Time) answer { return a } }

var apiRoutes = slices.Sorted(maps.Keys(endpoints))

// Routes returns every route of the service and of storage.
func Routes() []string { return append([]string{RouteAudio}, apiRoutes...) }

// match is what the router found for a request.
type match struct {
	route   string   // "": no endpoint
	id      string   // the value of the route's placeholder
	allowed []string // the methods the path knows
}

// find matches a path below the base path. A HEAD request goes to its GET
// route, and a trailing slash does not matter, as in the service's framework.
func find(method, path string) match {
	var found match
	if method == http.MethodHead {
		method = http.MethodGet
	}
	segments := strings.Split(strings.TrimSuffix(path, "/"), "/")
	for _, route := range apiRoutes {
		routeMethod, pattern, _ := strings.Cut(route, " ")
		id, ok := matchSegments(strings.Split(pattern, "/"), segments)
		if !ok {
			continue
		}
		found.allowed = append(found.allowed, routeMethod)
		if routeMethod == http.MethodGet {
			found.allowed = append(found.allowed, http.MethodHead)
		}
		if routeMethod == method {
			found.route = route
			found.id = id
		}
	}
	slices.Sort(found.allowed)
	return found
}

func matchSegments(pattern, segments []string) (id string, ok bool) {
	if len(pattern) != len(segments) {
		return "", false
	}
	for i, want := range pattern {
		switch {
		case strings.HasPrefix(want, "{") && segments[i] != "":
			id = segments[i]
		case want != segments[i]:
			return "", false
		}
	}
	return id, true
}

// serveAPI is the API's handler: it records the request, lets an injected
// fault have its way, and answers.
func (s *state) serveAPI(w http.ResponseWriter, r *http.Request) {
	path, inBase := strings.CutPrefix(r.URL.Path, s.variant().BasePath)
	if next := boxlink.Next(r.Context()); next != nil { // a proxy forwards the request and uses only the faults
		s.withFaults(find(r.Method, path).route, w, r, nil, next.ServeHTTP)
		return
	}
	r = overridden(r, path)
	var found match
	if inBase {
		found = find(r.Method, path)
	}
	if s.variant().LocalDisk && strings.HasPrefix(path, audioPath) {
		s.record(w, r, RouteAudio, s.serveLocalDisk)
		return
	}
	s.record(w, r, found.route, func(w http.ResponseWriter, r *http.Request) {
		receive := func(w http.ResponseWriter, r *http.Request) effect { return s.receive(r, path, found, w.Header()) }
		s.withFaults(found.route, w, r, receive, func(w http.ResponseWriter, r *http.Request) {
			a := receive(w, r)(s.now())
			if a.status >= http.StatusBadRequest && !s.variant().AlwaysJSON && !expectsJSON(r) {
				a = a.inHTML()
			}
			if s.variant().Compress && acceptsGzip(r) {
				w = &gzipWriter{ResponseWriter: w}
			}
			writeAnswer(w, a)
		})
	})
}

// receive reads a request and returns its effect, which it does not carry out. It checks the request in the order of
// the service's framework: path, method, token, rate limit, and then what the endpoint requires. The effect of a
// request that fails a check is only the refusal. If there is a rate limit, receive describes it in the response's
// header.
func (s *state) receive(r *http.Request, path string, found match, responseHeader http.Header) effect {
	switch {
	case path == "/login" && r.Method == http.MethodGet:
		return always(answer{status: http.StatusOK, body: htmlPage("Log in")})
	case len(found.allowed) == 0:
		return always(s.variant().unknownPath(path))
	case r.Method == http.MethodOptions:
		return always(answer{status: http.StatusOK, header: http.Header{"Allow": {strings.Join(found.allowed, ", ")}}})
	case found.route == "":
		return always(s.variant().wrongMethod(r.Method, path, found.allowed))
	}
	now := s.now()
	s.commitDue(now)
	caller, known := s.authenticate(r, now)
	if !known {
		return always(s.variant().unauthorized())
	}
	if s.variant().RateLimit > 0 {
		verdict := s.limits.take(caller.id, s.variant().RateLimit, s.variant().RateWindow, now)
		verdict.describe(responseHeader)
		if verdict.refused {
			return always(tooManyAttempts())
		}
	}
	return endpoints[found.route](s, call{
		Request: r, route: found.route, user: caller, id: found.id, now: now, allowed: found.allowed,
	})
}

// authenticate returns the user of the request's bearer token, and sets when the token was last used. It reports false
// if there is no known token.
func (s *state) authenticate(r *http.Request, now time.Time) (caller user, known bool) {
	secret, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !found { // the framework knows the scheme only in this spelling
		return user{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t, known := s.tokens[strings.TrimSpace(secret)]
	if !known {
		return user{}, false
	}
	t.lastUsedAt = now
	return *s.users[t.userID], true
}

// encode leaves the & of addresses as it is, so that they can be copied from
// a terminal.
func encode(content any) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(content); err != nil {
		panic(fmt.Sprintf("clinicaldoctest: answer cannot be encoded: %v", err))
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

// writeAnswer sends an answer with its exact length.
func writeAnswer(w http.ResponseWriter, a answer) {
	maps.Copy(w.Header(), a.header)
	w.Header().Set("Cache-Control", "no-cache, private")
	var body []byte
	switch content := a.body.(type) {
	case nil:
	case string:
		w.Header().Set("Content-Type", "text/html; charset=UTF-8")
		body = []byte(content)
	default:
		w.Header().Set("Content-Type", "application/json")
		body = encode(content)
	}
	if a.status != http.StatusNoContent {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(body) // a client that went away is no concern of the service
}
