package devproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // the heap is small, so that the collector would run without end
	goleak.VerifyTestMain(m)
}

// output collects what a running command prints.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// command is a running devproxy.
type command struct {
	t              *testing.T
	url            string
	token          string
	client         *http.Client
	stdout, stderr output
	interrupt      func() // ends it and waits
}

var (
	printedURL   = regexp.MustCompile(`base URL  (http://\S+)`)
	printedToken = regexp.MustCompile(`token     (\S+)`)
)

func launch(t *testing.T, args ...string) *command {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := &command{t: t, client: &http.Client{Transport: transport}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // the test's own is over before the cleanup
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, "clinicaldoc-devproxy", append([]string{"-addr", "127.0.0.1:0"}, args...), &c.stdout, &c.stderr)
	}()
	c.interrupt = sync.OnceFunc(func() {
		transport.CloseIdleConnections()
		cancel()
		assert.NoError(t, <-ended)
	})
	t.Cleanup(c.interrupt)
	require.Eventually(t, func() bool { return printedURL.MatchString(c.stdout.String()) }, 10*time.Second, time.Millisecond, "no base URL was printed")
	c.url = printedURL.FindStringSubmatch(c.stdout.String())[1]
	if token := printedToken.FindStringSubmatch(c.stdout.String()); token != nil {
		c.token = token[1]
	}
	return c
}

// result is a response read to its end.
type result struct {
	status int
	header http.Header
	text   string
}

func (c *command) request(method, path string, body io.Reader) *http.Request {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, body)
	require.NoError(c.t, err)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Authorization", "Bearer "+c.token)
	return req
}

// do sends a request and reads the response. After an error it returns what it has read.
func (c *command) do(req *http.Request) (result, error) {
	resp, err := c.client.Do(req)
	if err != nil {
		return result{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return result{resp.StatusCode, resp.Header, string(text)}, err
}

func (c *command) send(method, path, contentType string, body io.Reader) result {
	c.t.Helper()
	req := c.request(method, path, body)
	req.Header.Set("Content-Type", contentType)
	got, err := c.do(req)
	require.NoError(c.t, err)
	return got
}

func (c *command) get(path string) result {
	c.t.Helper()
	return c.send(http.MethodGet, path, "", nil)
}

func (c *command) create() result {
	c.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, value := range map[string]string{"name": "Secret visit", "patient_id": "7", "prompt_id": "1"} {
		require.NoError(c.t, form.WriteField(name, value))
	}
	part, err := form.CreateFormFile("file", "visit.wav")
	require.NoError(c.t, err)
	_, err = part.Write(make([]byte, 100_000))
	require.NoError(c.t, err)
	require.NoError(c.t, form.Close())
	return c.send(http.MethodPost, "/v1/progress-notes", form.FormDataContentType(), &body)
}

// sdk returns a client of the SDK that uses the command.
func (c *command) sdk(opts ...clinicaldoc.Option) *clinicaldoc.Client {
	c.t.Helper()
	client, err := clinicaldoc.NewClient(c.url, c.token, append(opts, clinicaldoc.WithHTTPClient(c.client))...)
	require.NoError(c.t, err)
	return client
}

// createParams describes a note with a recording of this size.
func createParams(size int) clinicaldoc.CreateNoteParams {
	return clinicaldoc.CreateNoteParams{
		Name: "Visit", PatientID: 1, PromptID: 1, Audio: clinicaldoc.AudioBytes("a.wav", make([]byte, size)),
	}
}

func TestRun_LocalServer_PrintsHowToUseIt(t *testing.T) {
	t.Parallel()
	c := launch(t, "-transcription", "0s", "-analysis", "0s")
	printed := c.stdout.String()
	assert.Contains(t, printed, "curl -H 'Accept: application/json' -H 'Authorization: Bearer "+c.token+"' "+c.url+"/user")
	assert.Contains(t, printed, "export CLINICALDOC_BASE_URL='"+c.url+"' CLINICALDOC_TOKEN='"+c.token+"'")

	assert.Equal(t, http.StatusCreated, c.create().status)
	assert.Contains(t, c.get("/v1/progress-notes/1").text, `"content":true`)
	assert.Equal(t, http.StatusOK, c.send(http.MethodPut, "/v1/progress-notes/1/sign", "", nil).status)
	c.interrupt()
	assert.Contains(t, c.stdout.String(), "Closing.")
}

func TestRun_Log_HasNoSecrets(t *testing.T) {
	t.Parallel()
	c := launch(t, "-token", "top-secret")
	require.Equal(t, "top-secret", c.token)
	c.create()
	c.get("/v1/progress-notes?patient_id=424242")
	c.get("/v1/progress-notes/31337")
	c.get("/hidden-path")
	c.send("ODD", "/user", "", nil)
	c.interrupt()
	log := c.stderr.String()
	assert.Regexp(t, `POST   /v1/progress-notes +201  \S+  in 100\.\d kB  out \S+ [k]?B`, log)
	assert.Regexp(t, `GET    /v1/progress-notes/\{id\} +404`, log)
	assert.Regexp(t, `GET    \(unknown path\) +404`, log)
	assert.Regexp(t, `other  \(unknown path\) +405`, log)
	for _, secret := range []string{"top-secret", "424242", "31337", "hidden", "Secret visit", "ODD"} {
		assert.NotContains(t, log, secret)
	}
}

func TestRun_Quiet_LogsNothing(t *testing.T) {
	t.Parallel()
	c := launch(t, "-quiet")
	c.get("/user")
	c.interrupt()
	assert.Empty(t, c.stderr.String())
}

func TestRun_VariantSeedAndFaults_AreUsed(t *testing.T) {
	t.Parallel()
	c := launch(t, "-variant", "cursor", "-seed", "12",
		"-fault", "GET /user:status=503:2", "-fault", "GET /v1/auth/tokens:429=7s")
	list := c.get("/v1/progress-notes?per_page=100").text
	var page struct {
		Data []struct {
			PatientID int64 `json:"patient_id"`
		} `json:"data"`
		Meta map[string]any `json:"meta"`
	}
	require.NoError(t, json.Unmarshal([]byte(list), &page))
	assert.Len(t, page.Data, 12)
	assert.Equal(t, int64(4), page.Data[0].PatientID)
	assert.Contains(t, page.Meta, "next_cursor")

	var statuses []int
	for range 3 {
		statuses = append(statuses, c.get("/user").status)
	}
	assert.Equal(t, []int{503, 503, 200}, statuses)
	assert.Equal(t, "7", c.get("/v1/auth/tokens").header.Get("Retry-After"))
	c.interrupt()
	assert.Contains(t, c.stderr.String(), "fault: status=503")
}

func TestSeed_File_IsPlanted(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "seed.json")
	require.NoError(t, os.WriteFile(file, []byte(`{
		"users": [{"name": "Second user", "token": "second"}],
		"patients": [{"id": 9, "name": "Patient nine"}],
		"notes": [{"user_id": 2, "patient_id": 9, "name": "Seeded", "stage": "failed", "error_state": "no speech"}]
	}`), 0o600))
	c := launch(t, "-seed", file)
	c.token = "second"
	note := c.get("/v1/progress-notes/1").text
	assert.Contains(t, note, `"error_state":"no speech"`)
	assert.Contains(t, note, `"name":"Patient nine"`)
}

func TestSeedNote_EveryField_ReachesTheNote(t *testing.T) {
	t.Parallel()
	var read seedNote
	require.NoError(t, json.Unmarshal([]byte(`{
		"id": 1, "user_id": 1, "patient_id": 1, "prompt_id": 1, "name": "x", "stage": "failed", "stuck": true,
		"transcription": "x", "analysis": "x", "error_state": "x", "created_at": "2024-05-01T00:00:00Z"
	}`), &read))
	note := reflect.ValueOf(read.note())
	for _, field := range reflect.VisibleFields(note.Type()) {
		if strings.HasPrefix(field.Name, "Audio") { // a seed's file has no recording
			continue
		}
		isSet := !note.FieldByIndex(field.Index).IsZero()
		assert.True(t, isSet, "%s is not set: add it to seedNote, to its method note and to the JSON above", field.Name)
	}
	_, members, _ := strings.Cut(help, "A seed file contains")
	for field := range reflect.TypeFor[seedNote]().Fields() {
		isListed := regexp.MustCompile(`\b` + field.Tag.Get("json") + `\b`).MatchString(members)
		assert.True(t, isListed, "the help lacks the member %s of a seed's notes", field.Tag.Get("json"))
	}
}

func TestRun_CommandLineMistake_IsExplained(t *testing.T) {
	t.Parallel()
	bad := filepath.Join(t.TempDir(), "bad.json")
	require.NoError(t, os.WriteFile(bad, []byte(`{"nots": []}`), 0o600))
	impossible := filepath.Join(t.TempDir(), "impossible.json")
	require.NoError(t, os.WriteFile(impossible, []byte(`{"notes": [{"user_id": 99}]}`), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // ends a server that should not have started
	defer cancel()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"-variant", "none"}, "no such variant"},
		{[]string{"-seed", "-1"}, "cannot make -1 notes"},
		{[]string{"-seed", "no-such-file"}, syscall.ENOENT.Error()},
		{[]string{"-seed", bad}, "unknown field"},
		{[]string{"-addr", "127.0.0.1:0", "-seed", impossible}, "seed: clinicaldoctest: no user 99"},
		{[]string{"-addr", "127.0.0.1:99999"}, "invalid port"},
		{[]string{"extra"}, `unexpected argument "extra"`},
		{[]string{"-fault", "GET /nowhere:reset"}, "no such route"},
		{[]string{"-nonsense"}, "not defined: -nonsense\n-help lists the flags"},
		{[]string{"-token", "a b"}, "cannot be sent in an Authorization header"},
		{[]string{"-token", "Bearer abc"}, "cannot be sent in an Authorization header"},
		{[]string{"-transcription", "-2s"}, "want a duration"},
		{[]string{"-analysis", "soon"}, "want a duration"},
		{[]string{"-upstream", "http://service.example"}, "must be https"},
		{[]string{"-upstream", "https://user:pw@service.example"}, "must be a base URL"},
		{[]string{"-upstream", "::"}, "must be a base URL"},
		{[]string{"-upstream", "http://127.0.0.1:1", "-seed", "3"}, "-seed has no effect"},
	} {
		var printed output
		err := Run(ctx, "clinicaldoc-devproxy", test.args, &printed, &printed)
		require.ErrorContains(t, err, test.want, test.args)
		assert.Empty(t, printed.String(), "the mistake stands alone")
	}
}

// The kinds of faults are tested with ParseFault.
func TestParseFault_Route_PrecedesFault(t *testing.T) {
	t.Parallel()
	const route = clinicaldoctest.RouteGetNote
	for _, spec := range []string{"reset", "delay=1s:rate=0.05", "status=504:commit=1m35s"} {
		f, err := parseFault(route + ":" + spec)
		require.NoError(t, err, spec)
		assert.Equal(t, route, f.route)
		assert.Equal(t, spec, f.String())
	}
	for _, spec := range []string{"", "status=99", "meteor"} {
		_, err := parseFault(route + ":" + spec)
		assert.Error(t, err, spec)
	}
}

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestRun_OutputCannotBeWritten_Fails(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // ends a server that should not have started
	defer cancel()
	for _, args := range [][]string{
		{"-version"}, {"-help"}, {"-variants"}, {"-addr", "127.0.0.1:0"},
		{"-addr", "127.0.0.1:0", "-upstream", "http://127.0.0.1:1"},
	} {
		err := Run(ctx, "clinicaldoc-devproxy", args, full{}, io.Discard)
		require.ErrorIs(t, err, syscall.ENOSPC, args)
	}
}

func TestFlags_Durations_DefaultAsTheHelpSays(t *testing.T) {
	t.Parallel()
	var set settings
	set.flags()
	assert.Equal(t, 2*time.Second, set.transcription)
	assert.Equal(t, 2*time.Second, set.analysis)
}

func TestRun_HelpVersionVariants_ArePrinted(t *testing.T) {
	t.Parallel()
	printed := func(flag string) string {
		var stdout, stderr output
		require.NoError(t, Run(t.Context(), "clinicaldoc-devproxy", []string{flag}, &stdout, &stderr))
		return stdout.String()
	}
	assert.Regexp(t, `^clinicaldoc-devproxy \S+ go\S+\n$`, printed("-version"))
	for _, expected := range []string{"-upstream", "reset-after-commit", "-seed", "127.0.0.1:8790"} {
		assert.Contains(t, printed("-help"), expected)
	}
	assert.NotContains(t, printed("-help"), "NAME", "every command has the program's name")
	for _, v := range clinicaldoctest.Variants() {
		assert.Contains(t, printed("-variants"), v.Name+"\n")
	}
}
