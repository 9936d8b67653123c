package faultmatrix

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go"
)

// isolationVariable holds how many calls TestIsolation_ConcurrentCalls_ShareNothing makes; a change makes few.
const isolationVariable = "CLINICALDOC_ISOLATION_CALLS"

// A mark names a call: service, tenant, user and a number. Everything that a service sends for the call is made of it.
var anyMark = regexp.MustCompile(`s[12]t[AB]u[12]n[0-9]{6}x`)

type tenancy struct {
	mark    string
	service int    // 0 or 1
	tenant  string // by header
	token   string // by user
	number  int
}

func newTenancy(n int) tenancy {
	c := tenancy{service: n & 1, tenant: string(rune('A' + n>>1&1)), number: n}
	user := 1 + n>>2&1
	c.token = fmt.Sprintf("%d|synthetic-token", user)
	c.mark = fmt.Sprintf("s%dt%su%dn%06dx", c.service+1, c.tenant, user, n)
	return c
}

func (c tenancy) options() []clinicaldoc.CallOption {
	return []clinicaldoc.CallOption{
		clinicaldoc.WithToken(c.token), clinicaldoc.WithHeader("X-Team", c.tenant), clinicaldoc.WithHeader("X-Mark", c.mark), clinicaldoc.WithQuery("mark", c.mark),
	}
}

// isolation is two services and their storages, and what was seen of one call in another.
type isolation struct {
	services [2]*httptest.Server
	storage  *httptest.Server
	attempts sync.Map // of a mark: *atomic.Int64

	mu     sync.Mutex
	leaks  []string
	counts map[string]int
}

func (w *isolation) leak(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.leaks) < 20 {
		w.leaks = append(w.leaks, fmt.Sprintf(format, args...))
	}
}

func (w *isolation) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

// expectOnly notes every mark in the text that is another call's.
func (w *isolation) expectOnly(mark, where, text string) {
	for _, found := range anyMark.FindAllString(text, -1) {
		if found != mark {
			w.leak("%s of %s holds %s", where, mark, found)
		}
	}
}

// chance is the same number below n for the same words.
func chance(n int, words ...any) int {
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, words...)
	return int(h.Sum32()>>7) % n
}

func isolatedNote(mark, id string) string {
	return fmt.Sprintf(`{"id":%s,"name":%q,"transcription":%q,"analysis":%q,"patient":{"id":%d,"name":%q},"has":{"content":true,"transcription":true,"signed":false},`+
		`"audio":{"size":%d},"team_id":1,"user_id":1,"created_at":"2024-05-01T10:11:12Z","updated_at":"2024-05-01T10:11:12Z"}`,
		id, mark, strings.Repeat(mark+" ", 1+chance(60, mark)), mark, 1+chance(1000, mark), mark, len(isolatedRecording(mark)))
}

func isolatedRecording(mark string) []byte {
	return bytes.Repeat([]byte("\x00\xff"+mark), 20+chance(200, mark))
}

func (w *isolation) serve(service int, rw http.ResponseWriter, r *http.Request) {
	mark := r.Header.Get("X-Mark")
	number, _ := strconv.Atoi(strings.TrimSuffix(mark[strings.LastIndex(mark, "n")+1:], "x"))
	own := newTenancy(number)
	if own.mark != mark || own.service != service || r.Header.Get("X-Team") != own.tenant || r.Header.Get("Authorization") != "Bearer "+own.token ||
		r.URL.Query().Get("mark") != mark || len(r.URL.Query()["mark"]) != 1 || len(r.Header["X-Mark"]) != 1 {
		w.leak("service %d, %s %s got headers, token or query of others", service+1, r.Method, mark)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller has gone
	}
	w.expectOnly(mark, "the request's body", string(body))
	counter, _ := w.attempts.LoadOrStore(mark+r.Method, new(atomic.Int64))
	attempt := int(counter.(*atomic.Int64).Add(1))
	rw.Header().Set("X-Request-Id", "rq-"+mark)
	rw.Header().Set("X-Echo", mark)
	rw.Header().Set("Content-Type", "application/json")
	if chance(4, mark, "slow") == 0 {
		time.Sleep(time.Duration(chance(2000, mark, attempt)) * time.Microsecond)
	}
	if attempt < 3 {
		switch chance(12, mark, r.Method, attempt) {
		case 0:
			w.count("503")
			rw.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintf(rw, `{"message":%q}`, mark)
			return
		case 1:
			if r.Method == http.MethodGet && r.URL.Query().Get("hop") == "" {
				w.count("redirect")
				target := *r.URL
				query := target.Query()
				query.Set("hop", "1")
				target.RawQuery = query.Encode()
				http.Redirect(rw, r, target.String(), http.StatusTemporaryRedirect)
				return
			}
		case 2:
			w.count("refused")
			rw.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = fmt.Fprintf(rw, `{"message":%q,"errors":{%q:[%q]}}`, mark, mark, mark)
			return
		case 3:
			w.count("cut")
			document := w.document(mark, r, body)
			rw.Header().Set("Content-Length", strconv.Itoa(len(document)))
			_, _ = io.WriteString(rw, document[:len(document)/2])
			panic(http.ErrAbortHandler)
		case 4:
			rw.Header().Set("Retry-After", "0")
			rw.WriteHeader(http.StatusTooManyRequests)
			_, _ = fmt.Fprintf(rw, `{"message":%q}`, mark)
			return
		}
	}
	w.respond(rw, r, w.document(mark, r, body))
}

func (w *isolation) respond(rw http.ResponseWriter, r *http.Request, document string) {
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") && chance(2, document) == 0 {
		w.count("compressed")
		rw.Header().Set("Content-Encoding", "gzip")
		packed := gzip.NewWriter(rw)
		_, _ = io.WriteString(packed, document)
		_ = packed.Close()
		return
	}
	_, _ = io.WriteString(rw, document)
}

func (w *isolation) document(mark string, r *http.Request, body []byte) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/progress-notes/"), "/")
	switch {
	case r.URL.Path == "/user":
		return fmt.Sprintf(`{"id":7,"name":%q,"email":"%s@clinic.test"}`, mark, mark)
	case strings.HasPrefix(r.URL.Path, "/v1/things"):
		return fmt.Sprintf(`{"mark":%q,"more":[%q]}`, mark, mark)
	case strings.HasSuffix(r.URL.Path, "/audio-url"):
		return fmt.Sprintf(`{"url":"%s/?mark=%s"}`, w.storage.URL, mark)
	case r.Method == http.MethodDelete:
		return fmt.Sprintf(`{"message":%q}`, mark)
	case r.Method == http.MethodPost:
		return isolatedNote(mark, "9")
	case r.Method == http.MethodPut && len(body) > 0:
		var sent struct{ Name string }
		_ = json.Unmarshal(body, &sent)
		return strings.Replace(isolatedNote(mark, id), strconv.Quote(mark), strconv.Quote(sent.Name), 1)
	case id == "" || strings.HasSuffix(r.URL.Path, "progress-notes"):
		return w.listPage(mark, r.URL.Query())
	}
	return isolatedNote(mark, id)
}

// listPage is one of two pages of one row each.
func (w *isolation) listPage(mark string, query url.Values) string {
	page := cmp.Or(query.Get("page"), "1")
	note := isolatedNote(mark, "1"+page)
	row := regexp.MustCompile(`"patient":\{"id":\d+`).ReplaceAllString(note, `"patient":{"id":`+query.Get("patient_id"))
	return `{"data":[` + row + `],"meta":{"current_page":` + page + `,"last_page":2,"per_page":1,"total":2}}`
}

func (w *isolation) serveStorage(rw http.ResponseWriter, r *http.Request) {
	mark := r.URL.Query().Get("mark")
	if r.Header.Get("Authorization") != "" || r.Header.Get("X-Team") != "" || r.Header.Get("X-Mark") != "" {
		w.leak("storage got the headers of %s", mark)
	}
	rw.Header().Set("ETag", `"`+mark+`"`)
	rw.Header().Set("Content-Type", "audio/wav")
	content := isolatedRecording(mark)
	if r.Header.Get("Range") == "" && chance(3, mark, "storage") == 0 {
		w.count("storage cut")
		rw.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = rw.Write(content[:len(content)/2])
		panic(http.ErrAbortHandler)
	}
	http.ServeContent(rw, r, "", time.Time{}, bytes.NewReader(content))
}

// keptThing keeps the bytes that it is decoded from, as programs do although they must not.
type keptThing []byte

func (k *keptThing) UnmarshalJSON(data []byte) error { *k = data; return nil }

// isolatedCall makes one call and returns what a program could keep of it.
func isolatedCall(ctx context.Context, c *clinicaldoc.Client, own tenancy, response *clinicaldoc.Response) (name string, kept any, err error) {
	opts := append(own.options(), clinicaldoc.WithResponse(response))
	id := int64(1 + own.number)
	switch own.number >> 3 % 10 {
	case 0, 1:
		note, err := c.Notes.Get(ctx, id, opts...)
		return "Notes.Get", note, err
	case 2:
		notes, err := clinicaldoc.Collect(c.Notes.All(ctx, clinicaldoc.ListNotesParams{PatientID: id}, opts...))
		return "Notes.All", notes, err
	case 3:
		if read, err := c.Notes.Get(ctx, id, opts...); err == nil {
			opts = append(opts, clinicaldoc.IfUnchanged(read))
		}
		params := clinicaldoc.UpdateNoteParams{Name: new("new " + own.mark), Analysis: &own.mark}
		note, err := c.Notes.Update(ctx, id, params, opts...)
		return "Notes.Update", note, err
	case 4:
		note, err := c.Notes.Sign(ctx, id, opts...)
		return "Notes.Sign", note, err
	case 5:
		done, err := c.Notes.Delete(ctx, id, opts...)
		return "Notes.Delete", done, err
	case 6:
		var out keptThing
		err := c.Do(ctx, http.MethodGet, fmt.Sprint("/v1/things/", id), nil, &out, opts...)
		return "Do", []byte(out), err
	case 7:
		user, err := c.Users.Me(ctx, opts...)
		return "Users.Me", user, err
	case 8:
		var recording bytes.Buffer
		_, err := c.Notes.DownloadAudio(ctx, id, &recording, clinicaldoc.DownloadParams{}, opts...)
		return "Notes.DownloadAudio", recording.Bytes(), err
	}
	params := clinicaldoc.CreateNoteParams{Name: own.mark, PatientID: int64(1 + chance(1000, own.mark)), Audio: clinicaldoc.AudioBytes(own.mark+".wav", isolatedRecording(own.mark))}
	note, err := c.Notes.Create(ctx, params, opts...)
	return "Notes.Create", note, err
}

// everythingIn is all that can be had of a value, an error or a response, printed or not.
func everythingIn(value any, err error, response *clinicaldoc.Response) string {
	var b strings.Builder
	encoded, _ := json.Marshal(value)
	b.Write(encoded)
	if raw, ok := value.([]byte); ok {
		b.Write(raw)
	}
	fmt.Fprintf(&b, " %v %+v %#v ", err, err, err)
	if refused, ok := errors.AsType[*clinicaldoc.Error](err); ok {
		fmt.Fprint(&b, refused.Message, refused.Fields, refused.RequestID)
	}
	if lost, ok := errors.AsType[*clinicaldoc.OutcomeUnknownError](err); ok {
		encoded, _ := json.Marshal(lost)
		b.Write(encoded)
	}
	if conflict, ok := errors.AsType[*clinicaldoc.ConflictError](err); ok {
		encoded, _ := json.Marshal(conflict.Current)
		b.Write(encoded)
	}
	fmt.Fprint(&b, " ", response.StatusCode, response.RequestID, response.Header, string(response.Body))
	return b.String()
}

type isolationKey struct{}

// isolationLog holds each line against the call whose context it came with.
type isolationLog struct {
	slog.Handler
	*isolation
}

func (l isolationLog) Enabled(context.Context, slog.Level) bool { return true }

func (l isolationLog) Handle(ctx context.Context, r slog.Record) error {
	own, _ := ctx.Value(isolationKey{}).(tenancy)
	r.Attrs(func(a slog.Attr) bool {
		l.expectOnly(own.mark, "a log line", a.String())
		return true
	})
	l.count("log lines")
	return nil
}

func (w *isolation) client(t *testing.T, service int, transport http.RoundTripper) *clinicaldoc.Client {
	t.Helper()
	told := func(ctx context.Context, what string, operation string) {
		own, ok := ctx.Value(isolationKey{}).(tenancy)
		if !ok || own.service != service {
			w.leak("a hook learned of %s in the context of another call", what)
		}
		w.expectOnly(own.mark, "a hook", operation)
		w.count("hooks")
	}
	client, err := clinicaldoc.NewClient(w.services[service].URL, "0|synthetic-token-of-nobody",
		clinicaldoc.WithHTTPClient(&http.Client{Transport: transport}),
		clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 4, MinWait: time.Microsecond, MaxWait: time.Millisecond}),
		clinicaldoc.WithLogger(slog.New(isolationLog{slog.DiscardHandler, w})),
		clinicaldoc.WithHooks(clinicaldoc.Hooks{
			CallStart: func(ctx context.Context, c clinicaldoc.Call) context.Context {
				told(ctx, "a call", fmt.Sprint(c))
				return ctx
			},
			AttemptStart: func(ctx context.Context, a clinicaldoc.Attempt) (context.Context, clinicaldoc.TraceContext) {
				told(ctx, "the start of an attempt", fmt.Sprint(a))
				return ctx, clinicaldoc.TraceContext{}
			},
			AttemptEnd: func(ctx context.Context, a clinicaldoc.Attempt) {
				told(ctx, "an attempt", fmt.Sprint(a, a.RequestID, a.Err))
			},
			CallEnd: func(ctx context.Context, c clinicaldoc.Call) {
				told(ctx, "an end", fmt.Sprint(c, c.Err))
			},
		}))
	require.NoError(t, err)
	return client
}

// Two services, each with two tenants by a header and two users by their tokens, are called concurrently over one
// pool. Meanwhile calls are cancelled, retried, redirected, compressed, refused and cut. Nothing of one call is in
// another's request, result, response, error, hook or log line, neither when it returns nor when all others have
// come after it.
func TestIsolation_ConcurrentCalls_ShareNothing(t *testing.T) {
	t.Parallel()
	calls := 1200
	if wanted := os.Getenv(isolationVariable); wanted != "" {
		var err error
		calls, err = strconv.Atoi(wanted)
		require.NoError(t, err)
	}
	w := &isolation{counts: map[string]int{}}
	for i := range w.services {
		w.services[i] = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.serve(i, rw, r) }))
		t.Cleanup(w.services[i].Close)
	}
	w.storage = httptest.NewServer(http.HandlerFunc(w.serveStorage))
	t.Cleanup(w.storage.Close)
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	clients := [2]*clinicaldoc.Client{w.client(t, 0, transport), w.client(t, 1, transport)}

	type keptResult struct {
		own      tenancy
		value    any
		err      error
		response *clinicaldoc.Response
		text     string
	}
	var kept [24][]keptResult
	var next atomic.Int64
	var workers sync.WaitGroup
	for i := range kept {
		workers.Go(func() {
			response := new(clinicaldoc.Response) // used again, as a program may
			for n := int(next.Add(1)) - 1; n < calls; n = int(next.Add(1)) - 1 {
				own := newTenancy(n)
				ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), isolationKey{}, own), time.Minute)
				if chance(10, own.mark, "cancel") == 0 {
					time.AfterFunc(time.Duration(rand.IntN(1500))*time.Microsecond, cancel)
				}
				name, value, err := isolatedCall(ctx, clients[own.service], own, response)
				cancel()
				text := everythingIn(value, err, response)
				w.expectOnly(own.mark, name, text)
				switch {
				case err == nil && !strings.Contains(text, own.mark):
					w.leak("%s of %s brought nothing of its own: %s", name, own.mark, text)
				case err == nil:
					w.count("succeeded")
				case errors.Is(err, context.Canceled):
					w.count("cancelled")
				case errors.Is(err, clinicaldoc.ErrOutcomeUnknown):
					w.count("unknown")
				}
				if n%16 == 0 {
					result := keptResult{own, value, err, response, text}
					kept[i], response = append(kept[i], result), new(clinicaldoc.Response)
				}
			}
		})
	}
	workers.Wait()
	for _, results := range kept {
		for _, r := range results {
			if everythingIn(r.value, r.err, r.response) != r.text {
				w.leak("what was kept of %s has changed since", r.own.mark)
			}
		}
	}
	assert.Empty(t, w.leaks)
	for _, what := range []string{"succeeded", "cancelled", "unknown", "503", "redirect", "refused", "cut", "compressed", "storage cut", "hooks", "log lines"} {
		assert.Positive(t, w.counts[what], what)
	}
	assert.Greater(t, w.counts["succeeded"], calls/2)
	t.Logf("%d calls: %v", calls, w.counts)
}
