package browser_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
)

var (
	scratch  string // a folder that is removed at the end
	building sync.Mutex
)

func TestMain(m *testing.M) {
	var err error
	scratch, err = os.MkdirTemp("", "browser-")
	if err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

// built returns the program of a folder of the repository. It is compiled once.
func built(tb testing.TB, folder string) string {
	tb.Helper()
	building.Lock()
	defer building.Unlock()
	program := filepath.Join(scratch, filepath.Base(folder))
	if _, err := os.Stat(program); err == nil {
		return program
	}
	build := exec.CommandContext(tb.Context(), "go", "build", "-o", program, ".")
	build.Dir = filepath.Join("..", "..", "..", folder)
	build.Env = append(os.Environ(), "GOWORK=off")
	out, err := build.CombinedOutput()
	require.NoError(tb, err, string(out))
	return program
}

// run starts a program, which ends with the test, and returns the lines that it prints.
func run(tb testing.TB, program string, variables []string, args ...string) *bufio.Scanner {
	tb.Helper()
	command := exec.CommandContext(context.WithoutCancel(tb.Context()), program, args...)
	command.Env = append(os.Environ(), variables...)
	command.Stderr = tb.Output()
	stdout, err := command.StdoutPipe()
	require.NoError(tb, err)
	require.NoError(tb, command.Start())
	tb.Cleanup(func() {
		_ = command.Process.Signal(os.Interrupt)
		_, _ = io.Copy(io.Discard, stdout)
		assert.NoError(tb, command.Wait())
	})
	return bufio.NewScanner(stdout)
}

// patience is for a machine with much else to do: nothing here takes as long.
const patience = time.Minute

// proxy is a running developer proxy.
type proxy struct {
	t          testing.TB
	url, token string
}

var printed = regexp.MustCompile(`(?m)^  (base URL|token) +(\S+)$`)

func start(tb testing.TB, args ...string) *proxy {
	tb.Helper()
	p := &proxy{t: tb}
	lines := run(tb, built(tb, "cmd/clinicaldoc-devproxy"), nil, append([]string{"-addr", "127.0.0.1:0", "-quiet"}, args...)...)
	for p.url == "" || p.token == "" && !slices.Contains(args, "-upstream") {
		require.True(tb, lines.Scan(), "it ended early")
		switch found := printed.FindStringSubmatch(lines.Text()); {
		case len(found) == 0:
		case found[1] == "token":
			p.token = found[2]
		default:
			p.url = found[2]
		}
	}
	return p
}

// client is an SDK client that retries at once.
func (p *proxy) client() *clinicaldoc.Client {
	p.t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 200}
	p.t.Cleanup(transport.CloseIdleConnections)
	client, err := clinicaldoc.NewClient(p.url, p.token, clinicaldoc.WithHTTPClient(&http.Client{Transport: transport}),
		clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{MaxRetries: 3, MinWait: time.Millisecond, MaxWait: time.Millisecond}))
	require.NoError(p.t, err)
	return client
}

// page is the inspector in a browser.
type page struct {
	t   testing.TB
	ctx context.Context //nolint:containedctx // chromedp's browser is a context

	lenient bool // the console may complain

	mu       sync.Mutex
	problems []string
}

// open opens the inspector of a proxy.
func (p *proxy) open() *page {
	p.t.Helper()
	opened := newPage(p.t)
	opened.visit(p.inspector())
	return opened
}

// newPage opens a browser, and fails the test when the console ever holds a warning or an error.
func newPage(tb testing.TB) *page {
	tb.Helper()
	found := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome", "headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			found = path
			break
		}
	}
	if found == "" {
		tb.Skip("no Chromium was found: pages are not tested here")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath(found), chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(patience))
	ctx, cancel := chromedp.NewExecAllocator(tb.Context(), options...)
	tb.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	opened := &page{t: tb, ctx: ctx}
	messages := chromedp.Console(ctx)
	var listening sync.WaitGroup
	listening.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Type == chromedp.ConsoleWarning || m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleException {
				opened.mu.Lock()
				opened.problems = append(opened.problems, fmt.Sprint(m))
				opened.mu.Unlock()
			}
		}
	})
	tb.Cleanup(func() {
		cancel()
		listening.Wait()
		if !opened.lenient {
			assert.Empty(tb, opened.problems, "the console is silent")
		}
	})
	opened.do(chromedp.EmulateViewport(1400, 900))
	return opened
}

// inspector is the page's address.
func (p *proxy) inspector() string {
	address, _, _ := strings.Cut(strings.TrimPrefix(p.url, "http://"), "/")
	return "http://" + address + "/_/"
}

// visit goes to the inspector and waits until it is there.
func (p *page) visit(address string) {
	p.t.Helper()
	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(address))
	p.wait(`document.getElementById("connection").textContent === "live"`)
	p.wait(`document.getElementById("mode").textContent !== "inspector"`)
}

func (p *page) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Do(p.ctx, steps...))
}

// eval returns the value of a JavaScript expression, of a promise what it promises.
func eval[T any](p *page, expression string) T {
	p.t.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(p.t, err, expression)
	return value
}

// run runs a script now and in each document that is opened later, before the document's own.
func (p *page) run(script string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: script, RunImmediately: new(true)})
	require.NoError(p.t, err)
}

// holds reports whether an expression is true. It is not while the page is replaced by another one.
func (p *page) holds(expression string) bool {
	p.t.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](expression))
	if err != nil && strings.Contains(err.Error(), "navigated or closed") {
		return false
	}
	require.NoError(p.t, err, expression)
	return value
}

// wait waits until a JavaScript expression is true.
func (p *page) wait(expression string) {
	p.t.Helper()
	holds := "(() => { try { return !!(" + expression + ") } catch { return false } })()"
	for end := time.Now().Add(patience); !p.holds(holds); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			require.Fail(p.t, "it does not come true", "%s\n%s", expression, eval[string](p, "document.body.innerText"))
		}
	}
}

// click clicks on an element as a user does, with a mouse. One that is drawn anew meanwhile is looked for once more.
func (p *page) click(selector string) {
	p.t.Helper()
	for end := time.Now().Add(patience); ; {
		err := chromedp.Do(p.ctx, chromedp.Click(chromedp.CSS(selector)))
		if err == nil {
			return
		}
		require.True(p.t, time.Now().Before(end), "%s: %v", selector, err)
	}
}

// keys presses keys, one after the other.
func (p *page) keys(keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		p.do(chromedp.KeyEvent(key))
	}
}

// scheme makes the browser prefer light or dark.
func (p *page) scheme(name string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
	require.NoError(p.t, err)
}

// sizes are those at which a page has to look well.
var sizes = map[string][2]int64{"desk": {1400, 900}, "tablet": {768, 1024}, "phone": {390, 844}}

// fits asserts that at no size anything is wider than the page.
func (p *page) fits(name string) {
	p.t.Helper()
	for width, size := range sizes {
		p.do(chromedp.EmulateViewport(size[0], size[1]))
		assert.Empty(p.t, eval[string](p, tooWide), "%s at %s is wider than the page", name, width)
	}
	p.do(chromedp.EmulateViewport(1400, 900))
}

// tooWide names the elements that reach beyond the right edge of the window, and those that nothing scrolls to.
const tooWide = `[...document.querySelectorAll("body *")]
	.filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest("[data-scrolls], .scrolls"))
	.map((e) => e.tagName + "." + e.className).join(" ")`

// console returns the warnings and errors of the console so far.
func (p *page) console() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.problems)
}

// silence is a WAV file of so many seconds: 8,000 samples a second of one byte.
func silence(seconds int) []byte {
	const rate = 8000
	var wav bytes.Buffer
	for _, part := range []any{
		[]byte("RIFF"), uint32(36 + seconds*rate), []byte("WAVEfmt "), uint32(16), uint16(1), uint16(1),
		uint32(rate), uint32(rate), uint16(1), uint16(8),
		[]byte("data"), uint32(seconds * rate), bytes.Repeat([]byte{128}, seconds*rate),
	} {
		_ = binary.Write(&wav, binary.LittleEndian, part)
	}
	return wav.Bytes()
}
