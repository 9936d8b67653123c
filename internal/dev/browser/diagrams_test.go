package browser_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The version of Mermaid that renders the diagrams here, and the SHA-512 of its archive.
const (
	mermaidVersion = "11.17.2"
	mermaidDigest  = "V6K3C8EBdEsPFZXSKMJe6ppQOENxuHARr9GvHX4hh47lAbhMRD9qf4oEK7LoaRQxULMa80/qt5gHO73aCleBBg=="
)

// mermaidScript downloads Mermaid and returns its script for browsers. It skips the test if npm is missing or has no network.
func mermaidScript(t *testing.T) []byte {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("npm was not found: the diagrams of the pages are not rendered")
	}
	folder := t.TempDir()
	pack := exec.CommandContext(t.Context(), "npm", "pack", "--json", "--ignore-scripts", "mermaid@"+mermaidVersion)
	pack.Dir = folder
	var complaints bytes.Buffer
	pack.Stderr = &complaints
	out, err := pack.Output()
	if err != nil {
		t.Skipf("npm cannot download Mermaid, so the diagrams of the pages are not rendered: %v\n%s", err, complaints.String())
	}
	var packed []struct{ Filename string }
	require.NoError(t, json.Unmarshal(out, &packed))
	require.Len(t, packed, 1)
	archive, err := os.ReadFile(filepath.Join(folder, packed[0].Filename))
	require.NoError(t, err)
	digest := sha512.Sum512(archive)
	require.Equal(t, mermaidDigest, base64.StdEncoding.EncodeToString(digest[:]))
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	require.NoError(t, err)
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		require.NoError(t, err, "the archive contains no script for browsers")
		if header.Name == "package/dist/mermaid.min.js" {
			script, err := io.ReadAll(files)
			require.NoError(t, err)
			return script
		}
	}
}

// diagrams returns the Mermaid diagrams of the README and of docs by the name of their page.
func diagrams(t *testing.T) map[string][]string {
	t.Helper()
	pages, err := filepath.Glob("../../../docs/*.md")
	require.NoError(t, err)
	found := map[string][]string{}
	for _, page := range append(pages, "../../../README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		lines := strings.ReplaceAll(string(text), "\r\n", "\n")
		for _, block := range regexp.MustCompile("(?s)\n```mermaid\n(.*?)```").FindAllStringSubmatch(lines, -1) {
			found[filepath.Base(page)] = append(found[filepath.Base(page)], block[1])
		}
	}
	return found
}

// render returns the SVG of a diagram, or why Mermaid cannot render it.
func render(p *page, diagram string) (string, error) {
	p.t.Helper()
	source, err := json.Marshal(diagram)
	require.NoError(p.t, err)
	const code = `mermaid.render("diagram", SOURCE).then((r) => ({svg: r.svg}), (e) => ({error: String(e)}))`
	expression := strings.Replace(code, "SOURCE", string(source), 1)
	type rendered struct {
		SVG   string `json:"svg"`
		Error string `json:"error"`
	}
	result, err := chromedp.Run(p.ctx, chromedp.Evaluate[rendered](expression, chromedp.EvalAwaitPromise))
	require.NoError(p.t, err)
	if result.Error != "" {
		return "", errors.New(result.Error)
	}
	return result.SVG, nil
}

func TestDiagrams_Render(t *testing.T) {
	t.Parallel()
	found := diagrams(t)
	for _, page := range []string{"waiting.md", "retries.md", "uploads.md", "fleets.md"} {
		assert.NotEmpty(t, found[page], "%s has no diagram", page)
	}
	opened := newPage(t)
	script := mermaidScript(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mermaid.js" {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write(script)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, `<!doctype html><link rel="icon" href="data:,"><script src="/mermaid.js"></script>`)
	}))
	defer server.Close()
	opened.do(chromedp.Navigate(server.URL))
	opened.wait("mermaid.render")
	eval[bool](opened, `mermaid.initialize({startOnLoad: false}), true`)

	_, err := render(opened, "flowchart LR\n    a --")
	require.ErrorContains(t, err, "Parse error", "the check notices a broken diagram")
	for page, blocks := range found {
		for _, diagram := range blocks {
			svg, err := render(opened, diagram)
			require.NoError(t, err, "%s: %s", page, diagram)
			assert.Contains(t, svg, "<svg", page)
		}
	}
}
