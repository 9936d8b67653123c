package browser_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/har"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

const (
	rows   = `[...document.querySelectorAll(".row:not([hidden])")].sort((a, b) => b.dataset.id - a.dataset.id)`
	detail = `document.getElementById("detail")`
)

// shows waits until the list has exactly these rows: id and status, newest first.
func (p *page) shows(want string) {
	p.t.Helper()
	p.wait(rows + `.map(e => "#" + e.dataset.id + " " + e.querySelector(".status").textContent).join(", ") === "` + want + `"`)
}

// opens clicks on a request and waits until it is the one that is shown.
func (p *page) opens(id int) {
	p.t.Helper()
	p.click(fmt.Sprintf("#row-%d", id))
	p.wait(fmt.Sprintf(detail+`.querySelector(".number")?.textContent === "#%d"`, id))
}

// find types into the filter, in place of what is there.
func (p *page) find(text string) {
	p.t.Helper()
	p.typeInto("#filter", text)
}

// typeInto sets a field's text as typing does.
func (p *page) typeInto(selector, text string) {
	p.t.Helper()
	eval[bool](p, fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.value = %q; e.dispatchEvent(new Event("input", { bubbles: true })); return true; })()`, selector, text))
}

func (p *proxy) create(name string) {
	p.t.Helper()
	audio := clinicaldoc.AudioBytes("visit.wav", silence(1))
	_, err := p.client().Notes.Create(p.t.Context(), clinicaldoc.CreateNoteParams{Name: name, PatientID: 7, PromptID: 1, Audio: audio})
	require.NoError(p.t, err)
}

// send sends a request by hand and returns the status.
func (p *proxy) send(method, path, contentType string, body io.Reader) int {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, body)
	require.NoError(p.t, err)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Authorization", "Bearer "+p.token)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(p.t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(p.t, err)
	require.NoError(p.t, resp.Body.Close())
	return resp.StatusCode
}

func TestInspector_NoteInProgress_ChangesWithoutReload(t *testing.T) {
	t.Parallel()
	box := start(t, "-transcription", "1h", "-analysis", "1h")
	page := box.open()
	clock := func(change string) {
		assert.Equal(t, http.StatusOK, box.send(http.MethodPost, "/_/clock", "application/json", strings.NewReader(change)))
	}
	clock(`{"frozen":true}`)
	eval[bool](page, "window.notReloaded = true")
	page.click("#toggle-notes")
	box.create("First visit")
	for _, stage := range []string{"transcribing", "analysing", "complete"} {
		page.wait(fmt.Sprintf(`document.querySelector("[data-note='1']")?.dataset.stage === %q`, stage))
		eval[bool](page, `document.querySelector("[data-note='1']").same = true`)
		if stage != "complete" {
			clock(`{"advance":"1h"}`)
		}
	}
	clock(`{"advance":"1h"}`)
	page.wait(`document.getElementById("now").dateTime > new Date(Date.now() + 2.5 * 3600e3).toISOString()`)
	assert.True(t, eval[bool](page, `new Promise((drawn) => requestAnimationFrame(() => drawn(document.querySelector("[data-note='1']").same === true)))`), "what does not change is not drawn anew, under somebody's click")
	assert.Contains(t, eval[string](page, `document.querySelector("[data-note='1']").textContent`), "First visit")
	assert.True(t, eval[bool](page, "window.notReloaded"))
	page.click("[data-note='1'] button")
	page.wait(`document.getElementById("filter").value === "note:1"`)
	page.shows("#1 201")
}

// The parts of a form are shown one by one, a recording can be heard, and a body is there as it was.
func TestInspector_Request_IsShownAsItWasSent(t *testing.T) {
	t.Parallel()
	box := start(t, "-seed", "2")
	page := box.open()
	box.create("First visit")
	box.send(http.MethodPost, "/v1/progress-notes", "application/json", strings.NewReader(`{"name":"Visit","id":12345678901234567890}`))
	page.shows("#2 422, #1 201")
	page.click("#row-1")
	page.wait(detail + `.querySelectorAll(".part").length === 4`)
	page.wait(detail + `.querySelector("audio").duration === 1`)
	text := eval[string](page, detail+".innerText")
	for _, want := range []string{"First visit", "visit.wav", "*clinicaldoc.ProgressNote", "Request id", "req-1", "HTTP/1.1, 127.0.0.1:", "8.0 kB"} {
		assert.Contains(t, text, want)
	}
	page.wait(detail + `.querySelector(".body pre").textContent.includes('\n  "analysis"') || ` + detail + `.querySelector(".body pre").textContent.includes('\n  "audio": {')`)

	page.click("#row-2")
	page.wait(detail + `.textContent.includes("ErrValidation") && ` + detail + `.textContent.includes("docs/errors.md#what-the-service-said")`)
	page.wait(detail + `.querySelector(".body pre").textContent === '{\n  "name": "Visit",\n  "id": 12345678901234567890\n}'`)
	pressed := `[...document.querySelectorAll("#detail .viewer .states button")].map(e => e.textContent + " " + e.ariaPressed).slice(0, 2).join()`
	page.wait(pressed + ` === "Pretty true,Raw false"`)
	for range 2 { // it is a state, not a switch
		page.click(".viewer .states button:last-child")
		page.wait(pressed + ` === "Pretty false,Raw true"`)
		page.wait(detail + `.querySelector(".body pre").textContent === '{"name":"Visit","id":12345678901234567890}'`)
	}
	page.wait(detail + `.textContent.includes("The file field is required.")`)
	assert.NotContains(t, eval[string](page, "document.documentElement.outerHTML"), box.token)

	box.send(http.MethodGet, "/v1/progress-notes/1/audio-url", "", nil)
	page.shows("#3 200, #2 422, #1 201")
	_, err := box.client().Notes.DownloadAudio(t.Context(), 1, io.Discard, clinicaldoc.DownloadParams{})
	require.NoError(t, err)
	page.find("route:/audio/")
	page.wait(rows + `.length === 1 && ` + rows + `[0].querySelector(".path").textContent.startsWith("/audio/")`)
	eval[bool](page, rows+`[0].click() === undefined`)
	page.wait(detail + `.querySelector("audio")?.duration === 1`)
}

func TestInspector_Filter_FindsRequestsAndHasAnAddress(t *testing.T) {
	t.Parallel()
	box := start(t, "-seed", "12", "-fault", "GET /v1/progress-notes/{id}:status=503:after=1")
	page := box.open()
	client := box.client()
	for id := range int64(2) { // the second is tried twice
		_, err := client.Notes.Get(t.Context(), id+1)
		require.NoError(t, err)
	}
	_, err := client.Notes.Get(t.Context(), 12)
	require.NoError(t, err)
	box.send(http.MethodPut, "/v1/progress-notes/1", "application/json", strings.NewReader(`{"analysis":"A needle in a haystack"}`))
	const everything = "#5 200, #4 200, #3 200, #2 503, #1 200"
	page.shows(everything)
	for filter, want := range map[string]string{
		"status:5xx": "#2 503", "status:503": "#2 503", "note:1": "#5 200, #1 200", "note:2": "#3 200, #2 503", "call:2": "#3 200, #2 503",
		"method:put": "#5 200", "route:{id} method:get": "#4 200, #3 200, #2 503, #1 200", "is:fault": "#2 503", "is:error": "#2 503",
		"needle": "#5 200", "needle haystack analysis application/json": "#5 200", "NEEDLE method:get": "", "progress-notes/12": "#4 200", "#4": "#4 200", "nothing-has-this": "", "": everything,
	} {
		page.find(filter)
		page.shows(want)
	}
	page.find("")
	page.shows(everything)
	eval[bool](page, `(() => { const e = document.getElementById("route"); e.value = "PUT /v1/progress-notes/{id}"; e.dispatchEvent(new Event("input", { bubbles: true })); return true; })()`)
	page.shows("#5 200")
	assert.Equal(t, "1 of 5", eval[string](page, `document.getElementById("request-count").textContent`))

	// What is shown has an address.
	page.find("needle")
	page.shows("#5 200")
	eval[bool](page, rows+`[0].click() === undefined`)
	page.wait(detail + `.textContent.includes("A needle in a haystack")`)
	link := eval[string](page, "location.href")
	page.visit(link)
	page.shows("#5 200")
	page.wait(detail + `.textContent.includes("A needle in a haystack")`)
	page.visit(box.inspector() + "#id=3")
	page.wait(detail + `.querySelector("[aria-current=true]")?.textContent.startsWith("Attempt 2200") && ` + detail + `.textContent.includes("One call, 2 attempts")`)
	page.visit(box.inspector())
	page.shows(everything)
	page.click("#clear")
	page.wait(`document.getElementById("request-count").textContent === "0" && !document.getElementById("no-requests").hidden`)
	_, err = client.Notes.Get(t.Context(), 1)
	require.NoError(t, err)
	page.wait(`document.getElementById("request-count").textContent === "1"`)
	page.lenient = true // the browser tells the console what it did not find
	page.visit(box.inspector() + "#id=3")
	page.wait(detail + `.textContent.includes("not kept any more")`)
}

// What comes is found as what was there is, also by a response that is late.
func TestInspector_Filter_FindsRequestsThatComeLater(t *testing.T) {
	t.Parallel()
	box := start(t, "-seed", "2", "-fault", "GET /v1/progress-notes/{id}:delay=1s")
	page := box.open()
	page.find("needle")
	box.send(http.MethodPut, "/v1/progress-notes/1", "application/json", strings.NewReader(`{"analysis":"A needle"}`))
	page.shows("#1 200")
	box.send(http.MethodGet, "/v1/progress-notes/1", "", nil)
	page.shows("#2 200, #1 200")
}

func TestInspector_Request_IsSentAgainEditedAndCompared(t *testing.T) {
	t.Parallel()
	box := start(t, "-seed", "2")
	page := box.open()
	box.create("First visit")
	box.send(http.MethodPut, "/v1/progress-notes/1", "application/json", strings.NewReader(`{"name":"Before"}`))
	page.shows("#2 200, #1 201")
	page.click("#row-1")
	page.click("#replay")
	page.shows("#3 201, #2 200, #1 201")
	page.wait(detail + `.textContent.includes("as #1 was") && ` + detail + `.textContent.includes("First visit")`)

	page.click("#row-2")
	page.wait(detail + `.textContent.includes("Before")`)
	page.click("#edit")
	page.wait(`document.querySelector(".edit [name=body]").value === '{"name":"Before"}'`)
	page.typeInto(".edit [name=body]", `{"name":"After"}`)
	page.typeInto(".edit [name=target]", "/v1/progress-notes/2")
	page.click(".edit .main")
	page.shows("#4 200, #3 201, #2 200, #1 201")
	page.wait(detail + `.textContent.includes("as #2 was") && ` + detail + `.querySelector(".body pre").textContent.includes("After")`)
	note, err := box.client().Notes.Get(t.Context(), 2)
	require.NoError(t, err)
	assert.Equal(t, "After", note.Name)
	page.shows("#5 200, #4 200, #3 201, #2 200, #1 201") // the rows stand still

	page.click("#compare")
	page.click("#row-2")
	page.wait(detail + `.querySelector(".difference")?.textContent.includes('-   "name": "After"')`)
	page.wait(detail + `.querySelector(".difference").textContent.includes('+   "name": "Before"')`)
	page.click("#stop-comparing")
	page.wait(detail + `.querySelector("#replay")`)
	page.click("#edit")
	page.wait(`document.querySelector(".edit")`)
	page.lenient = true // the browser tells the console of each refusal
	page.typeInto(".edit [name=header]", "nonsense")
	page.click(".edit .main")
	page.wait(`document.getElementById("message").textContent.includes("is not a header")`)
}

// What was not touched is sent as it was: a field of a page knows one end of lines alone.
func TestInspector_Edit_LeavesTheRestAsItWas(t *testing.T) {
	t.Parallel()
	box := start(t, "-seed", "2")
	page := box.open()
	const body = "{\"name\":\r\n\"Before\"}"
	box.send(http.MethodPut, "/v1/progress-notes/1", "application/json", strings.NewReader(body))
	page.shows("#1 200")
	page.opens(1)
	page.click("#edit")
	page.wait(`document.querySelector(".edit")`)
	page.typeInto(".edit [name=target]", "/v1/progress-notes/2")
	page.click(".edit .main")
	page.shows("#2 200, #1 200")
	assert.Equal(t, body, eval[string](page, `fetch("requests/2/request/body?raw").then((response) => response.text())`))
}

// An answer that comes while somebody edits leaves the form alone.
func TestInspector_Edit_OutlivesALateResponse(t *testing.T) {
	t.Parallel()
	box := start(t, "-seed", "2")
	page := box.open()
	box.send(http.MethodPut, "/v1/progress-notes/1", "application/json", strings.NewReader(`{"name":"Before"}`))
	page.shows("#1 200")
	eval[bool](page, `import("./list.js").then(list => {
		const [fetched, known] = [window.fetch, list.get(1)];
		window.held = {};
		window.hold = () => { window.fetch = (...about) => new Promise(go => { window.held[about[0]] = go; }).then(() => fetched(...about)); };
		window.answer = () => list.take({ ...known });
		list.take({ ...known, pending: true }); // the page has not heard of the answer
		return true;
	})`)
	page.opens(1)
	eval[bool](page, `window.hold() === undefined`)
	page.click("#edit")
	page.wait(`window.held["requests/1/request/body?raw"]`)
	fetched := eval[[]string](page, `(window.answer(), Object.keys(window.held))`)
	assert.Equal(t, []string{"requests/1/request/body?raw"}, fetched, "what is shown is not fetched anew, which would replace the form")
	eval[bool](page, `window.held["requests/1/request/body?raw"]() === undefined`)
	page.wait(`document.querySelector(".edit [name=body]").value === '{"name":"Before"}'`)
}

// A session is saved as an HTTP archive, which any viewer of such files opens, and loaded by another inspector.
func TestInspector_Session_IsSavedAndLoaded(t *testing.T) {
	t.Parallel()
	box := start(t, "-seed", "2", "-fault", "GET /user:status=503")
	page := box.open()
	box.create("First visit")
	box.send(http.MethodGet, "/user", "", nil)
	page.shows("#2 503, #1 201")
	saved := eval[string](page, `fetch(document.getElementById("save").href).then(r => r.text())`)
	compiler := jsonschema.NewCompiler()
	schema, err := compiler.Compile("testdata/har-1.2.schema.json")
	require.NoError(t, err)
	archive, err := jsonschema.UnmarshalJSON(strings.NewReader(saved))
	require.NoError(t, err)
	require.NoError(t, schema.Validate(archive))
	var decoded har.HAR
	require.NoError(t, json.Unmarshal([]byte(saved), &decoded), "the browser's own types hold it")
	require.Len(t, decoded.Log.Entries, 2)
	assert.Equal(t, int64(503), decoded.Log.Entries[1].Response.Status)

	file := filepath.Join(t.TempDir(), "requests.har")
	require.NoError(t, os.WriteFile(file, []byte(saved), 0o600))
	other := start(t)
	loaded := other.open()
	loaded.do(chromedp.SetUploadFiles(chromedp.CSS("#file"), []string{file}))
	loaded.shows("#2 503, #1 201")
	loaded.click("#row-1")
	loaded.wait(detail + `.querySelector("audio").duration === 1`)
	loaded.wait(detail + `.textContent.includes("it was sent elsewhere")`)
	loaded.click("#replay")
	loaded.shows("#3 201, #2 503, #1 201")
}

func TestInspector_FaultSetByAClick_IsRetried(t *testing.T) {
	t.Parallel()
	box := start(t, "-seed", "3")
	page := box.open()
	page.click("#toggle-controls")
	page.click(`#quick [data-fault="*:status=503"]`)
	page.wait(`document.querySelectorAll("#faults li").length === 1`)
	note, err := box.client().Notes.Get(t.Context(), 1)
	require.NoError(t, err)
	assert.EqualValues(t, 1, note.ID)
	page.shows("#2 200, #1 503")
	assert.Contains(t, eval[string](page, `document.getElementById("row-2").textContent`), "attempt 2 of 2")
	page.wait(`document.querySelectorAll("#faults li").length === 0`) // it has struck

	page.click("#clock [data-advance='24h']")
	page.wait(`Date.parse(document.getElementById("now").dateTime) > Date.now() + 23 * 3600e3`)
	page.click("#controls-panel details summary")
	page.click("#switch-wrap_objects")
	page.wait(`document.getElementById("message").textContent === "wrap_objects is set"`)
	_, err = box.client().Notes.Get(t.Context(), 1)
	require.NoError(t, err)
	page.shows("#3 200, #2 200, #1 503")
	page.click("#row-3")
	page.wait(detail + `.querySelector(".body pre")?.textContent.startsWith('{\n  "data": {')`)

	// What takes everything away asks first; here its patience has no end.
	eval[bool](page, `(window.setTimeout = () => 1) !== null`)
	page.click("#reset")
	page.wait(`document.getElementById("reset").textContent === "Really start over?"`)
	page.wait(`document.getElementById("request-count").textContent === "3"`)
	page.click("#reset")
	page.wait(`document.getElementById("request-count").textContent === "0"`)
}

// cutOff names the buttons of which a part is hidden at the side.
const cutOff = `[...document.querySelectorAll("button, .button, select")].filter((e) => e.checkVisibility() && (() => {
	const own = e.getBoundingClientRect();
	const around = e.closest("aside, #detail, header, dialog, #list").getBoundingClientRect();
	return own.right > Math.min(innerWidth, around.right) + 1 || own.left < around.left - 1 || e.scrollWidth > e.clientWidth + 1;
})()).map((e) => e.id || e.textContent).join()`

// label is what can be seen of the label of the fourth request.
const label = `((e) => e?.checkVisibility() && e.clientWidth > 60 ? e.textContent : "")(document.querySelector("#row-4 .tag"))`

// Every state is usable on a desk, on a small screen and on a phone, in light and in dark.
func TestInspector_EverySize_CutsOffNothing(t *testing.T) {
	t.Parallel()
	box := start(t, "-seed", "12", "-fault", "GET /v1/progress-notes/{id}:status=503:after=1")
	page := box.open()
	box.create("First visit")
	for id := range int64(12) {
		_, err := box.client().Notes.Get(t.Context(), id+1)
		require.NoError(t, err)
	}
	box.send(http.MethodPost, "/v1/progress-notes", "application/json", strings.NewReader(`{"name":"Visit"}`))
	box.send(http.MethodGet, "/v1/progress-notes?patient_id=1;2", "", nil)
	page.wait(`document.getElementById("request-count").textContent === "16"`)
	for name, size := range sizes {
		page.do(chromedp.EmulateViewport(size[0], size[1]))
		for _, scheme := range []string{"light", "dark"} {
			page.scheme(scheme)
			for state, act := range map[string]func(){
				"list":    func() { page.visit(box.inspector()) },
				"refused": func() { page.visit(box.inspector() + "#id=15"); page.wait(detail + `.querySelector(".body pre")`) },
				"created": func() {
					page.visit(box.inspector() + "#id=1")
					page.wait(detail + `.querySelector("audio").duration === 1`)
				},
				"compared": func() {
					page.visit(box.inspector() + "#id=4&with=3")
					page.wait(detail + `.querySelector(".difference")`)
				},
				"controls": func() { page.visit(box.inspector()); page.click("#toggle-controls") },
				"notes":    func() { page.visit(box.inspector()); page.click("#toggle-notes") },
				"keys":     func() { page.visit(box.inspector()); page.keys("?"); page.wait(`document.getElementById("help").open`) },
				"edited": func() {
					page.visit(box.inspector() + "#id=15")
					page.click("#edit")
					page.wait(detail + `.querySelector(".edit")`)
				},
				"found": func() {
					page.visit(box.inspector() + "#filter=status%3A5xx&id=3")
					page.wait(detail + `.querySelector(".verdict")`)
				},
			} {
				act()
				page.wait(`document.getElementById("request-count").textContent !== "0"`)
				where := name + " " + state
				width := eval[int64](page, "document.documentElement.scrollWidth")
				assert.LessOrEqual(t, width, size[0], "nothing hangs over the edge: %s", where)
				height := eval[int64](page, "document.documentElement.scrollHeight")
				assert.LessOrEqual(t, height, size[1], "the page itself does not scroll: %s", where)
				assert.Empty(t, eval[string](page, cutOff), "no button is cut off: %s", where)
				if state == "list" {
					assert.Equal(t, "attempt 2 of 2", eval[string](page, label), "labels stay: %s", name)
				}
			}
		}
	}
}

// The attempts of a call stand together, in their order and on its time line, also when another call came in between.
func TestInspector_GroupsAttemptsOfACallOnATimeLine(t *testing.T) {
	t.Parallel()
	box := start(t, "-seed", "3", "-fault", "GET /v1/progress-notes/{id}:status=503:2")
	page := box.open()
	ask := func(id int) int { return box.send(http.MethodGet, fmt.Sprint("/v1/progress-notes/", id), "", nil) }
	require.Equal(t, http.StatusServiceUnavailable, ask(1))
	require.Equal(t, http.StatusOK, box.send(http.MethodGet, "/user", "", nil))
	require.Equal(t, http.StatusServiceUnavailable, ask(1))
	require.Equal(t, http.StatusOK, ask(1))
	page.wait(`document.getElementById("request-count").textContent === "4"`)
	top := `.sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)`
	page.wait(rows + top + `.map(e => e.dataset.id).join() === "2,1,3,4"`)
	assert.Equal(t, "|attempt 1 of 3|attempt 2 of 3|attempt 3 of 3", eval[string](page,
		rows+top+`.map(e => e.querySelector(".tag").textContent.split(" · ")[0]).join("|")`))
	assert.Equal(t, "false,true,true,true", eval[string](page, rows+top+`.map(e => !e.querySelector(".line").hidden).join()`))
	page.opens(3)
	lefts := eval[[]float64](page, `[...document.querySelectorAll("#detail .call i")].map(e => e.getBoundingClientRect().left)`)
	require.Len(t, lefts, 3)
	assert.IsNonDecreasing(t, lefts)
	assert.Less(t, lefts[0], lefts[2])
	page.keys("j")
	page.wait(detail + `.querySelector(".number")?.textContent === "#4"`)
}

func TestInspector_SaysWhatTheSDKMakesOfAnError(t *testing.T) {
	t.Parallel()
	box := start(t)
	page := box.open()
	require.Equal(t, http.StatusNotFound, box.send(http.MethodGet, "/v1/progress-notes/99", "", nil))
	page.shows("#1 404")
	page.opens(1)
	said := eval[string](page, `document.querySelector("#detail .verdict").innerText`)
	for _, want := range []string{"does not exist (404)", "drop the ID", "ErrNotFound"} {
		assert.Contains(t, said, want)
	}
	link := eval[string](page, `document.querySelector("#detail .verdict a").href`)
	assert.Contains(t, link, "/_/docs/errors.md#")
	page.do(chromedp.Navigate(link))
	page.wait(`document.body.innerText.startsWith("# Errors")`)
	page.wait(`document.querySelector(":target").textContent.startsWith("## ")`)
}

// A page that can be used with a mouse alone keeps people out.
func TestInspector_KeyboardAlone_ReachesEverything(t *testing.T) {
	t.Parallel()
	box := start(t, "-seed", "3")
	page := box.open()
	for id := range int64(3) {
		_, err := box.client().Notes.Get(t.Context(), id+1)
		require.NoError(t, err)
	}
	page.shows("#3 200, #2 200, #1 200")
	chosen := func(id string) {
		t.Helper()
		page.wait(`document.querySelector(".row[aria-selected=true]")?.dataset.id === "` + id + `"`)
	}
	page.keys("j")
	chosen("3")
	page.keys("j", "j", "j")
	chosen("1")
	page.keys("k", "\r")
	chosen("2")
	page.wait(detail + `.textContent.includes("client.Notes.Get(ctx, 2)")`)
	page.wait(`document.activeElement.id === "detail"`)
	page.keys("k")
	page.wait(detail + `.textContent.includes("client.Notes.Get(ctx, 3)")`)
	page.keys(kb.Escape)
	page.wait(`!document.body.classList.contains("opened") && document.activeElement.id === "rows"`)
	page.keys(kb.ArrowDown, "\r", "r")
	page.shows("#4 200, #3 200, #2 200, #1 200")
	page.wait(detail + `.textContent.includes("as #2 was")`)
	page.keys("e")
	page.wait(`document.activeElement.matches(".edit input")`)
	page.keys(kb.Escape, "c", "j")
	page.wait(detail + `.querySelector(".difference")`)
	page.keys("/")
	page.wait(`document.activeElement.id === "filter"`)
	eval[bool](page, `(document.activeElement.value = "") === ""`) // the browser's driver types the slash where the focus went
	page.keys("n", "o", "t", "e", "s", "/", "3")
	page.shows("#3 200")
	page.keys("\r")
	page.wait(`document.activeElement.id === "rows"`)

	reach := func(selector string) {
		t.Helper()
		for range 60 {
			page.keys("\t")
			if eval[bool](page, fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
				assert.True(t, eval[bool](page, `document.activeElement.matches(":focus-visible")`), selector)
				return
			}
		}
		require.Fail(t, "the tabulator does not reach it", selector)
	}
	reach("#toggle-controls")
	page.keys("\r")
	reach("#quick button")
	page.keys("\r")
	page.wait(`document.querySelectorAll("#faults li").length === 1`)
	reach("#faults button")
	page.keys(" ")
	page.wait(`document.querySelectorAll("#faults li").length === 0`)
	reach("#freeze")
	page.keys("\r")
	page.wait(`document.getElementById("freeze").getAttribute("aria-pressed") === "true"`)
	page.keys(kb.Escape)
	page.wait(`document.getElementById("controls-panel").hidden`)
	page.keys("?")
	page.wait(`document.getElementById("help").open`)
	page.keys(kb.Escape)
	page.wait(`!document.getElementById("help").open`)
	unlabelled := eval[[]string](page, `[...document.querySelectorAll("input, select, textarea")].filter(e => !e.labels.length && !e.ariaLabel).map(e => e.id)`)
	assert.Empty(t, unlabelled)
}

// Of a real service the page shows paths, types and departures.
func TestInspector_RealService_ShowsNoValue(t *testing.T) {
	t.Parallel()
	const canary = "CANARY"
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Name", canary)
		_, _ = io.WriteString(w, `{"id":"`+canary+`","name":"`+canary+`","`+canary+`":1,"email":["`+canary+`"]}`)
	}))
	t.Cleanup(service.Close)
	p := start(t, "-upstream", service.URL)
	p.token = canary
	page := p.open()
	for _, path := range []string{"/user", "/v1/progress-notes/" + canary, "/" + canary, "/v1/progress-notes?patient_id=" + canary + "&" + canary + "=1"} {
		p.send(http.MethodPut, path, "application/json", strings.NewReader(`{"name":"`+canary+`"}`))
	}
	page.shows("#4 200, #3 200, #2 200, #1 200")
	page.click("#toggle-notes")
	page.wait(`document.getElementById("thing-list").textContent.includes("the description has no such endpoint")`)
	page.click("#toggle-notes")
	page.click("#row-2")
	page.wait(detail + `.textContent.includes("name: string")`)
	assert.Equal(t, "#2 PUT /v1/progress-notes/{id} 200", eval[string](page, detail+`.querySelector("h2").textContent`))
	assert.Contains(t, eval[string](page, "document.body.innerText"), "wrong type id: string, described integer")
	assert.NotContains(t, eval[string](page, "document.documentElement.outerHTML"), canary)
	assert.NotContains(t, eval[string](page, `Promise.all([1, 2, 3, 4].map(id => fetch("requests/" + id).then(r => r.text()))).then(all => all.join("\n"))`), canary)
	assert.True(t, eval[bool](page, `document.getElementById("banner").hidden && document.getElementById("save").hidden && !document.getElementById("replay")`))

	shown := start(t, "-upstream", service.URL, "-show-bodies")
	shown.token = canary
	page = shown.open()
	shown.send(http.MethodGet, "/user?x="+canary, "", nil)
	page.shows("#1 200")
	page.wait(`!document.getElementById("banner").hidden && document.getElementById("banner").innerText.includes("patients' data")`)
	page.click("#row-1")
	page.wait(detail + `.querySelector(".body pre")?.textContent.includes("` + canary + `")`)
	assert.True(t, eval[bool](page, `!document.getElementById("replay")`), "a real service is asked nothing twice")
}

// Whatever a program sends, it is text and nothing else.
func TestInspector_HostileTexts_StayTexts(t *testing.T) {
	t.Parallel()
	box := start(t)
	page := box.open()
	hostile := []string{
		`<img src=x onerror="window.hacked=1">`, `</script><script>window.hacked=1</script>`, `"><svg onload=window.hacked=1>`,
		`javascript:window.hacked=1`, "\u202Ereversed\u202C", `{{7*7}}${7*7}`, `__proto__`, strings.Repeat("W", 5000), "line\r\nbreak\ttab", "é\u0000\u0301",
	}
	for i, text := range hostile {
		plain := strings.NewReplacer("\r\n", " ", "\u0000", "").Replace(text)
		body := &bytes.Buffer{}
		form := multipart.NewWriter(body)
		require.NoError(t, form.WriteField("name", text))
		require.NoError(t, form.WriteField("patient_id", "1"))
		require.NoError(t, form.WriteField("prompt_id", "1"))
		require.NoError(t, form.WriteField(strings.NewReplacer("\r", "", "\n", "").Replace(text), text))
		file, err := form.CreateFormFile("file", text)
		require.NoError(t, err)
		_, err = file.Write([]byte(text))
		require.NoError(t, err)
		require.NoError(t, form.Close())
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, box.url+"/v1/progress-notes?x="+url.QueryEscape(text)+"&y="+strings.Map(func(r rune) rune {
			if r <= ' ' || r > '~' {
				return '.'
			}
			return r
		}, text), body)
		require.NoError(t, err)
		req.Header.Set("Content-Type", form.FormDataContentType())
		req.Header.Set("Authorization", "Bearer "+box.token)
		req.Header.Set("X-Hostile", strings.Map(func(r rune) rune {
			if r < ' ' {
				return '.'
			}
			return r
		}, plain))
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		box.send(http.MethodPut, "/v1/progress-notes/"+url.PathEscape(plain), "application/json", strings.NewReader(`{"name":`+strconv.Quote(plain)+`}`))
		page.wait(fmt.Sprintf(`document.getElementById("request-count").textContent === "%d" && !document.querySelector(".row .wait")`, 2*i+2))
		for id := 2*i + 1; id <= 2*i+2; id++ {
			page.opens(id)
			page.wait(detail + `.querySelector(".parts, .body pre, .hint")`)
		}
		page.click("#edit")
		page.wait(`document.querySelector(".edit")`)
	}
	page.click("#compare")
	page.click("#row-19")
	page.wait(detail + `.querySelector(".difference")`)
	page.find(hostile[0])
	page.click("#toggle-notes")
	page.wait(`document.querySelectorAll(".thing").length > 5`)
	assert.False(t, eval[bool](page, `"hacked" in window`))
	assert.Zero(t, eval[int](page, `document.querySelectorAll("img, svg, script:not([src]), iframe").length`))
	page.find("")
	assert.True(t, eval[bool](page, "document.documentElement.scrollWidth <= innerWidth"), "nothing hangs over the edge")
}

// A page of another origin that is open in the same browser sees nothing and changes nothing.
func TestInspector_ForeignOrigin_SeesAndChangesNothing(t *testing.T) {
	t.Parallel()
	box := start(t, "-seed", "3")
	box.send(http.MethodGet, "/user", "", nil)
	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><title>foreign</title><link rel=icon href=data:,>")
	}))
	t.Cleanup(foreign.Close)
	p := box.open()
	p.lenient = true // the browser complains of what it refuses
	p.do(chromedp.Navigate(foreign.URL))
	inspector := box.inspector()
	result := eval[[]string](p, fmt.Sprintf(`Promise.all([
		...["state", "requests", "requests/1", "requests/1/response/body", "har"].map(path => fetch(%[1]q + path).then(() => "read " + path, () => "refused")),
		...["reset", "har", "requests/1/replay"].map(path => fetch(%[1]q + path, { method: "POST", body: "{}", headers: { "Content-Type": "application/json" } }).then(() => "changed " + path, () => "refused")),
		...["reset", "seed"].map(path => fetch(%[1]q + path, { method: "POST", mode: "no-cors", body: "10" }).then(() => "opaque")),
		new Promise(done => { const s = document.createElement("script"); s.src = %[1]q + "inspector.js"; s.onload = () => done("script ran"); s.onerror = () => done("refused"); document.head.append(s); }),
		new Promise(done => { const f = document.createElement("iframe"); f.src = %[1]q; f.onload = () => done(f.contentDocument ? "framed" : "refused"); document.body.append(f); }),
		new Promise(done => { const e = new EventSource(%[1]q + "events"); e.onopen = () => done("stream"); e.onerror = () => { e.close(); done("refused"); }; }),
	])`, inspector))
	for _, r := range result {
		assert.Contains(t, []string{"refused", "opaque"}, r)
	}
	p.visit(inspector)
	p.shows("#1 200")
	assert.Equal(t, "3", eval[string](p, `document.getElementById("thing-count").textContent`), "nothing was seeded or taken away")
}

// A page that starts over fetches what there is; what it is told meanwhile is newer and stays.
func TestInspector_RequestDuringClear_Stays(t *testing.T) {
	t.Parallel()
	box := start(t, "-seed", "3")
	page := box.open()
	_, err := box.client().Notes.Get(t.Context(), 1)
	require.NoError(t, err)
	page.shows("#1 200")
	page.click("#clear")
	page.shows("")
	eval[bool](page, `(() => {
		window.told = false;
		const [fetched, parsed] = [window.fetch, JSON.parse];
		JSON.parse = (text) => { const value = parsed(text); window.told ||= Array.isArray(value) && value.some(r => r.status); return value; };
		window.fetch = async (...about) => {
			const response = await fetched(...about);
			if (!about[0].startsWith("requests?after") || about[1].method !== "GET") return response;
			const list = await response.json();
			window.listed = true;
			await new Promise((resolve) => { window.goOn = resolve; });
			return { ok: true, json: async () => list };
		};
		return true;
	})()`)
	page.click("#clear")
	page.wait("window.listed")
	_, err = box.client().Notes.Get(t.Context(), 1)
	require.NoError(t, err)
	page.wait("window.told")
	eval[bool](page, "window.goOn() || new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => drawn(true))))")
	page.shows("#2 200")
}

// A request that ends when the page has forgotten it stands where it belongs, not among the newest.
func TestInspector_LateResponse_ComesInItsPlace(t *testing.T) {
	t.Parallel()
	box := start(t)
	page := box.open()
	box.send(http.MethodGet, "/user", "", nil)
	page.shows("#1 200")
	eval[bool](page, `import("./list.js").then(list => {
		for (const id of [7, 9, 8]) list.take({ id, call: id, attempt: 1, at: id, method: "GET", target: "/user", status: 200, ms: 1 });
		return true;
	})`)
	page.shows("#9 200, #8 200, #7 200, #1 200")
	assert.Equal(t, []string{"9", "8", "7", "1"}, eval[[]string](page, `[...document.querySelectorAll(".row:not([hidden])")].sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top).map(e => e.dataset.id)`))
}

// A body of twenty megabytes is shown a piece at a time.
func TestInspector_BodyOfTwentyMegabytes_IsShownInPieces(t *testing.T) {
	t.Parallel()
	box := start(t)
	long := strings.Repeat("Synthetic words. ", 12_500)
	for range 10 {
		notes := strings.Repeat(`{"transcription":"`+long+`"},`, 10)
		assert.Equal(t, http.StatusOK, box.send(http.MethodPost, "/_/seed", "application/json", strings.NewReader(`{"notes":[`+strings.TrimSuffix(notes, ",")+`]}`)))
	}
	page := box.open()
	assert.Equal(t, http.StatusOK, box.send(http.MethodGet, "/v1/progress-notes?per_page=100", "", nil))
	page.shows("#1 200")
	page.click("#row-1")
	page.wait(detail + `.textContent.includes("21.4 MB") || ` + detail + `.textContent.includes("21.3 MB")`)
	page.wait(detail + `.querySelector(".body .more")`)
	page.click(".body .more")
	page.wait(detail + `.querySelectorAll(".body pre").length > 64`)
	page.wait(detail + `.textContent.includes("*clinicaldoc.Page")`)
	assert.LessOrEqual(t, eval[int](page, `Math.max(...[...document.querySelectorAll(".body pre")].map(e => e.textContent.length))`), 16<<10, "a browser that lays a text out does so at once")
	page.keys("r")
	page.shows("#2 200, #1 200")
}
