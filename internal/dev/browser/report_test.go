package browser_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// reportPage uploads a folder in which some recordings fail, and returns the file of the report's page.
func reportPage(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	command := filepath.Join(folder, "clinicaldoc")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", command, ".")
	build.Dir = "../../../cmd/clinicaldoc"
	build.Env = append(os.Environ(), "GOWORK=off")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	refusal := `{"message":"The given data was invalid","errors":{"file":["The recording is in a format that is not accepted."]}}`
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, refusal).After(2))
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.ResetAfterRequest().After(4))
	share := filepath.Join(folder, "share")
	require.NoError(t, os.Mkdir(share, 0o700))
	for _, name := range []string{"visit-1", "visit-2", "visit-3", "visit-4", "a-very-long-name-of-a-synthetic-recording-without-any-blank-in-it"} {
		require.NoError(t, os.WriteFile(filepath.Join(share, name+".wav"), append(wav(), name...), 0o600))
	}
	run := func(args ...string) string {
		c := exec.CommandContext(t.Context(), command, args...)
		c.Env = append(os.Environ(), clinicaldoc.EnvBaseURL+"="+srv.URL, clinicaldoc.EnvToken+"="+srv.Token,
			"HOME="+folder, "CLINICALDOC_KEYRING=off", "CLINICALDOC_STATE_DIR="+filepath.Join(folder, "state"))
		out, err := c.Output()
		t.Log(strings.Join(args, " "), err)
		return string(out)
	}
	run("upload", "--begin", "--patient", "7", "--prompt", "1", "--settle", "1s", "--workers", "1", share)
	page := filepath.Join(folder, "report.html")
	require.NoError(t, os.WriteFile(page, []byte(run("upload", "report", "--reveal", "--html")), 0o600))
	return page
}

func TestReportPage_ReadsWellAtEverySizeAndOnPaper(t *testing.T) {
	t.Parallel()
	path := reportPage(t)
	p := newPage(t)
	p.do(chromedp.Navigate("file://" + path))
	p.wait(`document.querySelector(".outcome b")`)
	p.pictures("report")

	// What somebody has to do stands before what describes the run.
	assert.True(t, eval[bool](p, `document.querySelector("table").getBoundingClientRect().top <
		document.querySelector("dl").getBoundingClientRect().top`))

	// On paper everything is there, dark on light, also what has to be opened on a screen.
	p.scheme("dark")
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print", Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
	require.NoError(t, err)
	assert.Equal(t, "rgb(255, 255, 255)", eval[string](p, `getComputedStyle(document.body).backgroundColor`))
	assert.True(t, eval[bool](p, `document.querySelector("details td").checkVisibility({contentVisibilityAuto: true, visibilityProperty: true})`))
	printed, err := chromedp.Call(p.ctx, cdppage.PrintToPDF, cdppage.PrintToPDFParams{})
	require.NoError(t, err)
	if *screenshots != "" {
		require.NoError(t, os.WriteFile(filepath.Join(*screenshots, "report.pdf"), printed.Data, 0o600))
	}
}
