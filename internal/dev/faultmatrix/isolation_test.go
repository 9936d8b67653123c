package faultmatrix

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
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

// A mark names a call. Everything that the service sends for the call is made of it.
var anyMark = regexp.MustCompile(`call[0-9]{6}x`)

func markOf(number int) string { return fmt.Sprintf("call%06dx", number) }

// ownOptions are the user, the tenant and the mark of a call.
func ownOptions(number int) []clinicaldoc.CallOption {
	return []clinicaldoc.CallOption{
		clinicaldoc.WithToken(fmt.Sprintf("%d|synthetic-token", number%2)),
		clinicaldoc.WithHeader("X-Team", strconv.Itoa(number%3)),
		clinicaldoc.WithHeader("X-Call", strconv.Itoa(number)),
		clinicaldoc.WithQuery("mark", markOf(number)),
	}
}

// isolation is a service that serves every call with its mark, and collects what was seen of one call in another.
type isolation struct {
	attempts sync.Map // of a mark and a method: *atomic.Int64

	mu     sync.Mutex
	leaks  []string
	counts map[string]int
}

func (w *isolation) leak(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaks = append(w.leaks, fmt.Sprintf(format, args...))
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
			w.leak("%s of %s contains %s", where, mark, found)
		}
	}
}

// chance is the same number below n for the same words.
func chance(n int, words ...any) int {
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, words...)
	return int(h.Sum32()>>7) % n
}

// ServeHTTP checks whose request it is and responds with its mark. The first two attempts may get an error or half a
// response.
func (w *isolation) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	number, _ := strconv.Atoi(r.Header.Get("X-Call"))
	mark := markOf(number)
	isOwn := r.Header.Get("Authorization") == fmt.Sprintf("Bearer %d|synthetic-token", number%2) &&
		r.Header.Get("X-Team") == strconv.Itoa(number%3) && strings.Join(r.URL.Query()["mark"], " ") == mark
	if !isOwn {
		w.leak("%s of %s has the token, header or query of another", r.Method, mark)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller has gone
	}
	w.expectOnly(mark, "the request's body", string(body))
	counter, _ := w.attempts.LoadOrStore(mark+r.Method, new(atomic.Int64))
	attempt := counter.(*atomic.Int64).Add(1)
	rw.Header().Set("X-Request-Id", mark)
	rw.Header().Set("Content-Type", "application/json")
	document := isolatedDocument(mark, r, body)
	switch trouble := chance(8, mark, r.Method, attempt); {
	case attempt > 2:
	case trouble == 0:
		w.count("503")
		rw.WriteHeader(http.StatusServiceUnavailable)
		document = fmt.Sprintf(`{"message":%q}`, mark)
	case trouble == 1:
		w.count("refused")
		rw.WriteHeader(http.StatusUnprocessableEntity)
		document = fmt.Sprintf(`{"message":%q,"errors":{%q:[%q]}}`, mark, mark, mark)
	case trouble == 2:
		w.count("cut")
		rw.Header().Set("Content-Length", strconv.Itoa(len(document)))
		_, _ = io.WriteString(rw, document[:len(document)/2])
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(rw, document)
}

// isolatedDocument is a response whose texts are all made of the mark. A list has two pages of one row each.
func isolatedDocument(mark string, r *http.Request, body []byte) string {
	note := func(id, name string) string {
		return fmt.Sprintf(`{"id":%s,"name":%q,"transcription":%q,"analysis":%q,"patient":{"id":7,"name":%q},"user_id":1,`+
			`"created_at":"2024-05-01T10:11:12Z","updated_at":"2024-05-01T10:11:12Z"}`,
			id, name, strings.Repeat(mark+" ", 1+chance(60, mark)), mark, mark)
	}
	id := strings.TrimPrefix(r.URL.Path, "/v1/progress-notes/")
	switch {
	case !strings.HasPrefix(r.URL.Path, "/v1/progress-notes"):
		return fmt.Sprintf(`{"id":7,"name":%q,"email":"%s@clinic.test","more":[%q]}`, mark, mark, mark)
	case r.Method == http.MethodPost:
		return note("9", mark)
	case r.Method == http.MethodPut:
		var sent struct{ Name string }
		_ = json.Unmarshal(body, &sent)
		return note(id, sent.Name)
	case id == r.URL.Path:
		page := cmp.Or(r.URL.Query().Get("page"), "1")
		return fmt.Sprintf(`{"data":[%s],"meta":{"current_page":%s,"last_page":2,"per_page":1,"total":2}}`,
			note(page, mark), page)
	}
	return note(id, mark)
}

// keptBytes keeps the bytes that it is decoded from, as programs do although they must not.
type keptBytes []byte

func (k *keptBytes) UnmarshalJSON(data []byte) error { *k = data; return nil }

// isolatedCall makes one call and returns what a program could keep of it.
func isolatedCall(ctx context.Context, c *clinicaldoc.Client, number int, opts []clinicaldoc.CallOption) (any, error) {
	mark := markOf(number)
	switch number / 6 % 6 {
	case 0:
		return c.Notes.Get(ctx, 5, opts...)
	case 1:
		return clinicaldoc.Collect(c.Notes.All(ctx, clinicaldoc.ListNotesParams{PatientID: 7}, opts...))
	case 2:
		return c.Notes.Update(ctx, 5, clinicaldoc.UpdateNoteParams{Name: new("new " + mark)}, opts...)
	case 3:
		var out keptBytes
		err := c.Do(ctx, http.MethodGet, "/v1/things/5", nil, &out, opts...)
		return []byte(out), err
	case 4:
		return c.Users.Me(ctx, opts...)
	}
	recording := bytes.Repeat([]byte(mark), 20+chance(200, mark))
	params := clinicaldoc.CreateNoteParams{Name: mark, PatientID: 7, Audio: clinicaldoc.AudioBytes(mark+".wav", recording)}
	return c.Notes.Create(ctx, params, opts...)
}

// everythingIn is all that a program can get from a value, an error or a response, printed or not.
func everythingIn(value any, err error, response *clinicaldoc.Response) string {
	encoded, _ := json.Marshal(value)
	text := fmt.Sprintf("%s %s %v %+v", encoded, value, err, err)
	if refused, ok := errors.AsType[*clinicaldoc.Error](err); ok {
		text += fmt.Sprint(refused.Message, refused.Fields, refused.RequestID)
	}
	if lost, ok := errors.AsType[*clinicaldoc.OutcomeUnknownError](err); ok {
		encoded, _ := json.Marshal(lost)
		text += string(encoded)
	}
	return text + fmt.Sprint(response.RequestID, response.Header, string(response.Body))
}

type isolationKey struct{}

// isolationLog compares each line with the call whose context it came with.
type isolationLog struct {
	slog.Handler
	*isolation
}

func (l isolationLog) Enabled(context.Context, slog.Level) bool { return true }

func (l isolationLog) Handle(ctx context.Context, r slog.Record) error {
	mark, _ := ctx.Value(isolationKey{}).(string)
	r.Attrs(func(a slog.Attr) bool {
		l.expectOnly(mark, "a log line", a.String())
		return true
	})
	l.count("log lines")
	return nil
}

// One client makes concurrent calls for users of several tenants. Some calls are canceled, retried, refused or cut.
// Nothing of one call is in another's request, result, response, error or log line, neither when it returns nor after
// all others.
func TestIsolation_ConcurrentCalls_ShareNothing(t *testing.T) {
	t.Parallel()
	calls := 1200
	if wanted := os.Getenv(isolationVariable); wanted != "" {
		var err error
		calls, err = strconv.Atoi(wanted)
		require.NoError(t, err)
	}
	w := &isolation{counts: map[string]int{}}
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := clinicaldoc.NewClient(server.URL, "0|synthetic-token-of-nobody",
		clinicaldoc.WithHTTPClient(&http.Client{Transport: transport}),
		clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 4, MinWait: time.Microsecond, MaxWait: time.Millisecond}),
		clinicaldoc.WithLogger(slog.New(isolationLog{slog.DiscardHandler, w})))
	require.NoError(t, err)

	var next atomic.Int64
	var workers sync.WaitGroup
	for range 24 {
		workers.Go(func() {
			var recheck []func()
			response := new(clinicaldoc.Response) // used again, as a program may
			for n := int(next.Add(1)) - 1; n < calls; n = int(next.Add(1)) - 1 {
				if check := w.call(t.Context(), client, n, response); n%16 == 0 {
					recheck = append(recheck, check)
					response = new(clinicaldoc.Response)
				}
			}
			for _, check := range recheck {
				check()
			}
		})
	}
	workers.Wait()
	assert.Empty(t, w.leaks)
	for _, what := range []string{"succeeded", "canceled", "unknown", "503", "refused", "cut", "log lines"} {
		assert.Positive(t, w.counts[what], what)
	}
	assert.Greater(t, w.counts["succeeded"], calls/2)
}

// call makes one call and checks what came of it. It returns a check that this has not changed since.
func (w *isolation) call(
	ctx context.Context, client *clinicaldoc.Client, number int, response *clinicaldoc.Response,
) (recheck func()) {
	mark := markOf(number)
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, isolationKey{}, mark), time.Minute)
	defer cancel()
	if chance(10, mark, "cancel") == 0 {
		time.AfterFunc(time.Duration(chance(1500, mark, "when"))*time.Microsecond, cancel)
	}
	value, err := isolatedCall(ctx, client, number, append(ownOptions(number), clinicaldoc.WithResponse(response)))
	text := everythingIn(value, err, response)
	w.expectOnly(mark, "the result", text)
	switch {
	case err == nil && !strings.Contains(text, mark):
		w.leak("the result of %s contains nothing of its own: %s", mark, text)
	case err == nil:
		w.count("succeeded")
	case errors.Is(err, context.Canceled):
		w.count("canceled")
	case errors.Is(err, clinicaldoc.ErrOutcomeUnknown):
		w.count("unknown")
	}
	return func() {
		if everythingIn(value, err, response) != text {
			w.leak("what was kept of %s has changed since", mark)
		}
	}
}
