package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// printed is all that the tests log, and spans all that they trace.
var (
	printed syncBuffer
	spans   = tracetest.NewSpanRecorder()
)

type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func TestMain(m *testing.M) {
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	slog.SetDefault(slog.New(slog.NewTextHandler(&printed, nil)))
	code := m.Run()
	for _, secret := range []string{"CANARY", "|"} { // the tokens of the box have one
		if strings.Contains(printed.String(), secret) {
			fmt.Println("the log holds", secret)
			code = 1
		}
	}
	os.Exit(code)
}

// ward is a backend before a box with two clinicians.
type ward struct {
	*backend
	srv           *clinicaldoctest.Server
	first, second clinicaldoctest.User
}

func newWard(t *testing.T, boxOptions ...clinicaldoctest.Option) *ward {
	t.Helper()
	w := &ward{srv: clinicaldoctest.NewServer(boxOptions...)}
	t.Cleanup(w.srv.Close)
	w.first, w.second = w.srv.AddUser(clinicaldoctest.User{}), w.srv.AddUser(clinicaldoctest.User{})
	b, err := newBackend(func(options ...clinicaldoc.Option) (*clinicaldoc.Client, error) {
		quick := clinicaldoc.RetryPolicy{MaxRetries: 3, MinWait: time.Millisecond, MaxWait: 5 * time.Millisecond}
		options = append(append(w.srv.Options(), options...), clinicaldoc.WithRetry(quick))
		return clinicaldoc.NewClient(w.srv.URL, "", options...)
	})
	require.NoError(t, err)
	w.backend = b
	return w
}

// ask sends a request of the page in a session, with a version and a text.
func (w *ward) ask(session, method, path, version, text string) *httptest.ResponseRecorder {
	return w.send(session, method, path, version, url.Values{"analysis": {text}})
}

// page returns a page that has to be there.
func (w *ward) page(t *testing.T, session, path string) string {
	t.Helper()
	answer := w.ask(session, "GET", path, "", "")
	require.Equal(t, 200, answer.Code, answer.Body)
	return answer.Body.String()
}

// add puts a patient on the queue.
func (w *ward) add(t *testing.T, session string, patient int64) {
	t.Helper()
	form := url.Values{"patient": {strconv.FormatInt(patient, 10)}}
	require.Equal(t, 303, w.send(session, "POST", "/patients", "", form).Code)
}

// send sends a form in a session, with a version, from a page that shows the session's user.
func (w *ward) send(cookie, method, path, version string, form url.Values) *httptest.ResponseRecorder {
	shown := int64(0)
	if value, ok := w.sessions.open.Load(cookie); ok {
		open, _ := value.(*session)
		shown = open.user.ID
	}
	return w.sendFrom(strconv.FormatInt(shown, 10), cookie, method, path, version, form)
}

// sendFrom is send from a page that shows this user.
func (w *ward) sendFrom(user, cookie, method, path, version string, form url.Values) *httptest.ResponseRecorder {
	request := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(form.Encode()))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("If-Match", version)
	request.Header.Set("X-User", user)
	request.AddCookie(&http.Cookie{Name: "session", Value: cookie})
	recorded := httptest.NewRecorder()
	w.handler(context.Background()).ServeHTTP(recorded, request)
	return recorded
}

// login returns the session of somebody who has logged in by the page.
func (w *ward) login(t *testing.T, token string) string {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/login", strings.NewReader(url.Values{"token": {token}}.Encode()))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	recorded := httptest.NewRecorder()
	w.handler(t.Context()).ServeHTTP(recorded, request)
	require.Equal(t, http.StatusSeeOther, recorded.Code, recorded.Body)
	cookie := recorded.Result().Cookies()[0]
	assert.True(t, cookie.HttpOnly && cookie.Secure && cookie.SameSite == http.SameSiteStrictMode)
	return cookie.Value
}

func TestAClinicianReviewsEditsAndSigns(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	id := w.srv.AddNote(clinicaldoctest.Note{PatientID: 7, UserID: w.first.ID, Name: "Visit <b>", Analysis: "draft"})
	w.srv.AddNote(clinicaldoctest.Note{PatientID: 7, UserID: w.first.ID, Name: "Signed", Stage: clinicaldoctest.StageSigned})
	w.srv.AddNote(clinicaldoctest.Note{PatientID: 8, UserID: w.first.ID, Name: "Other"})
	session := w.login(t, w.first.Token)

	queue := w.page(t, session, "/")
	assert.Contains(t, queue, "Visit &lt;b&gt;")
	assert.NotContains(t, queue, "Signed")

	path := fmt.Sprint("/notes/", id)
	page := w.ask(session, "GET", path, "", "")
	require.Equal(t, 200, page.Code)
	assert.Contains(t, page.Body.String(), "draft")
	assert.Equal(t, "no-store", page.Header().Get("Cache-Control"))
	saved := w.ask(session, "PUT", path, "W/"+page.Header().Get("ETag"), "reviewed") // as a proxy that compresses makes it
	require.Equal(t, 204, saved.Code, saved.Body)
	signed := w.ask(session, "POST", path+"/sign", saved.Header().Get("ETag"), "")
	require.Equal(t, 204, signed.Code, signed.Body)
	assert.Equal(t, "reviewed", w.srv.Notes()[0].Analysis)
	assert.Equal(t, clinicaldoctest.StageSigned, w.srv.Notes()[0].Stage)
	assert.Equal(t, 409, w.ask(session, "PUT", path, signed.Header().Get("ETag"), "too late").Code, "a signed note is not changed")
	assert.Equal(t, "reviewed", w.srv.Notes()[0].Analysis)
}

// In the box only the user who made a note may change it, so that it shows in whose name a call is made.
func TestEachActsInTheirOwnName(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	path := fmt.Sprint("/notes/", w.srv.AddNote(clinicaldoctest.Note{PatientID: 7, UserID: w.second.ID}))
	first, second := w.login(t, w.first.Token), w.login(t, w.second.Token)
	version := w.ask(first, "GET", path, "", "").Header().Get("ETag")
	require.NotEmpty(t, version, "a colleague may read it")
	assert.Equal(t, 403, w.ask(first, "PUT", path, version, "not mine").Code)
	assert.Equal(t, 204, w.ask(second, "PUT", path, version, "mine").Code)
}

// Two clinicians share a browser. The second one logs in while a page of the first is still open in another tab.
func TestChange_AnotherClinicianLoggedInSince_ChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	draft := clinicaldoctest.Note{PatientID: 7, UserID: w.second.ID, Analysis: "draft"}
	path := fmt.Sprint("/notes/", w.srv.AddNote(draft))
	first, second := w.login(t, w.first.Token), w.login(t, w.second.Token)
	page := w.ask(first, "GET", path, "", "")
	require.Equal(t, 200, page.Code)
	shown := strconv.FormatInt(w.first.ID, 10)
	assert.Contains(t, page.Body.String(), `data-user="`+shown+`"`)
	version := page.Header().Get("ETag")
	for _, user := range []string{shown, ""} {
		w.srv.ForgetRequests()
		form := url.Values{"analysis": {"what the first one wrote"}}
		saved := w.sendFrom(user, second, "PUT", path, version, form)
		assert.Equal(t, 409, saved.Code)
		assert.Contains(t, saved.Body.String(), "the page showed another user")
		assert.Contains(t, saved.Body.String(), "what the first one wrote", "the text is not lost")
		assert.Equal(t, 409, w.sendFrom(user, second, "POST", path+"/sign", version, url.Values{}).Code)
		assert.Empty(t, w.srv.Requests(), "the note is not read either")
	}
	assert.Equal(t, "draft", w.srv.Notes()[0].Analysis)
	assert.Equal(t, 204, w.ask(second, "POST", path+"/sign", version, "").Code)
}

func TestNothingIsSentWithoutALogin(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	id := w.srv.AddNote(clinicaldoctest.Note{UserID: w.first.ID})
	path := fmt.Sprint("/notes/", id)
	w.login(t, w.second.Token) // somebody is there whose token could be taken
	over := w.login(t, w.first.Token)
	require.Equal(t, 401, w.ask(over, "POST", "/login", "", "").Code, "who brings no token logs out")
	w.srv.ForgetRequests()
	for _, session := range []string{"", "unknown", w.first.Token, over} {
		for _, request := range []string{"GET /", "POST /patients", "POST /patients/1/remove", "GET " + path, "PUT " + path, "POST " + path + "/sign", "GET " + path + "/audio", "GET " + path + "/events"} {
			method, path, _ := strings.Cut(request, " ")
			answer := w.ask(session, method, path, `"x"`, "text")
			assert.Equal(t, 401, answer.Code, request)
			assert.Contains(t, answer.Body.String(), "/login")
		}
	}
	// Somebody forgets in whose name a call is made.
	_, err := w.client.Notes.Sign(t.Context(), id)
	require.ErrorIs(t, err, errNotLoggedIn)
	_, err = w.client.Notes.OpenAudio(t.Context(), id)
	require.ErrorIs(t, err, errNotLoggedIn)
	assert.Empty(t, w.srv.Requests())
}

func TestNothingIsOverwrittenOrSignedButWhatThePageShows(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	path := fmt.Sprint("/notes/", w.srv.AddNote(clinicaldoctest.Note{PatientID: 7, UserID: w.first.ID, Analysis: "draft"}))
	session := w.login(t, w.first.Token)
	old := w.ask(session, "GET", path, "", "").Header().Get("ETag")
	require.Equal(t, 204, w.ask(session, "PUT", path, old, "another tab's").Code)

	conflict := w.ask(session, "PUT", path, old, "mine <now>")
	require.Equal(t, 412, conflict.Code)
	assert.Contains(t, conflict.Body.String(), "another tab&#39;s")
	assert.Contains(t, conflict.Body.String(), "mine &lt;now&gt;", "what was written is not lost")
	assert.Equal(t, 412, w.ask(session, "POST", path+"/sign", old, "").Code)
	assert.Equal(t, 428, w.ask(session, "PUT", path, "", "lost").Code)
	assert.Equal(t, 428, w.ask(session, "POST", path+"/sign", "", "").Code)
	assert.Equal(t, "another tab's", w.srv.Notes()[0].Analysis)
	assert.Equal(t, clinicaldoctest.StageComplete, w.srv.Notes()[0].Stage)
	assert.Equal(t, 204, w.ask(session, "PUT", path, conflict.Header().Get("ETag"), "mine").Code, "the conflict says what it is about now")
}

// What did not arrive whole is no text, least of all an empty one.
func TestATextThatWasCutOffChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	path := fmt.Sprint("/notes/", w.srv.AddNote(clinicaldoctest.Note{UserID: w.first.ID, Analysis: "draft"}))
	session := w.login(t, w.first.Token)
	version := w.ask(session, "GET", path, "", "").Header().Get("ETag")
	server := httptest.NewServer(w.handler(t.Context()))
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	_, err = fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: ward.test\r\nCookie: session=%s\r\nIf-Match: %s\r\nX-User: %d\r\n"+
		"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nanalysis=revi", path, session, version, w.first.ID)
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	_, err = io.ReadAll(conn)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	server.Close()
	assert.Equal(t, "draft", w.srv.Notes()[0].Analysis)
	assert.Equal(t, 400, w.ask(session, "PUT", path, version, strings.Repeat("long", 1<<20)).Code)
	assert.Equal(t, "draft", w.srv.Notes()[0].Analysis)
}

// A change that was made, but came back with a colleague's words of the same instant, is not said to be none.
func TestAConflictSaysNothingOfWhatWasDone(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	path := fmt.Sprint("/notes/", w.srv.AddNote(clinicaldoctest.Note{UserID: w.first.ID, Analysis: "draft"}))
	session := w.login(t, w.first.Token)
	version := w.ask(session, "GET", path, "", "").Header().Get("ETag")
	meanwhile := `{"id":1,"name":"Visit","analysis":"a colleague's","has":{"transcription":true,"content":true,"signed":true},"created_at":"2026-01-02T03:04:05Z"}`
	w.srv.Inject(clinicaldoctest.RouteSignNote, clinicaldoctest.Answer(200, meanwhile).CommitAfter(0))
	conflict := w.ask(session, "POST", path+"/sign", version, "")
	require.Equal(t, 412, conflict.Code)
	assert.Equal(t, clinicaldoctest.StageSigned, w.srv.Notes()[0].Stage)
	assert.Contains(t, conflict.Body.String(), "a colleague&#39;s")
	assert.Contains(t, conflict.Body.String(), ">signed<")
	assert.NotContains(t, conflict.Body.String(), "Nothing was saved")
}

// Of a change that is cut off nobody knows whether it was made: it is not.
func TestAChangeGoesOnWhenTheBrowserLeaves(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	path := fmt.Sprint("/notes/", w.srv.AddNote(clinicaldoctest.Note{UserID: w.first.ID, Analysis: "draft"}))
	session := w.login(t, w.first.Token)
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPut, path, strings.NewReader("analysis=reviewed"))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("If-Match", w.ask(session, "GET", path, "", "").Header().Get("ETag"))
	request.Header.Set("X-User", strconv.FormatInt(w.first.ID, 10))
	request.AddCookie(&http.Cookie{Name: "session", Value: session})
	left, leave := context.WithCancel(t.Context())
	leave()
	w.handler(t.Context()).ServeHTTP(httptest.NewRecorder(), request.WithContext(left))
	assert.Equal(t, "reviewed", w.srv.Notes()[0].Analysis)
}

func TestARefusedTokenIsRenewedOrTheSessionEnds(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	path := fmt.Sprint("/notes/", w.srv.AddNote(clinicaldoctest.Note{UserID: w.first.ID}))
	w.sessions.renew = func(refused string) (string, error) {
		if refused != w.first.Token {
			return "", errors.New("synthetic: nobody knows this one")
		}
		return w.srv.AddToken(w.first.ID, "renewed").Secret, nil
	}
	first, second := w.login(t, w.first.Token), w.login(t, w.second.Token)
	for _, cookie := range []string{first, second} {
		open, _ := w.sessions.open.Load(cookie)
		ctx := as(t.Context(), open.(*session))
		tokens, err := w.client.Tokens.List(ctx)
		require.NoError(t, err)
		_, err = w.client.Tokens.Revoke(ctx, tokens[0].ID)
		require.NoError(t, err)
	}
	version := w.ask(first, "GET", path, "", "").Header().Get("ETag")
	require.NotEmpty(t, version, "with the fresh token")
	assert.Equal(t, 204, w.ask(first, "PUT", path, version, "mine").Code)
	over := w.ask(second, "PUT", path, version, "an hour's work")
	assert.Equal(t, 401, over.Code)
	assert.Contains(t, over.Body.String(), "an hour&#39;s work", "what was written is not lost")
	w.srv.ForgetRequests()
	assert.Equal(t, 401, w.ask(second, "GET", path, "", "").Code)
	assert.Empty(t, w.srv.Requests(), "it is not tried again")
}

// Twenty clinicians use the server at once, while the service fails now and then and refuses tokens. The box knows whose each note
// is: whatever was written by another would show.
func TestNobodyActsInAnothersNameInAStorm(t *testing.T) {
	t.Parallel()
	const clinicians, calls = 20, 100
	w := newWard(t)
	users := map[string]int64{} // by token
	var mu sync.Mutex
	w.sessions.renew = func(refused string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		fresh := w.srv.AddToken(users[refused], "renewed").Secret
		users[fresh] = users[refused]
		return fresh, nil
	}
	type own struct {
		session, path string
		note          int64
	}
	var all []own
	for range clinicians {
		user := w.srv.AddUser(clinicaldoctest.User{})
		users[user.Token] = user.ID
		note := w.srv.AddNote(clinicaldoctest.Note{UserID: user.ID, PatientID: 7, Analysis: "draft"})
		all = append(all, own{w.login(t, user.Token), fmt.Sprint("/notes/", note), note})
	}
	w.srv.ForgetRequests()
	w.srv.Inject("", clinicaldoctest.Answer(503, "").Every(13))
	w.srv.Inject("", clinicaldoctest.Answer(401, `{"message":"Unauthenticated."}`).Every(17))
	w.srv.Inject(clinicaldoctest.RouteUpdateNote, clinicaldoctest.ResetAfterCommit().Every(11))
	var group sync.WaitGroup
	var done, refused, failed int
	for i, me := range all {
		group.Go(func() {
			colleague := all[(i+1)%clinicians]
			for n := range calls / 4 {
				text := fmt.Sprintf("by %d, the %d.", me.note, n)
				for _, path := range []string{me.path, colleague.path} {
					version := w.ask(me.session, "GET", path, "", "").Header().Get("ETag")
					code := w.ask(me.session, "PUT", path, version, text).Code
					mu.Lock()
					switch code {
					case 204:
						done++
						assert.Equal(t, me.path, path, "nobody may change a colleague's note")
					case 403:
						refused++
						assert.Equal(t, colleague.path, path, "everybody may change their own")
					default:
						failed++
					}
					mu.Unlock()
				}
				w.ask("", "PUT", me.path, `"x"`, "by nobody")
			}
		})
	}
	group.Wait()
	for _, note := range w.srv.Notes() {
		assert.True(t, strings.HasPrefix(note.Analysis, fmt.Sprintf("by %d, ", note.ID)) || note.Analysis == "draft", note.Analysis)
	}
	for _, request := range w.srv.Requests() {
		assert.True(t, request.Authorized, request.Route)
	}
	assert.Greater(t, done, clinicians*calls/8, "most of it works")
	assert.Positive(t, refused)
	t.Logf("%d written, %d refused, %d failed otherwise", done, refused, failed)
}

func TestFailuresHaveAStatusAndPrintNothing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		route        string
		fault        clinicaldoctest.Fault
		method, path string
		want         int
	}{
		"unknown note":     {"", clinicaldoctest.Fault{}, "GET", "/notes/99", 404},
		"no number":        {"", clinicaldoctest.Fault{}, "GET", "/notes/CANARY", 422},
		"everybody's":      {"", clinicaldoctest.Fault{}, "POST", "/patients?patient=0", 422},
		"nobody's":         {"", clinicaldoctest.Fault{}, "POST", "/patients?patient=CANARY", 422},
		"refused text":     {clinicaldoctest.RouteUpdateNote, clinicaldoctest.Answer(422, `{"message":"CANARY"}`), "PUT", "/notes/1", 422},
		"failing for ever": {clinicaldoctest.RouteUpdateNote, clinicaldoctest.Answer(500, `CANARY`).Always(), "PUT", "/notes/1", 502},
		"no storage":       {clinicaldoctest.RouteAudio, clinicaldoctest.Answer(500, `CANARY`).Always(), "GET", "/notes/1/audio", 502},
		"silence":          {clinicaldoctest.RouteGetNote, clinicaldoctest.Silent().Always(), "GET", "/notes/1", 504},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			w.srv.AddNote(clinicaldoctest.Note{Name: "CANARY", UserID: w.first.ID})
			session := w.login(t, w.first.Token)
			version := w.ask(session, "GET", "/notes/1", "", "").Header().Get("ETag")
			if test.want == 504 {
				w.timeout = 50 * time.Millisecond
			}
			if test.route != "" {
				w.srv.Inject(test.route, test.fault)
			}
			answer := w.ask(session, test.method, test.path, version, "my <words>")
			assert.Equal(t, test.want, answer.Code, answer.Body)
			assert.NotContains(t, answer.Body.String(), "CANARY")
			if test.method == http.MethodPut {
				assert.Contains(t, answer.Body.String(), "my &lt;words&gt;", "what was written is not lost")
			}
		})
	}
}

func TestAnotherSitesPageCannotSign(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	session := w.login(t, w.first.Token)
	w.srv.ForgetRequests()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/notes/1/sign", nil)
	request.AddCookie(&http.Cookie{Name: "session", Value: session})
	request.Header.Set("Sec-Fetch-Site", "cross-site")
	recorded := httptest.NewRecorder()
	w.handler(t.Context()).ServeHTTP(recorded, request)
	assert.Equal(t, 403, recorded.Code)
	assert.Empty(t, w.srv.Requests())
}

// served starts the server as main does, and returns its address and what ends it.
func (w *ward) served(t *testing.T) (address string, end func() error) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.serve(ctx, listener, 0) }()
	return "http://" + listener.Addr().String(), func() error { cancel(); return <-ended }
}

// streamed is a response whose body ends with the test.
type streamed struct {
	status int
	header http.Header
	body   io.Reader
}

func get(t *testing.T, session, address, asked string) streamed {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	request.Header.Set("Cookie", "session="+session)
	request.Header.Set("Range", asked)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return streamed{response.StatusCode, response.Header, response.Body}
}

func TestARecordingIsPlayedByRanges(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	recording := bytes.Repeat([]byte("RIFF synthetic audio \x00\x01"), 100_000)
	id := w.srv.AddNote(clinicaldoctest.Note{UserID: w.first.ID, Audio: recording})
	session := w.login(t, w.first.Token)
	address, end := w.served(t)
	w.srv.ForgetRequests()
	response := get(t, session, fmt.Sprintf("%s/notes/%d/audio", address, id), "bytes=1000000-1000099")
	var part bytes.Buffer
	_, err := part.ReadFrom(response.body)
	require.NoError(t, err)
	assert.Equal(t, 206, response.status)
	assert.Equal(t, recording[1_000_000:1_000_100], part.Bytes())
	for _, request := range w.srv.Requests() {
		if request.Storage {
			assert.NotEmpty(t, request.Header.Get("Range"))
			assert.False(t, request.Authorized)
			assert.LessOrEqual(t, request.BytesSent, int64(70_000), "only what is asked for")
		}
	}
	require.NoError(t, end())
}

func TestProgressIsToldUntilTheServerEnds(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	id := w.srv.AddNote(clinicaldoctest.Note{UserID: w.first.ID, Stage: clinicaldoctest.StageTranscribing, Stuck: true})
	complete := w.srv.AddNote(clinicaldoctest.Note{UserID: w.first.ID})
	session := w.login(t, w.first.Token)
	address, end := w.served(t)
	response := get(t, session, fmt.Sprintf("%s/notes/%d/events", address, complete), "")
	assert.Equal(t, "text/event-stream", response.header.Get("Content-Type"))
	lines := bufio.NewScanner(response.body)
	require.True(t, lines.Scan())
	assert.Equal(t, "data: complete", lines.Text())
	for lines.Scan() {
		assert.Empty(t, lines.Text())
	}
	assert.Equal(t, 404, get(t, session, address+"/notes/99/events", "").status)

	lines = bufio.NewScanner(get(t, session, fmt.Sprintf("%s/notes/%d/events", address, id), "").body)
	require.True(t, lines.Scan())
	assert.Equal(t, "data: transcribing", lines.Text())
	assert.Equal(t, 200, get(t, "", address+"/healthz", "").status)
	assert.Equal(t, 200, get(t, "", address+"/readyz", "").status)
	require.NoError(t, end(), "though somebody listens")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	recorded := httptest.NewRecorder()
	w.handler(over).ServeHTTP(recorded, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
	assert.Equal(t, 503, recorded.Code)
}

func TestCallsStandInTheSpanOfTheirRequest(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	id := w.srv.AddNote(clinicaldoctest.Note{UserID: w.first.ID, Name: "CANARY"})
	session := w.login(t, w.first.Token)
	require.Equal(t, 200, w.ask(session, "GET", fmt.Sprint("/notes/", id), "", "").Code)
	requests, calls := map[any]bool{}, 0
	for _, span := range spans.Ended() {
		if span.Name() == "GET /notes/{id}" {
			requests[span.SpanContext().SpanID()] = true
		}
		assert.NotContains(t, fmt.Sprint(span.Name(), span.Attributes(), span.Events()), "CANARY")
	}
	for _, span := range spans.Ended() {
		if span.Name() == "clinicaldoc.Notes.Get" && requests[span.Parent().SpanID()] {
			calls++
		}
	}
	assert.Positive(t, calls)
}
