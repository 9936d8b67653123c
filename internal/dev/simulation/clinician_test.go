package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"slices"
	"time"

	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// renamed is how the names begin that clinicians give.
const renamed = "renamed "

// clinician works on the same notes as the programs, in the web application of the service.
type clinician struct {
	being
	team []*program
}

func (c *clinician) live(context.Context) {
	starts := make([]time.Duration, c.world.design.acts)
	for i := range starts {
		d := drawsAt(c.world.seed, uint64(c.number), uint64(i), hashOf("start"))
		starts[i] = d.within(c.world.design.scale)
		if d.chance(0.5) { // just after a program has begun something
			starts[i] = pick(d, pick(d, c.team...).starts()...) + d.within(pick(d, time.Second, 10*time.Second, 90*time.Second))
		}
	}
	slices.Sort(starts)
	for i, start := range starts {
		if !c.begin(i, start) {
			continue
		}
		c.world.slot(c.number)
		c.act(c.draws("act"))
	}
}

func (c *clinician) act(d *draws) {
	if d.chance(0.1) && c.world.design.dictates {
		c.create(d)
		return
	}
	alive := c.world.service.primary.Notes()
	if len(alive) == 0 {
		return
	}
	n := alive[d.below(len(alive))]
	// Where a program has just been, trouble is likeliest.
	if at := slices.IndexFunc(alive, func(n clinicaldoctest.Note) bool { return n.ID == c.world.service.busy.Load() }); at >= 0 && d.chance(0.6) {
		n = alive[at]
	}
	c.change(d.below(10), n)
}

// change is one of the things that clinicians do to a note.
func (c *clinician) change(choice int, n clinicaldoctest.Note) {
	path := fmt.Sprintf("/v1/progress-notes/%d", n.ID)
	text := fmt.Sprintf("%s by %s in step %d", textMark, c.name, c.step)
	switch {
	case choice < 4 && c.world.design.renames && c.world.design.sizes == reencoded: // then nothing is left to know it by
		c.send(http.MethodPut, path, n, map[string]string{"name": renamed + text})
	case choice < 4:
		c.send(http.MethodPut, path, n, map[string]string{"analysis": text})
	case choice < 6:
		c.send(http.MethodPut, path, n, map[string]string{"transcription": text})
	case choice < 7 && c.world.design.renames:
		c.send(http.MethodPut, path, n, map[string]string{"name": nameMark + " " + text})
	case choice < 8:
		c.send(http.MethodPut, path+"/sign", n, nil)
	// In the second in which it was made the next one may get its id, and then nobody can tell them apart.
	case choice < 9 && c.world.design.renames && n.CreatedAt.Unix() < c.world.service.primary.Now().Unix():
		c.send(http.MethodDelete, path, n, nil)
	}
}

// meddle lets a clinician act where a program is about to lose a response, or has read what it is about to change.
func (t *trip) meddle(d *draws, place string) {
	w, r := t.world, t.request
	chance := 0.0
	switch op := r.call.op; {
	case op != "update" && op != "sign" && op != "delete" || r.id() == 0 || time.Now().After(w.calm):
	case r.writes() && t.fault >= 0 && t.fault != refused:
		chance = 0.5
	case !r.writes() && r.call.unchanged != nil:
		chance = 0.2
	}
	after, choice := d.within(t.delay()+pick(d, 0, 600*time.Millisecond, 2*time.Second)), d.below(10)
	if !w.design.meddling || !d.chance(chance) || !w.happens(fmt.Sprintf("%s.%d %s meddled", t.name, r.call.step, place)) {
		return
	}
	c := &clinician{being: being{world: w, name: "m" + t.name, number: t.number + 64, step: r.call.step}}
	w.running.Go(func() {
		time.Sleep(after)
		w.slot(c.number)
		if n := w.service.look(r.id()); n.ID != 0 {
			c.change(choice, n)
		}
	})
}

// send acts in the name of the note's owner.
func (c *clinician) send(method, path string, n clinicaldoctest.Note, fields map[string]string) {
	r := request{method: method, path: path, header: headerOf(tokenOf(n.UserID), "application/json")}
	if fields != nil {
		r.body, _ = json.Marshal(fields)
	}
	resp := c.world.service.serve(r) //nolint:bodyclose // it is in memory
	c.world.say(c.name, "%s %s %v: %d", method, path, fields, resp.StatusCode)
	c.world.count("acts of clinicians", 1)
}

// create makes a note that looks like those of the programs but for its recording.
func (c *clinician) create(d *draws) {
	p := pick(d, c.team...)
	name := p.noteName(d)
	c.dictate(p.token, name, p.patient(d))
}

// dictate makes a note of a recording that no program has.
func (c *clinician) dictate(token, name string, patient int64) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	file, _ := form.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {multipart.FileContentDisposition("file", "dictated.wav")},
		"Content-Type":        {"audio/wav"}, // text that is sent without a type cannot be read back as a recording
	})
	_, _ = fmt.Fprintf(file, "%s.%d %0900d", c.name, c.step, 0)
	_ = form.WriteField("name", name)
	_ = form.WriteField("patient_id", fmt.Sprint(patient))
	_ = form.WriteField("prompt_id", "1")
	_ = form.Close()
	r := request{method: http.MethodPost, path: "/v1/progress-notes", header: headerOf(token, form.FormDataContentType()), body: body.Bytes()}
	resp := c.world.service.serve(r) //nolint:bodyclose // it is in memory
	c.world.say(c.name, "creates a note: %d", resp.StatusCode)
	c.world.count("acts of clinicians", 1)
}

func tokenOf(user int64) string {
	return map[int64]string{1: firstToken, 2: otherToken, 3: colleagueToken}[user]
}

func headerOf(token, contentType string) http.Header {
	return http.Header{"Authorization": {"Bearer " + token}, "Accept": {"application/json"}, "Content-Type": {contentType}}
}
