package browser_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	clinicaldoc "github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// webbackend starts the example on a service, as somebody who copied it would, and returns its address.
func webbackend(t *testing.T, baseURL string) string {
	t.Helper()
	variables := []string{clinicaldoc.EnvBaseURL + "=" + baseURL}
	lines := run(t, built(t, "examples/webbackend"), variables, "-addr", "127.0.0.1:0", "-yes")
	require.True(t, lines.Scan())
	return strings.TrimPrefix(lines.Text(), "open ")
}

// asksBeforeLeaving tells whether the browser would ask before it leaves the page.
const asksBeforeLeaving = `!dispatchEvent(new Event("beforeunload", {cancelable: true}))`

func TestWebBackend_Clinician_ListensEditsAndSigns(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	user := srv.AddUser(clinicaldoctest.User{Name: "Synthetic Clinician"})
	srv.AddPatient(clinicaldoctest.Patient{ID: 7, Name: "Synthetic Patient Seven"})
	srv.AddPatient(clinicaldoctest.Patient{ID: 8, Name: "Synthetic Patient Eight"})
	recording := silence(3600)
	id := srv.AddNote(clinicaldoctest.Note{UserID: user.ID, PatientID: 7, Name: "Visit", Transcription: "A synthetic transcription.", Analysis: "A synthetic analysis.", Audio: recording})
	young := srv.AddNote(clinicaldoctest.Note{UserID: user.ID, PatientID: 7, Name: "Follow-up", Stage: clinicaldoctest.StageTranscribing, Analysis: "Another synthetic analysis."})
	srv.AddNote(clinicaldoctest.Note{PatientID: 8, Name: "Telephone call", Analysis: "A synthetic analysis."})
	srv.AddNote(clinicaldoctest.Note{UserID: user.ID, PatientID: 7, Name: "Home visit", Stage: clinicaldoctest.StageFailed, ErrorState: "synthetic"})
	srv.Freeze()
	p := newPage(t)
	p.lenient = true // a browser says of each status above 400 that it is one
	home := webbackend(t, srv.URL)
	note := fmt.Sprintf("%snotes/%d", home, id)

	p.do(chromedp.Navigate(home))
	p.wait(`document.querySelector("input[name=token]")`)
	p.fits("login")
	p.typeInto("input[name=token]", user.Token)
	p.click("main button")
	p.wait(`document.querySelectorAll("td a").length === 3`)
	p.typeInto("input[name=patient]", "8")
	p.click(".add button")
	p.wait(`document.querySelectorAll("td a").length === 4`)
	p.fits("queue")

	// An hour's recording: what is asked for is the beginning and where the listener goes, not the whole.
	srv.ForgetRequests()
	p.do(chromedp.Navigate(note))
	p.wait(`document.querySelector("audio").readyState >= 1`)
	assert.InDelta(t, 3600, eval[float64](p, `document.querySelector("audio").duration`), 1)
	for _, second := range []int{1800, 3500, 600} {
		p.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(() => { const a = document.querySelector("audio"); a.muted = true; a.currentTime = %d; a.play(); })()`, second)))
		p.wait(fmt.Sprintf(`(a => !a.seeking && a.readyState >= 3 && a.currentTime >= %d)(document.querySelector("audio"))`, second))
	}
	p.fits("note")
	eval[bool](p, `(document.querySelector("audio").pause(), true)`)
	asked, sent, middle := 0, int64(0), false
	for _, request := range srv.Requests() {
		if request.Storage {
			asked, sent = asked+1, sent+request.BytesSent
			var from, to int64
			_, err := fmt.Sscanf(request.Header.Get("Range"), "bytes=%d-%d", &from, &to)
			require.NoError(t, err, "storage is asked for ranges alone")
			assert.Less(t, to-from, int64(1<<20))
			assert.False(t, request.Authorized)
			middle = middle || from > int64(len(recording))/3 && from < int64(len(recording))*2/3
		}
	}
	assert.True(t, middle, "the listener went to the middle")
	t.Logf("%d ranges, %d of %d bytes", asked, sent, len(recording))

	// A colleague's change is not overwritten.
	p.typeInto("textarea", "What I think.")
	_, err := srv.Client(clinicaldoc.WithRetry(clinicaldoc.RetryPolicy{})).Notes.Update(t.Context(), id,
		clinicaldoc.UpdateNoteParams{Analysis: new("What another tab saved.")}, clinicaldoc.WithToken(user.Token))
	require.NoError(t, err)
	p.click("#text button")
	p.wait(`document.querySelector("main").innerText.includes("has changed since you opened it")`)
	assert.Equal(t, "What another tab saved.|What I think.", eval[string](p, `[...document.querySelectorAll("textarea")].map(e => e.value).join("|")`))
	assert.True(t, eval[bool](p, asksBeforeLeaving), "the text that is not saved would be lost")
	p.fits("conflict")
	p.click("#text button")
	p.wait(`document.querySelector("#sign") && document.querySelector("textarea").value === "What I think."`)
	assert.False(t, eval[bool](p, asksBeforeLeaving), "all is saved")
	p.typeInto("textarea", "What we think.")
	p.click("#sign")
	p.wait(`document.querySelector("#hint").textContent.includes("Save the text first")`)
	// Where no answer comes, or a proxy's page, what was written stays.
	for _, answer := range []string{`Promise.reject(new Error("synthetic"))`, `Promise.resolve(new Response("<h1>Too large</h1>", {status: 413}))`} {
		eval[bool](p, `(document.querySelector("#hint").textContent = "", window.kept ??= fetch, window.fetch = () => `+answer+`, true)`)
		p.click("#text button")
		p.wait(`document.querySelector("#hint")?.textContent.includes("Try again") && document.querySelector("textarea").value === "What we think."`)
	}
	eval[bool](p, `(window.fetch = window.kept, true)`)

	// The session ends while somebody writes: the text stays, and is saved after a new login on the same page.
	eval[bool](p, `fetch("/login", {method: "POST"}).then(() => true)`)
	p.click("#text button")
	p.wait(`document.querySelector("#login") && document.querySelector("#text textarea").value === "What we think."`)
	p.fits("session-over")
	p.typeInto("#login input[name=token]", "wrong")
	p.click("#login button")
	p.wait(`document.querySelector(".problem").textContent.includes("rejected the token")`)
	p.typeInto("#login input[name=token]", user.Token)
	p.click("#login button")
	p.wait(`document.querySelector("header").innerText.includes("Synthetic Clinician") && !document.querySelector("#login")`)
	p.click("#text button")
	p.wait(`document.querySelector("#text textarea")?.defaultValue === "What we think."`)

	// What is signed is said once more before it is.
	p.click("#sign")
	p.wait(`document.querySelector("#signing").open`)
	p.fits("sign")
	asks := eval[string](p, `document.querySelector("#signing").innerText`)
	for _, said := range []string{"Synthetic Patient Seven", "no.\u00a07", "Author", "You sign it as Synthetic Clinician"} {
		assert.Contains(t, asks, said)
	}
	p.click("#signing .quiet")
	p.wait(`!document.querySelector("#signing").open`)
	assert.Equal(t, clinicaldoctest.StageComplete, srv.Notes()[0].Stage, "cancelled")
	p.click("#sign")
	p.wait(`document.querySelector("#signing").open`)
	p.click("#confirm")
	p.wait(`document.querySelector(".stage.signed") && !document.querySelector("textarea")`)
	p.fits("signed")
	assert.Equal(t, "What we think.", srv.Notes()[0].Analysis)

	// The page of a note in the making shows its progress.
	p.do(chromedp.Navigate(fmt.Sprintf("%snotes/%d", home, young)))
	p.wait(`document.querySelector(".stage").textContent === "transcribing"`)
	p.fits("progress")
	srv.Unfreeze()
	p.wait(`document.querySelector("textarea")?.value === "Another synthetic analysis."`)

	p.click("header button")
	p.wait(`document.querySelector("input[name=token]")`)
	p.do(chromedp.Navigate(note))
	p.wait(`document.querySelector("input[name=token]") && !document.querySelector("article")`)
	for _, problem := range p.console() {
		assert.NotContains(t, problem, "Content Security Policy")
	}
}

// Two clinicians share a browser. The second one logs in by another tab while the first one's page is open.
func TestWebBackend_AnotherClinicianLoggedIn_IsNamedBeforeSigning(t *testing.T) {
	t.Parallel()
	srv := clinicaldoctest.NewServer()
	t.Cleanup(srv.Close)
	first := srv.AddUser(clinicaldoctest.User{Name: "Synthetic Clinician One"})
	second := srv.AddUser(clinicaldoctest.User{Name: "Synthetic Clinician Two"})
	id := srv.AddNote(clinicaldoctest.Note{UserID: second.ID, PatientID: 7, Name: "Visit"})
	p := newPage(t)
	p.lenient = true // a browser says of each status above 400 that it is one
	home := webbackend(t, srv.URL)
	p.do(chromedp.Navigate(home))
	p.wait(`document.querySelector("input[name=token]")`)
	p.typeInto("input[name=token]", first.Token)
	p.click("main button")
	p.wait(`document.querySelector("header").innerText.includes("Clinician One")`)
	p.do(chromedp.Navigate(fmt.Sprintf("%snotes/%d", home, id)))
	p.wait(`document.querySelector("#sign")`)

	login := fmt.Sprintf(`fetch("/login", {method: "POST", body: new URLSearchParams({token: %q})}).then(r => r.ok)`, second.Token)
	require.True(t, eval[bool](p, login))
	p.click("#sign")
	p.wait(`document.querySelector("#signing").innerText.includes("You sign it as Synthetic Clinician One")`)
	p.click("#confirm")
	p.wait(`document.querySelector(".problem")?.textContent.includes("the page showed another user")`)
	assert.Equal(t, clinicaldoctest.StageComplete, srv.Notes()[0].Stage)
	p.wait(`document.querySelector("header").innerText.includes("Clinician Two")`)
	p.click("#sign")
	p.wait(`document.querySelector("#signing").innerText.includes("You sign it as Synthetic Clinician Two")`)
	p.click("#confirm")
	p.wait(`document.querySelector(".stage.signed")`)
	assert.Equal(t, clinicaldoctest.StageSigned, srv.Notes()[0].Stage)
}
