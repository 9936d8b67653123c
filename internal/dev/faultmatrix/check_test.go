package faultmatrix

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/clinicaldoc/clinicaldoc-go"
	"github.com/clinicaldoc/clinicaldoc-go/clinicaldoctest"
)

// checkError holds an error against what it is promised to be.
func checkError(v *verdict, p promise, err error) {
	for _, target := range p.is {
		v.check(errors.Is(err, target), "%v does not match %q", err, target)
	}
	v.check(p.like == nil || p.like(err), "%v is of another kind", err)
	if p.status != 0 {
		var answered *clinicaldoc.Error
		v.check(errors.As(err, &answered) && answered.StatusCode == p.status, "%v is no *Error of status %d", err, p.status)
	}
	v.check(strings.HasPrefix(err.Error(), "clinicaldoc: "), "%v does not say where it comes from", err)
}

const (
	// maxBytes bounds what one attempt may make the other side send: the limit in force and the sockets' buffers.
	maxBytes = 4 << 20
	// maxConnections bounds what net/http may open by itself within one attempt, with a few to spare.
	maxConnections = 12
)

// checkAttempts holds attempts, requests, waits and bytes against their bounds.
func checkAttempts(v *verdict, p promise, w *world, err error) {
	attempts, requests := p.attempts, p.requests
	if w.op.listed && (err == nil || !w.fault.onConnection()) {
		attempts, requests = attempts.plus(1), requests.plus(1) // the other page's
	}
	times := w.targetTimes()
	traffic := w.soFar()
	v.within("attempts", traffic.attemptsOf(w.op), attempts)
	if len(v.broken) > 0 {
		v.describe(traffic.attempts)
	}
	if w.fault.frames == nil {
		v.within("requests on the wire", len(times), requests)
	}
	all := max(1, len(traffic.attempts))
	v.within("connections", traffic.dials, span{0, maxConnections * all})
	sent := w.home.sent.Load() + w.storage.sent.Load() + w.elsewhere.sent.Load()
	v.within("bytes sent to the SDK", int(sent), span{0, maxBytes * all})
	v.within("bytes kept of an answer", int(traffic.received()), span{0, int(w.maxResponse)})
	if last := len(times) - 1; w.asked > 0 && err == nil && last > 0 {
		waited := times[last].Sub(times[last-1])
		v.check(waited >= w.asked, "it came back after %v, asked to wait %v", waited, w.asked)
	}
}

// describe adds the attempts to what is reported.
func (v *verdict) describe(attempts []clinicaldoc.Attempt) {
	const text = "attempt %d took %v, sent %d bytes, status %d: %v"
	for _, a := range attempts {
		v.broken = append(v.broken, fmt.Sprintf(text, a.Number, a.Duration, a.BytesSent, a.StatusCode, a.Err))
	}
}

// checkToken looks for the token in all that arrived anywhere.
func checkToken(v *verdict, w *world) {
	for _, seen := range w.arrived() {
		if seen.atHome() {
			v.check(slices.Equal(seen.header["Authorization"], []string{"Bearer " + w.secret}), "%s at home without the token", seen.method)
			continue
		}
		v.check(!seen.carriesToken(), "the token went elsewhere with a %s", seen.method)
		v.check(seen.header.Get("Referer") == "", "an address went elsewhere with a %s", seen.method)
	}
	v.check(w.fault.elsewhere || !w.soFar().strayed, "another origin was asked")
}

// checkPrivacy looks for secrets and patients' data in what is printed unasked.
func checkPrivacy(v *verdict, w *world, err error) {
	printed := w.soFar().log
	if err != nil {
		printed += fmt.Sprintf("%v %+v %#v %s %q", err, err, err, err, err)
	}
	for _, secret := range []string{canary, w.secret, "X-Amz", "Synthetic template"} {
		v.check(!strings.Contains(printed, secret), "%q is printed unasked", secret)
	}
}

// checkEdits demands that a colleague's edit is still there, and that BeforeCommit ran before anything could be.
func checkEdits(v *verdict, w *world) {
	v.check(!w.premature.Load(), "BeforeCommit ran when there was a note")
	commits := w.op.kind == creates && w.op.like != "" && w.op.like != w.op.name
	v.check(!commits || w.op.done(w) == 0 || w.agreed.Load() > 0, "there is a note, but BeforeCommit never ran")
	if !w.fault.edits {
		return
	}
	kept := w.count(func(n clinicaldoctest.Note) bool { return n.ID == w.note && n.Analysis == otherAnalysis }) == 1
	named := w.count(func(n clinicaldoctest.Note) bool { return n.ID == w.note && n.Name == otherName }) == 1
	v.check(kept && (named || w.fault.inWindow != nil), "a colleague's edit is lost")
}
