package browser_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

func TestANoteMovesThroughItsStagesWithoutReload(t *testing.T) {
	t.Parallel()
	box := start(t, "-transcription", "1s", "-analysis", "1s")
	page := box.open()
	eval[bool](page, "window.notReloaded = true")
	recording := filepath.Join(t.TempDir(), "visit.wav")
	require.NoError(t, os.WriteFile(recording, make([]byte, 10_000), 0o600))
	out, err := exec.CommandContext(t.Context(), "curl", "-sS", "-H", "Accept: application/json", "-H", "Authorization: Bearer "+box.token,
		"-F", "name=First visit", "-F", "patient_id=7", "-F", "prompt_id=1", "-F", "file=@"+recording, box.url+"/v1/progress-notes").CombinedOutput()
	require.NoError(t, err, string(out))
	for _, stage := range []string{"transcribing", "analysing", "complete"} {
		page.wait(fmt.Sprintf(`document.querySelector("[data-note='1']")?.dataset.stage === %q`, stage))
	}
	assert.Contains(t, eval[string](page, `document.querySelector("[data-note='1']").textContent`), "First visit")
	page.wait(`document.querySelector(".row .status")?.textContent === "201"`)
	page.click(".row")
	page.wait(`document.querySelector(".detail")?.textContent.includes("part patient_id")`)
	page.click(".detail button")
	page.wait(`document.querySelector(".detail button").textContent === "Copied"`)
	assert.NotContains(t, eval[string](page, "document.documentElement.outerHTML"), box.token)
	assert.True(t, eval[bool](page, "window.notReloaded"))
}

func TestAFaultSetByAClickIsRetriedAndGrouped(t *testing.T) {
	t.Parallel()
	box := start(t, "-seed", "3")
	page := box.open()
	page.click(`#quick [data-fault="*:status=503"]`)
	page.wait(`document.querySelectorAll("#faults li").length === 1`)
	note, err := box.client().Notes.Get(t.Context(), 1)
	require.NoError(t, err)
	assert.EqualValues(t, 1, note.ID)
	page.wait(`document.querySelector(".call.grouped")?.querySelectorAll(".row").length === 2`)
	assert.Contains(t, eval[string](page, `document.querySelector(".call.grouped").textContent`), "one call, 2 attempts")
	assert.Equal(t, []string{"503", "200"}, eval[[]string](page, `[...document.querySelectorAll(".call.grouped .status")].map(e => e.textContent)`))
	page.wait(`document.querySelectorAll("#faults li").length === 0`) // it has struck

	page.click("#clock [data-advance='24h']")
	page.wait(`Date.parse(document.getElementById("now").dateTime) > Date.now() + 23 * 3600e3`)
	page.click("details summary")
	page.click("#switch-wrap_objects")
	page.wait(`document.getElementById("message").textContent === "wrap_objects is set"`)
	_, err = box.client().Notes.Get(t.Context(), 1)
	require.NoError(t, err)
	page.wait(`document.querySelectorAll(".row").length === 3`)
	page.click(".row")
	page.wait(`document.querySelector(".detail")?.textContent.includes("data.id: integer")`)
	page.picture("desk-light")
	page.scheme("dark")
	page.picture("desk-dark")
	page.do(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile))
	assert.LessOrEqual(t, eval[int](page, "document.documentElement.scrollWidth"), 390, "nothing hangs over a phone's edge")
	page.picture("phone-dark")
	page.scheme("light")
	eval[bool](page, `document.getElementById("controls").scrollIntoView() === undefined`)
	page.picture("phone-light")
}

// A page that can be used with a mouse alone keeps people out.
func TestTheKeyboardAloneWorks(t *testing.T) {
	t.Parallel()
	box := start(t, "-seed", "3")
	page := box.open()
	for id := range int64(3) {
		_, err := box.client().Notes.Get(t.Context(), id+1)
		require.NoError(t, err)
	}
	page.wait(`document.querySelectorAll(".row").length === 3`)

	reach := func(selector string) {
		for range 60 {
			page.keys("\t")
			if eval[bool](page, fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
				assert.True(t, eval[bool](page, `document.activeElement.matches(":focus-visible")`), selector)
				return
			}
		}
		require.Fail(t, "the tabulator does not reach it", selector)
	}
	reach(".row")
	page.keys(kb.ArrowDown, "\r")
	page.wait(`document.querySelector(".row[aria-expanded=true] .path").textContent === "/v1/progress-notes/2"`)
	page.wait(`document.querySelector(".detail")?.textContent.includes("client.Notes.Get(ctx, 2)")`)
	page.wait(`document.activeElement.matches(".row[aria-expanded=true]")`)
	reach("#quick button")
	page.keys("\r")
	page.wait(`document.querySelectorAll("#faults li").length === 1`)
	reach("#faults button")
	page.keys(" ")
	page.wait(`document.querySelectorAll("#faults li").length === 0`)
	reach("#freeze")
	page.keys("\r")
	page.wait(`document.getElementById("freeze").getAttribute("aria-pressed") === "true"`)
	page.keys("/")
	page.wait(`document.activeElement.id === "filter"`)
	eval[bool](page, `(document.activeElement.value = "") === ""`) // the browser's driver types the slash where the focus went
	page.keys("n", "o", "t", "e", "s", "/", "3")
	page.wait(`document.querySelectorAll(".row").length === 1`)
	unlabelled := eval[[]string](page, `[...document.querySelectorAll("input, select")].filter(e => !e.labels.length && !e.ariaLabel).map(e => e.id)`)
	assert.Empty(t, unlabelled)
}

// Of a real service the page shows paths, types and departures.
func TestNoValueOfARealServiceReachesThePage(t *testing.T) {
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
	page := p.open()
	for _, path := range []string{"/user", "/v1/progress-notes/" + canary, "/" + canary, "/v1/progress-notes?patient_id=" + canary + "&" + canary + "=1"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, p.url+path, strings.NewReader(`{"name":"`+canary+`"}`))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+canary)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	page.wait(`document.querySelectorAll(".row").length === 4`)
	page.wait(`document.getElementById("thing-list").textContent.includes("the description has no such endpoint")`)
	page.click(".call:nth-child(3) .row")
	page.wait(`document.querySelector(".detail")?.textContent.includes("name: string")`)
	assert.Contains(t, eval[string](page, "document.body.innerText"), "wrong type id: string, described integer")
	assert.NotContains(t, eval[string](page, "document.documentElement.outerHTML"), canary)
	assert.NotContains(t, eval[string](page, `Promise.all([...document.querySelectorAll(".row")].map(e => fetch("requests/" + e.dataset.id).then(r => r.text()))).then(all => all.join("\n"))`), canary)
	page.picture("upstream")
}

// A page that starts over fetches what there is; what it is told meanwhile is newer and stays.
func TestWhatComesWhileThePageStartsOverStays(t *testing.T) {
	t.Parallel()
	box := start(t, "-seed", "3")
	page := box.open()
	_, err := box.client().Notes.Get(t.Context(), 1)
	require.NoError(t, err)
	page.wait(`document.querySelector(".row .status")?.textContent === "200"`)
	page.click("#clear")
	page.wait(`document.querySelectorAll(".row").length === 0`)
	eval[bool](page, `(() => {
		window.told = 0;
		const [fetched, parsed] = [window.fetch, JSON.parse];
		JSON.parse = (text) => { const value = parsed(text); if (value.status) window.told++; return value; };
		window.fetch = async (...about) => {
			const response = await fetched(...about);
			if (about[0] !== "requests" || about[1].method !== "GET") return response;
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
	page.wait("window.told === 1")
	eval[bool](page, "window.goOn() || new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => drawn(true))))")
	page.wait(`document.querySelectorAll(".row").length === 1 && document.querySelector(".row .status").textContent === "200"`)
}

func TestThousandsOfRequestsKeepItResponsive(t *testing.T) {
	t.Parallel()
	box := start(t, "-seed", "3")
	page := box.open()
	// The longest time between two frames tells how long the page did not listen.
	eval[bool](page, `(() => { let last = performance.now(); window.longest = 0; const frame = (now) => { window.longest = Math.max(window.longest, now - last); last = now; requestAnimationFrame(frame); }; requestAnimationFrame(frame); return true; })()`)
	client := box.client()
	var work sync.WaitGroup
	for range 10 {
		work.Go(func() {
			for range 500 {
				_, err := client.Notes.Get(t.Context(), 1)
				assert.NoError(t, err)
			}
		})
	}
	page.click("#pause")
	page.wait(`document.getElementById("pause").getAttribute("aria-pressed") === "true"`)
	page.click("#pause")
	work.Wait()
	page.wait(`document.getElementById("request-count").textContent === "5000"`)
	page.wait(`document.querySelector(".row")?.dataset.id === "5000" && document.querySelector(".row .status").textContent === "200"`)
	assert.LessOrEqual(t, eval[int](page, `document.querySelectorAll(".row").length`), 300)
	t.Logf("longest frame %.0f ms", eval[float64](page, "window.longest"))
	page.keys("/")
	page.keys("4", "9", "9")
	page.wait(`document.querySelectorAll(".row").length === 0`)
}

// Two hundred clients and an open page: no error, and no memory that grows with them.
func TestAStormWithThePageOpen(t *testing.T) {
	t.Parallel()
	box := start(t, "-seed", "20")
	page := box.open()
	client := box.client()
	var work sync.WaitGroup
	end := time.Now().Add(*storm)
	for range 200 {
		work.Go(func() {
			for id := int64(1); time.Now().Before(end); id = id%20 + 1 {
				if _, err := client.Notes.Get(t.Context(), id); !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	work.Wait()
	page.wait(`document.querySelector(".row .status")?.textContent === "200"`)
	t.Logf("%s requests, peak %d MiB", eval[string](page, `document.getElementById("request-count").textContent`), box.peakMemory())
	assert.Less(t, box.peakMemory(), 300)
}

// A recording of any size passes through without being held.
func TestALargeUploadNeedsNoMemory(t *testing.T) {
	t.Parallel()
	const size = 1 << 30
	received := make(chan int64, 1)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		assert.NoError(t, err)
		received <- n
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id":1}`)
	}))
	t.Cleanup(service.Close)
	p := start(t, "-upstream", service.URL)
	p.token = "synthetic"
	_, err := p.client().Notes.Create(t.Context(), clinicaldoc.CreateNoteParams{Name: "Long visit", PatientID: 1, PromptID: 1, Audio: clinicaldoc.AudioReaderAt("long.wav", zeros{}, size)})
	require.NoError(t, err)
	assert.Greater(t, <-received, int64(size))
	t.Logf("peak %d MiB", p.peakMemory())
	assert.Less(t, p.peakMemory(), 64)
}

// zeros is silence without end.
type zeros struct{}

func (zeros) ReadAt(p []byte, _ int64) (int, error) {
	clear(p)
	return len(p), nil
}
