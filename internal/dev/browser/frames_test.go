package browser_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
)

// Twenty thousand requests, a thousand of them one call: the page makes the rows that can be seen, and no more.
func TestInspector_TwentyThousandRequests_MakesOnlyVisibleRows(t *testing.T) {
	t.Parallel()
	box := start(t, "-seed", "3", "-fault", "GET /v1/auth/tokens:status=503:1000")
	page := box.open()
	for range 1000 {
		box.send(http.MethodGet, "/v1/auth/tokens", "", nil)
	}
	client := box.client()
	var work sync.WaitGroup
	const clients = 10
	for range clients {
		work.Go(func() {
			for range 19_000 / clients {
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
	assertFewElements := func() {
		t.Helper()
		assert.LessOrEqual(t, eval[int](page, `document.querySelectorAll("*").length`), 1500)
	}
	assertFewElements()

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
	assertFewElements()

	page.visit(box.inspector())
	page.wait(`document.getElementById("request-count").textContent === "20000"`)
	assertFewElements()
}

// A frame takes as many requests as it has time for, however many there are: here a clock that goes on by a millisecond
// whenever somebody looks.
func TestInspector_ManyRequests_AFrameTakesWhatItHasTimeFor(t *testing.T) {
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
func TestInspector_NewRequest_IsFilteredAlone(t *testing.T) {
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
