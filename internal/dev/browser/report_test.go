package browser_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	command := built(t, "cmd/clinicaldoc")
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	share := filepath.Join(folder, "share")
	require.NoError(t, os.Mkdir(share, 0o700))
	record := func(names ...string) {
		for _, name := range names {
			require.NoError(t, os.WriteFile(filepath.Join(share, name+".wav"), append(silence(1), name...), 0o600))
		}
	}
	run := func(args ...string) string {
		c := exec.CommandContext(t.Context(), command, args...)
		c.Env = append(os.Environ(), clinicaldoc.EnvBaseURL+"="+srv.URL, clinicaldoc.EnvToken+"="+srv.Token,
			"HOME="+folder, "CLINICALDOC_KEYRING=off", "CLINICALDOC_STATE_DIR="+filepath.Join(folder, "state"))
		out, err := c.Output()
		t.Log(strings.Join(args, " "), err)
		return string(out)
	}
	upload := func(args ...string) {
		run(append([]string{"upload", "--patient", "7", "--prompt", "1", "--settle", "1s", "--workers", "1", share}, args...)...)
	}
	srv.ScriptNext(clinicaldoctest.Script{}, clinicaldoctest.Script{TranscriptionError: "synthetic: no speech was found"})
	record("visit-01", "visit-02", "visit-03")
	upload("--begin")

	// The second night: 14 are processing, 12 are refused, one with a long name is unresolved.
	srv.SetDelays(clinicaldoctest.Delays{Transcribing: time.Hour})
	refusal := `{"message":"The given data was invalid","errors":{"file":["The recording is in a format that is not accepted."]}}`
	srv.Inject(clinicaldoctest.RouteCreateNote, clinicaldoctest.Answer(422, refusal).Times(12))
	const long = "a-very-long-name-of-a-synthetic-recording-without-any-blank-in-it"
	srv.AddNote(clinicaldoctest.Note{PatientID: 7, Name: long, Audio: silence(1)})
	srv.Inject(clinicaldoctest.RouteAudioURL, clinicaldoctest.Answer(403, "").Always())
	record(long)
	for i := range 26 {
		record(fmt.Sprintf("visit-%02d", i+4))
	}
	upload("--max-wait", "0s")
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
	p.fits("report")

	// Equal recordings are one group: the first ten of them, and the others in a list that can be opened.
	assert.Equal(t, 4, eval[int](p, `document.querySelectorAll("section.group").length`))
	assert.Equal(t, "2 of 30 encounters are complete; 14 are processing, 1 failed, 1 is unresolved, 12 were refused.",
		eval[string](p, `document.querySelector(".outcome b").textContent`))
	assert.Equal(t, 1, eval[int](p, `document.body.innerText.split("format that is not accepted").length - 1`))
	assert.Contains(t, eval[string](p, `[...document.querySelectorAll("summary")].map((s) => s.textContent).join()`),
		"and 2 more,and 4 more,")

	// What somebody has to do stands before what describes the run.
	assert.True(t, eval[bool](p, `document.querySelector(".next").getBoundingClientRect().top <
		document.querySelector("table").getBoundingClientRect().top`))
	assert.True(t, eval[bool](p, `document.querySelector("table").getBoundingClientRect().top <
		document.querySelector("article > dl").getBoundingClientRect().top`))

	// On paper, dark on light: all that somebody decides about, also what has to be opened on a screen, and no long lists of what
	// needs nobody.
	p.scheme("dark")
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print", Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
	require.NoError(t, err)
	assert.Equal(t, "rgb(255, 255, 255)", eval[string](p, `getComputedStyle(document.body).backgroundColor`))
	const isShown = `.checkVisibility({contentVisibilityAuto: true, visibilityProperty: true})`
	assert.True(t, eval[bool](p, `document.querySelector("details.paper td")`+isShown))
	assert.False(t, eval[bool](p, `document.querySelector("details:not(.paper) td")`+isShown))
	assert.True(t, eval[bool](p, `document.querySelector("details:not(.paper) summary")`+isShown))
	_, err = chromedp.Call(p.ctx, cdppage.PrintToPDF, cdppage.PrintToPDFParams{})
	require.NoError(t, err)
}
