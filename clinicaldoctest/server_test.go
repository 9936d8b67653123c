package clinicaldoctest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
	"github.com/clinicaldoc/clinicaldoc-go/internal/boxlink"
)

func TestRequests_SeveralRoutes_AreListed(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon))
	c.srv.AddNote(clinicaldoctest.Note{})
	req := c.request(http.MethodGet, "/v1/progress-notes?patient_id=7", nil)
	req.Header.Set("X-Custom", "kept")
	first := c.send(req)
	c.as("").get(c.audioURL())
	c.as("").get("/nowhere")

	requests := c.srv.Requests()
	require.Len(t, requests, 4)
	list := requests[0]
	assert.Equal(t, clinicaldoctest.RouteListNotes, list.Route)
	assert.Equal(t, "/v1/progress-notes", list.Path)
	assert.Equal(t, "7", list.Query.Get("patient_id"))
	assert.Equal(t, "kept", list.Header.Get("X-Custom"))
	assert.True(t, list.Authorized)
	assert.Equal(t, http.StatusOK, list.Status)
	assert.Equal(t, noon, list.Time)
	assert.Equal(t, first.Header.Get("X-Request-Id"), list.ID)
	assert.True(t, requests[2].Storage)
	assert.False(t, requests[2].Authorized)
	assert.Empty(t, requests[3].Route)

	c.srv.ForgetRequests()
	assert.Empty(t, c.srv.Requests())
}

// A caller may change what it got, also while other requests are served.
func TestRequests_ChangedByACaller_LeaveTheRecord(t *testing.T) {
	t.Parallel()
	change := func(r clinicaldoctest.Request) {
		r.Header.Set("X-Custom", "changed")
		r.Query["patient_id"][0] = "changed"
	}
	c := start(t, clinicaldoctest.InProcess(), clinicaldoctest.WithObserver(change))
	req := c.request(http.MethodGet, "/v1/progress-notes?patient_id=7", nil)
	req.Header.Set("X-Custom", "sent")
	c.send(req)
	c.srv.Close() // so that the observer was called
	for _, use := range []string{"after the observer", "after the caller"} {
		recorded := c.srv.Requests()[0]
		assert.Equal(t, "sent", recorded.Header.Get("X-Custom"), use)
		assert.Equal(t, "7", recorded.Query.Get("patient_id"), use)
		change(recorded)
	}
}

func TestRequests_SecretHeader_IsLeftOut(t *testing.T) {
	t.Parallel()
	c := start(t)
	for _, name := range []string{
		"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "X-Auth-Token", "X-Amz-Security-Token",
	} {
		req := c.request(http.MethodGet, "/user", nil)
		req.Header.Set(name, "canary")
		req.Header.Set("X-Custom", "kept")
		c.send(req)
		assert.NotContains(t, fmt.Sprintf("%+v", c.srv.Requests()), "canary", name)
		assert.Contains(t, fmt.Sprintf("%+v", c.srv.Requests()), "kept", name)
	}
}

func TestRequests_SignedAddress_IsLeftOut(t *testing.T) {
	t.Parallel()
	for name, variant := range map[string]clinicaldoctest.Variant{"S3": {}, "local disk": {LocalDisk: true}} {
		c := start(t, clinicaldoctest.WithVariant(variant))
		c.srv.AddNote(clinicaldoctest.Note{})
		address := c.audioURL()
		require.Equal(t, http.StatusOK, c.as("").get(address).StatusCode, name)
		signed, err := url.Parse(address)
		require.NoError(t, err)
		recorded := fmt.Sprintf("%+v", c.srv.Requests())
		for _, parameter := range []string{
			"X-Amz-Signature", "X-Amz-Credential", "signature", "X-Amz-Security-Token", "Signature", "api_token",
		} {
			if secret := signed.Query().Get(parameter); secret != "" {
				assert.NotContains(t, recorded, secret, "%s: %s", name, parameter)
			}
			c.get("/user?" + parameter + "=&" + parameter + "=canary")
			assert.NotContains(t, fmt.Sprintf("%+v", c.srv.Requests()), "canary", "%s: a second %s", name, parameter)
		}
	}
}

func TestRequests_AfterForgetting_IDsGoOn(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.InProcess())
	before := c.get("/user").Header.Get("X-Request-Id")
	c.srv.ForgetRequests()
	assert.NotEqual(t, before, c.get("/user").Header.Get("X-Request-Id"))
}

func TestObserver_FinishedRequest_HasItsSizes(t *testing.T) {
	t.Parallel()
	seen := make(chan clinicaldoctest.Request, 1)
	c := start(t, clinicaldoctest.WithObserver(func(r clinicaldoctest.Request) { seen <- r }))
	req := c.createRequest(validForm())
	a := c.send(req)
	observed := <-seen
	assert.Equal(t, http.StatusCreated, observed.Status)
	assert.Equal(t, req.ContentLength, observed.BytesReceived)
	assert.Equal(t, int64(len(a.text)), observed.BytesSent)
	if runtime.GOOS != "windows" { // whose clock stands still for half a millisecond and more
		assert.Positive(t, observed.Duration)
	}
}

func TestClose_UploadedRecordings_RemovesFiles(t *testing.T) { //nolint:paralleltest // sets a variable of the environment
	temporary := t.TempDir()
	setTemporary(t, temporary)
	srv := clinicaldoctest.NewServer()
	c := caller{t, srv, srv.Token}
	c.create(validForm())
	c.create(validForm())
	files := func() []string {
		found, err := filepath.Glob(filepath.Join(temporary, "*", "*"))
		require.NoError(t, err)
		return found
	}
	require.Len(t, files(), 2)
	c.expect(http.StatusOK, http.MethodDelete, "/v1/progress-notes/2")
	require.Len(t, files(), 1, "a deleted note's audio is not kept")
	invalid := validForm()
	delete(invalid.fields, "name")
	c.create(invalid)
	assert.Len(t, files(), 1, "nor is a refused upload")

	srv.Close()
	srv.Close()
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	assert.Empty(t, left)
	_, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", srv.URL[len("http://"):])
	assert.Error(t, err)
}

func TestStart_AddressInUse_ReportsItAndLeavesNoFolder(t *testing.T) { //nolint:paralleltest // sets a variable
	taken := strings.TrimPrefix(start(t).srv.URL, "http://")
	temporary := t.TempDir()
	setTemporary(t, temporary)
	for _, opt := range []clinicaldoctest.Option{clinicaldoctest.WithAddr(taken), clinicaldoctest.WithStorageAddr(taken)} {
		_, err := clinicaldoctest.Start(opt)
		require.ErrorContains(t, err, "clinicaldoctest: listen")
		assert.Panics(t, func() { clinicaldoctest.NewServer(opt) })
	}
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// A nil option is rejected, as in the SDK. A nil middleware or observer is ignored.
func TestStart_NilOption_IsRejected(t *testing.T) {
	t.Parallel()
	_, err := clinicaldoctest.Start(clinicaldoctest.InProcess(), nil)
	require.EqualError(t, err, "clinicaldoctest: an option is nil")
	assert.PanicsWithError(t, err.Error(), func() { clinicaldoctest.NewServer(nil) })
	start(t, clinicaldoctest.WithMiddleware(nil), clinicaldoctest.WithObserver(nil)).expect(http.StatusOK, http.MethodGet, "/user")
}

func TestBasePath_AnySlashes_IsTheSamePath(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{"/x": "/x", "/x/": "/x", "x": "/x", "/x/y/": "/x/y", "/": ""} {
		c := start(t, clinicaldoctest.WithVariant(clinicaldoctest.Variant{BasePath: given, LocalDisk: true}))
		address, err := url.Parse(c.srv.URL)
		require.NoError(t, err)
		assert.Equal(t, want, address.Path, given)
		assert.Equal(t, want, c.srv.Variant().BasePath)
		c.srv.AddNote(clinicaldoctest.Note{})
		assert.Equal(t, http.StatusOK, c.as("").get(c.audioURL()).StatusCode, given)
		_, err = c.srv.Client().Users.Me(t.Context())
		require.NoError(t, err, given)
	}
}

func TestInProcess_VirtualTime_ProcessesNotes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := start(t, clinicaldoctest.InProcess(), clinicaldoctest.WithDelays(clinicaldoctest.Delays{Transcribing: time.Hour, Analysing: time.Hour}))
		created := c.create(validForm())
		require.Equal(t, http.StatusCreated, created.StatusCode, created.text)
		time.Sleep(time.Hour)
		assert.Equal(t, clinicaldoctest.StageAnalysing, c.srv.Notes()[0].Stage)
		time.Sleep(time.Hour)
		note := c.expect(http.StatusOK, http.MethodGet, "/v1/progress-notes/1")
		assert.Equal(t, object{"content": true, "transcription": true, "signed": false}, note["has"])
		audio := c.as("").get(field[string](t, note, "audio", "file_url"))
		assert.Len(t, audio.text, 32_000)

		_, err := c.try(c.request(http.MethodGet, "https://elsewhere.test/", nil))
		require.ErrorContains(t, err, "no such host")
		c.srv.Close()
		_, err = c.try(c.request(http.MethodGet, "/user", nil))
		assert.ErrorContains(t, err, "connection refused")
	})
}

func TestHandler_WithoutNetwork_ServesBothOrigins(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.InProcess())
	handler := c.srv.Handler()
	serve := func(req *http.Request) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, req)
		return w
	}
	created := serve(c.createRequest(validForm()))
	require.Equal(t, http.StatusCreated, created.Code, created.Body)
	note := serve(c.request(http.MethodGet, "/v1/progress-notes/1", nil))
	require.Equal(t, http.StatusOK, note.Code)
	assert.NotEmpty(t, note.Header().Get("Date"))

	address := c.audioURL()
	audio := serve(c.as("").request(http.MethodGet, address, nil))
	assert.Equal(t, validForm().file, audio.Body.Bytes())

	c.srv.Inject(clinicaldoctest.RouteMe, clinicaldoctest.Reset())
	assert.PanicsWithValue(t, http.ErrAbortHandler, func() { serve(c.request(http.MethodGet, "/user", nil)) })
}

func TestHandler_HostOfStorage_ServesRecording(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.InProcess())
	c.srv.AddNote(clinicaldoctest.Note{})
	signed, err := url.Parse(c.audioURL())
	require.NoError(t, err)
	for _, absolute := range []bool{false, true} { // as a server reads a request, and as a client writes one
		req := c.as("").request(http.MethodGet, signed.String(), nil)
		if !absolute {
			req.URL = &url.URL{Path: signed.Path, RawQuery: signed.RawQuery}
			req.Host = signed.Host
		}
		w := httptest.NewRecorder()
		c.srv.Handler().ServeHTTP(w, req)
		assert.Equal(t, http.StatusOK, w.Code)
		assert.Equal(t, "audio/wav", w.Header().Get("Content-Type"))
	}
}

func TestInProcess_Recordings_StayInMemory(t *testing.T) { //nolint:paralleltest // sets a variable of the environment
	temporary := t.TempDir()
	setTemporary(t, temporary)
	c := start(t, clinicaldoctest.InProcess())
	c.create(validForm())
	c.srv.AddNote(clinicaldoctest.Note{Audio: []byte("seeded")})
	assert.Equal(t, string(validForm().file), c.as("").get(c.audioURL()).text)
	c.expect(http.StatusOK, http.MethodDelete, "/v1/progress-notes/1")
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestClockOffset_NewNote_AppliesToNoteAndDate(t *testing.T) {
	t.Parallel()
	c := start(t, clinicaldoctest.WithFrozenClock(noon), clinicaldoctest.WithVariant(
		clinicaldoctest.Variant{ClockOffset: -time.Hour, DateOffset: 10 * time.Second}))
	created := c.create(validForm())
	assert.Equal(t, "2024-05-01T11:00:00.123456Z", created.object(t)["created_at"])
	assert.Equal(t, "Wed, 01 May 2024 11:00:10 GMT", created.Header.Get("Date"))
	assert.Equal(t, noon.Add(-time.Hour), c.srv.Now())
	assert.Equal(t, http.StatusOK, c.as("").get(c.audioURL()).StatusCode, "addresses expire by the same clock")
}

// zeros is an endless recording.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

//nolint:paralleltest // it measures the heap of the whole process
func TestCreate_LargeUpload_LeavesMemoryFlat(t *testing.T) {
	const size = 64 << 20
	c := start(t)
	reader, writer := io.Pipe()
	form := multipart.NewWriter(writer)
	go func() {
		for name, value := range validForm().fields {
			_ = form.WriteField(name, value)
		}
		part, _ := form.CreateFormFile("file", "long.wav")
		_, _ = io.CopyN(part, zeros{}, size)
		_ = writer.CloseWithError(form.Close())
	}()
	req := c.request(http.MethodPost, "/v1/progress-notes", reader)
	req.Header.Set("Content-Type", form.FormDataContentType())

	live := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	before := live()
	stop := make(chan struct{})
	peak := make(chan int64)
	go func() {
		var highest int64
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				highest = max(highest, live())
			case <-stop:
				peak <- highest
				return
			}
		}
	}()
	a := c.send(req)
	close(stop)
	highest := <-peak
	require.Equal(t, http.StatusCreated, a.StatusCode, a.text)
	assert.Equal(t, int64(size), c.srv.Notes()[0].AudioSize)
	assert.Less(t, highest-before, int64(size/4))
}

// TestServer_ManyClients_LeaveMemoryBounded: once the server remembers as many requests as it ever does, 200 clients
// that come and go leave nothing behind.
//
//nolint:paralleltest // it measures the heap of the whole process
func TestServer_ManyClients_LeaveMemoryBounded(t *testing.T) {
	c := start(t, clinicaldoctest.InProcess(), clinicaldoctest.WithDelays(clinicaldoctest.Delays{}))
	handler := c.srv.Handler()
	serve := func(req *http.Request) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, req)
		return w
	}
	const clients, rounds, remembered = 200, 3, 10_000
	everybody := func(act func()) {
		var group sync.WaitGroup
		for range clients {
			group.Go(act)
		}
		group.Wait()
	}
	heap := func() int {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int(stats.HeapAlloc)
	}
	me := c.request(http.MethodGet, "/user", nil)
	everybody(func() {
		for range remembered / clients {
			assert.Equal(t, http.StatusOK, serve(me).Code)
		}
	})
	before := heap()
	everybody(func() {
		for range rounds {
			var created struct{ ID int }
			response := serve(c.createRequest(formOf("synthetic")))
			if err := json.Unmarshal(response.Body.Bytes(), &created); err != nil {
				t.Error(err)
			}
			note := fmt.Sprintf("/v1/progress-notes/%d", created.ID)
			for _, method := range []string{http.MethodGet, http.MethodDelete} {
				assert.Equal(t, http.StatusOK, serve(c.request(method, note, nil)).Code)
			}
		}
	})
	assert.Less(t, heap()-before, 4<<20)
	assert.Empty(t, c.srv.Notes())
	assert.Len(t, c.srv.Created(), clients*rounds)
	assert.LessOrEqual(t, len(c.srv.Requests()), remembered)
}

func TestSeeds_IDOrTokenInUse_Panic(t *testing.T) {
	t.Parallel()
	c := start(t)
	id := c.srv.AddNote(clinicaldoctest.Note{})
	for what, add := range map[string]func(){
		"a note's id": func() { c.srv.AddNote(clinicaldoctest.Note{ID: id}) },
		"a user's id": func() { c.srv.AddUser(clinicaldoctest.User{ID: 1, Name: "Somebody else"}) },
		"one's email": func() { c.srv.AddUser(clinicaldoctest.User{ID: 1, Email: "other@example.test"}) },
		"one's team":  func() { c.srv.AddUser(clinicaldoctest.User{ID: 1, TeamID: 2}) },
		"a token":     func() { c.srv.AddUser(clinicaldoctest.User{Token: c.srv.Token}) },
		"a lost note's": func() {
			c.expect(http.StatusOK, http.MethodDelete, "/v1/progress-notes/1")
			c.srv.AddNote(clinicaldoctest.Note{ID: id})
		},
	} {
		assert.Panics(t, add, what)
	}
	again := c.srv.AddUser(clinicaldoctest.User{ID: 1, Token: "chosen"})
	assert.Equal(t, clinicaldoctest.User{ID: 1, Name: "User 1", Email: "user1@example.test", TeamID: 1, Token: "chosen"}, again)
	c.as("chosen").expect(http.StatusOK, http.MethodGet, "/user")
	c.expect(http.StatusOK, http.MethodGet, "/user")
}

// BenchmarkListPage lists a page of notes that are few or many, planted or added one by one, directly at the handler.
func BenchmarkListPage(b *testing.B) {
	for how, add := range map[string]func(srv *clinicaldoctest.Server, count int){"planted": plant, "added": addNotes} {
		for _, count := range []int{10, 1_000, 100_000} {
			srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess())
			b.Cleanup(srv.Close)
			add(srv, count)
			handler := srv.Handler()
			for _, query := range []string{"per_page=10", "per_page=10&patient_id=1", fmt.Sprintf("per_page=10&page=%d", count/10)} {
				b.Run(fmt.Sprint(how, "/", count, "/", query), func(b *testing.B) {
					req := httptest.NewRequestWithContext(b.Context(), http.MethodGet, srv.URL+"/v1/progress-notes?"+query, nil)
					req.Header.Set("Authorization", "Bearer "+srv.Token)
					req.Header.Set("Accept", "application/json")
					for b.Loop() {
						w := httptest.NewRecorder()
						handler.ServeHTTP(w, req)
						if w.Code != http.StatusOK {
							b.Fatal(w.Body)
						}
					}
				})
			}
		}
	}
}

func plant(srv *clinicaldoctest.Server, count int) { boxlink.Plant(srv, count) }

func addNotes(srv *clinicaldoctest.Server, count int) {
	for i := range count {
		srv.AddNote(clinicaldoctest.Note{PatientID: int64(i/3 + 1)})
	}
}

// BenchmarkSeed seeds a fake server with 100,000 notes, and reports the memory per note.
func BenchmarkSeed(b *testing.B) {
	for how, add := range map[string]func(srv *clinicaldoctest.Server, count int){"planted": plant, "added": addNotes} {
		b.Run(how, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				srv := clinicaldoctest.NewServer(clinicaldoctest.InProcess())
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				b.StartTimer()
				add(srv, 100_000)
				b.StopTimer()
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/100_000, "B/note")
				srv.Close()
				b.StartTimer()
			}
		})
	}
}
