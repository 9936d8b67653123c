package browser_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	cdpio "github.com/chromedp/cdproto/io"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// keepDrawing asks for each frame, so that one that comes late is seen.
const keepDrawing = `(() => { const next = () => requestAnimationFrame(next); next(); })()`

// frame is the time from one frame to the next.
type frame struct {
	took     time.Duration
	computed time.Duration // by the page's main thread: the rest is waiting, for the next frame or for a processor
}

// seen is what a page's main thread did while something happened.
type seen struct {
	frames []frame
	tasks  []time.Duration // the processor's time of each, which is nearly the same on a busy machine
	why    string          // what the longest of them did
	stolen time.Duration
}

func (s seen) String() string {
	var longest, busiest frame
	var above34, above50, own int
	for _, f := range s.frames {
		if f.took > longest.took {
			longest = f
		}
		if f.computed > busiest.computed {
			busiest = f
		}
		if f.took > 34*time.Millisecond {
			above34++
		}
		if f.took > 50*time.Millisecond {
			above50++
			if f.computed > f.took/2 {
				own++
			}
		}
	}
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }
	return fmt.Sprintf("%d frames, %d above 34 ms, %d above 50 ms, %d of them by the page itself; the longest took %s, of which the page computed %s; at most it computed %s in a frame and %s in one of %d tasks (%s); the machine's host took %s",
		len(s.frames), above34, above50, own, ms(longest.took), ms(longest.computed), ms(busiest.computed), ms(slices.Max(s.tasks)), len(s.tasks), s.why, ms(s.stolen))
}

// stolen returns how long a virtual machine's processors waited for their host since the start. A thread's clock counts
// that in, so that a task which was interrupted seems to have computed.
func stolen() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 9 {
		return 0 // not told here
	}
	hundredths, _ := strconv.Atoi(fields[8])
	return time.Duration(hundredths) * 10 * time.Millisecond
}

// watch traces the page while something happens.
func (p *page) watch(act func()) seen {
	p.t.Helper()
	complete := cdp.Events(p.ctx, chromedp.FromContext(p.ctx).Target, tracing.TracingComplete)
	_, err := chromedp.Call(p.ctx, tracing.Start, tracing.StartParams{
		TransferMode: tracing.StartTransferModeReturnAsStream,
		TraceConfig:  &tracing.TraceConfig{IncludedCategories: []string{"devtools.timeline", "disabled-by-default-devtools.timeline"}},
	})
	require.NoError(p.t, err)
	before := stolen()
	act()
	found := seen{stolen: stolen() - before}
	_, err = chromedp.Call(p.ctx, tracing.End, cdp.Empty{})
	require.NoError(p.t, err)
	var text []byte
	for over, err := range complete {
		require.NoError(p.t, err)
		for piece := (cdpio.ReadResult{}); !piece.EOF; text = append(text, piece.Data...) {
			piece, err = chromedp.Call(p.ctx, cdpio.Read, cdpio.ReadParams{Handle: over.Stream})
			require.NoError(p.t, err)
		}
		break
	}
	type thread struct{ PID, TID int }
	type event struct {
		thread
		Name    string
		TS, Dur float64
		CPU     float64 `json:"tdur"` // both in microseconds
		Args    struct {
			Name string
			Data struct{ ID int }
		}
	}
	var trace struct {
		Events []event `json:"traceEvents"`
	}
	require.NoError(p.t, json.Unmarshal(text, &trace))
	mains := map[thread]bool{}
	for _, e := range trace.Events {
		mains[e.thread] = mains[e.thread] || e.Name == "thread_name" && e.Args.Name == "CrRendererMain"
	}
	slices.SortFunc(trace.Events, func(a, b event) int { return int(a.TS - b.TS) })
	var last event // of the document's frames
	var computed time.Duration
	var longest event
	for _, e := range trace.Events {
		switch {
		case !mains[e.thread]:
		case e.Name == "RunTask":
			took := time.Duration(e.CPU * float64(time.Microsecond))
			found.tasks = append(found.tasks, took)
			computed += took
			if e.CPU > longest.CPU {
				longest = e
			}
		case e.Name == "FireAnimationFrame" && e.TS-last.TS > 1000: // the first of its frame
			if e.Args.Data.ID > last.Args.Data.ID && last.TS > 0 { // of the same document
				found.frames = append(found.frames, frame{time.Duration((e.TS - last.TS) * float64(time.Microsecond)), computed})
			}
			last, computed = e, 0
		}
	}
	require.NotEmpty(p.t, found.tasks)
	for _, e := range trace.Events {
		if e.thread == longest.thread && e.TS >= longest.TS && e.TS < longest.TS+longest.Dur && e.CPU > longest.CPU/2 {
			found.why = e.Name // the innermost comes last
		}
	}
	return found
}

// Twenty thousand requests, a thousand of them one call: the page makes the rows that can be seen, and no more.
func TestTwentyThousandRequestsKeepItResponsive(t *testing.T) {
	t.Parallel()
	box := start(t, "-seed", "3", "-fault", "GET /v1/auth/tokens:status=503:1000")
	page := box.open()
	page.run(keepDrawing)
	for range 1000 {
		box.send(http.MethodGet, "/v1/auth/tokens", "", nil)
	}
	client := box.client()
	var all, long, taken time.Duration
	measured := func(what string, act func()) {
		seen := page.watch(act)
		t.Logf("%s: %v", what, seen)
		taken += seen.stolen
		for _, task := range seen.tasks {
			all += task
			if task > 50*time.Millisecond {
				long += task
			}
		}
		assert.LessOrEqual(t, eval[int](page, `document.querySelectorAll("*").length`), 1500)
	}
	measured("coming", func() {
		var work sync.WaitGroup
		const clients = 10
		for range clients {
			work.Go(func() {
				pause := &time.Ticker{}
				if *pace > 0 {
					pause = time.NewTicker(clients * time.Second / time.Duration(*pace))
					defer pause.Stop()
				}
				for range 19_000 / clients {
					if pause.C != nil {
						<-pause.C
					}
					_, err := client.Notes.Get(t.Context(), 1)
					assert.NoError(t, err)
				}
			})
		}
		page.click("#pause")
		page.wait(`document.getElementById("pause").getAttribute("aria-pressed") === "true"`)
		page.click("#pause")
		work.Wait()
		page.wait(`document.getElementById("request-count").textContent === "20000"`)
		page.wait(rows + `[0].dataset.id === "20000" && ` + rows + `[0].querySelector(".status").textContent === "200"`)
	})
	measured("finding", func() {
		page.find("call:1")
		page.wait(`document.getElementById("request-count").textContent === "1000 of 20000"`)
		eval[bool](page, `document.getElementById("rows").scrollTo(0, 14800) === undefined`)
		page.wait(rows + `.some(e => e.dataset.id === "500")`)
		page.click("#row-500")
		page.wait(detail + `.textContent.includes("One call, 1000 attempts")`)
		page.find("nothing-has-this")
		page.wait(`document.getElementById("request-count").textContent === "0 of 20000"`)
		page.find("")
		page.keys(kb.Escape)
		page.wait(`document.getElementById("request-count").textContent === "20000"`)
	})
	measured("loading", func() {
		page.visit(box.inspector())
		page.wait(`document.getElementById("request-count").textContent === "20000"`)
	})
	t.Logf("peak %d MiB", box.peakMemory())
	if taken > 10*time.Second { // of two processors in less than a minute: then a task's clock tells nothing of the page
		t.Skipf("the machine's host took %v of the processors' time", taken)
	}
	// A busy host makes a task long now and then; a page that does too much at once has little else.
	assert.Less(t, long, all/4, "of what the page computed, nearly all was done in less than 50 ms at a time")
}

// A frame takes as many requests as it has time for, however many there are: here a clock that goes on by a millisecond
// whenever somebody looks.
func TestAFrameTakesWhatItHasTimeFor(t *testing.T) {
	t.Parallel()
	box := start(t)
	for range 60 {
		box.send(http.MethodGet, "/user", "", nil)
	}
	page := newPage(t)
	page.run(`(() => {
		let now = 0;
		performance.now = () => ++now;
		window.counts = [0];
		addEventListener("DOMContentLoaded", () => {
			const count = document.getElementById("request-count");
			if (count) new MutationObserver(() => window.counts.push(Number(count.textContent))).observe(count, { childList: true });
		});
	})()`)
	page.visit(box.inspector())
	page.wait(`document.getElementById("request-count").textContent === "60"`)
	counts := eval[[]int](page, "window.counts")
	for i := range len(counts) - 1 {
		assert.LessOrEqual(t, counts[i+1]-counts[i], 10, "%v", counts)
	}
}

// A request that comes or ends is looked at alone, not with all that are kept, whatever they are filtered by.
func TestARequestThatComesIsLookedAtAlone(t *testing.T) {
	t.Parallel()
	page := start(t).open()
	const kept, come = 5000, 50
	drawn := "await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));"
	for _, filter := range []string{"", "status:5xx", "note:7", "is:pending"} {
		page.find(filter)
		looks := eval[int](page, fmt.Sprintf(`import("./list.js").then(async (list) => {
			let looks = 0;
			const make = (id, status) => {
				const request = { id, call: id, attempt: 1, at: id, method: "GET", target: "/v1/progress-notes/7", ms: 1 };
				for (const [name, value] of Object.entries({ status, note: 7, pending: !status })) Object.defineProperty(request, name, { get: () => { looks++; return value; } });
				return request;
			};
			list.clear();
			for (let id = 1; id <= %[1]d; id++) list.take(make(id, 503));
			%[3]s
			looks = 0;
			for (let id = %[1]d + 1; id <= %[1]d + %[2]d; id++) {
				list.take(make(id, 0));
				list.take(make(id, 503));
				if (id %% 10 === 0) { %[3]s }
			}
			return looks;
		})`, kept, come, drawn))
		assert.Less(t, looks, kept, filter)
	}
}
